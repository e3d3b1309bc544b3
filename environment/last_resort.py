"""Last resort of a job, by price: VMs that offer resources it does not need, and cost more for them.

A job sees no more room on such VMs than it lacks on the others, the cheapest first. A VM of a pool costs
money as soon as it is used. The job sees it only after it has waited for as long as the higher price is
worth; until then it waits for one of the other VMs, on which it could run if they were free. Policies place
by room; a placement elsewhere is not refused.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conf.defaults import UNKNOWN_DURATION
from environment.resources import BASIC

if TYPE_CHECKING:
    from environment.types import FloatArray, IntArray, PlacementRequest, Vm
    from environment.view import ClusterView

#: Resources that every agent has beside cpus and memory: they do not raise a price.
_USUAL = frozenset((*BASIC, "disk", "ports"))
_ANY_NUMBER = np.iinfo(np.int64).max
_NEVER = float("inf")
#: Requests that wait no more are kept until there are so many, and as many again as wait.
_FORGOTTEN = 1024


def extras_of(vms: "tuple[Vm, ...]") -> "dict[str, NDArray[np.bool_]]":
    """VMs with each resource that only some jobs request, by the resource's name; bool [N] each."""
    found = {name: None for vm in vms for name in vm.resources.thousandths if name not in _USUAL}
    return {name: np.array([vm.resources.get(name) > 0 for vm in vms], np.bool_) for name in found}


def last_resort(view: "ClusterView", request: "PlacementRequest") -> "IntArray | None":
    """Executors of the request for which each VM shows room by this rule; int64 [N].

    None where it limits nothing.
    """
    dearer = _dearer(view, request)
    if dearer is None:
        return None
    room = np.minimum(view.usable.room(request.size), np.where(view.closed_to(request), 0, _ANY_NUMBER))
    lacking = request.count - int(np.minimum(room[~dearer], request.count).sum())
    allowed = dearer & ~_waits_for(view, request, dearer)
    limit: IntArray = np.where(dearer, 0, _ANY_NUMBER)
    for vm in np.flatnonzero(allowed)[np.argsort(view.list_prices_per_hour[allowed], kind="stable")].tolist():
        limit[vm] = max(min(int(room[vm]), lacking), 0)
        lacking -= int(limit[vm])
    return limit


class OpensAt:
    """When requests are shown dearer VMs for which they wait still, in a world where time goes on.

    A time is found once for a request, and what it follows from once for all that ask for the same, as long
    as the view's VMs are the same tuple. Not for views from which VMs are left out, or taken away at a time.
    """

    def __init__(self) -> None:
        self._vms: tuple[Vm, ...] = ()
        #: By the requested resources.
        self._steps: dict[object, _Steps | None] = {}
        #: By identity, with the request itself to keep that: a request does not change.
        self._known: dict[int, tuple[PlacementRequest, float]] = {}

    def next_at(self, view: "ClusterView", queue: "Sequence[PlacementRequest]") -> float:
        """The first time, seconds, at which one of the queue is; infinity where none will be."""
        if view.vms is not self._vms:
            self._vms, self._steps, self._known = view.vms, {}, {}
        known, found, count = self._known, _NEVER, 0
        for request in queue:
            count += 1
            had = known.get(id(request))
            if had is None or had[1] <= view.at:
                had = known[id(request)] = request, self._of(view, request)
            found = min(found, had[1])
        if len(known) > 2 * count + _FORGOTTEN:
            self._known = {id(each): known[id(each)] for each in queue}
        return found

    def _of(self, view: "ClusterView", request: "PlacementRequest") -> float:
        job = request.job
        alike = (
            request.size,
            job.size,
            job.uses,
            request.avoided,
            request.count,
            request.fewest,
            request.again,
        )
        if alike not in self._steps:
            self._steps[alike] = _steps(view, request)
        steps = self._steps[alike]
        return _NEVER if steps is None else _opens_at(view.at, request, steps)


def opens_at(view: "ClusterView", request: "PlacementRequest") -> float:
    """Time at which the request sees dearer VMs for which it waits; infinity where it waits for none."""
    steps = _steps(view, request)
    return _NEVER if steps is None else _opens_at(view.at, request, steps)


class _Steps(NamedTuple):
    """How much dearer VMs are that a request may wait for, as shares of the least price, each once."""

    paid: "FloatArray"
    all: "FloatArray"


def _steps(view: "ClusterView", request: "PlacementRequest") -> _Steps | None:
    """Those of a request; None where it never waits for any."""
    dearer = _dearer(view, request)
    if dearer is None or not (paid := _waited_for(view, request, dearer)).any():
        return None
    more = _more(view, dearer)
    return _Steps(np.unique(more[paid]), np.unique(more[dearer]))


def _opens_at(at: float, request: "PlacementRequest", steps: _Steps) -> float:
    seconds = _seconds(request)
    if not (at < request.entered_at + steps.paid * seconds).any():
        return _NEVER
    later = request.entered_at + steps.all * seconds
    return float(later[later > at].min(initial=_NEVER))


def told(view: "ClusterView", request: "PlacementRequest") -> str:
    """Text that names the VMs for which the request waits by this rule; empty where it waits for none."""
    dearer = _dearer(view, request)
    if dearer is None or not (waits := _waits_for(view, request, dearer)).any():
        return ""
    first, count = view.vms[int(np.flatnonzero(waits)[0])], int(np.count_nonzero(waits))
    names = " and ".join(name for name, has in view.extras.items() if has[waits].any())
    more = f" (and {count - 1} more)" if count > 1 else ""
    needless = f"its {names}, which {request.job.id} does not need"
    return f"{first.name}{more} costs more for {needless}: the last resort"


def _dearer(view: "ClusterView", request: "PlacementRequest") -> "NDArray[np.bool_] | None":
    """VMs with resources that the request does not need, and dearer than a sufficient VM; None: none.

    Where all sufficient VMs have some of these, one is compared with those that lack one that it has.
    """
    asked = request.size
    needless = [has for name, has in view.extras.items() if not asked.get(name)]
    if not needless:
        return None
    spare: NDArray[np.bool_] = np.logical_or.reduce(needless)
    fits = (view.capacity.room(asked) > 0) & ~view.closed_to(request)
    prices = view.list_prices_per_hour
    if (fits & ~spare).any():
        dearer = spare & (prices > prices[fits & ~spare].min())
    else:
        dearer = np.logical_or.reduce(
            [has & (prices > prices[fits & ~has].min(initial=_NEVER)) for has in needless]
        )
    return dearer if dearer.any() else None


def _waits_for(
    view: "ClusterView", request: "PlacementRequest", dearer: "NDArray[np.bool_]"
) -> "NDArray[np.bool_]":
    """VMs among these still hidden from the request: they cost money, and it could run on the others."""
    paid = _waited_for(view, request, dearer)
    if not paid.any():
        return paid
    return paid & (view.at < request.entered_at + _more(view, dearer) * _seconds(request))


def _waited_for(
    view: "ClusterView", request: "PlacementRequest", dearer: "NDArray[np.bool_]"
) -> "NDArray[np.bool_]":
    """Which of these the request is not shown at first."""
    paid = view.paid & dearer
    if request.again or not paid.any():
        return np.zeros(len(view.vms), np.bool_)
    others = np.where(dearer | view.closed_to(request), 0, view.capacity.room(request.size))
    if int(np.minimum(others, request.count).sum()) < request.fewest:
        return np.zeros(len(view.vms), np.bool_)
    return paid


def _more(view: "ClusterView", dearer: "NDArray[np.bool_]") -> "FloatArray":
    """How much each VM costs more than the cheapest that is not dearer, as a share of that.

    For so many times what a job takes, a VM is not worth its price.
    """
    least = float(view.list_prices_per_hour[~dearer].min(initial=np.inf))
    return view.list_prices_per_hour / least - 1.0 if least > 0 else np.full(len(view.vms), np.inf)


def _seconds(request: "PlacementRequest") -> float:
    """How long the request's job is taken to last."""
    seconds = request.job.expected_duration
    return UNKNOWN_DURATION if seconds is None else seconds
