"""A workload as a value: jobs with their times of arrival. It comes from `generators` or from `files`."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from conf.units import checked_resources


@dataclass(frozen=True, slots=True)
class WorkloadJob:
    """A job that will be submitted: `executors` equal executors, each taking `cpus` and `memory_mib`.

    `duration` is how many seconds it takes when it is placed well. It also runs on fewer executors, but not
    on fewer than `min_executors`; None: on all of them only. `resources` is what each executor takes besides,
    by name. ValueError names what is not possible.
    """

    name: str
    submitted_at: float
    type: str
    cpus: float
    memory_mib: int
    executors: int
    duration: float
    min_executors: int | None = None
    #: MiB of input, where that is known.
    input_mib: float | None = None
    resources: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not (self.name and self.type):
            raise ValueError(f"{'type' if self.name else 'name'}: should not be empty")
        if not 0 <= self.submitted_at < math.inf:
            raise ValueError(f"submitted_at: should be 0 or more seconds, found {self.submitted_at}")
        if not 0.001 <= self.cpus < math.inf:
            raise ValueError(f"cpus: should be 0.001 or more, found {self.cpus}")
        if self.memory_mib < 1:
            raise ValueError(f"memory_mib: should be 1 or more, found {self.memory_mib}")
        if self.executors < 1:
            raise ValueError(f"executors: should be 1 or more, found {self.executors}")
        if self.min_executors is not None and not 1 <= self.min_executors <= self.executors:
            raise ValueError(f"min_executors: should be 1 to {self.executors}, found {self.min_executors}")
        if self.input_mib is not None and not 0 < self.input_mib < math.inf:
            raise ValueError(f"input_mib: should be more than 0, found {self.input_mib}")
        if not 0 < self.duration < math.inf:
            raise ValueError(f"duration: should be more than 0 seconds, found {self.duration}")
        if self.resources:
            checked_resources(self.resources)


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs in order of arrival, each with a name of its own; `workload_of` puts them in order."""

    jobs: tuple[WorkloadJob, ...]

    def __post_init__(self) -> None:
        for earlier, later in zip(self.jobs, self.jobs[1:], strict=False):
            if earlier.submitted_at > later.submitted_at:
                raise ValueError(f"{later.name} arrives before {earlier.name}, but comes after it")
        names = Counter(job.name for job in self.jobs)
        if len(names) < len(self.jobs):
            raise ValueError(f"name: two jobs are called {names.most_common(1)[0][0]}")

    def __len__(self) -> int:
        return len(self.jobs)

    def first(self, count: int) -> "Workload":
        """The jobs that arrive first."""
        return Workload(self.jobs[:count])


def workload_of(jobs: Iterable[WorkloadJob]) -> Workload:
    """A workload of these jobs by time of arrival; those that arrive together keep their order."""
    return Workload(tuple(sorted(jobs, key=lambda job: job.submitted_at)))
