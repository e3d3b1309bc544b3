"""Runs on shapes, read from a table of one's own or from measured runs."""

import csv
import io
import statistics
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from stoker.bounded_read import read_bounded

from conf.util.counted import counted
from profiles.runs import MeasuredRun
from profiles.shapes.runs import JobShape, ShapeError, ShapeRun

#: Columns of a table that must be there.
COLUMNS = ("type", "executors", "cpus", "memory_gib", "seconds")
_MORE = ("job", "input_gib", "vm", "dollars_per_hour", "speed")
#: Bytes and runs of a table. Chosen: as many runs as are read from a daemon's records; a belief has some
#: thousand numbers for each.
_LONGEST, _MOST = 4 << 20, 5_000
#: Dollars an hour of a shape whose price nobody knows; the model of seconds does not use it.
UNPRICED = 1.0


def read_table(path: Path) -> list[ShapeRun]:
    """Runs of a CSV file or pipe, one a line, at most `_MOST`; ShapeError names the line and the mistake.

    It needs the columns type, executors, cpus and memory_gib (of one executor) and seconds; it may have job
    (runs of one job do the same work), input_gib, vm, dollars_per_hour (of all executors) and speed.
    """
    try:
        lines = io.StringIO(read_bounded(path, _LONGEST), newline="")
    except (OSError, ValueError) as error:
        raise ShapeError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        reader = csv.DictReader(lines, strict=True)
        named = reader.fieldnames or ()
        if missing := [column for column in COLUMNS if column not in named]:
            raise ShapeError(f"{path}: has no column {missing[0]}; should have {', '.join(COLUMNS)}")
        if odd := [column for column in named if column not in COLUMNS + _MORE]:
            raise ShapeError(f"{path}: column {odd[0]} is unknown; known are {', '.join(COLUMNS + _MORE)}")
        found = list[UnsizedRun]()
        for row in reader:
            if None in row or None in row.values():
                wanted = f"should have {counted(len(named), 'column')}, as its header"
                raise ShapeError(f"{path}, line {reader.line_num}: {wanted}")
            try:
                found.append(_run(row))
                sized(found[-1:])
            except (ValueError, TypeError) as error:
                raise ShapeError(f"{path}, line {reader.line_num}: {error}") from None
            if len(found) > _MOST:
                raise ShapeError(f"{path}: should have at most {_MOST} runs, such as the newest")
    except csv.Error as error:
        raise ShapeError(f"{path}: cannot be read: {error}") from None
    if not found:
        raise ShapeError(f"{path}: has no run; should have one a line")
    return sized(found)


def _run(row: Mapping[str, str]) -> "UnsizedRun":
    cores, memory = float(row["cpus"]), float(row["memory_gib"])
    shape = JobShape(
        row.get("vm") or f"{cores:g}x{memory:g}",
        _whole(row["executors"]),
        cores,
        memory,
        float(row.get("dollars_per_hour") or UNPRICED),
        float(row.get("speed") or 1.0),
    )
    gib = float(row["input_gib"]) if row.get("input_gib") else None
    return UnsizedRun(row["type"], gib, shape, float(row["seconds"]), row.get("job") or "")


def _whole(text: str) -> int:
    """A whole number, also as 2.0, as pandas writes it."""
    if not float(text).is_integer():
        raise ValueError(f"executors: should be a whole number, found {text}")
    return int(float(text))


def of_measured(runs: Iterable[MeasuredRun]) -> list[ShapeRun]:
    """Runs that have finished, from measured ones."""
    return sized(
        UnsizedRun(
            run.type,
            run.input_mib / 1024 if run.input_mib else None,
            JobShape("", run.executors, run.cpus, run.memory_mib / 1024, UNPRICED),
            run.duration,
        )
        for run in runs
        if run.state == "finished" and run.duration > 0
    )


class UnsizedRun(NamedTuple):
    """A run with an input, in GiB, that may be unknown; `job` is empty where its input tells it."""

    type: str
    input_gib: float | None
    shape: JobShape
    seconds: float
    job: str = ""


def sized(runs: Iterable[UnsizedRun]) -> list[ShapeRun]:
    """Runs with their inputs; ShapeError where a number is not above zero.

    A type of which the input of one run is unknown counts as one of equal inputs, each as large as the memory
    of a middle run: working sets near it are thought of.
    """
    types: dict[str, list[UnsizedRun]] = {}
    for run in runs:
        types.setdefault(run.type, []).append(run)
    return [run for of in types.values() for run in _sized(of)]


def _sized(runs: list[UnsizedRun]) -> Iterator[ShapeRun]:
    equal = None
    if any(run.input_gib is None for run in runs):
        equal = statistics.median_high(run.shape.executors * run.shape.memory_gib for run in runs)
    for run in runs:
        gib = equal or run.input_gib or 0.0
        job = run.job or (run.type if equal else f"{run.type} {gib:.2g} GiB")
        yield ShapeRun(run.type, job, gib, run.shape, run.seconds)


def distinct(runs: Iterable[ShapeRun]) -> int:
    """Number of different shapes among runs."""
    return len({(run.shape.executors, run.shape.cores, run.shape.memory_gib) for run in runs})
