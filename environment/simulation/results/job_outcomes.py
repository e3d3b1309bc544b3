"""The jobs that ran in a simulation, as columns: each becomes a value when it is read.

A million of them as values would take longer to make than to play. `results` sums them up, `outcomes` makes
the columns.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from conf.defaults import DEFAULT_QUEUE
from environment.kernel.durations import is_good, well_placed
from environment.kernel.state import BoolArray, SmallIntArray
from environment.resources import Resources
from environment.types import FloatArray, IntArray, Job


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """A job that ran. Times in seconds; `placement` has the index of each executor's VM.

    `cost` is its share in its VMs' cost: at every moment a VM's price is shared by the executors on it, in
    proportion to each one's dominant share (the largest fraction of any of the VM's resources that it
    takes). The shares of all jobs add up to the whole cost.
    """

    name: str
    type: str
    size: Resources
    executors: int
    submitted_at: float
    started_at: float
    ended_at: float
    placement: tuple[int, ...]
    #: Whether it is placed as its type prefers; a single executor, or a type without preference, always is.
    good: bool
    cost: float
    #: Size of each executor in `placement`, when not all have the job's requested size.
    sizes: tuple[Resources, ...] = ()
    owner: str = ""
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    #: By when it should have been over.
    deadline: float | None = None

    @property
    def wait(self) -> float:
        """Seconds from submission to start."""
        return self.started_at - self.submitted_at

    @property
    def cpus(self) -> float:
        """Cpus that it asked for each executor."""
        return self.size.cpus

    @property
    def memory_mib(self) -> int:
        """Memory that it asked for each executor, MiB."""
        return self.size.memory_mib

    @property
    def duration(self) -> float:
        """Seconds from start to end."""
        return self.ended_at - self.started_at

    @property
    def completion(self) -> float:
        """Seconds from submission to end."""
        return self.ended_at - self.submitted_at

    @property
    def taken(self) -> tuple[Resources, ...]:
        """Resources of each executor in `placement`."""
        return self.sizes or (self.size,) * self.executors


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeColumns:
    """Outcomes of R jobs, in order of arrival; all columns are [R] except the last."""

    start: FloatArray  # seconds
    end: FloatArray
    cost: FloatArray  # dollars
    executors: IntArray  # that it was placed with
    prefers: IntArray  # ANYWHERE, SPREAD or CONSOLIDATE
    first: IntArray  # where its executors begin in `placement`
    placement: SmallIntArray  # [E] VM of each executor


class JobOutcomes(Sequence[JobOutcome]):
    """Outcomes in order of arrival, made from the requests and from columns of results."""

    def __init__(
        self, jobs: Sequence[Job], columns: OutcomeColumns, sizes: Mapping[int, tuple[Resources, ...]]
    ) -> None:
        """`sizes` has, by number here, the executors' sizes where they differ from the job's request."""
        self._jobs, self.columns, self._sizes = jobs, columns, sizes

    def __len__(self) -> int:
        return len(self._jobs)

    @overload
    def __getitem__(self, index: int) -> JobOutcome: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[JobOutcome, ...]: ...
    def __getitem__(self, index: int | slice) -> JobOutcome | tuple[JobOutcome, ...]:
        return self._made[index]

    def __iter__(self) -> Iterator[JobOutcome]:
        return iter(self._made)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._made == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # equal to tuples, which hash otherwise

    def __repr__(self) -> str:
        return repr(self._made)

    @cached_property
    def _made(self) -> tuple[JobOutcome, ...]:
        return tuple(self._make())

    def _make(self) -> Iterator[JobOutcome]:
        columns = self.columns
        placement = columns.placement.tolist()
        each = (columns.start, columns.end, columns.cost, columns.executors, columns.prefers, columns.first)
        rows = zip(self._jobs, *(column.tolist() for column in each), strict=True)
        for number, (job, start, end, cost, executors, prefers, first) in enumerate(rows):
            vms = tuple(placement[first : first + executors])
            yield JobOutcome(
                job.id, job.type, job.size, job.executors, job.submitted_at, start, end, vms,
                is_good(prefers, executors, len(set(vms))), cost, self._sizes.get(number, ()),
                job.owner, job.queue, job.priority, job.deadline,
            )  # fmt: skip

    @property
    def types(self) -> Counter[str]:
        """Number of jobs of each type."""
        return Counter(job.type for job in self._jobs)

    # ---- of all of them at once --------------------------------------------------------------------

    @cached_property
    def submitted_at(self) -> FloatArray:
        """Submission time of each, seconds; float64 [R]."""
        return np.array([job.submitted_at for job in self._jobs], np.float64)

    @property
    def durations(self) -> FloatArray:
        """Seconds from start to end; float64 [R]."""
        seconds: FloatArray = self.columns.end - self.columns.start
        return seconds

    @property
    def completions(self) -> FloatArray:
        """Seconds from submission to end; float64 [R]."""
        seconds: FloatArray = self.columns.end - self.submitted_at
        return seconds

    @property
    def waits(self) -> FloatArray:
        """Seconds from submission to start; float64 [R]."""
        seconds: FloatArray = self.columns.start - self.submitted_at
        return seconds

    @cached_property
    def good(self) -> BoolArray:
        """Jobs placed as their types prefer; bool [R]."""
        columns, good = self.columns, np.zeros(len(self), np.bool_)
        seen = np.zeros(int(columns.placement.max(initial=0)) + 1, np.int64)
        well_placed(columns.prefers, columns.executors, columns.first, columns.placement, seen, good)
        return good

    @cached_property
    def core_seconds(self) -> float:
        """Core-seconds of all jobs; 0.0 where nothing ran."""
        known: dict[tuple[int, int], float] = {}
        cores = np.zeros(len(self))
        for number, (job, count) in enumerate(zip(self._jobs, self._counts(), strict=True)):
            taken = self._sizes.get(number)
            if taken is not None:
                cores[number] = sum(size.cpus for size in taken)
                continue
            alike = id(job.size), count  # most jobs ask for as much as another one
            if alike not in known:
                known[alike] = sum((job.size.cpus,) * count)
            cores[number] = known[alike]
        # In turn, as one adds up by hand: by pairs the last digits would be others.
        return float(np.cumsum(cores * self.durations)[-1]) if len(self) else 0.0

    def _counts(self) -> Sequence[int]:
        return [job.executors for job in self._jobs]
