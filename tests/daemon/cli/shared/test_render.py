"""Numbers and times as people read them."""

import json
import time

import pytest
from rich.table import Table
from stoker.characters import unseen

from daemon.cli.jobs import explanation_tables
from daemon.cli.shared import job_tables, render
from daemon.cli.shared.options import print_json


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "0.0 s"),
        (12.34, "12.3 s"),
        (59.96, "1 min 0 s"),
        (125.2, "2 min 5 s"),
        (3_599.9, "1 h 0 min"),
        (11_520.0, "3 h 12 min"),
        (187_200.0, "2 d 4 h"),
    ],
)
def test_duration(seconds: float | None, text: str) -> None:
    """A duration is shown in its two largest units."""
    assert render.duration(seconds) == text


@pytest.mark.parametrize(
    ("dollars", "text"),
    [
        (None, "-"),
        (0.0, "$0.0000"),
        (0.0123, "$0.0123"),
        (0.000045, "$0.000045"),
        (1e-9, "less than $0.000001"),
        (1234.5, "$1,234.50"),
    ],
)
def test_money(dollars: float | None, text: str) -> None:
    """Small amounts keep digits that say something, large ones have cents."""
    assert render.money(dollars) == text


@pytest.mark.parametrize(
    ("mib", "text"), [(None, "-"), (512, "512 MiB"), (1024, "1 GiB"), (1536, "1.5 GiB"), (49152, "48 GiB")]
)
def test_memory(mib: int | None, text: str) -> None:
    """Memory is shown in GiB from one GiB on."""
    assert render.memory(mib) == text


def test_cpus_and_counts() -> None:
    """One is singular, everything else is not."""
    assert [render.cpus(1.0), render.cpus(0.5), render.cpus(None)] == ["1 cpu", "0.5 cpus", "-"]
    assert [render.count(1, "VM"), render.count(0, "VM")] == ["1 VM", "0 VMs"]


def test_clock() -> None:
    """A time of today has no date, any other one has."""
    assert len(render.clock(time.time())) == len("12:00:00")
    assert render.clock(86_400.0 * 365).startswith(("1970-12-31", "1971-01-01"))
    assert render.clock(None) == "-"


def test_a_line_in_a_pipe_is_as_long_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row or a line stays one line in a pipe, as programs read it."""
    monkeypatch.delenv("COLUMNS", raising=False)
    long = "because " * 500
    render.show(render.table(["job", "reason"], [["job-1", long]]), long)
    assert [line.count("because") for line in capsys.readouterr().out.splitlines()] == [0, 0, 500, 500]
    columns = ("job", "name", "reason", "note")
    fitted = render.fitted(columns, [(long,) * 4], cut=("name",), wrap=("reason",), spare=("note",))
    render.show(fitted, render.wrapped(long, mark="- "))
    assert [line.count("because") for line in capsys.readouterr().out.splitlines()] == [0, 0, 2000, 500]


def test_executors_have_messages_where_there_is_something_to_say(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one that failed, in lines that can be read, while no number is broken; of one that finished none."""
    monkeypatch.setenv("COLUMNS", "80")
    known = {"vm": "m1.large-1", "vm_type": "m1.large", "cpus": 1.0, "memory_mib": 1024, "resources": {}}
    well = known | {
        "number": 0,
        "state": "finished",
        "cost": 0.00033,
        "message": "Command exited with status 0",
    }
    ill = known | {"number": 1, "state": "failed", "cost": 0.0005, "message": "Container " + "killed " * 9}
    render.show(job_tables.executor_table([well]))
    assert "message" not in (printed := capsys.readouterr().out)
    assert "m1.large-1   m1.large" in printed
    render.show(job_tables.executor_table([well, ill]))
    head, _, first, second, *more = capsys.readouterr().out.splitlines()
    assert (head.split()[-1], "status 0" in first) == ("message", False)
    assert "$0.000500" in second
    assert "m1.large-1" in second
    assert len(more) <= 3


def test_no_control_characters_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Text of users is printed as text: no escape sequence and no markup takes effect."""
    render.show(render.table(["name"], [["[red]a[/red]\x1b[31mb\x07"]]), "\x1b]0;title\x07")
    printed = capsys.readouterr().out
    assert "[red]a[/red]" in printed
    assert "\x1b" not in printed
    assert "\x07" not in printed


def test_what_comes_from_elsewhere_steers_no_terminal() -> None:
    """Escape sequences, C1 controls, overrides and halves of characters are shown as escapes; lines stay."""
    text = "a\x1b]0;x\x07 \x9b2J \u202eb\u2066 \ud83d\tc\nd é \u2764\ufe0f"
    assert render.plain(text) == ("a\\x1b]0;x\\x07 \\x9b2J \\u202eb\\u2066 \\ud83d\tc\nd é \u2764\ufe0f")


def test_json_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters are escaped in JSON's own form, and the text reads back the same."""
    value = {"name": "a\x9b\u202e\U000e0041\ud83d é"}
    print_json(value)
    printed = capsys.readouterr().out
    assert unseen(printed.replace("\n", "")) is None
    assert "é" in printed
    assert json.loads(printed) == value


def test_vms_that_lack_the_same_share_a_row() -> None:
    """Also where they lack nothing that is counted, but are no place for the job."""
    candidate = {
        "type": "m1.large",
        "free_cpus": 4.0,
        "free_memory_mib": 1024,
        "score": None,
        "chosen": False,
    }
    candidate |= {"details": {}, "free_resources": {}}
    whys = ["has 0 cpus free, 1 needed", "is left out until 9 s, its last 3 launches never ran: full"]
    listed = [{**candidate, "vm": f"vm-{i}", "lacks": [f"vm-{i} {whys[i % 2]}"]} for i in range(6)]
    choice = {"executor": None, "candidates": listed, "candidates_left_out": 0}
    stands = {"queue": "default", "priority": 0, "deadline": None, "place": 0}
    found = {"id": "job-1", "state": "queued", "reason": "", "explanations": [], **stands}
    decision = {
        "at": 0.0,
        "policy": "ff",
        "decision": "wait",
        "reason": "it waits",
        "faults": [],
        "kinds": [],
    }
    (table,) = [
        part
        for part in explanation_tables.explanation(
            {**found, "explanations": [{**decision, "choices": [choice]}]}
        )
        if isinstance(part, Table)
    ]
    lacks = [str(cell) for cell in table.columns[-1].cells]
    assert lacks == ["0 cpus free, 1 needed", "is left out until 9 s, its last 3 launches never ran: full"]


def test_executors_that_went_to_one_vm_for_one_reason_are_told_together() -> None:
    """With the table of the first of them; another VM, another reason or another size is told apart."""
    candidate = {"vm": "vm-1", "type": "m1.large", "free_cpus": 4.0, "free_memory_mib": 1024, "score": None}
    candidate |= {"chosen": True, "details": {}, "free_resources": {}, "lacks": []}
    told = [("vm-1", "has room", 1.0)] * 3 + [("vm-1", "is left", 1.0), ("vm-2", "is left", 1.0)]
    choices = [
        {
            "executor": number, "vm": vm, "why": why, "cpus": cpus, "memory_mib": 1024, "resources": {},
            "candidates": [candidate], "candidates_left_out": 0,
        }
        for number, (vm, why, cpus) in enumerate([*told, ("vm-2", "is left", 0.5)])
    ]  # fmt: skip
    stands = {"queue": "default", "priority": 0, "deadline": None, "place": 0}
    decision = {"at": 0.0, "policy": "ff", "decision": "place", "reason": "six", "faults": [], "kinds": []}
    decision |= {"choices": choices}
    found = {"id": "job-1", "state": "running", "reason": "", "explanations": [decision], **stands}
    parts = [*explanation_tables.explanation(found)]
    assert [part for part in parts if isinstance(part, str) and part.startswith("Executor")] == [
        "Executors 0 to 2 on vm-1 (1 cpu, 1 GiB): has room; seen at the first of them",
        "Executor 3 on vm-1 (1 cpu, 1 GiB): is left",
        "Executor 4 on vm-2 (1 cpu, 1 GiB): is left",
        "Executor 5 on vm-2 (0.5 cpus, 1 GiB): is left",
    ]
    assert sum(isinstance(part, Table) for part in parts) == 4


def test_kinds_of_vm_stand_beside_the_placement(capsys: pytest.CaptureFixture[str]) -> None:
    """In dollars and seconds; those on which the job does not fit whole say so."""
    placed = {"types": ["large", "small"], "placed": True, "room": 2, "vms": 3, "spot": 1, "opens": 0}
    placed |= {"ready_in": 0.0, "seconds": 61.0, "dollars": 0.0123}
    closed = {
        **placed,
        "types": ["large"],
        "placed": False,
        "vms": 1,
        "spot": 1,
        "opens": 1,
        "ready_in": 60.0,
    }
    full = {**closed, "opens": 0, "spot": 0, "room": 1, "seconds": None, "dollars": None}
    decision = {"at": 0.0, "policy": "ff", "decision": "place", "reason": "two", "faults": [], "choices": []}
    choice = {"executor": 0, "vm": "v", "why": "it fits", "cpus": 1.0, "memory_mib": 1024, "resources": {}}
    choice |= {"candidates": [], "candidates_left_out": 0}
    choices = [choice, {**choice, "executor": 1}]
    render.show(
        *explanation_tables.decisions([{**decision, "choices": choices, "kinds": [placed, closed, full]}])
    )
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "all on (2 executors) VMs ready in takes adds to the bill lacks" in lines
    assert "chosen large, small, 1 spot 3 now 1 min 1 s $0.0123 nothing" in lines
    assert "large, spot, to be opened 1 1 min 0 s 1 min 1 s $0.0123 nothing" in lines
    assert "large 1 1 min 0 s - - room for 1 of 2 executors" in lines


def test_jobs_that_wait_behind_one_another_share_a_line() -> None:
    """Whatever the order is; one alone says how many are before it."""
    behind = "{} jobs are before it, first come first served; job-9, the first of them, waits because: full"
    assert {job_tables.without_place(behind.format(number)) for number in range(2, 40)} == {
        "behind job-9: full"
    }
    one = "1 job is before it, first come first served; job-9 waits because: full"
    assert job_tables.without_place(one) == "behind job-9: full"
    ordered = "its queue is full; {} jobs are before it (order: priority, fair)"
    told = {job_tables.without_place(ordered.format(number)) for number in ("2", "1,000")}
    assert told == {"its queue is full; others are before it (order: priority, fair)"}
    usual = {
        "type": "sort", "owner": "", "queue": "default", "priority": 0, "state": "queued", "executors": 1,
        "wanted_executors": None, "cpus": 1, "memory_mib": 896, "resources": {}, "submitted_at": 0.0,
        "duration": None, "cost": 0.0,
    }  # fmt: skip
    jobs = [{**usual, "id": f"job-{n}", "name": f"n{n}", "reason": behind.format(n)} for n in range(2, 6)]
    last = [{**usual, "id": "job-1", "name": "one", "reason": ordered.format(7)}]
    lines = [line for line in job_tables.jobs([*jobs, *last], False, "") if isinstance(line, str)]
    assert lines == [
        "",
        "job-2, job-3, job-4 and 1 more: behind job-9: full",
        "job-1: its queue is full; 7 jobs are before it (order: priority, fair)",
    ]
