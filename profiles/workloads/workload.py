"""A workload as a value: jobs with their times of arrival. From `generators` or `workload_files`."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import get_args

from stoker.characters import LONGEST_NAME, unseen

from conf.auto_bounds import AUTO_FIELDS, AutoBounds, auto_bounds
from conf.defaults import DEFAULT_QUEUE
from conf.errors import ReportedError
from conf.schema import SpotUse
from conf.units import checked_resources

#: Seconds, some hundred years; cpus or executors of a job; MiB, an exbibyte: beyond lie only mistakes, with
#: which sums would lose small amounts or become infinite.
LONGEST, MOST, MOST_MIB = 1e10, 1e6, 2**40


class AutoSizeError(ReportedError, ValueError):
    """A job leaves a size to Stoker where none can be chosen; the text names the job and the field."""


@dataclass(frozen=True, slots=True)
class WorkloadJob:
    """A job that will be submitted: `executors` equal executors, each taking `cpus` and `memory_mib`.

    `duration` is how many seconds it takes when it is placed well. It also runs on fewer executors, but not
    on fewer than `min_executors`; None: on all of them only. Its executors also run on fewer cpus, but not
    on fewer than `min_cpus`; None: on all of them only. `resources` are the other resources of each
    executor, by name; `owner` is its user, where that is known, and `queue` its queue. `priority` ranks it
    beside others (None: as its queue), and `deadline` is when it should be over, seconds after its
    submission; None: at any time. One that is not `restartable` is never stopped for another.

    What of executors, cpus and memory is in `auto`, with a text as in a job file (`auto:2-16`), is left to
    Stoker: `duration` is then that on the size that the job has here, by which it is known on others.

    ValueError names the impossible value.
    """

    name: str
    submitted_at: float
    type: str
    cpus: float
    memory_mib: int
    executors: int
    duration: float
    min_executors: int | None = None
    min_cpus: float | None = None
    #: With dynamic allocation, the executors that its driver keeps at least (None: they are fixed), and those
    #: that it begins with (None: as many). `executors` are then the most.
    dynamic_min: int | None = None
    dynamic_initial: int | None = None
    #: MiB of input, where that is known.
    input_mib: float | None = None
    resources: Mapping[str, float] = field(default_factory=dict, hash=False)
    owner: str = ""
    queue: str = DEFAULT_QUEUE
    #: Whether it may be on spot VMs, or only there.
    spot: SpotUse = "allowed"
    priority: int | None = None
    deadline: float | None = None
    #: Names of the jobs that it comes after, and when it begins at the earliest.
    after: tuple[str, ...] = ()
    start_at: float | None = None
    restartable: bool = True
    #: Texts such as auto:2-16 for those of executors, cpus and memory that are left to Stoker.
    auto: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_names(("name", self.name))
        _check_labels(self.type, self.owner, self.queue)
        if not 0 <= self.submitted_at <= LONGEST:
            raise ValueError(f"submitted_at: should be 0 to {LONGEST:g} seconds, found {self.submitted_at}")
        if not 0.001 <= self.cpus <= MOST:
            raise ValueError(f"cpus: should be 0.001 to {MOST:g}, found {self.cpus}")
        if not 1 <= self.memory_mib <= MOST_MIB:
            raise ValueError(f"memory_mib: should be 1 to {MOST_MIB:g}, found {self.memory_mib}")
        if not 1 <= self.executors <= MOST:
            raise ValueError(f"executors: should be 1 to {MOST:g}, found {self.executors}")
        if self.min_executors is not None and not 1 <= self.min_executors <= self.executors:
            raise ValueError(f"min_executors: should be 1 to {self.executors}, found {self.min_executors}")
        if self.min_cpus is not None and not 0.001 <= self.min_cpus <= self.cpus:
            raise ValueError(f"min_cpus: should be 0.001 to {self.cpus:g}, found {self.min_cpus}")
        if self.dynamic_min is not None or self.dynamic_initial is not None:
            self._check_dynamic()
        if self.input_mib is not None and not 0 < self.input_mib <= MOST_MIB:
            raise ValueError(f"input_mib: should be more than 0, up to {MOST_MIB:g}, found {self.input_mib}")
        if self.spot not in get_args(SpotUse):
            raise ValueError(f"spot: should be {', '.join(get_args(SpotUse))}, found {self.spot!r}")
        if len(set(self.after)) < len(self.after):
            raise ValueError(f"after: should name each job once, found {';'.join(self.after)}")
        if self.priority is not None and not -1000 <= self.priority <= 1000:
            raise ValueError(f"priority: should be -1000 to 1000, found {self.priority}")
        if self.deadline is not None and not 0 < self.deadline <= LONGEST:
            raise ValueError(f"deadline: should be more than 0, up to {LONGEST:g} s, found {self.deadline}")
        if self.start_at is not None and not 0 <= self.start_at <= LONGEST:
            raise ValueError(f"start_at: should be 0 to {LONGEST:g} seconds, found {self.start_at}")
        if not 0 < self.duration <= LONGEST:
            raise ValueError(f"duration: should be more than 0, up to {LONGEST:g} s, found {self.duration}")
        if self.resources:
            checked_resources(self.resources)
        if self.auto:
            self._check_auto()

    def _check_dynamic(self) -> None:
        least = self.dynamic_min
        if least is None or not 1 <= least <= self.executors:
            raise ValueError(f"dynamic_min: should be 1 to {self.executors}, found {least}")
        if self.dynamic_initial is not None and not least <= self.dynamic_initial <= self.executors:
            raise ValueError(
                f"dynamic_initial: should be {least} to {self.executors}, found {self.dynamic_initial}"
            )
        if self.min_executors is not None or self.min_cpus is not None or self.auto:
            raise ValueError("dynamic_min: goes without min_executors, min_cpus and auto")

    def _check_auto(self) -> None:
        bounds = checked_auto(self.auto)
        if self.min_cpus is not None and "cpus" in bounds:
            raise ValueError("min_cpus goes without cpus in auto, which has bounds: cpus=auto:1-4")
        most = bounds["executors"].most if "executors" in bounds else None
        if most is not None and self.min_executors is not None and self.min_executors > most:
            raise ValueError(f"min_executors: should be 1 to {most:g}, found {self.min_executors}")


def checked_auto(texts: Mapping[str, str]) -> dict[str, AutoBounds]:
    """Bounds of fields left to Stoker, from texts such as auto:2-16 by field; ValueError names the field."""
    found = {}
    for name, text in texts.items():
        if name not in AUTO_FIELDS:
            raise ValueError(f"auto: should name {', '.join(AUTO_FIELDS)}, found {name!r}")
        try:
            found[name] = auto_bounds(name, text)
        except ValueError as error:
            raise ValueError(f"auto: {name}: {error}") from None
    return found


@lru_cache(maxsize=1024)
def _check_labels(kind: str, owner: str, queue: str) -> None:
    """Check the labels; cached since very many jobs have the same few."""
    _check_names(("type", kind), ("owner", owner), ("queue", queue))
    for key, text in (("owner", owner), ("queue", queue)):
        if len(text) > LONGEST_NAME:
            raise ValueError(f"{key}: should have {LONGEST_NAME} characters at most, found {len(text)}")


def _check_names(*names: tuple[str, str]) -> None:
    for key, text in names:
        if not text and key != "owner":
            raise ValueError(f"{key}: should not be empty")
        if found := unseen(text):
            raise ValueError(f"{key}: should be one line without control characters (here {found})")


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs in order of arrival, each with a name of its own; `workload_of` puts them in order."""

    jobs: tuple[WorkloadJob, ...]
    #: Properties of its source that are lost, counted: a line for each.
    left_out: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for earlier, later in zip(self.jobs, self.jobs[1:], strict=False):
            if earlier.submitted_at > later.submitted_at:
                raise ValueError(f"{later.name} arrives before {earlier.name}, but comes after it")
        names = Counter(job.name for job in self.jobs)
        if len(names) < len(self.jobs):
            raise ValueError(f"name: two jobs are called {names.most_common(1)[0][0]}")
        self._check_order(names)

    def _check_order(self, names: Collection[str]) -> None:
        """Jobs that come after others come after some of these, and none after itself."""
        after = {job.name: job.after for job in self.jobs if job.after}
        for name, others in after.items():
            for other in others:
                if other not in names:
                    raise ValueError(f"after: {name} comes after {other}, but no job has that name")
        try:
            TopologicalSorter(after).prepare()
        except CycleError as error:
            raise ValueError(f"after: {' comes after '.join(reversed(error.args[1]))}") from None
        places = {job.name: place for place, job in enumerate(self.jobs)} if after else {}
        for name, others in after.items():
            for other in others:
                if places[other] > places[name]:
                    raise ValueError(f"after: {name} comes after {other}, which arrives later")

    def __len__(self) -> int:
        return len(self.jobs)

    def check_sized(self) -> None:
        """Raise AutoSizeError where a job leaves a size to Stoker, which only simulations choose."""
        for job in self.jobs:
            if job.auto:
                left = ", ".join(job.auto)
                raise AutoSizeError(
                    f"{job.name}: auto: {left}: only `stoker simulate` chooses sizes of a workload"
                )

    def first(self, count: int) -> "Workload":
        """The jobs that arrive first."""
        jobs = self.jobs[:count]
        left_out = {job.name for job in self.jobs[count:]}
        if not any(left_out.intersection(job.after) for job in jobs):
            return replace(self, jobs=jobs)
        kept = (tuple(other for other in job.after if other not in left_out) for job in jobs)
        jobs = tuple(replace(job, after=after) for job, after in zip(jobs, kept, strict=True))
        return replace(self, jobs=jobs)


def workload_of(jobs: Iterable[WorkloadJob]) -> Workload:
    """A workload of these jobs by time of arrival; those that arrive together keep their order."""
    return Workload(tuple(sorted(jobs, key=lambda job: job.submitted_at)))
