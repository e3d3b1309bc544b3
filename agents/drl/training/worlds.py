"""The episodes that an agent is trained and evaluated on, drawn from the workloads of a training file.

Every draw depends on the file's seed and its own number alone, so a run that was stopped goes on as if it
had not been. Training seeds and those of evaluation never meet (see `environment.training.episodes`).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conf.training import TrainingSpec
from environment.kernel.observation import features_of, observation_length
from environment.kernel.rule_options import ObservationOptions
from environment.kernel.state import Episode
from environment.simulation.expectations import Belief
from environment.training.episodes import FIRST_TRAINING_SEED, Episodes, episodes

#: Streams of random numbers, apart from each other.
WORKLOADS, ACTIONS, SAMPLES, TEACHING = 0, 1, 2, 3


def random_of(spec: TrainingSpec, stream: int, number: int) -> np.random.Generator:
    """The random numbers of one stream for one iteration."""
    return np.random.default_rng((spec.seed, stream, number))


@dataclass(frozen=True, slots=True)
class Worlds:
    """What there is to train on, by workload, and what is seen of it."""

    spec: TrainingSpec
    by_workload: dict[str, Episodes]
    observation: ObservationOptions

    @property
    def vms(self) -> int:
        """How many there are."""
        return len(next(iter(self.by_workload.values())).vms)

    @property
    def length(self) -> int:
        """Numbers in an observation."""
        return observation_length(self.vms, self.observation.layout)

    @property
    def features(self) -> tuple[int, int]:
        """Numbers of each VM in an observation, and behind them."""
        return features_of(self.observation.layout)

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
        for name in self.by_workload:
            machines, jobs = self.evaluated(name)[0]
            for array in (*machines, *jobs):
                found.update(array.tobytes())
        return found.hexdigest()[:16]

    def evaluated(self, name: str) -> list[Episode]:
        """The episodes of a workload on which the agent is evaluated while it learns."""
        first, count = self.spec.evaluation.first_seed, self.spec.evaluation.seeds
        return [self.by_workload[name](seed) for seed in range(first, first + count)]


def worlds_of(spec: TrainingSpec) -> Worlds:
    """Read the workloads and the cluster; ConfigError or WorkloadError say what is wrong with them."""
    seen = spec.observation
    options = ObservationOptions(seen.name, seen.types, seen.upcoming, seen.unknown_seconds)
    belief = Belief.read(spec.belief)
    found = {
        name: episodes(name, spec.cluster, seen.types, belief, seen.unknown_seconds)
        for name in spec.workloads
    }
    return Worlds(spec, found, options)


def repeated(found: Sequence[Episode], times: int) -> list[Episode]:
    """Each episode that many times in a row."""
    return [episode for episode in found for _ in range(times)]
