"""Simulated dynamic allocation beside real runs: it knows the fixed ones; the page has the numbers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from audit.applications import LoggedApplication
from audit.log_files import LogFiles
from audit.prices import load_prices
from audit.read_logs import read_log
from audit.report.real_dynamic import report
from audit.savings.real_dynamic import dynamic_cases, executors_at
from audit.savings.real_runs import AuditedRun, AuditedRuns, read_audited, write_audited
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
ABOUT = {"machine": {"cores": 2, "cpu": "made"}, "date": "2026-11-28", "isolation": "none", "plan": {}}


def bursts(folder: Path, *, dynamic: bool = False) -> LoggedApplication:
    """Two bursts of 40 tasks of a second on four executors, 40 s apart; the first task comes after 10 s.

    With dynamic allocation three executors come at 11 s and after the pause, and go after 10 idle seconds.
    """
    events = [log_start(), environment(executor__memory="1g", executor__cores="1"), app_start("bursts")]
    late = 5.0 if dynamic else 0.0
    begins = (10.0, 60.0 + late)
    for number in range(4):
        ids = [str(number)]
        times: tuple[tuple[float, float], ...]
        if dynamic and number:
            ids.append(f"{number}-again")
            times = ((11.0, begins[0] + 20 + late), (begins[1] + 1, begins[1] + 10 + late))
        else:
            times = ((0.0, begins[1] + 10 + late),)
        for name, (come, gone) in zip(ids, times, strict=True):
            events += [added(name, come, cores=1), removed(name, gone)]
        for burst, begin in enumerate(begins):
            name = ids[min(burst, len(ids) - 1)]
            events += [task(name, begin + late + k, begin + late + k + 1, burst) for k in range(10)]
    events += [stage(burst, begin, begin + 10 + late) for burst, begin in enumerate(begins)]
    path = folder / f"bursts-{dynamic}"
    path.write_text(text_of([*events, app_end(begins[1] + 10 + late)]))
    read = read_log(LogFiles(path.name, (str(path),), path.stat().st_size))
    assert isinstance(read, LoggedApplication)
    return read


@pytest.fixture
def runs(tmp_path: Path) -> tuple[AuditedRun, ...]:
    """Two rounds both ways, and a type that ran with fixed executors alone."""
    fixed, dynamic = bursts(tmp_path), bursts(tmp_path, dynamic=True)
    both = [
        AuditedRun("bursts", number, 4, 1.0, 0.5, of, idle)
        for number in range(2)
        for of, idle in ((fixed, None), (dynamic, 10.0))
    ]
    return (*both, AuditedRun("alone", 0, 4, 1.0, 0.5, replace(fixed, name="alone"), None))


def test_the_simulation_is_beside_the_runs(runs: tuple[AuditedRun, ...]) -> None:
    """Counted by hand: 70 s on four executors; in the simulation three are away for most of the pause."""
    (case,) = dynamic_cases(runs, PRICES)
    assert (case.type, case.executors, case.idle, case.rounds) == ("bursts", 4, 10.0, 2)
    assert (case.fixed.seconds, case.fixed.executor_seconds) == (70.0, 280.0)
    assert case.real.started == case.simulated.started == 7
    assert case.real.executor_seconds == pytest.approx(80 + 3 * (24 + 14))
    # Each burst begins on one executor: 40 core-seconds take 1 s on it, and 39 more than 10 s on four.
    assert 70 < case.simulated.seconds < 95
    assert case.simulated.executor_seconds < case.fixed.executor_seconds
    assert case.saving == pytest.approx(1 - 194 / 280)
    assert case.real.seconds_error == 0.0
    times = np.array([5.0, 15.0, 45.0])
    assert executors_at(case.real_spans[0], times).tolist() == [1, 4, 1]
    assert executors_at(case.simulated_spans, times)[[0, 2]].tolist() == [1, 1]


def test_the_page_has_the_numbers(runs: tuple[AuditedRun, ...], tmp_path: Path) -> None:
    """And a picture; what is stored says which runs had dynamic allocation."""
    audited = AuditedRuns(runs, ABOUT)
    write_audited(tmp_path / "runs", audited)
    assert read_audited(tmp_path / "runs").runs == runs
    page = tmp_path / "dynamic.md"
    report(dynamic_cases(runs, PRICES), audited, page, "stoker profile dynamic")
    text = page.read_text()
    assert "| bursts | 1 to 4 | 10 | 2 | 70.0 ± 0.0 | 280.0 ± 0.0 | 80.0 ± 0.0 |" in text
    assert "$ stoker profile dynamic\n" in text
    assert (tmp_path / "dynamic.png").read_bytes().startswith(b"\x89PNG")
