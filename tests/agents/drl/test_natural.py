"""The observation in natural units: by hand, and that no unit of time or money changes a decision."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.drl.model_folder import ModelSpec
from agents.registry import PolicyError, create
from environment.kernel.natural_observation import NATURAL_VM_FEATURES as COLUMNS
from environment.kernel.rule_options import ObservationOptions
from environment.simulation.durations.beliefs import Belief
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.training.view_encoding import observation, scene_of
from environment.types import Place, PlacementRequest, Vm
from environment.view import RunningJob
from profiles.workloads.workload import Workload
from tests.agents.drl.models import NATURAL, make_folder, make_model
from tests.builders import make_job, make_view, make_vms

OPTIONS = ObservationOptions("natural", beta=0.25)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A network of random weights that looks at several jobs."""
    model = make_model(seed=3, considered=8, seen=NATURAL)
    return make_folder(tmp_path_factory.mktemp("models") / "natural", model)


def test_the_natural_observation_by_hand() -> None:
    """On VM 1 of two, a job runs for 50 s yet; one of two executors and 100 s waits since 300 s."""
    vms = make_vms(2)
    running = RunningJob(make_job("old", 2, expected_duration=150.0), (vms[0].id,) * 2, 0.0, 150.0)
    running = replace(running, job=replace(running.job, spread=0.0))
    view = make_view(vms, [2.0, 4.0], [16384, 16384], [2, 0], at=100.0).changed(running=(running,))
    job = replace(make_job("new", 2, 1, 4096, -200.0, 100.0), prefers="consolidate")
    seen = observation(scene_of(view, [PlacementRequest(job, 2)], OPTIONS), OPTIONS)
    first, second, rest = np.split(seen, [COLUMNS, 2 * COLUMNS])
    # VM 1 takes both, and is then full. It is held for half of the job, so that half of it is added.
    assert first[[0, 1, 2, 4, 9]].tolist() == [1, 1, 0.5, 0, 1]
    assert first[[10, 11, 12]] == pytest.approx([1 / 3, 0.5, 50 / 175])
    # Two executors take half of the VM: half of its price is theirs for half of the time, or all of it.
    assert first[13] == pytest.approx(0.5 * 2 / (1 + 0.5 * 2))
    assert second[13] == pytest.approx(1 * 2 / (1 + 1 * 2))
    assert [first[19], second[19]] == pytest.approx([1.0, 0.5])
    assert second[[9, 10, 16, 17, 18]].tolist() == [0, 0, 1, 0, 0]
    # It would rather be on one VM, and may be; the usual job takes 125 s, and it has waited for 300 s.
    assert rest[[0, 1, 2, 18]].tolist() == [0, 1, 1, 1]
    assert rest[[4, 5, 6]] == pytest.approx([100 / 225, 3 / 4, 300 / 425])
    assert rest[22] == 0.25


def scaled(
    workload: Workload, vms: tuple[Vm, ...], times: float, prices: float
) -> tuple[Workload, tuple[Vm, ...]]:
    """All times and all prices so many times as large."""
    jobs = (
        replace(job, submitted_at=job.submitted_at * times, duration=job.duration * times)
        for job in workload.jobs
    )
    dearer = (
        replace(
            vm,
            price_per_hour=vm.price_per_hour * prices,
            terms=vm.terms
            and replace(vm.terms, boot=vm.terms.boot * times, minimum=vm.terms.minimum * times),
        )
        for vm in vms
    )
    return Workload(tuple(jobs)), tuple(dearer)


def decisions(result: Result, times: float) -> list[object]:
    """Times, jobs and placements, in units of `times`."""
    return [
        (done.at / times, done.job, done.decision.placement if isinstance(done.decision, Place) else None)
        for done in result.decisions
    ]


@given(seed=st.integers(0, 10_000), time=st.integers(-8, 8), price=st.integers(-6, 6), guard=st.booleans())
@settings(max_examples=12, deadline=None)
def test_no_unit_of_time_or_money_changes_a_decision(
    seed: int, time: int, price: int, guard: bool, folder: str
) -> None:
    """Drawn worlds, also with pools and under any belief, cause the same placements and waits to the bit."""
    from agents.drl.training.drawn import draw_world
    from conf.schema.training import DrawnSpec

    world = draw_world(DrawnSpec(pools=0.5, jobs=(15, 15)), 4, seed)
    options = SimulationOptions(belief=Belief("sigma", 0.3), seed=seed)

    def run(times: float, prices: float) -> Result:
        policy = create("reinforce", {"model": folder, "beta": 0.7, "guard": guard, "patience": "0.5x"})
        return simulate(policy, *scaled(world.workload, world.vms, times, prices), options=options)

    here, there = run(1.0, 1.0), run(2.0**time, 2.0**price)
    assert decisions(here, 1.0) == decisions(there, 2.0**time)
    assert here.guarded == there.guarded
    assert there.cost == here.cost * 2.0 ** (time + price)


def test_beta_is_what_it_is_asked_for(folder: str) -> None:
    """A network that is shown beta decides otherwise for another, and refuses none between 0 and 1."""
    view = make_view(make_vms(6), [1.0, 2.0, 3.0, 4.0, 4.0, 4.0], executors=[3, 2, 1, 0, 0, 0])
    request = PlacementRequest(make_job("a", 1, expected_duration=10.0), 1)
    policies = [create("reinforce", {"model": folder, "beta": beta}) for beta in (0.0, 1.0)]
    found = [policy.decide(view, [request]) for policy in policies]
    assert all(isinstance(place, Place) for place in found)
    assert len({place.scores for place in found if isinstance(place, Place)}) == 2
    with pytest.raises(PolicyError, match="beta: should be between 0 and 1"):
        create("reinforce", {"model": folder, "beta": 1.1})


def test_only_the_natural_observation_shows_beta() -> None:
    """A model that sees anything else serves one beta alone."""
    spec = make_model().spec
    with pytest.raises(ValueError, match="only the natural observation shows beta"):
        ModelSpec.model_validate({**spec.model_dump(), "betas": (0.0, 1.0)})
