"""Translates Spark's properties for Stoker: the fields of a job, and the rest for its application.

Spark's own defaults hold, and so do its older names of settings (`settings_table`). `treatments` assigns
each property to a job, the application or nothing. This module does not know the properties' source
(spark-submit's REST protocol, a driver elsewhere), nor the limits of a job: `JobSpec` checks the fields.
`property_values` reads single values.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, get_args

from conf.auto_bounds import is_auto
from conf.schema import SpotUse
from conf.util.counted import counted
from framework.spark import property_values as values
from framework.spark.executor_resources import executor_resources
from framework.spark.memory import OVERHEAD_FRACTION, SMALLEST_OVERHEAD_MIB, executor_cores, heap_mib
from framework.spark.property_values import PropertyError
from framework.spark.treatments import by_current_names, treatment

TOKEN = "spark.stoker.token"  # noqa: S105  # the name, not a token
"""The API's token, for clients that send no headers. Never part of a job."""

OURS: Mapping[str, str] = {
    "spark.stoker.type": "the type of the job",
    "spark.stoker.queue": "the queue it belongs to",
    "spark.stoker.owner": "the job's owner",
    "spark.stoker.priority": "its priority; higher runs earlier",
    "spark.stoker.deadline": "its deadline: in 2h, or 2026-11-22T18:00Z",
    "spark.stoker.restartable": "false: no job may preempt it",
    "spark.stoker.memoryRetry": "whether it restarts once with more memory if it had too little",
    "spark.stoker.spark": "the version of Spark that runs it, such as 3.5",
    "spark.stoker.executors": "auto, or auto:2-16: Stoker chooses the number of executors",
    "spark.stoker.cores": "auto, or auto:1-4: Stoker chooses the cores of each",
    "spark.stoker.memory": "auto, or auto:2g-16g: Stoker chooses the memory of each, with its overhead",
    "spark.stoker.minExecutors": "the minimum number of executors",
    "spark.stoker.maxRuntime": "its time limit: seconds, or a time such as 30m",
    "spark.stoker.maxCost": "the maximum cost of its whole life, dollars",
    "spark.stoker.atMaxCost": "end: it is ended when it has cost that; keep: it gets no more executors",
    "spark.stoker.retries": "the number of restarts of a failed driver",
    "spark.stoker.after": "the jobs that it depends on: ids or names, with commas; NAME:any for any end",
    "spark.stoker.startAt": "its earliest start: in 2h, 2026-11-22T18:00:00Z",
    "spark.stoker.group": "its group of jobs, waited for and billed as one",
    "spark.stoker.labels": "labels to find it by: team=a,stage=load",
    "spark.stoker.driver": "where its driver runs: host or cluster",
    "spark.stoker.packTasks": "false: under dynamic allocation few tasks are spread over all executors",
    "spark.stoker.spot": "whether it may be on spot VMs: never, allowed or only",
}
"""The properties of ours that describe a job, with their meaning."""

CONNECTION = frozenset(
    {TOKEN, "spark.stoker.token.file", "spark.stoker.ca", "spark.stoker.job", "spark.stoker.job.secret"}
)
"""Properties of ours by which a client reaches the daemon; they do not describe a job."""

SUPERVISED_RETRIES = 10
"""How often a driver is started again for spark-submit's --supervise, which gives no number."""

MOST_EXECUTORS = 10_000
"""Maximum number of executors of a job without a bound: the most that a job may have."""

_DEFAULT_HEAP_MIB = 1024  # spark.executor.memory and spark.driver.memory
_DYNAMIC = "spark.dynamicAllocation."
_DRIVER_ENVIRONMENT = "spark.mesos.driverEnv."

#: Settings that say how large a driver is.
_OF_DRIVERS = (
    *(f"spark.driver.{name}" for name in ("memory", "memoryOverhead", "memoryOverheadFactor")),
    "spark.driver.minMemoryOverhead",
    "spark.mesos.driver.memoryOverhead",
)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class JobProperties:
    """Description of a job in its Spark properties."""

    fields: Mapping[str, Any]
    """Fields of a `JobSpec`, without app, args and main_class: those that the properties set."""
    set_aside: Mapping[str, str]
    """Properties that have no effect, each with the reason."""


def job_properties(properties: Mapping[str, str]) -> JobProperties:
    """Read a job from Spark's properties; the application's are in the field `conf`.

    Memory is Spark's heap and its overhead together, in MiB, as a process takes it. Where that overhead is
    not the one that Stoker would reserve for such memory, `conf` has it (spark.executor.memoryOverhead).
    Executors have one core unless the properties set another number, and a heap of 1 GiB, as is Spark's
    default.

    PropertyError names a property that cannot be read or followed, or two that contradict each other.
    """
    given = _UnreadProperties(properties)
    overheads: dict[str, str] = {}
    fields = {
        "name": given.text("spark.app.name"),
        **_ours(given),
        **_executors(given),
        "memory": _memory(given, "executor", overheads),
        **_auto(given),
        "driver": _driver(given, overheads),
        "jars": given("spark.jars", values.items),
        "py_files": given("spark.submit.pyFiles", values.items),
        "files": given("spark.files", values.items),
        "archives": given("spark.archives", values.items),
        "packages": given("spark.jars.packages", values.items),
        "repositories": given("spark.jars.repositories", values.items),
        "env": given.taken(_DRIVER_ENVIRONMENT),
    }
    conf, set_aside = _rest(given)
    conf |= overheads
    said = {name: value for name, value in fields.items() if value not in (None, [], {})}
    return JobProperties(said | ({"conf": conf} if conf else {}), set_aside)


def _ours(given: "_UnreadProperties") -> dict[str, Any]:
    for name in sorted(given.left):
        if name == "spark.stoker.beta":
            raise PropertyError(
                f"{name}: a job has no beta of its own; a policy's beta is in the daemon's config (policy)"
            )
        if name.startswith("spark.stoker.") and name not in OURS and name not in CONNECTION:
            raise PropertyError(f"{name} does not exist; the properties are {', '.join(OURS)}")
    spot, uses = given.text("spark.stoker.spot"), get_args(SpotUse)
    if spot not in (None, *uses):
        raise PropertyError(f"spark.stoker.spot={spot}: should be {', '.join(uses)}")
    given("spark.stoker.packTasks", values.boolean, keep=True)  # the driver's own, which reads it as well
    retries = given("spark.stoker.retries", values.whole(0))
    if given("spark.driver.supervise", values.boolean) and retries is None:
        retries = SUPERVISED_RETRIES
    queue = given.text("spark.mesos.dispatcher.queue")
    return {
        "type": given.text("spark.stoker.type"),
        "queue": given.text("spark.stoker.queue") or queue,
        "owner": given.text("spark.stoker.owner"),
        "priority": given("spark.stoker.priority", values.whole(-1000)),
        "deadline": given.text("spark.stoker.deadline"),
        "restartable": given("spark.stoker.restartable", values.boolean),
        "memory_retry": given("spark.stoker.memoryRetry", values.boolean),
        "spark": given.text("spark.stoker.spark"),
        "spot": spot,
        "min_executors": given("spark.stoker.minExecutors", values.whole(1)),
        "max_runtime": given("spark.stoker.maxRuntime", values.seconds),
        "max_cost": given("spark.stoker.maxCost", values.number),
        "at_max_cost": given.text("spark.stoker.atMaxCost"),
        "retries": retries,
        "after": given("spark.stoker.after", _after),
        "start_at": given.text("spark.stoker.startAt"),
        "group": given.text("spark.stoker.group"),
        "labels": given("spark.stoker.labels", _labels),
    }


def _after(_: str, text: str) -> list[str | dict[str, str]]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [{"job": n.removesuffix(":any"), "when": "any"} if n.endswith(":any") else n for n in names]


def _labels(name: str, text: str) -> dict[str, str]:
    found = dict(pair.strip().split("=", 1) for pair in text.split(",") if "=" in pair[1:])
    if len(found) < len(text.split(",")):
        raise PropertyError(f"{name}={text}: should be labels such as team=a,stage=load, each once")
    return found


def _auto(given: "_UnreadProperties") -> dict[str, str]:
    """Fields that are left to Stoker; Spark's own settings of them are then without effect."""
    names = {"executors": "executors", "cpus": "cores", "memory": "memory"}
    found = {field: given.text(f"spark.stoker.{name}") for field, name in names.items()}
    for field, text in found.items():
        if text is not None and not is_auto(text):
            raise PropertyError(f"spark.stoker.{names[field]}={text}: should be auto, or auto:MIN-MAX")
    return {field: text for field, text in found.items() if text is not None}


def _executors(given: "_UnreadProperties") -> dict[str, Any]:
    """Number of executors, or its bounds; the cores and gpus of each."""
    dynamic = given(f"{_DYNAMIC}enabled", values.boolean) or False
    instances = given("spark.executor.instances", values.whole(0 if dynamic else 1))
    cores = given("spark.executor.cores", values.cores)
    most = given("spark.cores.max", values.cores)
    if cores is None:
        cores = max(1.0, float(most // instances)) if most and instances and not dynamic else 1.0
    if most is not None and most < cores:
        raise PropertyError(f"spark.executor.cores={cores:g} is more than spark.cores.max={most:g}")
    task = given("spark.task.cpus", values.factor, keep=True)
    if task is not None and task > executor_cores(cores):
        raise PropertyError(f"spark.task.cpus={task:g} is more than spark.executor.cores={cores:g}")
    within = None if most is None else int(most // cores)
    gpus = given("spark.mesos.executor.gpus", values.whole(0)), given("spark.mesos.gpus.max", values.whole(0))
    if dynamic:
        allowed = {} if within is None else {"spark.cores.max": within}
        if all(gpus):
            allowed["spark.mesos.gpus.max"] = max((gpus[1] or 0) // (gpus[0] or 1), 1)
        bounds = _bounds(given, instances, allowed)
        resources = executor_resources(given.left, bounds["max"], *gpus)
        return {"cpus": cores, "resources": resources, "executors": bounds}
    count = instances or within
    resources = executor_resources(given.left, count or 1, *gpus)
    given.taken(_DYNAMIC)  # Spark does not look at them either
    if instances is not None and within is not None and instances > within:
        raise PropertyError(
            f"spark.executor.instances={instances} of {counted(cores, 'core')} each are "
            f"{counted(instances * cores, 'core')}, "
            f"more than spark.cores.max={most:g}"
        )
    return {"cpus": cores, "resources": resources, "executors": count}


def _bounds(given: "_UnreadProperties", instances: int | None, allowed: Mapping[str, int]) -> dict[str, int]:
    """Bounds of dynamic allocation; other settings have so many executors `allowed`, each by its name."""
    fewest = given(f"{_DYNAMIC}minExecutors", values.whole(0)) or 0
    said = given(f"{_DYNAMIC}maxExecutors", values.whole(1))
    asked = given(f"{_DYNAMIC}initialExecutors", values.whole(0)) or 0
    most = min((*allowed.values(), MOST_EXECUTORS if said is None else min(said, MOST_EXECUTORS)))
    initial = max(fewest, asked, instances or 0)
    if initial > most:
        names = {fewest: f"{_DYNAMIC}minExecutors", asked: f"{_DYNAMIC}initialExecutors"}
        name = names.get(initial, "spark.executor.instances")
        bound = f"{_DYNAMIC}maxExecutors={said}" if most == said else "a job may have"
        within = next((name for name, number in allowed.items() if number == most != said), None)
        bound = f"{within} allows, {most}" if within is not None else bound
        raise PropertyError(f"{name}={initial} is more than {bound}")
    return {"min": fewest, "max": most, "initial": initial}


def _memory(given: "_UnreadProperties", process: str, overheads: dict[str, str]) -> int:
    """The memory (MiB) of an executor or the driver; `overheads` receives one that is not the usual."""
    heap = given(f"spark.{process}.memory", _some_memory) or _DEFAULT_HEAP_MIB
    on_mesos = given(f"spark.mesos.{process}.memoryOverhead", values.size_mib)
    overhead = given(f"spark.{process}.memoryOverhead", values.size_mib)
    fraction = given(f"spark.{process}.memoryOverheadFactor", values.factor)
    least = given(f"spark.{process}.minMemoryOverhead", values.size_mib)
    if overhead is None:
        overhead = on_mesos
    if overhead is None:
        of_heap = math.floor(heap * (OVERHEAD_FRACTION if fraction is None else fraction))
        overhead = max(of_heap, SMALLEST_OVERHEAD_MIB if least is None else least)
    beside = values.beside_heap_mib(partial(given, keep=True)) if process == "executor" else 0
    overhead += beside
    if beside or not _is_usual(heap + overhead, heap):
        overheads[f"spark.{process}.memoryOverhead"] = f"{overhead}m"
    return heap + overhead


def _some_memory(name: str, text: str) -> int:
    if not (mib := values.size_mib(name, text)):
        raise PropertyError(f"{name}={text}: should be at least 1m")
    return mib


def _is_usual(memory_mib: int, heap: int) -> bool:
    """Whether that is the heap which processes of such memory have anyway."""
    try:
        return heap_mib(memory_mib) == heap
    except ValueError:
        return False


def _driver(given: "_UnreadProperties", overheads: dict[str, str]) -> dict[str, Any]:
    """The driver's size and place, as far as something is said of them."""
    on = given.text("spark.stoker.driver")
    if on not in (None, "host", "cluster"):
        raise PropertyError(f"spark.stoker.driver={on}: should be host or cluster")
    cores = given("spark.driver.cores", values.cores)
    sized = any(name in given.left for name in _OF_DRIVERS)
    driver = {
        "on": on,
        "cpus": cores,
        "memory": _memory(given, "driver", overheads) if sized else None,
    }
    return {name: value for name, value in driver.items() if value is not None}


def _rest(given: "_UnreadProperties") -> tuple[dict[str, str], dict[str, str]]:
    """Settings for the application, and the properties without effect, each with the reason."""
    conf: dict[str, str] = {}
    set_aside: dict[str, str] = {}
    for name, value in given.left.items():
        found = treatment(name)
        if found.does == "passes" or found.in_conf:
            conf[name] = value
        elif found.does == "sets aside" and not found.quiet:
            set_aside[given.name(name)] = found.why
    return conf, dict(sorted(set_aside.items()))


class _UnreadProperties:
    """Properties, each of which is taken out when it is read, unless it is the application's too (`keep`).

    Names that Stoker knows are those of today: an older one counts where that is not given. PropertyError
    names a property that no job may have.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.left, self._given = by_current_names(properties)
        for name, value in self.left.items():
            found = treatment(name)
            if why := found.refusal(value):
                raise PropertyError(f"{self.name(name)}{f'={value}' if found.harmless else ''}: {why}")

    def __call__(self, name: str, read: Callable[[str, str], Value], *, keep: bool = False) -> Value | None:
        """A property's value as `read` understands it; None when it is not there or empty."""
        value = self.left.get(name) if keep else self.left.pop(name, None)
        text = (value or "").strip()
        return read(self.name(name), text) if text else None

    def name(self, name: str) -> str:
        """Name of the property as the submitter wrote it."""
        return self._given.get(name, name)

    def text(self, name: str) -> str | None:
        """A property's text; None when it is not there or empty."""
        return self(name, lambda _, text: text)

    def taken(self, prefix: str) -> dict[str, str]:
        """Remove and return the properties with this prefix, by the rest of their names."""
        names = [name for name in self.left if name.startswith(prefix)]
        return {name.removeprefix(prefix): self.left.pop(name) for name in names}
