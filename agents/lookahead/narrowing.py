"""Selects the VMs of a large cluster that lookahead plays: enough of each kind, so that the rest is alike.

Arrays in, numbers out. `search.py` selects the jobs of a long queue.
"""

import numpy as np

from agents.estimates import held_for
from environment.resources import CPUS, MEMORY
from environment.types import IntArray, PlacementRequest
from environment.view import ClusterView

#: States of a VM, for placements on it.
_USED, _IDLE, _CLOSED, _FULL = range(4)


def vms_to_play(view: ClusterView, request: PlacementRequest, most: int, unknown: float) -> IntArray | None:
    """Select at most `most` VMs to play jobs like this one on, ascending; None: all of them.

    More are selected where `most` VMs have no room for the job though all VMs have: it would wait for ever
    otherwise.

    A kind is defined by a VM's resources, its price, and whether it is in use, idle, closed or full. Each
    kind contributes the same number: of VMs in use first those held for longest, as adding to them costs
    least; of full ones first those that have room soonest, of closed ones those that are ready soonest.
    """
    count = len(view.vms)
    if count <= most:
        return None
    held, used = held_for(view, unknown), view.executors > 0
    state = np.where(view.is_open, np.where(used, _USED, _IDLE), _CLOSED)
    room = np.minimum(view.room_for(request), request.count)
    state[room == 0] = _FULL
    soon = held.copy()
    soon[state == _USED] *= -1.0
    if view.openings is not None:
        soon[state == _CLOSED] = np.round(view.openings.ready_at[state == _CLOSED] - view.at, 3)
    traits = np.stack((state, view.capacity.get(CPUS), view.capacity.get(MEMORY), view.prices_per_hour))
    kind = np.unique(traits, axis=1, return_inverse=True)[1].reshape(-1)
    order = np.lexsort((soon, kind))
    sorted_kind = kind[order]
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count) - np.searchsorted(sorted_kind, sorted_kind)
    in_turn = np.lexsort((kind, rank))
    # VMs with room are in the same order among the others.
    others = in_turn[most:][room[in_turn[most:]] > 0]
    lacking, in_all = request.count - int(room[in_turn[:most]].sum()), np.cumsum(room[others])
    more = int(np.searchsorted(in_all, lacking)) + 1 if 0 < lacking <= in_all[-1:].sum() else 0
    chosen: IntArray = np.sort(np.concatenate((in_turn[:most], others[:more])))
    return chosen
