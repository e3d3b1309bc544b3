"""Whether it is worth to ask for the offers that were given back, beside those that are there."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from environment.decisions.decision_round import room_in_all
from environment.offered import OfferedResources
from environment.resource_arrays import ResourceArrays
from environment.types import PlacementRequest
from environment.view import ClusterView

#: Number of jobs of the queue that are checked. Chosen: a policy that overtakes may take any of the first,
#: and each costs as much as a part of a decision.
_LOOKED_AT = 16
#: More than tasks need.
_PORTS = 10_000


def fits_with(view: ClusterView, queue: Sequence[PlacementRequest], away: Collection[str]) -> bool:
    """Check whether the first job would fit if the free resources of these VMs, by id, were offered as well.

    One of the next jobs counts too, if fewer of its executors fit without them. Resources held by others are
    not free.
    """
    if view.offered is None:
        return False
    more = replace(view, offered=_with(view, view.offered, away))
    for number, request in enumerate(islice(queue, _LOOKED_AT)):
        room = room_in_all(more, request)
        if room >= request.fewest and (number == 0 or room_in_all(view, request) < min(room, request.count)):
            return True
    return False


def completes(view: ClusterView, queue: Sequence[PlacementRequest], away: Collection[str]) -> bool:
    """Check whether the first job fits with the free resources of these VMs, by id, and not without them.

    A policy that makes it wait although it fits into the offered resources gains nothing by more of them.
    """
    first = queue[:1]
    return fits_with(view, first, away) and not fits_with(view, first, ())


def _with(view: ClusterView, offered: OfferedResources, away: Collection[str]) -> OfferedResources:
    there = np.array([vm.id in away for vm in view.vms], np.bool_)
    resources = {
        name: np.where(there, view.free.thousandths[name], amounts)
        for name, amounts in offered.resources.thousandths.items()
    }
    return OfferedResources(
        offered.there | there, ResourceArrays(resources), np.where(there, _PORTS, offered.ports)
    )
