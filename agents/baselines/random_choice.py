"""Chance, as the floor that every other policy has to beat."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.estimates import MOST_SEED, check_limit
from environment.decisions.feasibility import shortage
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView


@dataclass(frozen=True, slots=True)
class RandomOptions:
    """Options of the random policy."""

    #: The same seed gives the same decisions.
    seed: int = 0

    def __post_init__(self) -> None:
        check_limit("seed", self.seed, most=MOST_SEED)


class RandomChoice:
    """Random: each executor goes to any of the VMs that have room, all alike."""

    def __init__(self, options: RandomOptions) -> None:
        self._random = np.random.default_rng(options.seed)

    @property
    def turn(self) -> Any:
        """State of the random number generator."""
        return self._random.bit_generator.state

    @turn.setter
    def turn(self, turn: Any) -> None:
        self._random.bit_generator.state = turn

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Draw a VM for each executor, or wait without drawing."""
        request = queue[0]
        room = np.minimum(view.room_for(request), request.count)
        if room.sum() < request.count:
            return Wait(shortage(view, request))
        open_vms, placement = np.flatnonzero(room).tolist(), []
        for _ in range(request.count):
            at = int(self._random.integers(len(open_vms)))
            index = open_vms[at]
            placement.append(index)
            room[index] -= 1
            if not room[index]:
                open_vms[at] = open_vms[-1]
                open_vms.pop()
        why = tuple(f"{view.vms[i].name} was drawn from the VMs with room for it" for i in placement)
        return Place(request.job.id, tuple(placement), why)
