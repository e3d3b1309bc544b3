"""Spark's event log of an application: its times, stage by stage. `runs` stores runs."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from profiles.event_lines import (
    MALFORMED,
    Event,
    EventLines,
    EventLogError,
    amount_of,
    codec,
    parts_of,
    time_of,
)
from profiles.packed import UNPACKING, unpacked

_MIB = float(1 << 20)
_MOST_STAGES = 100_000
#: Where the app lies on the driver's machine is not kept.
_PATH = re.compile(r" at \S*/")


@dataclass(frozen=True, slots=True)
class StageTimes:
    """A stage, in seconds and MiB; `task_seconds` and all below are sums over its tasks, also failed ones."""

    stage: int
    name: str
    tasks: int
    #: From its submission to its end.
    seconds: float
    task_seconds: float
    cpu_seconds: float
    gc_seconds: float
    shuffle_read_mib: float
    shuffle_write_mib: float
    #: Read from other executors, or sent to the driver as results.
    network_mib: float
    spill_mib: float


@dataclass(frozen=True, slots=True)
class AppLog:
    """An application: times are seconds since the epoch, None for events that never came."""

    spark_version: str
    started_at: float
    #: When its first stage was submitted.
    working_at: float | None
    ended_at: float | None
    stages: tuple[StageTimes, ...]


@dataclass(slots=True)
class _Stage:
    name: str = ""
    submitted: float = 0.0
    completed: float = 0.0
    tasks: int = 0
    sums: dict[str, float] = field(default_factory=dict)


def read_log(path: Path) -> AppLog:
    """Read an event log, a file or a folder, also that of an application that was cut short.

    EventLogError when it is none.
    """
    try:
        names = [str(each) for each in path.iterdir()] if path.is_dir() else [str(path)]
        with contextlib.ExitStack() as opened:
            parts = [(name, opened.enter_context(Path(name).open("rb"))) for name in parts_of(names)]
            return parse_log([(name, unpacked(part, codec(name))) for name, part in parts], str(path))
    except OSError as error:
        raise EventLogError(f"{path}: no event log: {error}") from error


def parse_log(files: Sequence[tuple[str, BinaryIO]], name: str) -> AppLog:
    """Parse a log as `read_log` does, from its files in order, unpacked, each with its name.

    `name` labels the log. An application writes its log itself, so anything may be in it: more than
    `LONGEST_LOG`, unpacked, is not read, and content in a format other than Spark's raises EventLogError.
    """
    try:
        return _parse(files, name)
    except EventLogError:
        raise
    except (*UNPACKING, *MALFORMED) as error:
        raise EventLogError(f"{name}: no event log: {type(error).__name__}: {error}") from error


def _parse(files: Sequence[tuple[str, BinaryIO]], name: str) -> AppLog:
    version, started, ended = "", None, None
    stages: dict[tuple[int, int], _Stage] = {}
    for event in EventLines(files, name):
        kind = event.get("Event")
        if kind == "SparkListenerLogStart":
            version = str(event["Spark Version"])
        elif kind == "SparkListenerApplicationStart":
            started = time_of(event["Timestamp"])
        elif kind == "SparkListenerApplicationEnd":
            ended = time_of(event["Timestamp"])
        elif kind in ("SparkListenerStageSubmitted", "SparkListenerStageCompleted"):
            _note_stage(stages, event["Stage Info"])
        elif kind == "SparkListenerTaskEnd":
            _note_task(stages, event)
        if len(stages) > _MOST_STAGES:
            raise EventLogError(f"{name}: more than {_MOST_STAGES} stages")
    if started is None:
        raise EventLogError(f"{name}: no application has started in it")
    begun = [stage.submitted for stage in stages.values() if stage.submitted]
    return AppLog(version, started, min(begun, default=None), ended, tuple(_stages(stages)))


def _note_stage(stages: dict[tuple[int, int], _Stage], info: Event) -> None:
    stage = stages.setdefault((info["Stage ID"], info["Stage Attempt ID"]), _Stage())
    stage.name = _PATH.sub(" at ", info["Stage Name"])
    stage.submitted = time_of(info.get("Submission Time", 0))
    stage.completed = time_of(info.get("Completion Time", 0))


def _note_task(stages: dict[tuple[int, int], _Stage], event: Event) -> None:
    stage = stages.setdefault((event["Stage ID"], event["Stage Attempt ID"]), _Stage())
    stage.tasks += 1
    times, metrics = event["Task Info"], event.get("Task Metrics") or {}
    read = metrics.get("Shuffle Read Metrics", {})
    remote = read.get("Remote Bytes Read", 0)
    values = {
        "task_seconds": time_of(times["Finish Time"]) - time_of(times["Launch Time"]),
        "cpu_seconds": metrics.get("Executor CPU Time", 0) / 1e9,
        "gc_seconds": metrics.get("JVM GC Time", 0) / 1e3,
        "shuffle_read_mib": (remote + read.get("Local Bytes Read", 0)) / _MIB,
        "shuffle_write_mib": metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0) / _MIB,
        "network_mib": (remote + metrics.get("Result Size", 0)) / _MIB,
        "spill_mib": metrics.get("Disk Bytes Spilled", 0) / _MIB,
    }
    for name, value in values.items():
        stage.sums[name] = stage.sums.get(name, 0.0) + amount_of(value)


def _stages(stages: Mapping[tuple[int, int], _Stage]) -> Iterator[StageTimes]:
    """Stages that ran; a stage that was skipped has no tasks."""
    names = (
        "task_seconds",
        "cpu_seconds",
        "gc_seconds",
        "shuffle_read_mib",
        "shuffle_write_mib",
        "network_mib",
        "spill_mib",
    )
    for (number, _), stage in sorted(stages.items()):
        if stage.tasks:
            seconds = max(0.0, stage.completed - stage.submitted)
            sums = {name: stage.sums.get(name, 0.0) for name in names}
            yield StageTimes(number, stage.name, stage.tasks, seconds, **sums)
