"""Measured runs of jobs, stored as Parquet: a folder with `runs.parquet` and `about.json`.

Every row of the table is one job. The schema has a version, which stands in the file; `about.json` has the
plan, the machine and the versions. `daemon.cli.profile.measure` measures runs,
`environment.simulation.durations.fitting` fits models to them.
"""

import json
import math
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from conf.errors import ReportedError
from conf.util.counted import counted
from profiles.spark_event_log import AppLog, StageTimes

#: To be raised when columns change in a way that another version would not understand.
SCHEMA_VERSION = 1
RUNS, ABOUT = "runs.parquet", "about.json"

#: Chosen: further from its group's median than this many times the usual deviation is an outlier, but no run
#: within a tenth of the median ever is.
_FAR, _NEAR = 3.5, 0.1


class ProfileError(ReportedError, ValueError):
    """Unusable folder of profiles; the text names it and the error."""


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A job that ran; sizes are those of one executor, times seconds, amounts of data MiB, cost dollars."""

    name: str
    #: Tells the copies of a job apart that ran beside each other.
    copy: int
    type: str
    #: MiB of input; None where that is not known.
    input_mib: float | None
    executors: int
    cpus: float
    memory_mib: int
    #: The VM of each executor.
    placement: tuple[str, ...]
    #: Over the time of the run and the VMs that it used, the share of cpus that others' executors held.
    shared: float
    state: str
    submitted_at: float
    #: Of the driver.
    ended_at: float
    #: From the decision to the start of the last executor.
    launching: float
    #: From the start of the last executor to the end of the driver.
    duration: float
    #: From the start of the last executor to the first stage; None without an event log.
    startup: float | None
    cost: float
    losses: int
    stages: tuple[StageTimes, ...] = ()

    @property
    def held(self) -> float:
        """Seconds for which it held its VMs: from the decision to its end, as a simulation runs it."""
        return self.launching + self.duration

    @property
    def vms(self) -> int:
        """On how many VMs it ran."""
        return len(set(self.placement))

    def total(self, what: str) -> float:
        """The sum of a column of the stages."""
        return float(sum(getattr(stage, what) for stage in self.stages))

    @property
    def group(self) -> tuple[object, ...]:
        """Key that is equal for runs which should take equally long."""
        crowd = self.name.rpartition("-r")[0] or self.name
        return (self.type, self.input_mib, self.executors, self.cpus, self.memory_mib, self.vms, crowd)


def measured(
    app: AppLog | None,
    *,
    started_at: float | None,
    **values: Any,
) -> MeasuredRun:
    """A run from the daemon's values (`values`) and Spark's own log, if there is one."""
    startup = None
    if app is not None and app.working_at is not None and started_at is not None:
        startup = max(0.0, app.working_at - started_at)
    return MeasuredRun(startup=startup, stages=app.stages if app else (), **values)


def outliers(runs: Sequence[MeasuredRun]) -> frozenset[tuple[str, int]]:
    """Name and copy of the runs that took much longer or shorter than others of their group.

    The usual deviation is that of all groups together, since a group has few runs.
    """
    groups: dict[tuple[object, ...], list[MeasuredRun]] = {}
    for run in runs:
        if run.state == "finished":
            groups.setdefault(run.group, []).append(run)
    away = {
        (run.name, run.copy): abs(math.log(run.held / statistics.median(r.held for r in group)))
        for group in groups.values()
        if len(group) > 2
        for run in group
    }
    if not away:
        return frozenset()
    usual = 1.4826 * statistics.median(away.values())
    return frozenset(key for key, distance in away.items() if distance > max(_FAR * usual, _NEAR))


def about_machine(spark: str) -> dict[str, object]:
    """The machine, and the versions of the programs that ran on it; `spark` is Spark's version."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in _lines(Path("/proc/cpuinfo"))
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_mib": memory,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "spark": spark,
        "stoker": version("stoker"),
    }


def machine_told(about: Mapping[str, Any]) -> str:
    """The machine of measurements, in words, as `about_machine` describes it in `about`."""
    machine = about.get("machine", {})
    return (
        f"Machine: {counted(machine.get('cores', 0), 'core')} of {machine.get('cpu')}, "
        f"{machine.get('memory_mib')} MiB, kernel {machine.get('kernel')}; Spark {machine.get('spark')}, "
        f"Python {machine.get('python')}"
    )


def write_runs(folder: Path, runs: Sequence[MeasuredRun], about: Mapping[str, object]) -> None:
    """Write both files, each in one step, so that a writer killed meanwhile leaves the earlier runs.

    First the description of the machine: runs without it could not be continued.
    """
    import pyarrow.parquet

    folder.mkdir(parents=True, exist_ok=True)
    rows = [asdict(run) | {"placement": list(run.placement)} for run in runs]
    table = pyarrow.Table.from_pylist(rows, schema=_schema())
    (folder / f"{ABOUT}.new").write_text(json.dumps({"schema": SCHEMA_VERSION, **about}, indent=2) + "\n")
    (folder / f"{ABOUT}.new").replace(folder / ABOUT)
    pyarrow.parquet.write_table(table, folder / f"{RUNS}.new")
    (folder / f"{RUNS}.new").replace(folder / RUNS)


def read_runs(folder: Path) -> tuple[MeasuredRun, ...]:
    """The runs of a folder in the order in which they ended; ProfileError when it cannot be read."""
    import pyarrow
    import pyarrow.parquet

    path = folder / RUNS
    if not path.is_file():
        raise ProfileError(f"{folder}: contains no profiles: {RUNS} does not exist")
    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise ProfileError(f"{path}: cannot be read as Parquet: {error}") from error
    found = (table.schema.metadata or {}).get(b"stoker.schema", b"none").decode()
    if found != str(SCHEMA_VERSION):
        raise ProfileError(f"{path}: its schema is version {found}, this program reads {SCHEMA_VERSION}")
    columns = _schema().names
    missing = set(columns) - set(table.schema.names)
    if missing:
        raise ProfileError(f"{path}: has no column {', '.join(sorted(missing))}; measure anew")
    return tuple(_run(row) for row in table.select(columns).to_pylist())


def read_about(folder: Path) -> dict[str, Any]:
    """Read `about.json`; ProfileError when it cannot be read."""
    try:
        values = json.loads((folder / ABOUT).read_text())
    except (OSError, ValueError) as error:
        raise ProfileError(f"{folder / ABOUT}: cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise ProfileError(f"{folder / ABOUT}: should hold an object")
    return values


def _run(row: Mapping[str, Any]) -> MeasuredRun:
    stages = tuple(StageTimes(**stage) for stage in row["stages"])
    return MeasuredRun(**{**row, "placement": tuple(row["placement"]), "stages": stages})


def _schema() -> Any:
    import pyarrow

    kinds: dict[object, Any] = {
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        str: pyarrow.string(),
        float | None: pyarrow.float64(),
        tuple[str, ...]: pyarrow.list_(pyarrow.string()),
    }
    stage = pyarrow.struct([(field.name, kinds[field.type]) for field in fields(StageTimes)])
    kinds[tuple[StageTimes, ...]] = pyarrow.list_(stage)
    columns = [(field.name, kinds[field.type]) for field in fields(MeasuredRun)]
    return pyarrow.schema(columns, metadata={"stoker.schema": str(SCHEMA_VERSION)})


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
