"""Constants of the simulated world: rewards, durations and observations, with Islam 2022's values.

This module checks them and converts them to the form that `kernel` takes; `kernel` defines their effect.
"""

import math
from dataclasses import dataclass
from typing import Literal

from conf.defaults import BAD_PLACEMENT_FACTOR, UNKNOWN_DURATION
from environment.kernel.state import FIXED, NATURAL_STATE, PAPER, PAPER_STATE, RICH_STATE, Layout, Rules


@dataclass(frozen=True, slots=True)
class RewardOptions:
    """The rewards of Islam 2022, Table 3, with the values of Table 5."""

    #: For an executor that was placed.
    placed: float = 1.0
    #: For waiting.
    waited: float = -1.0
    #: For an action against the rules, which ends the episode.
    violation: float = -200.0
    #: R_fixed: the reward of a perfect episode at its end (eq. 14).
    fixed: float = 10_000.0
    #: How much cost counts at the end of an episode; the rest is time. One of the paper's five values.
    beta: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.beta <= 1:
            raise ValueError(f"beta: should be between 0 and 1, found {self.beta}")
        for name in ("placed", "waited", "violation", "fixed"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name}: should be a finite number, found {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class DurationOptions:
    """Rule for a job's duration, given its duration when placed well.

    `paper`: `penalty` times that when its placement is not good (Islam 2022, 7.1). `fixed`: always that.

    A job that was given less than it asks for takes longer. `profile`: as much longer as its type's profile
    says of so many cores and so much memory (Amdahl, spilling); of a type without one, `proportional`: as
    many times longer as it asks for more cpus than it has.
    """

    model: Literal["paper", "fixed"] = "paper"
    penalty: float = BAD_PLACEMENT_FACTOR
    partial: Literal["profile", "proportional"] = "profile"

    def __post_init__(self) -> None:
        if self.model not in _MODELS:
            raise ValueError(f"model: should be {' or '.join(_MODELS)}, found {self.model!r}")
        if not 1 <= self.penalty < math.inf:
            raise ValueError(f"penalty: should be 1 or more, found {self.penalty}")
        if self.partial not in _PARTIAL:
            raise ValueError(f"partial: should be {' or '.join(_PARTIAL)}, found {self.partial!r}")


_MODELS = {"paper": PAPER, "fixed": FIXED}
_PARTIAL = ("profile", "proportional")


_OBSERVATIONS = ("paper", "rich", "natural")


@dataclass(frozen=True, slots=True)
class ObservationOptions:
    """Options of an agent's observation: see `environment.kernel.observation`."""

    name: Literal["paper", "rich", "natural"] = "paper"
    #: The job types that the rich observation tells apart; others look all alike.
    types: tuple[str, ...] = ()
    #: How many of the jobs behind the first of the queue it shows.
    upcoming: int = 3
    #: How long is assumed that jobs still take, or VMs are held, of which that is not known.
    unknown_seconds: float = UNKNOWN_DURATION
    #: How much cost counts for the agent; the natural observation shows it.
    beta: float = 0.5

    def __post_init__(self) -> None:
        if self.name not in _OBSERVATIONS:
            raise ValueError(f"observation: should be {' or '.join(_OBSERVATIONS)}, found {self.name!r}")
        if self.types and self.name != "rich":
            raise ValueError("types: only the rich observation tells job types apart")
        if len(set(self.types)) < len(self.types):
            raise ValueError(f"types: should differ, found {', '.join(self.types)}")
        if self.upcoming < 0:
            raise ValueError(f"upcoming: should be 0 or more jobs, found {self.upcoming}")
        if not 0 < self.unknown_seconds < math.inf:
            raise ValueError(f"unknown_seconds: should be more than 0, found {self.unknown_seconds}")

    @property
    def layout(self) -> Layout:
        """The numbers of the observation in the kernel."""
        if self.name == "paper":
            return Layout(PAPER_STATE)
        if self.name == "natural":
            return Layout(NATURAL_STATE, beta=float(self.beta))
        return Layout(RICH_STATE, len(self.types), self.upcoming)


def rules(rewards: RewardOptions, durations: DurationOptions) -> Rules:
    """The numbers as the kernel takes them."""
    return Rules(
        duration_model=_MODELS[durations.model],
        penalty=float(durations.penalty),
        placed=float(rewards.placed),
        waited=float(rewards.waited),
        violation=float(rewards.violation),
        fixed=float(rewards.fixed),
        beta=float(rewards.beta),
    )
