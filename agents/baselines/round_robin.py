"""Round robin and its consolidating sister (Islam 2022, 7.1), the two ways of Spark's own scheduler."""

from collections.abc import Sequence

import numpy as np

from agents.baselines.filling import deal, fill, open_first
from environment.decisions.feasibility import shortage
from environment.types import Decision, IntArray, Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView


class Ring:
    """The VMs in a ring and the last used VM, which may have left since.

    VMs are identified by id; the ring as of the last use determines the successor of a VM that has left.
    """

    def __init__(self) -> None:
        self._vms: tuple[Vm, ...] = ()
        self._last = -1

    def order(self, vms: tuple[Vm, ...]) -> IntArray:
        """Indices of the VMs, beginning after the one used last; int64 [N]."""
        return np.roll(np.arange(len(vms)), -self._first(vms))

    def use(self, vms: tuple[Vm, ...], index: int) -> None:
        """The VM with this index was used last."""
        self.turn = vms, index

    @property
    def turn(self) -> tuple[tuple[Vm, ...], int]:
        """The VMs as they were, and the index of the one that was used last."""
        return self._vms, self._last

    @turn.setter
    def turn(self, turn: tuple[tuple[Vm, ...], int]) -> None:
        self._vms, self._last = turn

    def _first(self, vms: tuple[Vm, ...]) -> int:
        if vms is self._vms or not self._vms:
            return self._last + 1
        index = {vm.id: i for i, vm in enumerate(vms)}
        last = self._vms[self._last].id
        if last in index:
            return index[last] + 1
        after = (*self._vms[self._last + 1 :], *self._vms[: self._last])
        return next((index[vm.id] for vm in after if vm.id in index), 0)


class _InTurn:
    """A policy with a ring of VMs."""

    def __init__(self) -> None:
        self._ring = Ring()

    @property
    def turn(self) -> tuple[tuple[Vm, ...], int]:
        """That of its ring."""
        return self._ring.turn

    @turn.setter
    def turn(self, turn: tuple[tuple[Vm, ...], int]) -> None:
        self._ring.turn = turn


class RoundRobin(_InTurn):
    """Round robin: spreads executors in turn over all VMs, each to the next one that has room."""

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the head of the queue on the next VMs of the ring, or wait and leave the ring unchanged."""
        request = queue[0]
        placement = deal(view.room_for(request), self._ring.order(view.vms), request.count)
        if len(placement) < request.count:
            return Wait(shortage(view, request))
        self._ring.use(view.vms, placement[-1])
        why = tuple(f"{view.vms[i].name} is the next in turn with room for it" for i in placement)
        return Place(request.job.id, tuple(placement), why)


class RoundRobinConsolidate(_InTurn):
    """Round robin over the VMs that already run executors; opens another VM only when those are full."""

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the head of the queue on VMs in use first, or wait and leave the ring unchanged."""
        request = queue[0]
        room, order = view.room_for(request), self._ring.order(view.vms)
        in_use = view.executors[order] > 0
        placement = deal(room, order[in_use], request.count)
        opened = order[~in_use]
        if placement:
            opened = _beginning_after(opened, placement[-1], len(order))
        opened = open_first(view, opened)
        # A VM just opened is the only one in use with room, so it is filled before the next is opened.
        fresh = fill(room, opened, request.count - len(placement))
        if len(placement) + len(fresh) < request.count:
            return Wait(shortage(view, request))
        why = [
            f"{view.vms[i].name} is the next in turn of the VMs in use with room for it" for i in placement
        ]
        why += [f"no VM in use has room; {view.vms[i].name} is the next that has" for i in fresh]
        placement += fresh
        self._ring.use(view.vms, placement[-1])
        return Place(request.job.id, tuple(placement), tuple(why))


def _beginning_after(indices: IntArray, last: int, size: int) -> IntArray:
    """The same indices of a ring of that size in turn, beginning after `last`."""
    ordered: IntArray = indices[np.argsort((indices - last - 1) % size, kind="stable")]
    return ordered
