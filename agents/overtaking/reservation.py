"""Reservation for the head of a queue that does not fit: its expected start, and the jobs that delay it.

All is by belief: by the expected ends of the running jobs. `overtaking_policy.py` decides on other grounds
for overtaking.
"""

from functools import cached_property
from itertools import chain

import numpy as np

from environment.decisions.decision_round import has_room
from environment.resource_arrays import ResourceArrays
from environment.resources import NOTHING, Resources
from environment.types import FloatArray, IntArray, Place, PlacementRequest
from environment.view import ClusterView


class Reservation:
    """The earliest believed start of the head when no job goes before it (EASY backfilling).

    A job of unknown duration is assumed to take `unknown` seconds.
    """

    def __init__(self, view: ClusterView, head: PlacementRequest, unknown: float) -> None:
        self._view, self._unknown = view, unknown
        # It starts as soon as its fewest executors fit.
        self._head = head.first(head.fewest)

    @cached_property
    def starts(self) -> float | None:
        """Believed start of the head, on the view's clock; None when the ends of jobs make no room."""
        ends = np.unique(self._releases[0])
        first, last = 0, len(ends)
        while first < last:
            middle = (first + last) // 2
            if has_room(self._at(float(ends[middle])), self._head):
                last = middle
            else:
                first = middle + 1
        return float(ends[first]) if first < len(ends) else None

    def is_delayed_by(self, request: PlacementRequest, place: Place) -> bool:
        """Whether the head is believed to start later if this request is placed so now."""
        if self.starts is None:
            return True  # its start is unknown
        view, sizes = self._view, request.granted(place)
        expected = request.job.expected_on(sizes, len({*request.present_on} | {*place.placement}))
        begins = view.at if view.openings is None else view.openings.starts(view.at, place.placement)
        if not request.joins and begins + (self._unknown if expected is None else expected) <= self.starts:
            return False
        then, driver = self._then.with_placement(request, place.placement, sizes), request.job.driver
        if driver is not None and place.driver is not None:
            then = then.with_driver(place.driver, driver)
        return not has_room(then, self._head)

    @cached_property
    def _then(self) -> ClusterView:
        """The view at the believed start of the head."""
        return self._at(self._view.at if self.starts is None else self.starts)

    def _at(self, at: float) -> ClusterView:
        """The view as it is believed to be then, with all that is free by then offered."""
        ends, vms, amounts = self._releases
        over = ends <= at
        free = dict(self._view.free.thousandths)
        for name, amount in amounts.items():
            free[name] = free[name] + np.bincount(vms[over], amount[over], len(self._view.vms)).astype(
                np.int64
            )
        return self._view.changed(at=at, free=ResourceArrays(free), offered=None, running=())

    @cached_property
    def _releases(self) -> tuple[FloatArray, IntArray, dict[str, FloatArray]]:
        """End of each running executor, [E], its VM, [E], and its released amounts, [E] by resource."""
        view, sizes = self._view, list[Resources]()
        held = [job.vm_ids for job in view.running]
        for job in view.running:
            taken = job.taken[: len(job.vm_ids)]
            # A driver on the cluster comes last.
            sizes += (*taken, *[job.job.driver or NOTHING] * (len(job.vm_ids) - len(taken)))
        ends = np.repeat(view.ends_assuming(self._unknown), [len(vm_ids) for vm_ids in held])
        index = view.index
        vms = np.array([index.get(vm_id, -1) for vm_id in chain.from_iterable(held)], np.int64)
        shown = vms >= 0
        names = [name for name in self._head.size if name in view.free.thousandths]
        freed = {name: np.array([size.get(name) for size in sizes], np.float64)[shown] for name in names}
        return ends[shown], vms[shown], freed
