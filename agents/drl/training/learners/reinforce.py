"""REINFORCE: TF-Agents' agent learns from whole episodes, which compiled code plays with its weights."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.agents.reinforce import reinforce_agent
from tf_agents.trajectories import StepType, Trajectory

from agents.drl.network import Flat, SharedWeights
from agents.drl.networks_tf import Actor, specs
from agents.drl.training.experience import EpisodePlayer, Steps, TriedChoices
from agents.drl.training.worlds import ACTIONS, Worlds, random_of, repeated
from conf.schema.training import ReinforceSpec
from environment.kernel.observation import observation_length
from environment.kernel.state import Float32Array
from environment.types import FloatArray, IntArray


class _Agent(reinforce_agent.ReinforceAgent):  # type: ignore[misc]  # TF-Agents is not typed
    """TF-Agents' REINFORCE with a weight of the entropy that changes while it learns."""

    def __init__(self, *args: Any, entropy: tf.Variable, **kwargs: Any) -> None:
        self._weight_of_entropy = entropy
        super().__init__(*args, entropy_regularization=1.0, **kwargs)

    def entropy_regularization_loss(self, actions_distribution: Any, weights: Any = None) -> tf.Tensor:
        loss = super().entropy_regularization_loss(actions_distribution, weights)
        return self._weight_of_entropy * loss


class ReinforceLearner:
    """A learner; one call of `learn` is one iteration."""

    def __init__(self, worlds: Worlds, weights: SharedWeights | Flat) -> None:
        """Begin with these weights."""
        spec = worlds.spec
        self._worlds, self._numbers = worlds, spec.reinforce or ReinforceSpec()
        self._compares = self._numbers.baseline != "none"
        time_steps, actions = specs(worlds.length, worlds.vms, mask=spec.mask)
        self.network = Actor(time_steps.observation, weights)
        self._rate, self._entropy = tf.Variable(0.0), tf.Variable(0.0)
        self._optimizer = tf.keras.optimizers.legacy.Adam(self._rate)
        self._steps = tf.Variable(0, dtype=tf.int64)
        self.agent = self._agent_for(time_steps, actions, self.network)
        #: The function that learns from a row of steps on so many VMs.
        self._train = {worlds.vms: _compiled(self.agent)}
        self._player = EpisodePlayer(worlds)

    def _agent_for(self, time_steps: Any, actions: Any, network: Actor) -> _Agent:
        spec = self._worlds.spec
        agent = _Agent(
            time_steps,
            actions,
            network,
            optimizer=self._optimizer,
            entropy=self._entropy,
            # Where returns are compared, the agent gets advantages, and each of them stands alone.
            gamma=1.0 if self._compares else spec.discount,
            normalize_returns=not self._compares,
            gradient_clipping=spec.gradient_norm,
            train_step_counter=self._steps,
        )
        agent.initialize()
        return agent

    def _learn_from(self, episode: Trajectory) -> Any:
        """One step of learning, by an agent for as many VMs; all have the same network and optimizer."""
        vms = int(episode.observation["mask"].shape[-1]) - 1 if self._worlds.spec.mask else self._worlds.vms
        if vms not in self._train:
            length = observation_length(vms, self._worlds.observation.layout)
            time_steps, actions = specs(length, vms, mask=self._worlds.spec.mask)
            network = self.network.of_length(time_steps.observation)
            self._train[vms] = _compiled(self._agent_for(time_steps, actions, network))
        return self._train[vms](episode)

    def graphs(self) -> int:
        """Number of graphs that TensorFlow has made to learn with: one for each size of clusters."""
        return sum(train.experimental_get_tracing_count() for train in self._train.values())

    @property
    def checkpoint(self) -> tf.train.Checkpoint:
        """TensorFlow's variables of the learner."""
        return tf.train.Checkpoint(agent=self.agent)

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays to save beside TensorFlow's variables: none, since every iteration plays new episodes."""
        return {}

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Restore the state returned by `arrays`."""

    def close(self) -> None:
        """End the threads."""
        self._player.close()

    def learn(self, number: int) -> tuple[int, dict[str, float]]:
        """Run iteration `number`; return the number of the next one, and the metrics."""
        spec, counts = self._worlds.spec, self._numbers
        share = number / spec.iterations
        self._rate.assign(spec.learning_rate.at(share))
        self._entropy.assign(counts.entropy.at(share))
        weights, random = self.network.weights_as_arrays(), random_of(spec, ACTIONS, number)
        drawn, beta = self._worlds.draw_lot(number, counts.workloads)
        if counts.baseline == "trials":
            tried = self._player.explore(
                drawn, weights, random.integers(0, 2**62, len(drawn)).tolist(), counts
            )
            episode, told = self._compared(tried, tried.advantage), {"return": tried.value}
            told["steps"] = float(len(tried.action))
        else:
            drawn = repeated(drawn, counts.rollouts)
            seeds = random.integers(0, 2**62, len(drawn)).tolist()
            steps = self._player.play(drawn, weights, seeds, choices_only=self._compares, beta=beta)
            episode = self._in_groups(steps) if self._compares else self._as_played(steps)
            told = {"return": float(steps.returns.mean()), "steps": float(steps.played)}
        loss = self._learn_from(episode)
        told["loss"] = float(loss.loss)
        told["entropy"] = -float(loss.extra.entropy_regularization_loss) / max(1e-12, float(self._entropy))
        return number + 1, told

    def _in_groups(self, steps: Steps) -> Trajectory:
        """The steps with their advantages over the other episodes of their group.

        The advantage is of the discounted rewards from the step's job on: that of the first job placed in two
        episodes of a workload, of the second, and so on, can be compared.
        """
        advantages = advantages_of(steps.by_job, self._numbers.rollouts, self._worlds.spec.discount)
        found = advantages[steps.row, steps.head]
        if self._worlds.spec.drawn is not None:
            found = alike(found, steps.row // self._numbers.rollouts)
        return self._compared(steps, found)

    def _compared(self, steps: Steps | TriedChoices, advantages: FloatArray) -> Trajectory:
        """One long episode in which each step's return is its advantage; none depends on another."""
        scaled = advantages / max(float(advantages.std()), 1e-8) / max(1, len(advantages))
        count = len(advantages)
        kinds = np.full(count + 1, StepType.MID, np.int32)
        kinds[0], kinds[-1] = StepType.FIRST, StepType.LAST
        return self._trajectory(steps, np.arange(count), kinds, scaled, np.zeros(count))

    def _as_played(self, steps: Steps) -> Trajectory:
        """All episodes one after the other, each followed by a step in which nothing is decided."""
        lengths = steps.length
        places = np.arange(len(steps.action)) + steps.row
        kinds = np.full(len(steps.action) + len(lengths), StepType.MID, np.int32)
        ends = np.cumsum(lengths) + np.arange(len(lengths))
        kinds[ends] = StepType.LAST
        kinds[ends - lengths] = StepType.FIRST
        ones = np.ones(len(steps.action))
        return self._trajectory(steps, places, kinds, steps.reward, ones)

    def _trajectory(
        self,
        steps: Steps | TriedChoices,
        places: np.ndarray[Any, Any],
        kinds: np.ndarray[Any, Any],
        rewards: FloatArray | Float32Array,
        discounts: FloatArray,
    ) -> Trajectory:
        """The steps at their places of one row, [1, T, ...], in which steps of kind LAST decide nothing."""
        total = len(kinds)

        def spread(values: np.ndarray[Any, Any], kind: Any) -> np.ndarray[Any, Any]:
            out = np.zeros((1, total, *values.shape[1:]), kind)
            out[0, places] = values
            return out

        seen = spread(steps.observation, np.float32)
        following = np.append(kinds[1:], StepType.FIRST).astype(np.int32)
        episode = Trajectory(
            step_type=kinds[None],
            observation={"mask": spread(steps.mask, np.bool_), "observation": seen}
            if self._worlds.spec.mask
            else seen,
            action=spread(steps.action, np.int32),
            policy_info=(),
            next_step_type=following[None],
            reward=spread(rewards, np.float32),
            discount=spread(discounts, np.float32),
        )
        return tf.nest.map_structure(tf.convert_to_tensor, episode)


def alike(advantages: FloatArray, group: IntArray) -> FloatArray:
    """Scale advantages to the same spread in each group, so that worlds of large losses count like others."""
    count = np.maximum(np.bincount(group), 1)
    spread = np.sqrt(np.bincount(group, advantages**2) / count)
    scaled: FloatArray = advantages / np.maximum(spread, 1e-8)[group]
    return scaled


def _compiled(agent: _Agent) -> Any:
    """The agent's learning as one graph for any number of steps.

    By default TensorFlow compiles the first call's graph for its number of steps alone, which rounds
    differently: a resumed run would end with other weights. No branch there depends on computed values, so
    its Python, and that of TF-Agents, needs no translation, which took most of a short run's time.
    """
    signature = [_of_any_length(agent.training_data_spec)]
    return tf.function(agent.train, input_signature=signature, autograph=False)


def _of_any_length(step: Trajectory) -> Trajectory:
    """Spec of a row of steps, [1, T, ...], from the spec of one step."""
    return tf.nest.map_structure(lambda of: tf.TensorSpec((1, None, *of.shape), of.dtype), step)


def advantages_of(by_job: FloatArray, rollouts: int, discount: float) -> FloatArray:
    """Discounted returns from each job on, of rewards by job, [B, M], less the others' mean in the group.

    Rows are groups of equal size, each of episodes of one workload, one after the other.
    """
    returns = np.zeros_like(by_job)
    total = np.zeros(len(by_job))
    for job in range(by_job.shape[1] - 1, -1, -1):
        total = by_job[:, job] + discount * total
        returns[:, job] = total
    grouped = returns.reshape(-1, rollouts, by_job.shape[1])
    others = (grouped.sum(1, keepdims=True) - grouped) / (rollouts - 1)
    compared: FloatArray = (grouped - others).reshape(by_job.shape)
    return compared
