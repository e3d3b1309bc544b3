"""The rows of applications in the job store, as texts; what these say is in `application_records.py`."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from daemon.tables import applications, job_id, job_number, upsert


def keep_application(connection: Connection, of: str, record: str, *, has_secret: bool) -> None:
    """Keep what is known of a job's application."""
    upsert(connection, applications, [{"job": job_number(of), "has_secret": has_secret, "record": record}])


def application(connection: Connection, of: str) -> str | None:
    """What was kept; None when nothing was."""
    query = sa.select(applications.c.record).where(applications.c.job == job_number(of))
    found: str | None = connection.scalar(query)
    return found


def applications_with_secret(connection: Connection) -> list[str]:
    """The jobs whose application has a secret that is kept."""
    query = sa.select(applications.c.job).where(applications.c.has_secret).order_by(applications.c.job)
    return [job_id(number) for number in connection.scalars(query)]


def drop_application(connection: Connection, of: str) -> None:
    """Keep nothing of it."""
    connection.execute(sa.delete(applications).where(applications.c.job == job_number(of)))
