"""Deep Q-learning on random worlds."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agents.drl.collecting import make_record
from conf.loader import build
from conf.schema.training import TrainingSpec

if TYPE_CHECKING:
    from agents.drl.training.learners.dqn_worlds import DrawnDqnLearner
    from agents.drl.training.worlds import Worlds

#: What TensorFlow and TF-Agents say when they are imported and compile.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::SyntaxWarning"),
]

SPEC: dict[str, Any] = {
    "algorithm": "dqn", "iterations": 10, "considered": 4, "threads": 1, "network": {"hidden": 8},
    "drawn": {"vms": {3: 1, 5: 1}, "pools": 0.5, "jobs": [6, 9]},
    "observation": {"name": "natural", "types": []},
    "objective": {"completion": 1.0, "waiting": 0, "dollars": 1, "seconds": 1},
    "evaluation": {"every": 2, "seeds": 1},
    "dqn": {
        "double": True, "batch": 8, "buffer": 60, "episodes": 2, "collected": 20, "steps": 5,
        "epsilon": {"first": 0.5, "last": 0.5},
    },
}  # fmt: skip


def worlds(values: dict[str, Any] = SPEC) -> "Worlds":
    """Worlds to train on."""
    from agents.drl.training.worlds import worlds_of

    return worlds_of(build(TrainingSpec, values, "spec"))


def learner(values: dict[str, Any] = SPEC) -> "DrawnDqnLearner":
    """A learner with fresh weights."""
    from agents.drl.training.learners.dqn_worlds import DrawnDqnLearner
    from agents.drl.training.learners.learner import learner_of

    made = learner_of(worlds(values))
    assert isinstance(made, DrawnDqnLearner)
    return made


@pytest.mark.slow
def test_it_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    """Bit by bit, with clusters of both sizes on both sides of the stop."""
    from agents.drl.training import checkpoints
    from agents.drl.training.checkpoints import Checkpoint

    whole, follower = learner(), learner()
    for number in range(4):
        whole.learn(number)
    checkpoints.save(tmp_path, 4, whole.checkpoint, Checkpoint({}, dict(whole.arrays())))
    assert {name.split(".")[1] for name in whole.arrays() if name.startswith("replay.")} == {"3", "5"}
    before = checkpoints.restore(tmp_path, follower.checkpoint)
    assert before is not None
    follower.restore(before.arrays)
    for number in range(4, 8):
        whole.learn(number)
        follower.learn(number)
    pairs = zip(whole.network.weights_as_arrays(), follower.network.weights_as_arrays(), strict=True)
    assert all((one == other).all() for one, other in pairs)


def test_it_begins_with_the_decisions_of_its_first_weights() -> None:
    """Their scores become small values, which decide the same: first episodes are those of the reference."""
    never = {**SPEC, "dqn": {**SPEC["dqn"], "epsilon": {"first": 0.0, "last": 0.0}}}
    _, told = learner(never).learn(0)
    assert told["gained"] == 0.0
    _, told = learner().learn(0)
    assert told["gained"] != 0.0


def test_rewards_are_over_those_of_the_reference() -> None:
    """The last step of each job loses what the reference got for as many jobs, all scaled by its spread."""
    from agents.drl.training.learners.dqn_worlds import compared

    record = make_record(2, 4, 1, 1)
    record.length[:] = 4, 3
    record.heads[:] = [[0, 0, 1, 2], [0, 1, 1, 9]]
    record.rewards[:] = [[1, 2, 3, 4], [5, 6, 7, 8]]
    found = compared(record, np.array([[10.0, 20.0], [30.0, 40.0]]))
    assert (found.rewards * 5).tolist() == [[1, -8, -17, 4], [-25, 6, -33, 8]]
    assert record.rewards.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_a_network_for_another_length_has_the_same_variables_alone() -> None:
    """Others would be reported by TensorFlow as without gradients, and saved."""
    import tensorflow as tf

    network = learner().network
    [of_vm, _] = worlds().features
    length = network.input_tensor_spec.shape[0] + of_vm
    other = network.of_length(tf.TensorSpec((length,), tf.float32))
    other.create_variables()
    assert [variable.ref() for variable in other.variables] == [one.ref() for one in network.variables]
