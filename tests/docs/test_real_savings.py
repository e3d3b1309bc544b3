"""docs/results/audit.md is the report of the runs beside it, as they are compared now."""

from pathlib import Path

from audit.prices import load_prices
from audit.report.real_savings import lines
from audit.savings.real_runs import read_audited
from audit.savings.real_savings import real_savings

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_the_page_is_that_of_the_runs() -> None:
    """Every line but that of the revision; ten types are compared."""
    title, _, _, *rest = (RESULTS / "audit.md").read_text(encoding="utf-8").splitlines()
    (command,) = (line[2:] for line in rest if line.startswith("$ "))
    audited, prices = read_audited(RESULTS / "runs" / "audit"), load_prices("ec2-us-east-1")
    found = real_savings(audited.runs, prices)
    assert len(found.cases) == 10
    assert [title, *rest] == "\n".join(lines(found, audited, prices, command)).splitlines()
