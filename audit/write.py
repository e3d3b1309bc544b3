"""An audit as JSON and as CSV."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from audit.costs import KEYS, ApplicationCost, Costs, Line
from audit.executor_use import CAUSES
from audit.over_time import cores_over_time
from audit.prices import Prices
from audit.read_logs import ReadLogs
from conf.util.csv_cells import cell

if TYPE_CHECKING:
    from audit.savings.changes import Change
    from audit.savings.plays import DollarRange, Played
    from audit.savings.predict import Savings

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class AuditResult:
    """An audit: what was read, the prices, the costs, and what they could be."""

    read: ReadLogs
    prices: Prices
    costs: Costs
    #: None without a request for it.
    savings: "Savings | None" = None


def to_json(
    audit: AuditResult, by: Sequence[str] = ("application", "type", "user", "queue", "day")
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
        **_before(audit),
        "total": _line(costs.total),
        "by": {key: [_line(line) for line in costs.by(key)] for key in by},
        "each": [_application(each) for each in costs.each],
        "over_time": _over_time(costs),
        **({} if audit.savings is None else {"savings": _savings(audit.savings)}),
    }


def _before(audit: AuditResult) -> dict[str, Any]:
    """Applications that began before `--since` and are counted whole, with their dollars until then."""
    if audit.read.since is None:
        return {}
    number, dollars = audit.costs.before(audit.read.since)
    since = datetime.fromtimestamp(audit.read.since, UTC).isoformat()
    return {"since": since, "began_before_since": number, "dollars_before_since": round(dollars, _DIGITS)}


def write_csv(costs: Costs, by: str, out: TextIO) -> None:
    """The costs by a key of `KEYS`, or by day, as a table for spreadsheets."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [by, "runs", "dollars", *CAUSES, "seconds", "core_seconds", "spilled_mib", "failed_tasks"]
    )
    for line in costs.by(by):
        dollars = [round(value, _DIGITS) for value in (line.total, *line.dollars)]
        rest = [line.seconds, line.core_seconds.total, line.spilled_mib]
        writer.writerow(
            [cell(line.key), line.count, *dollars, *(round(each, 3) for each in rest), line.failed_tasks]
        )


def _over_time(costs: Costs) -> list[dict[str, Any]]:
    found = cores_over_time(costs)
    if found is None:
        return []
    return [
        {
            "from": datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"),
            "cores_paid": round(paid, 3),
            "cores_worked": round(worked, 3),
        }
        for at, paid, worked in zip(
            found.edges[:-1].tolist(), found.paid.tolist(), found.worked.tolist(), strict=True
        )
    ]


def write_changes_csv(savings: "Savings", out: TextIO) -> None:
    """The changes that save, the largest first, as a table for spreadsheets."""
    writer = csv.writer(out, lineterminator="\n")
    rows = [_change(each) for each in savings.changes]
    writer.writerow(_COLUMNS)
    writer.writerows([cell(row[column]) for column in _COLUMNS] for row in rows)


#: Columns of changes in CSV, and their keys in JSON.
_COLUMNS = (
    *("change", "subject", "dollars", "low", "high", "share", "held_out_error"),
    *("runs", "slower", "needs", "type"),
)


def _savings(savings: "Savings") -> dict[str, Any]:
    return {
        "applications": len(savings.runs),
        "dollars": round(savings.logged, _DIGITS),
        "replayed_dollars": round(savings.replayed, _DIGITS),
        "held_out_error": _rounded(savings.error),
        "checked_runs": savings.checked,
        "types": [
            {
                "name": each.name,
                "runs": len(each.runs),
                "dollars": round(each.dollars, _DIGITS),
                "held_out_error": _rounded(each.error),
                "sigma": round(each.sigma, 4),
            }
            for each in savings.types.values()
        ],
        "scenarios": [_scenario(each) for each in savings.played],
        "changes": [_change(each) for each in savings.changes],
    }


def _scenario(played: "Played") -> dict[str, Any]:
    of = played.scenario
    return {
        "name": of.name,
        "needs": of.needs,
        "policy": of.policy,
        "keep": of.keep,
        "sizes": of.sizes,
        "dollars": round(played.dollars, _DIGITS),
        "saving": _interval(played.saving),
        "completion_ratio": round(played.slower, 4),
        "idle_share": round(played.idle_share, 4),
        "refused": list(played.refused),
        "failed": played.failed,
    }


def _change(change: "Change") -> dict[str, Any]:
    return {
        "change": change.kind,
        "subject": change.subject,
        **_interval(change.saving),
        "share": round(change.share, 4),
        "held_out_error": _rounded(change.error),
        "runs": change.runs,
        "slower": round(change.slower, 4),
        "needs": change.needs,
        "type": change.command,
    }


def _interval(of: "DollarRange") -> dict[str, float]:
    values = {"dollars": of.middle, "low": of.low, "high": of.high}
    return {name: round(value, _DIGITS) for name, value in values.items()}


def _rounded(error: float | None) -> float | None:
    return None if error is None else round(error, 4)


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
        **{key: name(of) for key, name in KEYS.items() if key not in ("log", "type")},
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
        "memory_mib_seconds": round(of.paid_memory_seconds, 3),
        "memory_peak": None if of.memory_peak is None else of.memory_peak._asdict(),
        "cut_short": of.cut_short,
        "notes": list(of.notes),
    }


def _causes(values: Mapping[str, float]) -> dict[str, float]:
    return {cause: round(value, _DIGITS) for cause, value in values.items()}
