"""Models of duration: a known law is found again, held-out runs decide, and nonsense is refused."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conf.loader import ConfigError
from environment.simulation.durations.fitted_model import MODEL, FittedModel, Shape, read_model, write_model
from environment.simulation.durations.fitting import fit
from profiles.runs import MeasuredRun, ProfileError
from tests.profiles.measured import make_run

Law = Callable[[float, int, int], float]


def runs_of(law: Law, noise: float = 0.0, kind: str = "sort") -> list[MeasuredRun]:
    """Three repeats of every combination of input, executors and VMs, with durations by a law."""
    dice, runs = np.random.default_rng(7), []
    for mib in (8.0, 16.0, 32.0):
        for executors in (2, 4):
            for vms in (1, 2, 4):
                for repeat in range(3):
                    if vms > executors:
                        continue
                    seconds = law(mib, executors, vms) * math.exp(noise * dice.standard_normal())
                    name = f"{kind}-{mib:g}-{executors}-on{vms}-r{repeat}"
                    where = tuple(str(i % vms) for i in range(executors))
                    runs.append(
                        make_run(
                            name=name, type=kind, input_mib=mib, executors=executors, placement=where,
                            launching=0.0, duration=seconds,
                        )
                    )  # fmt: skip
    return runs


def additive(mib: float, executors: int, vms: int) -> float:
    """A start of 5 s, half a second of work on a core for each MiB, and the network."""
    return 5 + 0.5 * mib / executors + 0.3 * mib / vms + 1.5 * mib * (1 - 1 / vms) / vms


def multiplied(mib: float, executors: int, vms: int) -> float:
    """Powers of all sizes, and longer on more VMs, which no sum of the additive kind is."""
    return 3 * math.pow(mib, 0.9) * math.pow(executors, -0.3) * math.pow(vms, 0.8)


@pytest.mark.parametrize(("law", "method"), [(additive, "additive"), (multiplied, "loglinear")])
def test_a_known_law_is_found_again(law: Law, method: str) -> None:
    """Fitting chooses the law's kind, which also holds between the measured points."""
    model, left_out = fit(runs_of(law, noise=0.02))
    assert not left_out
    found = model.types["sort"]
    assert found.method == method
    assert found.errors[method] < 0.04
    assert 0.01 < found.sigma < 0.06
    assert found.seconds(Shape(3, 1.0, 1024, 2, 24.0)) == pytest.approx(law(24.0, 3, 2), rel=0.06)


def test_a_constant_is_an_average() -> None:
    """Where nothing matters, the simplest kind is taken."""
    model, _ = fit(runs_of(lambda *_: 12.0, noise=0.05))
    assert model.types["sort"].method == "average"
    assert model.types["sort"].seconds(Shape(9, 1.0, 1024, 9, 999.0)) == pytest.approx(12, rel=0.03)


def test_company_slows_down() -> None:
    """Runs beside others tell how much longer they take; of types without such runs the same is assumed."""
    alone = runs_of(additive)
    beside = [
        replace(run, name=f"beside-{run.name}", shared=0.5, duration=run.duration * 1.4) for run in alone[:9]
    ]
    other = runs_of(additive, kind="sql")
    model, _ = fit([*alone, *beside, *other])
    assert model.types["sort"].slowdown == pytest.approx(0.8)
    assert model.types["sql"].slowdown == pytest.approx(0.8)
    shape = Shape(4, 1.0, 1024, 2, 16.0)
    assert model.types["sort"].seconds(shape, 0.25) == pytest.approx(1.2 * model.types["sort"].seconds(shape))


def test_what_placement_makes_is_told() -> None:
    """The ratio is the slowest number of VMs over the quickest, averaged over differently placed runs."""
    model, _ = fit(runs_of(lambda mib, executors, vms: 10.0 * vms))
    assert model.types["sort"].placement_ratio == pytest.approx((2 * 3 + 4 * 3) / 6)


def test_failed_and_single_runs_teach_nothing() -> None:
    """A type needs two finished runs; why it has no model is told."""
    runs = runs_of(additive)
    model, left_out = fit([*runs, make_run(), make_run(name="wordcount-r1", state="failed")])
    assert model.types.keys() == {"sort"}
    assert left_out == {"wordcount": "1 finished run, 2 are needed"}
    with pytest.raises(ProfileError, match="no job type has two finished runs"):
        fit([make_run()])
    with pytest.raises(ProfileError, match="cannot learn from a duration of 0 s"):
        fit([make_run(launching=0.0, duration=0.0), make_run(name="b")])


def test_a_model_comes_back_as_it_went(tmp_path: Path) -> None:
    """From its file, or from the folder that holds it."""
    model, _ = fit(runs_of(additive, noise=0.1))
    path = write_model(tmp_path, model)
    assert read_model(path) == read_model(tmp_path) == model


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no model of durations"),
        ("{}", "types: missing"),
        ('{"types": {}}', "at least 1 item"),
        ('{"types": {"sort": {"method": "magic"}}}', "types.sort.method: should be"),
    ],
)
def test_damaged_models_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """The error names the file, the key and the correct form."""
    (tmp_path / MODEL).write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_model(tmp_path)


def test_no_model_says_how_one_is_made(tmp_path: Path) -> None:
    """A folder of runs that nothing was fitted to yet."""
    with pytest.raises(ConfigError, match="`stoker profile fit DIR` makes one"):
        read_model(tmp_path)


def test_coefficients_of_another_method_are_refused() -> None:
    """A model needs as many as its method has features."""
    values = {"method": "additive", "coefficients": [1.0], "slowdown": 0.0, "sigma": 0.0}
    with pytest.raises(ValueError, match="coefficients: additive has 7, found 1"):
        FittedModel.model_validate({"types": {"a": {**values, "errors": {}, "runs": 1, "input_mib": 1.0}}})
