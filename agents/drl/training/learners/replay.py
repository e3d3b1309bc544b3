"""The transitions that DQN learns from again and again: the latest ones, in arrays.

TF-Agents' own buffer takes longer for a hundred steps than ten training iterations do; this one is written
and read in bulk.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from agents.drl.kernel.acting import Record
from environment.kernel.state import BoolArray, Float32Array, SmallIntArray
from environment.types import IntArray


class Transitions(NamedTuple):
    """C transitions, each over one step or several."""

    observation: Float32Array  # [C, L]
    mask: BoolArray  # [C, N + 1]
    action: SmallIntArray  # [C]
    reward: Float32Array  # [C] of all its steps, discounted
    discount: Float32Array  # [C] of the rewards after it; 0 when the episode is over
    next_observation: Float32Array  # [C, L]
    next_mask: BoolArray  # [C, N + 1]


class ReplayBuffer:
    """The latest transitions, as many as there is room for."""

    def __init__(self, capacity: int, length: int, vms: int) -> None:
        """Allocate the buffer for observations of a given length and for a given number of VMs."""
        self._kept = Transitions(
            observation=np.zeros((capacity, length), np.float32),
            mask=np.zeros((capacity, vms + 1), np.bool_),
            action=np.zeros(capacity, np.int32),
            reward=np.zeros(capacity, np.float32),
            discount=np.zeros(capacity, np.float32),
            next_observation=np.zeros((capacity, length), np.float32),
            next_mask=np.zeros((capacity, vms + 1), np.bool_),
        )
        self._written = 0

    def __len__(self) -> int:
        """Number of stored transitions."""
        return min(self._written, len(self._kept.action))

    def add(self, new: Transitions) -> None:
        """Store these, the latest where there is no room for all, and drop the oldest when it is full."""
        room = len(self._kept.action)
        count = min(len(new.action), room)
        places = (self._written + np.arange(count)) % room
        for array, values in zip(self._kept, new, strict=True):
            array[places] = values[len(values) - count :]
        self._written += count

    def sample(self, random: np.random.Generator, count: int) -> Transitions:
        """Random transitions, all equally likely, some perhaps more than once."""
        chosen = random.integers(0, len(self), count)
        return Transitions(*(array[chosen] for array in self._kept))

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Full contents, to save them."""
        return {**self._kept._asdict(), "written": np.array(self._written)}

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Restore the state returned by `arrays`."""
        for name, array in self._kept._asdict().items():
            array[:] = arrays[name]
        self._written = int(arrays["written"])


def transitions_of(record: Record, steps: int) -> Transitions:
    """All transitions over n steps that a record holds; over fewer, where it or the episode ends."""
    used = np.arange(record.actions.shape[1]) < record.length[:, None]
    row, at = np.nonzero(used)
    reward, discount = np.zeros(len(row), np.float32), np.ones(len(row), np.float32)
    until: IntArray = at.copy()
    for _ in range(steps):
        # A transition that has reached the record's end stays there.
        goes_on = until < record.length[row]
        step = np.minimum(until, record.length[row] - 1)
        reward += np.where(goes_on, discount * record.rewards[row, step], 0.0).astype(np.float32)
        discount = np.where(goes_on, discount * record.discounts[row, step], discount)
        until = until + goes_on
    return Transitions(
        observation=record.observations[row, at],
        mask=record.masks[row, at],
        action=record.actions[row, at],
        reward=reward,
        discount=discount,
        next_observation=record.observations[row, until],
        next_mask=record.masks[row, until],
    )
