"""Shapes that the VMs of a cluster have room for, within bounds."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from conf.util.counted import counted
from profiles.shapes.runs import JobShape, ShapeError

#: Executors at most, where no bound is set. Chosen: few runs tell nothing of more.
MOST_EXECUTORS = 256
#: Least GiB of an executor, where no bound is set: Spark's least heap and its overhead are 0.875.
LEAST_GIB = 1.0
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class VmKind:
    """VMs of one type, size and price: how many there are, and cpus, GiB and dollars an hour of each."""

    type: str
    count: int
    cpus: float
    memory_gib: float
    dollars_per_hour: float

    def room(self, cores: float, memory_gib: float) -> int:
        """Number of executors of that size for which all of them have room."""
        each = min(self.cpus / cores, self.memory_gib / memory_gib)
        return self.count * math.floor(each + _ROUNDING)

    def dollars_of(self, cores: float, memory_gib: float) -> float:
        """Dollars an hour of one executor: its largest share of the VM, as bills count it."""
        return self.dollars_per_hour * max(cores / self.cpus, memory_gib / self.memory_gib)


@dataclass(frozen=True, slots=True)
class Between:
    """Bounds of an amount, both included; ShapeError where the least is above the most."""

    least: float
    most: float

    def __post_init__(self) -> None:
        if not 0 < self.least <= self.most:
            raise ShapeError(f"the minimum, {self.least:g}, is above the maximum, {self.most:g}")

    def ladder(self, steps: Sequence[float]) -> list[float]:
        """The bounds and the steps between them; one value where both are equal."""
        ends = {self.least} | ({self.most} if math.isfinite(self.most) else set())
        return sorted(ends | {step for step in steps if self.least < step < self.most})


#: The least and the most of an amount; None: no bound.
Bounds: TypeAlias = tuple[float | None, float | None]


def _between(bounds: Bounds, least: float, most: float) -> Between:
    low, high = bounds
    return Between(
        min(least, most if high is None else high) if low is None else low,
        max(most, low or 0) if high is None else high,
    )


@dataclass(frozen=True, slots=True)
class OpenShape:
    """Bounds of the number of executors, and of cores and GiB of each; by default all is open."""

    executors: Between = field(default=Between(1, MOST_EXECUTORS))
    cores: Between = field(default=Between(1, math.inf))
    memory_gib: Between = field(default=Between(LEAST_GIB, math.inf))

    @classmethod
    def of(cls, executors: Bounds, cpus: Bounds, memory: Bounds) -> "OpenShape":
        """Bounds with the usual ones where none are set; memory in MiB. ShapeError as above."""
        least, most = memory
        return cls(
            _between(executors, 1.0, MOST_EXECUTORS),
            _between(cpus, 1.0, math.inf),
            _between(
                (None if least is None else least / 1024, None if most is None else most / 1024),
                LEAST_GIB,
                math.inf,
            ),
        )

    def includes(self, shape: JobShape) -> bool:
        """Whether a shape is within the bounds."""
        amounts = (shape.executors, shape.cores, shape.memory_gib)
        bounds = (self.executors, self.cores, self.memory_gib)
        return all(of.least <= amount <= of.most for of, amount in zip(bounds, amounts, strict=True))

    @property
    def bounds_memory(self) -> bool:
        """Whether the least memory is not the default one, which a job may well not get along with."""
        return self.memory_gib.least != LEAST_GIB


#: 1, 2, 3, 4, 6, 8, 12, ...
_STEPS = sorted(float(part << power) for power in range(12) for part in (1, 3))
_POWERS = [float(1 << power) for power in range(12)]


def candidates(kinds: Sequence[VmKind], within: OpenShape) -> list[JobShape]:
    """Shapes within these bounds that the VMs together have room for, on the cheapest of them.

    Numbers of executors go by 1, 2, 3, 4, 6, 8, 12, ..., cores and GiB by powers of two; bounds are tried as
    well.
    ShapeError where no VM has room for the least executor, or all for the least number.
    """
    found = [*_candidates(kinds, within)]
    if not found:
        cpus = counted(within.cores.least, "cpu")
        raise ShapeError(
            f"no pool or VM type has room for {within.executors.least:g} x {cpus} and "
            f"{within.memory_gib.least:g} GiB; there are {_listed(kinds)}"
        )
    return found


def _candidates(kinds: Sequence[VmKind], within: OpenShape) -> Iterator[JobShape]:
    cores = min(within.cores.most, max((kind.cpus for kind in kinds), default=0))
    memory = min(within.memory_gib.most, max((kind.memory_gib for kind in kinds), default=0))
    if cores < within.cores.least or memory < within.memory_gib.least:
        return
    for each in Between(within.cores.least, cores).ladder(_POWERS):
        for gib in Between(within.memory_gib.least, memory).ladder(_POWERS):
            fitting = sorted(
                (kind for kind in kinds if kind.room(each, gib)), key=lambda kind: kind.dollars_of(each, gib)
            )
            room = sum(kind.room(each, gib) for kind in fitting)
            for count in within.executors.ladder(_STEPS):
                if count <= room:
                    yield JobShape(
                        fitting[0].type, int(count), each, gib, _dollars(fitting, each, gib, count)
                    )


def _dollars(fitting: Sequence[VmKind], cores: float, memory_gib: float, count: float) -> float:
    """Dollars an hour of so many executors, on the cheapest VMs first."""
    dollars, left = 0.0, count
    for kind in fitting:
        here = min(left, kind.room(cores, memory_gib))
        dollars, left = dollars + here * kind.dollars_of(cores, memory_gib), left - here
    return dollars


def _listed(kinds: Sequence[VmKind]) -> str:
    named = (f"{k.count} x {k.type} ({counted(k.cpus, 'cpu')}, {k.memory_gib:g} GiB)" for k in kinds)
    return ", ".join(named) or "none"
