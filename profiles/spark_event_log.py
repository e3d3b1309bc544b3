"""Spark's event log of an application: its times, stage by stage. `runs` stores runs."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from profiles.packed import unpacked

Event = Mapping[str, Any]

_MIB = float(1 << 20)
#: Bytes that are read of one log, and of one line of it.
LONGEST_LOG = 1 << 30
_LONGEST_LINE = 1 << 26
_MOST_STAGES = 100_000
#: How Spark calls the files of a log that it divides, beside the one that says whether it is complete.
_ROLLED = re.compile(r"events_(?P<number>\d{1,9})_.+")
_STATUS, _COMPACTED, _IN_PROGRESS = "appstatus_", ".compact", ".inprogress"
#: What reading nonsense may raise.
_WRONG = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
)
#: Where the app lies on the driver's machine is not kept.
_PATH = re.compile(r" at \S*/")


class EventLogError(ValueError):
    """An event log that is not there or is none; the text names the file."""


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


def parts_of(names: Sequence[str]) -> list[str]:
    """The files, by their paths, that make up a log, in order; EventLogError when some are missing.

    That is a single file, or those of a folder in which Spark begins a new one now and then
    (`spark.eventLog.rolling.enabled`): its last compacted one, which has the rest of all before it, and
    those that follow.
    """
    rolled = {name: match for name in names if (match := _ROLLED.fullmatch(Path(name).name))}
    if not rolled:
        plain = [name for name in names if not Path(name).name.startswith(_STATUS)]
        if len(plain) != 1:
            raise EventLogError(f"{', '.join(names) or 'no file'}: no event log")
        return plain
    numbers = {name: int(match["number"]) for name, match in rolled.items()}
    compacted = [numbers[name] for name in rolled if name.endswith(_COMPACTED)]
    first = max(compacted, default=1)
    kept = {
        numbers[name]: name
        for name in sorted(rolled, key=lambda name: (numbers[name], name.endswith(_COMPACTED)))
        if numbers[name] >= first
    }
    for number in range(first, max(numbers.values()) + 1):
        if number not in kept:
            raise EventLogError(f"{Path(names[0]).parent}: file {number} of the event log is missing")
    return [kept[number] for number in sorted(kept)]


def read_log(path: Path) -> AppLog:
    """Read an event log, a file or a folder, also that of an application that was cut short.

    EventLogError when it is none.
    """
    try:
        names = [str(each) for each in path.iterdir()] if path.is_dir() else [str(path)]
        with contextlib.ExitStack() as opened:
            files = [(name, opened.enter_context(Path(name).open("rb"))) for name in parts_of(names)]
            return parse_log(files, str(path))
    except OSError as error:
        raise EventLogError(f"{path}: no event log: {error}") from error


def parse_log(files: Sequence[tuple[str, BinaryIO]], name: str) -> AppLog:
    """Parse a log as `read_log` does, from its open files in order, each with its name; `name` labels it.

    An application writes its log itself, so anything may be in it: more than `LONGEST_LOG`, unpacked, is not
    read, and content in a format other than Spark's raises EventLogError.
    """
    try:
        return _parse(files, name)
    except EventLogError:
        raise
    except _WRONG as error:
        raise EventLogError(f"{name}: no event log: {type(error).__name__}: {error}") from error


def _codec(name: str) -> str:
    """The codec by which a file is packed, as Spark has it in its name; empty for none."""
    return Path(name).name.removesuffix(_COMPACTED).removesuffix(_IN_PROGRESS).rpartition(".")[2]


def _parse(files: Sequence[tuple[str, BinaryIO]], name: str) -> AppLog:
    version, started, ended = "", None, None
    stages: dict[tuple[int, int], _Stage] = {}
    for event in _events(files, name):
        kind = event.get("Event")
        if kind == "SparkListenerLogStart":
            version = str(event["Spark Version"])
        elif kind == "SparkListenerApplicationStart":
            started = event["Timestamp"] / 1000
        elif kind == "SparkListenerApplicationEnd":
            ended = event["Timestamp"] / 1000
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


def _events(files: Sequence[tuple[str, BinaryIO]], name: str) -> Iterator[Event]:
    read, number = 0, 0
    for part, file in files:
        lines = unpacked(file, _codec(part))
        while line := lines.readline(_LONGEST_LINE + 1):
            read, number = read + len(line), number + 1
            if len(line) > _LONGEST_LINE or read > LONGEST_LOG:
                raise EventLogError(f"{name}:{number}: larger than an event log can be")
            if not line.endswith(b"\n"):
                break  # the driver ended while it wrote
            event = json.loads(line)
            if not isinstance(event, dict):
                raise EventLogError(f"{name}:{number}: no event")
            yield event


def _note_stage(stages: dict[tuple[int, int], _Stage], info: Event) -> None:
    stage = stages.setdefault((info["Stage ID"], info["Stage Attempt ID"]), _Stage())
    stage.name = _PATH.sub(" at ", info["Stage Name"])
    stage.submitted = info.get("Submission Time", 0) / 1000
    stage.completed = info.get("Completion Time", 0) / 1000


def _note_task(stages: dict[tuple[int, int], _Stage], event: Event) -> None:
    stage = stages.setdefault((event["Stage ID"], event["Stage Attempt ID"]), _Stage())
    stage.tasks += 1
    times, metrics = event["Task Info"], event.get("Task Metrics") or {}
    read = metrics.get("Shuffle Read Metrics", {})
    remote = read.get("Remote Bytes Read", 0)
    values = {
        "task_seconds": (times["Finish Time"] - times["Launch Time"]) / 1e3,
        "cpu_seconds": metrics.get("Executor CPU Time", 0) / 1e9,
        "gc_seconds": metrics.get("JVM GC Time", 0) / 1e3,
        "shuffle_read_mib": (remote + read.get("Local Bytes Read", 0)) / _MIB,
        "shuffle_write_mib": metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0) / _MIB,
        "network_mib": (remote + metrics.get("Result Size", 0)) / _MIB,
        "spill_mib": metrics.get("Disk Bytes Spilled", 0) / _MIB,
    }
    for name, value in values.items():
        stage.sums[name] = stage.sums.get(name, 0.0) + value


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
