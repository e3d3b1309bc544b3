"""The environment for TF-Agents: many episodes in one call. The only module here that imports TensorFlow."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from environment.kernel.rule_options import DurationOptions, ObservationOptions, RewardOptions
from environment.kernel.state import BoolArray, Episode, Float32Array
from environment.training.vector_episodes import Arena


class ClusterEnvironment(py_environment.PyEnvironment):  # type: ignore[misc]  # TF-Agents is not typed
    """A batched `PyEnvironment` with a fresh workload for every episode.

    Observation: {"observation": float32 [B, L], "mask": bool [B, N + 1]}, without a mask the first alone.
    Action: int32 [B], 0 waits, i puts an executor on the i-th VM. Reward: float32 [B]. Discount: float32 [B],
    0 when an episode is over, else `discount`. The step after an episode's last one ignores its action and
    is the first of the next.
    """

    def __init__(
        self,
        episodes: Callable[[int], Episode],
        seeds: Iterator[int],
        size: int = 1,
        *,
        mask: bool = True,
        discount: float = 1.0,
        rewards: RewardOptions | None = None,
        durations: DurationOptions | None = None,
        observation: ObservationOptions | None = None,
        whole: bool = True,
        threads: int = 1,
    ) -> None:
        """See `Arena`; `episodes` come from `environment.training.episodes`."""
        super().__init__()
        if not 0 <= discount <= 1:
            raise ValueError(f"discount: should be between 0 and 1, found {discount}")
        self._arena = Arena(
            episodes,
            seeds,
            size,
            rewards=rewards,
            durations=durations,
            observation=observation,
            whole=whole,
            threads=threads,
        )
        self._mask, self._discount = mask, np.float32(discount)

    @property
    def batched(self) -> bool:
        """True, for one episode too."""
        return True

    @property
    def batch_size(self) -> int:
        """Number of episodes."""
        return len(self._arena.done)

    def observation_spec(self) -> array_spec.ArraySpec | dict[str, array_spec.ArraySpec]:
        """Observation spec of one episode."""
        seen = array_spec.ArraySpec(self._arena.observations.shape[1:], np.float32, "observation")
        if not self._mask:
            return seen
        return {
            "observation": seen,
            "mask": array_spec.ArraySpec(self._arena.masks.shape[1:], np.bool_, "mask"),
        }

    def action_spec(self) -> array_spec.BoundedArraySpec:
        """Wait, or one of the VMs."""
        return array_spec.BoundedArraySpec((), np.int32, 0, self._arena.masks.shape[1] - 1, "action")

    def close(self) -> None:
        """End the threads."""
        self._arena.close()

    def _reset(self) -> ts.TimeStep:
        self._arena.begin()
        return ts.restart(self._observation(), self.batch_size)

    def _step(self, action: NDArray[np.int32]) -> ts.TimeStep:
        first = self._arena.done.copy()
        self._arena.step(np.asarray(action, np.int64))
        last = self._arena.done
        return ts.TimeStep(
            np.where(first, ts.StepType.FIRST, np.where(last, ts.StepType.LAST, ts.StepType.MID)).astype(
                np.int32
            ),
            self._arena.rewards.astype(np.float32),
            np.where(first, np.float32(1), np.where(last, np.float32(0), self._discount)),
            self._observation(),
        )

    def _observation(self) -> Float32Array | dict[str, Float32Array | BoolArray]:
        """Copies, since the arena writes into the same arrays again."""
        seen = self._arena.observations.copy()
        return {"observation": seen, "mask": self._arena.masks.copy()} if self._mask else seen
