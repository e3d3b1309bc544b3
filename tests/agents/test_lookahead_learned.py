"""Lookahead with a trained network as its base policy: it plays what the network would decide."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.drl.model import Model
from agents.drl.network import Shared
from agents.estimates import UNKNOWN_DURATION
from agents.lookahead import plans
from agents.lookahead.learned import LearnedBase
from agents.lookahead.plans import Aim, make_arrays
from agents.lookahead.policy import Lookahead, LookaheadOptions
from agents.lookahead.situation import Situations
from agents.policy import FunctionPolicy
from agents.registry import PolicyError, create
from environment.check import check
from environment.clusters import load_cluster
from environment.options import DurationOptions, RewardOptions, rules
from environment.simulator import simulate
from environment.types import ClusterView, Decision, Place, PlacementRequest
from profiles.generators import load_workload
from profiles.workload import Workload
from tests.agents.drl.models import SEEN, make_folder, make_model
from tests.agents.test_contract import queues, views
from tests.builders import make_request, make_view, make_vm

Algorithm = Literal["reinforce", "dqn"]


def never_waits(model: Model) -> Model:
    """The same model, which likes nothing less than to wait."""
    assert isinstance(model.weights, Shared)
    return replace(model, weights=model.weights._replace(wait_offset=np.full(1, -1e6, np.float32)))


def by_price(sign: float) -> Model:
    """A model whose score of a VM is its price, or that below 0."""
    model = make_model(hidden=1)
    assert isinstance(model.weights, Shared)
    weights = {name: np.zeros_like(array) for name, array in model.weights._asdict().items()}
    weights["vm"][4] = weights["place"][:] = 1.0
    weights["place_score"][:] = sign
    return Model(model.spec, Shared(**weights))


@pytest.mark.parametrize("algorithm", ["reinforce", "dqn"])
def test_a_queue_is_played_as_the_network_places_it(algorithm: Algorithm, tmp_path: Path) -> None:
    """Forty jobs that are all there: starts, ends and VMs are those of a simulation of it, bit for bit."""
    model = never_waits(make_model(algorithm=algorithm))
    drawn, cluster = load_workload("burst", 3, 40), load_cluster("paper")
    workload = Workload(tuple(replace(job, submitted_at=0.0) for job in drawn.jobs))
    first: list[tuple[ClusterView, list[PlacementRequest]]] = []
    policy = create(algorithm, {"model": make_folder(tmp_path / "model", model)})

    def spy(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        first.append((view, list(queue)))
        return policy.decide(view, queue)

    outcome = simulate(FunctionPolicy(spy), workload, cluster)
    numbers = rules(RewardOptions(), DurationOptions())
    batch = Situations(numbers, UNKNOWN_DURATION, SEEN.types).load(*first[0])
    aim = Aim(1.0, 0.0, 1.0, 1.0, plans.NEAR_ILP, may_wait=True, reach=0, seed=0)
    LearnedBase(model).search(batch, aim, make_arrays(1, 12, 1000, 100), 0, 1)
    state, at = batch.state, 0
    for number, job in enumerate(outcome.jobs):
        assert (job.started_at, job.ended_at) == (state.start[1, number], state.end[1, number])
        assert job.placement == tuple(state.placement[1, at : at + job.executors].tolist())
        at += job.executors
    assert len({job.started_at for job in outcome.jobs}) > 5


@pytest.mark.parametrize(("sign", "chosen"), [(1.0, "dear"), (-1.0, "cheap")])
def test_the_base_decides_where_nothing_is_varied(sign: float, chosen: str, tmp_path: Path) -> None:
    """With variations the cheaper VM is found, and it is said how much better than the network's that is."""
    folder = make_folder(tmp_path / "model", by_price(sign))
    view = make_view([make_vm("dear", 4, 16384, 0.9), make_vm("cheap", 4, 16384, 0.3)])
    options: dict[str, object] = {"base": "reinforce", "model": folder, "beta": 1}
    decided = create("lookahead", {**options, "candidates": 0}).decide(view, [make_request(2)])
    assert isinstance(decided, Place)
    assert [view.vms[i].name for i in decided.placement] == [chosen] * 2
    assert decided.why[0].endswith(", 0.0 % better than reinforce's")
    best = create("lookahead", options).decide(view, [make_request(2)])
    assert isinstance(best, Place)
    assert [view.vms[i].name for i in best.placement] == ["cheap"] * 2
    assert best.why[0].endswith(f", {'0.0' if chosen == 'cheap' else '64.2'} % better than reinforce's")


@pytest.fixture(scope="module")
def shipped() -> dict[str, Lookahead]:
    """Policies with shipped models, used again and again, as in a daemon."""
    bases: tuple[Algorithm, ...] = ("reinforce", "dqn")
    return {base: Lookahead(LookaheadOptions(base=base, candidates=12)) for base in bases}


@pytest.mark.parametrize("base", ["reinforce", "dqn"])
@given(steps=st.lists(st.tuples(views(), queues()), min_size=1, max_size=3))
@settings(max_examples=40, deadline=None)
def test_decisions_are_feasible(
    base: str, steps: list[tuple[ClusterView, list[PlacementRequest]]], shipped: dict[str, Lookahead]
) -> None:
    """On clusters of any size, one after the other."""
    for view, queue in steps:
        decision = shipped[base].decide(view, queue)
        if isinstance(decision, Place):
            request = next(request for request in queue if request.job.id == decision.job_id)
            assert check(view, request, decision) == ()
        else:
            assert decision.reason


def test_a_burst_is_decided_alike_again() -> None:
    """Every job runs, and a second policy decides the same."""
    workload, cluster = load_workload("burst", 0, 25), load_cluster("paper")
    options = {"base": "dqn", "model": "dqn-cost", "candidates": 20}
    one, same = (simulate(create("lookahead", options), workload, cluster) for _ in range(2))
    assert one == same
    assert len(one.jobs) == 25


def test_other_bases_do_without_networks() -> None:
    """Neither TensorFlow nor the networks' code is imported for them."""
    code = (
        "import sys; from agents.registry import create; create('lookahead');"
        "print([name for name in sys.modules if name.startswith(('agents.drl', 'tensorflow'))])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"model": "reinforce-time"},
            "lookahead: model: goes with base reinforce or dqn, found near_ilp",
        ),
        ({"base": "dqn", "model": "reinforce-time"}, "policy lookahead: model: .*reinforce-time is of reinf"),
        ({"base": "dqn", "model": "none"}, "policy lookahead: model: none: no shipped model and no folder"),
    ],
)
def test_wrong_models_are_explained(options: dict[str, object], message: str) -> None:
    """The text says what would be right."""
    with pytest.raises(PolicyError, match=message):
        create("lookahead", options)


def test_a_model_for_one_size_of_cluster_is_refused(tmp_path: Path) -> None:
    """A cluster may grow and shrink."""
    folder = make_folder(tmp_path / "flat", make_model("flat"))
    with pytest.raises(PolicyError, match="model: should be for any number of VMs, not 12"):
        create("lookahead", {"base": "reinforce", "model": folder})
