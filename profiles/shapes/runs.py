"""Shapes and the runs measured on them, validated once."""

import math
from dataclasses import dataclass

from conf.errors import ReportedError


class ShapeError(ReportedError, ValueError):
    """A shape, run or table that cannot be used; the text names the mistake and the right form."""


@dataclass(frozen=True, slots=True)
class JobShape:
    """So many executors of so many cores and so much memory (GiB) each, and the dollars an hour of them all.

    `speed` is that of a core, beside one of the other VM types in the table; ShapeError where a number is
    not above zero.
    """

    vm: str
    executors: int
    cores: float
    memory_gib: float
    dollars_per_hour: float
    speed: float = 1.0

    def __post_init__(self) -> None:
        for name in ("executors", "cores", "memory_gib", "dollars_per_hour", "speed"):
            _above_zero(f"shape {self.vm}: {name}", getattr(self, name))

    def __str__(self) -> str:
        return f"{self.executors} x {self.vm}"

    def dollars(self, seconds: float) -> float:
        """Dollars for so many seconds."""
        return self.dollars_per_hour * seconds / 3600


@dataclass(frozen=True, slots=True)
class ShapeRun:
    """Seconds of one run of a job type on a shape, with so much input (GiB).

    `job` names runs that do the same work: same program, input and arguments. ShapeError where seconds or
    input are not above zero.
    """

    type: str
    job: str
    input_gib: float
    shape: JobShape
    seconds: float

    def __post_init__(self) -> None:
        _above_zero(f"run of {self.job} on {self.shape}: input_gib", self.input_gib)
        _above_zero(f"run of {self.job} on {self.shape}: seconds", self.seconds)


def _above_zero(what: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ShapeError(f"{what}: {value} should be a number above 0")
