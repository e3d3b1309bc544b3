"""The cheapest placement of a job, for one that a limit in dollars keeps from where the policy placed it."""

from dataclasses import replace

import numpy as np

from environment.types import Place, PlacementRequest
from environment.view import ClusterView


def cheapest_placement(view: ClusterView, request: PlacementRequest, place: Place) -> Place | None:
    """As many executors of the same size on the VMs where these cost least per hour; None without room.

    None too where the policy gave executors different sizes.
    """
    sizes = set(request.granted(place))
    if len(sizes) != 1:
        return None
    (size,), count = sizes, len(place.placement)
    room = np.minimum(view.room_for(replace(request, count=count, sizes=(size,) * count)), count)
    shares = np.array([min(size.share_of(vm.resources), 1.0) for vm in view.vms])
    order = np.argsort(view.list_prices_per_hour * shares, kind="stable")
    chosen = np.repeat(order, room[order])[:count]
    if len(chosen) < count:
        return None
    why = ("a limit in dollars leaves no dearer VM",) * count
    return Place(place.job_id, tuple(chosen.tolist()), why, sizes=place.sizes)
