"""Profiles of job types: preferred placement and duration. The values stand in YAML."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from conf.defaults import MEASURED_SPREAD, REWORK_DRAINED, REWORK_LOST
from conf.loader import find, load
from conf.schema import Memory, Name, Strict
from profiles.curve import Curve

#: The profiles of WordCount, PageRank and Sort that ship with Stoker.
PAPER = "profiles/data/paper.yaml"


#: Stages of a profile: more say nothing that a simulation shows.
MOST_STAGES = 64
#: Cores; with fewer a stage hardly ends.
_NARROWEST = 1e-3
Share = Annotated[float, Field(ge=0, le=1)]


class ReworkShares(Strict):
    """Shares of an executor's work that are repeated when it is lost, or drained before its loss."""

    lost: Share = REWORK_LOST
    drained: Share = REWORK_DRAINED


Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class StageShape(Strict):
    """Stages that ran at the same time, as a part of a job; its times are those of one run of its type.

    A simulation of dynamic allocation plays them one after the other, in proportion to a job's duration.
    """

    #: Seconds before it in which no task runs.
    pause: Seconds = 0.0
    #: Core-seconds of its tasks, without the warming.
    work: Seconds
    #: Seconds that its executors take to warm up, each for itself.
    warming: Seconds = 0.0
    #: Cores that its tasks can use at once.
    width: Seconds
    #: Seconds of the longest task.
    longest: Seconds = 0.0
    #: Whether it writes shuffle files, which keep executors from being released.
    shuffles: bool = False

    @model_validator(mode="after")
    def _can_be_done(self) -> Self:
        if self.work and self.width < _NARROWEST:
            raise ValueError(
                f"width: should be {_NARROWEST:g} at least where work is above 0, found {self.width:g}"
            )
        return self


class JobProfile(Strict):
    """Profile of a job type: its preferred placement, and its duration on that placement.

    `profiles.curve` computes a duration from its numbers.
    """

    bound_by: Literal["cpu", "network", "memory"]
    #: None where no placement is known to be better.
    prefers: Literal["spread", "consolidate"] | None = None
    #: Seconds that one core takes for all of it.
    work: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    #: The share of the work that more cores do not speed up (Amdahl).
    serial: Annotated[float, Field(ge=0, le=1)] = 0.0
    #: Of the number of cores, by which the rest is divided: 1 is Amdahl's law, less is a power law.
    power: Annotated[float, Field(gt=0, le=1)] = 1.0
    #: Seconds before work begins, for any size.
    startup: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    #: Seconds that an executor of one cpu takes for itself, those of more cpus as many times less.
    warming: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    working_set: Memory = 1
    spilling: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    #: Standard deviation of the logarithm of real over expected duration.
    spread: Annotated[float, Field(ge=0, le=2)] = MEASURED_SPREAD
    rework: ReworkShares = ReworkShares()
    #: Seconds from the launch of a further executor until it can run tasks; None: `startup`.
    executor_start: Seconds | None = None
    #: In their order; none where they are not known, as they are by `stoker audit --write-profiles`.
    stages: Annotated[tuple[StageShape, ...], Field(strict=False, max_length=MOST_STAGES)] = ()

    def duration(self, cpus: float, memory_mib: int, executors: int) -> float:
        """Seconds that such a job takes when it is placed as it prefers; sizes are those of one executor."""
        return self.duration_on(cpus * executors, memory_mib * executors, cpus)

    def duration_on(self, cores: float, memory_mib: float, cpus: float) -> float:
        """Seconds on these cores and memory of all its executors together, with the least one's cpus."""
        return self.curve.seconds_on(cores, memory_mib, cpus)

    @property
    def curve(self) -> Curve:
        """The numbers of which a duration is made."""
        return Curve(
            self.startup,
            self.work,
            self.serial,
            self.power,
            self.working_set,
            self.spilling,
            self.warming,
        )


class _ProfileFile(Strict):
    types: Annotated[Mapping[Name, JobProfile], Field(min_length=1)]


@lru_cache(maxsize=16)
def load_profiles(name: str = PAPER) -> Mapping[str, JobProfile]:
    """Profiles by job type, from a YAML file in the working folder or shipped; ConfigError on bad ones."""
    return load(find(name), _ProfileFile).types
