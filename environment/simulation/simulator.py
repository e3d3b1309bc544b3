"""A policy's run over a workload on a cluster, through the same contract as in the daemon.

The rules are the kernel's; here is who asks the policy when. At one instant jobs end first, then jobs arrive,
then the policy decides, again and again until the queue is empty or it waits. A wait lasts until something
happens, the end of a job or an arrival, as in the daemon: a policy that looks at the whole queue may decide
otherwise when that has grown. A job that is placed before older ones becomes the head of the kernel's queue
first. (Episodes in which only the head is seen wait until a job ends: rule 4.)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from environment.kernel import rewards, rules, sized
from environment.kernel.arrays import episode_of, jobs_of, refusals, vms_in_thousandths
from environment.kernel.durations import is_good
from environment.kernel.rule_options import DurationOptions, RewardOptions
from environment.kernel.rule_options import rules as numbers_of
from environment.kernel.state import Batch, SmallIntArray, make_batch
from environment.policy import Decide, Policy, Timed
from environment.rounds import Queue, Verdict, decide_once
from environment.simulation.expectations import Belief
from environment.simulation.fitted import FittedDurations, Pace
from environment.simulation.limits import perfect_packing_bound
from environment.simulation.results import JobOutcome, Result, Traced, cost_shares
from environment.types import (
    ClusterView,
    Decision,
    EndedJob,
    FloatArray,
    Job,
    Observer,
    Place,
    PlacementRequest,
    RunningJob,
    Size,
    Vm,
    Wait,
)
from profiles.profile import JobProfile, load_profiles
from profiles.workload import Workload

#: How many jobs of how many are placed.
Progress = Callable[[int, int], None]

#: Chosen: often enough for a progress bar, seldom enough to cost nothing.
_REPORTS = 200


class StuckError(RuntimeError):
    """A policy waits although nothing runs and nothing will arrive; the text names job and reason."""


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """What a run depends on beside policy, workload and cluster."""

    durations: DurationOptions = field(default_factory=DurationOptions)
    #: Durations as they were measured, instead of `durations`.
    fitted: FittedDurations | None = None
    #: By job type: which placement it prefers. Types that are not there prefer none.
    profiles: Mapping[str, JobProfile] = field(default_factory=load_profiles)
    #: What policies may expect of all that, and the seed of where they err.
    belief: Belief = field(default_factory=Belief)
    seed: int = 0
    #: Keep what policies made of every VM with every decision; large for large clusters.
    scores: bool = False

    def drawn(self, seed: int) -> "SimulationOptions":
        """The same with this seed for what is drawn."""
        fitted = self.fitted and replace(self.fitted, seed=seed)
        return replace(self, fitted=fitted, seed=seed)

    @property
    def truth(self) -> str:
        """Where the durations come from that jobs really have: profile, fitted or drawn."""
        if self.fitted is None:
            return "profile"
        return "drawn" if self.fitted.draw == "sample" else "fitted"


def simulate(
    policy: Policy,
    workload: Workload,
    cluster: Sequence[Vm],
    *,
    options: SimulationOptions | None = None,
    fallback: Policy | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run the policy until all jobs have ended.

    Jobs that would not fit the empty cluster are refused up front, and named in the result. A decision that
    cannot be executed counts as a violation and becomes the fallback's decision, or a wait if there is none.

    Raises:
        StuckError: the policy waits (and so does the fallback) although nothing will ever happen.
    """
    options = options or SimulationOptions()
    vms, jobs = vms_in_thousandths(cluster), jobs_of(workload, options.profiles)
    pace = Pace(options.fitted, workload) if options.fitted else None
    if pace is not None:
        jobs = pace.best(jobs, len(vms))
    refused = refusals(jobs, vms)
    jobs = tuple(job for job in jobs if job.id not in refused)
    watch, cut_short = _Stopwatch(policy), _cut_short(policy)
    world = _World(jobs, vms, options, pace)
    trace = []
    observe = policy.observe if isinstance(policy, Observer) else None
    for traced in _run(world, watch.decide, fallback.decide if fallback else None, observe):
        trace.append(traced if options.scores else _without_scores(traced))
        if progress is not None and isinstance(traced.decision, Place):
            _report(progress, world.head, len(jobs))
    result = _result(world, trace, refused, watch.seconds)
    return replace(result, cut_short=_cut_short(policy) - cut_short)


def _cut_short(policy: object) -> int:
    """How many decisions of the policy a safety stop has cut short so far."""
    return policy.cut_short if isinstance(policy, Timed) else 0


class _Stopwatch:
    """A policy whose decisions are timed."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.seconds: list[float] = []

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        began = perf_counter()
        try:
            return self._policy.decide(view, queue)
        finally:
            self.seconds.append(perf_counter() - began)


class _World:
    """One episode of the kernel as views and requests.

    Attributes:
        jobs: in order of arrival, with what is believed of them.
        truth: by id the same jobs, with what they really take.
        requests: of the jobs that have arrived, placed or not, in the kernel's order; the head is at `head`.
    """

    def __init__(
        self, jobs: Sequence[Job], vms: tuple[Vm, ...], options: SimulationOptions, pace: Pace | None = None
    ) -> None:
        self.truth = {job.id: job for job in jobs}
        self.jobs, self.vms = believed(jobs, options, pace), vms
        # With a pace, what a job takes is known to it alone, and told to the kernel when the job is placed.
        self.pace = pace
        durations = DurationOptions(model="fixed") if pace else options.durations
        self.batch: Batch = make_batch([episode_of(jobs, vms)], numbers_of(RewardOptions(), durations))
        self.requests: list[PlacementRequest] = []
        self._running: dict[int, RunningJob] = {}
        #: Core-seconds of jobs that were given less than they ask for, by id.
        self.partial: dict[str, float] = {}
        self._sizes: dict[int, tuple[Size, ...]] = {}
        self.spared = sized.nothing_spared(self.batch)
        self.options = options
        self._ids = [vm.id for vm in vms]
        self._index = {vm.id: number for number, vm in enumerate(vms)}
        #: What is free beside cpus and memory, of which the kernel knows nothing: [N] by name.
        self._free_resources: dict[str, FloatArray] = {
            name: np.array([vm.resources.get(name, 0.0) for vm in vms])
            for name in sorted({name for job in jobs for name in job.resources})
        }
        zeros = np.zeros(len(vms))
        self._empty = ClusterView(0.0, vms, zeros, zeros, np.zeros(len(vms), np.int64))
        for name in ("prices_per_hour", "cpus", "memory_mib"):
            getattr(self._empty, name).flags.writeable = False  # computed here once, and kept by all views
        self._penalty = options.durations.penalty if options.durations.model == "paper" else 1.0
        rules.reset(self.batch, 0)
        self._arrive()

    @property
    def now(self) -> float:
        return float(self.batch.state.clock[0])

    @property
    def head(self) -> int:
        return int(self.batch.state.head[0])

    def view(self) -> ClusterView:
        state = self.batch.state
        return self._empty.changed(
            at=self.now,
            free_cpus=state.free_milli_cpus[0] / 1000.0,
            free_memory_mib=state.free_memory_mib[0].astype(np.float64),
            executors=state.held[0].copy(),
            running=tuple(self._running.values()),
            free_resources={name: free.copy() for name, free in self._free_resources.items()},
        )

    def place(self, request: PlacementRequest, place: Place) -> None:
        head, placement = self.head, np.array(place.placement, np.int32)
        if request is not self.requests[head]:
            number = next(n for n in range(head, len(self.requests)) if self.requests[n] is request)
            rules.bring_forward(self.batch, 0, number)
            self.requests.insert(head, self.requests.pop(number))
        whole = len(placement) == request.count and place.sizes in ((), request.asked)
        sizes = () if whole else request.granted(place)
        given, job = sizes or request.asked, self.truth[request.job.id]
        mean = None if self.pace is None else self._paced(self.pace, job, given, placement)
        if mean is not None and self.pace is not None:
            seconds = mean * self.pace.luck(job)
        elif whole:
            seconds = float(self.batch.jobs.duration[0, head])
        else:
            seconds = _seconds(job, sizes, self.options)
        self.batch.jobs.duration[0, head] = seconds
        if whole:
            rules.place_job(self.batch, 0, placement)
        else:
            self._place_part(job, head, placement, sizes, seconds)
        ids = tuple(self._ids[vm] for vm in place.placement)
        expected = self._expected(request.job, head, given, len(set(ids)), mean)
        self._running[head] = RunningJob(request.job, ids, self.now, expected, sizes)
        self._take(request.job, ids)

    def _place_part(
        self, job: Job, number: int, placement: SmallIntArray, sizes: tuple[Size, ...], seconds: float
    ) -> None:
        """Start a job on less than it asks for."""
        cpus = np.array([round(size.cpus * 1000) for size in sizes], np.int64)
        memory = np.array([size.memory_mib for size in sizes], np.int64)
        sized.place_sized(self.batch, self.spared, 0, placement, cpus, memory, seconds)
        self._sizes[number] = sizes
        self.partial[job.id] = sum(size.cpus for size in sizes) * seconds

    def _paced(self, pace: Pace, job: Job, sizes: Sequence[Size], placement: SmallIntArray) -> float:
        """Mean seconds of a job that is about to be placed, with what the VMs hold now."""
        used = np.unique(placement)
        free = self.batch.state.free_milli_cpus[0, used] / self.batch.machines.milli_cpus[0, used]
        return pace.seconds(job, sizes, len(used), float(np.mean(1.0 - free)))

    def _expected(
        self, job: Job, number: int, sizes: tuple[Size, ...], vms: int, mean: float | None
    ) -> float | None:
        """Seconds that a job which has just started is believed to take on its placement.

        As the daemon believes it, of what is believed of the job; where a fitted model tells what placement
        and company mean, by that.
        """
        if self.options.belief.exact:
            return float(self.batch.state.end[0, number] - self.batch.state.start[0, number])
        best = self.truth[job.id].expected_duration
        if mean is None or self.pace is None or job.expected_duration is None or not best:
            return job.expected_on(sizes, vms, self._penalty)
        return mean * self.pace.luck(job) * job.expected_duration / best

    def _take(self, job: Job, vm_ids: Sequence[str], executors: float = 1.0) -> None:
        """So many executors on each VM take what they need beside cpus and memory; -1: they give it back."""
        for name, amount in job.resources.items():
            np.subtract.at(self._free_resources[name], [self._index[i] for i in vm_ids], executors * amount)

    def next_event(self) -> float | None:
        """When the next job ends or arrives; None when nothing will happen."""
        ends = [rules.next_completion(self.batch, 0)] if self.batch.state.running[0] else []
        arrives = [self.jobs[len(self.requests)].submitted_at] if len(self.requests) < len(self.jobs) else []
        return min((*ends, *arrives), default=None)

    def pass_time(self, until: float) -> list[EndedJob]:
        """Let the clock go to `until`; the jobs that ended on the way, in order."""
        state = self.batch.state
        before = state.running[0]
        sized.advance_sized(self.batch, self.spared, 0, until)
        ended = []
        # The kernel fills the place behind those that run from its end.
        for number in reversed(state.heap[0, state.running[0] : before].tolist()):
            was, end = self._running.pop(number), float(state.end[0, number])
            ended.append(EndedJob(was.job, was.vm_ids, was.taken, was.started_at, end, True))
            self._take(was.job, was.vm_ids, -1.0)
        self._arrive()
        return ended

    def finish(self) -> None:
        """All jobs are placed: let the running ones end."""
        sized.finish_sized(self.batch, self.spared, 0)

    def sizes(self, number: int) -> tuple[Size, ...]:
        """What the executors of a job, by its number in the kernel, take; empty when that is what it asks."""
        return self._sizes.get(number, ())

    def _arrive(self) -> None:
        now, jobs = self.now, self.jobs
        while len(self.requests) < len(jobs) and jobs[len(self.requests)].submitted_at <= now:
            job = jobs[len(self.requests)]
            self.requests.append(PlacementRequest(job, job.executors))


def believed(jobs: Sequence[Job], options: SimulationOptions, pace: Pace | None = None) -> tuple[Job, ...]:
    """The jobs, of which it is known what they will take, with what policies are told of them instead."""
    known = {*options.profiles, *(options.fitted.model.types if options.fitted else ())}
    mean = pace.mean if pace is not None and options.truth == "drawn" else None
    return options.belief.of(jobs, options.seed, mean=mean, known=known)


def _seconds(job: Job, sizes: tuple[Size, ...], options: SimulationOptions) -> float:
    """Seconds that a job takes on executors of these sizes, which are less than it asks for."""
    profile = options.profiles.get(job.type)
    if profile is None or options.durations.partial == "proportional" or job.expected_duration is None:
        return job.duration_on(sizes) or 0.0
    cores, memory_mib = sum(size.cpus for size in sizes), sum(size.memory_mib for size in sizes)
    asked = profile.duration(job.cpus, job.memory_mib, job.executors)
    return job.expected_duration * profile.duration_on(cores, memory_mib) / asked


def _run(
    world: _World, decide: Decide, fallback: Decide | None, observe: Callable[[EndedJob], None] | None
) -> Iterator[Traced]:
    def pass_time(until: float) -> None:
        for ended in world.pass_time(until):
            if observe is not None:
                observe(ended)

    while (head := world.head) < len(world.jobs):
        if head == len(world.requests):
            pass_time(world.jobs[head].submitted_at)
        queue = Queue(world.requests, head)
        waiting = len(queue)
        verdict = decide_once(decide, world.view(), queue, fallback=fallback)
        event = world.next_event() if isinstance(verdict.decision, Wait) else None
        if isinstance(verdict.decision, Wait) and event is None:
            verdict = _unstick(verdict, verdict.decision, queue, fallback)
        if isinstance(verdict.decision, Place):
            world.place(verdict.request, verdict.decision)
        elif event is not None:
            pass_time(event)
        yield Traced(verdict.view.at, verdict.request.job.id, waiting, verdict.decision, verdict.faults)
    world.finish()


def _unstick(
    verdict: Verdict, wait: Wait, queue: Sequence[PlacementRequest], fallback: Decide | None
) -> Verdict:
    """The policy waits for nothing: the fallback places the job, or the run is over."""
    fault = f"it waits although nothing runs and nothing will arrive: {wait.reason}"
    if fallback is not None:
        second = decide_once(fallback, verdict.view, queue)
        if isinstance(second.decision, Place):
            return replace(second, faults=(*verdict.faults, fault))
    raise StuckError(f"{queue[0].job.id} will never be placed at {verdict.view.at:g} s: {fault}")


def _without_scores(traced: Traced) -> Traced:
    decision = traced.decision
    if isinstance(decision, Place) and (decision.scores or decision.details):
        return replace(traced, decision=replace(decision, scores=(), details={}))
    return traced


def _report(progress: Progress, placed: int, jobs: int) -> None:
    if placed == jobs or placed % max(1, jobs // _REPORTS) == 0:
        progress(placed, jobs)


def _result(
    world: _World, trace: Sequence[Traced], refused: Mapping[str, str], seconds: Sequence[float]
) -> Result:
    state, count = world.batch.state, len(world.jobs)
    outcomes = {outcome.name: outcome for outcome in _outcomes(world)}
    return Result(
        jobs=tuple(outcomes[job.id] for job in world.jobs),
        vms=world.vms,
        vm_seconds=tuple(state.used[0].tolist()),
        cost=rewards.cost(world.batch, 0),
        bound=_bound(world) if count else 0.0,
        decisions=tuple(trace),
        refused=refused,
        decision_seconds=np.array(seconds),
        truth=world.options.truth,
        belief=str(world.options.belief),
    )


def _bound(world: _World) -> float:
    return perfect_packing_bound(list(world.truth.values()), world.vms, world.partial)


def _outcomes(world: _World) -> Iterator[JobOutcome]:
    jobs, state = world.batch.jobs, world.batch.state
    placement = state.placement[0].tolist()
    rows = zip(
        (request.job for request in world.requests),
        jobs.first[0].tolist(),
        jobs.executors[0].tolist(),
        jobs.prefers[0].tolist(),
        state.start[0].tolist(),
        state.end[0].tolist(),
        _shares(world).tolist(),
        strict=True,
    )
    for number, (job, first, executors, prefers, start, end, cost) in enumerate(rows):
        vms = tuple(placement[first : first + executors])
        yield JobOutcome(
            job.id, job.type, job.cpus, job.memory_mib, job.executors, job.submitted_at, start, end, vms,
            is_good(prefers, executors, len(set(vms))), cost, world.sizes(number),
        )  # fmt: skip


def _shares(world: _World) -> FloatArray:
    """Each job's share in the cost, dollars, [M]."""
    jobs, state, executors = world.batch.jobs, world.batch.state, world.batch.jobs.executors[0]
    job = np.repeat(np.arange(len(executors)), executors)
    # Jobs with fewer executors than they ask for leave places unused.
    at = np.arange(len(job)) - np.repeat(np.cumsum(executors) - executors, executors) + jobs.first[0][job]
    milli_cpus = jobs.milli_cpus[0][job] - world.spared.milli_cpus[at]
    return cost_shares(
        job,
        state.placement[0][at].astype(np.int64),
        state.start[0][job],
        state.end[0][job],
        milli_cpus / 1000.0,
        world.batch.machines.price_per_hour[0],
    )
