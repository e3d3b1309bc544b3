"""Limit of JVMs on the machine under an embedded cluster: executors, and a driver for each job.

Its VMs promise more than the machine has. Both worlds let jobs in by this, and count the JVMs already taken.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from environment.types import PlacementRequest


def carried(
    requests: Iterable[PlacementRequest], most: int | None, taken: Mapping[str, int], more: int = 0
) -> Iterator[PlacementRequest]:
    """The first of these jobs, in order, that `most` JVMs have room for beside those of now; None: all.

    `taken` are JVMs of now by user, and `more` are those of users who are not known.

    None overtakes. A job that would be alone always starts, so nothing waits for ever, however many executors
    it has. One that also runs on fewer gets as many as there is room for, and no fewer than those. Jobs that
    grow get as many executors as there is room for, and are passed over without any. A job that lacks only
    JVMs of its own user waits with all further ones of that user, and holds up nobody else.
    """
    if most is None:
        yield from requests
        return
    of_user, left_out = Counter(taken), set[str]()
    all_taken = of_user.total() + more
    for request in requests:
        owner = request.job.owner
        if owner in left_out:
            continue
        if request.grows:
            if (room := min(request.count, most - all_taken)) > 0:
                all_taken += room
                of_user[owner] += room
                yield request.first(room)
            continue
        if request.fewest < request.count:
            room = max(request.fewest, most - all_taken - 1)
            request = replace(request.first(room), at_most=room)
        if all_taken and all_taken + needs(request) > most:
            if not (owner and of_user[owner] and of_user[owner] + needs(request) > most):
                return
            left_out.add(owner)
            continue
        all_taken += needs(request)
        of_user[owner] += needs(request)
        yield request


def needs(request: PlacementRequest) -> int:
    """Number of JVMs a request takes: with its driver, unless that runs already."""
    return request.count + (not request.grows)
