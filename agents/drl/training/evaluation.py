"""What a network has learned, on workloads that it is never trained on."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agents.drl.network import Flat, Shared
from agents.drl.training.experience import play_greedily
from agents.drl.training.worlds import Worlds
from environment.kernel.state import Episode


class Evaluation:
    """Plays the evaluation's episodes, which are made once, by the network's best actions."""

    def __init__(self, worlds: Worlds) -> None:
        """Make the episodes."""
        self._worlds = replace(worlds, spec=worlds.spec.as_deployed())
        self._episodes: Mapping[str, list[Episode]] = {
            name: worlds.evaluated(name) for name in worlds.by_workload
        }

    def of(self, weights: Shared | Flat) -> tuple[float, dict[str, dict[str, float]]]:
        """Minus the return per job, which is to be small, over all; and what there is to tell by workload."""
        told, losses = {}, []
        for name, episodes in self._episodes.items():
            outcome = play_greedily(self._worlds, episodes, weights)
            jobs = sum(len(episode.jobs.arrival) for episode in episodes)
            losses.append(-float(outcome.gained.sum()) / jobs)
            told[name] = {
                "return": float(outcome.gained.mean()),
                "cost": float(outcome.cost.mean()),
                "duration": float(outcome.duration.mean()),
                "completion": float(outcome.completion.mean()),
                "waits": float(outcome.waits.mean()),
                "violated": float(outcome.violated.mean()),
            }
        return sum(losses) / len(losses), told


def in_short(told: Mapping[str, Mapping[str, Any]]) -> str:
    """An evaluation in a line: `burst 6.012 $, 301 s, 2010 s`."""
    return "; ".join(
        f"{name} {of['cost']:.3f} $, {of['duration']:.0f} s, {of['completion']:.0f} s"
        for name, of in told.items()
    )
