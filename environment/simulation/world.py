"""A simulated cluster: one episode of the kernel, shown as views and requests and moved by placements.

The rules are the kernel's, and who asks a policy when is in `simulator`. What happens is apart from what is
believed of it: a view is made of belief alone.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from environment.kernel import rules, sized
from environment.kernel.arrays import episode_of
from environment.kernel.leases import BOOT, CLOSES, READY
from environment.kernel.rule_options import DurationOptions, RewardOptions
from environment.kernel.rule_options import rules as numbers_of
from environment.kernel.state import Batch, SmallIntArray, make_batch
from environment.model.reach import Reach
from environment.model.timings import RELAUNCH_GRACE
from environment.pools import Openings
from environment.resource_arrays import ResourceArrays
from environment.resources import BASIC, CPUS, NOTHING, Resources
from environment.rounds import Queue
from environment.simulation.fitted import Pace
from environment.simulation.losses import Executors, Loss, Stint, move
from environment.simulation.options import SimulationOptions, believed
from environment.types import EndedJob, IntArray, Job, Place, PlacementRequest, Vm
from environment.view import ClusterView, RunningJob

#: Where lost executors are until they are placed again: it has nothing, and costs nothing.
_NOWHERE = Vm("", "", "", NOTHING, 0.0)


class World:
    """One episode of the kernel as views and requests."""

    def __init__(
        self, jobs: Sequence[Job], vms: tuple[Vm, ...], options: SimulationOptions, pace: Pace | None = None
    ) -> None:
        #: The jobs by id, with what they really take.
        self.truth = {job.id: job for job in jobs}
        #: `jobs` are in order of arrival, with what is believed of them.
        self.jobs, self.vms = believed(jobs, options, pace), vms
        #: By number in the kernel: the VMs that are there, and one behind them for what is lost, if anything.
        self._there: IntArray = np.arange(len(vms))
        #: The rows of the kernel's that are shown: as a slice, which is quicker, as long as none is lost.
        self._shown: IntArray | slice = slice(len(vms))
        self._losses = sorted(options.losses, key=lambda loss: loss.at)
        #: What could be had of the VMs that are left; None as long as none is lost.
        self._reach: Reach | None = None
        rows = (*vms, _NOWHERE) if self._losses else vms
        # With a pace, what a job takes is known to it alone, and told to the kernel when the job is placed.
        self.pace = pace
        durations = DurationOptions(model="fixed") if pace else options.durations
        self.batch: Batch = make_batch(
            [episode_of(jobs, rows, keeping=options.keeping)], numbers_of(RewardOptions(), durations)
        )
        #: Of the jobs that have arrived, placed or not, in the kernel's order; the head is at `head`.
        self.requests: list[PlacementRequest] = []
        self._running: dict[int, RunningJob] = {}
        self._executors: dict[int, Executors] = {}
        #: Jobs, by number, of which executors are missing, and when these may be placed again.
        self._due: dict[int, float] = {}
        #: For the bill: what is over of executors that were lost, and since when others are where they are.
        self.stints: list[Stint] = []
        self.since: dict[int, float] = {}
        #: Where executors were at first that are elsewhere now.
        self.first: dict[int, int] = {}
        #: Core-seconds of jobs that were given less than they ask for, by id.
        self.partial: dict[str, float] = {}
        self._sizes: dict[int, tuple[Resources, ...]] = {}
        self.spared = sized.nothing_spared(self.batch)
        self.options = options
        self._ids = [vm.id for vm in vms]
        self._index = {vm.id: number for number, vm in enumerate(vms)}
        #: What executors take, by their place in the kernel, where that is not what their job asks for.
        self.given: dict[int, Resources] = {}
        #: What is free beside cpus and memory, of which the kernel knows nothing: thousandths, [N] by name.
        others = sorted({name for job in jobs for name in job.size.thousandths} - {*BASIC})
        self._others = {name: np.array([vm.resources.get(name) for vm in vms], np.int64) for name in others}
        self._empty = _empty(vms, others)
        rules.reset(self.batch, 0)
        self._lose_until(self.now)
        self._arrive()

    @property
    def now(self) -> float:
        """Seconds since the workload began."""
        return float(self.batch.state.clock[0])

    @property
    def head(self) -> int:
        """The number of the first job that was never placed."""
        return int(self.batch.state.head[0])

    @property
    def elastic(self) -> bool:
        """Whether some of its VMs come and go."""
        return self.batch.machines.leases.shape[1] > 0

    def view(self) -> ClusterView:
        """What policies see."""
        state, shown = self.batch.state, self._shown
        return self._empty.changed(
            at=self.now,
            free=ResourceArrays.basic(
                state.free_milli_cpus[0, shown],
                state.free_memory_mib[0, shown],
                {name: free[shown].copy() for name, free in self._others.items()},
            ),
            executors=state.held[0, shown].copy(),
            running=tuple(self._running.values()),
            openings=self._openings(),
        )

    def _openings(self) -> Openings | None:
        """Which VMs are open; None where all are, always."""
        if not self.elastic:
            return None
        lease = self.batch.machines.leases[0, self._there]
        is_open = lease[:, CLOSES] >= self.now
        return Openings(is_open, np.where(is_open, lease[:, READY], self.now + lease[:, BOOT]))

    def queue(self) -> Queue:
        """Who waits: lost executors that may be placed again, then jobs in order; not who is aside."""
        due = [self._again(number) for number, at in self._due.items() if at <= self.now]
        new = Queue(self.requests, self.head)
        if self._reach is not None:
            return Queue([request for request in (*due, *new) if not self._beyond(request)])
        return Queue([*due, *new]) if due else new

    def aside(self) -> dict[str, str]:
        """The jobs, by id, that wait and could not run even alone on the VMs that are left, and why."""
        waiting = self.requests[self.head :]
        return {request.job.id: why for request in waiting if (why := self._beyond(request))}

    def _beyond(self, request: PlacementRequest) -> str:
        """Why the VMs that are left would not do even if nobody held anything; empty when they would."""
        if self._reach is None:
            return ""
        return self._reach.beyond_vms(request) if self._reach.vms else "no VM is left"

    def place(self, request: PlacementRequest, place: Place) -> None:
        """Execute a decision about a request of the queue."""
        head, placement = self.head, self._there[list(place.placement)].astype(np.int32)
        if request.again:
            self._place_again(request, placement.tolist(), request.granted(place))
            return
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
        ids = tuple(self._ids[vm] for vm in placement.tolist())
        expected = self._expected(request.job, head, given, len(set(ids)), mean)
        started = float(self.batch.state.start[0, head])
        self._running[head] = RunningJob(request.job, ids, started, expected, sizes)
        self._take(ids, given)
        if self._losses:
            first = int(self.batch.jobs.first[0, head])
            self._executors[head] = Executors(list(range(first, first + len(ids))))

    def _place_part(
        self, job: Job, number: int, placement: SmallIntArray, sizes: tuple[Resources, ...], seconds: float
    ) -> None:
        """Start a job on less than it asks for."""
        cpus = np.array([size.get(CPUS) for size in sizes], np.int64)
        memory = np.array([size.memory_mib for size in sizes], np.int64)
        sized.place_sized(self.batch, self.spared, 0, placement, cpus, memory, seconds)
        self._sizes[number] = sizes
        self.given |= dict(enumerate(sizes, int(self.batch.jobs.first[0, number])))
        self.partial[job.id] = sum(size.cpus for size in sizes) * seconds

    def _paced(self, pace: Pace, job: Job, sizes: Sequence[Resources], placement: SmallIntArray) -> float:
        """Mean seconds of a job that is about to be placed, with what the VMs hold now."""
        used = np.unique(placement)
        free = self.batch.state.free_milli_cpus[0, used] / self.batch.machines.milli_cpus[0, used]
        return pace.seconds(job, sizes, len(used), float(np.mean(1.0 - free)))

    def _expected(
        self, job: Job, number: int, sizes: tuple[Resources, ...], vms: int, mean: float | None
    ) -> float | None:
        """Seconds that a job which has just started is believed to take on its placement.

        As the daemon believes it, of what is believed of the job, whatever bad placements really cost; where
        a fitted model tells what placement and company mean, by that.
        """
        if self.options.belief.exact:
            return float(self.batch.state.end[0, number] - self.batch.state.start[0, number])
        if mean is None or self.pace is None or self.options.as_daemon or job.expected_duration is None:
            return job.expected_on(sizes, vms)
        # Without luck, which would show in the last bits; there is none where no mean is known.
        best = self.pace.mean(job) or self.truth[job.id].expected_duration
        return mean * job.expected_duration / best if best else job.expected_on(sizes, vms)

    def _take(self, vm_ids: Sequence[str], sizes: Sequence[Resources], times: int = 1) -> None:
        """Executors on these VMs take what they have beside cpus and memory; times -1 they give it back."""
        for name, free in self._others.items():
            taken = [times * size.get(name) for size in sizes]
            np.subtract.at(free, [self._index[vm_id] for vm_id in vm_ids], taken)

    def next_event(self) -> float | None:
        """When the next job ends or arrives, or something is lost or due; None when nothing will happen."""
        ends = [rules.next_completion(self.batch, 0)] if self.batch.state.running[0] else []
        arrives = [self.jobs[len(self.requests)].submitted_at] if len(self.requests) < len(self.jobs) else []
        if not (ends or arrives):
            return None
        lost = [self._losses[0].at] if self._losses else []
        due = [at for at in self._due.values() if at > self.now]
        return min((*ends, *arrives, *lost, *due))

    def next_request(self) -> float | None:
        """When somebody may wait again, while nobody does; None when nobody will."""
        if self.options.losses:
            return self.next_event()
        return self.jobs[len(self.requests)].submitted_at if len(self.requests) < len(self.jobs) else None

    def pass_time(self, until: float) -> list[EndedJob]:
        """Let the clock go to `until`, at most the next event; the jobs that ended on the way, in order."""
        state = self.batch.state
        before = state.running[0]
        sized.advance_sized(self.batch, self.spared, 0, until)
        ended = []
        # The kernel fills the place behind those that run from its end.
        for number in reversed(state.heap[0, state.running[0] : before].tolist()):
            was, end = self._running.pop(number), float(state.end[0, number])
            vm_ids, sizes = self._had(number, was)
            ended.append(EndedJob(was.job, vm_ids, sizes, was.started_at, end, True))
            self._take(was.vm_ids, was.taken, -1)
            self._executors.pop(number, None)
            self._due.pop(number, None)
        self._lose_until(until)
        self._arrive()
        return ended

    # ---- what is lost ------------------------------------------------------------------------------

    def _lose_until(self, at: float) -> None:
        while self._losses and self._losses[0].at <= at:
            self._lose(self._losses.pop(0))

    def _lose(self, loss: Loss) -> None:
        """The VM, or the executor, is gone."""
        if loss.vm in self._index:
            gone = self._index[loss.vm]
            self._there = self._shown = self._there[self._there != gone]
            there = tuple(self.vms[vm] for vm in self._there)
            self._empty, self._reach = _empty(there, self._others), Reach(there, known=True)
            for number, executors in self._executors.items():
                on = [at for at in executors.present if self.batch.state.placement[0, at] == gone]
                self._miss(number, on)
        for number, running in self._running.items():
            present = self._executors[number].present
            if running.job.id == loss.job and loss.executor < len(present):
                self._miss(number, [present[loss.executor]])

    def _miss(self, number: int, executors: list[int]) -> None:
        """These executors of the job are missing from now on."""
        state, running, of = self.batch.state, self._running[number], self._executors[number]
        for at in executors:
            vm = int(state.placement[0, at])
            start = self.since.pop(at, float(state.start[0, number]))
            self.stints.append(Stint(number, vm, start, self.now, self._size(running.job, at)))
            self.since[at] = self.now
            self.first.setdefault(at, vm)
            of.lost[at] = vm
            move(self.batch, self.spared, number, at, len(self.vms))
            self._take([self._ids[vm]], [self._size(running.job, at)], -1)
            self._due.setdefault(number, self.now + RELAUNCH_GRACE)
        self._show(number)

    def _again(self, number: int) -> PlacementRequest:
        """What the job is missing."""
        running, executors = self._running[number], self._executors[number]
        sizes = tuple(self._size(running.job, at) for at in executors.missing)
        alike = set(sizes) == {running.job.size}
        return PlacementRequest(running.job, len(sizes), running.vm_ids, True, 0, () if alike else sizes)

    def _place_again(
        self, request: PlacementRequest, placement: list[int], sizes: tuple[Resources, ...]
    ) -> None:
        number = next(n for n, running in self._running.items() if running.job.id == request.job.id)
        executors, jobs = self._executors[number], self.batch.jobs
        del self._due[number]
        for at, vm, size in zip(executors.missing, placement, sizes, strict=True):
            self.spared.milli_cpus[at] = jobs.milli_cpus[0, number] - size.get(CPUS)
            self.spared.memory_mib[at] = jobs.memory_mib[0, number] - size.memory_mib
            self.given[at] = size
            move(self.batch, self.spared, number, at, vm)
            self.since[at] = self.now
            del executors.lost[at]
            executors.order.remove(at)
            executors.order.append(at)
        self._take([self._ids[vm] for vm in placement], sizes)
        self._show(number)

    def _show(self, number: int) -> None:
        """What is seen of a job whose executors are not where they were when it started."""
        running, executors = self._running[number], self._executors[number]
        vm_ids = tuple(self._ids[self.batch.state.placement[0, at]] for at in executors.present)
        sizes = tuple(self._size(running.job, at) for at in executors.present)
        expected = running.expected
        if not self.options.belief.exact and (self.pace is None or self.options.as_daemon):
            had_on, had = self._had(number, running)
            expected = running.job.expected_on(had, len(set(had_on)))
        sizes = () if sizes == running.job.asked else sizes
        self._running[number] = replace(running, vm_ids=vm_ids, expected=expected, sizes=sizes)

    def _had(self, number: int, running: RunningJob) -> tuple[tuple[str, ...], tuple[Resources, ...]]:
        """Where its executors are, or were until they were lost, and what each takes."""
        if number not in self._executors:
            return running.vm_ids, running.taken
        executors, placement = self._executors[number], self.batch.state.placement[0]
        vms = (executors.lost.get(at, int(placement[at])) for at in executors.order)
        sizes = tuple(self._size(running.job, at) for at in executors.order)
        return tuple(self._ids[vm] for vm in vms), sizes

    def _size(self, job: Job, at: int) -> Resources:
        return self.given.get(at, job.size)

    def finish(self) -> None:
        """Nobody waits who could be placed: let the running jobs end."""
        sized.finish_sized(self.batch, self.spared, 0)

    def sizes(self, number: int) -> tuple[Resources, ...]:
        """What the executors of a job, by its number in the kernel, take; empty when that is what it asks."""
        return self._sizes.get(number, ())

    def _arrive(self) -> None:
        now, jobs = self.now, self.jobs
        while len(self.requests) < len(jobs) and jobs[len(self.requests)].submitted_at <= now:
            job = jobs[len(self.requests)]
            self.requests.append(PlacementRequest(job, job.executors))


def _empty(vms: tuple[Vm, ...], others: Collection[str]) -> ClusterView:
    """These VMs with nothing free, from which all views are made."""
    view = ClusterView(
        0.0, vms, ResourceArrays.of((NOTHING,) * len(vms), others), np.zeros(len(vms), np.int64)
    )
    view.prices_per_hour.flags.writeable = False  # computed here once, and kept by all views
    _ = view.capacity, view.index
    return view


def _seconds(job: Job, sizes: tuple[Resources, ...], options: SimulationOptions) -> float:
    """Seconds that a job takes on executors of these sizes, which are less than it asks for."""
    profile = options.profiles.get(job.type)
    if profile is None or options.durations.partial == "proportional" or job.expected_duration is None:
        return job.duration_on(sizes) or 0.0
    cores, memory_mib = sum(size.cpus for size in sizes), sum(size.memory_mib for size in sizes)
    asked = profile.duration(job.cpus, job.memory_mib, job.executors)
    return job.expected_duration * profile.duration_on(cores, memory_mib) / asked
