"""Many episodes at once, each with a workload of its own, begun anew with the next one when it is over.

It serves the environments for TF-Agents and Gymnasium alike. Importing it imports numba.
"""

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType

import numpy as np

from environment.kernel.batch_step import Stepper
from environment.kernel.rewards import cost
from environment.kernel.rule_options import DurationOptions, ObservationOptions, RewardOptions, rules
from environment.kernel.state import (
    VIOLATED,
    BoolArray,
    Episode,
    Float32Array,
    enlarged,
    load_episode,
    longest,
    make_batch,
)
from environment.training.episodes import Episodes
from environment.types import FloatArray, IntArray


class Arena:
    """`size` episodes side by side. Close it when done, or use it in a `with`.

    The arrays are written by `begin` and `step`, and are always the same ones:
        observations: float32 [B, L], see `environment.kernel.observation`.
        masks: bool [B, N + 1], see `write_mask`. Waiting is allowed when an episode is over, so that
            something always is; the action is ignored then.
        rewards: float64 [B].
        done: bool [B].
    """

    def __init__(
        self,
        episodes: Callable[[int], Episode],
        seeds: Iterator[int],
        size: int = 1,
        *,
        rewards: RewardOptions | None = None,
        durations: DurationOptions | None = None,
        observation: ObservationOptions | None = None,
        whole: bool = True,
        threads: int = 1,
    ) -> None:
        """Allocate the episodes; they are there when they `begin`. `whole` concerns the masks.

        ValueError when the observation tells other job types apart than the episodes do.
        """
        if size < 1:
            raise ValueError(f"size: should be 1 or more episodes, found {size}")
        seen = observation or ObservationOptions()
        if seen.types and isinstance(episodes, Episodes) and episodes.types != seen.types:
            raise ValueError(f"types: the observation has {seen.types}, the episodes have {episodes.types}")
        numbers = rewards or RewardOptions(), durations or DurationOptions()
        self.seeds = seeds
        self._episodes = episodes
        self._stepper = Stepper(
            make_batch([episodes(next(seeds))] * size, rules(*numbers)),
            threads=threads,
            whole=whole,
            observation=seen.layout,
        )
        self.observations: Float32Array = self._stepper.observations
        self.masks: BoolArray = self._stepper.masks
        self.rewards: FloatArray = self._stepper.rewards
        self.done: BoolArray = self._stepper.done

    def begin(self, which: BoolArray | None = None) -> None:
        """Begin with the episodes of the next seeds where `which`, bool [B], is true; or in all rows."""
        chosen = np.ones(len(self.done), np.bool_) if which is None else which
        self._load({row: self._episodes(next(self.seeds)) for row in np.flatnonzero(chosen).tolist()})
        self._stepper.reset(chosen)

    def step(self, actions: IntArray) -> None:
        """Apply one action in every episode, int64 [B]: 0 waits, i puts an executor on the i-th VM.

        Episodes that are over begin instead with the next seed; their reward is 0 then.
        """
        over = self.done.copy()
        self._stepper.step(actions)
        if over.any():
            self.begin(over)
        self.masks[:, 0] |= self.done

    def violated(self) -> BoolArray:
        """Episodes that are over because of an action against the rules; bool [B]."""
        ended: BoolArray = self._stepper.batch.state.over == VIOLATED
        return ended

    def clock(self) -> FloatArray:
        """Seconds since each workload began; float64 [B]."""
        return self._stepper.batch.state.clock.copy()

    def cost(self) -> FloatArray:
        """Dollars that each episode's VMs cost up to its clock; float64 [B]."""
        return np.array([cost(self._stepper.batch, row) for row in range(len(self.done))])

    def close(self) -> None:
        """End the threads."""
        self._stepper.close()

    def __enter__(self) -> "Arena":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _load(self, episodes: Mapping[int, Episode]) -> None:
        """Load the episodes into their rows, which become longer when that is needed."""
        batch = self._stepper.batch
        room = batch.jobs.arrival.shape[1], batch.state.placement.shape[1]
        jobs, executors = longest(episodes.values())
        if jobs > room[0] or executors > room[1]:
            batch = self._stepper.batch = enlarged(batch, max(jobs, room[0]), max(executors, room[1]))
        for row, episode in episodes.items():
            load_episode(batch, row, episode)
