"""`stoker bill`: costs of VMs, as a table, as JSON and as CSV."""

import csv
import io
import json
from datetime import UTC, datetime

import pytest

from daemon.cli.cluster.bill import day
from daemon.cli.shared.errors import CommandError
from daemon.core.status import BudgetStatus, SpendingLimit
from environment.model.cluster_model import Changes
from environment.model.messages.vm_accounts import Charge
from tests.daemon.cli.conftest import Daemon

Capture = pytest.CaptureFixture[str]

USED = Charge("2026-11-21", "vm-1", "", "m1.large", "job-1", "ann", "default", "ff", "used", 1.5)
IDLE = Charge("2026-11-22", "vm-1", "", "m1.large", "", "", "", "ff", "idle", 4.25)


@pytest.fixture
def paid(daemon: Daemon) -> Daemon:
    """A daemon of a fixed VM, which was used little."""
    daemon.cast.store.changes.save(
        Changes((), (), charges=(USED, IDLE, USED._replace(job="=1+1", dollars=0.25)))
    )
    return daemon


def test_a_fixed_cluster_costs_what_it_costs_used_or_not(paid: Daemon, capsys: Capture) -> None:
    """By kind, in dollars and as a share of all."""
    assert paid.run("bill") == 0
    assert capsys.readouterr().out.splitlines() == [
        "$6.00 from 2026-11-21 to 2026-11-22 (UTC)",
        "",
        "kind   dollars    share",
        "─" * 23,
        "used     $1.75   29.2 %",
        "idle     $4.25   70.8 %",
    ]


def test_what_no_job_used_stands_beside_what_jobs_did(paid: Daemon, capsys: Capture) -> None:
    """Unused and used dollars add up to the bill; lines beyond the limit are summed up."""
    assert paid.run("bill", "--by", "job") == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[4:]] == [
        ["(no", "job)", "$4.25", "$0.0000", "$4.25"],
        ["job-1", "$1.50", "$1.50", "$0.0000"],
        ["=1+1", "$0.2500", "$0.2500", "$0.0000"],
    ]
    assert paid.run("bill", "--by", "job", "--limit", "1", "--until", "2026-11-22") == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["(others)", "$1.75", "$1.75", "$0.0000"]
    assert paid.run("bill", "--by", "pool", "--since", "2027-01-01") == 0
    assert capsys.readouterr().out == "There were no costs on these days.\n"


def test_idle_hours_rank_no_policy(paid: Daemon, capsys: Capture) -> None:
    """By policy the bill shows dollars used by jobs only, in each output.

    Idle dollars are one line without a policy, and a note explains it.
    """
    paid.cast.store.changes.save(Changes((), (), charges=(USED._replace(policy="greedy", dollars=0.5),)))
    assert paid.run("bill", "--by", "policy") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[2:3]] == ["policy"]
    assert [line.rsplit(maxsplit=1) for line in lines[4:7]] == [
        ["ff", "$1.75"],
        ["greedy", "$0.5000"],
        ["(idle and the rest, under any policy)", "$4.25"],
    ]
    assert "ranks no policy" in " ".join(lines)
    found = [("", 0.0, 4.25), ("ff", 1.75, 0.0), ("greedy", 0.5, 0.0)]
    assert paid.run("bill", "--by", "policy", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)["lines"]
    assert [(line["key"], line["used"], line["idle"]) for line in told] == found
    assert paid.run("bill", "--by", "policy", "-o", "csv") == 0
    rows = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert [(row["policy"], float(row["used"]), float(row["idle"])) for row in rows] == found


def test_one_name_for_what_is_billed(paid: Daemon, capsys: Capture) -> None:
    """No table or CSV of a bill has a column with the name that job lists use for the cost, or a total."""
    for by in ("job", "owner", "queue", "type", "pool", "vm", "day"):
        for output in ("table", "csv"):
            assert paid.run("bill", "--by", by, "-o", output) == 0
            lines = capsys.readouterr().out.splitlines()
            heads = lines[2].split() if output == "table" else lines[0].split(",")
            assert "billed" in heads
            assert not {"total", "cost"} & {*heads}


def test_programs_and_spreadsheets(paid: Daemon, capsys: Capture) -> None:
    """The API's JSON; CSV in which no key is a formula."""
    assert paid.run("bill", "--by", "day", "-o", "json") == 0
    assert [line["total"] for line in json.loads(capsys.readouterr().out)["lines"]] == [1.75, 4.25]
    assert paid.run("bill", "--by", "job", "-o", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["job"] for row in rows] == ["", "job-1", "'=1+1"]
    assert sum(float(row["billed"]) for row in rows) == 6.0


def test_limits_of_months_and_pools_are_shown(paid: Daemon, capsys: Capture) -> None:
    """Each with its period, and when it has room again."""
    limits = (
        SpendingLimit("", "month", 9.0, 3.0, True, 1796083200.0),
        SpendingLimit("general", "month", 2.0, 3.0, True, 1796083200.0),
        SpendingLimit("general", "hour", 2.0, 0.5, True),
    )
    paid.cast.spent = BudgetStatus("2026-11-22", None, 4.25, hold=False, limits=limits)
    assert paid.run("bill") == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "All VMs: $3.00 of $9.00 in this month (UTC).",
        "Pool general: $3.00 of $2.00 in this month (UTC): "
        "it is spent, and has room again at 2026-12-01 00:00 UTC.",
        "Pool general: $0.5000 of $2.00 an hour now.",
    ]


def test_budget_and_what_providers_say(paid: Daemon, capsys: Capture) -> None:
    """The bill shows the difference to the provider's bill and the share of the budget spent."""
    paid.cast.store.changes.save(Changes((), (), charges=(IDLE._replace(kind="difference", dollars=-0.5),)))
    paid.cast.spent = BudgetStatus("2026-11-22", 4.0, 4.25, hold=True)
    assert paid.run("bill") == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "Providers have charged $0.5000 less than this for VMs whose cost they report.",
        "",
        "Today (UTC) $4.25 of a budget of $4.00: it is spent, no VM is opened until tomorrow.",
    ]


def test_days_in_words() -> None:
    """2026-11-22, today, yesterday, 7d; anything else is refused in one line."""
    now = datetime(2026, 11, 22, 0, 30, tzinfo=UTC)
    told = ("today", "yesterday", "7d", "2026-02-28")
    assert [day("--since", one, now) for one in told] == [
        "2026-11-22", "2026-11-21", "2026-11-15", "2026-02-28",
    ]  # fmt: skip
    for wrong in ("", "tomorrow", "2026-02-30", "99999999d", "999999d", "11/22"):
        with pytest.raises(CommandError, match="--since: should be a day"):
            day("--since", wrong, now)
