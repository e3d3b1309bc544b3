"""The episodes that an agent is trained and evaluated on, drawn from the workloads of a training file.

Every draw depends on the file's seed and its own number alone, so a run that was stopped goes on as if it
had not been. Training seeds and those of evaluation never meet (see `environment.training.episodes`).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from agents.drl.training.drawn import DrawnWorld, draw_world, episode_of_world
from conf.schema.training import DrawnSpec, TrainingSpec
from conf.util.counted import counted
from environment.clusters.cluster_files import load_cluster
from environment.kernel.observation import features_of, observation_length
from environment.kernel.rule_options import ObservationOptions
from environment.kernel.state import Episode
from environment.simulation.durations.beliefs import Belief
from environment.training.episodes import FIRST_TRAINING_SEED, Episodes, episodes
from environment.types import Vm

#: Streams of random numbers, apart from each other.
WORKLOADS, ACTIONS, SAMPLES, TEACHING = 0, 1, 2, 3


def random_of(spec: TrainingSpec, stream: int, number: int) -> np.random.Generator:
    """The random numbers of one stream for one iteration."""
    return np.random.default_rng((spec.seed, stream, number))


class EpisodeBatch(NamedTuple):
    """Episodes on clusters of one size, and the weight of cost in them."""

    episodes: list[Episode]
    beta: float


@dataclass(frozen=True, slots=True)
class Worlds:
    """Training worlds, by workload or random, and the observation of them.

    Random worlds have clusters of several sizes; a consumer that needs one size, such as a SavedModel, uses
    that of the training file's `cluster`.
    """

    spec: TrainingSpec
    cluster: tuple[Vm, ...]
    by_workload: dict[str, Episodes]
    observation: ObservationOptions

    @property
    def vms(self) -> int:
        """Number of VMs."""
        return len(self.cluster)

    @property
    def length(self) -> int:
        """Numbers in an observation."""
        return observation_length(self.vms, self.observation.layout)

    @property
    def features(self) -> tuple[int, int]:
        """Numbers of each VM in an observation, and behind them."""
        return features_of(self.observation.layout)

    def weighing(self, beta: float) -> "Worlds":
        """The same with `beta` as weight of cost."""
        goal = self.spec.objective.model_copy(update={"beta": beta})
        spec = self.spec.model_copy(update={"objective": goal})
        return replace(self, spec=spec, observation=replace(self.observation, beta=beta))

    def draw_lot(self, number: int, count: int) -> EpisodeBatch:
        """The same as `draw`; of drawn worlds with a beta of the iteration's own."""
        if (drawn := self.spec.drawn) is None:
            return EpisodeBatch(self.draw(number, count), self.spec.objective.beta)
        random = random_of(self.spec, WORKLOADS, number)
        vms, beta = _drawn_size(drawn, random), float(random.uniform(*drawn.betas))
        seeds = random.integers(FIRST_TRAINING_SEED, 2**62, count)
        return EpisodeBatch([self._drawn_episode(drawn, vms, int(seed)) for seed in seeds], beta)

    def watched(self, count: int) -> list[tuple[DrawnWorld, float]]:
        """Random worlds, each with a beta, in which a teacher is to be watched."""
        if (drawn := self.spec.drawn) is None:
            return []
        random = random_of(self.spec, TEACHING, 0)
        seeds = random.integers(FIRST_TRAINING_SEED, 2**62, count)
        return [
            (draw_world(drawn, _drawn_size(drawn, random), int(seed)), float(random.uniform(*drawn.betas)))
            for seed in seeds
        ]

    def _drawn_episode(self, drawn: DrawnSpec, vms: int, seed: int) -> Episode:
        return episode_of_world(draw_world(drawn, vms, seed), self.observation.unknown_seconds)

    def draw(self, number: int, count: int) -> list[Episode]:
        """Fresh episodes for the iteration of that number."""
        random, names = random_of(self.spec, WORKLOADS, number), list(self.by_workload)
        weights = np.array(list(self.spec.workloads.values()))
        chosen = random.choice(len(names), count, p=weights / weights.sum())
        seeds = random.integers(FIRST_TRAINING_SEED, 2**62, count)
        return [self.by_workload[names[which]](int(seed)) for which, seed in zip(chosen, seeds, strict=True)]

    def fingerprint(self) -> str:
        """A short text, another one where VMs or jobs are others: the spec only names their files."""
        found = hashlib.sha256()
        for lot in self.evaluated().values():
            machines, jobs = lot.episodes[0]
            for array in (*machines, *jobs):
                found.update(array.tobytes())
        return found.hexdigest()[:16]

    def evaluated(self) -> dict[str, EpisodeBatch]:
        """The episodes on which the agent is evaluated while it learns, by name."""
        first, count = self.spec.evaluation.first_seed, self.spec.evaluation.seeds
        seeds, drawn = range(first, first + count), self.spec.drawn
        if drawn is None:
            beta = self.spec.objective.beta
            return {
                name: EpisodeBatch([of(seed) for seed in seeds], beta)
                for name, of in self.by_workload.items()
            }
        return {
            name: EpisodeBatch([self._drawn_episode(drawn, vms, seed) for seed in seeds], beta)
            for name, vms, beta in evaluated_sizes(drawn)
        }


def evaluated_sizes(drawn: DrawnSpec) -> list[tuple[str, int, float]]:
    """Names, numbers of VMs and betas of the drawn worlds on which an agent is evaluated."""
    low, high = drawn.betas
    sizes, betas = sorted(drawn.vms), (0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high)
    chosen = dict.fromkeys((sizes[len(sizes) // 4], sizes[len(sizes) // 2], sizes[-1]))
    return [
        (f"{counted(vms, 'VM')}, beta {beta:g}", vms, beta) for vms in chosen for beta in dict.fromkeys(betas)
    ]


def worlds_of(spec: TrainingSpec) -> Worlds:
    """Read the workloads and the cluster; ConfigError or WorkloadError for invalid ones."""
    seen = spec.observation
    options = ObservationOptions(
        seen.name, seen.types, seen.upcoming, seen.unknown_seconds, spec.objective.beta
    )
    belief = Belief.read(spec.belief)
    found = {
        name: episodes(name, spec.cluster, seen.types, belief, seen.unknown_seconds)
        for name in (spec.workloads if spec.drawn is None else ())
    }
    return Worlds(spec, load_cluster(spec.cluster), found, options)


def _drawn_size(drawn: DrawnSpec, random: np.random.Generator) -> int:
    weights = np.array(list(drawn.vms.values()))
    return int(random.choice(list(drawn.vms), p=weights / weights.sum()))


def repeated(found: Sequence[Episode], times: int) -> list[Episode]:
    """Each episode that many times in a row."""
    return [episode for episode in found for _ in range(times)]
