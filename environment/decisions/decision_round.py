"""A round of decisions: one job of the queue after the other, each on the view that the last one left.

This is the loop that the simulator, the daemon and the benchmarks share. Every decision of every policy
passes the one check; one that does not, or a policy that raises, is replaced by the fallback's decision.

Policies are shown jobs that leave their size open as jobs of the size that `sizing` chooses for them, and
elastic jobs with as many executors as there is room for now, as long as that is no less than their fewest; so
every policy starts them smaller, without code for it. One that cuts jobs in its own way finds the whole
again in `PlacementRequest.full`, and is not shown chosen sizes (`environment.policy.Sizer`).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from environment import last_resort
from environment.decisions.cheapest import cheapest_placement
from environment.decisions.decision_types import misshapen, plain
from environment.decisions.feasibility import check
from environment.decisions.own_jobs import waits_for_own
from environment.decisions.sizing import Pressure, Sizing, is_open, pressure_on
from environment.decisions.vain_waits import HeldBack, is_still
from environment.offered import DRIVER_PORTS
from environment.policy import Decide
from environment.policy_faults import failure, foreign, holds_back, waits_in_vain
from environment.resources import Resources
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView

#: Number of VMs that are tried for a driver on the cluster, to find one where it takes no executor's place.
_DRIVER_PLACES = 50
#: Jobs that limits keep from their placements, one by one, in a decision; after them all of a user's go.
#: Chosen: a decision about the rest follows each, so that this bounds the time of a round.
_REFUSED = 8
#: Users with jobs that wait for others of their own, in a decision. Chosen: as above.
_OWNERS = 64


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision to be executed, the view that it was made on, and faults of the policy's own decision.

    `request` is the one that is placed, or the head of the queue when nothing is. `faults` says why the
    policy's own decision was rejected; empty when it was not. `left` is the queue without jobs that limits
    refuse, where they are so many that nobody should be asked about them again in the round.
    """

    request: PlacementRequest
    view: ClusterView
    decision: Decision
    faults: tuple[str, ...] = ()
    left: "WaitingRequests | None" = None

    def left_of(self, queue: "WaitingRequests") -> "WaitingRequests":
        """The queue that it was taken about, without jobs that limits refuse where these are many."""
        return queue if self.left is None else self.left

    @property
    def view_after(self) -> ClusterView:
        """The view after the decision: without the resources of its executors and its driver."""
        place, driver = self.decision, self.request.job.driver
        if isinstance(place, Wait):
            return self.view
        after = self.view.with_placement(self.request, place.placement, place.sizes)
        return after if driver is None or place.driver is None else after.with_driver(place.driver, driver)


class WaitingRequests(Sequence[PlacementRequest]):
    """The requests from a position on, without copying them: first come, first served.

    Where the order depends on holdings, it is `environment.queues.ordered_queue.OrderedQueue`.
    """

    def __init__(self, requests: Sequence[PlacementRequest], start: int = 0) -> None:
        self._requests = requests
        self._start = start

    def __len__(self) -> int:
        return len(self._requests) - self._start

    def __iter__(self) -> Iterator[PlacementRequest]:
        return map(self._requests.__getitem__, range(self._start, len(self._requests)))

    @overload
    def __getitem__(self, index: int) -> PlacementRequest: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PlacementRequest]: ...
    def __getitem__(self, index: int | slice) -> PlacementRequest | Sequence[PlacementRequest]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._requests[self._start + index]

    def refuses(self, view: ClusterView, request: PlacementRequest, place: Place) -> str:  # noqa: ARG002
        """Why a placement that fits the view must not be; empty when it may."""
        return ""

    def without(self, request: PlacementRequest) -> "WaitingRequests":
        """The queue without one of its requests."""
        return WaitingRequests([each for each in self if each is not request])

    def without_user(self, request: PlacementRequest) -> "WaitingRequests":
        """The queue without all requests of the same queue and user."""
        of = request.job.queue, request.job.owner
        return WaitingRequests([each for each in self if (each.job.queue, each.job.owner) != of])

    def without_owners(self, owners: Collection[str]) -> "WaitingRequests":
        """The queue without all requests of these users, in any queue."""
        return WaitingRequests([each for each in self if each.job.owner not in owners])

    def after(self, verdict: Verdict) -> "WaitingRequests":
        """The queue when the verdict's job is placed: another window, or a copy if it was not the head."""
        request = verdict.request
        if request is self[0]:
            return WaitingRequests(self._requests, self._start + 1)
        return WaitingRequests([other for other in self if other is not request])


class QueueOnView(Sequence[PlacementRequest]):
    """A queue as it is shown on a view; requests that are looked at again are the same objects again."""

    def __init__(
        self, view: ClusterView, queue: Sequence[PlacementRequest], sizing: Sizing | None = None
    ) -> None:
        self._view = view
        self._queue = queue
        self._sizing = sizing
        self._pressure: Pressure | None = None
        self._shown: dict[str, PlacementRequest] = {}
        #: Room by the resources of a request: most jobs of a long queue are alike.
        self._rooms: dict[object, int] = {}

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[PlacementRequest]:
        return map(self._show, self._queue)

    @overload
    def __getitem__(self, index: int) -> PlacementRequest: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PlacementRequest]: ...
    def __getitem__(self, index: int | slice) -> PlacementRequest | Sequence[PlacementRequest]:
        if isinstance(index, slice):
            return [self._show(request) for request in self._queue[index]]
        return self._show(self._queue[index])

    def _show(self, request: PlacementRequest) -> PlacementRequest:
        job = request.job
        if job.min_cpus is None and (
            (job.min_executors is None and not request.grows) or request.fewest == request.count
        ):
            return request  # the first is quicker, and true of nearly all
        shown = self._shown.get(job.id)
        if shown is None:
            shown = self._shown[job.id] = self._fitting(self._sized(request))
        return shown

    def _sized(self, request: PlacementRequest) -> PlacementRequest:
        if self._sizing is None or request.joins or not is_open(request.job):
            return request
        if self._pressure is None:
            self._pressure = pressure_on(self._view, self._queue)
        # The number may have been cut to the JVM limit of the machine.
        return self._sizing.shown(request, self._view, self._pressure).first(request.count)

    def _fitting(self, request: PlacementRequest) -> PlacementRequest:
        if request.fewest == request.count:
            return request
        count = self._room(request)
        if count < request.fewest:  # nor is more asked for than it could ever get
            count = max(request.fewest, self._room_when_empty(request))
        return request.first(count)

    def given(self, request: PlacementRequest, place: Place) -> Place:
        """The placement with the size that the request was shown with, where the policy chose none itself."""
        shown = self._show(request)
        if place.sizes or shown.job is request.job:
            return place
        return replace(place, sizes=(shown.size,) * len(place.placement))

    def _room(self, request: PlacementRequest) -> int:
        job = request.job
        apart = _told_apart(self._view, request)
        alike = (request.size, request.count, job.driver, job.spot_driver, request.avoided, job.uses, apart)
        if alike not in self._rooms:
            self._rooms[alike] = room_in_all(self._view, request)
        return self._rooms[alike]

    def _room_when_empty(self, request: PlacementRequest) -> int:
        """For how many executors there is room when nothing else runs."""
        return int(self._view.capacity.room(request.size).sum())


def room_in_all(view: ClusterView, request: PlacementRequest) -> int:
    """For how many executors of the request there is room now, beside a driver that is on the cluster."""
    room, driver = _room(view, request), request.job.driver
    if driver is None or request.joins or room <= request.fewest:
        return room
    return _room_beside(view, request, driver, room)


def has_room(view: ClusterView, request: PlacementRequest) -> bool:
    """Whether all executors of the request fit now, beside a driver that is on the cluster."""
    room, driver = _room(view, request), request.job.driver
    if room < request.count or driver is None or request.joins:
        return room >= request.count
    return _room_beside(view, request, driver, request.count) >= request.count


def which_have_room(view: ClusterView, requests: Sequence[PlacementRequest]) -> list[bool]:
    """`has_room` of each of these requests, quicker than one by one."""
    if not (view.vms and requests):
        return [False] * len(requests)
    if view.offered is None and not (view.left_out or view.leaves_at):
        rooms = view.usable.rooms([each.size if each.sizes else each.job.size for each in requests]).tolist()
        return [
            room >= request.count and (_limited_by_room(view, request) or has_room(view, request))
            for room, request in zip(rooms, requests, strict=True)
        ]
    found: dict[object, bool] = {}
    fits = []
    for request in requests:
        # Most jobs of a long queue are alike; how long they take matters where VMs will go.
        alike = request.kind, _told_apart(view, request)
        if alike not in found:
            found[alike] = has_room(view, request)
        fits.append(found[alike])
    return fits


def _told_apart(view: ClusterView, request: PlacementRequest) -> tuple[float | None, ...]:
    """Properties of a request beside its kind that decide how many of its executors fit on VMs."""
    if view.extras:
        return request.job.expected_duration, request.entered_at
    return (request.job.expected_duration,) if view.leaves_at else ()


def _limited_by_room(view: ClusterView, request: PlacementRequest) -> bool:
    """Whether all VMs that have room for the request's executors are a place for them."""
    job = request.job
    return (job.driver is None or request.joins) and not (view.extras or view.closes_some(request))


def _room_beside(view: ClusterView, request: PlacementRequest, driver: Resources, most: int) -> int:
    """For how many executors there is room, `most` are enough, where the driver takes least of it."""
    best = 0
    for vm in np.flatnonzero(view.room_for_driver(request.job))[:_DRIVER_PLACES].tolist():
        best = max(best, _room(view.with_driver(vm, driver), request))
        if best >= most:
            break
    return best


def _room(view: ClusterView, request: PlacementRequest) -> int:
    return int(np.minimum(view.room_for(request), request.count).sum())


def decide_in_turn(
    decide: Decide,
    view: ClusterView,
    requests: Sequence[PlacementRequest],
    *,
    fallback: Decide | None = None,
    sizing: Sizing | None = None,
    held: HeldBack | None = None,
) -> Iterator[Verdict]:
    """Decide about the queue until it is empty or the policy waits; the last verdict may be a `Wait`.

    One by one: each verdict holds a view of its own, so the round of a long queue is better not kept whole.
    """
    queue = requests if isinstance(requests, WaitingRequests) else WaitingRequests(requests)
    while queue:
        verdict = decide_once(decide, view, queue, fallback=fallback, sizing=sizing, held=held)
        yield verdict
        if not isinstance(verdict.decision, Place):
            break
        view, queue = verdict.view_after, verdict.left_of(queue).after(verdict)


def decide_once(
    decide: Decide,
    view: ClusterView,
    queue: Sequence[PlacementRequest],
    *,
    fallback: Decide | None = None,
    sizing: Sizing | None = None,
    held: HeldBack | None = None,
) -> Verdict:
    """Take one decision about the queue; never raises, not even where the policy does.

    Without `sizing`, jobs that leave their size open are shown with their full request. `held` watches the
    policy's waits and is the same at each of its decisions; without it, a policy may wait for ever beside
    running jobs.
    """
    verdict = _ask(decide, view, queue, sizing, held)
    if verdict.faults and fallback is not None:
        second = _ask(fallback, view, queue, sizing)
        verdict = replace(second, faults=(*verdict.faults, *second.faults))
    return verdict


def _ask(
    decide: Decide,
    view: ClusterView,
    queue: Sequence[PlacementRequest],
    sizing: Sizing | None,
    held: HeldBack | None = None,
) -> Verdict:
    if isinstance(queue, WaitingRequests):
        verdict = _ask_in_turn(decide, view, queue, sizing, held)
    else:
        verdict = _with_driver(_ask_once(decide, view, queue, sizing, held), queue[0])
    if held is not None and isinstance(verdict.decision, Place):
        held.placed()
    return verdict


def _ask_in_turn(
    decide: Decide, view: ClusterView, whole: WaitingRequests, sizing: Sizing | None, held: HeldBack | None
) -> Verdict:
    """Ask about the queue, and again without jobs that limits, or their own users' other jobs, hold up."""
    head, queue, owners, refused = whole[0], whole, set[str](), 0
    while queue:
        verdict = _ask_once(decide, view, queue, sizing, held)
        if verdict.faults:
            break
        if isinstance(verdict.decision, Place):
            request, allowed = verdict.request, _within_limits(queue, view, verdict.request, verdict.decision)
            if isinstance(allowed, str):
                refused += 1
                whole = whole.without(request) if refused <= _REFUSED else whole.without_user(request)
                queue = whole.without_owners(owners) if owners else whole
                verdict = Verdict(head, view, Wait(f"{allowed}; jobs behind it do not wait for it"))
                continue
            verdict = _with_driver(replace(verdict, decision=allowed), queue[0])
            if isinstance(verdict.decision, Place):
                break
        if len(owners) == _OWNERS or not waits_for_own(view, queue[0]):
            break
        owners.add(queue[0].job.owner)
        queue = whole.without_owners(owners)  # where nobody else waits, the policy's own reason stays
    return replace(verdict, left=whole) if refused > _REFUSED else verdict


def _within_limits(
    queue: WaitingRequests, view: ClusterView, request: PlacementRequest, place: Place
) -> Place | str:
    """The placement, or the cheapest one where only that is within limits; else which limit is crossed."""
    if not (over := queue.refuses(view, request, place)):
        return place
    cheapest = cheapest_placement(view, request, place)
    if cheapest is None or check(view, request, cheapest):
        return over
    return queue.refuses(view, request, cheapest) or cheapest


def _ask_once(
    decide: Decide,
    view: ClusterView,
    queue: Sequence[PlacementRequest],
    sizing: Sizing | None,
    held: HeldBack | None,
) -> Verdict:
    request, shown = queue[0], QueueOnView(view, queue, sizing)
    try:
        decision = plain(decide(view, shown))
        faults = misshapen(decision, view)
        if not faults and isinstance(decision, Place):
            request = _named(queue, decision.job_id)
            decision = shown.given(request, decision)
            faults = check(view, request, decision)
    except BaseException as error:  # no exception of the policy may stop the queue
        if not foreign(error):
            raise
        faults = (failure(error),)
    else:
        if not faults and isinstance(decision, Wait):
            vain = _in_vain(view, shown[0], decision, held)
            return Verdict(request, view, decision, (vain,) if vain else ())
        if not faults and isinstance(decision, Place):
            return Verdict(request, view, decision)
    wait = Wait("the decision could not be executed: " + "; ".join(faults))
    return Verdict(queue[0], view, wait, faults)


def _in_vain(view: ClusterView, first: PlacementRequest, wait: Wait, held: HeldBack | None) -> str:
    """Why the policy should not wait (`environment.decisions.vain_waits`); empty when it may."""
    still = is_still(view)
    if not still and held is None:
        return ""
    if has_room(view, first):
        if still:
            return waits_in_vain(first.job, wait)
        seconds = None if held is None else held.fits(first, view.at)
        return "" if seconds is None else holds_back(first.job, seconds, wait)
    # A master that offers less for a moment is no change: the free resources count.
    if held is not None and not (
        view.offered is not None and held.knows(first) and has_room(replace(view, offered=None), first)
    ):
        held.fits_not(first)
    return ""


def _named(queue: Sequence[PlacementRequest], job_id: str) -> PlacementRequest:
    """The request of that job; the head, which is then not the one decided about, if it does not wait."""
    return next((request for request in queue if request.job.id == job_id), queue[0])


def room_for_driver(view: ClusterView, request: PlacementRequest, place: Place) -> int | str | None:
    """The VM for the job's driver; why there is none; None without a driver.

    First one with executors of the job, then one that costs nothing more, then the cheapest. A VM that costs
    more for what the driver does not need is its last resort.
    """
    driver = request.job.driver
    if driver is None or request.joins:
        return None
    after = view.with_placement(request, place.placement, place.sizes)
    room = after.room_for_driver(request.job)
    for index in place.placement:
        if room[index]:
            return index
    limit = last_resort.last_resort(after, request.for_driver()) if after.extras else None
    if (found := _cheapest(after, room if limit is None else room & (limit > 0))) is not None:
        return found
    ports = "" if view.offered is None else f" with {DRIVER_PORTS} ports"
    where = " that is no spot VM" if view.spot.any() and request.job.driver_barred(spot=True) else ""
    waits = last_resort.told(after, request.for_driver()) if room.any() else ""
    why = f"beside its executors no VM{where} has room for its driver ({driver}{ports})"
    return f"{why}; {waits}" if waits else why


def _cheapest(view: ClusterView, among: NDArray[np.bool_]) -> int | None:
    """The first of these VMs on which something runs or that is always there, then the cheapest; None: none.

    Of equally cheap ones an open VM is before one that would be opened.
    """
    if not among.any():
        return None
    closed = np.zeros(len(among), np.bool_) if view.openings is None else ~view.openings.open
    more = np.where(view.paid & (view.executors == 0), view.list_prices_per_hour, 0.0)
    order = np.lexsort((closed, more, ~among))
    return int(order[0])


def beside_driver(view: ClusterView, request: PlacementRequest, place: Place) -> Place | str:
    """The placement with a VM for the job's driver, where that is on the cluster; or why there is none.

    An elastic job does without its last executors rather than without its driver.
    """
    room = room_for_driver(view, request, place)
    if room is None and place.driver is None:
        return place
    if not isinstance(room, str):
        return replace(place, driver=room)
    for count in range(len(place.placement) - 1, request.fewest - 1, -1):
        smaller = _first(place, count)
        index = room_for_driver(view, request, smaller)
        if isinstance(index, int):
            return replace(smaller, driver=index)
    return room


def _with_driver(verdict: Verdict, head: PlacementRequest) -> Verdict:
    """Find room for the driver of a job that runs its driver on the cluster."""
    request, decision = verdict.request, verdict.decision
    if isinstance(decision, Wait):
        return verdict
    found = beside_driver(verdict.view, request, decision)
    if not isinstance(found, str):
        return verdict if found is decision else replace(verdict, decision=found)
    why = found if request is head else f"{request.job.id} was to be placed before it, but {found}"
    return replace(verdict, request=head, decision=Wait(why))


def _first(place: Place, count: int) -> Place:
    """The placement of its first executors alone."""
    first = place.placement[:count]
    return replace(place, placement=first, why=place.why[:count], sizes=place.sizes[:count])
