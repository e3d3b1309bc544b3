"""A simulated cluster: one episode of the kernel, shown as views and requests and moved by placements.

The kernel has the rules, `cluster` shows the VMs, `simulator` asks a policy, `waiting` selects the waiting
jobs, `job_times` computes durations, `executor_losses` takes VMs and executors away. Truth is separate from
belief: a view is made of belief alone.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from environment.decisions.decision_round import WaitingRequests
from environment.kernel import completion_heap, resized_jobs, rules
from environment.kernel.arrays import episode_of, plain
from environment.kernel.rule_options import DurationOptions, RewardOptions
from environment.kernel.rule_options import rules as numbers_of
from environment.kernel.state import Batch, SmallIntArray, make_batch
from environment.last_resort import OpensAt
from environment.resources import CPUS, NOTHING, Resources
from environment.simulation.arrivals import Arrivals
from environment.simulation.auto_jobs import AutoJobs
from environment.simulation.cluster import SimulatedCluster
from environment.simulation.durations.fitted_model import Pace
from environment.simulation.durations.job_times import JobTimes
from environment.simulation.dynamic.dynamic_jobs import DynamicJobs
from environment.simulation.faults.executor_losses import ExecutorLosses
from environment.simulation.faults.missing_executors import MissingExecutors
from environment.simulation.idle_vms import IdleVms
from environment.simulation.options import SimulationOptions, believed
from environment.simulation.ordering import InOrder
from environment.simulation.preemption import SimulatedPreemption
from environment.simulation.results.billing import Meter
from environment.simulation.scale_up import SimulatedGrowth
from environment.simulation.waiting import WhoWaits
from environment.types import EndedJob, IntArray, Job, Place, PlacementRequest, Vm
from environment.view import ClusterView, RunningJob

#: Where lost executors are until they are placed again: it has nothing, and costs nothing.
_NOWHERE = Vm("", "", "", NOTHING, 0.0)


class World:
    """One episode of the kernel as views and requests."""

    def __init__(
        self,
        jobs: Sequence[Job],
        vms: tuple[Vm, ...],
        options: SimulationOptions,
        pace: Pace | None = None,
        *,
        told: Sequence[Job] | None = None,
        auto: AutoJobs | None = None,
    ) -> None:
        """`jobs` in order of arrival; the options define the beliefs about them, unless `told` does.

        `auto` chooses the sizes of those that leave them open when they arrive.
        """
        #: The jobs by id, with their true properties.
        self.truth = {job.id: job for job in jobs}
        #: `jobs` are in order of arrival, with the believed properties.
        self.jobs = believed(jobs, options, pace) if told is None else tuple(told)
        self.vms = vms
        believed_vms = vms
        spot = any(vm.spot for vm in vms)
        if spot:
            self.jobs, believed_vms = options.spot_belief.of(self.jobs, vms, options.seed)
        gives_way = options.sharing is not None and bool(options.sharing.preemption.by)
        dynamic = any(job.dynamic is not None for job in jobs)
        self._tracks = spot or bool(options.losses or options.consolidation) or gives_way or dynamic
        rows = (*vms, _NOWHERE) if self._tracks else vms
        # With a pace, only the pace knows a job's duration, and the kernel learns it when the job is placed.
        self.pace = pace
        self._auto = auto
        widest = [auto.reserved(job) for job in jobs] if auto else jobs
        durations = DurationOptions(model="fixed") if pace else options.durations
        self.batch: Batch = make_batch(
            [episode_of(widest, rows, keeping=options.keeping, seed=options.seed)],
            numbers_of(RewardOptions(), durations),
        )
        #: The cost of all that.
        self.meter = Meter(self.batch, vms, options.prices, options.commitments)
        self._cluster = SimulatedCluster(self.batch, believed_vms, jobs, self.meter, options)
        self._ids, self._take = self._cluster.ids, self._cluster.take
        self._arrivals = Arrivals(self.jobs)
        #: Of the jobs that have arrived, placed or not, in the kernel's order; the head is at `head`.
        self.requests: list[PlacementRequest] = []
        self._running: dict[int, RunningJob] = {}
        #: The jobs' numbers by arrival, once the kernel was played to its end without reports here.
        self._order: IntArray | None = None
        #: Core-seconds of jobs that were given less than they ask for, by id.
        self.partial: dict[str, float] = {}
        self._sizes: dict[int, tuple[Resources, ...]] = {}
        self.spared = resized_jobs.nothing_spared(self.batch)
        self.options = options
        #: Sizes of executors, by their place in the kernel, where they differ from the job's request.
        self.given: dict[int, Resources] = {}
        as_daemon = not options.belief.exact and (pace is None or options.as_daemon)
        self.missing = MissingExecutors(
            self.batch, self.spared, self._ids, self._running, self.given, self._take, as_daemon=as_daemon
        )
        self._times = JobTimes(self.batch, self.truth, self._running, options, pace)
        self._growing = SimulatedGrowth(
            self.batch,
            self.spared,
            self._ids,
            self._running,
            self.given,
            self._sizes,
            self.missing,
            self._times.alone,
            as_daemon=as_daemon,
            exact=options.belief.exact,
            grows=options.grows and not self._cluster.elastic,
        )
        self._dynamic = DynamicJobs(
            self.batch,
            self._running,
            self._sizes,
            self.missing,
            self._growing,
            options.profiles,
            options.executor_idle,
        )
        #: Preemption between jobs; None where there is none.
        self.giving: SimulatedPreemption | None = None
        if gives_way and options.sharing is not None:
            self.giving = SimulatedPreemption(
                options.sharing,
                self.batch,
                self._running,
                self.requests,
                self.missing,
                self._growing,
                self._gave,
                self._stopped,
            )
        self._losses = ExecutorLosses(
            options.losses,
            self.batch,
            vms,
            self._cluster,
            self.meter,
            self.missing,
            self.truth,
            self._running,
            self._hold,
            options.consolidation,
        )
        rules.reset(self.batch, 0)
        self._cluster.reprice()
        self._idle = IdleVms(self.batch, vms, options.keeping)
        self._in_order = InOrder(options.sharing, vms) if options.sharing else None
        self._opens = OpensAt()
        self._waits = WhoWaits(
            self._cluster,
            self._arrivals,
            self.requests,
            self._running,
            self.missing,
            self._growing,
            self._dynamic,
            self._in_order,
            options.jvms,
        )
        self._losses.lose_until(self.now)
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
    def in_turn(self) -> Sequence[Job]:
        """Arrived jobs by their numbers in the kernel, with the beliefs about them."""
        if self._order is None:
            return [request.job for request in self.requests]
        return [self.jobs[number] for number in self._order.tolist()]

    @property
    def running(self) -> Mapping[int, RunningJob]:
        """The jobs that run by their numbers in the kernel."""
        return self._running

    @property
    def plain(self) -> bool:
        """Whether the kernel models the whole world, so that it can be played there alone, to its end.

        VMs that are always there, of which jobs ask for cpus and memory; gangs, first come, first served,
        held up only by those before them, and by a limit on the JVMs of one machine; all of one user.
        """
        options = self.options
        special = self._tracks or self.elastic or self._cluster.special or self._in_order is not None
        # The kernel has one preference of each job, the true one.
        asked = self._auto or self.pace is not None or options.scores or bool(options.shown)
        asked = asked or bool(self.meter.covered) or len({job.owner for job in self.jobs}) > 1
        return not (special or asked or self._growing or self._arrivals.held) and plain(self.jobs)

    def finish_plain(self, order: IntArray) -> None:
        """End the jobs, which a player of the kernel placed in this order of their numbers."""
        self._order = order
        self.finish()

    @property
    def elastic(self) -> bool:
        """Whether some of its VMs come and go."""
        return self._cluster.elastic

    def view(self) -> ClusterView:
        """View of the cluster for policies."""
        return self._cluster.view(self._running.values())

    def queue(self) -> WaitingRequests:
        """Waiting requests that may be placed now."""
        return self._waits.queue(self.now, self.head)

    def aside(self) -> dict[str, str]:
        """The jobs, by id, that wait and could not run even alone, on the VMs that are left, and why."""
        return self._waits.aside(self.now, self.head)

    def place(self, request: PlacementRequest, place: Place) -> None:
        """Execute a decision about a request of the queue, unless its VMs cannot all be opened."""
        head, placement = self.head, self._cluster.numbers(place.placement)
        opened = () if self._in_order is None else self._cluster.closed(placement)
        if not self._cluster.opens(placement.tolist()):
            return
        if request.again:
            self.missing.place(request, placement.tolist(), request.granted(place))
            self._growing.look(self._number(request))
            self._hold(self._number(request))
            return
        if request.grows:
            number, sizes = self._number(request), request.granted(place)
            growing = self._growing if request.job.dynamic is None else self._dynamic
            growing.grow(number, placement, sizes)
            self._take([self._ids[vm] for vm in placement.tolist()], sizes)
            self._hold(number)
            return
        if self.giving is not None and (stopped := self.giving.number(request)) is not None:
            self._begin_again(self.giving, stopped, request, place)
            return
        if request.job.id != self.requests[head].job.id:
            waiting = range(head, len(self.requests))
            number = next(n for n in waiting if self.requests[n].job.id == request.job.id)
            rules.bring_forward(self.batch, 0, number)
            self.requests.insert(head, self.requests.pop(number))
        request = self.requests[head]  # all of it, where a limit left less of it to be placed
        whole = len(placement) == request.count and place.sizes in ((), request.asked)
        whole = whole and request.job.dynamic is None
        sizes = () if whole else request.granted(place)
        given, job = sizes or request.asked, self.truth[request.job.id]
        mean = self._times.mean(job, given, placement)
        asked = float(self.batch.jobs.duration[0, head]) if whole else None
        seconds = self._times.real(job, given, mean, asked)
        self.batch.jobs.duration[0, head] = seconds
        if whole:
            rules.place_job(self.batch, 0, placement)
        else:
            self._place_part(job, head, placement, sizes, seconds)
        if self._tracks:
            self.missing.began(head, len(placement))
        self._began(head, request.job, placement, sizes, mean)
        if self._in_order is not None:
            self._in_order.opened(self._running[head], opened, self.now)

    def _began(
        self,
        number: int,
        job: Job,
        placement: SmallIntArray,
        sizes: tuple[Resources, ...],
        mean: float | None,
    ) -> None:
        """A job runs from now on, for the first time or once more; `sizes` where it has less than it asks."""
        given = sizes or job.asked
        ids = tuple(self._ids[vm] for vm in placement.tolist())
        self._dynamic.began(number, self.truth[job.id], len(ids))
        expected = self._times.expected(job, number, given, len(set(ids)), mean)
        started = float(self.batch.state.start[0, number])
        self._running[number] = RunningJob(job, ids, started, expected, sizes)
        self._take(ids, given)
        if self._in_order is not None:
            self._in_order.placed(job.id)
        self._hold(number)
        self._idle.look()
        # Where VMs would be opened for it, that costs more than it gains.
        if self.options.grows and not self.elastic:
            self._growing.look(number)

    def _hold(self, number: int) -> None:
        """Record the changed holdings of a running job."""
        if self._in_order is not None:
            self._in_order.holds(self._running[number], self.now)

    def _gave(self, was: RunningJob, number: int) -> None:
        """A job has given executors away, or all of it."""
        if number in self._running:
            self._hold(number)
        elif self._in_order is not None:
            self._in_order.ended(was, self.now)

    def _stopped(self, number: int) -> None:
        """A job was stopped: nothing of it runs, and it waits in its place."""
        self._growing.ended(number)
        self._sizes.pop(number, None)
        if self._in_order is not None and self.giving is not None:
            request = self.giving.waiting[number]
            came = next(n for n, job in enumerate(self.jobs, 1) if job.id == request.job.id)
            self._in_order.joins(request, came, self.now)

    def _begin_again(
        self, giving: SimulatedPreemption, number: int, request: PlacementRequest, place: Place
    ) -> None:
        """Start a job once more that was stopped."""
        placement, job = self._cluster.numbers(place.placement), self.truth[request.job.id]
        whole = len(placement) == request.count and place.sizes in ((), request.asked)
        given = request.granted(place)
        mean = self._times.mean(job, given, placement)
        asked = (job.expected_duration or 0.0) if whole else None
        seconds = self._times.placed(number, self._times.real(job, given, mean, asked), mean, placement)
        giving.begin_again(number, placement, given, seconds)
        self._sizes[number] = sizes = () if whole else given
        self._began(number, request.job, placement, sizes, mean)

    @property
    def opens_refused(self) -> int:
        """Number of VMs that could not be opened when a policy used them."""
        return 0 if self._cluster.supply is None else self._cluster.supply.refused

    def given_way(self) -> dict[str, Any]:
        """Totals of preemption, by the names of a result's fields."""
        return {} if self.giving is None else self.giving.preempted.fields()

    def seek(self, view: ClusterView) -> tuple[PlacementRequest, Place] | None:
        """Preempt other jobs for a waiting one; return its request and the placement possible now."""
        return None if self.giving is None else self.giving.seek(view, self.queue())

    def _number(self, request: PlacementRequest) -> int:
        """The number of the request's job, which runs."""
        return next(number for number, on in self._running.items() if on.job.id == request.job.id)

    def _place_part(
        self, job: Job, number: int, placement: SmallIntArray, sizes: tuple[Resources, ...], seconds: float
    ) -> None:
        """Start a job on less than it asks for."""
        cpus = np.array([size.get(CPUS) for size in sizes], np.int64)
        memory = np.array([size.memory_mib for size in sizes], np.int64)
        resized_jobs.place_sized(self.batch, self.spared, 0, placement, cpus, memory, seconds)
        self._sizes[number] = sizes
        self.given |= dict(enumerate(sizes, int(self.batch.jobs.first[0, number])))
        held = sum(size.cpus for size in sizes) * seconds
        self.partial[job.id] = held if job.dynamic is None else self._dynamic.core_seconds(job)

    def next_event(self) -> float | None:
        """Time of the next end, arrival, loss or due request; None when nothing will happen."""
        running = [completion_heap.next_completion(self.batch, 0)] if self.batch.state.running[0] else []
        arrives = [] if (at := self._arrivals.next_at(self.now)) is None else [at]
        later = math.inf
        if self._in_order is not None:
            later = self._in_order.next_change(self.now, lacks=bool(self.missing.requests()))
        # A pool that refused, or was too dear, may be tried again, by jobs that wait.
        limited = self._cluster.hours or self._cluster.periods
        waits = (self._cluster.supply is not None or limited) and self.queue()
        retry = self._cluster.next_opening() if waits else math.inf
        if not (running or arrives or min(later, retry) < math.inf):
            return None
        soon = [retry, self.missing.next_due(), self._losses.next_at(), self._cluster.price_changes, later]
        soon += [self._dynamic.next_at()]
        soon += [self.giving.next_due(self.queue())] if self.giving is not None else []
        if self._cluster.extras:
            soon += [self._opens.next_at(self.view(), self.queue())]
        found = min((*running, *arrives, *soon))
        return found if found < math.inf else None

    def next_request(self) -> float | None:
        """Time at which a job may wait again, while none does; None when none will."""
        held = self._arrivals.waiting or self.options.jvms is not None
        if held or self._tracks or self._idle.watches or self._growing or self._in_order:
            return self.next_event()
        return self._arrivals.next_at(self.now)

    def pass_time(self, until: float) -> list[EndedJob]:
        """Advance the clock to `until`, at most the next event; return the jobs that ended, in order."""
        state = self.batch.state
        before = state.running[0]
        until = self._losses.consolidate(until, waiting=self.head < len(self.requests))
        until = min(until, self._cluster.periods.next_day)
        resized_jobs.advance_sized(self.batch, self.spared, 0, until)
        self.meter.covered.count(until)
        self._cluster.periods.count()
        ended = []
        # The kernel fills the place behind those that run from its end.
        for number in reversed(state.heap[0, state.running[0] : before].tolist()):
            was, end = self._running.pop(number), float(state.end[0, number])
            vm_ids, sizes = self.missing.had(number, was)
            steady = bool(self._auto) and self.missing.steady(number)
            self._growing.ended(number)
            self._dynamic.ended(number)
            if not was.grown:  # else its time says nothing of any number of executors
                finished = number not in self.missing.given_up
                ended.append(EndedJob(was.job, vm_ids, sizes, was.started_at, end, finished))
                if self._auto and finished and steady:
                    self._auto.ended(was.job, sizes, was.started_at, end)
            self._take(was.vm_ids, was.taken, -1)
            self.missing.ended(number)
            self._arrivals.ended(was.job.id, end)
            if self._in_order is not None:
                self._in_order.ended(was, end)
        self._losses.lose_until(until)
        self._losses.take_away_until(until)
        self._losses.move_until(until)
        for number in self._dynamic.move_until(until):
            self._hold(number)
        if until >= self._cluster.price_changes:
            self._cluster.reprice()
        self._arrive()
        self._idle.look()
        return ended

    def plan(self, keeps: Sequence[tuple[int, float]]) -> None:
        """Postpone the closing of idle VMs for waiting jobs: each, by number in the view, until its time."""
        numbers = self._cluster.numbers([vm for vm, _ in keeps]).tolist()
        self._idle.plan(list(zip(numbers, (until for _, until in keeps), strict=True)))

    def finish(self) -> None:
        """Run the running jobs to their ends; no waiting request can be placed."""
        resized_jobs.finish_sized(self.batch, self.spared, 0)
        self.meter.covered.count()

    def sizes(self, number: int) -> tuple[Resources, ...]:
        """Executor sizes of a job, by its number in the kernel; empty when they are those requested."""
        return self._sizes.get(number, ())

    def _arrive(self) -> None:
        now = self.now
        while (taken := self._arrivals.take(now)) is not None:
            job, released_at = taken
            here = len(self.requests)
            if self.jobs[here] is not job:  # others that were submitted before it are held
                place = next(n for n in range(here, len(self.jobs)) if self.jobs[n] is job)
                rules.arrive(self.batch, 0, place, here)
                self.jobs = (*self.jobs[:here], job, *self.jobs[here:place], *self.jobs[place + 1 :])
            if self._auto and job.id in self._auto:
                job = self._sized(here, self._auto)
            self.requests.append(PlacementRequest(job, job.begins_with, released_at=released_at))
            if self._in_order is not None:
                self._in_order.joins(self.requests[-1], len(self.requests), now)

    def _sized(self, number: int, auto: AutoJobs) -> Job:
        """An arriving job, by its number in the kernel, with the size that is chosen for it."""
        arrays, belief = self.batch.jobs, self.jobs[number]
        truth, job = auto.sized(self.truth[belief.id], belief, self.view().vms)
        self.truth[job.id], self.jobs = truth, (*self.jobs[:number], job, *self.jobs[number + 1 :])
        arrays.executors[0, number] = truth.executors
        arrays.milli_cpus[0, number], arrays.memory_mib[0, number] = truth.size.get(CPUS), truth.memory_mib
        arrays.duration[0, number] = arrays.expected[0, number] = truth.expected_duration
        if number == self.head:
            self.batch.state.left[0] = truth.executors
        return job
