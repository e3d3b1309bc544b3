"""The environment for Gymnasium: importing this module registers `stoker/Cluster-v0`, alone and as a vector.

    import environment.training.gym
    env = gymnasium.make("stoker/Cluster-v0", workload="burst", cluster="paper", observation="rich")
    envs = gymnasium.make_vec("stoker/Cluster-v0", 64, vectorization_mode="vector_entry_point")

Options of both are those of `make_arena`. Every episode has a workload of its own. `reset(seed=1)` begins
the training workloads of that seed; `reset(options={"workload_seed": 7})` plays the workload of seed 7.
`info` has the mask of legal actions, `action_mask`; at an episode's end `clock` (seconds), `cost` (dollars)
and `violated` (whether an action was against the rules).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from environment.kernel.rule_options import DurationOptions, ObservationOptions, RewardOptions
from environment.kernel.state import BoolArray, Float32Array
from environment.simulation.durations.beliefs import Belief
from environment.training.episodes import WorkloadSource, episodes, training_seeds
from environment.training.vector_episodes import Arena
from environment.types import FloatArray, IntArray, Vm
from profiles.job_profile import load_profiles
from profiles.workloads.workload import Workload

_ID = "stoker/Cluster-v0"
_RESET_OPTIONS = {"workload_seed"}
#: Gymnasium warns of a bound that is infinite.
_HIGHEST = float(np.finfo(np.float32).max)

Info = dict[str, Any]


def make_arena(
    size: int,
    *,
    workload: str | Path | Workload | WorkloadSource = "normal",
    cluster: str | Path | Sequence[Vm] = "paper",
    observation: str | ObservationOptions = "paper",
    seed: int = 0,
    pool: int | None = None,
    rewards: RewardOptions | None = None,
    durations: DurationOptions | None = None,
    belief: str | float = "exact",
    whole: bool = True,
    threads: int = 1,
) -> Arena:
    """Episodes of the training workloads of `seed`, of no more than `pool` different ones if given.

    `belief` is an agent's belief about the ends of jobs: `exact`, `spread`, `constant`, or a number, see
    `environment.simulation.durations.beliefs.Belief`.

    An observation by name tells the types of the shipped profiles apart. ConfigError, WorkloadError or
    ValueError name the error in a name or an option.
    """
    seen = _seen(observation) if isinstance(observation, str) else observation
    return Arena(
        episodes(workload, cluster, seen.types, Belief.read(belief), seen.unknown_seconds),
        training_seeds(seed, pool),
        size,
        rewards=rewards,
        durations=durations,
        observation=seen,
        whole=whole,
        threads=threads,
    )


class ClusterEnv(gymnasium.Env[Float32Array, np.int64]):
    """One episode after another; action 0 waits, i puts an executor of the head on the i-th VM."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  Gymnasium's own form

    def __init__(self, render_mode: None = None, pool: int | None = None, **options: Any) -> None:
        self.render_mode, self._pool = render_mode, pool
        self._arena = make_arena(1, pool=pool, **options)
        self.observation_space, self.action_space = _spaces(self._arena)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Float32Array, Info]:
        """Begin the next episode; see the module for seeds."""
        super().reset(seed=seed)
        _begin(self._arena, seed, self._pool, options)
        return self._arena.observations[0].copy(), {"action_mask": self._arena.masks[0].copy()}

    def step(self, action: np.int64 | int) -> tuple[Float32Array, float, bool, bool, Info]:
        """Apply an action. An episode never ends otherwise than by itself (it is not truncated)."""
        arena = self._arena
        if arena.done[0]:
            raise gymnasium.error.ResetNeeded("the episode is over; call reset()")
        arena.step(np.array([action], np.int64))
        done = bool(arena.done[0])
        info = {"action_mask": arena.masks[0].copy()}
        if done:
            ended = {"clock": arena.clock(), "cost": arena.cost(), "violated": arena.violated()}
            info |= {name: values[0] for name, values in ended.items()}
        return arena.observations[0].copy(), float(arena.rewards[0]), done, False, info

    def action_masks(self) -> BoolArray:
        """The mask of legal actions, bool [N + 1], by the name under which sb3-contrib asks for it."""
        legal: BoolArray = self._arena.masks[0].copy()
        return legal

    def close(self) -> None:
        """End the threads."""
        self._arena.close()


class VectorClusterEnv(VectorEnv[Float32Array, IntArray, NDArray[Any]]):
    """Many episodes in one call; the step after an episode's last one begins the next."""

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self, num_envs: int = 1, render_mode: None = None, pool: int | None = None, **options: Any
    ) -> None:
        self.num_envs, self.render_mode, self._pool = num_envs, render_mode, pool
        self._arena = make_arena(num_envs, pool=pool, **options)
        self.single_observation_space, self.single_action_space = _spaces(self._arena)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Float32Array, Info]:
        """Begin all episodes anew; with a `workload_seed` s, those of the seeds s, s + 1, ..."""
        super().reset(seed=seed)
        _begin(self._arena, seed, self._pool, options)
        return self._arena.observations.copy(), self._info()

    def step(self, actions: IntArray) -> tuple[Float32Array, FloatArray, BoolArray, BoolArray, Info]:
        """Apply an action in every episode, int64 [B]."""
        self._arena.step(np.asarray(actions, np.int64))
        done = self._arena.done.copy()
        return (
            self._arena.observations.copy(),
            self._arena.rewards.copy(),
            done,
            np.zeros_like(done),
            self._info(),
        )

    def close_extras(self, **_: Any) -> None:
        """End the threads."""
        self._arena.close()

    def _info(self) -> Info:
        """Combined infos in Gymnasium's form: `_name` marks the episodes with a `name`."""
        arena, always = self._arena, np.ones(self.num_envs, np.bool_)
        info: Info = {"action_mask": arena.masks.copy(), "_action_mask": always}
        if arena.done.any():
            done = arena.done.copy()
            ended = {"clock": arena.clock(), "cost": arena.cost(), "violated": arena.violated()}
            for name, values in ended.items():
                info |= {name: values, f"_{name}": done}
        return info


def _seen(name: str) -> ObservationOptions:
    types = tuple(load_profiles()) if name == "rich" else ()
    return ObservationOptions(name, types)  # type: ignore[arg-type]  # which are known is checked there


def _spaces(arena: Arena) -> tuple[spaces.Space[Float32Array], spaces.Space[np.int64]]:
    seen: spaces.Space[Any] = spaces.Box(0.0, _HIGHEST, arena.observations.shape[1:], np.float32)
    return seen, spaces.Discrete(arena.masks.shape[1])


def _begin(arena: Arena, seed: int | None, pool: int | None, options: Info | None) -> None:
    unknown = set(options or ()) - _RESET_OPTIONS
    if unknown:
        known = ", ".join(_RESET_OPTIONS)
        raise ValueError(f"{', '.join(sorted(unknown))}: no such option of reset; known is {known}")
    if seed is not None:
        arena.seeds = training_seeds(seed, pool)
    if options and "workload_seed" in options:
        arena.seeds, later = _from(options["workload_seed"], len(arena.done)), arena.seeds
        arena.begin()
        arena.seeds = later
    else:
        arena.begin()


def _from(seed: object, size: int) -> Iterator[int]:
    if not isinstance(seed, int) or seed < 0:
        raise ValueError(f"workload_seed: should be a whole number of 0 or more, found {seed!r}")
    return iter(range(seed, seed + size))


if _ID not in gymnasium.registry:
    gymnasium.register(
        _ID,
        "environment.training.gym:ClusterEnv",
        vector_entry_point="environment.training.gym:VectorClusterEnv",
    )
