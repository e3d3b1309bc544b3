"""The cost and duration of a placed job on each kind of VM, in dollars and seconds.

The numbers hold for every policy, since they follow from the view that it decided on: beliefs about
durations and about running jobs, prices, boots and interruptions. A kind is a type of VM, on demand or spot,
and open or yet to be opened.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from conf.defaults import UNKNOWN_DURATION
from conf.units import SECONDS_PER_HOUR
from environment.resources import Resources
from environment.types import FloatArray, IntArray, Job, Place, PlacementRequest
from environment.view import ClusterView

#: Number of kinds that are listed, the cheapest first. Chosen: as many as anybody reads.
KINDS_LISTED = 8


@dataclass(frozen=True, slots=True)
class KindEstimate:
    """Estimate for a job with all executors on VMs of one kind; or as they were placed.

    `types` names the types of its VMs: one, but for the placement itself. Of its `vms` VMs so many are `spot`
    VMs, and so many are yet to be opened: all or none, but for the placement itself. All are ready
    in `ready_in` seconds, and the job takes `seconds` from then on. `dollars` are added to the bill: the
    price of the time for which these VMs are held longer for it, boots included; a VM that is there anyway
    adds nothing. None where the job's duration is not known, or where only `room` of its executors fit.
    """

    types: tuple[str, ...]
    placed: bool
    room: int
    vms: int
    spot: int
    opens: int
    ready_in: float
    seconds: float | None
    dollars: float | None


def estimates_by_kind(view: ClusterView, request: PlacementRequest, place: Place) -> tuple[KindEstimate, ...]:
    """The estimate of a new job's placement, and below it those of the kinds of VM, the cheapest first.

    Nothing for executors that join a running job, which ends when the others do.
    """
    if request.joins or not place.placement:
        return ()
    pricing, count = _Pricing(view, request, request.granted(place)), len(place.placement)
    chosen = pricing.estimate(np.array(place.placement, np.int64), placed=True)
    asked = replace(request, sizes=place.sizes) if place.sizes else request
    room = np.minimum(view.room_for(asked), count)
    kinds, of = view.kinds
    codes = np.where(room > 0, 2 * of + ~view.is_open, -1)
    found = [
        pricing.best(members, room[members])
        for code in range(2 * len(kinds))
        if len(members := np.flatnonzero(codes == code))
    ]
    return (chosen, *sorted(found, key=_by_cost)[:KINDS_LISTED])


def work_lost(view: ClusterView, job: Job, unknown: float) -> FloatArray:
    """Expected share of its work that the job loses on each VM; float64 [N], below 1.

    A spot VM is taken away now and then. Each time the job loses the work that its executors there have done
    since they arrived, half of the job on average, as far as its type repeats that work, and a boot, during
    which nothing is done. A job of unknown duration is assumed to take `unknown` seconds.
    """
    if not view.spot.any():
        return np.zeros(len(view.vms))
    seconds = unknown if job.expected_duration is None else job.expected_duration
    distinct, index = view.distinct_terms
    shares = np.zeros(len(distinct))
    for number, terms in enumerate(distinct):
        if terms is not None and terms.spot is not None:
            each = job.rework.after(terms.spot.notice) * seconds / 2 + terms.boot
            lost = terms.spot.interruptions_per_hour / SECONDS_PER_HOUR * each
            shares[number] = lost / (1.0 + lost)
    found: FloatArray = shares[index]
    return found


class _Pricing:
    """Seconds and dollars of one job's placements on one view; executors have `sizes`."""

    def __init__(self, view: ClusterView, request: PlacementRequest, sizes: Sequence[Resources]) -> None:
        self._view, self._job = view, request.job
        self._sizes = () if tuple(sizes) == request.job.asked else tuple(sizes)
        self._count = len(sizes)
        self._held = np.maximum(view.busy_until_assuming(UNKNOWN_DURATION) - view.at, 0.0)
        if view.openings is not None:
            self._held[~view.paid] = np.inf  # it is there, and paid for, anyway
        self._lost = work_lost(view, request.job, UNKNOWN_DURATION)

    def best(self, members: IntArray, room: IntArray) -> KindEstimate:
        """The cheaper of two placements on these VMs, which have `room`: on the fewest, or one on each."""
        if int(room.sum()) < self._count:
            return self.estimate(np.repeat(members, room))
        cheapest = -self._held[members], self._view.prices_per_hour[members]
        fewest = np.lexsort((*cheapest, -room))
        packed = np.repeat(members[fewest], room[fewest])[: self._count]
        placements = [packed]
        if len(members) >= self._count > 1:
            placements.append(members[np.lexsort(cheapest)][: self._count])
        return min(map(self.estimate, placements), key=_by_cost)

    def estimate(self, placement: IntArray, *, placed: bool = False) -> KindEstimate:
        """The estimate of a placement, by the index of each executor's VM."""
        view = self._view
        vms = np.unique(placement)
        ready = view.at if view.openings is None else view.openings.starts(view.at, vms.tolist())
        ready_in, seconds, dollars = ready - view.at, None, None
        if len(placement) == self._count:
            seconds = self._job.expected_on(self._sizes, len(vms))
        if seconds is not None:
            seconds /= 1.0 - float(self._lost[vms].max())
            dollars = self._dollars(vms, ready_in + seconds)
        return KindEstimate(
            tuple(dict.fromkeys(view.vms[vm].type for vm in vms)),
            placed,
            len(placement),
            len(vms),
            int(view.spot[vms].sum()),
            int((~view.is_open[vms]).sum()),
            ready_in,
            seconds,
            dollars,
        )

    def _dollars(self, vms: IntArray, until: float) -> float:
        """Dollars for which these VMs are held longer, where they are held for `until` seconds from now."""
        longer = np.maximum(until - self._held[vms], 0.0)
        opened = ~self._view.is_open[vms]
        for at in np.flatnonzero(opened):
            terms = self._view.vms[vms[at]].terms
            longer[at] = longer[at] if terms is None else terms.charged(longer[at])
        return float((longer * self._view.unpaid_prices_per_hour[vms]).sum()) / SECONDS_PER_HOUR


def _by_cost(estimate: KindEstimate) -> tuple[float, float, int]:
    """Sort key: the cheapest first, then the quickest; those on which the job does not fit whole last."""
    if estimate.dollars is None or estimate.seconds is None:
        return np.inf, np.inf, -estimate.room
    return estimate.dollars, estimate.ready_in + estimate.seconds, 0
