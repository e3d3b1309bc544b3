"""Preemption between jobs of a simulation: executors that leave, and jobs that stop and begin anew.

`environment.queues.preemption` finds the jobs that give way, as in the daemon, where executors are drained
first; here they are gone at once. An elastic job that gives executors takes longer, and repeats a share of
their work; a job that is stopped loses all of its work, and waits in its place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from environment.kernel.completion_heap import reorder_ends
from environment.kernel.state import Batch, SmallIntArray
from environment.queues.preemption import HOLD, PreemptionPlan, Taker, plan, refused, takers
from environment.queues.running_usage import Holder, Holders, RunningExecutor
from environment.queues.types import Sharing
from environment.resources import Resources
from environment.simulation.dynamic.scale_up import SimulatedGrowth
from environment.simulation.faults.missing_executors import MissingExecutors
from environment.types import Place, PlacementRequest
from environment.view import ClusterView, RunningJob


class _LastPreemptions(NamedTuple):
    """To which jobs a job gave something, and when last."""

    to: tuple[str, ...] = ()
    at: float = -np.inf


@dataclass(slots=True)
class PreemptionTotals:
    """Totals of preemption: executors given away, jobs stopped, dollars of work lost."""

    executors: int = 0
    jobs: int = 0
    dollars: float = 0.0
    #: Time, victim, taker and number of executors of each preemption, 0 for a whole job: (seconds, job, job,
    #: executors).
    log: list[tuple[float, str, str, int]] = field(default_factory=list)

    def fields(self) -> dict[str, Any]:
        """The sums by the names of a result's fields."""
        return {"executors_given": self.executors, "jobs_stopped": self.jobs, "work_given": self.dollars}


class SimulatedPreemption:
    """Preemptions between jobs, numbered as in the kernel; `running`, `requests` are the world's."""

    def __init__(
        self,
        sharing: Sharing,
        batch: Batch,
        running: dict[int, RunningJob],
        requests: Sequence[PlacementRequest],
        missing: MissingExecutors,
        growing: SimulatedGrowth,
        gave: Callable[[RunningJob, int], None],
        stopped: Callable[[int], None],
    ) -> None:
        """Call `gave` with a job that holds less, as it was before; `stopped` with one that waits again."""
        self._sharing, self._batch, self._running = sharing, batch, running
        self._requests = requests
        self._missing, self._growing, self._gave, self._stopped = missing, growing, gave, stopped
        self._given: dict[str, _LastPreemptions] = {}
        #: When each job last received something.
        self._took: dict[str, float] = {}
        #: Stopped jobs, with their requests.
        self.waiting: dict[int, PlacementRequest] = {}
        self.preempted = PreemptionTotals()

    def number(self, request: PlacementRequest) -> int | None:
        """The number of a job that was stopped and asks for this; None for others."""
        return next((n for n, asked in self.waiting.items() if asked.job.id == request.job.id), None)

    def next_due(self, waiting: Sequence[PlacementRequest]) -> float:
        """Time at which the next of these has waited so long that others may give way."""
        due = (request.entered_at + HOLD for request in waiting)
        return min((at for at in due if at > self._now), default=np.inf)

    def seek(
        self, view: ClusterView, waiting: Sequence[PlacementRequest]
    ) -> tuple[PlacementRequest, Place] | None:
        """Preempt other jobs for a waiting one: return its request and its placement."""
        holders: Holders | None = None
        for request in takers(waiting, self._sharing, self._now):
            if holders is None:
                of = (self._holder(number, on, view) for number, on in self._running.items())
                holders = Holders.of_jobs([*of])
            given = self._given.get(request.job.id, _LastPreemptions())
            rests_until = given.at + self._sharing.preemption.pause
            found = plan(view, Taker(request, given.to, rests_until), holders, self._sharing)
            if isinstance(found, PreemptionPlan) and not refused(waiting, view, found):
                self._take(found)
                return request, found.place
        return None

    def _holder(self, number: int, running: RunningJob, view: ClusterView) -> Holder:
        present, start = self._missing.present(number), float(self._batch.state.start[0, number])
        held = tuple(
            RunningExecutor(at, view.index[vm_id], self._missing.since.get(at, start), size)
            for at, vm_id, size in zip(present, running.vm_ids, running.taken, strict=True)
        )
        whole = not self._missing.lacks(number)
        return Holder(
            running.job,
            start,
            running.end_at(self._now),
            held,
            len(present) - running.job.fewest if whole else 0,
            whole and running.job.restartable,
            max(
                self._given.get(running.job.id, _LastPreemptions()).at,
                self._took.get(running.job.id, -np.inf),
            )
            + self._sharing.preemption.pause,
        )

    def _take(self, found: PreemptionPlan) -> None:
        self._took[found.taker.job.id] = self._now
        numbers = {running.job.id: number for number, running in self._running.items()}
        for victim in found.victims:
            number, taker = numbers[victim.job_id], found.taker.job.id
            given = self._given.get(victim.job_id, _LastPreemptions())
            self._given[victim.job_id] = _LastPreemptions((*given.to, taker), self._now)
            if victim.whole:
                self._stop(number)
                self.preempted.jobs += 1
            else:
                was = self._running[number]
                self._growing.shrink(number, victim.numbers)
                self._gave(was, number)
                self.preempted.executors += len(victim.numbers)
            self.preempted.dollars += victim.lost
            count = 0 if victim.whole else len(victim.numbers)
            self.preempted.log.append((self._now, victim.job_id, taker, count))

    def _stop(self, number: int) -> None:
        """All of a job's executors are gone, and so is its work."""
        self._missing.give(number, self._missing.present(number))
        self._batch.state.end[0, number] = np.inf
        reorder_ends(self._batch, 0)
        was = self._running.pop(number)
        self.waiting[number] = self._requests[number]
        self._gave(was, number)
        self._stopped(number)

    def begin_again(
        self, number: int, vms: SmallIntArray, sizes: tuple[Resources, ...], seconds: float
    ) -> None:
        """A job that was stopped begins anew on these VMs, and takes so long."""
        del self.waiting[number]
        self._missing.began_again(number)
        self._growing.join(number, vms, sizes)
        self._batch.state.start[0, number] = self._now
        self._batch.state.end[0, number] = self._now + seconds
        reorder_ends(self._batch, 0)

    @property
    def _now(self) -> float:
        return float(self._batch.state.clock[0])
