"""Errors that the audit takes from docs/results/fidelity.md are those that stand there."""

import re
from pathlib import Path

from audit.savings.changes import _OTHER_SIZE
from audit.savings.plays import _SIMULATOR

DOCS = Path(__file__).parents[2] / "docs"


def test_the_audit_has_the_measured_errors() -> None:
    """Of the bill and of all durations; docs/audit.md names both."""
    measured = (DOCS / "results" / "fidelity.md").read_text()
    bill = re.search(r"simulated, ([\d.]+)% apart", measured)
    durations = re.search(r"^\| all \| ([\d.]+)% \|", measured, re.MULTILINE)
    assert bill is not None
    assert durations is not None
    assert (float(bill[1]), float(durations[1])) == (100 * _SIMULATOR, 100 * _OTHER_SIZE)
    told = " ".join((DOCS / "audit.md").read_text().split())
    assert f"bill ({bill[1]} %) and of durations at sizes that never ran ({durations[1]} %)" in told
