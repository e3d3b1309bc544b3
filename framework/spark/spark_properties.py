"""What Spark's properties ask of Stoker: the fields of a job, and what is left for its application.

Spark's own defaults hold. Where the properties come from (spark-submit's REST protocol, a driver elsewhere)
is not known here, nor what a job may be: `JobSpec` checks the fields. `spark_values` reads single values.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from conf.schema import SpotUse
from framework.spark import spark_values as values
from framework.spark.application import RESERVED_CONF, is_reserved
from framework.spark.memory import OVERHEAD_FRACTION, SMALLEST_OVERHEAD_MIB, heap_mib
from framework.spark.spark_values import PropertyError

TOKEN = "spark.stoker.token"  # noqa: S105  # the name, not a token
"""The API's token, for clients that send no headers. Never part of a job."""

OURS: Mapping[str, str] = {
    "spark.stoker.type": "what jobs of its kind are called",
    "spark.stoker.queue": "the queue it belongs to",
    "spark.stoker.owner": "whose job it is",
    "spark.stoker.priority": "how it stands beside others: the higher, the earlier",
    "spark.stoker.deadline": "by when it should be over: in 2h, or 2026-11-22T18:00Z",
    "spark.stoker.restartable": "false: it is never stopped for a job that goes before it",
    "spark.stoker.spark": "the version of Spark that runs it, such as 3.5",
    "spark.stoker.minExecutors": "on no fewer executors it runs",
    "spark.stoker.maxRuntime": "after how long it is ended: seconds, or a time such as 30m",
    "spark.stoker.retries": "how often a driver that failed is started again",
    "spark.stoker.after": "what it comes after: ids or names of jobs, with commas; NAME:any for any end",
    "spark.stoker.startAt": "before which time it does not begin: in 2h, 2026-11-22T18:00:00Z",
    "spark.stoker.group": "with which jobs it is waited for and billed as one",
    "spark.stoker.labels": "words to find it by: team=a,stage=load",
    "spark.stoker.driver": "where its driver runs: host or cluster",
    "spark.stoker.spot": "whether it may be on spot VMs: never, allowed or only",
}
"""The properties of ours that say something about a job, and what."""

CONNECTION = frozenset(
    {TOKEN, "spark.stoker.token.file", "spark.stoker.ca", "spark.stoker.job", "spark.stoker.job.secret"}
)
"""Properties of ours by which a client reaches the daemon: they are about no job."""

SUPERVISED_RETRIES = 10
"""How often a driver is started again for spark-submit's --supervise, which gives no number."""

MOST_EXECUTORS = 10_000
"""Executors at most of a job that says no bound: as many as a job may have."""

_DEFAULT_HEAP_MIB = 1024  # spark.executor.memory and spark.driver.memory
_DYNAMIC = "spark.dynamicAllocation."
_DRIVER_ENVIRONMENT = "spark.mesos.driverEnv."

#: Settings of Spark on Mesos that would decide what is decided here, and who decides it.
_DECIDED_HERE = {
    "spark.mesos.constraints": "the policy decides on which VMs executors run",
    "spark.mesos.driver.constraints": "the policy decides on which VM a driver runs",
    "spark.mesos.executor.docker.image": "the daemon's config says in which image (spark.image)",
    "spark.mesos.uris": "give files by --files, --jars or --archives",
}
#: What clients say of themselves and of how they reach the cluster.
_OF_THE_CLIENT = ("spark.app.*", "spark.master*", "spark.submit.*")

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class JobProperties:
    """What properties say of a job."""

    fields: Mapping[str, Any]
    """Fields of a `JobSpec`, without app, args and main_class: those that the properties say something of."""
    set_aside: tuple[str, ...]
    """Names of properties that have no effect, as Stoker sets them itself."""


def job_properties(properties: Mapping[str, str]) -> JobProperties:
    """What Spark's properties say of a job; what is the application's is in the field `conf`.

    Memory is Spark's heap and its overhead together, in MiB: what a process takes. Where that overhead is not
    the one that Stoker would keep of such memory, `conf` has it (spark.executor.memoryOverhead). Executors
    have one core unless the properties say otherwise, and a heap of 1 GiB, as is Spark's default.

    PropertyError names a property that cannot be read or followed, or two that contradict each other.
    """
    given = _Given(properties)
    overheads: dict[str, str] = {}
    fields = {
        "name": given.text("spark.app.name"),
        **_ours(given),
        **_executors(given),
        "memory": _memory(given, "executor", overheads),
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


def _ours(given: "_Given") -> dict[str, Any]:
    for name in sorted(given.left):
        if name == "spark.stoker.beta":
            raise PropertyError(
                f"{name}: no job has a beta of its own; a policy's beta is in the daemon's config (policy)"
            )
        if name.startswith("spark.stoker.") and name not in OURS and name not in CONNECTION:
            raise PropertyError(f"{name} does not exist; there are {', '.join(OURS)}")
    spot, uses = given.text("spark.stoker.spot"), get_args(SpotUse)
    if spot not in (None, *uses):
        raise PropertyError(f"spark.stoker.spot={spot}: should be {', '.join(uses)}")
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
        "spark": given.text("spark.stoker.spark"),
        "spot": spot,
        "min_executors": given("spark.stoker.minExecutors", values.whole(1)),
        "max_runtime": given("spark.stoker.maxRuntime", values.seconds),
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


def _executors(given: "_Given") -> dict[str, Any]:
    """How many executors there are, or may be; the cores and gpus of each."""
    dynamic = given(f"{_DYNAMIC}enabled", values.boolean) or False
    if given("spark.shuffle.service.enabled", values.boolean):
        raise PropertyError(
            "spark.shuffle.service.enabled=true: there is no shuffle service here; dynamic allocation keeps "
            f"track of shuffles itself ({_DYNAMIC}shuffleTracking.enabled)"
        )
    instances = given("spark.executor.instances", values.whole(0 if dynamic else 1))
    cores = given("spark.executor.cores", values.whole(1))
    most = given("spark.cores.max", values.whole(1))
    if cores is None:
        cores = max(1, most // instances) if most and instances and not dynamic else 1
    elif most is not None and most < cores:
        raise PropertyError(f"spark.executor.cores={cores} is more than spark.cores.max={most}")
    if (task := given("spark.task.cpus", values.whole(1), keep=True)) is not None and task > cores:
        raise PropertyError(f"spark.task.cpus={task} is more than spark.executor.cores={cores}")
    gpus = given("spark.executor.resource.gpu.amount", values.whole(0), keep=True)
    sizes = {"cpus": float(cores), "resources": {"gpus": float(gpus)} if gpus else None}
    within = None if most is None else most // cores
    if dynamic:
        return {**sizes, "executors": _bounds(given, instances, within)}
    given.taken(_DYNAMIC)  # Spark does not look at them either
    if instances is not None and within is not None and instances > within:
        raise PropertyError(
            f"spark.executor.instances={instances} of {cores} cores each are {instances * cores} cores, more "
            f"than spark.cores.max={most}"
        )
    return {**sizes, "executors": instances or within}


def _bounds(given: "_Given", instances: int | None, within: int | None) -> dict[str, int]:
    """Bounds of dynamic allocation; with `within` executors all cores that the job may have are used."""
    fewest = given(f"{_DYNAMIC}minExecutors", values.whole(0)) or 0
    said = given(f"{_DYNAMIC}maxExecutors", values.whole(1))
    asked = given(f"{_DYNAMIC}initialExecutors", values.whole(0)) or 0
    most = min(bound for bound in (said, within, MOST_EXECUTORS) if bound is not None)
    initial = max(fewest, asked, instances or 0)
    if initial > most:
        names = {fewest: f"{_DYNAMIC}minExecutors", asked: f"{_DYNAMIC}initialExecutors"}
        name = names.get(initial, "spark.executor.instances")
        bound = f"{_DYNAMIC}maxExecutors={said}" if most == said else "a job may have"
        bound = f"spark.cores.max allows, {most}" if most == within != said else bound
        raise PropertyError(f"{name}={initial} is more than {bound}")
    return {"min": fewest, "max": most, "initial": initial}


def _memory(given: "_Given", whose: str, overheads: dict[str, str]) -> int:
    """The memory (MiB) of an executor or the driver; `overheads` is told of one that is not the usual."""
    heap = given(f"spark.{whose}.memory", _some_memory) or _DEFAULT_HEAP_MIB
    on_mesos = given(f"spark.mesos.{whose}.memoryOverhead", values.size_mib)
    overhead = given(f"spark.{whose}.memoryOverhead", values.size_mib)
    fraction = given(f"spark.{whose}.memoryOverheadFactor", values.factor)
    least = given(f"spark.{whose}.minMemoryOverhead", values.size_mib)
    if overhead is None:
        overhead = on_mesos
    if overhead is None:
        of_heap = math.floor(heap * (OVERHEAD_FRACTION if fraction is None else fraction))
        overhead = max(of_heap, SMALLEST_OVERHEAD_MIB if least is None else least)
    if whose == "executor":
        overhead += given("spark.executor.pyspark.memory", values.size_mib, keep=True) or 0
        if given("spark.memory.offHeap.enabled", values.boolean, keep=True):
            beside = given("spark.memory.offHeap.size", values.size_bytes, keep=True) or 0
            overhead += math.ceil(beside / (1 << 20))
    if not _is_usual(heap + overhead, heap):
        overheads[f"spark.{whose}.memoryOverhead"] = f"{overhead}m"
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


def _driver(given: "_Given", overheads: dict[str, str]) -> dict[str, Any]:
    """The driver's size and place, as far as something is said of them."""
    on = given.text("spark.stoker.driver")
    if on not in (None, "host", "cluster"):
        raise PropertyError(f"spark.stoker.driver={on}: should be host or cluster")
    cores = given("spark.driver.cores", values.whole(1))
    sized = any(name.startswith(("spark.driver.memory", "spark.mesos.driver.memory")) for name in given.left)
    driver = {
        "on": on,
        "cpus": None if cores is None else float(cores),
        "memory": _memory(given, "driver", overheads) if sized else None,
    }
    return {name: value for name, value in driver.items() if value is not None}


def _rest(given: "_Given") -> tuple[dict[str, str], tuple[str, ...]]:
    """What is the application's, and the names of properties that Stoker sets itself."""
    for name, why in _DECIDED_HERE.items():
        if name in given.left:
            raise PropertyError(f"{name}: {why}")
    conf: dict[str, str] = {}
    set_aside = []
    for name, value in given.left.items():
        if name in CONNECTION or is_reserved(name, _OF_THE_CLIENT):
            continue
        if is_reserved(name, RESERVED_CONF) or name.startswith("spark.mesos."):
            set_aside.append(name)
        else:
            conf[name] = value
    return conf, tuple(sorted(set_aside))


class _Given:
    """Properties, each of which is taken out when it is read, unless it is the application's too (`keep`)."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.left = dict(properties)

    def __call__(self, name: str, read: Callable[[str, str], Value], *, keep: bool = False) -> Value | None:
        """A property's value as `read` understands it; None when it is not there or empty."""
        value = self.left.get(name) if keep else self.left.pop(name, None)
        text = (value or "").strip()
        return read(name, text) if text else None

    def text(self, name: str) -> str | None:
        """A property's text; None when it is not there or empty."""
        return self(name, lambda _, text: text)

    def taken(self, prefix: str) -> dict[str, str]:
        """All properties whose names begin so, by the rest of their names."""
        names = [name for name in self.left if name.startswith(prefix)]
        return {name.removeprefix(prefix): self.left.pop(name) for name in names}
