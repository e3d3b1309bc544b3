"""Readers of public traces: the SWIM Facebook suite, Alibaba's GPU cluster of 2023. They make no workloads.

The files are not part of Stoker. Errors name file, line and column.
"""

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conf.util.counted import counted
from profiles.workloads.workload_files import WorkloadError, missing, number, open_text


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a trace: so many seconds from `start`."""

    start: float
    seconds: float


#: Where the densities of Islam 2022, 7.1 are found in FB-2009_samples_24_times_1hr_0.tsv; the paper does not
#: say which hours it took. `normal` is the quietest hour, 78 arrivals spread evenly, of which 50 are drawn:
#: the two hours with exactly 50 are a burst before a gap, and the end of the trace. `burst` is the first ten
#: minutes with exactly 100 arrivals. `day` is all of it but two stragglers, 5,892 jobs.
WINDOWS = {
    "normal": Window(0.0, 3600.0),
    "burst": Window(16_656.0, 600.0),
    "day": Window(0.0, 24 * 3600.0),
}


#: Columns of a SWIM file that every version of it has.
_SWIM_COLUMNS = 6


@dataclass(frozen=True, slots=True)
class FacebookJob:
    """A Hadoop job of the SWIM workload suite; times are seconds from the start of the trace."""

    name: str
    submitted_at: float
    input_bytes: int
    shuffle_bytes: int
    output_bytes: int
    #: How many paths stand behind that, which are not kept.
    paths: int = 0


@dataclass(frozen=True, slots=True)
class AlibabaTask:
    """A task (pod) of cluster-trace-gpu-v2023; `scheduled_at` is None when it never was."""

    name: str
    cpus: float
    memory_mib: int
    gpus: int
    qos: str
    created_at: float
    scheduled_at: float | None
    deleted_at: float
    #: The part of each of its GPUs that it has.
    gpu_share: float = 1.0


@dataclass(frozen=True, slots=True)
class AlibabaMachine:
    """A machine of cluster-trace-gpu-v2023."""

    name: str
    cpus: float
    memory_mib: int
    gpus: int
    gpu_model: str


def read_facebook(path: Path) -> tuple[FacebookJob, ...]:
    """Read a SWIM file: tab-separated, no header; name, submit time, gap, input, shuffle and output bytes.

    Paths of inputs and outputs may stand behind that, and are counted.
    """
    jobs = []
    for i, line in enumerate(open_text(path).split("\n"), start=1):
        if not line:
            continue
        where, cells = f"{path}:{i}", line.split("\t")
        if len(cells) < _SWIM_COLUMNS:
            raise WorkloadError(
                f"{where}: {counted(len(cells), 'column')}, {_SWIM_COLUMNS} expected between tabs"
            )
        read, shuffled, written = (
            number(where, column, cell, int)
            for column, cell in zip(("input", "shuffle", "output"), cells[3:_SWIM_COLUMNS], strict=True)
        )
        at = number(where, "submit time", cells[1])
        if not math.isfinite(at):  # such a job would be in no window
            raise WorkloadError(f"{where}: submit time: should be a number, found {cells[1]!r}")
        paths = sum(bool(cell.strip()) for cell in cells[_SWIM_COLUMNS:])
        jobs.append(FacebookJob(cells[0], at, read, shuffled, written, paths))
    return tuple(jobs)


def arrivals_in(jobs: tuple[FacebookJob, ...], window: Window) -> tuple[float, ...]:
    """Times of arrival within the window, in seconds from its start, in order."""
    times = sorted(job.submitted_at - window.start for job in jobs)
    return tuple(at for at in times if 0 <= at < window.seconds)


def read_alibaba_tasks(path: Path) -> tuple[AlibabaTask, ...]:
    """Read openb_pod_list_*.csv."""
    columns = ("name", "cpu_milli", "memory_mib", "num_gpu", "qos", "creation_time", "deletion_time")
    return tuple(
        AlibabaTask(
            name=row["name"],
            cpus=number(where, "cpu_milli", row["cpu_milli"]) / 1000,
            memory_mib=number(where, "memory_mib", row["memory_mib"], int),
            gpus=number(where, "num_gpu", row["num_gpu"], int),
            gpu_share=_shared(where, row.get("gpu_milli")),
            qos=row["qos"],
            created_at=number(where, "creation_time", row["creation_time"]),
            scheduled_at=_optional(where, "scheduled_time", row["scheduled_time"]),
            deleted_at=number(where, "deletion_time", row["deletion_time"]),
        )
        for where, row in _rows(path, (*columns, "scheduled_time"))
    )


def read_alibaba_machines(path: Path) -> tuple[AlibabaMachine, ...]:
    """Read openb_node_list_*.csv."""
    return tuple(
        AlibabaMachine(
            name=row["sn"],
            cpus=number(where, "cpu_milli", row["cpu_milli"]) / 1000,
            memory_mib=number(where, "memory_mib", row["memory_mib"], int),
            gpus=number(where, "gpu", row["gpu"], int),
            gpu_model=row["model"],
        )
        for where, row in _rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    )


def _shared(where: str, milli: str | None) -> float:
    """The part of each of its GPUs that a task has, which says so where it shares one; else all of it."""
    found = number(where, "gpu_milli", milli) / 1000 if milli else 0.0
    return float(found) or 1.0


def _optional(where: str, column: str, cell: str) -> float | None:
    return float(number(where, column, cell)) if cell else None


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    reader = csv.DictReader(io.StringIO(open_text(path), newline=""), strict=True)
    if lacks := missing(columns, reader.fieldnames or ()):
        raise WorkloadError(f"{path}:1: {lacks}")
    try:
        for row in reader:
            where = f"{path}:{reader.line_num}"
            if None in row or None in row.values():
                raise WorkloadError(f"{where}: should have {counted(len(reader.fieldnames or ()), 'column')}")
            yield where, row
    except csv.Error as error:
        raise WorkloadError(f"{path}:{reader.line_num}: not valid CSV: {error}") from error
