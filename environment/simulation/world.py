"""A simulated cluster: one episode of the kernel, shown as views and requests and moved by placements.

The kernel has the rules, `episode` the arrays, `placed_jobs` the jobs with executors, `waiting` selects the
waiting ones, `cluster` shows the VMs, `simulator` asks a policy. Truth is separate from belief: a view is
made of belief alone.
"""

import math
from collections.abc import Mapping, Sequence

from environment.decisions.decision_round import WaitingRequests
from environment.kernel import completion_heap, rules
from environment.last_resort import OpensAt
from environment.resources import CPUS
from environment.simulation.arrivals import Arrivals
from environment.simulation.auto_jobs import AutoJobs
from environment.simulation.episode import SimulatedEpisode
from environment.simulation.idle_vms import IdleVms
from environment.simulation.ordering import InOrder
from environment.simulation.placed_jobs import PlacedJobs
from environment.simulation.waiting import WhoWaits
from environment.types import EndedJob, IntArray, Job, Place, PlacementRequest
from environment.view import ClusterView, RunningJob


class World:
    """One episode of the kernel as views and requests."""

    def __init__(self, episode: SimulatedEpisode) -> None:
        self.episode = episode
        self.vms, self.options = episode.vms, episode.options
        self.batch, self.meter = episode.batch, episode.meter
        self._cluster, self._auto = episode.cluster, episode.auto
        #: In order of arrival, with the believed properties.
        self.jobs = episode.believed
        self._arrivals = Arrivals(self.jobs)
        #: Of the jobs that have arrived, placed or not, in the kernel's order; the head is at `head`.
        self.requests: list[PlacementRequest] = []
        #: The jobs' numbers by arrival, once the kernel was played to its end without reports here.
        self._order: IntArray | None = None
        self._in_order = InOrder(self.options.sharing, self.vms) if self.options.sharing else None
        rules.reset(self.batch, 0)
        self._cluster.reprice()
        self._idle = IdleVms(self.batch, self.vms, self.options.keeping)
        self.placed = PlacedJobs(episode, self.requests, self._idle, self._in_order)
        self._opens = OpensAt()
        self._waits = WhoWaits(
            self._cluster, self._arrivals, self.requests, self.placed, self._in_order, self.options.jvms
        )
        self.placed.move_until(self.now)
        self._arrive()

    @property
    def now(self) -> float:
        """Seconds since the workload began."""
        return self.episode.now

    @property
    def head(self) -> int:
        """The number of the first job that was never placed."""
        return self.episode.head

    @property
    def in_turn(self) -> Sequence[Job]:
        """Arrived jobs by their numbers in the kernel, with the beliefs about them."""
        if self._order is None:
            return [request.job for request in self.requests]
        return [self.jobs[number] for number in self._order.tolist()]

    @property
    def running(self) -> Mapping[int, RunningJob]:
        """The jobs that run by their numbers in the kernel."""
        return self.placed.running

    @property
    def plain(self) -> bool:
        """Whether the kernel models the whole world, so that it can be played there alone, to its end."""
        return self.episode.plain and not (self.placed.growing or self._arrivals.held)

    def finish_plain(self, order: IntArray) -> None:
        """End the jobs, which a player of the kernel placed in this order of their numbers."""
        self._order = order
        self.finish()

    def finish(self) -> None:
        """Run the running jobs to their ends; no waiting request can be placed."""
        self.placed.finish()

    @property
    def elastic(self) -> bool:
        """Whether some of its VMs come and go."""
        return self._cluster.elastic

    @property
    def opens_refused(self) -> int:
        """Number of VMs that could not be opened when a policy used them."""
        return 0 if self._cluster.supply is None else self._cluster.supply.refused

    def view(self) -> ClusterView:
        """View of the cluster for policies."""
        return self._cluster.view(self.running.values())

    def open_as(self, view: ClusterView) -> None:
        """VMs of pools that are open in a view of now are so at the beginning, or boot until they are."""
        self._cluster.open_as(view)

    def queue(self) -> WaitingRequests:
        """Waiting requests that may be placed now."""
        return self._waits.queue(self.now, self.head)

    def aside(self) -> dict[str, str]:
        """The jobs, by id, that wait and could not run even alone, on the VMs that are left, and why."""
        return self._waits.aside(self.now, self.head)

    def place(self, request: PlacementRequest, place: Place) -> None:
        """Execute a decision about a request of the queue, unless its VMs cannot all be opened."""
        self.placed.place(request, place)

    def seek(self, view: ClusterView) -> tuple[PlacementRequest, Place] | None:
        """Preempt other jobs for a waiting one; return its request and the placement possible now."""
        return self.placed.seek(view, self.queue()) if self.episode.gives_way else None

    def plan(self, keeps: Sequence[tuple[int, float]]) -> None:
        """Postpone the closing of idle VMs for waiting jobs: each, by number in the view, until its time."""
        numbers = self._cluster.numbers([vm for vm, _ in keeps]).tolist()
        self._idle.plan(list(zip(numbers, (until for _, until in keeps), strict=True)))

    def next_event(self) -> float | None:
        """Time of the next end, arrival, loss or due request; None when nothing will happen."""
        running = [completion_heap.next_completion(self.batch, 0)] if self.batch.state.running[0] else []
        arrives = [] if (at := self._arrivals.next_at(self.now)) is None else [at]
        later = math.inf
        if self._in_order is not None:
            later = self._in_order.next_change(self.now, lacks=bool(self.placed.missing.requests()))
        # A pool that refused, or was too dear, may be tried again, by jobs that wait.
        limited = self._cluster.hours or self._cluster.periods
        waits = (self._cluster.supply is not None or limited) and self.queue()
        retry = self._cluster.next_opening() if waits else math.inf
        if not (running or arrives or min(later, retry) < math.inf):
            return None
        soon = [retry, self._cluster.price_changes, later]
        soon += [self.placed.next_at(self.queue() if self.episode.gives_way else ())]
        if self._cluster.extras:
            soon += [self._opens.next_at(self.view(), self.queue())]
        found = min((*running, *arrives, *soon))
        return found if found < math.inf else None

    def next_request(self) -> float | None:
        """Time at which a job may wait again, while none does; None when none will."""
        held = self._arrivals.waiting or self.options.jvms is not None
        if held or self.episode.tracks or self.placed.growing or self._idle.watches or self._in_order:
            return self.next_event()
        return self._arrivals.next_at(self.now)

    def pass_time(self, until: float) -> list[EndedJob]:
        """Advance the clock to `until`, at most the next event; return the jobs that ended, in order."""
        until = self.placed.consolidate(until, waiting=self.head < len(self.requests))
        until = min(until, self._cluster.periods.next_day)
        reports = []
        for was, ended, steady in self.placed.end_until(until):
            self._arrivals.ended(was.job.id, ended.ended_at)
            if not was.grown:  # else its time says nothing of any number of executors
                reports.append(ended)
                if self._auto and ended.finished and steady:
                    self._auto.ended(was.job, ended.sizes, was.started_at, ended.ended_at)
        self.placed.move_until(until)
        if until >= self._cluster.price_changes:
            self._cluster.reprice()
        self._arrive()
        self._idle.look()
        return reports

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
                self._in_order.joins(self.requests[-1], now)

    def _sized(self, number: int, auto: AutoJobs) -> Job:
        """An arriving job, by its number in the kernel, with the size that is chosen for it."""
        arrays, belief, truths = self.batch.jobs, self.jobs[number], self.episode.truth
        truth, job = auto.sized(truths[belief.id], belief, self.view().vms)
        truths[job.id], self.jobs = truth, (*self.jobs[:number], job, *self.jobs[number + 1 :])
        arrays.executors[0, number] = truth.executors
        arrays.milli_cpus[0, number], arrays.memory_mib[0, number] = truth.size.get(CPUS), truth.memory_mib
        arrays.duration[0, number] = arrays.expected[0, number] = truth.expected_duration
        if number == self.head:
            self.batch.state.left[0] = truth.executors
        return job
