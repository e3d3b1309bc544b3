"""The shape that an audit finds for an application that ran on several."""

from pathlib import Path

import pytest

from audit.costs import costs_of
from audit.prices import Prices, load_prices
from audit.read_logs import read_logs
from audit.savings.changes import Change
from audit.savings.job_runs import JobRun, job_runs
from audit.savings.predict import predict
from audit.savings.shapes import better_shapes
from audit.savings.types import job_types
from conf.schema.prices import PriceList, VmPrice
from profiles.executor_attributes import ExecutorAttributes
from tests.audit.made_logs import (
    BEGAN,
    added,
    app_end,
    app_start,
    environment,
    log_start,
    stage,
    task,
    written,
)

#: Executors, cores and heap of each, seconds: 3 GiB are too few, and two more cores each help little.
SHAPES = ((2, 2, "3g", 1860), (2, 2, "7g", 1240), (4, 2, "7g", 655), (4, 4, "7g", 600))
EC2 = "ec2-us-east-1"


def logs(
    folder: Path,
    shapes: tuple[tuple[int, int, str, int], ...] = SHAPES,
    name: str = "nightly",
    price: float | None = None,
) -> Path:
    """One run on each shape twice, with executors that stay; a `price` is told as a daemon does."""
    for number, (count, cores, heap, seconds) in enumerate(shapes * 2):
        at, app = 86_400.0 * (number + 1), f"{name}-{number}"
        folder.mkdir(exist_ok=True)
        told = {} if price is None else {"Attributes": attributes(at, cores, int(heap[:-1]), price)}
        written(
            folder,
            [
                log_start(),
                environment(executor__memory=heap, executor__cores=str(cores)),
                app_start(name, at, app=app),
                *(added(str(each), at + 1, cores, info=told) for each in range(count)),
                *(
                    task(str(each), at + 5, at + seconds - 5, 0, input_mib=2000 / count / cores)
                    for each in range(count)
                    for _ in range(cores)
                ),
                stage(0, at + 5, at + seconds - 5),
                app_end(at + seconds),
            ],
            app,
        )
    return folder


def attributes(at: float, cores: int, heap_gib: int, price: float) -> dict[str, str]:
    """The launch on an m5.xlarge at this price, with its share by cores or memory."""
    share = max(cores / 4, heap_gib * 1.1 / 16)
    told = ExecutorAttributes(BEGAN + at + 1, "m5.xlarge", share, price).variables
    return {name.removeprefix("SPARK_EXECUTOR_ATTRIBUTE_"): text for name, text in told.items()}


def runs_of(folder: Path, prices: Prices) -> list[JobRun]:
    """The logged applications as jobs."""
    return job_runs(costs_of(read_logs([str(folder)]).applications, prices).each, prices)


def shape_change(folder: Path, prices: Prices) -> Change:
    """The change to another shape; there is one."""
    found = predict(costs_of(read_logs([str(folder)]).applications, prices), prices)
    (change,) = [each for each in found.changes if each.kind == "another shape"]
    return change


def test_the_cheapest_shape_is_a_change(tmp_path: Path) -> None:
    """With an interval, an error, and what to type."""
    change = shape_change(logs(tmp_path / "logs"), load_prices(EC2, "m5.xlarge"))
    assert change.subject == "nightly"
    assert change.runs == 8
    assert 0 < change.share < 1
    assert change.saving.low < change.saving.middle < change.saving.high
    assert change.error is not None
    assert change.slower < 1.5
    assert change.command.startswith("--conf spark.executor.instances=")
    assert "on VMs of " in change.needs


def test_savings_are_beside_what_each_run_had(tmp_path: Path) -> None:
    """A run on a dear shape saves more than one on a cheap shape, which may cost more on the new one."""
    prices = load_prices(EC2, "m5.xlarge")
    runs = runs_of(logs(tmp_path / "logs"), prices)
    better = better_shapes(job_types(runs), prices)["nightly"]
    cores = [run.cores for run in better.runs]
    (dear, cheap) = (better.ratios[cores.index(most)] for most in (16, 4))
    assert len(better.ratios) == 8
    assert dear < cheap
    assert better.factor > 1


def test_another_price_in_the_logs_is_no_saving(tmp_path: Path) -> None:
    """All shapes have that discount then: the same is saved of a bill of half or twice the dollars."""
    prices = load_prices(EC2)
    listed = 0.192
    (by_list, half, double) = (
        better_shapes(job_types(runs), prices)["nightly"]
        for factor in (1.0, 0.5, 2.0)
        for runs in [runs_of(logs(tmp_path / f"{factor}", price=factor * listed), prices)]
    )
    assert half.ratios == pytest.approx(by_list.ratios)
    assert double.ratios == pytest.approx(by_list.ratios)
    assert half.ranked.shape.vm == double.ranked.shape.vm == by_list.ranked.shape.vm


def test_vms_are_of_the_same_make(tmp_path: Path) -> None:
    """The families c, m and r of one generation: of others the speed of cores is unknown."""
    prices = load_prices(EC2, "m5.xlarge")
    runs = runs_of(logs(tmp_path / "logs"), prices)
    shape = better_shapes(job_types(runs), prices)["nightly"].ranked.shape
    assert shape.vm in {"c5.xlarge", "m5.xlarge", "r5.xlarge"}


def test_types_that_tell_nothing_are_left_out(tmp_path: Path) -> None:
    """A type on one shape alone, and runs that kept no number of executors, name no other shape."""
    prices = load_prices(EC2, "m5.xlarge")
    alone = runs_of(logs(tmp_path / "alone", SHAPES[:1]), prices)
    assert better_shapes(job_types(alone), prices) == {}


@pytest.mark.parametrize("named", [True, False])
def test_prices_without_types(tmp_path: Path, *, named: bool) -> None:
    """VMs of a list's own types are chosen from; where no type is known, general ones by cores and memory."""
    table = PriceList(per_core_hour=0.03, per_gib_hour=0.004)
    if named:
        table = PriceList(types={"big": VmPrice(cpus=8, memory=65536, price_per_hour=0.5)})
    prices = Prices(table, "big" if named else "")
    runs = runs_of(logs(tmp_path / "logs"), prices)
    shape = better_shapes(job_types(runs), prices)["nightly"].ranked.shape
    assert (shape.vm == "big") is named
    assert named or "-core, " in shape.vm
