"""An audit as JSON and as CSV."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from audit.costs import KEYS, ApplicationCost, Costs, Line
from audit.executor_use import CAUSES
from audit.prices import Prices
from audit.read_logs import ReadLogs

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What event logs cost, all of it: what was read, the prices, and the costs."""

    read: ReadLogs
    prices: Prices
    costs: Costs


def to_json(
    audit: AuditResult, by: Sequence[str] = ("application", "user", "queue", "day")
) -> dict[str, Any]:
    """The audit as JSON: dollars, seconds, core-seconds and MiB."""
    read, costs = audit.read, audit.costs
    return {
        "logs": read.logs,
        "applications": len(read.applications),
        "log_bytes": read.log_bytes,
        "packed_bytes": read.packed_bytes,
        "seconds": round(read.seconds, 3),
        "unread": [asdict(each) for each in read.unread],
        "prices": {"name": audit.prices.name, "source": audit.prices.table.source},
        "priced_by_cores_and_memory": costs.without_type,
        "without_executors": costs.without_executors,
        "total": _line(costs.total),
        "by": {key: [_line(line) for line in costs.by(key)] for key in by},
        "each": [_application(each) for each in costs.each],
    }


def write_csv(costs: Costs, by: str, out: TextIO) -> None:
    """The costs by a key of `KEYS` as a table for spreadsheets."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [by, "runs", "dollars", *CAUSES, "seconds", "core_seconds", "spilled_mib", "failed_tasks"]
    )
    for line in costs.by(by):
        dollars = [round(value, _DIGITS) for value in (line.total, *line.dollars)]
        rest = [line.seconds, line.core_seconds.total, line.spilled_mib]
        writer.writerow(
            [line.key, line.count, *dollars, *(round(each, 3) for each in rest), line.failed_tasks]
        )


def _line(line: Line) -> dict[str, Any]:
    return {
        "key": line.key,
        "runs": line.count,
        "applications": line.applications,
        "dollars": round(line.total, _DIGITS),
        "dollars_by_cause": _causes(line.dollars._asdict()),
        "core_seconds": round(line.core_seconds.total, 3),
        "core_seconds_by_cause": _causes(line.core_seconds._asdict()),
        "memory_mib_seconds": round(line.paid_memory_seconds, 3),
        "memory_used": None if line.memory_used is None else round(line.memory_used, 4),
        "seconds": round(line.seconds, 3),
        "spilled_mib": round(line.spilled_mib, 3),
        "failed_tasks": line.failed_tasks,
    }


def _application(cost: ApplicationCost) -> dict[str, Any]:
    of = cost.application
    return {
        "log": of.log,
        "id": of.id,
        "attempt": of.attempt,
        **{key: name(of) for key, name in KEYS.items() if key not in ("log", "day")},
        "started_at": datetime.fromtimestamp(of.started_at, UTC).isoformat(),
        "seconds": round(of.seconds, 3),
        "spark": of.spark_version,
        "vm_types": sorted(filter(None, cost.vm_types)),
        "executors": len(of.executors),
        "executors_lost": sum(each.lost for each in of.executors),
        "tasks": of.tasks,
        "failed_tasks": of.failed_tasks,
        "dollars": round(cost.total, _DIGITS),
        "dollars_by_cause": _causes(cost.dollars._asdict()),
        "core_seconds": round(of.paid_core_seconds, 3),
        "cut_short": of.cut_short,
        "notes": list(of.notes),
    }


def _causes(values: Mapping[str, float]) -> dict[str, float]:
    return {cause: round(value, _DIGITS) for cause, value in values.items()}
