"""Running jobs of a fixed number of executors that began with fewer: how many more executors they should get.

They get them when no job waits, and the new executors join their job where it runs. The same in a simulation
and in the daemon; numbers in, numbers out. A job with a driver that asks for executors itself (dynamic
allocation) is none of these.
"""

from collections.abc import Sequence
from typing import NamedTuple

from conf.defaults import RESOURCE_WEIGHT
from environment.resources import Resources
from environment.types import Job

#: Weight of a job's share of the cluster beside its own time, while no job waits.
_TAKEN = RESOURCE_WEIGHT / (1 - RESOURCE_WEIGHT)


class Grown(NamedTuple):
    """Executors joined a running job at that time, in seconds, or left it: so many before, and after."""

    at: float
    before: int
    after: int


def more_executors(job: Job, given: Sequence[Resources]) -> int:
    """Number of executors, each like its last, that a job on these should get while no job waits.

    It minimises the job's seconds plus its weighted core-seconds, by the curve of its type. All that it
    asked for where nothing is known about it.
    """
    missing = job.executors - len(given)
    if job.dynamic is not None or missing <= 0 or not given:
        return 0
    if job.expected_duration is None:
        return missing
    asked, last = job.cpus * job.executors, given[-1]
    had, memory = sum(size.cpus for size in given), sum(size.memory_mib for size in given)
    least = min(size.cpus for size in given)

    def adds(more: int) -> float:
        cores = had + more * last.cpus
        seconds = job.duration_with(cores, memory + more * last.memory_mib, least) or 0.0
        return seconds * (1 + _TAKEN * cores / asked)

    return min(range(missing + 1), key=adds)


def pays(job: Job, given: Sequence[Resources], more: int, left: float | None) -> bool:
    """Whether so many more save more of the seconds that are left than an executor takes to start."""
    before, after = job.duration_on(tuple(given)), job.duration_on((*given, *(given[-1],) * more))
    if before is None or after is None or left is None:
        return True
    start = 0.0 if job.curve is None else job.curve.startup + job.curve.warming / given[-1].cpus
    return left * (1 - after / before) > start


def sooner(job: Job, sizes: Sequence[Resources], grown: Grown) -> float:
    """Factor on the rest of a job's time when executors join it; 1 where nothing is known.

    `sizes` are those of its executors, the earlier ones first.
    """
    before, after = (job.duration_on(_first(sizes, count)) for count in (grown.before, grown.after))
    return after / before if before and after else 1.0


def _first(sizes: Sequence[Resources], count: int) -> tuple[Resources, ...]:
    """The sizes of so many executors; those that are not there any more were like the last."""
    there = tuple(sizes[:count])
    return there + there[-1:] * (count - len(there))


def expected_of(
    job: Job, sizes: Sequence[Resources], vm_ids: Sequence[str], since: float, grown: Sequence[Grown]
) -> float | None:
    """Expected seconds of a job that began at `since`, with its present executors and `grown`."""
    first = grown[0].before if grown else len(sizes)
    seconds = job.expected_on(_first(sizes, first), len({*vm_ids[:first]}))
    if seconds is None:
        return None
    for each in grown:
        seconds = with_more(seconds, each.at - since, sooner(job, sizes, each))
    return seconds


def with_more(seconds: float, passed: float, factor: float) -> float:
    """Seconds that a job takes of which the rest, after so many, is multiplied by that."""
    return passed + max(seconds - passed, 0.0) * factor
