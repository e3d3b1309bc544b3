"""The interface of learners, and the one that a training file asks for."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from agents.drl.model_folder import TrainedModelError, find_model, read_model
from agents.drl.network import Flat, SharedWeights, first_flat, first_shared
from agents.drl.networks_tf import ScoreNetwork
from agents.drl.training.learners.dqn import DqnLearner
from agents.drl.training.learners.dqn_worlds import DrawnDqnLearner
from agents.drl.training.learners.reinforce import ReinforceLearner
from agents.drl.training.worlds import Worlds
from conf.loader import ConfigError
from conf.util.counted import counted

#: The score of waiting at first, where worlds are drawn: to place is the rule, and when to wait is learned.
_FIRST_WAIT = -2.0


class Learner(Protocol):
    """Interface of a learner: `ReinforceLearner` or `DqnLearner`."""

    agent: Any
    network: ScoreNetwork

    @property
    def checkpoint(self) -> tf.train.Checkpoint:
        """TensorFlow's variables of it."""
        ...

    def arrays(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Further arrays to save."""
        ...

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Restore the state returned by `arrays`."""
        ...

    def learn(self, number: int) -> tuple[int, dict[str, float]]:
        """Learn from iteration `number` on; return the number of the next one, and the metrics."""
        ...

    def close(self) -> None:
        """End the threads."""
        ...


def learner_of(worlds: Worlds) -> Learner:
    """The learner of the training file, with fresh weights or those it starts from."""
    spec = worlds.spec
    hidden, seed = spec.network.hidden, spec.seed
    weights: SharedWeights | Flat
    if spec.start is not None:
        weights = _weights_of(worlds, spec.start)
    elif spec.network.kind == "shared":
        weights = first_shared(*worlds.features, hidden, seed)
        if spec.drawn is not None:
            weights = weights._replace(wait_offset=np.full(1, _FIRST_WAIT, np.float32))
    else:
        weights = first_flat(worlds.length, worlds.vms, hidden, seed)
    if spec.algorithm == "reinforce":
        return ReinforceLearner(worlds, weights)
    return DqnLearner(worlds, weights) if spec.drawn is None else DrawnDqnLearner(worlds, weights)


def _weights_of(worlds: Worlds, start: str) -> SharedWeights | Flat:
    """The weights of a trained policy; ConfigError when it sees other things, or has another network."""
    try:
        model = read_model(find_model(start))
    except TrainedModelError as error:
        raise ConfigError(f"start: {error}") from error
    for name in ("network", "observation"):
        if getattr(model.spec, name) != getattr(worlds.spec, name):
            raise ConfigError(f"start: {start}: its {name} is another one than this file's")
    if model.spec.vms not in (None, worlds.vms):
        raise ConfigError(
            f"start: {start}: is for {counted(model.spec.vms, 'VM')}, this cluster has {worlds.vms}"
        )
    return model.weights
