"""The guard: fitting jobs that wait for too long are placed, explained and counted, under any policy."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from agents.registry import PolicyError, create
from agents.starvation_guard import Guard
from environment.clusters.cluster_files import load_cluster
from environment.decisions.starvation import PatienceLimits, StarvationGuard
from environment.resources import Resources
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import simulate
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView
from profiles.workloads.generators import load_workload
from tests.agents.drl.models import make_folder, make_model, that_waits
from tests.builders import make_job, make_view, make_vms


class Never:
    """A policy that always waits."""

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Wait."""
        return Wait("not now")


def guarded(patience: str = "1x", idle: float = 0.1, most: int = 128) -> Guard:
    """One that always waits, behind a guard."""
    return Guard(Never(), create("ff"), "ff", StarvationGuard(PatienceLimits(most, patience=patience)), idle)


def test_a_job_that_fits_waits_no_longer_than_its_patience() -> None:
    """Twice its expected duration; the older one, which never fits, is passed over."""
    policy = guarded(patience="2x")
    huge = PlacementRequest(make_job("huge", 99, expected_duration=1.0), 99)
    request = PlacementRequest(make_job("a", 1, expected_duration=30.0), 1)
    for at in (100.0, 130.0, 159.0):
        assert policy.decide(make_view(make_vms(2), at=at), [huge, request]) == Wait("not now")
    decision = policy.decide(make_view(make_vms(2), at=160.0), [huge, request])
    assert isinstance(decision, Place)
    assert decision.job_id == "a"
    assert decision.why[0].startswith(
        "the guard: it has fitted for 60 s and waits no longer with 100% of the cluster idle, so ff places "
    )
    assert policy.guarded == 1


def test_the_oldest_is_overtaken_no_more_often_than_it_may_be() -> None:
    """Where younger ones that fit have had their turn, room is left for it."""
    policy, wide = guarded(most=3), PlacementRequest(make_job("wide", 8, expected_duration=10.0), 8)
    placed = 0
    for at in range(20):
        small = PlacementRequest(make_job(f"small-{placed}", 1, expected_duration=1.0), 1)
        view = make_view(make_vms(2), free_cpus=[4.0, 2.0], at=float(at))
        placed += isinstance(policy.decide(view, [wide, small]), Place)
    assert placed == policy.guarded == 3


def test_who_has_no_room_for_its_driver_is_passed_over() -> None:
    """It is not placed, nor are others held up by it."""
    policy, driver = guarded(), Resources.of(4.0, 1024)
    beside = PlacementRequest(make_job("beside", 4, expected_duration=1.0, driver=driver), 4)
    small = PlacementRequest(make_job("small", 1, expected_duration=1.0), 1)
    views = [make_view(make_vms(1), at=at) for at in (0.0, 2.0)]
    _, decision = [policy.decide(view, [beside, small]) for view in views]
    assert isinstance(decision, Place)
    assert decision.job_id == "small"


def test_a_job_must_have_fitted_all_the_time_and_the_cluster_be_idle() -> None:
    """Where it did not fit, its time begins anew; and where little is idle, waiting is no fault."""
    policy, request = guarded(idle=0.5), PlacementRequest(make_job("a", 2, 1, expected_duration=10.0), 2)
    full, free = make_view(make_vms(1), free_cpus=[1.0], at=5.0), make_view(make_vms(1), at=6.0)
    for view in (make_view(make_vms(1)), full, free):
        assert isinstance(policy.decide(view, [request]), Wait)
    little = make_view(make_vms(1), free_cpus=[1.5], at=20.0)
    one = PlacementRequest(make_job("b", 1, 1, expected_duration=1.0), 1)
    for view in (make_view(make_vms(1), free_cpus=[1.5], at=10.0), little):
        assert isinstance(policy.decide(view, [one]), Wait)
    assert policy.guarded == 0


def test_a_network_that_always_waits_does_no_harm(tmp_path: Path) -> None:
    """Behind the guard jobs complete about as soon as under first fit; without it, one after the other."""
    folder = make_folder(tmp_path / "waits", that_waits(make_model(), 1e6))
    vms, workload = load_cluster("paper"), load_workload("normal", 1)

    def run(**more: object) -> tuple[float, int]:
        policy = create("reinforce", {"model": folder, "wait_limit": 10_000, **more})
        result = simulate(policy, workload, vms, options=SimulationOptions(seed=1))
        assert result.violations == 0
        return result.average_completion, result.guarded

    ff = simulate(create("ff"), workload, vms, options=SimulationOptions(seed=1)).average_completion
    (alone, none), (behind, count) = run(guard=False), run()
    assert behind < 2.5 * ff < alone
    assert (none, count > 20) == (0, True)


def test_all_times_twice_as_long_change_nothing() -> None:
    """Patience is a multiple of jobs' expected durations: a power of two changes no decision."""

    def decided(scale: float) -> list[bool]:
        policy, random = guarded(), np.random.default_rng(3)
        request = PlacementRequest(make_job("a", 1, expected_duration=7.3 * scale), 1)
        times = np.cumsum(random.random(20)).tolist()
        views = [make_view(make_vms(1), at=at * scale) for at in times]
        return [isinstance(policy.decide(view, [request]), Place) for view in views]

    assert decided(1.0) == decided(2.0**-5) == decided(2.0**7)
    assert any(decided(1.0))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"idle": 1.5}, "idle: should be between 0 and 1, found 1.5"),
        ({"patience": "soon"}, "patience: should be seconds, or a multiple of a job's expected duration"),
    ],
)
def test_bad_options_are_told(options: dict[str, object], complaint: str) -> None:
    """The error names the option, the right values and the value found."""
    with pytest.raises(PolicyError, match=complaint):
        create("reinforce", options)
