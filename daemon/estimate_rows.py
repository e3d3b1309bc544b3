"""What was expected of jobs, in the job store: a text for each; `foresight/estimates.py` says what."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from daemon.foresight.expected import Estimate, KeptEstimates
from daemon.store_access import Access
from daemon.tables import estimates, job_id, job_number, jobs, upsert
from environment.model.records import JobRecord
from environment.simulation.intervals import Interval


class EstimateRows:
    """Keeps and reads them. All methods may be called from any thread, and raise StoreError."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def keep(self, found: Mapping[str, KeptEstimates]) -> None:
        """Keep them, by the jobs' ids, in the place of what was; of jobs that are gone, nothing."""

        def work(connection: sa.Connection) -> None:
            numbers = {job_number(of): kept for of, kept in found.items()}
            there = connection.scalars(sa.select(jobs.c.number).where(jobs.c.number.in_(numbers)))
            rows: list[dict[str, Any]] = [
                {"job": number, "body": json.dumps(asdict(numbers[number]))} for number in there
            ]
            upsert(connection, estimates, rows)

        self._access.write(work)

    def of(self, one: str) -> KeptEstimates | None:
        """What was expected of a job; None when nothing was, or it cannot be read."""
        query = sa.select(estimates.c.body).where(estimates.c.job == job_number(one))
        with self._access.read() as connection:
            body = connection.scalar(query)
        return None if body is None else _read(body)

    def latest(self, most: int) -> list[tuple[JobRecord, KeptEstimates]]:
        """Of so many jobs, the newest, in their order: what is known of them, and what was expected."""
        query = sa.select(estimates.c.job, estimates.c.body).order_by(estimates.c.job.desc()).limit(most)
        with self._access.read() as connection:
            bodies = {job_id(row.job): _read(row.body) for row in connection.execute(query)}
            numbers = [job_number(of) for of in bodies]
            records = sa.select(jobs.c.number, jobs.c.record).where(jobs.c.number.in_(numbers))
            found = self._access.damages.jobs(connection, records.order_by(jobs.c.number))
        told = ((record, bodies[record.job.id]) for record in found)
        return [(record, kept) for record, kept in told if kept is not None]


def _read(body: str) -> KeptEstimates | None:
    """None for what nobody wrote so: it is no more than a memory of what was thought."""
    try:
        values = json.loads(body)
        last = values["last"]
        return KeptEstimates(
            _estimate(values["first"]), _estimate(values["drawn"]), None if last is None else _estimate(last)
        )
    except (ValueError, TypeError, KeyError):
        return None


def _estimate(values: Mapping[str, Any]) -> Estimate:
    start, end, cost = (
        Interval(*(float(values[name][key]) for key in ("mean", "low", "high")))
        for name in ("start", "end", "cost")
    )
    return Estimate(float(values["at"]), start, end, cost)
