"""The report on orders of jobs: its findings, and that it goes on where it was stopped."""

from pathlib import Path

from agents.experiments.sharing import runs as sharing
from agents.experiments.sharing.report import APART, averages, findings, measured_apart, table
from agents.experiments.sharing.runs import SharingRun, _Task, play_one


def test_a_run_is_played() -> None:
    """With jobs that are few."""
    task = _Task("normal", "fair", "ff", 300, 8)
    run = play_one(task)
    assert 0.0 < run.numbers["jain"] <= 1.0
    assert run.numbers["cost"] > 0.0


def test_orders_are_told_apart_by_deadlines() -> None:
    """Where crowds with time come before jobs without, first come, first served is late for these."""
    met = {
        order: play_one(_Task("80 % load, crowds", order, "ff", 300, None)).numbers["met"]
        for order in ("none", "deadline")
    }
    assert met["deadline"] >= 95.0 > met["none"]


def test_what_fairness_costs_is_told() -> None:
    """Against the same policy without an order; deadlines against first come, first served."""
    numbers = {"furthest": 0.1, "slowdown": 2.0, "worst": 3.0, "completion": 100.0, "wait": 5.0}
    runs = [
        SharingRun("x", order, "ff", seed, {**numbers, "jain": jain, "met": met, "cost": cost})
        for seed in range(12)
        for order, jain, met, cost in (
            ("none", 0.5, 60.0, 10.0), ("fair", 0.9, 70.0, 11.0), ("deadline", 0.6, 96.0, 10.0)
        )
    ]  # fmt: skip
    told = findings(averages(runs), 95.0)
    assert "0.900 instead of 0.500 (+80.0 ± 0.0 %*); cost 10.0 ± 0.0 % more; completion" in told
    assert (
        "meets 96.0 % of them, where `ff` without an order meets 60.0 % (+60.0 ± 0.0 %*); 95 % is reached"
        in told
    )
    assert "97 % is missed" in findings(averages(runs), 97.0)
    assert "meets 60.0 % (+60.0 ± 0.0 %*).\n" in findings(averages(runs))
    assert "95 % is open" in findings(averages(runs[:6]), 95.0)
    assert [scene.name for scene in sharing.scenes() if scene.aim] == ["80 % load", "80 % load, crowds"]
    assert "| fair | `ff` | 0.900 ± 0.000 |" in table(averages(runs))


def test_what_was_measured_otherwise_is_kept() -> None:
    """Behind its title, when a report is made anew."""
    report = Path("docs/results/sharing.md").read_text()
    assert measured_apart(report).startswith(f"\n{APART}\n")
    assert measured_apart(f"## crowd\n\n* {APART}\n") == ""
