"""Logged applications as runs on a shape: so many executors of one size."""

from audit.applications import LoggedApplication
from audit.names import type_of
from profiles.shapes.runs import JobShape
from profiles.shapes.sources import UNPRICED, UnsizedRun

#: GiB of input below which it tells nothing of the work: Spark does not count every source.
_LEAST_INPUT = 0.01


def shape_run(application: LoggedApplication) -> UnsizedRun | None:
    """The application's run; None where its executors changed, as then it has no one shape."""
    executors = [each for each in application.executors if each.id != "driver" and each.seconds > 0]
    if not executors or application.dynamic or application.cut_short or any(each.lost for each in executors):
        return None
    sizes = {(each.cores, each.memory_mib) for each in executors}
    cores, memory_mib = next(iter(sizes))
    if len(sizes) > 1 or not (cores > 0 and memory_mib > 0) or application.seconds <= 0:
        return None
    name, gib = type_of(application.name), application.input_mib / 1024
    shape = JobShape("", len(executors), cores, memory_mib / 1024, UNPRICED)
    return UnsizedRun(name, gib if gib >= _LEAST_INPUT else None, shape, application.seconds)
