"""Claims about real Spark in docs/results/real.md agree with the recorded runs."""

import json
from pathlib import Path

from agents.experiments.real_runs import RealComparison, RealJob, RealRun

RESULTS = Path(__file__).parents[2] / "docs" / "results"
KEPT = RESULTS / "runs" / "sizes" / "compare-real" / "runs.json"


def test_its_tables_are_those_of_the_runs() -> None:
    """Every run, and how often each policy won; simulations are not made again here."""
    kept, told = json.loads(KEPT.read_text())["runs"], (RESULTS / "real.md").read_text()
    runs = []
    for run in kept:
        jobs = tuple(RealJob(**{**job, "placement": tuple(job["placement"])}) for job in run["jobs"])
        runs.append(RealRun(**{**run, "jobs": jobs}))
        assert (
            f"| {runs[-1].round + 1} | `{runs[-1].policy}` | {runs[-1].cost:.4f} | {runs[-1].completion:.1f} "
            f"| {runs[-1].duration:.1f} | {runs[-1].longest_wait:.0f} | {runs[-1].failed} |"
        ) in told
    assert [run.policy for run in runs if run.round == 0] == ["aep", "greedy", "lookahead", "reinforce"]
    comparison = RealComparison("profiles/real.csv", "real.yaml", tuple(runs), {}, {})
    for policy in ("greedy", "lookahead", "reinforce"):
        (row,) = (
            line for line in told.splitlines() if line.startswith(f"| `{policy}` |") and " of 3 " in line
        )
        won = [comparison.rounds_won(policy, "aep", what) for what in ("cost", "completion")]
        assert [f" {number} of {rounds} " in row for number, rounds in won] == [True, True]
