"""Application records in the job store, as texts; `application_records.py` defines their content."""

import threading
import time

import sqlalchemy as sa

from daemon.core.job_ids import job_id, job_number
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.tables import applications, upsert

#: Seconds for which a record is not read again: thousands of a job's executors are launched at once. A leader
#: reads and writes them; what it writes is seen at once.
_ONCE_IN = 1.0


class ApplicationRows:
    """One text by job. All methods may be called from any thread, and raise StoreError."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access
        self._lock = threading.Lock()
        #: How often something was written, and the record that was read last since then: the job, when
        #: (monotonic seconds), and its text.
        self._writes = 0
        self._last: tuple[str, float, str | None] | None = None

    def keep(self, of: str, record: str, *, has_secret: bool) -> None:
        """Store the record of a job's application, replacing any earlier one."""
        row = {"job": job_number(of), "has_secret": has_secret, "record": record}
        try:
            self._access.write(lambda connection: upsert(connection, applications, [row]))
        finally:
            self._written()

    def kept(self, of: str) -> str | None:
        """Stored record of a job's application; None when there is none."""
        with self._lock:
            last, writes = self._last, self._writes
        if last is not None and last[0] == of and time.monotonic() - last[1] < _ONCE_IN:
            return last[2]
        query = sa.select(applications.c.record).where(applications.c.job == job_number(of))
        with self._access.read() as connection:
            found: str | None = connection.scalar(query)
        with self._lock:
            if writes == self._writes:
                self._last = of, time.monotonic(), found
        return found

    def with_secret(self) -> list[str]:
        """Ids of the jobs with a stored application secret."""
        query = sa.select(applications.c.job).where(applications.c.has_secret).order_by(applications.c.job)
        with self._access.read() as connection:
            return [job_id(number) for number in connection.scalars(query)]

    def drop(self, of: str) -> None:
        """Delete the record of a job's application."""
        query = sa.delete(applications).where(applications.c.job == job_number(of))
        try:
            self._access.write(lambda connection: connection.execute(query))
        finally:
            self._written()

    def _written(self) -> None:
        """Forget reads from before, or from while this was written."""
        with self._lock:
            self._writes, self._last = self._writes + 1, None
