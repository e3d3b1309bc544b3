"""Claims about real Spark in docs/results/real.md and real-tpch.md agree with the recorded runs."""

import json
from pathlib import Path

import pytest

from agents.experiments.real_runs import RealComparison, RealJob, RealRun

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.parametrize(
    ("page", "kept", "policies"),
    [
        ("real.md", "sizes/compare-real", ["aep", "greedy", "lookahead", "reinforce"]),
        ("real-tpch.md", "plan/compare-real-tpch", ["aep", "greedy", "lookahead"]),
    ],
)
def test_its_tables_are_those_of_the_runs(page: str, kept: str, policies: list[str]) -> None:
    """Every run, and how often each policy won; simulations are not made again here."""
    told = (RESULTS / page).read_text()
    runs = []
    for run in json.loads((RESULTS / "runs" / kept / "runs.json").read_text())["runs"]:
        jobs = tuple(RealJob(**{**job, "placement": tuple(job["placement"])}) for job in run["jobs"])
        runs.append(RealRun(**{**run, "jobs": jobs}))
        assert (
            f"| {runs[-1].round + 1} | `{runs[-1].policy}` | {runs[-1].cost:.4f} | {runs[-1].completion:.1f} "
            f"| {runs[-1].duration:.1f} | {runs[-1].longest_wait:.0f} | {runs[-1].failed} |"
        ) in told
    assert [run.policy for run in runs if run.round == 0] == policies
    comparison = RealComparison("jobs.csv", "cluster.yaml", tuple(runs), {}, {})
    for policy in policies[1:]:
        (row,) = (
            line for line in told.splitlines() if line.startswith(f"| `{policy}` |") and " of 3 " in line
        )
        won = [comparison.rounds_won(policy, "aep", what) for what in ("cost", "completion")]
        assert [f" {number} of {rounds} " in row for number, rounds in won] == [True, True]
