"""Learned policies decide as trained, name no VM without room, and wait no longer than they may."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.drl.adviser import Adviser
from agents.drl.collecting import Rollouts
from agents.drl.kernel.acting import Play
from agents.drl.learned_policy import LearnedOptions, LearnedPolicy
from agents.drl.model_folder import read_model
from agents.drl.network import network_of
from agents.registry import PolicyError, create
from environment.clusters.cluster_files import load_cluster
from environment.decisions.decision_round import decide_once
from environment.decisions.explain import explain
from environment.decisions.feasibility import check
from environment.kernel.rule_options import DurationOptions, RewardOptions, rules
from environment.simulation.durations.beliefs import Belief
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import simulate
from environment.training.episodes import episodes
from environment.training.view_encoding import mask, observation, scene_of
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView, RunningJob
from profiles.workloads.generators import load_workload
from tests.agents.drl.models import SEEN, make_folder, make_model, scores, that_waits
from tests.agents.test_contract import queues, views
from tests.builders import make_job, make_request, make_view, make_vms


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders of models: of each kind, and of one that would always rather wait."""
    root, model = tmp_path_factory.mktemp("models"), make_model()
    waiting = that_waits(model, 1e6)
    models = {
        "shared": model,
        "flat": make_model("flat"),
        "dqn": make_model(algorithm="dqn", seed=2),
        "waits": waiting,
        "looks": make_model(considered=8),
    }
    return {name: make_folder(root / name, found) for name, found in models.items()}


def starting(view: ClusterView, ids: Sequence[str] = ("old",)) -> ClusterView:
    """The view with jobs running on its first VM, of which nothing is known."""
    running = tuple(RunningJob(make_job(name), (view.vms[0].id,), 0.0, None) for name in ids)
    return view.changed(running=running)


@pytest.mark.parametrize("limit", [1, 10_000])
@pytest.mark.parametrize("kind", ["shared", "flat", "looks"])
@pytest.mark.parametrize(("workload", "belief"), [("burst", "exact"), ("normal", "exact"), ("burst", "0.2")])
def test_the_deployed_policy_decides_as_a_greedy_episode(
    kind: str, workload: str, belief: str, limit: int, folders: dict[str, str]
) -> None:
    """On a simulated day: the same VM for every executor, and so the same cost; waits and overtaking too.

    Also when jobs were passed over as often as they may be.
    """
    seed, vms, model = 3, load_cluster("paper"), read_model(Path(folders[kind]))
    policy = create("reinforce", {"model": folders[kind], "wait_limit": limit, "patience": 1e6})
    options = SimulationOptions(belief=Belief.read(belief), seed=seed)
    result = simulate(policy, load_workload(workload, seed), vms, options=options)
    episode = episodes(workload, "paper", SEEN.types, options.belief)(seed)
    numbers = rules(RewardOptions(), DurationOptions())
    considered, most = model.spec.considered, model.spec.overtaken_at_most
    with Rollouts([episode], [0], numbers, model.spec.options, considered=considered) as rows:
        how = Play(wait_limit=limit, considered=considered, overtaken_at_most=most)
        record = rows.play(network_of(model.weights), how)
        actions = record.actions[0, : record.length[0]]
        placed = [
            vm
            for done in result.decisions
            if isinstance(done.decision, Place)
            for vm in done.decision.placement
        ]
        assert placed == (actions[actions > 0] - 1).tolist()
        assert result.cost == pytest.approx(rows.outcome().cost[0], rel=1e-12)
        assert (actions == 0).any()


@pytest.mark.parametrize("name", ["reinforce", "dqn", "looks"])
@given(steps=st.lists(st.tuples(views(), queues(), st.booleans()), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_no_vm_without_room_is_named(
    name: str,
    steps: list[tuple[ClusterView, list[PlacementRequest], bool]],
    learned: dict[str, LearnedPolicy],
) -> None:
    """On any cluster, whether or not something runs; lost executors too."""
    for view, queue, busy in steps:
        seen = starting(view) if busy and view.vms else view
        decision = learned[name].decide(seen, queue)
        if isinstance(decision, Place):
            placed = next(request for request in queue if request.job.id == decision.job_id)
            assert check(seen, placed, decision) == ()
            assert len(decision.placement) == len(decision.why) == placed.count
            assert placed is queue[0] or name == "looks"
        else:
            assert decision.reason


@pytest.fixture(scope="module")
def learned(folders: dict[str, str]) -> dict[str, LearnedPolicy]:
    """Policies that are used again and again, as in a daemon."""
    return {
        "reinforce": LearnedPolicy("reinforce", LearnedOptions(folders["shared"])),
        "dqn": LearnedPolicy("dqn", LearnedOptions(folders["dqn"])),
        "looks": LearnedPolicy("reinforce", LearnedOptions(folders["looks"])),
    }


def test_vms_that_join_or_leave_change_nothing(learned: dict[str, LearnedPolicy]) -> None:
    """The same policy decides for one VM, for a thousand, and for none."""
    for count in (1, 1000, 3, 0):
        decision = learned["reinforce"].decide(make_view(make_vms(count)), [make_request(3)])
        assert isinstance(decision, Place if count else Wait)


def test_what_is_not_known_does_no_harm(learned: dict[str, LearnedPolicy]) -> None:
    """A type nobody heard of, and VMs and jobs of which nobody knows when they end."""
    view = starting(make_view(make_vms(4), executors=[1, 0, 0, 0]))
    queue = [replace(make_request(2), job=replace(make_request(2).job, type="unheard-of"))]
    decision = learned["dqn"].decide(view, queue)
    assert isinstance(decision, Place)
    assert np.isfinite(decision.scores).all()


def decided(policy: LearnedPolicy, view: ClusterView, ids: Sequence[str], at: float) -> Decision:
    """The policy's decision at that time, with these jobs running."""
    return policy.decide(starting(replace(view, at=at), ids), [make_request(2)])


def test_a_job_that_fits_waits_for_no_more_ends_than_allowed(folders: dict[str, str]) -> None:
    """Being asked again before a job has ended does not count; then waiting is no choice, which is said."""
    view, jobs = make_view(make_vms(3), executors=[1, 0, 0]), ["a", "b", "c", "d"]
    policy = LearnedPolicy("reinforce", LearnedOptions(folders["waits"], wait_limit=2))
    first = decided(policy, view, jobs, 0.0)
    assert isinstance(first, Wait)
    assert first.reason == "waiting for the next job to end has probability 100%, vm-1 0%"
    assert [decided(policy, view, jobs, at) for at in (1.0, 2.0, 3.0)] == [first] * 3
    assert isinstance(decided(policy, view, jobs[1:], 4.0), Wait)
    last = decided(policy, view, jobs[2:], 5.0)
    assert isinstance(last, Place)
    assert last.why[0].endswith("; passed over 2 times though it fits, it may wait no longer")
    assert last.why[0].startswith("vm-")


def test_a_job_that_fits_waits_no_longer_than_its_patience(folders: dict[str, str]) -> None:
    """Though no job ends: the guard behind it places it, and `stoker job` shows the reason."""
    view = make_view(make_vms(3), executors=[1, 0, 0])
    policy = create("reinforce", {"model": folders["waits"], "patience": 60.0})
    for at in (10.0, 69.0):
        assert isinstance(policy.decide(starting(replace(view, at=at), ["a"]), [make_request(2)]), Wait)
    late = starting(replace(view, at=70.0), ["a"])
    told = explain(decide_once(policy.decide, late, [make_request(2)]), "reinforce")
    assert told.decision == "place"
    assert told.choices[0].why.startswith(
        "the guard: it has fitted for 60 s and waits no longer with 100% of"
    )


def test_lost_executors_do_not_make_it_forget_the_oldest_job(folders: dict[str, str]) -> None:
    """It is overtaken no more often for them."""
    policy = LearnedPolicy("reinforce", LearnedOptions(folders["looks"], overtaken_at_most=2))
    view = make_view(make_vms(2))
    large = PlacementRequest(make_job("large", 9), 9)
    for number in range(4):
        small = PlacementRequest(make_job(f"small-{number}"), 1)
        decision = policy.decide(view, [large, small])
        assert isinstance(decision, Place) == (number < 2)
        lost = PlacementRequest(make_job(f"lost-{number}"), 1, again=True)
        assert isinstance(policy.decide(view, [lost, large]), Place)


def test_a_vm_that_joins_is_a_reason_to_think_again(folders: dict[str, str]) -> None:
    """The wait is counted anew by it, as by a job's end."""
    policy = LearnedPolicy("reinforce", LearnedOptions(folders["waits"], wait_limit=1))
    assert isinstance(decided(policy, make_view(make_vms(3)), ["a"], 0.0), Wait)
    assert isinstance(decided(policy, make_view(make_vms(4)), ["a"], 1.0), Place)


def test_the_oldest_job_is_overtaken_no_more_than_allowed(folders: dict[str, str]) -> None:
    """Jobs that fit go before one that does not, and say so; then none does."""
    policy = LearnedPolicy("reinforce", LearnedOptions(folders["looks"], overtaken_at_most=2))
    view = make_view(make_vms(2))
    jobs = [make_job("large", 9), *(make_job(f"small-{i}") for i in range(4))]
    queue = [PlacementRequest(job, job.executors) for job in jobs]
    overtaking = []
    while isinstance(decision := policy.decide(view, queue), Place):
        overtaking.append(decision.job_id)
        assert decision.why[0].endswith("overtakes large (the oldest is overtaken 2 times at most)")
        queue = [request for request in queue if request.job.id != decision.job_id]
    assert overtaking == ["small-0", "small-1"]
    again = [PlacementRequest(make_job("lost", 9), 9, again=True), *queue]
    assert isinstance(policy.decide(view, again), Wait)


@pytest.mark.parametrize("seed", range(8))
def test_of_the_jobs_that_fit_the_best_is_placed(seed: int, folders: dict[str, str]) -> None:
    """That for which the best place scores most above waiting, as plain numpy computes it; if any does."""
    random, model = np.random.default_rng(seed), read_model(Path(folders["looks"]))
    view = starting(make_view(make_vms(4, cpus=8), executors=[3, 0, 2, 0]))
    sizes = zip(random.integers(1, 9, 12).tolist(), random.integers(1, 5, 12).tolist(), strict=True)
    jobs = [make_job(f"job-{i}", count, cpus=float(cpus)) for i, (count, cpus) in enumerate(sizes)]
    queue = [PlacementRequest(job, job.executors) for job in jobs]
    gains = {}
    for number, request in enumerate(queue[: model.spec.considered]):
        others = [other for other in queue if other is not request]
        scene = scene_of(view, [request, *others], model.spec.options)
        if (legal := mask(scene))[1:].any():
            found = scores(model.weights, observation(scene, model.spec.options), len(view.vms))
            gains[request.job.id] = (found[1:][legal[1:]].max() - found[0], -number)
    assert 1 < len(gains) <= model.spec.considered
    decision = LearnedPolicy("reinforce", LearnedOptions(folders["looks"])).decide(view, queue)
    best = max(gains, key=gains.__getitem__)
    if gains[best][0] > 0:
        assert isinstance(decision, Place)
        assert decision.job_id == best
        assert f"of the {len(gains)} jobs that fit it is the best to place now" in decision.why[0]
    else:
        assert isinstance(decision, Wait)


@given(view=views(), queue=queues())
@settings(max_examples=60, deadline=None)
def test_jobs_are_scored_together_as_one_by_one(
    view: ClusterView, queue: list[PlacementRequest], adviser: Adviser
) -> None:
    """Bit for bit; those that ask for gpus, and lost executors, too."""
    if view.vms:
        numbers = list(range(len(queue)))
        alone = {number: adviser.score(view, queue, number, 3) for number in numbers}
        expected = {number: scored.gain for number, scored in alone.items() if scored is not None}
        assert adviser.gains(view, queue, numbers, 3) == expected


@pytest.fixture(scope="module")
def adviser() -> Adviser:
    """Of a model that looks at several jobs."""
    return Adviser(make_model(considered=8))


def test_nothing_is_waited_for_when_nothing_runs(folders: dict[str, str]) -> None:
    """Even a policy that would always rather wait places then."""
    policy = LearnedPolicy("reinforce", LearnedOptions(folders["waits"]))
    decision = policy.decide(make_view(make_vms(3)), [make_request(2)])
    assert isinstance(decision, Place)
    assert decision.why[0].startswith("vm-")
    assert "has probability" in decision.why[0]
    assert len(decision.scores) == 3


def test_a_flat_network_hands_over_when_the_cluster_is_another(folders: dict[str, str]) -> None:
    """The fallback decides and says why."""
    policy = LearnedPolicy("reinforce", LearnedOptions(folders["flat"]))
    decision = policy.decide(make_view(make_vms(3)), [make_request()])
    assert isinstance(decision, Place)
    assert decision.why[0].startswith("the model is for 12 VMs, not 3, so best_fit decides: vm-1")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"model": "nowhere"}, "policy dqn: model: nowhere: no shipped model and no folder"),
        ({"model": "shared"}, "policy dqn: model: .*shared is of reinforce"),
        ({"model": "dqn", "beta": 1.0}, "policy dqn: model: .*dqn is for beta 0.5, not 1"),
        ({"beta": 1.5}, "policy dqn: beta: should be between 0 and 1, found 1.5"),
        ({"wait_limit": -1}, "policy dqn: wait_limit: should be 0 or more, found -1"),
        ({"overtaken_at_most": -1}, "policy dqn: overtaken_at_most: should be 0 or more, found -1"),
        ({"patience": -1.0}, "policy dqn: patience: should be 0 or more seconds, found -1"),
        ({"fallback": "reinforce"}, "policy dqn: fallback: should not be a trained policy, found reinforce"),
        ({"model": "dqn", "fallback": "fff"}, "policy fff: unknown; did you mean ff"),
    ],
)
def test_options_that_are_wrong_are_told(
    options: dict[str, object], complaint: str, folders: dict[str, str]
) -> None:
    """The error has the option's name and the valid values."""
    found = (
        {**options, "model": folders.get(str(options["model"]), options["model"])}
        if "model" in options
        else options
    )
    with pytest.raises(PolicyError, match=complaint):
        create("dqn", found)


def test_deciding_does_without_tensorflow(folders: dict[str, str]) -> None:
    """A process that decides has not imported it, and one that only describes the policy no numba either."""
    program = (
        "import sys; from agents.registry import create, describe; describe('reinforce');"
        "assert 'numba' not in sys.modules;"
        f"policy = create('reinforce', {{'model': {folders['shared']!r}}});"
        "from tests.builders import *; print(policy.decide(make_view(make_vms(3)), [make_request()]).job_id);"
        "sys.exit(' '.join({'tensorflow', 'tf_agents', 'keras'} & set(sys.modules)) or 0)"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=root
    )
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("job-1", "", 0)
