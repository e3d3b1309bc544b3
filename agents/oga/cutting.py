"""A fractional allocation cut into executors: their number on each VM, and the resources of each.

Arithmetic only: the learner makes the allocation, and `ogasched_policy` calls this module.

It applies the rule by which `jobs` settles gangs (Zhao 2023, 3.5): executors are tasks, `fewest` is the
minimum, which is all of them where a job is not elastic; each gets its floor or is absent, and a job that
cannot get its minimum gets nothing. It differs from that settlement because an executor is on one VM, while a
task may have a bit of each, and because an executor stays: jobs come in the order of the queue, and the
resources of one are not taken back for floors of the next.
"""

import math
from collections.abc import Mapping

import numpy as np

from agents.baselines.filling import fill
from environment.decisions.feasibility import least_of
from environment.resources import CPUS, LEAST, STEPS, THOUSANDTHS, Resources
from environment.types import FloatArray, IntArray, PlacementRequest
from environment.view import ClusterView

#: VM and size of each executor.
Cut = tuple[tuple[int, ...], tuple[Resources, ...]]

#: The share of a resource's smallest step that arithmetic may lose.
_ROUNDING = 1e-6
#: Decides between VMs to which an executor adds the same, in cpus. Chosen: less than Mesos counts.
_LIKING = 1e-5


def floor_of(request: PlacementRequest, share: float) -> Resources:
    """The least resources of an executor: a share of its request, and its minimum to run."""
    asked, shares = request.size, {}
    for name in LEAST:
        step = STEPS.get(name, 1)
        shares[name] = math.ceil(share * asked.get(name) / step - _ROUNDING) * step
    return least_of(asked) | (Resources(shares) & asked)


def uncut(view: ClusterView, request: PlacementRequest, wanted: Mapping[str, FloatArray]) -> IntArray | None:
    """Executors of an allocation on each VM by indivisible resources, such as gpus; int64 [N] or None.

    Each takes its job's full request of them. So the `wanted` amounts, [N] by name, are rounded to executors,
    at most as many as fit into the free resources.
    """
    if (most := view.most_for(request, LEAST.thousandths.keys())) is None:
        return None
    for name, amount in request.size.amounts.items():
        if name in wanted and name not in LEAST.thousandths:
            most = np.minimum(most, np.rint(wanted[name] / amount).astype(np.int64))
    return most


def cut(
    request: PlacementRequest,
    had: Mapping[str, FloatArray],
    floor: Resources,
    most: IntArray | None = None,
) -> Cut | None:
    """Cut the amounts `had`, [N] by divisible resource, into the largest executors; None for too few.

    A VM's executors are alike. None takes more than the request or less than `floor`. Their number is at most
    the requested one, at most `most` [N] on a VM, if given, and, by making them smaller where that helps, no
    fewer than its `fewest`.
    """
    cpus = had[CPUS]
    cuttable = [name for name in LEAST if floor.get(name)]
    fitting = np.minimum.reduce([had[name] / floor.amount(name) for name in cuttable]) + _ROUNDING
    fits = np.maximum(fitting, 0.0).astype(np.int64)
    most = fits if most is None else np.minimum(fits, most)
    counts = np.zeros(len(most), np.int64)
    # One by one where it adds most; among equals as the job prefers, else on VMs that have one already.
    liking = -_LIKING if request.job.prefers == "spread" else _LIKING
    for placed in range(request.count):
        open_ = most > counts
        if not open_.any():
            break
        added = np.minimum(cpus, (counts + 1) * request.cpus) - np.minimum(cpus, counts * request.cpus)
        vm = int(np.where(open_, added + liking * (counts > 0), -np.inf).argmax())
        if added[vm] < _ROUNDING:
            if placed >= request.fewest:
                break
            vm = int(np.where(open_, cpus / (counts + 1), -np.inf).argmax())
        counts[vm] += 1
    if counts.sum() < request.fewest:
        return None
    order = np.argsort(-cpus, kind="stable")
    placement, sizes = [], []
    for vm in order[counts[order] > 0].tolist():
        count = int(counts[vm])
        each = Resources({name: _step_down(name, float(had[name][vm]) / count) for name in cuttable})
        # As many fit when rounded, so that the floor does.
        size = (each | floor) & request.size
        placement += [vm] * count
        sizes += [size] * count
    return tuple(placement), tuple(sizes)


def _step_down(name: str, amount: float) -> int:
    """The largest thousandths of a resource that can be given out of an amount."""
    step = STEPS.get(name, 1)
    return math.floor(amount * THOUSANDTHS / step + _ROUNDING) * step


def whole(view: ClusterView, request: PlacementRequest, wanted: FloatArray) -> tuple[int, ...] | None:
    """All executors in full size, as near as possible to `wanted` cpus, [N]; None without room.

    First as many as that makes on each VM, then on the VMs with the most wanted cpus.
    """
    room = np.minimum(view.room_for(request), request.count)
    if room.sum() < request.count:
        return None
    order = np.argsort(-wanted, kind="stable")
    first = np.minimum(room, np.rint(wanted / request.cpus).astype(np.int64))
    placement = fill(first, order, request.count)
    left = room - np.bincount(placement, minlength=len(room)) if placement else room
    return (*placement, *fill(left, order, request.count - len(placement)))
