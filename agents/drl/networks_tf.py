"""The networks of `network.py` as TF-Agents trains them, and agents' specs. Deciding does without them."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp
from tf_agents.networks import network
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from agents.drl.network import Flat, SharedWeights

#: Score of an action that is not allowed: its probability is 0 in float32.
_FORBIDDEN = -1e9


class ScoreNetwork(network.Network):  # type: ignore[misc]  # TF-Agents is not typed
    """Scores of all actions, float32 [B, N + 1], of observations, float32 [B, L]: a Q-network."""

    def __init__(
        self,
        input_tensor_spec: Any,
        weights: SharedWeights | Flat,
        name: str = "ScoreNetwork",
        shared: list[tf.Variable] | None = None,
    ) -> None:
        """Begin with these weights, or with another network's variables; they are in the weights' order."""
        super().__init__(input_tensor_spec=input_tensor_spec, state_spec=(), name=name)
        self._kind: Any = type(weights)
        self._compute: Any = _shared if isinstance(weights, SharedWeights) else _flat
        named = zip(weights._fields, weights, strict=True)
        self._values = shared or [tf.Variable(value, name=field) for field, value in named]

    def of_length(self, input_tensor_spec: Any) -> "ScoreNetwork":
        """The same network, with the same variables, for observations of another length."""
        return type(self)(input_tensor_spec, self.weights_as_arrays(), shared=list(self._values))

    def call(
        self,
        observation: tf.Tensor,
        step_type: tf.Tensor = None,  # noqa: ARG002  it is TF-Agents' signature
        network_state: Any = (),
        training: bool = False,  # noqa: ARG002
    ) -> tuple[tf.Tensor, Any]:
        """Scores, and the state, which is none; any number of outer dimensions will do."""
        return self.scores(observation), network_state

    def scores(self, observation: tf.Tensor) -> tf.Tensor:
        """Scores [..., N + 1] of observations [..., L]."""
        outer = tf.shape(observation)[:-1]
        flat = tf.reshape(observation, (-1, observation.shape[-1]))
        scores = self._compute(self._kind(*self._values), flat)
        return tf.reshape(scores, tf.concat((outer, scores.shape[-1:]), 0))

    def logits(self, observation: tf.Tensor | Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Scores of the allowed actions, and a very low one of the others; float32 [..., N + 1]."""
        if not isinstance(observation, Mapping):
            return self.scores(observation)
        return tf.where(observation["mask"], self.scores(observation["observation"]), _FORBIDDEN)

    def weights_as_arrays(self) -> SharedWeights | Flat:
        """A copy of the weights, float32 arrays."""
        found: SharedWeights | Flat = self._kind(*(variable.numpy() for variable in self._values))
        return found

    def take(self, weights: SharedWeights | Flat) -> None:
        """Go on with these weights."""
        for variable, value in zip(self._values, weights, strict=True):
            variable.assign(value)


class Actor(ScoreNetwork):
    """Probabilities of all actions in proportion to the exponents of their scores, of allowed ones alone.

    Observations are {"observation": [B, L], "mask": bool [B, N + 1]}, or [B, L] when all is allowed.
    """

    def __init__(
        self,
        input_tensor_spec: Any,
        weights: SharedWeights | Flat,
        name: str = "Actor",
        shared: list[tf.Variable] | None = None,
    ) -> None:
        """Begin with these weights, or with another network's variables; they are in the weights' order."""
        super().__init__(input_tensor_spec, weights, name=name, shared=shared)

    def call(
        self,
        observation: tf.Tensor | Mapping[str, tf.Tensor],
        step_type: tf.Tensor = None,  # noqa: ARG002  it is TF-Agents' signature
        network_state: Any = (),
        training: bool = False,  # noqa: ARG002
    ) -> tuple[tfp.distributions.Categorical, Any]:
        """The distribution of actions, and the state, which is none."""
        return tfp.distributions.Categorical(self.logits(observation), dtype=tf.int32), network_state


class Masked(dict[str, Any]):
    """Observations with their masks, or specs of both.

    It is no plain dictionary: TensorFlow wraps dictionaries when it saves them, and Python's protocols, which
    it uses to inspect saved objects, cannot inspect these wrappers.
    """


def specs(length: int, vms: int, *, mask: bool) -> tuple[ts.TimeStep, tensor_spec.BoundedTensorSpec]:
    """Specs of the environment's time steps and of the agent's actions."""
    seen = tf.TensorSpec((length,), tf.float32, "observation")
    masked = Masked(mask=tf.TensorSpec((vms + 1,), tf.bool, "mask"), observation=seen)
    action = tensor_spec.BoundedTensorSpec((), tf.int32, 0, vms, "action")
    return ts.time_step_spec(masked if mask else seen), action


def split_mask(observation: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Split an observation into the Q-network's input and the action mask: TF-Agents' constraint splitter."""
    return observation["observation"], observation["mask"]


def _shared(weights: SharedWeights, observation: tf.Tensor) -> tf.Tensor:
    """Scores [B, N + 1] of observations [B, L]."""
    features, numbers = weights.vm.shape[0], weights.rest.shape[0]
    vms = (int(observation.shape[-1]) - numbers) // features
    hidden_size = weights.hidden_bias.shape[0]
    table = tf.reshape(observation[:, : vms * features], (-1, features))
    rest = observation[:, vms * features :]
    base = tf.matmul(rest, weights.rest) + weights.hidden_bias
    hidden = tf.reshape(tf.matmul(table, weights.vm), (-1, vms, hidden_size))
    hidden = tf.nn.relu(hidden + base[:, None, :])
    pooled = tf.concat((tf.reduce_mean(hidden, 1), tf.reduce_max(hidden, 1)), -1)
    context = tf.matmul(pooled, weights.pool) + tf.matmul(rest, weights.pool_rest) + weights.pool_bias
    context = tf.nn.relu(context)
    base = tf.matmul(context, weights.place_context) + weights.place_bias
    place = tf.matmul(tf.reshape(hidden, (-1, hidden_size)), weights.place)
    place = tf.nn.relu(tf.reshape(place, (-1, vms, hidden_size)) + base[:, None, :])
    of_vms = tf.linalg.matvec(place, weights.place_score) + weights.place_offset
    wait = tf.nn.relu(tf.matmul(context, weights.wait) + weights.wait_bias)
    of_waiting = tf.linalg.matvec(wait, weights.wait_score) + weights.wait_offset
    return tf.concat((of_waiting[:, None], of_vms), 1)


def _flat(weights: Flat, observation: tf.Tensor) -> tf.Tensor:
    """Scores [B, N + 1] of observations [B, L]."""
    hidden = tf.nn.relu(tf.matmul(observation, weights.hidden) + weights.hidden_bias)
    return tf.matmul(hidden, weights.score) + weights.score_bias
