"""Which jobs have changed of late, for whoever follows all of them: the store tells, one listener takes."""

import threading
from collections.abc import Iterable, Mapping

from environment.model.messages.records import JobRecord


class ChangeFeed:
    """Records of jobs that were written, the last of each. From any thread; nothing is kept unless wanted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: dict[str, JobRecord] | None = None

    def begin(self) -> None:
        """Keep what is noted from now on."""
        with self._lock:
            self._changed = {}

    def end(self) -> None:
        """Keep nothing any more."""
        with self._lock:
            self._changed = None

    def note(self, records: Iterable[JobRecord]) -> None:
        """These were written, and are nobody's to change from now on."""
        if self._changed is None:  # read without the lock: the loop must not wait for nothing
            return
        with self._lock:
            if self._changed is not None:
                self._changed.update((record.job.id, record) for record in records)

    def take(self) -> Mapping[str, JobRecord]:
        """What was noted since the last call, by job."""
        with self._lock:
            taken = self._changed or {}
            if taken:
                self._changed = {}
            return taken
