"""Order of jobs in the model, where a `Sharing` defines one: updates to it and queries of it.

`environment.queues` computes the order; `waiting_queue.py` keeps the waiting jobs and other reasons to wait.
"""

import math
from collections.abc import Iterable, Sequence

from conf.util.utc_days import day_of
from environment.model.jobs.backoff import LaunchBackoff
from environment.model.jobs.jvm_limit import JvmRoom
from environment.model.messages.records import JobRecord
from environment.model.messages.snapshot import QueueState
from environment.model.vms.vm_parts import VmParts
from environment.queues.ordered_queue import OrderedQueue
from environment.queues.ordering import Grows, Ordering
from environment.queues.progressive_filling import every
from environment.queues.shares import JobHolding, Standings
from environment.queues.types import Sharing
from environment.resources import NOTHING, Resources, total
from environment.types import Job, PlacementRequest


class OrderStage:
    """Keeps an `Ordering` as the roster and the ledger are; without a `Sharing`, it is nothing at all."""

    def __init__(self, vms: VmParts, setbacks: LaunchBackoff, room: JvmRoom) -> None:
        self._turn = vms.turn
        self._roster = vms.roster
        self._setbacks = setbacks
        self._room = room
        self._reservations = vms.reservations
        self._ledger = vms.ledger
        self._whole = vms.whole
        self._asked = vms.asked
        self._ordering: Ordering | None = None
        #: The same where nothing is held, ever.
        self._empty: Ordering | None = None
        #: A job that may be placed, with the shares by which it may.
        self._somebody: tuple[str, Standings] | None = None

    def __bool__(self) -> bool:
        return self._ordering is not None

    @property
    def sharing(self) -> Sharing | None:
        """How the cluster is shared."""
        return None if self._ordering is None else self._ordering.sharing

    # ---- changes -----------------------------------------------------------------------------------

    def share(self, sharing: Sharing | None, waiting: Iterable[PlacementRequest]) -> None:
        """Order jobs by `sharing` from now on; past usage carries over."""
        before, self._somebody = self._ordering, None
        used = () if before is None else before.shares.state()
        spent = () if before is None else before.shares.spent()
        self._ordering = None if sharing is None else Ordering(sharing)
        self._empty = None if sharing is None else Ordering(sharing)
        self._ledger.watched = {} if sharing is not None else None
        self._ledger.accounts.spends = None
        if self._ordering is None:
            return
        self._ordering.shares.resume(used, spent, self._holdings(), self._turn.now)
        self._ledger.accounts.spends = self._ordering.shares.spends
        if before is not None:
            self._ordering.resume(before.overtaken())
        for request in waiting:
            self.join(request)

    def state(self) -> QueueState | None:
        """State that cannot be derived from records."""
        if self._ordering is None:
            return None
        shares = self._ordering.shares
        return QueueState(shares.state(), self._ordering.overtaken(), shares.spent())

    def resume(self, state: QueueState) -> None:
        """Restore the state."""
        if self._ordering is not None:
            self._ordering.shares.resume(state.used, state.spent, self._holdings(), self._turn.now)
            self._ordering.resume(state.overtaken)

    def join(self, request: PlacementRequest) -> None:
        """A job waits as a whole, and not aside."""
        if self._ordering is not None:
            self._ordering.join(request, self._roster.number(request.job.id), self._turn.now)

    def leave(self, job_id: str) -> None:
        """Remove a job that does not wait as a whole any more."""
        if self._ordering is not None:
            self._ordering.leave(job_id)

    def settle(self) -> None:
        """Update the shares for changed holdings of jobs."""
        if self._ordering is None or not self._ledger.watched:
            return
        for job_id in self._ledger.watched:
            holding = self._holding(job_id)
            self._ordering.shares.holds(job_id, holding, self._turn.now)
        self._ledger.watched.clear()

    def passed(self, job_id: str) -> None:
        """A job that waits as a whole is about to be placed."""
        if self._ordering is not None and self._ordering.sharing.overtaken_by_others is not None:
            self._ordering.passed(job_id, self.turns())

    def _holdings(self) -> dict[str, JobHolding]:
        jobs = [job.job.id for job in self._roster.with_tasks()]
        return {job_id: found for job_id in jobs if (found := self._holding(job_id)).held}

    def _holding(self, job_id: str) -> JobHolding:
        job = self._roster.job(job_id)
        if job is None:
            return JobHolding("", "", NOTHING, 0.0)
        tasks = self._roster.open_tasks(job)
        per_hour = math.fsum(task.price_per_hour * task.share for task in tasks)
        return JobHolding(job.job.queue, job.job.owner, total(task.resources for task in tasks), per_hour)

    # ---- queries -----------------------------------------------------------------------------------

    def turns(
        self,
        first: Sequence[PlacementRequest] = (),
        growing: Sequence[Grows] = (),
        *,
        gated: bool = True,
    ) -> OrderedQueue:
        """The queue of a round; see `Ordering.turns`. With `gated`, as many as the machine carries."""
        if self._ordering is None:
            raise RuntimeError("there is no order without a Sharing")
        self.settle()
        asked = self._asked
        return self._ordering.turns(
            self._whole(),
            self._turn.now,
            day_of(self._turn.now),
            first=tuple(map(asked, first)),
            growing=[(at, number, asked(request)) for at, number, request in growing],
            skipped=frozenset(self._setbacks.paused()) if self._setbacks else frozenset(),
            gate=self._room.let_in if gated and self._room.bounded else every,
            placed=self._placed(),
            avoided=self._avoided() if self._setbacks else {},
        )

    def _avoided(self) -> dict[str, tuple[str, ...]]:
        """VMs that each job avoids, by job id."""
        found = {job_id: self._setbacks.avoided(job_id) for job_id in self._setbacks.jobs()}
        return {
            job_id: self._asked(PlacementRequest(job.job, 1, avoided=vms)).avoided
            for job_id, vms in found.items()
            if vms and (job := self._roster.job(job_id)) is not None
        }

    def _placed(self) -> list[JobHolding]:
        """Reservations of jobs that wait for VMs, or for others to give way."""
        found = []
        for reserved in self._reservations:
            job = self._roster.job(reserved.job_id)
            if job is not None:
                kept = total((*reserved.sizes, reserved.driver))
                found.append(JobHolding(job.job.queue, job.job.owner, kept, 0.0, new=job.state == "queued"))
        return found

    def anyone(self) -> bool:
        """Whether any job that waits as a whole may be placed."""
        if self._ordering is None or not len(self._ordering):
            return False
        self.settle()
        standings = self._ordering.shares.standings(self._whole(), 0.0, day_of(self._turn.now))
        plain = not (self._setbacks or self._room.bounded or len(self._reservations))
        if plain and self._somebody is not None:
            job_id, then = self._somebody
            if job_id in self._ordering and then.uses is standings.uses and then.spent is standings.spent:
                return True  # jobs that joined meanwhile
        head = self.turns().head
        self._somebody = None if head is None else (head.job.id, standings)
        return head is not None

    def over(self, request: PlacementRequest) -> str:
        """Which limit keeps a request from being placed, in words; empty when none does."""
        if self._ordering is None:
            return ""
        self.settle()
        return self._ordering.over(request, self._whole(), self._turn.now, day_of(self._turn.now))

    def never(self, request: PlacementRequest) -> str:
        """Which limit keeps a request from being placed even alone, in words; empty when none does."""
        if self._empty is None or not self._empty.limits.bounded(request.job.queue):
            return ""
        return self._empty.over(request, self._whole(), self._turn.now, day_of(self._turn.now))

    def refusal(self, job: JobRecord, sizes: Iterable[Resources], *, new: bool) -> str:
        """Which limit a placement would cross that was decided; empty when none."""
        if self._ordering is None or not self._ordering.limits.bounded(job.job.queue):
            return ""
        self.settle()
        driver = job.job.driver if new else None
        takes = total((*sizes, driver or NOTHING))
        now = self._turn.now
        standings = self._ordering.shares.standings(self._whole(), now, day_of(now)).with_more(self._placed())
        over = self._ordering.limits.over(standings, job.job.queue, job.job.owner, takes, more_jobs=int(new))
        return over.why if over else ""

    def kept_back(self) -> dict[str, str]:
        """Limits that block the oldest jobs of each queue, in words, by job id."""
        if self._ordering is None:
            return {}
        self.settle()
        return self._ordering.kept_back(self._whole(), self._turn.now, day_of(self._turn.now))

    def late(self, job: Job) -> str:
        """Message that a waiting job cannot meet its deadline; empty where it can."""
        if self._ordering is None:
            return ""
        return next(self._ordering.why_late(job.id, self._turn.now), "")

    def place_of(self, job_id: str) -> int | None:
        """See `Ordering.place_of`."""
        if self._ordering is None:
            return None
        self.settle()
        return self._ordering.place_of(job_id, self._whole(), self._turn.now, day_of(self._turn.now))

    def why_waits(self, job_id: str) -> str:
        """See `Ordering.why_waits`."""
        if self._ordering is None:
            return ""
        self.settle()
        return self._ordering.why_waits(job_id, self._whole(), self._turn.now, day_of(self._turn.now))

    def standings(self) -> Standings | None:
        """The shares of now; None without an order."""
        if self._ordering is None:
            return None
        self.settle()
        return self._ordering.shares.standings(self._whole(), self._turn.now, day_of(self._turn.now))
