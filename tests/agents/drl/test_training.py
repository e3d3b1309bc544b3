"""Training: all the way from a file to a policy folder, on a cluster so small that the best is known."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from agents.drl.kernel.forward import make_scratch, score
from agents.drl.model_folder import read_model
from agents.drl.network import Flat, SharedWeights, first_flat, first_shared, network_of
from agents.registry import PolicyError, create
from conf.loader import SHIPPED, ConfigError, load, parse
from conf.schema.training import TrainingSpec
from daemon.cli import main
from profiles.workloads.workload import Workload, WorkloadJob
from profiles.workloads.workload_files import write_workload

#: What TensorFlow and TF-Agents say when they are imported, compile and save.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::SyntaxWarning"),
    pytest.mark.filterwarnings("ignore:Encoding a StructuredValue"),
]

CLUSTER = {
    "vms": [
        {"type": "small", "cpus": 2, "memory": "8g", "price_per_hour": 0.10, "count": 1},
        {"type": "large", "cpus": 4, "memory": "16g", "price_per_hour": 0.30, "count": 2},
    ]
}
#: Network-bound jobs are to stay together, the others apart.
JOBS = Workload(
    tuple(
        WorkloadJob(f"job-{number}", 20.0 * number, kind, 2.0, 2048, executors, 100.0 + number)
        for number, (kind, executors) in enumerate([("pagerank", 2), ("sort", 1), ("wordcount", 2)])
    )
)

SMALL: dict[str, dict[str, Any]] = {
    "reinforce": {
        "algorithm": "reinforce",
        "iterations": 60,
        "reinforce": {"workloads": 1, "rollouts": 24, "entropy": {"first": 0.02, "last": 0.0}},
        "learning_rate": {"first": 0.01, "last": 0.001},
        "discount": 1.0,
    },
    "dqn": {
        "algorithm": "dqn",
        "iterations": 800,
        "learning_rate": {"first": 0.005, "last": 0.0005},
        "discount": 1.0,
        "dqn": {
            "double": True, "batch": 32, "buffer": 4000, "episodes": 20, "collected": 5, "begin": 500,
            "epsilon": {"first": 0.5, "last": 0.1}, "steps": 3, "target_every": 20,
        },
        "evaluation": {"every": 200, "first_seed": 0, "seeds": 1},
    },
}  # fmt: skip

#: The same, for where it does not matter that the best is found: evaluated after 2, 4 and 6 iterations.
SHORT = {
    name: {**values, "iterations": 6, name: {**values[name], **fewer}, "evaluation": {"every": 2, "seeds": 1}}
    for (name, values), fewer in zip(
        SMALL.items(),
        [
            {"rollouts": 4},
            {"batch": 8, "buffer": 200, "episodes": 2, "begin": 50, "target_every": 2},
        ],
        strict=True,
    )
}


@pytest.fixture
def tiny(tmp_path: Path) -> dict[str, Any]:
    """A training file's values for the tiny cluster, without the algorithm."""
    return tiny_in(tmp_path)


def tiny_in(folder: Path) -> dict[str, Any]:
    """The same, of files in this folder."""
    (folder / "tiny.yaml").write_text(yaml.safe_dump(CLUSTER))
    write_workload(JOBS, folder / "jobs.csv")
    return {
        "cluster": str(folder / "tiny.yaml"),
        "workloads": {str(folder / "jobs.csv"): 1.0},
        "network": {"kind": "shared", "hidden": 16},
        "observation": {"upcoming": 1},
        "objective": {"beta": 0.5, "waiting": 0.0},
        "evaluation": {"every": 20, "first_seed": 0, "seeds": 1},
        "threads": 1,
    }


def spec_of(values: dict[str, Any]) -> TrainingSpec:
    """Checked as a file is."""
    return parse(yaml.safe_dump(values), TrainingSpec, "here.yaml")


def best_return(spec: TrainingSpec) -> float:
    """Of all schedules there are, by trying every action that is allowed."""
    from agents.drl.kernel.objective import place_towards, wait_towards
    from agents.drl.training.experience import objective_of, rules_of
    from agents.drl.training.worlds import worlds_of
    from environment.kernel.observation import write_mask
    from environment.kernel.rules import reset
    from environment.kernel.state import make_batch

    worlds = worlds_of(spec)
    batch = make_batch(next(iter(worlds.evaluated().values())).episodes, rules_of(spec))
    objective = objective_of(spec)
    before, mask = np.zeros(worlds.vms), np.zeros(worlds.vms + 1, np.bool_)

    def step(action: int) -> float:
        if action == 0:
            return wait_towards(batch, 0, False, objective)
        return place_towards(batch, 0, action, objective, before)

    def after(actions: list[int]) -> tuple[float, list[int]]:
        reset(batch, 0)
        total = sum(step(action) for action in actions)
        write_mask(batch, 0, True, mask)
        return total, np.flatnonzero(mask).tolist()

    def ends(actions: list[int]) -> Iterator[float]:
        total, allowed = after(actions)
        if not allowed:
            yield total
        for action in allowed:
            yield from ends([*actions, action])

    return max(ends([]))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["reinforce", "dqn"])
def test_the_best_schedule_of_a_tiny_cluster_is_learned(
    algorithm: str, tiny: dict[str, Any], tmp_path: Path
) -> None:
    """Training finds it, and the SavedModel's scores equal the daemon's."""
    import tensorflow as tf

    from agents.drl.training.trainer import train
    from agents.drl.training.worlds import worlds_of

    spec = spec_of({**tiny, **SMALL[algorithm]})
    out = train(spec, tmp_path / "out")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    found = max(next(iter(line["evaluation"].values()))["return"] for line in lines)
    assert found == pytest.approx(best_return(spec), rel=1e-5)
    assert lines[0]["loss"] > lines[-1]["loss"]

    saved = tf.saved_model.load(str(out / "saved_model"))
    model = read_model(out)
    assert model.spec.algorithm == algorithm
    seen = np.random.default_rng(0).random((4, worlds_of(spec).length), np.float32)
    np.testing.assert_allclose(saved.scores(seen), computed(model.weights, seen, 3), atol=1e-5)


def computed(
    weights: SharedWeights | Flat, observations: np.ndarray[Any, Any], vms: int
) -> np.ndarray[Any, Any]:
    """Scores as the daemon computes them."""
    network, out = network_of(weights), np.zeros((len(observations), vms + 1), np.float32)
    for seen, scores in zip(observations, out, strict=True):
        score(network, seen, np.ones(vms + 1, np.bool_), make_scratch(network, vms), scores)
    return out


@pytest.mark.parametrize("weights", [first_shared(11, 20, 16, 1), first_flat(53, 3, 24, 1)])
def test_networks_compute_the_same_in_tensorflow(weights: SharedWeights | Flat) -> None:
    """Both kinds compute the same, and masked actions have no chance."""
    import tensorflow as tf

    from agents.drl.networks_tf import Actor, ScoreNetwork

    seen = np.random.default_rng(0).random((2, 5, 53), np.float32)
    spec = tf.TensorSpec((53,), tf.float32)
    network = ScoreNetwork(spec, weights)
    expected = computed(weights, seen.reshape(10, 53), 3).reshape(2, 5, 4)
    np.testing.assert_allclose(network(seen)[0], expected, atol=1e-5)
    mask = np.array([True, False, True, False])
    masked = {"mask": tf.broadcast_to(mask, (2, 5, 4)), "observation": tf.constant(seen)}
    both = {"mask": tf.TensorSpec((4,), tf.bool), "observation": spec}
    chances = Actor(both, weights)(masked)[0].probs_parameter().numpy()
    assert (chances[..., ~mask] == 0).all()
    np.testing.assert_allclose(chances.sum(-1), 1, atol=1e-6)


@pytest.mark.parametrize("algorithm", ["reinforce", "dqn"])
@pytest.mark.parametrize("kind", ["shared", "flat"])
def test_gradients_reach_every_weight(algorithm: str, kind: str, tiny: dict[str, Any]) -> None:
    """One iteration changes all arrays."""
    from agents.drl.training.learners.learner import learner_of
    from agents.drl.training.worlds import worlds_of

    values = {**tiny, **SHORT[algorithm], "network": {"kind": kind, "hidden": 16}}
    learner = learner_of(worlds_of(spec_of(values)))
    before = learner.network.weights_as_arrays()
    learner.learn(0)
    after = learner.network.weights_as_arrays()
    learner.close()
    for name in before._fields:
        assert (getattr(before, name) != getattr(after, name)).any(), name


@pytest.mark.parametrize("algorithm", ["reinforce", "dqn"])
def test_tf_agents_own_driver_collects_the_same(algorithm: str, tiny: dict[str, Any]) -> None:
    """Step by step in the environment, by the agent's greedy policy, as compiled code does in one go."""
    from itertools import count

    from tf_agents.drivers.py_driver import PyDriver
    from tf_agents.policies.py_tf_eager_policy import PyTFEagerPolicy

    from agents.drl.training.experience import how_to_play, rollouts_of
    from agents.drl.training.learners.learner import learner_of
    from agents.drl.training.worlds import worlds_of
    from environment.kernel.rule_options import RewardOptions
    from environment.training.tf import ClusterEnvironment

    own = {"reinforce": {"workloads": 1, "rollouts": 1, "baseline": "none"}, "dqn": {}}
    values = {**tiny, **SHORT[algorithm], algorithm: own[algorithm], "rewards": "paper", "wait_limit": None}
    worlds = worlds_of(spec_of(values))
    learner, (episodes,) = learner_of(worlds), worlds.by_workload.values()
    environment = ClusterEnvironment(
        episodes,
        count(),
        discount=worlds.spec.discount,
        rewards=RewardOptions(beta=worlds.spec.objective.beta),
        observation=worlds.observation,
    )
    collected: list[Any] = []
    policy = PyTFEagerPolicy(learner.agent.policy, batch_time_steps=False)
    PyDriver(environment, policy, [collected.append], max_episodes=1).run(environment.reset())
    steps = [step for step in collected if not step.is_boundary()]
    with rollouts_of(worlds, [episodes(0)], [0], None) as rollouts:
        record = rollouts.play(network_of(learner.network.weights_as_arrays()), how_to_play(worlds))
    learner.close()
    environment.close()
    (length,) = record.length
    assert [int(step.action[0]) for step in steps] == record.actions[0, :length].tolist()
    for step, seen, reward, discount in zip(
        steps, record.observations[0], record.rewards[0], record.discounts[0], strict=False
    ):
        np.testing.assert_array_equal(step.observation["observation"][0], seen)
        assert (float(step.reward[0]), float(step.discount[0])) == (reward, discount)


def test_the_paper_s_set_up_learns_the_rules_of_a_fixed_list(tmp_path: Path) -> None:
    """As docs/training.md says: from the reward of -200 for breaking one, to episodes without that."""
    from agents.drl.training.trainer import train
    from agents.experiments.islam2022.claims import learning_claims
    from agents.experiments.islam2022.runs import read_curves

    kinds = ("wordcount", "sort", "pagerank")
    jobs = tuple(
        WorkloadJob(f"job-{n}", 50.0 * n, kinds[n % 3], 4.0, 8192, 1 + n % 5, 60.0) for n in range(12)
    )
    write_workload(Workload(jobs), tmp_path / "mine.csv")
    changed = {"workloads": f"{{{tmp_path / 'mine.csv'}: 1}}", "iterations": "200"}
    changed["evaluation"] = "{every: 50, seeds: 1}"
    train(load(SHIPPED / "train/reinforce-paper.yaml", TrainingSpec, changed), tmp_path / "run")
    (curve,) = read_curves(tmp_path / "run")
    assert curve.pattern == "mine.csv"
    assert curve.returns[0] < 0 < 5000 < max(curve.returns)
    judged = {each.statement: each.holds for each in learning_claims([curve])}
    assert [judged[name] for name in judged if name.endswith("(Fig. 5)")] == [True]
    assert [judged[name] for name in judged if name.endswith("b)")] == [None, None]


class StopError(Exception):
    """The run is killed."""


@pytest.mark.slow
def test_a_run_that_ended_before_its_first_checkpoint_goes_on_or_begins_anew(
    tiny: dict[str, Any], tmp_path: Path
) -> None:
    """A run ignores leftovers of another training file in its folder."""
    from agents.drl.training.trainer import train

    values = {**tiny, **SHORT["reinforce"], "imitation": {"teacher": "ff", "episodes": 1, "epochs": 1}}

    def kill(done: int, total: int, what: str) -> None:
        if what.startswith("imitating"):
            raise StopError

    folder = tmp_path / "killed"
    with pytest.raises(ConfigError, match="there is no run to resume"):
        train(spec_of(values), folder, resume=True)
    with pytest.raises(StopError):
        train(spec_of({**values, "observation": {"upcoming": 2}}), folder, progress=kill)
    with pytest.raises(StopError):  # the teacher's examples of another observation do not fit this one
        train(spec_of(values), folder, progress=kill)
    train(spec_of(values), folder, resume=True)
    train(spec_of(values), tmp_path / "whole")
    assert curve(folder) == curve(tmp_path / "whole")


def test_a_run_is_not_resumed_with_other_jobs(tiny: dict[str, Any], tmp_path: Path) -> None:
    """The file of the workload, which the training file only names, was written anew meanwhile."""
    from agents.drl.training.trainer import train

    def kill(done: int, total: int, what: str) -> None:
        raise StopError

    spec = spec_of({**tiny, **SHORT["reinforce"]})
    with pytest.raises(StopError):
        train(spec, tmp_path / "out", progress=kill)
    write_workload(Workload(JOBS.jobs[:2]), tmp_path / "jobs.csv")
    with pytest.raises(ConfigError, match="its workloads or its cluster are others"):
        train(spec, tmp_path / "out", resume=True)


def test_a_learner_makes_one_graph_for_any_number_of_steps(tiny: dict[str, Any]) -> None:
    """One of the first number alone rounds otherwise: a run that was resumed would end with other weights."""
    from agents.drl.training.learners.learner import learner_of
    from agents.drl.training.learners.reinforce import ReinforceLearner
    from agents.drl.training.worlds import worlds_of

    values = {**tiny, **SHORT["reinforce"], "workloads": {"burst": 1.0}, "cluster": "paper"}
    learner = learner_of(worlds_of(spec_of({**values, "iterations": 100})))
    assert isinstance(learner, ReinforceLearner)
    steps, graphs = [], []
    for number in range(3):
        _, told = learner.learn(number)
        steps.append(told["steps"])
        graphs.append(learner.graphs())
    learner.close()
    assert len(set(steps)) > 1
    assert len(set(graphs)) == 1


@pytest.mark.parametrize(
    ("algorithm", "numbers"),
    [
        ("reinforce", {"workloads": 2, "rollouts": 2}),
        ("dqn", {"episodes": 2, "batch": 8, "buffer": 100, "steps": 5}),
    ],
)
def test_worlds_that_are_drawn_are_learned_on(
    algorithm: str, numbers: dict[str, Any], tmp_path: Path
) -> None:
    """Clusters of two sizes, a teacher watched first; the policy serves any beta that was drawn."""
    from agents.drl.training.trainer import train

    spec = spec_of(
        {
            "algorithm": algorithm, "iterations": 2, "considered": 4, "threads": 1,
            "network": {"hidden": 8},
            "drawn": {"vms": {3: 1, 5: 1}, "pools": 0.5, "jobs": [6, 9], "betas": [0.2, 0.8]},
            "observation": {"name": "natural", "types": []},
            "objective": {"completion": 1.0, "waiting": 0, "dollars": 1, "seconds": 1},
            "evaluation": {"every": 2, "seeds": 1},
            "imitation": {"teacher": "greedy", "episodes": 4, "epochs": 1, "waiting": 0.05},
            algorithm: numbers,
        }
    )  # fmt: skip
    assert spec_of(yaml.safe_load(yaml.safe_dump(spec.model_dump(mode="json")))) == spec

    whole = train(spec, tmp_path / "whole")
    assert read_model(whole).spec.betas == (0.2, 0.8)
    create(algorithm, {"model": str(whole), "beta": 0.3})
    with pytest.raises(PolicyError, match=r"is for beta 0.2 to 0.8, not 0.9"):
        create(algorithm, {"model": str(whole), "beta": 0.9})


def test_every_world_counts_alike() -> None:
    """Advantages of a world in which much is to be lost are made as small as others'."""
    from agents.drl.training.learners.reinforce import alike

    found = alike(np.array([3.0, -3.0, 0.1, -0.1, 0.0]), np.array([0, 0, 1, 1, 2]))
    assert found.tolist() == pytest.approx([1, -1, 1, -1, 0])


#: Trains in one folder after the other: to the end, or until it is killed (-9) after that iteration.
RUN = """
import os, signal, sys, threading, time
from pathlib import Path
from agents.drl.training.trainer import train
from conf.loader import load
from conf.schema.training import TrainingSpec

spec, timers = load(Path(sys.argv[1]), TrainingSpec), []
for way in sys.argv[2:]:
    out, _, until = way.partition(":")

    def say(done, total, what):
        if until.isdecimal() and done >= int(until) and not timers:
            moment = time.time_ns() % 1000 / 10_000
            timers.append(threading.Timer(moment, os.kill, (os.getpid(), signal.SIGKILL)))
            timers[0].start()
        while until.isdecimal() and done == total:
            time.sleep(1)

    train(spec, Path(out), progress=say)
"""


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["reinforce", "dqn"])
def test_a_process_that_was_killed_is_followed_by_one_that_ends_with_the_same_weights(
    algorithm: str, tiny: dict[str, Any], tmp_path: Path
) -> None:
    """At a moment drawn by chance; bit by bit, which shows too that a seed says all.

    Nothing else is done in the folder of a run that was killed than to go on with it.
    """
    from agents.drl.training.trainer import train

    values = {**tiny, **SMALL[algorithm], "averaging": 0.5, "threads": 2}
    iterations = {"reinforce": 18, "dqn": 240}[algorithm]
    values |= {"iterations": iterations, "evaluation": {"every": iterations // 6, "seeds": 1}}
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(values))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    until = iterations // 3 + time.time_ns() % (iterations // 2)
    command = [sys.executable, "-W", "ignore", "-c", RUN, str(tmp_path / "train.yaml")]
    ended = subprocess.run([*command, f"{whole}:", f"{killed}:{until}"], capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert len(curve(killed)) < len(curve(whole))
    (killed / "run" / "checkpoints" / "partial").mkdir(exist_ok=True)
    with pytest.raises(ConfigError, match="already contains a run"):
        train(spec_of(values), killed)
    with pytest.raises(ConfigError, match="seed"):
        train(spec_of({**values, "seed": 5}), killed, resume=True)
    begun: list[int] = []
    train(spec_of(values), killed, resume=True, begun=begun.append)
    assert 0 < begun[0] < iterations
    assert curve(killed) == curve(whole), f"killed from iteration {until} on"
    one, other = read_model(killed).weights, read_model(whole).weights
    assert all((a == b).all() for a, b in zip(one, other, strict=True)), f"killed from iteration {until} on"


def curve(folder: Path) -> list[dict[str, Any]]:
    """A run's evaluations, without their durations."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def test_kept_weights_are_averages_over_iterations(tiny: dict[str, Any], tmp_path: Path) -> None:
    """Two iterations are averaged by hand; the deployed model considers as many jobs as when evaluated."""
    from agents.drl.training.learners.learner import learner_of
    from agents.drl.training.trainer import train
    from agents.drl.training.worlds import worlds_of

    evaluation = {"every": 2, "first_seed": 0, "seeds": 1, "considered": 5, "overtaken_at_most": 7}
    values = {**tiny, **SHORT["reinforce"], "iterations": 2, "averaging": 0.75, "evaluation": evaluation}
    values["learning_rate"] = {"first": 0.0, "last": 0.0}
    values["start"] = str(train(spec_of({**values, "averaging": 0.0}), tmp_path / "first"))
    values["learning_rate"] = {"first": 0.01, "last": 0.01}
    learner = learner_of(worlds_of(spec_of(values)))
    average = learner.network.weights_as_arrays()
    for number in range(2):
        learner.learn(number)
        average = type(average)(
            *(
                0.75 * old + 0.25 * new
                for old, new in zip(average, learner.network.weights_as_arrays(), strict=True)
            )
        )
    learner.close()
    train(spec_of(values), tmp_path / "second")
    kept = np.load(next((tmp_path / "second" / "run" / "checkpoints").glob("*2")) / "arrays.npz")
    for name, array in average._asdict().items():
        np.testing.assert_allclose(kept[f"average.{name}"], array, rtol=1e-5, atol=1e-7)
    model = read_model(tmp_path / "second").spec
    assert (model.considered, model.overtaken_at_most) == (5, 7)


def test_advantages_are_over_the_others_of_the_group() -> None:
    """Worked by hand: two groups of two episodes of two jobs."""
    from agents.drl.training.learners.reinforce import advantages_of

    by_job = np.array([[-1.0, -2.0], [-3.0, 0.0], [0.0, 0.0], [0.0, -4.0]])
    expected = [[1.0, -2.0], [-1.0, 2.0], [2.0, 4.0], [-2.0, -4.0]]
    np.testing.assert_allclose(advantages_of(by_job, 2, 0.5), expected)


def test_transitions_span_several_steps() -> None:
    """Worked by hand: of two rows, one of which ends."""
    from agents.drl.kernel.acting import Record
    from agents.drl.training.learners.replay import transitions_of

    record = Record(
        length=np.array([3, 2]),
        observations=np.arange(8, dtype=np.float32).reshape(2, 4, 1),
        masks=np.ones((2, 4, 2), np.bool_),
        actions=np.array([[0, 1, 0], [1, 0, 9]], np.int32),
        rewards=np.array([[1, 2, 4], [8, 16, 99]], np.float32),
        discounts=np.array([[0.5, 1, 0.5], [1, 0, 99]], np.float32),
        heads=np.zeros((2, 3), np.int32),
    )
    found = transitions_of(record, 2)
    assert found.action.tolist() == [0, 1, 0, 1, 0]
    assert found.reward.tolist() == [2, 6, 4, 24, 16]
    assert found.discount.tolist() == [0.5, 0.5, 0.5, 0, 0]
    assert found.next_observation[:, 0].tolist() == [2, 3, 3, 6, 6]


def test_a_teacher_is_watched(tiny: dict[str, Any]) -> None:
    """Its choices are allowed, and those it makes."""
    from agents.drl.training.teaching import Lesson, watch
    from agents.drl.training.worlds import worlds_of

    worlds = worlds_of(spec_of({**tiny, **SMALL["reinforce"]}))
    (workload,) = worlds.by_workload
    vms = worlds.by_workload[workload].vms
    found = watch(Lesson("ff", {}, workload, 0, vms, worlds.observation, 1))
    assert found.mask[found.target > 0].all()
    np.testing.assert_allclose(found.target.sum(1), 1)
    first = {"vms": found.target[0].nonzero()[0].tolist()}
    assert first == {"vms": [1]}  # first fit begins with the first VM of the daemon's order


@pytest.mark.parametrize("path", sorted((SHIPPED / "train").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_files_are_valid(path: Path) -> None:
    """As they stand in conf/train."""
    assert load(path, TrainingSpec).iterations > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{algorithm: ppo, iterations: 1}", "algorithm"),
        ("{algorithm: dqn}", "iterations: missing"),
        ("{algorithm: dqn, iterations: 1, reinforce: {}}", "for the other algorithm"),
        ("{algorithm: dqn, iterations: 1, mask: false}", "should be true with dense rewards"),
        (
            "{algorithm: dqn, iterations: 1, evaluation: {first_seed: 90}}",
            "should not overlap with 100 to 119",
        ),
        (
            "{algorithm: dqn, iterations: 1, evaluation: {first_seed: 41100}}",
            "should not overlap with 40000 to 99999",
        ),
        ("{algorithm: dqn, iterations: 1, evaluation: {first_seed: 4294967296}}", "less than"),
        ("{algorithm: reinforce, iterations: 1, reinforce: {rollouts: 1}}", "should be 2 or more"),
        ("{algorithm: dqn, iterations: 1, dqn: {epsilon: {first: 5, last: 0}}}", "at most 1"),
        ("{algorithm: dqn, iterations: 1, objective: {dollars: 1.0e-300}}", "objective.dollars: should be"),
        ("{algorithm: dqn, iterations: 1, workloads: {burst: .inf}}", "workloads.burst: should be"),
        ("{algorithm: dqn, iterations: 1, drawn: {jobs: [8, 5]}}", "jobs: the first should be at most"),
        ("{algorithm: dqn, iterations: 1, drawn: {betas: [1, 0]}}", "betas: the first should be at most"),
        ("{algorithm: reinforce, iterations: 1, rewards: paper}", "should be none with the paper's rewards"),
        ("{algorithm: dqn, iterations: 1, observation: {name: paper}}", r"should be \[\]"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(text: str, message: str) -> None:
    """The error has the key and the correct form."""
    with pytest.raises(ConfigError, match=message):
        parse(text, TrainingSpec, "here.yaml")


def file_of(values: dict[str, Any], folder: Path) -> str:
    """A training file with these values."""
    path = folder / "train.yaml"
    path.write_text(yaml.safe_dump(values))
    return str(path)


@pytest.mark.parametrize("algorithm", ["reinforce", "dqn"])
def test_a_training_that_diverges_is_one_line(
    algorithm: str, tiny: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the iteration and the settings to change; the exit code is that of bad input."""
    rate = {"learning_rate": {"first": 1e30, "last": 1e30}, "gradient_norm": None}
    config = file_of({**tiny, **SHORT[algorithm], **rate, "iterations": 60}, tmp_path)
    assert main(["train", "--config", config, "--out", str(tmp_path / "out")]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if "diverged" in line]
    assert len(said) == 1
    assert re.search(
        r"training diverged at iteration \d+: .*smaller learning_rate \(it was 1e\+30\)", said[0]
    )


def test_train_says_what_came_beside_greedy_and_what_is_next(
    tiny: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The evaluation with its unit, and which way is better."""
    config = file_of({**tiny, **SHORT["reinforce"]}, tmp_path)
    out = tmp_path / "out"
    assert main(["train", "--config", config, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "It is minus the return per job, in the reward's own unit: less is better." in said
    workload = next(iter(tiny["workloads"]))
    assert re.search(rf"On {workload}, seeds \d+ to \d+: \$.*; under greedy \$", said)
    assert said.rstrip().splitlines()[-1] == f"  policy: reinforce:model={out}"
    command = next(line for line in said.splitlines() if line.startswith("  stoker evaluate "))
    assert main([*command.split()[1:], "--seeds", "1"]) == 0
