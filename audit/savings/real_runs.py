"""Runs on real Spark by which an audit's savings are checked, stored as JSON with the contents of their logs.

A file `runs.json` has all runs and the description of the plan, the machine and the isolation.
`daemon.cli.profile.audit_on_spark` runs the jobs, `audit.savings.real_savings` compares.
"""

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from audit.applications import Executor, LoggedApplication, Stage
from audit.executor_use import CoreUse, Idle
from conf.errors import ReportedError
from conf.util.whole_file import write_whole
from profiles.executor_attributes import ExecutorAttributes
from profiles.memory_peaks import MemoryPeak
from profiles.runs import machine_told

RUNS = "runs.json"


class RealRunsError(ReportedError, ValueError):
    """A file of runs that cannot be read; the text names it."""


@dataclass(frozen=True, slots=True)
class AuditedRun:
    """A job that ran, with its log.

    `share` is that of the executors of the size before the change: 1 for runs of that size, which alone the
    audit sees. `round` counts from 0. `load` is the machine's at the end of the run: how many processes
    wanted to run, on average over a minute. With `idle` it ran with dynamic allocation, up to `executors`,
    which released those that were idle for so many seconds.
    """

    type: str
    round: int
    executors: int
    share: float
    load: float
    application: LoggedApplication
    idle: float | None = None

    @property
    def before(self) -> bool:
        """Whether it is of the size before the change."""
        return self.share == 1.0


@dataclass(frozen=True, slots=True)
class AuditedRuns:
    """Runs in order of time, and `about`: the plan, the machine, the isolation of its VMs."""

    runs: tuple[AuditedRun, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def conditions(self) -> str:
        """The machine, the date, the load and the isolation, in words."""
        loads = [run.load for run in self.runs]
        return (
            f"{machine_told(self.about)}; {self.about.get('date')}. Load (processes that want to run, at the "
            f"end of a run): {min(loads):.1f} to {max(loads):.1f}, median {statistics.median(loads):.1f}. "
            f"Isolation of VMs {self.about.get('isolation')}."
        )


def write_audited(folder: Path, audited: AuditedRuns) -> None:
    """Write the file; a writer that is killed meanwhile leaves the earlier runs. OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(asdict(run)) for run in audited.runs)
    about = json.dumps(audited.about, indent=1)
    write_whole(folder / RUNS, f'{{"about": {about},\n"runs": [\n{lines}\n]}}\n', 0o644)


def read_audited(folder: Path) -> AuditedRuns:
    """The runs of a folder, none where it has no such file; RealRunsError when that cannot be read."""
    path = folder / RUNS
    if not path.is_file():
        return AuditedRuns()
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return AuditedRuns(tuple(_run(run) for run in values["runs"]), values["about"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RealRunsError(f"{path}: cannot be read: {error}") from None


def _run(values: Mapping[str, Any]) -> AuditedRun:
    return AuditedRun(**{**values, "application": _application(values["application"])})


def _application(values: Mapping[str, Any]) -> LoggedApplication:
    return LoggedApplication(
        **{
            **values,
            "executors": tuple(_executor(each) for each in values["executors"]),
            "stages": tuple(Stage(**each) for each in values["stages"]),
            "notes": tuple(values["notes"]),
            "lost_parts": tuple(values.get("lost_parts", ())),
        }
    )


def _executor(values: Mapping[str, Any]) -> Executor:
    peak, attributes = values["peak"], values["attributes"]
    return Executor(
        **{
            **values,
            "use": CoreUse(*values["use"]),
            "idle": Idle(*values["idle"]),
            "peak": None if peak is None else MemoryPeak(*peak),
            "attributes": None if attributes is None else ExecutorAttributes(**attributes),
        }
    )
