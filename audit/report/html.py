"""An audit as one HTML file, with pictures inside and nothing from other hosts; all texts are escaped."""

from datetime import UTC, datetime
from functools import partial

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from stoker.characters import visible

from audit.executor_use import CAUSES
from audit.report.pictures import WIDTH, bars, intervals, timeline
from audit.write import AuditResult
from conf.util.dollars import money, percent

#: Rows of tables; the rest is in JSON and CSV.
_ROWS, _UNREAD, _CHANGES = 50, 20, 10


def report(audit: AuditResult) -> str:
    """The report as HTML; `audit` may have no savings."""
    environment = Environment(
        loader=PackageLoader("audit.report", "."),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"money": money, "percent": partial(percent, none="not checked"), "plain": visible}
    costs, read, savings = audit.costs, audit.read, audit.savings
    total = costs.total
    lines = costs.by("type")
    applications = [each.application for each in costs.each]
    lost = [each for each in applications if each.lost_parts]
    return environment.get_template("report.html").render(
        audit=audit,
        total=total,
        lines=lines[:_ROWS],
        more=max(0, len(lines) - _ROWS),
        causes=CAUSES,
        savings=savings,
        changes=[] if savings is None else savings.changes[:_CHANGES],
        best=None if savings is None or not savings.changes else savings.changes[0],
        bars=bars(costs),
        timeline=timeline(costs),
        intervals=None if savings is None else intervals(savings),
        width=WIDTH,
        begins=_day(min(each.started_at for each in applications)),
        ends=_day(max(each.ended_at for each in applications)),
        before=None if read.since is None else costs.before(read.since),
        unread=read.unread[:_UNREAD],
        unread_more=max(0, len(read.unread) - _UNREAD),
        cut_short=sum(each.cut_short and not each.lost_parts for each in applications),
        lost=lost[:_UNREAD],
        lost_more=max(0, len(lost) - _UNREAD),
        noted=sum(bool(each.notes) for each in applications),
        prices=audit.prices.table.source or audit.prices.name,
    )


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()
