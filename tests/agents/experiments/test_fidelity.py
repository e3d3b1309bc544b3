"""Real and simulated jobs side by side: errors by hand, and a report that has them."""

from pathlib import Path

import pytest

from agents.baselines.first_fit import FirstFit
from agents.experiments.fidelity import Fidelity, draw_runs, pair_up, placement_effects, report
from environment.simulation.durations.fitted_model import FittedDurations, FittedModel, TypeModel
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import simulate
from profiles.runs import MeasuredRun
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_vms
from tests.profiles.measured import make_run

TWENTY = TypeModel(
    method="average",
    coefficients=(20.0,),
    slowdown=0.0,
    sigma=0.1,
    errors={"average": 0.05, "loglinear": 0.07, "additive": 0.08},
    runs=4,
    input_mib=16.0,
)
MODEL = FittedModel(types={"wordcount": TWENTY, "sort": TWENTY})
WORKLOAD = Workload(
    (
        WorkloadJob("one", 0.0, "wordcount", 1.0, 1024, 2, 1.0),
        WorkloadJob("two", 5.0, "sort", 4.0, 1024, 1, 1.0),
    )
)


@pytest.fixture
def fidelity() -> Fidelity:
    """Two jobs that really took 25 s and 16 s; the simulator says 20 s of both."""
    result = simulate(
        FirstFit(), WORKLOAD, make_vms(2), options=SimulationOptions(fitted=FittedDurations(MODEL))
    )
    runs = [
        _real("one", "wordcount", ("vm-1", "vm-1"), 1000.0, 25.0, 0.002),
        _real("two", "sort", ("vm-1",), 1006.0, 16.0, 0.001),
    ]
    pairs = pair_up(runs, 1000.0, result, {"one": 0.0, "two": 5.0})
    paper = {"one": 20.0, "two": 24.0}
    return Fidelity("w", "ff", pairs, 0.003, result.cost, paper, MODEL, tuple(_grid()), {"isolation": "none"})


def _real(
    name: str, kind: str, where: tuple[str, ...], at: float, seconds: float, cost: float
) -> MeasuredRun:
    return make_run(
        name=name, type=kind, placement=where, submitted_at=at, ended_at=at + seconds + 1,
        launching=1.0, duration=seconds - 1, cost=cost,
    )  # fmt: skip


def _grid() -> list[MeasuredRun]:
    where = {1: ("a", "a"), 2: ("a", "b")}
    return [
        make_run(name=f"on{vms}-r{i}", placement=where[vms], launching=0.0, duration=10.0 * vms + i)
        for vms in (1, 2)
        for i in (0, 1, 2)
    ]


def test_errors_are_shares_of_what_was_real(fidelity: Fidelity) -> None:
    """Durations 20 for 25 and 20 for 16; completions 20 for 26 and 20 for 18."""
    errors = fidelity.errors()
    assert list(errors) == ["sort", "wordcount", "all"]
    assert errors["wordcount"][:2] == pytest.approx((0.2, 6 / 26))
    assert errors["sort"][:2] == pytest.approx((0.25, 2 / 18))
    assert errors["all"][0] == pytest.approx((0.2 + 0.25) / 2)
    assert fidelity.paper_error == pytest.approx((0.2 + 0.5) / 2)
    # Both VMs for 20 s each at 0.24 dollars an hour.
    assert fidelity.cost == pytest.approx(40 * 0.24 / 3600)
    assert fidelity.cost_error == pytest.approx(abs(fidelity.cost - 0.003) / 0.003)
    assert [pair.same_placement for pair in fidelity.pairs] == [True, False]


def test_what_placement_does() -> None:
    """Mean, standard deviation and number of runs, by type, size and number of VMs."""
    assert placement_effects(_grid()) == {("wordcount", 16.0): {1: (11.0, 1.0, 3), 2: (21.0, 1.0, 3)}}


def test_the_report_has_it_all(fidelity: Fidelity, tmp_path: Path) -> None:
    """Command, errors, every job, the model, the placements; and a picture beside it."""
    path = tmp_path / "new" / "fidelity.md"
    report(fidelity, path, "stoker profile validate DIR")
    text = path.read_text()
    assert "$ stoker profile validate DIR" in text
    assert "| wordcount | 20.0% | 23.1% |" in text
    assert "| one | wordcount | 25.0 | 20.0 | 26.0 | 20.0 | 0.00200 |" in text
    assert "| wordcount | 4 | average | 5.0% | 7.0% | 8.0% | 10.0% |" in text
    assert "| wordcount | 16 | 11.0 ± 1.0 s (3) | 21.0 ± 1.0 s (3) | 1.91 |" in text
    assert "1 of 2 jobs were on the same VMs" in text
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    draw_runs([*_grid(), make_run(name="x", state="failed", type="sort")], tmp_path / "runs.png")
    assert (tmp_path / "runs.png").read_bytes().startswith(b"\x89PNG")
