"""Elastic jobs as policies are shown them: with as many executors as there is room for now.

A job that also runs on fewer executors than it asks for is shown as one for what fits, as long as that is no
less than its fewest; so every policy starts it smaller, and none has to know how. One that cuts such jobs in
its own way finds the whole again in `PlacementRequest.full`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import overload

import numpy as np

from environment.types import PlacementRequest
from environment.view import ClusterView

#: So many VMs are tried for a driver on the cluster, to find where it takes no executor's place.
_DRIVER_PLACES = 50


class Fitting(Sequence[PlacementRequest]):
    """A queue as it is shown on a view; requests that are looked at again are the same objects again."""

    def __init__(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> None:
        self._view = view
        self._queue = queue
        self._shown: dict[str, PlacementRequest] = {}
        #: Room by what a request asks for: most jobs of a long queue are alike.
        self._rooms: dict[object, int] = {}

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[PlacementRequest]:
        return map(self._show, self._queue)

    @overload
    def __getitem__(self, index: int) -> PlacementRequest: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PlacementRequest]: ...
    def __getitem__(self, index: int | slice) -> PlacementRequest | Sequence[PlacementRequest]:
        if isinstance(index, slice):
            return [self._show(request) for request in self._queue[index]]
        return self._show(self._queue[index])

    def _show(self, request: PlacementRequest) -> PlacementRequest:
        if request.fewest == request.count:
            return request
        shown = self._shown.get(request.job.id)
        if shown is None:
            count = self._room(request)
            if count < request.fewest:  # nor is more asked for than it could ever get
                count = max(request.fewest, self._room_when_empty(request))
            shown = replace(request, count=count) if count < request.count else request
            self._shown[request.job.id] = shown
        return shown

    def _room(self, request: PlacementRequest) -> int:
        job = request.job
        alike = (request.size, request.count, job.driver, request.avoided)
        if alike not in self._rooms:
            self._rooms[alike] = room_in_all(self._view, request)
        return self._rooms[alike]

    def _room_when_empty(self, request: PlacementRequest) -> int:
        """For how many executors there is room when nothing else runs."""
        return int(self._view.capacity.room(request.size).sum())


def room_in_all(view: ClusterView, request: PlacementRequest) -> int:
    """For how many executors of the request there is room now, beside a driver that is on the cluster."""
    room, driver = _room(view, request), request.job.driver
    if driver is None or request.again or room <= request.fewest:
        return room
    best = 0
    for vm in np.flatnonzero(view.room_for_driver(driver))[:_DRIVER_PLACES].tolist():
        best = max(best, _room(view.with_driver(vm, driver), request))
        if best == room:
            break
    return best


def _room(view: ClusterView, request: PlacementRequest) -> int:
    return int(np.minimum(view.room_for(request), request.count).sum())
