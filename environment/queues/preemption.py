"""Whether a waiting job may take executors from others, and from which, at the least loss.

A job of higher priority, or of a queue that has less than is guaranteed to it, takes executors of elastic
jobs first, which go on with fewer, and then whole jobs of the lowest priority, which wait again in their
places. Before each: is it still needed, does the job then fit, and is the victim nearly done. The same in the
daemon's model and in a simulation, which build `Holders` from their state and carry out a `PreemptionPlan`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from conf.defaults import DRAIN_SECONDS
from conf.schema.sharing import Cause
from conf.units import SECONDS_PER_HOUR
from environment.decisions.decision_round import beside_driver, room_in_all
from environment.decisions.feasibility import check
from environment.queues.ordered_queue import OrderedQueue
from environment.queues.running_usage import BoolArray, Holders
from environment.queues.types import Sharing
from environment.queues.victim_selection import NothingTakenError, QueueGuarantee, Victims, VictimSelector
from environment.resource_arrays import ResourceArrays
from environment.resources import NOTHING, Resources, total
from environment.types import FloatArray, Place, PlacementRequest
from environment.view import ClusterView

#: For how long a job has waited at least that takes from others, seconds. Chosen: some rounds of offers.
HOLD = 5.0
#: Reason not to preempt for a job that only waits for its turn, or for offers.
THERE_IS_ROOM = "there is room for it"
#: Number of jobs, the first in order, whose queues are checked for guarantees.
_WINDOW = 64
#: Seconds between two searches for a preemption.
LOOK = 2.0
#: Executors believed to end within so long are waited for: it is about as long as executors are drained.
SOON = DRAIN_SECONDS
#: For how long taken executors are reserved for the taker, until all are there. Chosen: a driver gives the
#: last executors up that have no other to take their blocks after 120 s.
TAKING_PATIENCE = 180.0


@dataclass(frozen=True, slots=True)
class Taker:
    """A waiting job; the jobs that have taken from it before, and the time until which it takes nothing."""

    request: PlacementRequest
    gave_to: Collection[str] = ()
    rests_until: float = 0.0


class Victim(NamedTuple):
    """A job that gives way: these executors of it by number, or all of it; dollars of work that are lost."""

    job_id: str
    numbers: tuple[int, ...]
    whole: bool
    lost: float


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """Jobs that give way to a taker, the cause, and the taker's placement then, on the view's VMs."""

    taker: PlacementRequest
    by: Cause
    victims: tuple[Victim, ...]
    place: Place

    @property
    def lost(self) -> float:
        """Dollars of work that are lost."""
        return sum(victim.lost for victim in self.victims)


def plan(
    view: ClusterView,
    taker: Taker,
    holders: Holders,
    sharing: Sharing,
    awaited: Mapping[str, Resources] | None = None,
) -> PreemptionPlan | str:
    """Plan of the jobs that give way to the taker; or why none does, in words.

    `awaited` are reserved resources that jobs do not hold yet, by queue: they count as the queue's.
    """
    try:
        return _Search(view, taker, holders, sharing, awaited or {}).plan()
    except NothingTakenError as why:
        return str(why)


def takers(requests: Sequence[PlacementRequest], sharing: Sharing, now: float) -> Iterator[PlacementRequest]:
    """Waiting jobs that others may give way to: the first, then one of each queue with a guarantee.

    Only the plan shows whether the queue is below its guarantee: try each until a plan is found.
    Excludes running jobs that might grow while no other waits, and jobs that have just come.
    """
    seen = {""}
    for number, request in enumerate(islice(requests, _WINDOW)):
        # The sum, as those round it that wait for this time: the difference may be less by a rounding.
        if (request.grows and request.job.dynamic is None) or now < request.entered_at + HOLD:
            continue
        queue = _guaranteed(request, sharing) if number else ""
        if number and queue in seen:
            continue
        seen.add(queue)
        yield request


def _guaranteed(request: PlacementRequest, sharing: Sharing) -> str:
    """The nearest queue, its own or one above it, to which something is guaranteed; empty without one."""
    if "guarantee" not in sharing.preemption.by:
        return ""
    line = sharing.queues.line(request.job.queue)
    return next((queue.path for queue in reversed(line) if queue.guaranteed), "")


def refused(requests: Sequence[PlacementRequest], view: ClusterView, found: PreemptionPlan) -> str:
    """Limit of a queue that keeps the taker from the resources given up; empty when none does."""
    return requests.refuses(view, found.taker, found.place) if isinstance(requests, OrderedQueue) else ""


def is_in(path: str, queue: str) -> bool:
    """Whether a queue is that one or below it."""
    return path == queue or path.startswith(f"{queue}.")


class _Search:
    """Search for one preemption plan, with its repeatedly used inputs."""

    def __init__(
        self,
        view: ClusterView,
        taker: Taker,
        holders: Holders,
        sharing: Sharing,
        awaited: Mapping[str, Resources],
    ) -> None:
        # All free resources will be offered, so that no job has to give way for those that are only on their
        # way.
        self._view = view if view.offered is None else view.changed(offered=None)
        self._taker, self._request = taker, taker.request
        self._holders, self._sharing, self._awaited = holders, sharing, awaited
        self._terms = sharing.preemption
        prices = view.list_prices_per_hour / np.maximum(view.cpus, 1e-9) / SECONDS_PER_HOUR
        on = np.append(prices, 0.0)[holders.vm]
        self._worth: FloatArray = holders.core_seconds(view.at) * on

    # ---- the three questions ---------------------------------------------------------------------------

    def plan(self) -> PreemptionPlan:
        """The plan; NothingTakenError when there is none."""
        request, now = self._request, self._view.at
        if not self._terms.by:
            raise NothingTakenError("preemption is off")
        if now < self._taker.rests_until:
            raise NothingTakenError("it was preempted a moment ago, and may not preempt others for a while")
        if room_in_all(self._view, request) >= request.fewest:
            raise NothingTakenError(THERE_IS_ROOM)
        self._see_who_ends_soon()
        whys = []
        for by in self._terms.by:
            try:
                return self._plan_by(by)
            except NothingTakenError as why:
                whys.append(str(why))
        raise NothingTakenError("; ".join(dict.fromkeys(whys)))

    def _see_who_ends_soon(self) -> None:
        holders, now = self._holders, self._view.at
        ending = np.nan_to_num(holders.ends_at, nan=np.inf) <= now + SOON
        rows = ending[holders.of] & ~holders.going
        if rows.any() and room_in_all(self._without(rows), self._request) >= self._request.fewest:
            names = ", ".join(holders.jobs[j].id for j in np.flatnonzero(ending)[:3].tolist())
            raise NothingTakenError(f"there will be room for it soon, as {names} should end")

    def _without(self, rows: BoolArray) -> ClusterView:
        """The view when these executors are gone."""
        free = self._view.free
        held = {name: self._holders.freed(rows, name, len(self._view.vms)) for name in free.thousandths}
        return self._view.changed(
            free=ResourceArrays({name: free.get(name) + held[name] for name in free.thousandths})
        )

    def _nearly_done(self) -> BoolArray:
        """Jobs that are believed to be nearly done, bool [J]; False for jobs of unknown end."""
        holders, now = self._holders, self._view.at
        whole = holders.ends_at - holders.started_at
        passed = now - holders.started_at
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.nan_to_num(passed / whole, nan=0.0) >= self._terms.nearly_done

    # ---- victims -----------------------------------------------------------------------------------------

    def _plan_by(self, by: Cause) -> PreemptionPlan:
        holders, terms = self._holders, self._terms
        may = (holders.rests_until <= self._view.at) & ~self._nearly_done()
        mine = (holders.index.get(i) for i in (self._request.job.id, *self._taker.gave_to))
        may[[number for number in mine if number is not None]] = False
        may &= ~holders.of_queues(self._protected)
        if by == "priority":
            may &= holders.priorities < self._request.job.priority
            nobody = f"no job that may be preempted has a lower priority than {self._request.job.priority}"
        else:
            queue = self._short_queue()
            may &= ~holders.of_queues(lambda path: is_in(path, queue))
            nobody = f"no job outside of {queue} may be preempted"
        if not may.any():
            raise NothingTakenError(nobody)
        young = self._view.at - holders.started_at <= terms.young
        chooser = VictimSelector(self._view, self._request, holders, self._worth, self._guards())
        choice, count = chooser.choose(may, holders.whole & young)
        return self._made(by, choice, count)

    def _protected(self, queue: str) -> bool:
        return any(above.protected for above in self._sharing.queues.line(queue))

    def _short_queue(self) -> str:
        """The taker's queue, or the one above it, that has less than is guaranteed and room for the job."""
        job, request = self._request.job, self._request
        wants = total((*request.asked[: request.fewest], job.driver or NOTHING))
        found = [queue for queue in self._sharing.queues.line(job.queue) if queue.guaranteed]
        for queue in reversed(found):
            holds = self._held_in(queue.path, queue.guaranteed)
            if all(
                holds[name] + wants.get(name) <= amount
                for name, amount in queue.guaranteed.thousandths.items()
            ):
                return queue.path
        if not found:
            raise NothingTakenError(f"its queue {job.queue} has no guarantee")
        raise NothingTakenError(f"with it, {found[-1].path} would exceed its guarantee")

    def _held_in(self, path: str, names: Resources) -> dict[str, int]:
        """Resources that jobs of a queue hold or have reserved, thousandths by name."""
        holders = self._holders
        kept = total(amount for queue, amount in self._awaited.items() if is_in(queue, path))
        return {name: holders.held_in(path, name) + kept.get(name) for name in names}

    def _guards(self) -> list[QueueGuarantee]:
        """Guarantees of queues that must be preserved: those of queues that the taker is not in."""
        found = []
        for queue in self._sharing.queues:
            if queue.guaranteed and not is_in(self._request.job.queue, queue.path):
                members = self._holders.members(queue.path)
                if members is not None:
                    holds = self._held_in(queue.path, queue.guaranteed)
                    found.append(QueueGuarantee(queue.guaranteed, members, holds))
        return found

    # ---- the plan ----------------------------------------------------------------------------------------

    def _made(self, by: Cause, choice: Victims, count: int) -> PreemptionPlan:
        """The plan, after a last look whether it can be executed."""
        holders, request = self._holders, self._request.first(count)
        if request.fewest > len(request.asked):
            raise NothingTakenError("there is no room for it")
        gone = np.zeros(len(holders.of), np.bool_)
        gone[choice.rows] = True
        gone |= holders.are(choice.jobs)[holders.of] & ~holders.going & (holders.vm >= 0)
        after = self._without(gone)
        place = beside_driver(after, request, Place(request.job.id, placed(after, request)))
        if isinstance(place, str):
            raise NothingTakenError(place)
        if faults := check(after, request, place):
            raise NothingTakenError("; ".join(faults))
        return PreemptionPlan(request, by, tuple(self._victims(choice)), place)

    def _victims(self, choice: Victims) -> list[Victim]:
        holders, found = self._holders, []
        costs = dict(
            zip(choice.rows.tolist(), (self._worth * holders.drained)[choice.rows].tolist(), strict=True)
        )
        for job in np.unique(holders.of[choice.rows]).tolist():
            rows = [row for row in choice.rows.tolist() if holders.of[row] == job]
            numbers = tuple(number for row in rows if (number := holders.numbers[row]) is not None)
            found.append(Victim(holders.jobs[job].id, numbers, False, sum(costs[row] for row in rows)))
        for job in choice.jobs.tolist():
            rows = np.flatnonzero((holders.of == job) & ~holders.going).tolist()
            numbers = tuple(number for row in rows if (number := holders.numbers[row]) is not None)
            found.append(Victim(holders.jobs[job].id, numbers, True, float(self._worth[rows].sum())))
        return found


def placed(view: ClusterView, request: PlacementRequest) -> tuple[int, ...]:
    """A VM for each executor: on as many as there are for jobs that spread, on the fewest for others."""
    rooms = np.minimum(view.room_for(request), request.count)
    order = np.argsort(-rooms, kind="stable")
    if request.job.prefers == "spread":
        turns = [(turn, vm) for vm in np.flatnonzero(rooms).tolist() for turn in range(int(rooms[vm]))]
        return tuple(vm for _, vm in sorted(turns)[: request.count])
    filled = np.repeat(order, rooms[order])[: request.count]
    return tuple(int(vm) for vm in filled)
