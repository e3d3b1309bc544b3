"""Workloads as files, CSV or Parquet: written and read back the same.

The columns are the fields of a `WorkloadJob`: those that it must have and, if they are there, its name and
those with a default, which may be empty. Units are its own; resources are written as gpus=1;disk=100, jobs
that one comes after as load;clean, sizes that are left to Stoker as executors=auto:2-16;cpus=auto.
"""

import csv
import difflib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, get_origin, get_type_hints

from conf.auto_bounds import is_auto
from conf.errors import ReportedError
from conf.units import memory_mib, resources_of, resources_text, seconds
from conf.util.counted import counted
from conf.util.whole_file import replacing
from profiles.workloads.workload import Workload, WorkloadJob, workload_of

#: Type of each column by its name, and a job's default where an optional one is empty or missing.
_KINDS = get_type_hints(WorkloadJob)
_DEFAULTS = {
    field.name: field.default if field.default_factory is MISSING else field.default_factory()
    for field in fields(WorkloadJob)
}
COLUMNS = tuple(name for name, default in _DEFAULTS.items() if default is MISSING and name != "name")
_EMPTY = tuple(name for name, default in _DEFAULTS.items() if default is not MISSING)
OPTIONAL = ("name", *_EMPTY)
_FLAGS = tuple(name for name, kind in _KINDS.items() if kind is bool)
_WHOLE = tuple(name for name, kind in _KINDS.items() if kind in (int, int | None))
_TEXTS = (
    *(name for name, kind in _KINDS.items() if kind is str or get_origin(kind) is Literal),
    "resources",
    "after",
    "auto",
)


#: Columns that may be said with a unit, and how that is read.
_AMOUNTS: dict[str, Callable[[object], float]] = {
    "memory_mib": memory_mib,
    "input_mib": memory_mib,
    **dict.fromkeys(("submitted_at", "duration", "deadline", "start_at"), seconds),
}
_WITH_UNIT = re.compile(r"\s*[\d.]+\s*[A-Za-z]+\s*$")
#: Others' names of the columns, where they are not alike.
_ALSO_CALLED = {
    "submitted_at": ("arrival", "arrival_time", "submit", "time", "timestamp", "start", "at"),
    "type": ("kind", "class", "app", "application", "workload"),
    "cpus": ("cores", "cpu", "vcpus", "executor_cores", "cpu_milli"),
    "memory_mib": ("mem", "memory", "ram", "memory_mb", "executor_memory", "memory_gib"),
    "executors": ("instances", "num_executors", "workers", "count", "tasks"),
    "duration": ("runtime", "seconds", "length", "elapsed", "duration_s", "run_time"),
}


#: Rows of a Parquet file that are read. Chosen: ten times the most jobs of any simulation here.
_MOST_ROWS = 1_000_000


class WorkloadError(ReportedError, ValueError):
    """A workload or trace that cannot be used; the text names file, line and column."""


def read_workload(path: Path) -> Workload:
    """Read a .csv or .parquet file; WorkloadError names file, line (row, for Parquet) and column.

    Jobs without a name are called job-1, job-2, ... in the order of the file.
    """
    reader = _chosen(path, {".csv": _read_csv, ".parquet": _read_parquet})
    jobs: list[WorkloadJob] = []
    names: set[str] = set()
    for where, row in reader(path):
        job = _job(where, row, len(jobs) + 1)
        if job.name in names:
            raise WorkloadError(f"{where}: name: another job is called {job.name}")
        names.add(job.name)
        jobs.append(job)
    if not jobs:
        raise WorkloadError(f"{path}: holds no job")
    try:
        return workload_of(jobs)
    except ValueError as error:
        raise WorkloadError(f"{path}: {error}") from error


def write_workload(workload: Workload, path: Path) -> None:
    """Write a .csv or .parquet file that `read_workload` reads back the same."""
    writer = _chosen(path, {".csv": _write_csv, ".parquet": _write_parquet})
    with replacing(path) as draft:
        writer(workload, draft)


def open_text(path: Path) -> str:
    """The text of a file; WorkloadError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise WorkloadError(f"{path}: cannot be read: {why}") from error


def number(where: str, column: str, value: object, kind: type[int] | type[float] = float) -> Any:
    """A cell as an int or a float; WorkloadError when it is neither a number nor the text of one.

    A number with a zero fraction is whole: 2048.0 is 2048, as pandas writes it.
    """
    try:
        if isinstance(value, str) and kind is int:
            return int(value) if value.strip().lstrip("+-").isdecimal() else _whole(float(value))
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            found = kind(value)
            if isinstance(value, str) or found == value:
                return found
    except (ValueError, OverflowError):
        pass
    wanted = "a whole number" if kind is int else "a number"
    raise WorkloadError(f"{where}: {column}: should be {wanted}, found {value!r}")


def _whole(value: float) -> int:
    if not value.is_integer():
        raise ValueError(value)
    return int(value)


def missing(wanted: Sequence[str], found: Sequence[str]) -> str:
    """Text that names these columns missing among those found, each with the nearest existing names.

    Empty when all are there. Names that are wanted themselves are near to no other.
    """
    others = [name for name in found if name not in wanted]
    told = []
    for column in wanted:
        if column in found:
            continue
        called = [name for name in others if _plain(name) in _ALSO_CALLED.get(column, ())]
        near = called or difflib.get_close_matches(column, others, n=1, cutoff=0.5)
        told.append(f"{column}: missing" + (f" (is it {' or '.join(near)}?)" if near else ""))
    return "; ".join(told)


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _chosen(path: Path, by_suffix: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    if path.suffix.lower() not in by_suffix:
        raise WorkloadError(f"{path}: should end in {' or '.join(by_suffix)}")
    return by_suffix[path.suffix.lower()]


def _job(where: str, row: Mapping[str, object], number_of_job: int) -> WorkloadJob:
    values: dict[str, Any] = {"name": f"job-{number_of_job}"}
    for column, value in row.items():
        if column in _EMPTY and _is_empty(column, value):
            continue
        if column not in _TEXTS and is_auto(value):
            name = "memory" if column == "memory_mib" else column
            raise WorkloadError(
                f"{where}: {column}: should be a number, that `duration` is of; what is left to Stoker goes "
                f"into the column auto, as {name}={value}"
            )
        if column in _FLAGS:
            values[column] = _flag(where, column, value)
        elif column in _AMOUNTS and isinstance(value, str) and _WITH_UNIT.match(value):
            values[column] = _amount(where, column, value)
        elif column not in _TEXTS:
            values[column] = number(where, column, value, int if column in _WHOLE else float)
        elif column == "resources" and isinstance(value, str):
            values[column] = _resources(where, value)
        elif column == "after" and isinstance(value, str):
            values[column] = tuple(name.strip() for name in value.split(";") if name.strip())
        elif column == "auto" and isinstance(value, str):
            values[column] = _auto(where, value)
        elif isinstance(value, str) and value:
            values[column] = value
        else:
            raise WorkloadError(f"{where}: {column}: should be a text, found {value!r}")
    try:
        return WorkloadJob(**values)
    except ValueError as error:
        raise WorkloadError(f"{where}: {error}") from error


def _is_empty(column: str, value: object) -> bool:
    """Whether nothing stands there; where numbers do, not a number (NaN) is how pandas says so."""
    if isinstance(value, str) and column not in _TEXTS:
        return not value.strip() or value.strip().lower() == "nan"
    return value is None or value == "" or value != value


def _amount(where: str, column: str, value: str) -> float:
    """Parse a value with its unit: 2g, 90s."""
    try:
        return _AMOUNTS[column](value)
    except ValueError as error:
        raise WorkloadError(f"{where}: {column}: {error}, found {value!r}") from error


def _flag(where: str, column: str, value: object) -> bool:
    said = value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())
    if said is None:
        raise WorkloadError(f"{where}: {column}: should be true or false, found {value!r}")
    return said


def _resources(where: str, cell: str) -> dict[str, float]:
    try:
        return resources_of(cell)
    except ValueError as error:
        raise WorkloadError(f"{where}: resources: {error}") from error


def _auto(where: str, cell: str) -> dict[str, str]:
    found = dict[str, str]()
    for part in cell.split(";"):
        name, equals, text = (each.strip() for each in part.partition("="))
        if not equals or name in found:
            raise WorkloadError(
                f"{where}: auto: should be as in executors=auto:2-16;cpus=auto, found {cell!r}"
            )
        found[name] = text
    return found


def _check_columns(where: str, found: Iterable[str]) -> list[str]:
    columns = list(found)
    known = (*COLUMNS, *OPTIONAL)
    if lacks := missing(COLUMNS, columns):
        raise WorkloadError(f"{where}: {lacks}; the header should be {','.join(COLUMNS)}")
    for column in columns:
        if column not in known:
            near = difflib.get_close_matches(column, known, n=1, cutoff=0.8)
            hint = f"is it {near[0]}? " if near else ""
            raise WorkloadError(f"{where}: {column}: unknown column; {hint}known are {', '.join(known)}")
        if columns.count(column) > 1:
            raise WorkloadError(f"{where}: {column}: given twice")
    return columns


def _read_csv(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    lines = csv.reader(io.StringIO(open_text(path), newline=""), strict=True)
    columns: list[str] | None = None
    try:
        for row in lines:
            where = f"{path}:{lines.line_num}"
            if columns is None:
                columns = _check_columns(where, row)
            elif len(row) == len(columns):
                yield where, dict(zip(columns, row, strict=True))
            elif row:
                raise WorkloadError(f"{where}: {counted(len(row), 'column')}, {len(columns)} expected")
    except csv.Error as error:
        raise WorkloadError(f"{path}:{lines.line_num}: not valid CSV: {error}") from error


def _read_parquet(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    import pyarrow
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.read_metadata(path).num_rows
        # Equal rows take next to nothing in the file, and a kilobyte each here.
        if rows > _MOST_ROWS:
            raise WorkloadError(f"{path}: should have at most {_MOST_ROWS:,} rows, and has {rows:,}")
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise WorkloadError(f"{path}: cannot be read as Parquet: {error}") from error
    _check_columns(str(path), table.column_names)
    for i, row in enumerate(table.to_pylist()):
        yield f"{path}: row {i + 1}", row


def _columns(workload: Workload) -> tuple[str, ...]:
    """Columns to write: those that may be empty only where a job differs from the default."""
    had = [column for column in _EMPTY if any(_cell(job, column) is not None for job in workload.jobs)]
    return (*COLUMNS, "name", *had)


def _cell(job: WorkloadJob, column: str) -> Any:
    if column == "resources":
        return resources_text(job.resources) or None
    if column == "after":
        return ";".join(job.after) or None
    if column == "auto":
        return ";".join(f"{name}={text}" for name, text in job.auto.items()) or None
    value = getattr(job, column)
    return None if value == _DEFAULTS[column] else value


def _write_csv(workload: Workload, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        columns = _columns(workload)
        writer.writerow(columns)
        rows = ([_cell(job, column) for column in columns] for job in workload.jobs)
        writer.writerows(
            [str(cell).lower() if isinstance(cell, bool) else cell for cell in row] for row in rows
        )


def _write_parquet(workload: Workload, path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    kinds = {
        **dict.fromkeys(_TEXTS, pyarrow.string()),
        **dict.fromkeys(_WHOLE, pyarrow.int64()),
        **dict.fromkeys(_FLAGS, pyarrow.bool_()),
    }
    table = pyarrow.table(
        {
            column: pyarrow.array(
                [_cell(job, column) for job in workload.jobs], kinds.get(column, pyarrow.float64())
            )
            for column in _columns(workload)
        }
    )
    pyarrow.parquet.write_table(table, path)
