"""What goes to the processes that play the queue forward, and comes back from them."""

from dataclasses import dataclass, field
from typing import Any

from environment.simulation.ahead import Played
from environment.simulation.options import SimulationOptions
from environment.types import PlacementRequest
from environment.view import ClusterView


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be played: a view and a queue, by which policies (name and options), on which draws.

    A draw of None is what is believed. Nothing is begun that many seconds after it was asked.
    """

    view: ClusterView
    queue: tuple[PlacementRequest, ...]
    policies: tuple[tuple[str, dict[str, Any]], ...]
    draws: tuple[int | None, ...]
    seconds: float
    options: SimulationOptions = field(default_factory=SimulationOptions)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a draw came to under a policy, by its number in the question; or why it came to nothing."""

    policy: int
    draw: int | None
    played: Played | None
    failure: str = ""
