"""Tables of `stoker audit` for the terminal."""

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

from audit.executor_use import CAUSES
from audit.write import AuditResult
from conf.util.counted import counted
from conf.util.dollars import money, percent
from daemon.cli.shared import render

if TYPE_CHECKING:
    from audit.savings.plays import DollarRange
    from audit.savings.predict import Savings

#: Number of changes that are shown.
MOST = 10
#: Number of lines of a table, and of unread files, that are shown; the rest is counted.
_LINES, _UNREAD = 20, 5
_MIB = 1 << 20


def show(audit: AuditResult, by: str) -> None:
    """Print the costs, and the inputs that were not read."""
    render.show(*_tables(audit, by))


def _tables(audit: AuditResult, by: str) -> Iterator[Any]:
    costs, read = audit.costs, audit.read
    total = costs.total
    attempts = f" in {counted(total.count, 'attempt')}" if total.count != total.applications else ""
    yield (
        f"{money(total.total)} for {render.count(total.applications, 'application')}{attempts}, "
        f"{total.core_seconds.total / 3600:,.1f} core-hours; prices: "
        f"{audit.prices.table.source or audit.prices.name}"
    )
    yield ""
    rows = [
        (cause, money(getattr(total.dollars, cause)), percent(total.share(cause)), words)
        for cause, words in CAUSES.items()
    ]
    yield render.table(["paid for", "dollars", "share", ""], rows, right=("dollars", "share"))
    yield ""
    lines = costs.by(by)
    shown = [
        (
            line.key,
            str(line.count),
            money(line.total),
            *(percent(line.share(cause)) for cause in CAUSES),
            percent(line.memory_used),
        )
        for line in lines[:_LINES]
    ]
    columns = [by, "runs", "dollars", *CAUSES, "memory"]
    yield render.fitted(columns, shown, right=columns[1:], cut=(by,), spare=("memory", "failed", "start"))
    if len(lines) > _LINES:
        yield f"and {len(lines) - _LINES} more; -o csv has all"
    yield ""
    if audit.savings is not None:
        yield from _savings(audit.savings)
        yield ""
    yield from _cautions(audit)
    yield from _days(audit)
    yield (
        f"read {read.log_bytes / _MIB:,.0f} MiB of {render.count(len(read.applications), 'log')} in "
        f"{render.duration(read.seconds)}"
    )


def _savings(savings: "Savings") -> Iterator[Any]:
    """The scenarios, the changes that save most, and the commands for these."""
    if not savings.runs:
        yield "no application had an executor with cores for a while: nothing was played"
        return
    rows = [
        (
            each.scenario.name + (f" ({len(each.refused)} do not fit)" if each.refused else ""),
            "-" if each.failed else money(each.dollars),
            each.failed or between(each.saving),
            "-" if each.failed else f"{each.slower:.2f}",
            "-" if each.failed else percent(each.idle_share),
        )
        for each in savings.played
    ]
    columns = ["the same, played on", "dollars", "saving, 90 %", "time", "idle"]
    yield render.fitted(columns, rows, right=("dollars", "time", "idle"), cut=(columns[0],), spare=("idle",))
    error = "no duration could be checked: every application ran once"
    if savings.error is not None:
        error = (
            f"durations of {counted(savings.checked, 'run')}, predicted by the other half of the runs: "
            f"off by {percent(savings.error)} (median of types)"
        )
    yield f"{error}; replayed as they ran: {money(savings.replayed)} of {money(savings.logged)}"
    if not savings.changes:
        yield "no change saves 2 % or more"
        return
    yield ""
    shown = [
        (each.subject, each.kind, between(each.saving), percent(each.share), percent(each.error))
        for each in savings.changes[:MOST]
    ]
    columns = ["change", "how", "saving, 90 %", "share", "error"]
    yield render.fitted(columns, shown, right=("share", "error"), cut=(columns[0],), spare=("error",))
    yield "they overlap, so do not add them. Details of each: --html FILE, -o json, -o csv --by change"


def between(saving: "DollarRange") -> str:
    """A saving in dollars, with its interval."""
    return f"{money(saving.middle)} ({money(saving.low)} to {money(saving.high)})"


def _days(audit: AuditResult) -> Iterator[str]:
    """The days of which the logs tell, and whether a fixed cluster would mostly be paid for nothing."""
    days = [line.key for line in audit.costs.by("day")]
    if not days:
        return
    first, last = date.fromisoformat(days[0]), date.fromisoformat(days[-1])
    whole = (last - first).days + 1
    yield f"applications ran on {len(days):,} of {counted(whole, 'day')}, from {first} to {last}"
    if audit.savings is not None and 2 * len(days) < whole:
        yield "a fixed cluster is paid for on all of these days; --since DATE leaves out earlier ones"


def _cautions(audit: AuditResult) -> Iterator[str]:
    costs, read = audit.costs, audit.read
    logs = counted(len(costs.each), "log")
    if costs.without_type:
        yield f"without a VM type: {costs.without_type} of {logs}, priced by cores and memory (--vm TYPE)"
    if read.since is not None and (before := costs.before(read.since))[0]:
        yield f"began before --since: {before[0]} of {logs}, counted whole ({money(before[1])} of it before)"
    if costs.without_executors:
        yield f"without an executor: {costs.without_executors} of {logs}, at no cost here"
    lost = [f"{each.log} ({', '.join(each.lost_parts)})" for each in read.applications if each.lost_parts]
    cut = sum(each.cut_short for each in read.applications) - len(lost)
    if cut:
        yield f"cut off before the application's end: {cut} of {logs}, counted until the last event"
    if lost:
        some = "; ".join(lost[:_UNREAD])
        more = f"; and {len(lost) - _UNREAD} more (-o json)" if len(lost) > _UNREAD else ""
        yield f"with empty or cut parts, so that events are missing: {len(lost)} of {logs}: {some}{more}"
    noted = sum(bool(each.notes) for each in read.applications)
    if noted:
        yield f"read with assumptions: {noted} of {logs}; -o json names them"
    if read.unread:
        some = "; ".join(f"{each.name}: {each.why}" for each in read.unread[:_UNREAD])
        more = f"; and {len(read.unread) - _UNREAD} more (-o json)" if len(read.unread) > _UNREAD else ""
        yield f"{render.count(len(read.unread), 'file')} not read: {some}{more}"
