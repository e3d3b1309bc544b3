"""Predicted savings beside real ones: the audit sees one side only, and the page has the computed numbers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from audit.applications import LoggedApplication
from audit.log_files import LogFiles
from audit.prices import load_prices
from audit.read_logs import read_log
from audit.report.real_savings import lines
from audit.savings.real_runs import AuditedRun, AuditedRuns, RealRunsError, read_audited, write_audited
from audit.savings.real_savings import real_savings
from tests.audit.made_logs import (
    added,
    app_end,
    app_start,
    environment,
    log_start,
    removed,
    stage,
    task,
    text_of,
)  # fmt: skip

PRICES = load_prices("ec2-us-east-1")
ABOUT = {"machine": {"cores": 2, "cpu": "made"}, "date": "2026-11-27", "isolation": "none", "plan": {}}


def application(folder: Path, name: str, executors: int, wide: float, driver: float) -> LoggedApplication:
    """One with executors of a core that work all `wide` core-seconds in one stage, and await its driver."""
    seconds = wide / executors
    ids = [str(number) for number in range(1, executors + 1)]
    events = [log_start(), environment(executor__memory="1g", executor__cores="1"), app_start(name)]
    events += [added(each, 0, cores=1) for each in ids]
    # Eight tasks of each executor, so that the longest one bounds nothing.
    for each in ids:
        events += [task(each, driver + k * seconds / 8, driver + (k + 1) * seconds / 8) for k in range(8)]
    events += [stage(0, driver, driver + seconds), *(removed(each, driver + seconds) for each in ids)]
    path = folder / f"{name}-{executors}-{wide}-{driver}"
    path.write_text(text_of([*events, app_end(driver + seconds)]))
    read = read_log(LogFiles(path.name, (str(path),), path.stat().st_size))
    assert isinstance(read, LoggedApplication)
    return read


@pytest.fixture
def runs(tmp_path: Path) -> tuple[AuditedRun, ...]:
    """Three rounds of `right`, as predicted, and of `slow`, with twice the work on one executor."""
    found = []
    for number, away in enumerate((0.0, 0.3, -0.3)):
        for name, longer in (("right", 1.0), ("slow", 2.0)):
            for executors in (2, 1):
                wide = (20 + away) * (longer if executors == 1 else 1.0)
                of = application(tmp_path, name, executors, wide, 20)
                found.append(AuditedRun(name, number, executors, executors / 2, 1.5, of))
    return tuple(found)


def test_a_saving_that_comes_true_is_inside_and_another_is_not(runs: tuple[AuditedRun, ...]) -> None:
    """Counted by hand: two executors for 30 s before, one for 40 s or 60 s after."""
    found = real_savings(runs, PRICES)
    right, slow = found.cases
    for case in found.cases:
        assert (case.executors, case.fewer, case.rounds) == (2, 1, 3)
        assert case.predicted.middle / case.cost == pytest.approx(1 - 40 / 60, rel=0.01)
        assert case.slower == pytest.approx(4 / 3, rel=0.01)
        assert case.predicted.low < case.predicted.middle < case.predicted.high
        assert case.listed
    assert right.saving / right.cost == pytest.approx(1 / 3, rel=0.01)
    assert right.real_slower == pytest.approx(4 / 3, rel=0.01)
    assert right.inside
    assert slow.saving / slow.cost == pytest.approx(0.0, abs=0.01)
    assert not slow.inside
    assert (found.inside, found.left_out) == (1, ())
    told = found.to_json()
    assert [case["inside"] for case in told["cases"]] == [True, False]
    json.dumps(told, allow_nan=False)


def test_the_error_is_that_of_paired_rounds(runs: tuple[AuditedRun, ...]) -> None:
    """A round that is slow at both sizes changes the saving as little as the price of its seconds does."""
    (case, _) = real_savings(runs, PRICES).cases
    # Of 60, 60.3 and 59.7 executor-seconds before, and 40, 40.3 and 39.7 after, the differences are alike.
    assert case.saving_error / case.cost < 1e-6
    (once, _) = real_savings([run for run in runs if run.round == 0], PRICES).cases
    assert once.error is None
    assert once.saving_error == float("inf")
    assert (
        real_savings([run for run in runs if run.round == 0], PRICES).to_json()["cases"][0]["saving_error"]
        is None
    )


def test_the_audit_does_not_see_the_runs_after_the_change(runs: tuple[AuditedRun, ...]) -> None:
    """Others in their place change what is real, and nothing that is predicted."""
    before = [run for run in runs if run.before]
    other = [
        replace(run, application=replace(run.application, ended_at=run.application.ended_at + 100))
        for run in runs
        if not run.before
    ]
    one, two = real_savings(runs, PRICES).cases, real_savings([*before, *other], PRICES).cases
    assert [case.predicted for case in one] == [case.predicted for case in two]
    assert [case.real_slower for case in one] != [case.real_slower for case in two]


def test_a_predicted_loss_is_a_case_as_well(tmp_path: Path) -> None:
    """Where the saving is under 2 %, the audit does not list it; it is checked all the same."""
    runs = [
        AuditedRun(
            "wide", number, executors, executors / 2, 1.0, application(tmp_path, "wide", executors, 100, 0.5)
        )
        for number in range(2)
        for executors in (2, 1)
    ]
    (case,) = real_savings(runs, PRICES).cases
    assert case.predicted.middle / case.cost < 0.02
    assert not case.listed
    assert case.inside


def test_types_that_cannot_be_compared_are_named(runs: tuple[AuditedRun, ...], tmp_path: Path) -> None:
    """Without a round of both sizes, or with one executor before."""
    alone = [run for run in runs if run.type == "right" and not (run.before and run.round == 0)]
    single = application(tmp_path, "single", 1, 20, 20)
    others = [AuditedRun("single", 0, 2 - before, 1 - before / 2, 1.0, single) for before in (0, 1)]
    found = real_savings([*(run for run in alone if run.before or run.round == 0), *others], PRICES)
    assert found.cases == ()
    assert found.left_out == (
        "right: no round has both sizes", "single: its runs had one executor most of the time",
    )  # fmt: skip
    assert "No case was compared." in "\n".join(lines(found, AuditedRuns(runs, ABOUT), PRICES, "x"))


def test_stored_runs_are_the_same_again(runs: tuple[AuditedRun, ...], tmp_path: Path) -> None:
    """All that the audit reads of a log; a folder without runs is empty, and a broken file is named."""
    folder = tmp_path / "runs"
    assert read_audited(folder) == AuditedRuns()
    write_audited(folder, AuditedRuns(runs, ABOUT))
    assert read_audited(folder) == AuditedRuns(runs, ABOUT)
    (folder / "runs.json").write_text('{"runs": [{}]}')
    with pytest.raises(RealRunsError, match=r"runs\.json: cannot be read"):
        read_audited(folder)


def test_the_page(runs: tuple[AuditedRun, ...]) -> None:
    """Its counts and rows are those of the comparison."""
    audited = AuditedRuns(runs, ABOUT)
    page = "\n".join(lines(real_savings(runs, PRICES), audited, PRICES, "stoker profile audit DIR"))
    assert "**1 of 2 inside**" in page
    assert "which is not reached" in page
    assert "* Outside: slow saves less than its interval holds." in page
    assert "$ stoker profile audit DIR" in page
    assert "2 cores of made" in page
    (row,) = (line for line in page.splitlines() if line.startswith("| right | 2 to 1 | 3 |"))
    assert row.endswith("| 33.3% ± 0.0% | 1.33 | 1.33 | 1.00 | 1.00 | yes | yes |")
    assert sum(line.startswith(("| 1 |", "| 2 |", "| 3 |")) for line in page.splitlines()) == len(runs)
    best = real_savings([run for run in runs if run.type == "right"], PRICES)
    assert "**1 of 1 inside**" in "\n".join(lines(best, audited, PRICES, "x"))
    assert "which is reached" in "\n".join(lines(best, audited, PRICES, "x"))
