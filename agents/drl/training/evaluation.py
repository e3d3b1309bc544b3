"""Evaluation of a network on workloads that it is never trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from agents.drl.network import Flat, SharedWeights
from agents.drl.training.experience import play_greedily
from agents.drl.training.worlds import EpisodeBatch, Worlds
from environment.kernel.state import Episode
from environment.types import FloatArray


class Evaluation:
    """Plays the evaluation's episodes, which are made once, by the network's best actions."""

    def __init__(self, worlds: Worlds) -> None:
        """Make the episodes."""
        self._worlds = replace(worlds, spec=worlds.spec.as_deployed())
        self._lots: Mapping[str, EpisodeBatch] = worlds.evaluated()

    def of(self, weights: SharedWeights | Flat) -> tuple[float, dict[str, dict[str, float]]]:
        """Minus the return per job over all workloads (smaller is better), and the metrics by workload."""
        told, losses = {}, []
        for name, (episodes, beta) in self._lots.items():
            outcome = play_greedily(self._worlds.weighing(beta), episodes, weights)
            jobs = sum(len(episode.jobs.arrival) for episode in episodes)
            losses.append(-float(outcome.gained.sum()) / jobs)
            told[name] = {
                "return": float(outcome.gained.mean()),
                "cost": float((outcome.cost / units_of(episodes, "dollars")).mean()),
                "duration": float(outcome.duration.mean()),
                "completion": float((outcome.completion / units_of(episodes, "seconds")).mean()),
                "waits": float(outcome.waits.mean()),
                "violated": float(outcome.violated.mean()),
            }
        return sum(losses) / len(losses), told


def units_of(episodes: Sequence[Episode], kind: str) -> FloatArray:
    """Units for the episodes' dollars of all jobs, or seconds of one; [B]."""
    if kind == "seconds":
        return np.array([float(episode.jobs.unit_seconds) for episode in episodes])
    # A unit of dollars is for one job; where it is a dollar, dollars are reported.
    units = ((float(e.jobs.unit_dollars), len(e.jobs.arrival)) for e in episodes)
    return np.array([1.0 if unit == 1.0 else unit * jobs for unit, jobs in units])
