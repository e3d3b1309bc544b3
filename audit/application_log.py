"""Reads an application out of its event log, in one pass.

The log may be of Spark 2.2 to 4.x, cut short, of a local run, of one attempt of several, or have no event of
an executor; what had to be assumed stands in `notes`.
"""

import re
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from audit.applications import Executor, LoggedApplication, Stage
from audit.executor_memory import memory_of
from audit.executor_use import TaskArrays, idles, uses, warmings
from conf.util.counted import counted
from profiles.event_lines import (
    MALFORMED,
    Event,
    EventLines,
    EventLogError,
    amount_of,
    short_name,
    time_of,
)
from profiles.executor_attributes import ExecutorAttributes
from profiles.memory_peaks import MemoryPeak, peak_of
from profiles.packed import UNPACKING

_MIB = float(1 << 20)
_MS = 1000.0
#: Executors whose times lie so far outside of the application's are of another clock. Chosen: no log is
#: flushed so late.
_OTHER_CLOCK = 86_400.0
#: An executor that was launched longer before its registration is of another clock. Chosen: an hour is longer
#: than the fetch of Spark's archives may take.
_LONGEST_START = 3600.0
#: Seconds before its registration for which an executor is held at most, by the time of its request. Chosen:
#: a container starts within a minute; before that it waits in a full cluster's queue, and holds nothing.
_USUAL_START = 60.0
#: No application ran longer, ten years: anybody can write a log, and its times are added up and drawn.
_LONGEST_RUN = 3653 * 86_400.0
#: No executor had more cores, or MiB of memory: a VM type for it would be refused, and end the report.
_MOST_CORES, _MOST_MEMORY = 1024, 1 << 25
#: Where the application's file lies on the driver's machine is not kept.
_PATH = re.compile(r" at \S*/")
_LONGEST_NAME = 200
#: Starts of applications in one log that are told apart, where it should have one.
_MOST_STARTS = 1000
#: Removals that were meant to be; others are losses.
_MEANT = ("killed by driver", "idle", "decommission", "exit code 0", "exit status: 0", "code 0", "shutdown")
#: Settings that name the queue of an application, and the type of its VMs.
_QUEUES = ("spark.yarn.queue", "spark.kubernetes.namespace", "spark.databricks.clusterUsageTags.clusterName")
_VM_TYPES = (
    "spark.databricks.workerNodeTypeId",
    "spark.databricks.clusterUsageTags.clusterWorkers.nodeType",
    "spark.databricks.clusterUsageTags.clusterNodeType",
    "spark.stoker.vm.type",
)


def read_application(lines: EventLines, name: str) -> LoggedApplication:
    """Read an event log; `name` labels it. EventLogError when no application has started in it."""
    reading = _Reading(name)
    try:
        for event in lines:
            reading.note(event)
        return reading.application(lines)
    except EventLogError:
        raise
    except (*UNPACKING, *MALFORMED) as error:
        raise EventLogError(str(error) or type(error).__name__) from error


@dataclass(frozen=True, slots=True)
class _ResourceProfile:
    """A resource profile: requests for an executor, and cores for each task; 0 where it names none."""

    executor: Event
    task_cpus: float


@dataclass(slots=True)
class _Span:
    id: str
    host: str
    cores: float
    added: float
    profile: int = 0
    gpus: float = 0.0
    removed: float | None = None
    lost: bool = False
    peak: MemoryPeak | None = None
    starting: float = 0.0
    attributes: ExecutorAttributes | None = None


@dataclass(slots=True)
class _StageSums:
    number: int
    name: str = ""
    profile: int = 0
    submitted: float = 0.0
    completed: float = 0.0
    tasks: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    shuffles: bool = False
    first: float = float("inf")
    last: float = 0.0


@dataclass(slots=True)
class _Reading:
    """What was read so far; `note` takes the next event."""

    log: str
    version: str = ""
    start: Event = field(default_factory=dict)
    ended: float | None = None
    last: float = 0.0  # of its work
    conf: dict[str, str] = field(default_factory=dict)
    profiles: dict[int, _ResourceProfile] = field(default_factory=dict)
    spans: dict[str, _Span] = field(default_factory=dict)
    over: list[_Span] = field(default_factory=list)
    stages: dict[tuple[int, int], _StageSums] = field(default_factory=dict)
    # By task: number of its stage, its executor, when it was launched and over, and whether it was done.
    stage_of: "array[int]" = field(default_factory=lambda: array("q"))
    task_of: "array[int]" = field(default_factory=lambda: array("q"))
    launched: "array[float]" = field(default_factory=lambda: array("d"))
    finished: "array[float]" = field(default_factory=lambda: array("d"))
    done: "array[int]" = field(default_factory=lambda: array("b"))
    numbers: dict[str, int] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    # When block managers were added, by executor: the only sign of some.
    blocks: dict[str, float] = field(default_factory=dict)
    mib: dict[str, float] = field(default_factory=lambda: {"input": 0.0, "shuffle": 0.0, "spilled": 0.0})
    odd: int = 0
    # By id and time of their start: more than one where logs were joined.
    starts: set[tuple[str, float]] = field(default_factory=set)

    def note(self, event: Event) -> None:
        """Take an event; one that is not as Spark writes it is counted."""
        known = _NOTED.get(short_name(str(event.get("Event"))))
        if known is None:
            return
        try:
            known(self, event)
        except MALFORMED:
            self.odd += 1

    def work(self, at: float) -> None:
        """Note that something happened then."""
        self.last = max(self.last, at)

    def stage(self, number: int, attempt: int) -> _StageSums:
        """The sums of a stage."""
        found = self.stages.get((number, attempt))
        if found is None:
            found = self.stages[number, attempt] = _StageSums(len(self.stages))
        return found

    def application(self, lines: EventLines) -> LoggedApplication:
        """The application, all events being noted; EventLogError when none has started."""
        if not self.start:
            raise EventLogError(
                "no application has started in it"
                + (f"; {counted(lines.bad, 'line')} of {lines.lines} without an event" if lines.bad else "")
                + (f"; {', '.join(lines.lost)}: empty or cut short" if lines.lost else "")
            )
        if len(self.starts) > 1:
            ids = sorted({name for name, _ in self.starts})
            which = f": {', '.join(ids[:3])}{', ...' if len(ids) > 3 else ''}"
            raise EventLogError(
                f"{counted(len(self.starts), 'application')} started in it{which}; give each a log of its own"
            )
        notes = list[str]()
        started = self.start["Timestamp"] / _MS
        spans = self._all_spans(notes)
        ended = self._end(started, spans)
        cpus = self._task_cpus()
        by_task = np.array(list(cpus.values()))[np.array(self.stage_of, np.int64)]
        tasks = TaskArrays.of(self.task_of, self.launched, self.finished, self.done, by_task)
        if ended - started > _LONGEST_RUN:
            raise EventLogError(f"its times are {(ended - started) / 86_400:,.0f} days apart")
        executors = tuple(self._executors(spans, tasks, started, ended, notes))
        for each in executors:
            if not (0 <= each.cores <= _MOST_CORES and 0 < each.memory_mib <= _MOST_MEMORY):
                raise EventLogError(
                    f"an executor of it cannot be: cores {each.cores:g}, memory {each.memory_mib:.6g} MiB"
                )
        if self.ended is not None and self.ended < started:
            notes.append("its end is before its start: taken as lasting no time")
        if self.odd:
            notes.append(f"{counted(self.odd, 'event')} not as Spark writes them left out")
        if lines.bad:
            notes.append(f"{counted(lines.bad, 'line')} without an event left out")
        notes += [f"{part} of its log is empty or cut short: events are missing" for part in lines.lost]
        user = self.start.get("User") or self.conf.get("spark.databricks.clusterUsageTags.clusterOwner", "")
        return LoggedApplication(
            log=self.log,
            id=str(self.start.get("App ID") or self.log),
            attempt=str(self.start.get("App Attempt ID") or ""),
            name=str(self.start.get("App Name") or "unnamed")[:_LONGEST_NAME],
            user=str(user),
            queue=next((self.conf[key] for key in _QUEUES if self.conf.get(key)), ""),
            spark_version=self.version,
            master=self.conf.get("spark.master", ""),
            vm_type=next((self.conf[key] for key in _VM_TYPES if self.conf.get(key)), ""),
            started_at=started,
            working_at=tasks.first,
            ended_at=ended,
            cut_short=self.ended is None or bool(lines.lost),
            dynamic=self.conf.get("spark.dynamicAllocation.enabled", "").lower() == "true",
            executors=executors,
            stages=tuple(self._stages(cpus)),
            input_mib=self.mib["input"],
            shuffle_mib=self.mib["shuffle"],
            spilled_mib=self.mib["spilled"],
            tasks=len(self.done),
            failed_tasks=len(self.done) - sum(self.done),
            log_bytes=lines.bytes,
            bad_lines=lines.bad,
            notes=tuple(notes),
            lost_parts=tuple(lines.lost),
        )

    def _all_spans(self, notes: list[str]) -> list[_Span]:
        """Executors by the number that tasks have of them; those that only tasks tell of are added."""
        latest = {span.id: span for span in [*self.over, *self.spans.values()]}
        unknown = [name for name in self.numbers if name not in latest]
        if unknown:
            some = ", ".join(unknown[:3])
            notes.append(f"no event tells of executors: {len(unknown)} ({some}), known by their tasks")
        cores = _number(self.conf.get("spark.executor.cores"), 0.0)
        for name in unknown:
            own = 0.0 if name == "driver" else cores
            latest[name] = _Span(name, self.hosts[name], own, self.blocks.get(name, float("nan")))
        # Standalone masters and shells may use an id twice: earlier ones did not run the later one's tasks.
        twice = [span for span in self.over if latest[span.id] is not span]
        for name in latest:
            self.numbers.setdefault(name, len(self.numbers))
        return [*sorted(latest.values(), key=lambda span: self.numbers[span.id]), *twice]

    def _end(self, started: float, spans: Iterable[_Span]) -> float:
        if self.ended is not None:
            return max(self.ended, started)
        last = max(self.last, started)
        times = [at for span in spans for at in (span.added, span.removed or 0.0)]
        return max([last, *(at for at in times if at <= last + _OTHER_CLOCK)])

    def _executors(
        self,
        spans: list[_Span],
        tasks: TaskArrays,
        started: float,
        ended: float,
        notes: list[str],
    ) -> Iterable[Executor]:
        when: list[tuple[float, float]] = []
        other_clock = 0
        for number, span in enumerate(spans):
            first, last = tasks.span(number)
            added, removed = span.added, min(span.removed or ended, ended)
            if not started - _OTHER_CLOCK <= added <= ended:  # also when it is not known
                other_clock += added == added
                added = started if first is None else first
                removed = ended if first is not None else added
            elif first is not None:
                added = min(added, first)
            # Its tasks are of another clock where they lie far outside of the application.
            added = max(added, started - _OTHER_CLOCK)
            when.append((added, min(max(removed, added, last or added), ended + _OTHER_CLOCK)))
        if other_clock:
            notes.append(
                f"times of {counted(other_clock, 'executor')} outside of the application's: taken from tasks"
            )
        usual = self._usual_task_cpus()
        if told := sum(not span.cores and span.id in self.spans for span in spans):
            notes.append(f"{counted(told, 'executor')} without cores: taken from tasks")
        held = [span.cores or tasks.most_cpus(number) or usual for number, span in enumerate(spans)]
        used, idle = uses(tasks, when, held), idles(tasks, when)
        for span, (added, removed), cores, use, out in zip(spans, when, held, used, idle, strict=True):
            yield Executor(
                id=span.id,
                host=span.host,
                cores=cores,
                memory_mib=memory_of(span.id, self.conf, self._requests(span)),
                gpus=span.gpus,
                added_at=added,
                removed_at=removed,
                lost=span.lost,
                peak=span.peak,
                use=use,
                idle=out,
                starting=span.starting,
                attributes=span.attributes,
            )

    def _requests(self, span: _Span) -> Event | None:
        profile = self.profiles.get(span.profile)
        return profile.executor if profile else None

    def _usual_task_cpus(self) -> float:
        return _number(self.conf.get("spark.task.cpus"), 1.0)

    def _task_cpus(self) -> dict[tuple[int, int], float]:
        """Cores that a task takes, by stage in the order of their numbers."""
        usual = self._usual_task_cpus()
        asked = {number: profile.task_cpus or usual for number, profile in self.profiles.items()}
        return {stage: asked.get(sums.profile, usual) for stage, sums in self.stages.items()}

    def _stages(self, cpus: Mapping[tuple[int, int], float]) -> Iterable[Stage]:
        """Stages that ran; a stage that was skipped has no tasks."""
        warm = warmings(self.stage_of, self.task_of, self.launched, self.finished, len(self.stages))
        for (number, attempt), sums in sorted(self.stages.items()):
            if sums.tasks:
                yield Stage(
                    stage=number,
                    attempt=attempt,
                    name=_PATH.sub(" at ", sums.name)[:_LONGEST_NAME],
                    tasks=sums.tasks,
                    submitted_at=sums.submitted or sums.first,
                    completed_at=max(sums.completed, sums.last),
                    task_seconds=sums.seconds,
                    longest_task=sums.longest,
                    cpus_per_task=cpus[number, attempt],
                    warming_seconds=float(warm[sums.number]),
                    shuffles=sums.shuffles,
                )


def _note_log(reading: _Reading, event: Event) -> None:
    reading.version = str(event["Spark Version"])


def _note_start(reading: _Reading, event: Event) -> None:
    at = time_of(event["Timestamp"])
    if len(reading.starts) < _MOST_STARTS:
        reading.starts.add((str(event.get("App ID") or "")[:_LONGEST_NAME], at))
    reading.start = event


def _note_end(reading: _Reading, event: Event) -> None:
    reading.ended = time_of(event["Timestamp"])


def _note_environment(reading: _Reading, event: Event) -> None:
    given = event["Spark Properties"]
    pairs = given.items() if isinstance(given, Mapping) else given  # a list of pairs before Spark 3
    reading.conf.update({str(key): str(value) for key, value in pairs})


def _note_profile(reading: _Reading, event: Event) -> None:
    tasks = event.get("Task Resource Requests", {}).get("cpus", {}).get("Amount", 0.0)
    reading.profiles[int(event["Resource Profile Id"])] = _ResourceProfile(
        event["Executor Resource Requests"], amount_of(tasks)
    )


def _note_added(reading: _Reading, event: Event) -> None:
    info = event["Executor Info"]
    name, registered = str(event["Executor ID"]), time_of(event["Timestamp"])
    at = registered
    # A Spark that knows when it asked for the executor says so: it was held since then, unless the cluster
    # was full and it waited for its place.
    requested = info.get("Request Time")
    if isinstance(requested, int | float) and 0 < requested / _MS <= at:
        at = max(requested / _MS, at - _USUAL_START)
    # So does the daemon that launched it, also where the application asked for nothing.
    attributes = ExecutorAttributes.read(info.get("Attributes"))
    if attributes is not None and at - _LONGEST_START <= attributes.launched_at <= at:
        at = attributes.launched_at
    gpus = info.get("Resources", {}).get("gpu", {}).get("addresses", ())
    span = _Span(name, str(info["Host"]), amount_of(info["Total Cores"]), at)
    span.profile, span.gpus = int(info.get("Resource Profile Id", 0)), float(len(gpus))
    span.starting, span.attributes = registered - at, attributes
    if (earlier := reading.spans.get(name)) is not None:
        earlier.removed = at if earlier.removed is None else earlier.removed
        reading.over.append(earlier)
    reading.spans[name] = span


def _note_removed(reading: _Reading, event: Event) -> None:
    span = reading.spans[str(event["Executor ID"])]
    span.removed = time_of(event["Timestamp"])
    reason = str(event.get("Removed Reason", "")).lower()
    span.lost = not any(word in reason for word in _MEANT)


def _note_blocks(reading: _Reading, event: Event) -> None:
    reading.blocks.setdefault(str(event["Block Manager ID"]["Executor ID"]), time_of(event["Timestamp"]))


def _note_stage(reading: _Reading, event: Event) -> None:
    info = event["Stage Info"]
    sums = reading.stage(info["Stage ID"], info["Stage Attempt ID"])
    sums.name = str(info["Stage Name"])
    sums.profile = int(info.get("Resource Profile Id", 0))
    sums.submitted = time_of(info.get("Submission Time") or 0)
    sums.completed = time_of(info.get("Completion Time") or 0)
    reading.work(max(sums.submitted, sums.completed))


def _note_job_end(reading: _Reading, event: Event) -> None:
    reading.work(time_of(event["Completion Time"]))


def _note_query(reading: _Reading, event: Event) -> None:
    reading.work(time_of(event["time"]))


def _note_task(reading: _Reading, event: Event) -> None:
    info = event["Task Info"]
    launched, finished = time_of(info["Launch Time"]), time_of(info["Finish Time"])
    name = str(info["Executor ID"])
    number = reading.numbers.get(name)
    if number is None:
        number = reading.numbers[name] = len(reading.numbers)
        reading.hosts[name] = str(info.get("Host", ""))
    sums = reading.stage(event["Stage ID"], event.get("Stage Attempt ID", 0))
    finished = max(finished, launched)
    sums.tasks += 1
    sums.seconds += finished - launched
    sums.longest = max(sums.longest, finished - launched)
    sums.first, sums.last = min(sums.first, launched), max(sums.last, finished)
    reading.work(finished)
    reading.stage_of.append(sums.number)
    reading.task_of.append(number)
    reading.launched.append(launched)
    reading.finished.append(finished)
    reading.done.append(not (info.get("Failed") or info.get("Killed")))
    metrics = event.get("Task Metrics") or {}
    written = metrics.get("Shuffle Write Metrics") or {}
    sums.shuffles |= bool(amount_of(written.get("Shuffle Bytes Written", 0)))
    _note_metrics(reading, metrics)
    _note_memory(reading, name, event.get("Task Executor Metrics") or {})


def _note_metrics(reading: _Reading, metrics: Mapping[str, Any]) -> None:
    read = metrics.get("Shuffle Read Metrics") or {}
    mib = reading.mib
    mib["input"] += amount_of((metrics.get("Input Metrics") or {}).get("Bytes Read", 0)) / _MIB
    mib["shuffle"] += amount_of(read.get("Remote Bytes Read", 0) + read.get("Local Bytes Read", 0)) / _MIB
    mib["spilled"] += amount_of(metrics.get("Disk Bytes Spilled", 0)) / _MIB


def _note_memory(reading: _Reading, executor: str, metrics: Mapping[str, Any]) -> None:
    peak, span = peak_of(metrics), reading.spans.get(executor)
    if peak is not None and span is not None:
        span.peak = peak if span.peak is None else span.peak.with_later(peak)


def _note_executor_peak(reading: _Reading, event: Event) -> None:
    _note_memory(reading, str(event["Executor ID"]), event["Executor Metrics"])


def _number(text: str | None, otherwise: float) -> float:
    try:
        return amount_of(float(text)) if text else otherwise
    except ValueError:
        return otherwise


_NOTED: Mapping[str, Callable[[_Reading, Event], None]] = {
    "SparkListenerLogStart": _note_log,
    "SparkListenerApplicationStart": _note_start,
    "SparkListenerApplicationEnd": _note_end,
    "SparkListenerEnvironmentUpdate": _note_environment,
    "SparkListenerResourceProfileAdded": _note_profile,
    "SparkListenerExecutorAdded": _note_added,
    "SparkListenerExecutorRemoved": _note_removed,
    "SparkListenerBlockManagerAdded": _note_blocks,
    "SparkListenerStageSubmitted": _note_stage,
    "SparkListenerStageCompleted": _note_stage,
    "SparkListenerStageExecutorMetrics": _note_executor_peak,
    "SparkListenerJobEnd": _note_job_end,
    "SparkListenerSQLExecutionEnd": _note_query,
    "SparkListenerTaskEnd": _note_task,
}
#: The names of the events that are read; others are passed over unparsed.
WANTED = frozenset(_NOTED)
