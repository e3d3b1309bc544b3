"""Queue operations of the API: status, changes, removal."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conf.schema import QueueSettings
from daemon.core.errors import RejectedError
from daemon.core.queue_status import QueuesStatus, QueueStatus, QueueUse, dues
from daemon.queues import tree
from daemon.queues.live_queues import LiveQueues, no_queue
from daemon.queues.queue_snapshot import QueueSnapshot
from environment.queues.types import Queue


class QueueService:
    """Answers for the queues. Every method may be called from any thread and raises RejectedError only."""

    def __init__(self, live: LiveQueues, sight: Callable[[], QueueSnapshot | None]) -> None:
        """`sight` returns the latest snapshot of the queues."""
        self._live = live
        self._sight = sight

    def all(self) -> QueuesStatus:
        """All queues."""
        sharing = self._live.sharing()
        return QueuesStatus(tuple(self._statuses().values()), () if sharing is None else sharing.order)

    def one(self, path: str) -> QueueStatus:
        """Status of one queue."""
        statuses = self._statuses()
        if path not in statuses:
            raise no_queue(path, list(statuses))
        return statuses[path]

    def check(self, paths: Sequence[str]) -> None:
        """RejectedError when one of these is no queue; where there are none, any will do."""
        queues = self._live.queues()
        there = [queue.path for queue in queues]
        if wrong := [path for path in paths if path not in there and there]:
            detail = f"queues: there is no queue {wrong[0]}; there are {tree.named(there, wrong[0])}"
            raise RejectedError(422, "No such queue", detail)

    def put(self, path: str, settings: QueueSettings) -> tuple[QueueStatus, bool]:
        """Set a queue's own settings; return the queue, and whether it is new."""
        new = self._live.put(path, settings)
        return self.one(path), new

    def patch(self, path: str, values: Mapping[str, Any]) -> tuple[QueueStatus, bool]:
        """Merge values into a queue's own settings; return the queue, and whether it is new."""
        new = self._live.patch(path, values)
        return self.one(path), new

    def remove(self, path: str) -> QueueStatus:
        """Remove a queue; return it as it was."""
        there = self.one(path)
        self._live.remove(path)
        return there

    def _statuses(self) -> dict[str, QueueStatus]:
        queues, own, sight = self._live.queues(), self._live.own, self._sight()
        uses = {} if sight is None else sight.uses()
        due, inner = dues(queues), {queue.above for queue in queues}
        nothing, idle = QueueSettings(), QueueUse()
        found = {
            queue.path: QueueStatus(
                queue,
                own.get(queue.path, nothing),
                leaf=queue.path not in inner,
                changed=self._live.is_changed(queue.path),
                due=due[queue.path],
                use=uses.get(queue.path, idle),
            )
            for queue in queues
        }
        strays = {path: use for path, use in uses.items() if path not in found} if queues else {}
        return found | {
            path: QueueStatus(Queue(path), nothing, known=False, use=use) for path, use in strays.items()
        }
