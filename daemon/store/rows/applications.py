"""Application records in the job store, as texts; `application_records.py` defines their content."""

import sqlalchemy as sa

from daemon.core.job_ids import job_id, job_number
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.tables import applications, upsert


class ApplicationRows:
    """One text by job. All methods may be called from any thread, and raise StoreError."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def keep(self, of: str, record: str, *, has_secret: bool) -> None:
        """Store the record of a job's application, replacing any earlier one."""
        row = {"job": job_number(of), "has_secret": has_secret, "record": record}
        self._access.write(lambda connection: upsert(connection, applications, [row]))

    def kept(self, of: str) -> str | None:
        """Stored record of a job's application; None when there is none."""
        query = sa.select(applications.c.record).where(applications.c.job == job_number(of))
        with self._access.read() as connection:
            found: str | None = connection.scalar(query)
        return found

    def with_secret(self) -> list[str]:
        """Ids of the jobs with a stored application secret."""
        query = sa.select(applications.c.job).where(applications.c.has_secret).order_by(applications.c.job)
        with self._access.read() as connection:
            return [job_id(number) for number in connection.scalars(query)]

    def drop(self, of: str) -> None:
        """Delete the record of a job's application."""
        query = sa.delete(applications).where(applications.c.job == job_number(of))
        self._access.write(lambda connection: connection.execute(query))
