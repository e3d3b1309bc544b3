"""Reports of ways of asking for memory are those of the runs beside them, as they are compared now."""

from pathlib import Path

import pytest

from agents.experiments.memory.report import comparison_of, lines
from agents.experiments.memory.runs import read_memory_runs

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.parametrize("page", ["memory", "memory-first"])
def test_the_page_is_that_of_the_runs(page: str) -> None:
    """Every line but that of the revision; all jobs of all ways are there."""
    title, _, _, *rest = (RESULTS / f"{page}.md").read_text(encoding="utf-8").splitlines()
    (command,) = (line[2:] for line in rest if line.startswith("$ "))
    runs = read_memory_runs(RESULTS / "runs" / page)
    assert {len(jobs) for jobs in runs.ways.values()} == {48}
    assert [title, *rest] == "\n".join(lines(comparison_of(runs), runs, command, f"{page}.png")).splitlines()


def test_no_job_is_one_of_those_by_which_the_margin_was_chosen() -> None:
    """No type has an input twice."""
    chosen, checked = (
        {(job.type, job.input_mib) for job in read_memory_runs(RESULTS / "runs" / page).ways["asked"]}
        for page in ("memory-first", "memory")
    )
    assert not chosen & checked
