"""The report on Zhao 2023 has all its parts, and says of claims what its numbers say."""

from dataclasses import replace
from pathlib import Path

import pytest

from agents.experiments.zhao2023 import Cell, Outcome, Regret, cells, run_cell
from agents.experiments.zhao2023_report import judge_claims, write


def made_up(cell: Cell, conserving: float) -> dict[str, list[Outcome]]:
    """Outcomes of two seeds: the learners and partners in a known order."""
    averages = {name: 100.0 + number for number, name in enumerate(cell.policies)}
    averages |= {"oga-conserving": conserving} if "oga-conserving" in averages else {}
    slots = (1, 1000, 2000, 5000, 10_000)
    return {
        name: [Outcome(average + seed, 5.0, 1e-4, slots, (average,) * 5, 0.9) for seed in range(2)]
        for name, average in averages.items()
    }


@pytest.mark.parametrize(("conserving", "held"), [(200.0, True), (101.0, False)])
def test_claims_are_judged_by_the_numbers(conserving: float, held: bool) -> None:
    """Where a partner earns more, the report names the cell; else it says that none does."""
    text = judge_claims({cell: made_up(cell, conserving) for cell in cells()})
    assert ("is at or above every partner" in text) == held
    assert ("is below a partner in:" in text) != held
    row = next(line for line in text.splitlines() if line.startswith("| `oga-conserving`, per_channel"))
    assert row.endswith("| yes |" if held else "| no |")


def test_the_report_has_all_parts(tmp_path: Path) -> None:
    """Every figure and table has its counterpart, and every picture is shown."""
    regrets = [Regret((100, 400), (10.0, 20.0), (50.0, 100.0), (0.1, 0.1))] * 2
    text = write({cell: made_up(cell, 200.0) for cell in cells()}, regrets, tmp_path)
    assert "exponent of T: 0.500" in text
    for part in ("Fig. 2", "Fig. 3", "Fig. 4", "Fig. 5", "Fig. 6", "Fig. 7", "Table 3", "Theorem 1"):
        assert part in text
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert all(f"]({picture})" in text for picture in pictures)
    assert len(pictures) == 8


def test_a_cell_tells_curves_and_its_share_of_the_optimum() -> None:
    """A small cell, all policies; the same again with the same seed."""
    cell = next(cell for cell in cells() if cell.experiment == "fig2")
    options = replace(cell.environment, instances=8, slots=40)
    small = replace(cell, environment=options, sample=3)
    found, again = run_cell(small, 1), run_cell(small, 1)
    assert set(found) == set(cell.policies)
    for name, outcome in found.items():
        assert outcome.slots == tuple(range(1, 41))
        assert outcome.curve[-1] == pytest.approx(outcome.average)
        assert outcome.of_ceiling <= 1 + 1e-3
        assert outcome.average == again[name].average
