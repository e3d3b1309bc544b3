"""Greedy by what a placement adds to the bill: the cheapest of a few ways to place the head of the queue.

What it adds is what VMs cost for as long as they are held beyond what they are held anyway, with their boot
where they are closed. It plans nothing: jobs that come later are not thought of.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from agents.baselines.filling import fill
from agents.estimates import (
    LEAST_WEIGHT,
    check_factor,
    check_seconds,
    check_share,
    dollars_per_cpu_second,
    duration_of,
    held_for,
)
from conf.assumptions import BAD_PLACEMENT_FACTOR, UNKNOWN_DURATION
from environment.belief import placed_well
from environment.check import shortage
from environment.types import Decision, FloatArray, IntArray, Place, PlacementRequest, Wait
from environment.view import ClusterView


@dataclass(frozen=True, slots=True)
class GreedyOptions:
    """Options of the greedy policy."""

    #: How much cost counts; the rest is time until the job's end.
    beta: float = 0.5
    #: How much longer a job takes where it is not placed as its type prefers.
    bad_placement_factor: float = BAD_PLACEMENT_FACTOR
    #: Seconds that a job takes, or a VM is held, of which that is not known.
    unknown_duration: float = UNKNOWN_DURATION

    def __post_init__(self) -> None:
        check_share("beta", self.beta)
        check_factor("bad_placement_factor", self.bad_placement_factor)
        check_seconds("unknown_duration", self.unknown_duration)


class _Scene(NamedTuple):
    """What VMs cost a job that is placed there now, by VM; all float64 [N] but `room`, int64 [N].

    `held` is for how many seconds each is held anyway, and `boots` for how many a job would wait for it.
    """

    room: IntArray
    price_per_second: FloatArray
    held: FloatArray
    boots: FloatArray

    def added(self, vms: IntArray | slice, end: float) -> FloatArray:
        """Dollars that each of these VMs costs more if it is held until `end` (seconds from now)."""
        longer: FloatArray = np.maximum(end - self.held[vms], 0.0) * self.price_per_second[vms]
        return longer


class Greedy:
    """Greedy: the placement of the head of the queue that adds least to bill and time, of a few."""

    def __init__(self, options: GreedyOptions) -> None:
        self._options = options

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the head of the queue as is cheapest for it as things are, or wait if it does not fit."""
        request, options = queue[0], self._options
        scene = _scene(view, request, options)
        if scene.room.sum() < request.count:
            return Wait(shortage(view, request))
        duration = max(duration_of(request.job, options.unknown_duration), 0.001)
        reference = request.cpus * request.count * duration * dollars_per_cpu_second(view)
        cost_weight = max(options.beta, LEAST_WEIGHT) / reference
        time_weight = max(1.0 - options.beta, LEAST_WEIGHT) / duration

        def worth(placement: list[int]) -> tuple[float, float]:
            vms = np.unique(placement)
            others = {vm for vm in request.present_on if vm in view.index}
            different = len({*(view.vms[vm].id for vm in vms), *others})
            well = placed_well(request.job.prefers, request.count + len(request.present_on), different)
            end = scene.boots[vms].max() + duration * (1.0 if well else options.bad_placement_factor)
            dollars = float(scene.added(vms, end).sum())
            return cost_weight * dollars + time_weight * end, dollars

        ways = list(_ways(view, request, scene, duration * options.bad_placement_factor))
        found = [worth(placement) for placement in ways]
        best = min(range(len(ways)), key=lambda way: found[way][0])
        why = f"the placement that adds least for beta {options.beta:g}, ${found[best][1]:.4f} to the bill"
        said = tuple(f"{view.vms[i].name} is part of {why}" for i in ways[best])
        return Place(request.job.id, tuple(ways[best]), said)


def _scene(view: ClusterView, request: PlacementRequest, options: GreedyOptions) -> _Scene:
    boots = np.zeros(len(view.vms))
    if view.openings is not None:
        boots = np.maximum(view.openings.ready_at - view.at, 0.0)
    return _Scene(
        np.minimum(view.room_for(request), request.count),
        view.prices_per_hour / 3600.0,
        held_for(view, options.unknown_duration),
        boots,
    )


def _ways(view: ClusterView, request: PlacementRequest, scene: _Scene, end: float) -> Iterator[list[int]]:
    """Placements worth a look: packed, each on its own VM, all on one; on open VMs alone, and on all."""
    for allowed in (view.is_open, None) if not view.is_open.all() else (None,):
        room = scene.room if allowed is None else np.where(allowed, scene.room, 0)
        if room.sum() < request.count:
            continue
        longest = end + (float(scene.boots.max()) if allowed is None else 0.0)
        yield _packed(room, scene, request.count, longest)
        prices = scene.added(slice(None), longest)
        # Among equals those that cost less per hour, so that what is not foreseen is cheaper too.
        order = np.lexsort((scene.price_per_second, scene.boots, prices))
        if np.count_nonzero(room) >= request.count > 1:
            yield order[room[order] > 0][: request.count].tolist()
        whole = np.where(room >= request.count, room, 0)
        if whole.any():
            yield fill(whole, order, request.count)


def _packed(room: IntArray, scene: _Scene, count: int, end: float) -> list[int]:
    """VM after VM the one that adds least for each executor that it takes."""
    left, placement = room.copy(), list[int]()
    added = scene.added(slice(None), end)
    # Where several add nothing the fullest is taken, so that the others may become free.
    added = added + 1e-9 * scene.price_per_second
    while len(placement) < count:
        taken = np.minimum(left, count - len(placement))
        each = np.divide(added, taken, out=np.full(len(room), np.inf), where=taken > 0)
        vm = int(np.argmin(each))
        placement += [vm] * int(taken[vm])
        left[vm] = 0
    return placement
