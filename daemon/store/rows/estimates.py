"""Job estimates in the job store, one text each; `core/estimate.py` defines their content."""

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from daemon.core.estimate import Estimate, KeptEstimates
from daemon.core.job_ids import job_number
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.tables import OPEN_JOB, estimates, jobs, upsert
from environment.model.messages.records import JobRecord
from environment.simulation.durations.prediction_intervals import Interval


class EstimateRows:
    """Stores and reads estimates. All methods may be called from any thread, and raise StoreError."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def keep(self, found: Mapping[str, KeptEstimates]) -> None:
        """Store estimates by job id, replacing earlier ones; deleted jobs are skipped."""
        bodies = {job_number(of): _written(kept) for of, kept in found.items()}

        def work(connection: sa.Connection) -> None:
            there = connection.scalars(sa.select(jobs.c.number).where(jobs.c.number.in_(bodies)))
            rows: list[dict[str, Any]] = [{"job": number, "body": bodies[number]} for number in there]
            upsert(connection, estimates, rows)

        self._access.write(work)

    def of(self, one: str) -> KeptEstimates | None:
        """Stored estimates of a job; None when there are none, or they cannot be read."""
        query = sa.select(estimates.c.body).where(estimates.c.job == job_number(one))
        with self._access.read() as connection:
            body = connection.scalar(query)
        return None if body is None else _read(body)

    def latest(self, most: int) -> list[tuple[JobRecord, KeptEstimates]]:
        """Records and estimates of the newest `most` ended jobs, then of all open ones, each in order."""
        both = sa.select(jobs.c.number, jobs.c.record, estimates.c.body).join(
            estimates, estimates.c.job == jobs.c.number
        )
        newest = jobs.c.number.desc()
        over = both.where(jobs.c.state.not_in(OPEN_JOB)).order_by(newest).limit(most)
        others = both.where(jobs.c.state.in_(OPEN_JOB)).order_by(newest)
        with self._access.read() as connection:
            rows = [row for query in (others, over) for row in connection.execute(query)]
            told = [
                (self._access.damages.job(connection, row.number, row.record), _read(row.body))
                for row in reversed(rows)
            ]
        return [(record, kept) for record, kept in told if kept is not None]

    def finished(self, most: int) -> list[JobRecord]:
        """The newest `most` finished jobs, in order."""
        query = sa.select(jobs.c.number, jobs.c.record).where(jobs.c.state == "finished")
        with self._access.read() as connection:
            rows = connection.execute(query.order_by(jobs.c.number.desc()).limit(most)).all()
            return [self._access.damages.job(connection, row.number, row.record) for row in reversed(rows)]


def _written(kept: KeptEstimates) -> str:
    """Encode estimates for `_read`."""
    last = None if kept.last is None else _values(kept.last)
    return json.dumps({"first": _values(kept.first), "drawn": _values(kept.drawn), "last": last})


def _values(told: Estimate) -> dict[str, Any]:
    of = {"start": told.start, "end": told.end, "cost": told.cost}
    intervals = {name: {"mean": each.mean, "low": each.low, "high": each.high} for name, each in of.items()}
    return {"at": told.at, **intervals, "draws": told.draws}


def _read(body: str) -> KeptEstimates | None:
    """Decode estimates; None for an unreadable text, as estimates are not essential."""
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
    return Estimate(float(values["at"]), start, end, cost, int(values.get("draws", 0)))
