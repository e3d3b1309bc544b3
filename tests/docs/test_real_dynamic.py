"""The pages of simulated dynamic allocation beside real runs are those of the stored logs, simulated now."""

from pathlib import Path

import pytest

from audit.prices import load_prices
from audit.report.real_dynamic import lines
from audit.savings.real_dynamic import dynamic_cases
from audit.savings.real_runs import read_audited

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.parametrize("page", ["dynamic", "dynamic-first"])
def test_the_page_is_that_of_the_runs(page: str) -> None:
    """Every line but that of the revision."""
    title, _, _, *rest = (RESULTS / f"{page}.md").read_text(encoding="utf-8").splitlines()
    (command,) = (line[2:] for line in rest if line.startswith("$ "))
    audited = read_audited(RESULTS / "runs" / page)
    cases = dynamic_cases(audited.runs, load_prices("ec2-us-east-1"))
    assert len(cases) >= 5
    assert [title, *rest] == "\n".join(lines(cases, audited, command, f"{page}.png")).splitlines()


def test_no_type_is_one_of_those_on_which_the_rule_of_late_executors_was_chosen() -> None:
    """They are checked on others."""
    chosen, checked = (
        {run.type for run in read_audited(RESULTS / "runs" / page).runs}
        for page in ("dynamic-first", "dynamic")
    )
    assert not chosen & checked
