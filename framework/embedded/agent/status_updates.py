"""Status updates on their way from an agent: one at a time per task, again and again until acknowledged."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from conf.util.backoff import Backoff
from framework.embedded.messages import TERMINAL, Json, StatusUpdate
from framework.embedded.settings import MasterOptions

Key = tuple[str, str]
"""Framework id and task id."""


@dataclass(slots=True)
class _Queue:
    """Updates of one task, the first of them sent and waiting for its acknowledgement."""

    pending: deque[Json] = field(default_factory=deque)
    latest_state: str = "TASK_STAGING"
    timer: asyncio.TimerHandle | None = None


class Updates:
    """Unacknowledged updates of one agent.

    `send` sends an update to the master; `on_ended` is called when the end of a task has been acknowledged.
    """

    def __init__(
        self,
        options: MasterOptions,
        loop: asyncio.AbstractEventLoop,
        send: Callable[[StatusUpdate], None],
        on_ended: Callable[[Key], None],
    ) -> None:
        self._options = options
        self._loop = loop
        self._send = send
        self._on_ended = on_ended
        self._queues: dict[Key, _Queue] = {}

    def add(self, key: Key, status: Json) -> None:
        """Queue a status, and send it when nothing of that task waits before it."""
        queue = self._queues.setdefault(key, _Queue())
        queue.latest_state = status["state"]
        queue.pending.append(status)
        if len(queue.pending) == 1:
            self._forward(key, self._options.update_retry)

    def acknowledge(self, key: Key, update_uuid: str) -> None:
        """Drop the update in front if it has this uuid, and send the next one."""
        queue = self._queues.get(key)
        if queue is None or queue.pending[0].get("uuid") != update_uuid:
            return
        _cancel(queue)
        acknowledged = queue.pending.popleft()
        if queue.pending:
            self._forward(key, self._options.update_retry)
            return
        del self._queues[key]
        if acknowledged["state"] in TERMINAL:
            self._on_ended(key)

    def pending(self, key: Key) -> bool:
        """Whether an update of a task waits for its acknowledgement."""
        return key in self._queues

    def resend(self, framework_id: str | None = None) -> None:
        """Send unacknowledged updates again at once, of one framework or of all."""
        for key in list(self._queues):
            if framework_id in {None, key[0]}:
                _cancel(self._queues[key])
                self._forward(key, self._options.update_retry)

    def pause(self) -> None:
        """Stop sending until `resend`."""
        for queue in self._queues.values():
            _cancel(queue)

    def forget(self, framework_id: str) -> None:
        """Drop everything of a framework."""
        for key in [key for key in self._queues if key[0] == framework_id]:
            _cancel(self._queues.pop(key))

    def _forward(self, key: Key, delay: float) -> None:
        queue = self._queues[key]
        following = Backoff(longest=self._options.update_retry_max).following(delay)
        queue.timer = self._loop.call_later(delay, self._forward, key, following)
        self._send(StatusUpdate(key[0], key[1], queue.pending[0], queue.latest_state))


def _cancel(queue: _Queue) -> None:
    if queue.timer is not None:
        queue.timer.cancel()
        queue.timer = None
