"""Which tasks the master has been asked about, and when to ask again: truncated exponential backoff."""

from collections.abc import Iterable

from conf.util.backoff import Backoff


class Questions:
    """Open questions by task id: when the next is due, and the pause after it. Pauses are in seconds."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._open: dict[str, tuple[float, float]] = {}

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._open

    def state(self) -> tuple[tuple[str, float, float], ...]:
        """All open questions: task id, when the next is due, and the pause after it."""
        return tuple((task_id, at, pause) for task_id, (at, pause) in self._open.items())

    def resume(self, state: Iterable[tuple[str, float, float]]) -> None:
        """Restore the state."""
        self._open = {task_id: (at, pause) for task_id, at, pause in state}

    def ask(self, task_ids: Iterable[str], now: float) -> None:
        """Add tasks that are asked about now, for the first time."""
        for task_id in task_ids:
            self._open[task_id] = (now + self._backoff.first, self._backoff.first)

    def answered(self, task_id: str) -> None:
        """The task's state is known."""
        self._open.pop(task_id, None)

    def due(self, now: float) -> list[str]:
        """Tasks to be asked about again now, after a pause that grows each time."""
        due = [task_id for task_id, (at, _) in self._open.items() if at <= now]
        for task_id in due:
            pause = self._backoff.following(self._open[task_id][1])
            self._open[task_id] = (now + pause, pause)
        return due
