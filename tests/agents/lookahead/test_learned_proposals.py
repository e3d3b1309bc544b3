"""Lookahead with a trained network as its base policy: the network judges the start of each plan."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.drl.model_folder import TrainedModel
from agents.drl.network import SharedWeights
from agents.lookahead.judging import Judge
from agents.lookahead.lookahead_policy import Lookahead, LookaheadOptions
from agents.lookahead.plans import NOBODY
from agents.registry import PolicyError, create
from environment.clusters.cluster_files import load_cluster
from environment.decisions.feasibility import check
from environment.simulation.simulator import simulate
from environment.types import Place, PlacementRequest, Wait
from environment.view import ClusterView
from profiles.workloads.generators import load_workload
from tests.agents.drl.models import make_folder, make_model
from tests.agents.test_contract import queues, views
from tests.builders import make_request, make_view, make_vm


def by_price(sign: float, waiting: float = 0.0) -> TrainedModel:
    """A model that scores a VM by its price, or its negative, and waiting by the given value."""
    model = make_model(hidden=1)
    assert isinstance(model.weights, SharedWeights)
    weights = {name: np.zeros_like(array) for name, array in model.weights._asdict().items()}
    weights["vm"][4] = weights["place"][:] = 1.0
    weights["place_score"][:] = sign
    weights["wait_offset"][:] = waiting
    return TrainedModel(model.spec, SharedWeights(**weights))


def test_what_the_network_likes_counts_as_cheaper() -> None:
    """Worked by hand: by 0.02 of a job's share in the least value, for each unit of the odds, 4 at most."""
    view = make_view([make_vm("dear", 4, 16384, 0.9), make_vm("cheap", 4, 16384, 0.3)])
    values = np.array([2.0, 2.2, 2.1, np.inf, 2.4])
    firsts = np.array([0, 0, NOBODY, 1, 1])
    placements = np.array([[0, 0], [1, 1], [0, 0], [0, 0], [0, 1]], np.int32)
    queue = [make_request(2), make_request(2)]
    found = Judge(by_price(1.0, waiting=0.5)).weigh(values, firsts, placements, view, queue)
    odds = np.array([0.9, 0.3, 0.5, 0.0, 0.6]) - 0.5
    assert found == pytest.approx(values - 0.02 * 2.0 / 2 * odds, abs=1e-6)
    bounded = Judge(by_price(1.0, waiting=50.0)).weigh(values, firsts, placements, view, queue)
    assert bounded == pytest.approx(values + np.array([0.08, 0.08, 0.0, 0.0, 0.08]))


def test_what_has_no_room_is_not_judged() -> None:
    """The network counts resources in whole cpus and skips plans without room; it skips a single plan too."""
    view = make_view([make_vm("vm", 4, 16384, 0.9)])
    values, firsts = np.array([2.0, 2.2]), np.array([0, NOBODY])
    placements = np.zeros((2, 1), np.int32)
    none = make_view(view.vms, free_cpus=[0.0])
    judge = Judge(by_price(1.0))
    assert judge.weigh(values, firsts, placements, none, [make_request(1)]).tolist() == values.tolist()
    assert judge.weigh(values[:1], firsts, placements, view, [make_request(1)]).tolist() == [2.0]


def test_the_network_tips_the_balance_and_that_is_said(tmp_path: Path) -> None:
    """Between two VMs of nearly one price; where one is much dearer, the known values decide."""
    folder = make_folder(tmp_path / "model", by_price(1000.0, waiting=300.5))
    options: dict[str, object] = {"base": "reinforce", "model": folder, "beta": 1}
    for price, chosen in ((0.301, "dear"), (0.9, "cheap")):
        view = make_view([make_vm("cheap", 4, 16384, 0.3), make_vm("dear", 4, 16384, price)])
        alone = create("lookahead", {"beta": 1}).decide(view, [make_request(1)])
        judged = create("lookahead", options).decide(view, [make_request(1)])
        assert isinstance(alone, Place)
        assert isinstance(judged, Place)
        assert view.vms[alone.placement[0]].name == "cheap"
        assert view.vms[judged.placement[0]].name == chosen
        said = judged.why[0].endswith("% worse than the best for these jobs, but reinforce would begin so")
        assert said == (chosen == "dear")
        assert "better than near_ilp's" in judged.why[0] or "worse than near_ilp's" in judged.why[0]


@pytest.fixture(scope="module")
def shipped() -> Lookahead:
    """A policy with a shipped model, used again and again, as in a daemon."""
    return Lookahead(LookaheadOptions(base="reinforce", candidates=12))


@given(steps=st.lists(st.tuples(views(), queues()), min_size=1, max_size=3))
@settings(max_examples=40, deadline=None)
def test_decisions_are_feasible(
    steps: list[tuple[ClusterView, list[PlacementRequest]]], shipped: Lookahead
) -> None:
    """On clusters of any size, one after the other."""
    for view, queue in steps:
        decision = shipped.decide(view, queue)
        if isinstance(decision, Place):
            request = next(request for request in queue if request.job.id == decision.job_id)
            assert check(view, request, decision) == ()
        else:
            assert decision.reason


def test_a_burst_is_decided_alike_again() -> None:
    """Every job runs, and a second policy decides the same."""
    workload, cluster = load_workload("burst", 0, 25), load_cluster("paper")
    options = {"base": "reinforce", "model": "reinforce-worlds", "candidates": 20}
    one, same = (simulate(create("lookahead", options), workload, cluster) for _ in range(2))
    assert one == same
    assert len(one.jobs) == 25
    assert any(isinstance(done.decision, Wait) for done in one.decisions)


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
        ({"model": "reinforce-worlds"}, "lookahead: model: requires base reinforce, found near_ilp"),
        ({"base": "reinforce", "model": "dqn-time"}, "policy lookahead: model: .*dqn-time is of dqn"),
        (
            {"base": "reinforce", "model": "none"},
            "policy lookahead: model: none: no shipped model and no fold",
        ),
    ],
)
def test_wrong_models_are_explained(options: dict[str, object], message: str) -> None:
    """The error includes the correct form."""
    with pytest.raises(PolicyError, match=message):
        create("lookahead", options)


def test_a_model_for_one_size_of_cluster_is_refused(tmp_path: Path) -> None:
    """A cluster may grow and shrink."""
    folder = make_folder(tmp_path / "flat", make_model("flat"))
    with pytest.raises(PolicyError, match="model: should be for any number of VMs, not 12"):
        create("lookahead", {"base": "reinforce", "model": folder})
