"""Limit of JVMs on the machine under an embedded cluster: executors, and a driver for each job.

Its VMs promise more than the machine has. Both worlds let jobs in by this, and count the JVMs already taken.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from environment.types import PlacementRequest


def carried(requests: Iterable[PlacementRequest], most: int | None, taken: int) -> Iterator[PlacementRequest]:
    """The first of these jobs, in order, that `most` JVMs have room for beside those `taken`; None: all.

    None overtakes. A job that would be alone always starts, so nothing waits for ever, however many executors
    it has. One that also runs on fewer gets as many as there is room for, and no fewer than those. Jobs that
    grow get as many executors as there is room for, and are passed over without any.
    """
    if most is None:
        yield from requests
        return
    for request in requests:
        if request.grows:
            more = min(request.count, most - taken)
            if more > 0:
                taken += more
                yield request.first(more)
            continue
        if request.fewest < request.count:
            room = max(request.fewest, most - taken - 1)
            request = replace(request.first(room), at_most=room)
        if taken and taken + needs(request) > most:
            return
        taken += needs(request)
        yield request


def needs(request: PlacementRequest) -> int:
    """Number of JVMs a request takes: with its driver, unless that runs already."""
    return request.count + (not request.grows)
