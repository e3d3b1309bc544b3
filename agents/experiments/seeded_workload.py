"""Workloads by seed, and the identity of the jobs that a seed draws.

Sizes and types of jobs depend on the mix and the seed, not on arrivals (`profiles.workloads.generators`), so
that the same seed draws the same jobs for every workload of a mix.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from conf.schema.workload import Facebook, Mix, WorkloadSpec
from conf.units import SECONDS_PER_DAY
from profiles.workloads.generators import generate
from profiles.workloads.workload import Workload

#: Keys of a mix that decide which jobs a seed draws.
_SIZING = ("types", "cpus", "memory_gib", "executors")
#: Generated workloads in memory: the seeds of a scene, which each of its policies plays in turn.
_CACHED = 24


@dataclass(frozen=True, slots=True)
class Draw:
    """The jobs of one seed, or one task of a trace: the source's canonical text, and the number.

    `name` is for errors.
    """

    source: str
    number: int
    name: str


def canonical(content: Mapping[str, object]) -> str:
    """Text of a source's content, the same for equal content."""
    return json.dumps(content, sort_keys=True)


def made_by(function: str, number: int) -> Draw:
    """The draw of a generator that is named instead of described."""
    return Draw(canonical({"made_by": function}), number, function)


def draws_of(spec: WorkloadSpec, seed: int) -> tuple[Draw, ...]:
    """Draws of a workload with a seed: the seed's jobs, or the tasks that are read from a trace."""
    if spec.alibaba is not None:
        text, first = canonical({"trace": "alibaba"}), spec.alibaba.skip
        return tuple(Draw(text, task, "the trace of Alibaba") for task in range(first, first + spec.jobs))
    if spec.recorded is not None:
        return (Draw(canonical({"recorded": spec.recorded.path}), seed, spec.recorded.path),)
    if spec.users:
        return (Draw(canonical({"users": "any"}), seed, "a workload of users"),)
    mix = (spec.mix or Mix()).model_dump(mode="json", include=set(_SIZING))
    return (Draw(canonical({"sizes": mix}), seed, "this mix of jobs"),)


@dataclass(frozen=True, slots=True)
class _Generated:
    """Key of a generated workload: its description as text, as descriptions have no hash, and its seed."""

    text: str
    seed: int
    spec: WorkloadSpec = field(compare=False)


@lru_cache(maxsize=_CACHED)
def _generate(asked: _Generated) -> Workload:
    """Generate the workload; in a small run that takes longer than to play it."""
    return generate(asked.spec, asked.seed)


@dataclass(frozen=True, slots=True)
class SeededWorkload:
    """A workload for every seed.

    `windows` are the tasks left out of a trace, by seed in turn. `change` alters the generated workload, by
    its seed. With `days`, as many workloads follow each other by a day.
    """

    spec: WorkloadSpec
    windows: tuple[int, ...] = ()
    change: Callable[[Workload, int], Workload] | None = None
    days: int = 1

    def __call__(self, seed: int, jobs: int | None = None) -> Workload:
        """The workload of that seed, with another number of jobs if given: of Facebook's day, the first."""
        made = [self._generated(each, jobs) for each in self._seeds(seed)]
        if len(made) == 1:
            return made[0]
        return Workload(
            tuple(
                replace(
                    job,
                    name=f"day-{day}-{job.name}",
                    submitted_at=job.submitted_at + (day - 1) * SECONDS_PER_DAY,
                )
                for day, workload in enumerate(made, 1)
                for job in workload.jobs
            )
        )

    def draws(self, seed: int, jobs: int | None = None) -> tuple[Draw, ...]:
        """The draw for it."""
        return tuple(draw for each in self._seeds(seed) for draw in draws_of(self._spec_of(each, jobs), each))

    def _seeds(self, seed: int) -> tuple[int, ...]:
        return tuple(seed + 100 * day for day in range(self.days))

    def _generated(self, seed: int, jobs: int | None) -> Workload:
        spec = self._spec_of(seed, jobs)
        made = _generate(_Generated(spec.model_dump_json(), seed, spec))
        if self._first_of_many and jobs is not None:
            made = made.first(jobs)
        return made if self.change is None else self.change(made, seed)

    def _spec_of(self, seed: int, jobs: int | None) -> WorkloadSpec:
        update: dict[str, object] = {}
        if jobs is not None and not self._first_of_many:
            update["jobs"] = jobs
        if self.windows and self.spec.alibaba is not None:
            skip = self.windows[seed % len(self.windows)]
            update["alibaba"] = self.spec.alibaba.model_copy(update={"skip": skip})
        return self.spec.model_copy(update=update)

    @property
    def _first_of_many(self) -> bool:
        return isinstance(self.spec.arrivals, Facebook)
