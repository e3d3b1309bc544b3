"""Workloads as files, CSV or Parquet: written and read back the same.

The columns are the fields of a `WorkloadJob`: those that it must have and, if they are there, its name and
those with a default, which may be empty. Units are its own; resources are written as gpus=1;disk=100, jobs
that one comes after as load;clean.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, get_origin, get_type_hints

from conf.units import resources_of, resources_text
from profiles.workload import Workload, WorkloadJob, workload_of

#: What is in a column by its name, and what a job has where an optional one is empty or not there.
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
)


class WorkloadError(ValueError):
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
    writer(workload, path)


def open_text(path: Path) -> str:
    """The text of a file; WorkloadError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise WorkloadError(f"{path}: cannot be read: {why}") from error


def number(where: str, column: str, value: object, kind: type[int] | type[float] = float) -> Any:
    """A cell as an int or a float; WorkloadError when it is neither a number nor the text of one."""
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            found = kind(value)
            if isinstance(value, str) or found == value:
                return found
    except (ValueError, OverflowError):
        pass
    wanted = "a whole number" if kind is int else "a number"
    raise WorkloadError(f"{where}: {column}: should be {wanted}, found {value!r}")


def _chosen(path: Path, by_suffix: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    if path.suffix.lower() not in by_suffix:
        raise WorkloadError(f"{path}: should end in {' or '.join(by_suffix)}")
    return by_suffix[path.suffix.lower()]


def _job(where: str, row: Mapping[str, object], number_of_job: int) -> WorkloadJob:
    values: dict[str, Any] = {"name": f"job-{number_of_job}"}
    for column, value in row.items():
        if column in _EMPTY and value in ("", None):
            continue
        if column in _FLAGS:
            values[column] = _flag(where, column, value)
        elif column not in _TEXTS:
            values[column] = number(where, column, value, int if column in _WHOLE else float)
        elif column == "resources" and isinstance(value, str):
            values[column] = _resources(where, value)
        elif column == "after" and isinstance(value, str):
            values[column] = tuple(name.strip() for name in value.split(";") if name.strip())
        elif isinstance(value, str) and value:
            values[column] = value
        else:
            raise WorkloadError(f"{where}: {column}: should be a text, found {value!r}")
    try:
        return WorkloadJob(**values)
    except ValueError as error:
        raise WorkloadError(f"{where}: {error}") from error


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


def _check_columns(where: str, found: Iterable[str]) -> list[str]:
    columns = list(found)
    known = (*COLUMNS, *OPTIONAL)
    for column in columns:
        if column not in known:
            raise WorkloadError(f"{where}: {column}: unknown column; known are {', '.join(known)}")
        if columns.count(column) > 1:
            raise WorkloadError(f"{where}: {column}: given twice")
    for column in COLUMNS:
        if column not in columns:
            raise WorkloadError(f"{where}: {column}: missing; the header should be {','.join(COLUMNS)}")
    return columns


def _read_csv(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    lines = csv.reader(open_text(path).splitlines(), strict=True)
    columns: list[str] | None = None
    try:
        for row in lines:
            where = f"{path}:{lines.line_num}"
            if columns is None:
                columns = _check_columns(where, row)
            elif len(row) == len(columns):
                yield where, dict(zip(columns, row, strict=True))
            elif row:
                raise WorkloadError(f"{where}: {len(row)} columns, {len(columns)} expected")
    except csv.Error as error:
        raise WorkloadError(f"{path}:{lines.line_num}: not valid CSV: {error}") from error


def _read_parquet(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise WorkloadError(f"{path}: cannot be read as Parquet: {error}") from error
    _check_columns(str(path), table.column_names)
    for i, row in enumerate(table.to_pylist()):
        yield f"{path}: row {i + 1}", row


def _columns(workload: Workload) -> tuple[str, ...]:
    """What is written: those that may be empty only where a job has something else than the default."""
    had = [column for column in _EMPTY if any(_cell(job, column) is not None for job in workload.jobs)]
    return (*COLUMNS, "name", *had)


def _cell(job: WorkloadJob, column: str) -> Any:
    if column == "resources":
        return resources_text(job.resources) or None
    if column == "after":
        return ";".join(job.after) or None
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
