"""Shadow policies' decisions in the job store; `shadow_comparison.py` defines the comparison."""

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from daemon.core.shadow_comparison import Comparison, Outcome
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.checksummed import seal, unseal
from daemon.store.rows.job_rows import stored_number
from daemon.store.rows.tables import Row, comparisons, jobs
from environment.model.messages.records import JobRecord

#: Chosen: a number that is read at once on request, in well under a second.
MOST_KEPT = 10_000


def comparison_row(comparison: Comparison) -> Row:
    """The row of a comparison, but for its number."""
    return {
        "job": stored_number(comparison.job_id),
        "body": seal(json.dumps(comparison, default=_by_name, separators=(",", ":"))),
    }


def read_comparison(text: str) -> Comparison:
    """The comparison that `comparison_row` wrote."""

    def build(values: Row) -> Comparison:
        sides = {side: Outcome(**values[side]) for side in ("acting", "shadow")}
        return Comparison(**{**values, **sides})

    return unseal(build, text)


class ComparisonRows:
    """Stores and reads comparisons. All methods may be called from any thread, and raise StoreError."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def add(self, found: Sequence[Comparison]) -> None:
        """Store comparisons, and delete all but the latest `MOST_KEPT`."""
        rows = [comparison_row(comparison) for comparison in found]

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
        damages, read = self._access.damages, read_comparison
        with self._access.read() as connection:
            for row in connection.execute(query.order_by(comparisons.c.number.desc())).all():
                comparison = damages.read("comparisons", str(row.number), row.job, read, row.body)
                if comparison is not None:
                    found.append((comparison, damages.job(connection, row.job, row.record)))
        return found


def _by_name(value: Any) -> Row:
    return {field.name: getattr(value, field.name) for field in fields(value)}
