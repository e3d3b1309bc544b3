"""Deep Q-learning: TF-Agents' agent learns from steps that compiled code takes with its weights."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.agents.dqn import dqn_agent
from tf_agents.trajectories import StepType, Trajectory

from agents.drl.collecting import Rollouts
from agents.drl.network import Flat, SharedWeights, network_of
from agents.drl.networks_tf import ScoreNetwork, specs, split_mask
from agents.drl.training.experience import how_to_play, rules_of
from agents.drl.training.learners.replay import ReplayBuffer, Transitions, transitions_of
from agents.drl.training.worlds import ACTIONS, SAMPLES, Worlds, random_of
from conf.schema.training import DqnSpec


class DqnLearner:
    """A learner; one call of `learn` is as many iterations as episodes are played side by side.

    The steps for all of them are taken first, so that weights need not be copied for each.
    """

    def __init__(self, worlds: Worlds, weights: SharedWeights | Flat) -> None:
        """Begin with these weights."""
        spec = worlds.spec
        self._worlds, self._numbers = worlds, spec.dqn or DqnSpec()
        time_steps, actions = specs(worlds.length, worlds.vms, mask=spec.mask)
        self.network = ScoreNetwork(tf.TensorSpec((worlds.length,), tf.float32, "observation"), weights)
        self._rate = tf.Variable(0.0)
        kind = dqn_agent.DdqnAgent if self._numbers.double else dqn_agent.DqnAgent
        self.agent = kind(
            time_steps,
            actions,
            self.network,
            optimizer=tf.keras.optimizers.legacy.Adam(self._rate),
            observation_and_action_constraint_splitter=split_mask if spec.mask else None,
            # Discounts come with the steps, since not every step counts the same.
            gamma=1.0,
            gradient_clipping=spec.gradient_norm,
            target_update_period=self._numbers.target_every,
            train_step_counter=tf.Variable(0, dtype=tf.int64),
        )
        self.agent.initialize()
        self._train = train_on(self.agent, self._numbers.batch)
        self._replay = ReplayBuffer(self._numbers.buffer, worlds.length, worlds.vms)
        self._rollouts: Rollouts | None = None
        self._owed, self._begun = 0, 0

    @property
    def checkpoint(self) -> tf.train.Checkpoint:
        """TensorFlow's variables of the learner."""
        return tf.train.Checkpoint(agent=self.agent)

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays to save beside TensorFlow's variables.

        Episodes under way are discarded, so that a run that is stopped here continues as an uninterrupted
        one.
        """
        self.close()
        counts = {"owed": np.array(self._owed), "begun": np.array(self._begun)}
        return {**self._replay.arrays(), **counts}

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Restore the state returned by `arrays`."""
        self._replay.restore(arrays)
        self._owed, self._begun = int(arrays["owed"]), int(arrays["begun"])

    def close(self) -> None:
        """End the threads, and the episodes."""
        if self._rollouts is not None:
            self._rollouts.close()
            self._rollouts = None

    def learn(self, number: int) -> tuple[int, dict[str, float]]:
        """Run the iterations from `number` on; return the number of the next one, and the metrics."""
        spec, counts = self._worlds.spec, self._numbers
        share, rounds = number / spec.iterations, counts.episodes
        self._rate.assign(spec.learning_rate.at(share))
        self._owed += rounds * counts.collected
        self._owed += counts.begin if number == 0 else 0
        taken, weighted, epsilon = 0, 0.0, counts.epsilon.at(share)
        while self._owed > 0:
            steps, rewards = self._collect(epsilon)
            self._owed -= steps
            taken, weighted = taken + steps, weighted + rewards
        sample = self._replay.sample(random_of(spec, SAMPLES, number), rounds * counts.batch)
        loss = self._train(sample, rounds, spec.mask)
        told = {"loss": float(loss), "reward": weighted / taken, "steps": float(taken), "epsilon": epsilon}
        return number + rounds, told

    def _collect(self, epsilon: float) -> tuple[int, float]:
        """Take some steps in all episodes and store them; return their number and sum of rewards."""
        rollouts = self._rollouts_begun()
        how = how_to_play(self._worlds, epsilon=epsilon)
        record = rollouts.play(network_of(self.network.weights_as_arrays()), how)
        found = transitions_of(record, self._numbers.steps)
        self._replay.add(found)
        used = np.arange(record.actions.shape[1]) < record.length[:, None]
        return len(found.action), float(record.rewards[used].sum())

    def _rollouts_begun(self) -> Rollouts:
        """The episodes under way; where one is over, another has begun."""
        spec, size = self._worlds.spec, self._numbers.episodes
        over = np.ones(size, np.bool_) if self._rollouts is None else self._rollouts.over
        count = int(over.sum())
        if count == 0 and self._rollouts is not None:
            return self._rollouts
        self._begun += 1
        episodes = self._worlds.draw(self._begun, count)
        seeds = random_of(spec, ACTIONS, self._begun).integers(0, 2**62, count).tolist()
        if self._rollouts is None:
            self._rollouts = Rollouts(
                episodes,
                seeds,
                rules_of(spec),
                self._worlds.observation,
                steps=self._numbers.collected,
                considered=spec.considered,
                threads=1,
            )
        else:
            self._rollouts.begin(episodes, seeds, np.flatnonzero(over).tolist())
        return self._rollouts


def train_on(agent: Any, batch: int) -> Any:
    """A graph that takes transitions, [R * batch, ...], and their number R of training steps; the mean loss.

    Only the loop is translated from Python: TF-Agents' code needs no translation, and translating it took
    longer.
    """

    def train_on_part(part: Transitions, mask: bool) -> tf.Tensor:
        return agent.train(_trajectories(part, mask=mask)).loss

    train = tf.autograph.experimental.do_not_convert(train_on_part)

    def train_on_all(sample: Transitions, rounds: Any, mask: bool) -> tf.Tensor:
        total = tf.constant(0.0)
        for number in tf.range(rounds):
            here = slice(number * batch, (number + 1) * batch)
            part = tf.nest.map_structure(lambda array, here=here: array[here], sample)
            total += train(part, mask)
        return total / tf.cast(rounds, tf.float32)

    return tf.function(train_on_all, reduce_retracing=True)


def _trajectories(part: Transitions, *, mask: bool) -> Trajectory:
    """Each transition as two steps, [B, 2, ...]; the second one decides nothing."""
    observation = tf.stack((part.observation, part.next_observation), 1)
    masks = tf.stack((part.mask, part.next_mask), 1)
    kinds = tf.fill(tf.shape(observation)[:2], StepType.MID)
    return Trajectory(
        step_type=kinds,
        observation={"mask": masks, "observation": observation} if mask else observation,
        action=tf.stack((part.action, tf.zeros_like(part.action)), 1),
        policy_info=(),
        next_step_type=kinds,
        reward=tf.stack((part.reward, tf.zeros_like(part.reward)), 1),
        discount=tf.stack((part.discount, tf.ones_like(part.discount)), 1),
    )
