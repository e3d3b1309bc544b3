"""Jobs that wait as a whole, by what decides whether each could run at all: most of a long queue are alike.

What becomes of those that could not is in `waiting.py`, how that is found in `reach.py` and by the limits of
queues.
"""

from collections.abc import Callable, Iterator

from environment.model.reach import kind_of
from environment.sharing.lines import demand
from environment.types import PlacementRequest


class Alike:
    """Requests by kind: what is found of one of a kind holds for all of them."""

    def __init__(self) -> None:
        self._kinds: dict[object, dict[str, PlacementRequest]] = {}
        self._kind_of: dict[str, object] = {}

    def add(self, request: PlacementRequest) -> None:
        """A job waits."""
        job = request.job
        self.drop(job.id)
        kind = kind_of(request), job.queue, job.owner, demand(request)[1]
        self._kinds.setdefault(kind, {})[job.id] = request
        self._kind_of[job.id] = kind

    def drop(self, job_id: str) -> None:
        """It waits no more."""
        if (kind := self._kind_of.pop(job_id, None)) is not None:
            alike = self._kinds[kind]
            del alike[job_id]
            if not alike:
                del self._kinds[kind]

    def of_whom(self, holds: Callable[[PlacementRequest], object]) -> Iterator[str]:
        """The ids of all jobs of which something holds, asked once for each kind."""
        for alike in self._kinds.values():
            if holds(next(iter(alike.values()))):
                yield from alike
