"""Durations as measured: how long a job takes on so many VMs, from a model that was fitted to runs.

How a model is fitted, and which kind for which type, is in `fitting`. A model is a file, `model.json`.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from conf.defaults import BAD_PLACEMENT_FACTOR
from conf.loader import ConfigError, build
from conf.schema import Name, Strict
from environment.kernel.durations import is_good
from environment.kernel.state import PREFERENCES
from environment.resources import Resources
from environment.types import Job
from profiles.workloads.workload import Workload

MODEL = "model.json"

Method = Literal["average", "loglinear", "additive"]
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Shape:
    """Arguments of a predicted duration: sizes are those of one executor (the mean, where they differ)."""

    executors: int
    cpus: float
    memory_mib: float
    vms: int
    input_mib: float


def features(method: Method, shape: Shape) -> list[float]:
    """Features of a shape under a method; the prediction is their sum, weighted by the type's coefficients.

    `additive`, in seconds: a start, the part that the VMs share regardless of the size, the start of each
    executor's process where several share a VM's cores, the work on the requested cpus, the work on the VMs'
    cores, the data that each VM sends to others through its network card (of its part of the data the share
    that others need), and the data that exceeds memory. `loglinear`: the logarithm of the duration, by those
    of the sizes. `average`: always the same.
    """
    size, vms, cores = shape.input_mib, shape.vms, shape.executors * shape.cpus
    if method == "average":
        return [1.0]
    if method == "loglinear":
        sizes = (size, shape.executors, shape.cpus, shape.memory_mib, vms)
        return [1.0, *(math.log(value) for value in sizes)]
    network = size * (1 - 1 / vms) / vms
    spilled = size**2 / cores / shape.memory_mib
    return [1.0, 1 / vms, shape.executors / vms, size / cores, size / vms, network, spilled]


class TypeModel(Strict):
    """Model fitted to the runs of one job type."""

    method: Method
    coefficients: Annotated[tuple[_Finite, ...], Field(strict=False, min_length=1)]
    #: How many times longer it takes when others hold all cpus of its VMs, beyond 1.
    slowdown: _NotNegative
    #: Standard deviation of the logarithm of measured over predicted, on runs that were held out.
    sigma: _NotNegative
    #: Mean absolute error on runs that were held out, by method, as a share of the measured duration.
    errors: Mapping[Name, _NotNegative]
    runs: Annotated[int, Field(ge=1)]
    #: MiB that a job is taken to have of which the input is not known: the median of the runs.
    input_mib: _Positive
    #: How many times longer the slowest of the measured placements takes than the quickest.
    placement_ratio: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0

    @model_validator(mode="after")
    def _one_for_each_feature(self) -> "TypeModel":
        wanted = len(features(self.method, Shape(1, 1.0, 1024, 1, 1.0)))
        if len(self.coefficients) != wanted:
            raise ValueError(f"coefficients: {self.method} has {wanted}, found {len(self.coefficients)}")
        return self

    def seconds(self, shape: Shape, shared: float = 0.0) -> float:
        """Seconds from the decision to the end, when others hold so large a share of the VMs' cpus."""
        value = sum(c * f for c, f in zip(self.coefficients, features(self.method, shape), strict=True))
        if self.method == "loglinear":
            value = math.exp(min(value, 50.0))
        return max(value, 0.1) * (1 + self.slowdown * shared)


class FittedModel(Strict):
    """All that was fitted to a folder of runs, by job type."""

    schema_version: Literal[1] = 1
    types: Annotated[Mapping[Name, TypeModel], Field(min_length=1)]


def write_model(folder: Path, model: FittedModel) -> Path:
    """Write the model to the folder of the runs that it was fitted to; returns its path."""
    path = folder / MODEL
    path.write_text(json.dumps(model.model_dump(mode="json"), indent=2) + "\n", encoding="utf-8")
    return path


def read_model(path: Path) -> FittedModel:
    """Read a model, or that of a folder of runs; ConfigError when there is none or it is damaged."""
    path = path / MODEL if path.is_dir() else path
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(
            f"{path}: no model of durations: {why}; `stoker profile fit DIR` makes one"
        ) from error
    return build(FittedModel, values, str(path))


@dataclass(frozen=True, slots=True)
class FittedDurations:
    """Durations of jobs in a simulation: by a fitted model, its mean or drawn from its uncertainty.

    A job of a type that the model does not know has the workload's duration, and `penalty` times that when
    it is not placed as its type prefers (Islam 2022, 7.1); nothing is drawn for it.
    """

    model: FittedModel
    draw: Literal["mean", "sample"] = "mean"
    seed: int = 0
    penalty: float = BAD_PLACEMENT_FACTOR

    def __post_init__(self) -> None:
        if self.draw not in ("mean", "sample"):
            raise ValueError(f"draw: should be mean or sample, found {self.draw!r}")
        if not 1 <= self.penalty < math.inf:
            raise ValueError(f"penalty: should be 1 or more, found {self.penalty}")

    def shortest(self, job: Job, input_mib: float | None, most_vms: int) -> float | None:
        """Seconds on the best number of VMs, alone on them; None for a type that the model does not know."""
        counts = range(1, min(job.executors, most_vms) + 1)
        found = [self.seconds(job, job.asked, vms, 0.0, input_mib) for vms in counts]
        return min((seconds for seconds in found if seconds is not None), default=None)

    def seconds(
        self, job: Job, sizes: Sequence[Resources], vms: int, shared: float, input_mib: float | None
    ) -> float | None:
        """Mean seconds with executors of these sizes on so many VMs; None for an unknown type."""
        known = self.model.types.get(job.type)
        if known is None:
            return None
        count = len(sizes)
        cpus, memory = sum(s.cpus for s in sizes) / count, sum(s.memory_mib for s in sizes) / count
        return known.seconds(Shape(count, cpus, memory, vms, input_mib or known.input_mib), shared)

    def luck(self, job: Job) -> float:
        """Factor on a job's duration: 1, or drawn by seed and id, the same wherever the job is placed.

        Drawn from a log-normal distribution with the mean 1 and the spread of the held-out runs.
        """
        known = self.model.types.get(job.type)
        if self.draw == "mean" or known is None:
            return 1.0
        digest = hashlib.sha256(f"{self.seed}/{job.id}".encode()).digest()
        normal = np.random.default_rng(int.from_bytes(digest[:8], "big")).standard_normal()
        return math.exp(known.sigma * float(normal) - known.sigma**2 / 2)


class Pace:
    """Durations of the jobs of one workload in a simulation."""

    def __init__(self, fitted: FittedDurations, workload: Workload) -> None:
        self._fitted = fitted
        self._inputs = {job.name: job.input_mib for job in workload.jobs}
        self._means: dict[str, float] = {}

    def best(self, jobs: Sequence[Job], most_vms: int) -> tuple[Job, ...]:
        """The jobs with how long each will really take where it is placed best, and its type's spread."""
        best = []
        for job in jobs:
            seconds = self._fitted.shortest(job, self._inputs[job.id], most_vms)
            if seconds is not None:
                self._means[job.id], sigma = seconds, self._fitted.model.types[job.type].sigma
                job = replace(job, expected_duration=seconds * self.luck(job), spread=sigma)
            best.append(job)
        return tuple(best)

    def mean(self, job: Job) -> float | None:
        """Mean around which its duration, placed best, is drawn; None for a type unknown to the model."""
        return self._means.get(job.id)

    def luck(self, job: Job) -> float:
        """Factor on its durations."""
        return self._fitted.luck(job)

    def seconds(self, job: Job, sizes: Sequence[Resources], vms: int, shared: float) -> float:
        """Mean seconds on executors of these sizes on so many VMs, of which others hold a share."""
        seconds = self._fitted.seconds(job, sizes, vms, shared, self._inputs[job.id])
        if seconds is not None:
            return seconds
        best = job.duration_on(tuple(sizes)) or 0.0
        return best if is_good(PREFERENCES[job.prefers], len(sizes), vms) else best * self._fitted.penalty
