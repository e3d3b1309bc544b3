"""Order of jobs in a simulation: passes waiting jobs and holdings to `environment.queues`.

It is the same stage as the daemon's. Days and months, on which limits may restrict the cost, begin at
midnight of the simulation's own clock, which starts with a year.
"""

import math
from collections.abc import Mapping, Sequence

from conf.units import SECONDS_PER_DAY, SECONDS_PER_HOUR
from conf.util.utc_days import day_of, month_of
from environment.queues.ordered_queue import OrderedQueue
from environment.queues.ordering import Ordering
from environment.queues.progressive_filling import Gate, every
from environment.queues.shares import JobHolding
from environment.queues.types import Sharing
from environment.resources import NOTHING, total
from environment.types import PlacementRequest, Vm
from environment.view import RunningJob


class InOrder:
    """Waiting jobs of a simulation, ordered by a `Sharing`; jobs by their ids, times in seconds."""

    def __init__(self, sharing: Sharing, vms: Sequence[Vm]) -> None:
        self._ordering = Ordering(sharing)
        #: The same where nothing is held, ever.
        self._empty = Ordering(sharing)
        #: The jobs that came, by id, numbered from 1.
        self._numbers: dict[str, int] = {}
        self._vms = {vm.id: vm for vm in vms}
        self._whole = total([vm.resources for vm in vms])
        #: Resources of running jobs, and until when they were charged.
        self._held: dict[str, tuple[JobHolding, float]] = {}
        #: Dollars per hour of VMs that were opened for jobs, and when these jobs start on them.
        self._boots: dict[str, tuple[float, float]] = {}
        self._turns: OrderedQueue | None = None
        #: The last day on which anything was charged.
        self._spent_on = ""
        self._charges = self._ordering.limits.by_time

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(len(self._ordering))

    def joins(self, request: PlacementRequest, now: float) -> None:
        """A job waits, in its place if it came before; not one that no limit ever lets run.

        At a daemon's door it would be refused, and here it stands in nobody's way.
        """
        number = self._numbers.setdefault(request.job.id, len(self._numbers) + 1)
        if self._empty.over(request, self._whole, now, day_of(now)):
            return
        self._ordering.join(request, number, now)

    def queue(
        self,
        now: float,
        again: Sequence[PlacementRequest],
        growing: Sequence[PlacementRequest],
        in_turn: Sequence[tuple[float, PlacementRequest]],
        aside: Mapping[str, str],
        gate: Gate = every,
    ) -> OrderedQueue:
        """Jobs that may be placed now: `again` first; running jobs that grow only when no other job waits.

        Those `in_turn` stand among the new jobs, by the times at which they asked.
        Jobs in `aside` and jobs that the gate rejects may not.
        """
        self._charge(now)
        asked = [(at, number, request) for number, (at, request) in enumerate(in_turn)]
        turns, skipped = self._look(now, again, gate, asked), frozenset(aside)
        if skipped:
            turns = self._look(now, again, gate, asked, skipped)
        if turns.head is None and growing:
            asked = [(now, number, request) for number, request in enumerate(growing)]
            turns = self._look(now, again, gate, asked, skipped)
        self._turns = turns
        return turns

    def _look(
        self,
        now: float,
        again: Sequence[PlacementRequest],
        gate: Gate,
        growing: Sequence[tuple[float, int, PlacementRequest]],
        skipped: frozenset[str] = frozenset(),
    ) -> OrderedQueue:
        return self._ordering.turns(
            self._whole, now, day_of(now), first=again, growing=growing, skipped=skipped, gate=gate
        )

    def placed(self, job_id: str) -> None:
        """A job that waited was placed."""
        if self._turns is not None and self._ordering.sharing.overtaken_by_others is not None:
            self._ordering.passed(job_id, self._turns)
        self._ordering.leave(job_id)

    def holds(self, running: RunningJob, now: float) -> None:
        """Record the present holdings of a running job."""
        sizes = running.taken[: len(running.vm_ids)]
        vms = [self._vms[vm_id] for vm_id in running.vm_ids]
        per_hour = sum(
            min(size.share_of(vm.resources), 1.0) * vm.price_per_hour
            for size, vm in zip(sizes, vms, strict=True)
        )
        self._note(running, JobHolding(running.job.queue, running.job.owner, total(sizes), per_hour), now)

    def opened(self, running: RunningJob, vm_ids: Sequence[str], now: float) -> None:
        """These VMs were opened for a job; until it starts it pays for all of them, and for no others."""
        if running.started_at > now:
            per_hour = math.fsum(self._vms[vm_id].price_per_hour for vm_id in vm_ids)
            self._boots[running.job.id] = per_hour, running.started_at

    def ended(self, running: RunningJob, at: float) -> None:
        """A job is over and holds nothing."""
        self._note(running, JobHolding(running.job.queue, running.job.owner, NOTHING, 0.0), at)

    def _note(self, running: RunningJob, holding: JobHolding, at: float) -> None:
        job_id = running.job.id
        self._charge_one(job_id, at)
        self._ordering.shares.holds(job_id, holding, at)
        self._held.pop(job_id, None)
        if holding.held:
            self._held[job_id] = holding, at
        else:
            self._boots.pop(job_id, None)

    def why_not(self, request: PlacementRequest, now: float) -> str:
        """Limit that blocks a waiting job, now or for ever; empty when none does."""
        asked = request, self._whole, now, day_of(now)
        return self._empty.over(*asked) or self._ordering.over(*asked)

    def next_change(self, now: float, *, lacks: bool) -> float:
        """Time at which limits of a day or month may next let a blocked job be placed.

        Infinity when they block none: none waits, and none `lacks` executors.
        """
        if not (self or lacks) or month_of(self._spent_on) != month_of(day_of(now)):
            return math.inf
        return (now // SECONDS_PER_DAY + 1.0) * SECONDS_PER_DAY

    # ---- cost of a day --------------------------------------------------------------------------------

    def _charge(self, now: float) -> None:
        if self._charges:
            for job_id in self._held:
                self._charge_one(job_id, now)

    def _charge_one(self, job_id: str, now: float) -> None:
        """Charge a job's holdings since its last charge to the days to which they belong."""
        if not self._charges or job_id not in self._held:
            return
        holding, since = self._held[job_id]
        boots, starts = self._boots.get(job_id, (0.0, -math.inf))
        while since < now:
            until = min((since // SECONDS_PER_DAY + 1.0) * SECONDS_PER_DAY, now)
            until, per_hour = (min(until, starts), boots) if since < starts else (until, holding.per_hour)
            dollars = per_hour * (until - since) / SECONDS_PER_HOUR
            self._spent_on = day_of(since)
            self._ordering.shares.spends(holding.queue, holding.user, self._spent_on, dollars)
            since = until
        self._held[job_id] = holding, now
