"""Rules by which decisions are judged, and a report of few runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from agents.experiments.decisions import report as decisions_report
from agents.experiments.decisions.report import QUICK, report
from agents.experiments.decisions.runs import (
    DRAWING,
    JUDGED,
    POLICIES,
    CaseLimit,
    Mean,
    PolicyRun,
    Task,
    few_case,
    means,
    play_one,
    verdicts,
)
from agents.experiments.decisions.shifted_cases import cases, few_gangs
from environment.simulation.durations.beliefs import EXACT


def test_rules_are_broken_by_what_breaks_them() -> None:
    """Against the cheapest first-come baseline, here aep; waits against ff."""
    of = {who.label: Mean(1.0, 100.0, 50.0, 20.0) for who in POLICIES}
    of["ff"] = Mean(1.2, 90.0, 50.0, 20.0)
    assert all(verdict.broken == () for verdict in verdicts(of).values())
    of["greedy"] = Mean(1.04, 101.0, 120.0, 20.0)
    of["ogasched"] = Mean(1.07, 99.0, 121.0, 20.0)
    found = verdicts(of)
    assert found["greedy"].broken == ("both",)
    assert found["ogasched"].broken == ("+7 %", "wait x 2.0")


def test_a_task_is_played_by_everybody_beside_its_limit() -> None:
    """Few jobs of one case: every policy once, none below the limit but one that shrinks jobs."""
    runs, limits = play_one(Task("light", EXACT, 200, jobs=3, limit=True))
    assert [run.policy for run in runs] == [who.label for who in POLICIES]
    assert limits[0].lower <= limits[0].best + 1e-9
    assert all(run.cost >= limits[0].lower - 1e-9 for run in runs if run.policy != "ogasched")
    assert set(means(runs)) == {"light"}


def test_the_report_tells_of_every_case_and_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From made-up runs, as the runs themselves are dear."""

    def runs_of(tasks: list[Task]) -> list[PolicyRun]:
        return [
            PolicyRun(task.case, str(task.belief), who.label, task.seed, 1.0 + 0.01 * n, 100.0, 10.0, 50.0)
            for task in tasks
            for n, who in enumerate((*POLICIES, *(DRAWING if task.drawing else ())))
        ]

    def played(tasks: list[Task], *_: object) -> tuple[list[PolicyRun], list[CaseLimit]]:
        return runs_of(tasks), [CaseLimit(task.case, task.seed, 0.8, 0.9, proven=False) for task in tasks]

    def small(count: int, *_: object) -> tuple[list[PolicyRun], list[CaseLimit]]:
        tasks = [
            Task(few_case(seed, at_once=way), EXACT, seed) for way in (False, True) for seed in range(count)
        ]
        return runs_of(tasks), [CaseLimit(task.case, task.seed, 0.8, 0.9, proven=True) for task in tasks]

    monkeypatch.setattr(decisions_report, "play", played)
    monkeypatch.setattr(decisions_report, "play_small", small)
    text = report(tmp_path, QUICK).read_text(encoding="utf-8")
    for each in cases():
        assert each.large or f"| {each.name} |" in text
    for who in (*POLICIES, *DRAWING):
        assert f"| `{who.label}` |" in text
    last = JUDGED[-1].label
    assert f"`{last}`" in text
    assert "+15 %" in text
    assert (tmp_path / "decisions-small.png").stat().st_size > 5000


def test_the_same_gangs_come_at_once() -> None:
    """Nothing but when they come differs."""
    apart, together = (few_gangs(3, at_once=way)[0].jobs for way in (False, True))
    assert [job.submitted_at for job in together] == [0.0] * len(together)
    assert [replace(job, submitted_at=0.0) for job in apart] == list(together)
