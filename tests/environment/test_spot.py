"""Spot VMs: their cluster file entries, the ones that may be there, and their costs over time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conf.loader import ConfigError
from conf.schema import SpotUse
from environment.clusters.cluster_files import load_cluster, load_prices
from environment.clusters.price_history import PriceHistory, read_prices
from environment.decisions.decision_round import decide_once
from environment.decisions.feasibility import check, shortage
from environment.kernel.arrays import refusals
from environment.model.vms.max_capacity import MaxCapacity
from environment.pools import SpotTerms, Terms
from environment.resources import Resources
from environment.types import Place, PlacementRequest, Vm
from tests.builders import make_job, make_view, make_vm

TERMS = Terms("spot", spot=SpotTerms(0.2))
VMS: tuple[Vm, ...] = (make_vm("vm-1"), replace(make_vm("vm-2"), terms=TERMS))
NEVER = "vm-2 is a spot VM, which job-1 may not use (spot: never)"
ONLY = "vm-1 is no spot VM, which job-1 may not use (spot: only)"
POOL = "{name: a, type: t, cpus: 4, memory: 16g, max: 2, %s}"


@pytest.mark.parametrize(
    ("use", "fits", "why"), [("allowed", (4, 4), None), ("never", (4, 0), NEVER), ("only", (0, 4), ONLY)]
)
def test_a_vm_that_a_job_may_not_use_is_no_place_for_it(
    use: SpotUse, fits: tuple[int, int], why: str
) -> None:
    """No policy is shown room there, the check says why, and so does the reason to wait."""
    job = replace(make_job(executors=6), spot=use)
    request, view = PlacementRequest(job, 6), make_view(VMS)
    assert tuple(view.room_for(request)) == fits
    faults = check(view, request, Place("job-1", (0, 0, 0, 1, 1, 1)))
    assert faults == ((why,) if why else ())
    if why:
        assert why in shortage(view, request)
        assert why in MaxCapacity(VMS, known=True).beyond_vms(request)
        assert refusals([job], VMS)["job-1"].startswith("the empty cluster has room for 4 executors")
    else:
        assert not refusals([job], VMS)


def test_where_a_job_may_use_no_vm_it_is_refused() -> None:
    """A cluster of on-demand VMs is none for a job that may be on spot VMs only."""
    job = replace(make_job(), spot="only")
    assert refusals([job], VMS[:1]) == {"job-1": "there is no VM that it may use (spot: only)"}


@pytest.mark.parametrize("allowed", [False, True])
def test_a_driver_is_on_a_spot_vm_only_if_its_job_says_so(allowed: bool) -> None:
    """Its executors are on the spot VM, where there is room for it, too."""
    job = replace(make_job(driver=Resources.of(1, 1024)), spot_driver=allowed)

    def on_spot(view: object, queue: object) -> Place:
        return Place("job-1", (1,))

    verdict = decide_once(on_spot, make_view(VMS), [PlacementRequest(job, 1)])
    assert isinstance(verdict.decision, Place)
    assert verdict.decision.driver == (1 if allowed else 0)
    request = PlacementRequest(job, 1)
    alone = decide_once(lambda view, queue: Place("job-1", (0,)), make_view(VMS[1:]), [request])
    assert isinstance(alone.decision, Place) == allowed
    assert (MaxCapacity(VMS[1:], known=True).beyond_vms(request) == "") == allowed


@pytest.mark.parametrize(
    ("said", "price"),
    [
        ("price_per_hour: 0.3, spot: {interruptions_per_hour: 0.2, notice: 2m}", 0.3),
        ("price_per_hour: 0.3, spot: {price_per_hour: 0.1, interruptions_per_hour: 0.2}", 0.1),
        ("spot: {price_per_hour: 0.1, interruptions_per_hour: 0.2}", 0.1),
    ],
)
def test_a_pool_of_spot_vms(tmp_path: Path, said: str, price: float) -> None:
    """The price is that of the spot VMs where there is one."""
    (tmp_path / "c.yaml").write_text(f"pools: [{POOL % said}]")
    vms = load_cluster(tmp_path / "c.yaml")
    assert [(vm.price_per_hour, vm.terms and vm.terms.spot) for vm in vms] == [
        (price, SpotTerms(0.2, 120.0))
    ] * 2


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("boot: 0", "price_per_hour is missing: set the pool's, or one of `spot`"),
        ("spot: {interruptions_per_hour: 1}", "price_per_hour is missing"),
        ("spot: {price_per_hour: 1}", "interruptions_per_hour"),
        ("spot: {price_per_hour: 1, history: a.csv, interruptions_per_hour: 1}", "leave one of the two out"),
        (
            "min: 1, spot: {price_per_hour: 1, interruptions_per_hour: 1}",
            "min: spot VMs cannot always be open",
        ),
    ],
)
def test_what_a_spot_pool_cannot_be(tmp_path: Path, said: str, error: str) -> None:
    """In words."""
    (tmp_path / "c.yaml").write_text(f"pools: [{POOL % said}]")
    with pytest.raises(ConfigError, match=error):
        load_cluster(tmp_path / "c.yaml")


def test_a_history_of_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dates of a cloud, the newest first, or seconds; the first price is known at first."""
    monkeypatch.chdir(tmp_path)
    dates = "at,price_per_hour\n2026-03-01T01:00:00Z,0.2\n2026-03-01T00:00:00Z,0.1\n"
    (tmp_path / "dates.csv").write_text(dates)
    (tmp_path / "seconds.yaml").write_text("[{at: 0, price_per_hour: 0.1}, {at: 3600, price_per_hour: 0.2}]")
    history = PriceHistory((0.0, 3600.0), (0.1, 0.2))
    assert read_prices(Path("dates.csv")) == read_prices(Path("seconds.yaml")) == history
    assert [history.at(t) for t in (0.0, 3599.0, 3600.0)] == [0.1, 0.1, 0.2]
    assert (history.next_after(10.0), history.next_after(3600.0)) == (3600.0, float("inf"))
    assert history.dollars(np.array([0.0, 1800.0, 7200.0])) == pytest.approx([0.0, 0.05, 0.3])
    said = POOL % "spot: {history: dates.csv, interruptions_per_hour: 1}"
    (tmp_path / "c.yaml").write_text(f"pools: [{said}]")
    assert load_cluster("c.yaml")[0].price_per_hour == 0.1
    assert load_prices("c.yaml") == {"a": history}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[]", "has no prices"),
        ("7", "should be a list of prices"),
        ("[{at: 0}]", "price 1: each price should have at"),
        ("[{at: soon, price_per_hour: 1}]", "found {'at': 'soon'"),
        ("[{at: 0, price_per_hour: -1}]", "should be 0 or more"),
        ("[{at: 0, price_per_hour: 1}, {at: 0, price_per_hour: 2}]", "ascending"),
    ],
)
def test_bad_histories(tmp_path: Path, text: str, error: str) -> None:
    """The error names the file and the correct form."""
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(ConfigError, match=error):
        read_prices(tmp_path / "p.yaml")


def test_a_price_history_of_aliases_is_told(tmp_path: Path) -> None:
    """Its error would have 9 ** 8 words, and take all of the memory; too deep a list ended the command."""
    lists = ["&a0 [x, x, x, x, x, x, x, x, x]"]
    lists += [f"&a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    path = tmp_path / "p.yaml"
    path.write_text(f"- at: [{', '.join(lists)}]\n  price_per_hour: 1\n")
    with pytest.raises(ConfigError, match="expands to more than"):
        read_prices(path)
    path.write_text("[" * 5000 + "]" * 5000)
    with pytest.raises(ConfigError, match="nested too deeply"):
        read_prices(path)
    path.write_text(f"- at: 0\n  price_per_hour: {'9' * 400}\n")
    with pytest.raises(ConfigError, match="should have at"):
        read_prices(path)
