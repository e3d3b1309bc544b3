"""A fractional allocation cut into executors: how many on which VM, and what each takes.

Arithmetic only: what is allocated comes from the learner, and who asks for it is in `policy`.
"""

import math

import numpy as np

from agents.baselines.filling import fill
from environment.types import LEAST, ClusterView, FloatArray, PlacementRequest, Size

#: VM and size of each executor.
Cut = tuple[tuple[int, ...], tuple[Size, ...]]

#: What arithmetic may take from a thousandth of a cpu, or from a MiB.
_ROUNDING = 1e-6


def floor_of(request: PlacementRequest, share: float) -> Size:
    """The least that an executor is given: a share of what is asked for it, and what it needs to run."""
    cpus = max(min(LEAST.cpus, request.cpus), math.ceil(share * request.cpus * 1000 - _ROUNDING) / 1000)
    memory_mib = max(min(LEAST.memory_mib, request.memory_mib), math.ceil(share * request.memory_mib))
    return Size(cpus, memory_mib)


def cut(request: PlacementRequest, cpus: FloatArray, memory_mib: FloatArray, floor: Size) -> Cut | None:
    """As large executors as what there is of each VM, cpus [N] and MiB [N], makes; None for too few.

    A VM's executors are alike. None takes more than the request asks or less than `floor`; there are no more
    than it asks for, and, by making them smaller where that helps, no fewer than its `fewest`.
    """
    fitting = np.minimum(cpus / floor.cpus, memory_mib / floor.memory_mib) + _ROUNDING
    most = np.maximum(fitting, 0.0).astype(np.int64)
    all_used = np.ceil(np.maximum(cpus / request.cpus, memory_mib / request.memory_mib) - _ROUNDING)
    counts = np.minimum(np.maximum(all_used, 0.0).astype(np.int64), most)
    order = np.argsort(-cpus, kind="stable")  # where there is most of it, it is cut least
    before = np.cumsum(counts[order]) - counts[order]
    counts[order] = np.clip(request.count - before, 0, counts[order])
    while counts.sum() < request.fewest:
        larger = np.where(most > counts, cpus / (counts + 1), 0.0)
        vm = int(larger.argmax()) if len(larger) else 0
        if not larger.any():
            return None
        counts[vm] += 1
    placement, sizes = [], []
    for vm in order[counts[order] > 0].tolist():
        count = int(counts[vm])
        each = math.floor((cpus[vm] / count + _ROUNDING) * 1000) / 1000
        size = Size(min(each, request.cpus), min(int(memory_mib[vm] / count + _ROUNDING), request.memory_mib))
        placement += [vm] * count
        sizes += [size] * count
    return tuple(placement), tuple(sizes)


def whole(view: ClusterView, request: PlacementRequest, wanted: FloatArray) -> tuple[int, ...] | None:
    """All executors, none smaller than asked, as near as can be to `wanted` cpus, [N]; None without room.

    First as many as that makes on each VM, then on the VMs of which most is wanted.
    """
    room = np.minimum(view.room_for(request), request.count)
    if room.sum() < request.count:
        return None
    order = np.argsort(-wanted, kind="stable")
    first = np.minimum(room, np.rint(wanted / request.cpus).astype(np.int64))
    placement = fill(first, order, request.count)
    left = room - np.bincount(placement, minlength=len(room)) if placement else room
    return (*placement, *fill(left, order, request.count - len(placement)))
