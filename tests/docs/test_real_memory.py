"""The report of ways of asking for memory is that of the runs beside it, as they are compared now."""

from pathlib import Path

from agents.experiments.memory.report import comparison_of, lines
from agents.experiments.memory.runs import read_memory_runs

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_the_page_is_that_of_the_runs() -> None:
    """Every line but that of the revision; all jobs of all ways are there."""
    title, _, _, *rest = (RESULTS / "memory.md").read_text(encoding="utf-8").splitlines()
    (command,) = (line[2:] for line in rest if line.startswith("$ "))
    runs = read_memory_runs(RESULTS / "runs" / "memory")
    assert {len(jobs) for jobs in runs.ways.values()} == {48}
    assert [title, *rest] == "\n".join(lines(comparison_of(runs), runs, command, "memory.png")).splitlines()
