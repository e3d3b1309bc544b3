"""VMs that have what a job does not need, and cost more for it: its last resort, by price.

Of such VMs a job is shown no more room than it lacks on the others, the cheapest first. One of a pool, which
has to be paid for to be used, it is shown when it has waited for as long as the higher price is worth: until
then it waits for one of the others, where it could run if nobody held them. Policies place by room; a
placement elsewhere is not refused.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from conf.schema.defaults import UNKNOWN_DURATION
from environment.resources import BASIC

if TYPE_CHECKING:
    from environment.types import IntArray, PlacementRequest, Vm
    from environment.view import ClusterView

#: What every agent has beside cpus and memory: nobody pays more for it.
_USUAL = frozenset((*BASIC, "disk", "ports"))
_ANY_NUMBER = np.iinfo(np.int64).max


def extras_of(vms: "tuple[Vm, ...]") -> "dict[str, NDArray[np.bool_]]":
    """Which VMs have what only some jobs ask for, by its name; bool [N] each."""
    found = {name: None for vm in vms for name in vm.resources.thousandths if name not in _USUAL}
    return {name: np.array([vm.resources.get(name) > 0 for vm in vms], np.bool_) for name in found}


def last_resort(view: "ClusterView", request: "PlacementRequest") -> "IntArray | None":
    """How many executors of the request each VM is shown to have room for by this rule; int64 [N].

    None where it limits nothing.
    """
    dearer = _dearer(view, request)
    if dearer is None:
        return None
    room = np.minimum(view.usable.room(request.size), np.where(view.closed_to(request), 0, _ANY_NUMBER))
    lacking = request.count - int(np.minimum(room[~dearer], request.count).sum())
    allowed = dearer & ~_waits_for(view, request, dearer)
    limit: IntArray = np.where(dearer, 0, _ANY_NUMBER)
    for vm in np.flatnonzero(allowed)[np.argsort(view.prices_per_hour[allowed], kind="stable")].tolist():
        limit[vm] = max(min(int(room[vm]), lacking), 0)
        lacking -= int(limit[vm])
    return limit


def opens_at(view: "ClusterView", request: "PlacementRequest") -> float:
    """When the request is shown dearer VMs for which it waits still; infinity where it waits for none."""
    dearer = _dearer(view, request)
    if dearer is None or not _waits_for(view, request, dearer).any():
        return float("inf")
    patience = _patience(view, request, dearer)
    later = request.entered_at + patience[dearer & (request.entered_at + patience > view.at)]
    return float(later.min(initial=float("inf")))


def told(view: "ClusterView", request: "PlacementRequest") -> str:
    """Say for which VMs the request waits by this rule; empty where it waits for none."""
    dearer = _dearer(view, request)
    if dearer is None or not (waits := _waits_for(view, request, dearer)).any():
        return ""
    first, count = view.vms[int(np.flatnonzero(waits)[0])], int(np.count_nonzero(waits))
    names = " and ".join(name for name, has in view.extras.items() if has[waits].any())
    more = f" (and {count - 1} more)" if count > 1 else ""
    needless = f"its {names}, which {request.job.id} does not need"
    return f"{first.name}{more} costs more for {needless}: the last resort"


def _dearer(view: "ClusterView", request: "PlacementRequest") -> "NDArray[np.bool_] | None":
    """The VMs that have what the request does not need, and cost more than one that would do; None: none."""
    asked = request.size
    needless = [has for name, has in view.extras.items() if not asked.get(name)]
    if not needless:
        return None
    spare: NDArray[np.bool_] = np.logical_or.reduce(needless)
    fits = (view.capacity.room(asked) > 0) & ~view.closed_to(request)
    if not (fits & ~spare).any():
        return None
    dearer = spare & (view.prices_per_hour > view.prices_per_hour[fits & ~spare].min())
    return dearer if dearer.any() else None


def _waits_for(
    view: "ClusterView", request: "PlacementRequest", dearer: "NDArray[np.bool_]"
) -> "NDArray[np.bool_]":
    """Which of these the request is not shown yet: they would be paid for, and it could run on the others."""
    paid = view.paid & dearer
    if request.again or not paid.any():
        return np.zeros(len(view.vms), np.bool_)
    others = np.where(dearer | view.closed_to(request), 0, view.capacity.room(request.size))
    if int(np.minimum(others, request.count).sum()) < request.fewest:
        return np.zeros(len(view.vms), np.bool_)
    return paid & (view.at < request.entered_at + _patience(view, request, dearer))


def _patience(
    view: "ClusterView", request: "PlacementRequest", dearer: "NDArray[np.bool_]"
) -> "NDArray[np.float64]":
    """For how many seconds each VM is not worth its price: as many times the job's as it costs more."""
    seconds = request.job.expected_duration
    least = float(view.prices_per_hour[~dearer].min(initial=np.inf))
    more = view.prices_per_hour / least - 1.0 if least > 0 else np.full(len(view.vms), np.inf)
    patience: NDArray[np.float64] = more * (UNKNOWN_DURATION if seconds is None else seconds)
    return patience
