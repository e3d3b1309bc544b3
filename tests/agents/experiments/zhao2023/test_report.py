"""The report on Zhao 2023 has all its parts, and its claims follow its numbers."""

from dataclasses import replace
from pathlib import Path

import pytest

from agents.experiments.seed_register import seeds_of
from agents.experiments.zhao2023.claims import chapter_claims
from agents.experiments.zhao2023.jobs_section import jobs_section
from agents.experiments.zhao2023.report import judge_claims, write
from agents.experiments.zhao2023.runs import CellOutcome, FigureCell, Regret, cells, job_cells, run_cell
from agents.experiments.zhao2023.tables import by_experiment
from daemon.cli.research.oga import SweepSetting

SEEDS = seeds_of("zhao2023", 12)


def made_up(cell: FigureCell, conserving: float) -> dict[str, list[CellOutcome]]:
    """Outcomes of twelve seeds: the learners and partners in a known order."""
    averages = {name: 100.0 + number for number, name in enumerate(cell.policies)}
    averages |= {"oga-conserving": conserving} if "oga-conserving" in averages else {}
    slots = (1, 1000, 2000, 5000, 10_000)
    return {
        name: [
            CellOutcome(average + seed, 5.0, 1e-4, slots, (average,) * 5, 0.9, 0.5, 0.75)
            for seed in range(12)
        ]
        for name, average in averages.items()
    }


@pytest.mark.parametrize(("conserving", "held"), [(200.0, True), (101.0, False)])
def test_claims_are_judged_by_the_numbers(conserving: float, held: bool) -> None:
    """Where a partner earns more, the report names the cell; else it says that none does."""
    text = judge_claims({cell: made_up(cell, conserving) for cell in cells()})
    assert ("is clearly at or above every partner" in text) == held
    assert ("is not clearly at or above a partner in:" in text) != held
    row = next(line for line in text.splitlines() if line.startswith("| `oga-conserving`, per_channel"))
    assert row.endswith("| yes |" if held else "| no |")


@pytest.mark.parametrize("own", [100.0, 200.0])
def test_every_claim_of_the_chapter_is_judged_for_oga(own: float) -> None:
    """In order, for both readings where both were run; equal rewards in all settings show no trend."""
    results = {cell: made_up(cell, 150.0) for cell in cells()}
    for outcomes in results.values():
        if "oga" in outcomes:
            outcomes["oga"] = [
                replace(each, average=own + seed, curve=(own - 100, own, own, own, own))
                for seed, each in enumerate(outcomes["oga"])
            ]
    judged = chapter_claims(by_experiment(results))
    holds = {(each.statement.partition(":")[0], each.statement, each.reading): each.holds for each in judged}
    assert len(holds) == len(judged) == 32
    figures = list(dict.fromkeys(figure for figure, _, _ in holds))
    assert figures[0] == "Fig. 2a"
    assert {"Fig. 2b", "Fig. 3a", "Fig. 3b", "Fig. 3c", "Fig. 4", "Fig. 4b", "Fig. 5"} <= set(figures)
    assert {"Fig. 6", "Fig. 7", "Table 3"} <= set(figures)
    best = [each.holds for each in judged if "it is the best" in each.statement]
    assert best == [own > 150] * len(best)
    assert [each.holds for each in judged if "11.33" in each.statement] == [own > 150] * 2
    assert [each.holds for each in judged if "at first" in each.statement] == [own > 150] * 2
    assert not any(each.holds for each in judged if "earn more" in each.statement)


def test_fewer_seeds_than_are_judged_leave_claims_open() -> None:
    """Two seeds show nothing."""
    results = {cell: {name: of[:2] for name, of in made_up(cell, 150.0).items()} for cell in cells()}
    judged = chapter_claims(by_experiment(results))
    assert {each.holds for each in judged if "it is the best" in each.statement} == {None}


def test_the_report_has_all_parts(tmp_path: Path) -> None:
    """Every figure and table has its counterpart, and every picture is shown."""
    regrets = [Regret((100, 400), (10.0, 20.0), (50.0, 100.0), (0.1, 0.1))] * 12
    text = write({cell: made_up(cell, 200.0) for cell in cells()}, regrets, SEEDS, tmp_path)
    assert "exponent of T: 0.500" in text
    for part in (
        "Fig. 2",
        "Fig. 3",
        "Fig. 4",
        "Fig. 5",
        "Fig. 6",
        "Fig. 7",
        "Table 3",
        "Theorem 1",
        "gangs (3.4, 3.5)",
    ):
        assert part in text
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert all(f"]({picture})" in text for picture in pictures)
    assert len(pictures) == 9


def test_gangs_are_told_with_who_earns_most_and_what_started(tmp_path: Path) -> None:
    """The section names settings in which another policy earns more, and shows shares of jobs and tasks."""
    lost = next(cell for cell in job_cells() if cell.experiment == "gangs-contention" and cell.value == "10")
    results = {cell: made_up(cell, 101.0 if cell == lost else 200.0) for cell in job_cells()}
    text = jobs_section(by_experiment(results), SEEDS, tmp_path)
    flat = " ".join(text.split())
    assert "In 16 of the 17 settings of this section `oga-conserving` has the greatest mean" in flat
    assert "another does with gangs of 4 at contention 10 (`spreading`)." in flat
    assert "| `drf` | 50.0%, 75.0% | 50.0%, 75.0% |" in text
    results[lost] = made_up(lost, 200.0)
    flat = " ".join(jobs_section(by_experiment(results), SEEDS, tmp_path).split())
    assert "In all 17 settings of this section `oga-conserving` has the greatest mean." in flat


def test_the_section_s_commands_make_its_cells() -> None:
    """The arguments of `stoker oga sweep` there make exactly the cells."""
    by_value = {(cell.experiment, cell.value): cell.environment for cell in job_cells()}
    told = {"instances": 64, "slots": 500, "request": "total", "jobs_per_type": 2, "tasks": 4}
    for experiment, over, value, more in (
        ("jobs-total", "jobs_per_type", 2, {"slots": 1000, "request": "total"}),
        ("jobs-per_channel", "jobs_per_type", 4, {"slots": 1000}),
        ("gangs-minimum", "gang", 2, {**told, "contention": 3.0}),
        ("gangs-contention", "contention", 10.0, told),
        ("gangs-floor", "floor", 0.25, {**told, "contention": 3.0}),
    ):
        swept = replace(SweepSetting(), **{**more, over: value})  # type: ignore[arg-type]
        assert swept.environment() == by_value[experiment, f"{value:g}"]
    defaults = SweepSetting(threads=1).learner()
    assert all(cell.learner == defaults for cell in job_cells())


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
