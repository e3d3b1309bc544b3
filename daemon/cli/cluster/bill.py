"""The command `bill`: the cost of VMs, used or idle, divided by job, owner, day, ..."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from conf.util.dollars import money, percent
from conf.util.utc_days import minute
from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.fetching import Fetched, fetches

if TYPE_CHECKING:
    from stoker import Stoker

Json = Mapping[str, Any]
By = Literal["job", "group", "owner", "queue", "type", "policy", "pool", "vm", "day", "kind"]
Days = Annotated[
    str | None,
    typer.Option(metavar="DAY", help="A day (UTC): 2026-11-22, today, yesterday, or 7d for seven days ago."),
]
CsvOutput = Annotated[
    Literal["table", "json", "csv", "focus"],
    typer.Option("-o", "--output", help="Format: a table, the API's JSON, CSV, or CSV as FinOps FOCUS 1.2."),
]

#: Purposes of payments, in the order of the table.
KINDS = ("used", "idle", "booting", "draining", "rounding")
#: The API's most lines: 27 years.
_MOST_DAYS = 10_000
#: Meaning of an empty key.
_NOBODY = {
    "job": "(no job)",
    "group": "(no group)",
    "owner": "(nobody)",
    "queue": "(no queue)",
    "pool": "(fixed VMs)",
    "vm": "(VMs of earlier days)",
    "policy": "(no policy)",
    "type": "(no type)",
}


#: Default of --limit.
_LINES = 1000


@fetches(CsvOutput)
def bill(
    client: "Stoker",
    by: Annotated[By, typer.Option("--by", help="Dimension to divide the bill by.")] = "kind",
    since: Days = None,
    until: Days = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, max=10_000, help="Maximum number of lines; the rest is summed.")
    ] = _LINES,
    output: str = "table",
) -> Fetched | int:
    """Show the cost of VMs from opened to closed, whether used or idle.

    The dominant shares that jobs used and the unused rest add up to the billed amount. (The cost that
    `stoker job` shows divides the whole price of a VM among the jobs on it: Islam 2022, eq. 4.)

    `-o focus` writes a row for each day, VM and job, and for each unused part of a VM. The daemon stores the
    cost of each job on each VM only for as many days as `retention.bill` of its config; other days have a row
    for each pool, VM type, queue, owner and policy.

    Example: stoker bill --by owner --since 2026-11-01 -o csv
    """
    days = {"since": day("--since", since), "until": day("--until", until)}
    if output == "focus":
        for option, other in (("--by", by != "kind"), ("--limit", limit != _LINES)):
            if other:
                raise CommandError(f"{option}: cannot be combined with -o focus, which has all of the bill")
        return _focus(client, [line["key"] for line in client.bill("day", **days, limit=_MOST_DAYS)["lines"]])
    answer = client.bill(by, **days, limit=limit)
    return Fetched(answer, lambda _: table(answer), rows=_rows(answer))


def _focus(client: "Stoker", days: Iterable[str]) -> int:
    """Print these days as CSV, one after the other: a month may have more rows than fit the memory."""
    import csv
    import sys

    from stoker.answers import FocusRow

    from conf.util.csv_cells import cell

    lines = csv.writer(sys.stdout, lineterminator="\n")
    columns = list(FocusRow.__annotations__)
    lines.writerow(columns)
    for each in days:
        after: str | None = None
        while True:
            page = client.bill_in_focus(each, after=after)
            for row in page["rows"]:
                cells: Json = row
                lines.writerow([cell(cells[name]) for name in columns])
            if (after := page["next"]) is None:
                break
    return 0


def day(option: str, told: str | None, now: datetime | None = None) -> str | None:
    """Return the day described by a word or a date, as 2026-11-22; CommandError for any other text."""
    if told is None:
        return None
    today = (now or datetime.now(UTC)).date()
    words = {"today": 0, "yesterday": 1}
    if told.endswith("d") and told[:-1].isdecimal() and len(told) < 7:
        words[told] = int(told[:-1])
    try:
        if told in words:
            return (today - timedelta(days=words[told])).isoformat()
        return date.fromisoformat(told).isoformat()
    except (ValueError, OverflowError):
        what = f"{option}: should be a day such as 2026-11-22, today, yesterday or 7d, found {told}"
        raise CommandError(what) from None


def table(answer: Json) -> Iterator[Any]:
    """Tables of a bill for the terminal."""
    from daemon.cli.shared import render

    if answer["since"] is None:
        yield "There were no costs on these days."
        return
    total, by = answer["total"], answer["by"]
    yield f"{money(total['total'])} from {answer['since']} to {answer['until']} (UTC)"
    yield ""
    kinds = [kind for kind in KINDS if total[kind] or kind in ("used", "idle")]
    if by == "kind":
        whole = total["total"]
        shares = (percent(total[kind] / whole if whole else None, 1) for kind in kinds)
        rows = [(kind, money(total[kind]), share) for kind, share in zip(kinds, shares, strict=True)]
        yield render.table(["kind", "dollars", "share"], rows, right=("dollars", "share"))
    else:
        lines = [*answer["lines"], *([{**answer["rest"], "key": None}] if answer["rest"] else [])]
        told = [(_key(by, line["key"]), line) for line in lines]
        if by == "policy":
            yield from _of_policies(told, total)
        else:
            dollars = [
                (key, money(line["total"]), *(money(line[kind]) for kind in kinds)) for key, line in told
            ]
            yield render.table([by, "billed", *kinds], dollars, right=("billed", *kinds))
    if total["difference"] is not None:
        yield ""
        more = "more" if total["difference"] >= 0 else "less"
        apart = money(abs(total["difference"]))
        yield f"Providers have charged {apart} {more} than this for VMs whose cost they report."
    if total["lost"]:
        yield ""
        yield f"{money(total['lost'])} of the used cost is lost: work of preempted jobs."
    if total["memory"]:
        yield ""
        yield render.wrapped(
            f"{money(total['memory'])} of the used cost is by attempts that had too little memory, before "
            "their jobs were restarted with more."
        )
    if answer["commitments"]:
        yield ""
        columns = ("committed", "used", "unused", "at list price", "saved")
        keys = ("committed", "used", "unused", "list_cost", "saved")
        rows = [(of["name"], of["covers"], *(money(of[key]) for key in keys)) for of in answer["commitments"]]
        yield render.table(["commitment", "covers", *columns], rows, right=columns)
        yield ""
        yield f"With commitments {money(answer['with_commitments'])} instead of {money(total['total'])}."
    if (budget := answer["budget"]) is not None:
        yield ""
        if budget["per_day"] is not None:
            over = budget["spent"] > budget["per_day"]
            held = ", no VM is opened until tomorrow" if over and budget["hold"] else ""
            beyond = f": it is spent{held}" if over else ""
            yield f"Today (UTC) {money(budget['spent'])} of a budget of {money(budget['per_day'])}{beyond}."
        for limit in budget["limits"]:
            if limit["pool"] or limit["per"] != "day":
                yield _limit(limit)


def _limit(limit: Json) -> str:
    """A limit in words: Pool general: $3.20 of $5.00 in this month (UTC)."""
    when = {"hour": "an hour now", "day": "today (UTC)", "month": "in this month (UTC)"}[limit["per"]]
    over = limit["per"] != "hour" and limit["spent"] > limit["dollars"]
    beyond = ": it is spent" if over else ""
    if over and limit["hold"]:
        beyond += f", and has room again at {minute(limit['until'])}"
    whose = f"Pool {limit['pool']}" if limit["pool"] else "All VMs"
    return f"{whose}: {money(limit['spent'])} of {money(limit['dollars'])} {when}{beyond}."


def _of_policies(told: Sequence[tuple[str, Json]], total: Json) -> Iterator[Any]:
    """Cost that jobs used while each policy decided; idle cost is not attributed to a policy."""
    from daemon.cli.shared import render

    rows = [(key, money(line["used"])) for key, line in told if line["used"] or line["key"] != ""]
    rows.append(("(idle and the rest, under any policy)", money(total["total"] - total["used"])))
    yield render.table(["policy", "used"], rows, right=("used",))
    yield ""
    yield render.wrapped(
        "Cost that jobs used while each policy decided. It depends on the jobs of that time, so it ranks "
        "no policy: `stoker what-if --since today --policy ff,greedy` simulates the same jobs under each."
    )


def _key(by: str, key: str | None) -> str:
    return "(others)" if key is None else key or _NOBODY.get(by, "-")


def _rows(answer: Json) -> Iterator[Sequence[object]]:
    """Yield all lines for a spreadsheet; the lines beyond the limit become one more line, named (others)."""
    yield answer["by"], "billed", *KINDS, "difference", "lost", "memory"
    rest = [{**answer["rest"], "key": "(others)"}] if answer["rest"] else []
    for line in (*answer["lines"], *rest):
        kinds = (line[kind] for kind in KINDS)
        yield line["key"], line["total"], *kinds, line["difference"], line["lost"], line["memory"]
