"""Reports of savings on real Spark are those of the runs beside them, as they are compared now."""

from pathlib import Path

import pytest

from audit.prices import load_prices
from audit.report.real_savings import lines
from audit.savings.real_runs import read_audited
from audit.savings.real_savings import real_savings

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.parametrize("page", ["audit", "audit-first"])
def test_the_page_is_that_of_the_runs(page: str) -> None:
    """Every line but that of the revision; ten types are compared."""
    title, _, _, *rest = (RESULTS / f"{page}.md").read_text(encoding="utf-8").splitlines()
    (command,) = (line[2:] for line in rest if line.startswith("$ "))
    audited, prices = read_audited(RESULTS / "runs" / page), load_prices("ec2-us-east-1")
    found = real_savings(audited.runs, prices)
    assert len(found.cases) == 10
    assert [title, *rest] == "\n".join(lines(found, audited, prices, command)).splitlines()


def test_no_type_is_one_of_those_on_which_the_rule_of_warming_was_chosen() -> None:
    """Neither a query nor an app with the same input."""
    chosen, checked = (_apps(page) for page in ("audit-first", "audit"))
    assert len(chosen) == len(checked) == 10
    assert not chosen & checked


def _apps(page: str) -> set[tuple[str, int]]:
    plan = read_audited(RESULTS / "runs" / page).about["plan"]
    return {(app, mib) for grid in plan["grids"] for app, inputs in grid["apps"].items() for mib in inputs}
