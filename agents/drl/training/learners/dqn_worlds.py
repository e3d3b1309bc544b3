"""Deep Q-learning on random worlds: clusters of several sizes, a weight of cost for each iteration.

Returns differ more between worlds than between decisions, so a decision is learned by its advantage: rewards
are those of the episode less those of the network's first weights in the same world, job by job. What that
takes away does not depend on the decisions, so the best ones stay the best.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.agents.dqn import dqn_agent
from tf_agents.utils import common

from agents.drl.kernel.acting import Record
from agents.drl.network import Flat, SharedWeights, network_of
from agents.drl.networks_tf import ScoreNetwork, specs, split_mask
from agents.drl.training.experience import how_to_play, rewards_by_job, rollouts_of
from agents.drl.training.learners.dqn import train_on
from agents.drl.training.learners.replay import ReplayBuffer, Transitions, transitions_of
from agents.drl.training.worlds import ACTIONS, SAMPLES, Worlds, random_of
from conf.schema.training import DqnSpec
from environment.kernel.observation import observation_length

#: By what imitated scores, which are logarithms of probabilities, are scaled to be values at first. Chosen: a
#: decision changes the objective by some hundredths of a job's part of it.
_FIRST_VALUES = 0.05
#: Rewards are scaled by no smaller spread. Chosen: half of a job's part of first fit's results.
_LEAST_SPREAD = 0.5
_SCORES = ("place_score", "place_offset", "wait_score", "wait_offset")


class DrawnDqnLearner:
    """A learner; one call of `learn` is one iteration: some whole episodes, and training on steps like them.

    There are as many training steps as `collected` fits into the steps that were played, on steps of
    clusters of the same size, of this iteration or kept ones. The target network follows by
    1 / `target_every` in each.
    """

    def __init__(self, worlds: Worlds, weights: SharedWeights | Flat) -> None:
        """Begin with these weights."""
        spec = worlds.spec
        self._worlds, self._numbers = worlds, spec.dqn or DqnSpec()
        seen = tf.TensorSpec((worlds.length,), tf.float32, "observation")
        self.network = ScoreNetwork(seen, weights)
        self._target = ScoreNetwork(seen, weights, name="TargetScoreNetwork")
        for network in (self.network, self._target):
            network.create_variables()
        self._rate = tf.Variable(0.0)
        self._optimizer = tf.keras.optimizers.legacy.Adam(self._rate)
        self._steps = tf.Variable(0, dtype=tf.int64)
        self._reference: SharedWeights | Flat | None = None
        self._replays: dict[int, ReplayBuffer] = {}
        self.agent = self._agent_for(worlds.vms)
        #: The graph that learns from steps on so many VMs.
        self._train = {worlds.vms: train_on(self.agent, self._numbers.batch)}

    def _agent_for(self, vms: int) -> Any:
        spec, numbers = self._worlds.spec, self._numbers
        length = observation_length(vms, self._worlds.observation.layout)
        seen = tf.TensorSpec((length,), tf.float32, "observation")
        time_steps, actions = specs(length, vms, mask=True)
        kind = dqn_agent.DdqnAgent if numbers.double else dqn_agent.DqnAgent
        return kind(
            time_steps,
            actions,
            self.network.of_length(seen),
            target_q_network=self._target.of_length(seen),
            optimizer=self._optimizer,
            observation_and_action_constraint_splitter=split_mask,
            gamma=1.0,  # discounts come with the steps
            gradient_clipping=spec.gradient_norm,
            target_update_tau=1.0 / numbers.target_every,
            target_update_period=1,
            td_errors_loss_fn=common.element_wise_huber_loss,
            train_step_counter=self._steps,
        )

    @property
    def checkpoint(self) -> tf.train.Checkpoint:
        """TensorFlow's variables of the learner."""
        return tf.train.Checkpoint(agent=self.agent)

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The reference's weights and the kept steps, to save beside TensorFlow's variables."""
        found: dict[str, np.ndarray[Any, Any]] = {}
        if self._reference is not None:
            found |= {f"reference.{name}": array for name, array in self._reference._asdict().items()}
        for vms, replay in self._replays.items():
            found |= {f"replay.{vms}.{name}": array for name, array in replay.arrays().items()}
        return found

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Restore the state returned by `arrays`."""
        kind = type(self.network.weights_as_arrays())
        if f"reference.{kind._fields[0]}" in arrays:
            self._reference = kind(*(arrays[f"reference.{name}"] for name in kind._fields))
        for vms in {int(name.split(".")[1]) for name in arrays if name.startswith("replay.")}:
            head = f"replay.{vms}."
            of = {name.removeprefix(head): array for name, array in arrays.items() if name.startswith(head)}
            self._replay_of(vms).restore(of)

    def close(self) -> None:
        """Nothing is left open between iterations."""

    def learn(self, number: int) -> tuple[int, dict[str, float]]:
        """Run iteration `number`; return the number of the next one, and the metrics."""
        spec, counts = self._worlds.spec, self._numbers
        share = number / spec.iterations
        self._rate.assign(spec.learning_rate.at(share))
        reference = self._begun()
        found, gained, epsilon = self._play(number, reference, counts.epsilon.at(share))
        vms, taken = found.mask.shape[1] - 1, len(found.action)
        replay = self._replay_of(vms)
        replay.add(found)
        rounds = max(1, taken // counts.collected)
        sample = replay.sample(random_of(spec, SAMPLES, number), rounds * counts.batch)
        if vms not in self._train:
            self._train[vms] = train_on(self._agent_for(vms), counts.batch)
        loss = self._train[vms](sample, tf.constant(rounds), mask=True)
        told = {"loss": float(loss), "gained": gained, "steps": float(taken), "epsilon": epsilon}
        return number + 1, told

    def _begun(self) -> SharedWeights | Flat:
        """The weights that others are compared with; at the first call the network begins at their scale."""
        if self._reference is None:
            self._reference = weights = self.network.weights_as_arrays()
            scaled = {name: getattr(weights, name) * np.float32(_FIRST_VALUES) for name in _SCORES}
            for network in (self.network, self._target):
                network.take(weights._replace(**scaled))
        return self._reference

    def _play(
        self, number: int, reference: SharedWeights | Flat, epsilon: float
    ) -> tuple[Transitions, float, float]:
        """The steps of this iteration's episodes, and their mean advantage over the reference by episode."""
        lot = self._worlds.draw_lot(number, self._numbers.episodes)
        worlds = self._worlds.weighing(lot.beta)
        seeds = random_of(self._worlds.spec, ACTIONS, number).integers(0, 2**62, len(lot.episodes)).tolist()
        with rollouts_of(worlds, lot.episodes, seeds, None) as rollouts:
            record = rollouts.play(network_of(reference), how_to_play(worlds))
            before = rewards_by_job(record)
            rollouts.begin(lot.episodes, seeds)
            how = how_to_play(worlds, epsilon=epsilon)
            record = rollouts.play(network_of(self.network.weights_as_arrays()), how)
            gained = float((rewards_by_job(record).sum(1) - before.sum(1)).mean())
            return transitions_of(compared(record, before), self._numbers.steps), gained, epsilon

    def _replay_of(self, vms: int) -> ReplayBuffer:
        if vms not in self._replays:
            length = observation_length(vms, self._worlds.observation.layout)
            self._replays[vms] = ReplayBuffer(self._numbers.buffer, length, vms)
        return self._replays[vms]


def compared(record: Record, before: np.ndarray[Any, Any]) -> Record:
    """The record with rewards less those of the reference, [B, M] by job, taken at each job's last step.

    They are scaled by the spread of a world's jobs, so that worlds in which much is lost count like others.
    """
    rewards = record.rewards.copy()
    for row, length in enumerate(record.length):
        heads = record.heads[row, :length]
        last = np.flatnonzero(np.append(heads[1:] != heads[:-1], True))
        placed = heads[last] < before.shape[1]
        rewards[row, last[placed]] -= before[row, heads[last[placed]]].astype(np.float32)
        rewards[row] /= np.float32(max(float(before[row].std()), _LEAST_SPREAD))
    return record._replace(rewards=rewards)
