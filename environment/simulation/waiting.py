"""Waiting jobs and blocked jobs in a simulation: arrived jobs, lost executors, growing jobs.

`ordering` orders the jobs of many queues and users, `arrivals` computes the arrivals.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from environment.decisions.decision_round import WaitingRequests
from environment.decisions.jvm_limit import carried
from environment.simulation.arrivals import Arrivals
from environment.simulation.cluster import SimulatedCluster
from environment.simulation.ordering import InOrder
from environment.simulation.placed_jobs import PlacedJobs
from environment.types import PlacementRequest


class WhoWaits:
    """Reads the world's state and changes nothing; `head` is the first request never placed."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        arrivals: Arrivals,
        requests: Sequence[PlacementRequest],
        placed: PlacedJobs,
        in_order: InOrder | None,
        jvms: int | None,
    ) -> None:
        """`requests`, of those that have arrived, are the world's, as they are then.

        `jvms` is how many of them one machine carries; None: all.
        """
        self._cluster, self._arrivals, self._requests = cluster, arrivals, requests
        self._running, self._missing = placed.running, placed.missing
        self._growing, self._dynamic = placed.growing, placed.dynamic
        self._in_order, self._jvms = in_order, jvms

    def queue(self, now: float, head: int) -> WaitingRequests:
        """Lost executors that may be placed again, then jobs in order, without blocked ones."""
        due = self._missing.requests()
        if self._in_order is not None:
            more, aside = [*self._growing.requests()], self._beyond(head) if self._cluster.lossy else {}
            due, more = ([each for each in of if not self._cluster.beyond(each)] for of in (due, more))
            return self._in_order.queue(now, due, more, [*self._dynamic.requests()], aside, self._let_in)
        queue = new = WaitingRequests(self._requests, head)
        if self._cluster.lossy:
            queue = WaitingRequests(
                [request for request in (*due, *new) if not self._cluster.beyond(request)]
            )
        elif due:
            queue = WaitingRequests([*due, *new])
        if in_turn := [*self._dynamic.requests()]:
            asked = [(request.entered_at, request) for request in queue if not request.again]
            others = [request for _, request in sorted([*asked, *in_turn], key=lambda pair: pair[0])]
            queue = WaitingRequests([*(each for each in queue if each.again), *others])
        # Jobs behind lost executors wait as well.
        alone = not any(not request.again for request in queue)
        if alone and self._growing:
            grow = (more for more in self._growing.requests() if not self._cluster.beyond(more))
            queue = WaitingRequests([*queue, *grow])
        if self._jvms is None:
            return queue
        lost, rest = ([each for each in queue if each.again is which] for which in (True, False))
        return WaitingRequests([*lost, *self._let_in(rest, 0)])

    def aside(self, now: float, head: int) -> dict[str, str]:
        """The jobs, by id, that wait and could not run even alone, on the VMs that are left, and why."""
        found = self._arrivals.waiting | self._beyond(head)
        if self._in_order is not None:
            for request in self._requests[head:]:
                if why := self._in_order.why_not(request, now):
                    found.setdefault(request.job.id, why)
        return found

    def _let_in(self, requests: Iterable[PlacementRequest], more: int) -> Iterator[PlacementRequest]:
        """Requests that one machine carries beside the running jobs and `more` JVMs."""
        taken = Counter[str]()
        if self._jvms is not None:
            for running in self._running.values():
                taken[running.job.owner] += len(running.vm_ids) + 1
        return carried(requests, self._jvms, taken, more)

    def _beyond(self, head: int) -> dict[str, str]:
        """The jobs that the VMs which are left do not hold."""
        waiting = self._requests[head:]
        return {request.job.id: why for request in waiting if (why := self._cluster.beyond(request))}
