"""Shadow policies' decisions in the job store; `shadow_comparison.py` defines the comparison."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from daemon.core.shadow_comparison import Comparison
from daemon.store.rows import job_rows
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.tables import comparisons, jobs
from environment.model.messages.records import JobRecord

#: Chosen: a number that is read at once on request, in well under a second.
MOST_KEPT = 10_000


class ComparisonRows:
    """Stores and reads comparisons. All methods may be called from any thread, and raise StoreError."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def add(self, found: Sequence[Comparison]) -> None:
        """Store comparisons, and delete all but the latest `MOST_KEPT`."""
        rows = [job_rows.comparison_row(comparison) for comparison in found]

        def work(connection: Connection) -> None:
            connection.execute(sa.insert(comparisons), rows)
            last = connection.scalar(sa.select(sa.func.max(comparisons.c.number))) or 0
            connection.execute(sa.delete(comparisons).where(comparisons.c.number <= last - MOST_KEPT))

        if rows:
            self._access.write(work)

    def kept(self) -> list[tuple[Comparison, JobRecord]]:
        """All that are kept and can be read, the newest first, with their jobs."""
        columns = (comparisons.c.number, comparisons.c.body, jobs.c.number.label("job"), jobs.c.record)
        query = sa.select(*columns).join(jobs, jobs.c.number == comparisons.c.job)
        found: list[tuple[Comparison, JobRecord]] = []
        damages, read = self._access.damages, job_rows.read_comparison
        with self._access.read() as connection:
            for row in connection.execute(query.order_by(comparisons.c.number.desc())).all():
                comparison = damages.read("comparisons", str(row.number), row.job, read, row.body)
                if comparison is not None:
                    found.append((comparison, damages.job(connection, row.job, row.record)))
        return found
