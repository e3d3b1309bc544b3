"""Jobs that were placed in a simulation, with the VMs and resources of their executors, until they end."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from environment.kernel import resized_jobs, rules
from environment.kernel.state import SmallIntArray
from environment.resources import CPUS, Resources
from environment.simulation.durations.job_times import JobTimes
from environment.simulation.dynamic.dynamic_jobs import DynamicJobs
from environment.simulation.dynamic.preemption import SimulatedPreemption
from environment.simulation.dynamic.scale_up import SimulatedGrowth
from environment.simulation.episode import SimulatedEpisode
from environment.simulation.faults.executor_losses import ExecutorLosses
from environment.simulation.faults.missing_executors import MissingExecutors
from environment.simulation.idle_vms import IdleVms
from environment.simulation.ordering import InOrder
from environment.types import EndedJob, Job, Place, PlacementRequest
from environment.view import ClusterView, RunningJob


class JobEnd(NamedTuple):
    """The end of a job that ran."""

    was: RunningJob
    ended: EndedJob
    #: Whether it had the same executors from its start to its end.
    steady: bool


class PlacedJobs:
    """Jobs with executors, by their numbers in the kernel."""

    def __init__(
        self,
        episode: SimulatedEpisode,
        requests: list[PlacementRequest],
        idle: IdleVms,
        in_order: InOrder | None,
    ) -> None:
        """`requests` are the world's, of arrived jobs in the kernel's order."""
        self._episode, self._requests, self._idle, self._in_order = episode, requests, idle, in_order
        options, pace = episode.options, episode.pace
        self._batch, self._cluster = batch, cluster = episode.batch, episode.cluster
        self._ids, self._take = cluster.ids, cluster.take
        self.running: dict[int, RunningJob] = {}
        #: Core-seconds of jobs that were given less than they ask for, by id.
        self.partial: dict[str, float] = {}
        self._sizes: dict[int, tuple[Resources, ...]] = {}
        #: Sizes of executors, by their place in the kernel, where they differ from the job's request.
        self.given: dict[int, Resources] = {}
        as_daemon = not options.belief.exact and (pace is None or options.as_daemon)
        self.missing = MissingExecutors(
            batch, episode.spared, self._ids, self.running, self.given, self._take, as_daemon=as_daemon
        )
        self._times = JobTimes(batch, episode.truth, self.running, options, pace)
        self.growing = SimulatedGrowth(
            batch,
            episode.spared,
            self._ids,
            self.running,
            self.given,
            self._sizes,
            self.missing,
            self._times.alone,
            as_daemon=as_daemon,
            exact=options.belief.exact,
            grows=options.grows and not cluster.elastic,
        )
        self.dynamic = DynamicJobs(
            batch,
            self.running,
            self._sizes,
            self.missing,
            self.growing,
            options.profiles,
            options.executor_idle,
        )
        #: Preemption between jobs; None where there is none.
        self._giving: SimulatedPreemption | None = None
        if episode.gives_way and options.sharing is not None:
            self._giving = SimulatedPreemption(
                options.sharing,
                batch,
                self.running,
                requests,
                self.missing,
                self.growing,
                self._gave,
                self._stopped,
            )
        self._losses = ExecutorLosses(
            options.losses,
            batch,
            episode.vms,
            cluster,
            episode.meter,
            self.missing,
            episode.truth,
            self.running,
            self._hold,
            options.consolidation,
        )

    def sizes(self, number: int) -> tuple[Resources, ...]:
        """Executor sizes of a job; empty when they are those requested."""
        return self._sizes.get(number, ())

    def given_way(self) -> dict[str, Any]:
        """Totals of preemption, by the names of a result's fields."""
        return {} if self._giving is None else self._giving.preempted.fields()

    def place(self, request: PlacementRequest, place: Place) -> None:
        """Execute a decision about a request of the queue, unless its VMs cannot all be opened."""
        placement = self._cluster.numbers(place.placement)
        opened = () if self._in_order is None else self._cluster.closed(placement)
        if not self._cluster.opens(placement.tolist()):
            return
        if request.again:
            self.missing.place(request, placement.tolist(), request.granted(place))
            self.growing.look(self._number(request))
            self._hold(self._number(request))
        elif request.grows:
            self._grow(request, placement, request.granted(place))
        elif self._giving is not None and (stopped := self._giving.number(request)) is not None:
            self._begin_again(self._giving, stopped, request, place)
        else:
            number = self._begin(request, place, placement)
            if self._in_order is not None:
                self._in_order.opened(self.running[number], opened, self._episode.now)

    def _grow(
        self, request: PlacementRequest, placement: SmallIntArray, sizes: tuple[Resources, ...]
    ) -> None:
        """A running job gets further executors."""
        number = self._number(request)
        growing = self.growing if request.job.dynamic is None else self.dynamic
        growing.grow(number, placement, sizes)
        self._take([self._ids[vm] for vm in placement.tolist()], sizes)
        self._hold(number)

    def _begin(self, request: PlacementRequest, place: Place, placement: SmallIntArray) -> int:
        """Start a waiting job; return its number."""
        head, requests = self._episode.head, self._requests
        if request.job.id != requests[head].job.id:
            waiting = range(head, len(requests))
            number = next(n for n in waiting if requests[n].job.id == request.job.id)
            rules.bring_forward(self._batch, 0, number)
            requests.insert(head, requests.pop(number))
        request = requests[head]  # all of it, where a limit left less of it to be placed
        whole = len(placement) == request.count and place.sizes in ((), request.asked)
        whole = whole and request.job.dynamic is None
        sizes = () if whole else request.granted(place)
        given, job = sizes or request.asked, self._episode.truth[request.job.id]
        mean = self._times.mean(job, given, placement)
        asked = float(self._batch.jobs.duration[0, head]) if whole else None
        seconds = self._times.real(job, given, mean, asked)
        self._batch.jobs.duration[0, head] = seconds
        if whole:
            rules.place_job(self._batch, 0, placement)
        else:
            self._place_part(job, head, placement, sizes, seconds)
        if self._episode.tracks:
            self.missing.began(head, len(placement))
        self._began(head, request.job, placement, sizes, mean)
        return head

    def _place_part(
        self, job: Job, number: int, placement: SmallIntArray, sizes: tuple[Resources, ...], seconds: float
    ) -> None:
        """Start a job on less than it asks for."""
        cpus = np.array([size.get(CPUS) for size in sizes], np.int64)
        memory = np.array([size.memory_mib for size in sizes], np.int64)
        resized_jobs.place_sized(self._batch, self._episode.spared, 0, placement, cpus, memory, seconds)
        self._sizes[number] = sizes
        self.given |= dict(enumerate(sizes, int(self._batch.jobs.first[0, number])))
        held = sum(size.cpus for size in sizes) * seconds
        self.partial[job.id] = held if job.dynamic is None else self.dynamic.core_seconds(job)

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
        self.dynamic.began(number, self._episode.truth[job.id], len(ids))
        expected = self._times.expected(job, number, given, len(set(ids)), mean)
        started = float(self._batch.state.start[0, number])
        self.running[number] = RunningJob(job, ids, started, expected, sizes)
        self._take(ids, given)
        if self._in_order is not None:
            self._in_order.placed(job.id)
        self._hold(number)
        self._idle.look()
        # Where VMs would be opened for it, that costs more than it gains.
        if self._episode.options.grows and not self._cluster.elastic:
            self.growing.look(number)

    def _begin_again(
        self, giving: SimulatedPreemption, number: int, request: PlacementRequest, place: Place
    ) -> None:
        """Start a job once more that was stopped."""
        placement, job = self._cluster.numbers(place.placement), self._episode.truth[request.job.id]
        whole = len(placement) == request.count and place.sizes in ((), request.asked)
        given = request.granted(place)
        mean = self._times.mean(job, given, placement)
        asked = (job.expected_duration or 0.0) if whole else None
        seconds = self._times.placed(number, self._times.real(job, given, mean, asked), mean, placement)
        giving.begin_again(number, placement, given, seconds)
        self._sizes[number] = sizes = () if whole else given
        self._began(number, request.job, placement, sizes, mean)

    def _number(self, request: PlacementRequest) -> int:
        """The number of the request's job, which runs."""
        return next(number for number, on in self.running.items() if on.job.id == request.job.id)

    def _hold(self, number: int) -> None:
        """Record the changed holdings of a running job."""
        if self._in_order is not None:
            self._in_order.holds(self.running[number], self._episode.now)

    # ---- preemption ------------------------------------------------------------------------------

    def seek(
        self, view: ClusterView, waiting: Sequence[PlacementRequest]
    ) -> tuple[PlacementRequest, Place] | None:
        """Preempt other jobs for a waiting one; return its request and the placement possible now."""
        return None if self._giving is None else self._giving.seek(view, waiting)

    def _gave(self, was: RunningJob, number: int) -> None:
        """A job has given executors away, or all of it."""
        if number in self.running:
            self._hold(number)
        elif self._in_order is not None:
            self._in_order.ended(was, self._episode.now)

    def _stopped(self, number: int) -> None:
        """A job was stopped: nothing of it runs, and it waits in its place."""
        self.growing.ended(number)
        self._sizes.pop(number, None)
        if self._in_order is not None and self._giving is not None:
            self._in_order.joins(self._giving.waiting[number], self._episode.now)

    # ---- time ------------------------------------------------------------------------------------

    def next_at(self, waiting: Sequence[PlacementRequest]) -> float:
        """Time of the next loss or move of executors, or of the next request of one of these; infinity."""
        soon = [self.missing.next_due(), self._losses.next_at(), self.dynamic.next_at()]
        return min([*soon, self._giving.next_due(waiting)] if self._giving is not None else soon)

    def consolidate(self, until: float, *, waiting: bool) -> float:
        """Begin or make moves of executors if no job is `waiting`; return `until`, or an earlier move."""
        return self._losses.consolidate(until, waiting=waiting)

    def end_until(self, until: float) -> list[JobEnd]:
        """Advance the clock to `until`, at most the next event; return the jobs that ended, in order."""
        state = self._batch.state
        before = state.running[0]
        resized_jobs.advance_sized(self._batch, self._episode.spared, 0, until)
        self._episode.meter.covered.count(until)
        self._cluster.periods.count()
        # The kernel fills the place behind those that run from its end.
        return [self._end(number) for number in reversed(state.heap[0, state.running[0] : before].tolist())]

    def _end(self, number: int) -> JobEnd:
        was, end = self.running.pop(number), float(self._batch.state.end[0, number])
        vm_ids, sizes = self.missing.had(number, was)
        steady = self.missing.steady(number)
        self.growing.ended(number)
        self.dynamic.ended(number)
        finished = number not in self.missing.given_up
        ended = EndedJob(was.job, vm_ids, sizes, was.started_at, end, finished)
        self._take(was.vm_ids, was.taken, -1)
        self.missing.ended(number)
        if self._in_order is not None:
            self._in_order.ended(was, end)
        return JobEnd(was, ended, steady)

    def move_until(self, until: float) -> None:
        """Take away and move the executors that are due."""
        self._losses.lose_until(until)
        self._losses.take_away_until(until)
        self._losses.move_until(until)
        for number in self.dynamic.move_until(until):
            self._hold(number)

    def finish(self) -> None:
        """Run the running jobs to their ends; no waiting request can be placed."""
        resized_jobs.finish_sized(self._batch, self._episode.spared, 0)
        self._episode.meter.covered.count()
