"""Changed jobs for one listener: the store notes each written record, the listener collects them."""

import threading
from collections.abc import Iterable, Mapping

from environment.model.messages.records import JobRecord


class ChangeFeed:
    """Last written record of each changed job, kept only between `begin` and `end`. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: dict[str, JobRecord] | None = None

    def begin(self) -> None:
        """Start recording noted changes."""
        with self._lock:
            self._changed = {}

    def end(self) -> None:
        """Stop recording and drop the noted changes."""
        with self._lock:
            self._changed = None

    def note(self, records: Iterable[JobRecord]) -> None:
        """Record written job records; the caller must not change them afterwards."""
        if self._changed is None:  # read without the lock: the loop must not wait for nothing
            return
        with self._lock:
            if self._changed is not None:
                self._changed.update((record.job.id, record) for record in records)

    def take(self) -> Mapping[str, JobRecord]:
        """Return the records noted since the last call, by job id."""
        with self._lock:
            taken = self._changed or {}
            if taken:
                self._changed = {}
            return taken
