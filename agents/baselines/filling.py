"""Two ways to hand executors out over VMs with known room, and that closed VMs come last."""

import numpy as np

from environment.types import IntArray
from environment.view import ClusterView


def open_first(view: ClusterView, order: IntArray) -> IntArray:
    """The same indices of VMs, [N], but first those that are open: opening one is the last resort."""
    if view.openings is None:
        return order
    ordered: IntArray = order[np.argsort(~view.openings.open[order], kind="stable")]
    return ordered


def fill(room: IntArray, order: IntArray, count: int) -> list[int]:
    """Fill the first VM of `order`, then the next; return at most `count` indices.

    `room` is the number of executors that fit on each, int64 [N]; `order` holds indices into it.
    """
    # A VM that is used takes at least one, so no more VMs are looked at than there are executors.
    used = order[np.flatnonzero(room[order])[:count]]
    placement: list[int] = []
    for index, fits in zip(used.tolist(), room[used].tolist(), strict=True):
        placement += [index] * min(fits, count - len(placement))
    return placement


def deal(room: IntArray, order: IntArray, count: int) -> list[int]:
    """One executor to each VM of `order` that has room, again and again; at most `count` indices."""
    placement: list[int] = []
    turn = 0
    order = order[room[order] > 0]
    while len(placement) < count and len(order):
        placement += order[: count - len(placement)].tolist()
        turn += 1
        order = order[room[order] > turn]
    return placement
