"""Memory below which executors of a job type failed, learned from failures and from restarts with more.

It is a bound of one executor's memory whatever its cores: fewer tasks at once may need less, or the largest
one alone as much.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from profiles.shapes.runs import JobShape


class MemoryNeed(NamedTuple):
    """Memory of an executor (GiB) that was `enough` after less had failed, or else that failed."""

    memory_gib: float
    enough: bool

    def met_by(self, memory_gib: float) -> bool:
        """Whether so much does not fall short of it."""
        return memory_gib >= self.memory_gib if self.enough else memory_gib > self.memory_gib


class MemoryRun(NamedTuple):
    """A job that ended with so much memory in each executor (GiB); its `need` where less failed, or that."""

    memory_gib: float
    need: MemoryNeed | None = None


def need_of(ended: Iterable[MemoryRun]) -> MemoryNeed | None:
    """The largest need of a type, by its jobs, the newest first; None without one.

    A newer job that finished with less voids a need, as its input may have become smaller.
    """
    found: list[MemoryNeed] = []
    least: float | None = None
    for run in ended:
        if run.need is None:
            least = run.memory_gib if least is None else min(least, run.memory_gib)
        elif least is None or run.need.met_by(least):
            found.append(run.need)
    return max(found, key=lambda need: (need.memory_gib, not need.enough), default=None)


def with_enough(shapes: Sequence[JobShape], need: MemoryNeed | None) -> list[JobShape]:
    """Shapes that meet the need; where there is none, those with the most memory."""
    if need is None:
        return [*shapes]
    most = max((shape.memory_gib for shape in shapes), default=0.0)
    return [one for one in shapes if need.met_by(one.memory_gib) or one.memory_gib == most]
