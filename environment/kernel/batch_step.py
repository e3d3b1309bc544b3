"""A whole batch at once, its episodes shared between threads. One episode's rules are in `rules.py`."""

import numpy as np

from environment.kernel.compiled import njit
from environment.kernel.observation import observation_length, observe, write_mask
from environment.kernel.rules import reset, step_episode
from environment.kernel.state import RUNNING, Batch, BoolArray, Float32Array, Layout
from environment.kernel.threads import ThreadedRows
from environment.types import FloatArray, IntArray

_PAPER = Layout()


class Stepper(ThreadedRows):
    """Moves a batch, one action per episode at a time. Close it when done, or use it in a `with`.

    The arrays are written by `reset` and `step`, and are always the same ones:
        observations: float32 [B, L], of the given layout, see `environment.kernel.observation`.
        masks: bool [B, N + 1], see `write_mask`.
        rewards: float64 [B].
        done: bool [B], whether the episode is over; its state stays until it is reset.
    """

    def __init__(
        self,
        batch: Batch,
        *,
        threads: int = 1,
        whole: bool = False,
        observation: Layout = _PAPER,
    ) -> None:
        size, vms = batch.machines.milli_cpus.shape
        super().__init__(size, threads)
        self.batch = batch
        self.observations: Float32Array = np.zeros((size, observation_length(vms, observation)), np.float32)
        self.masks: BoolArray = np.zeros((size, vms + 1), np.bool_)
        self.rewards: FloatArray = np.zeros(size)
        self.done: BoolArray = np.zeros(size, np.bool_)
        self._seen = observation, whole
        self.reset()

    def reset(self, which: BoolArray | None = None) -> None:
        """Begin the episodes anew in which `which`, bool [B], is true; all when it is not given."""
        chosen = np.ones(len(self.done), np.bool_) if which is None else which
        self._share(lambda low, high: _reset(self.batch, low, high, chosen, self._seen, self._arrays()))

    def step(self, actions: IntArray) -> None:
        """Apply one action in every episode, int64 [B]: 0 waits, i puts an executor on the i-th VM."""
        self._share(lambda low, high: _step(self.batch, low, high, actions, self._seen, self._arrays()))

    def _arrays(self) -> tuple[Float32Array, BoolArray, FloatArray, BoolArray]:
        return self.observations, self.masks, self.rewards, self.done


@njit(entry=True)
def _step(
    batch: Batch,
    low: int,
    high: int,
    actions: IntArray,
    seen: tuple[Layout, bool],
    out: tuple[Float32Array, BoolArray, FloatArray, BoolArray],
) -> None:
    observations, masks, rewards, done = out
    observation, whole = seen
    for b in range(low, high):
        rewards[b] = step_episode(batch, b, actions[b])
        done[b] = batch.state.over[b] != RUNNING
        observe(batch, b, observation, observations[b])
        write_mask(batch, b, whole, masks[b])


@njit(entry=True)
def _reset(
    batch: Batch,
    low: int,
    high: int,
    which: BoolArray,
    seen: tuple[Layout, bool],
    out: tuple[Float32Array, BoolArray, FloatArray, BoolArray],
) -> None:
    observations, masks, rewards, done = out
    observation, whole = seen
    for b in range(low, high):
        if which[b]:
            reset(batch, b)
            rewards[b], done[b] = 0.0, batch.state.over[b] != RUNNING
            observe(batch, b, observation, observations[b])
            write_mask(batch, b, whole, masks[b])
