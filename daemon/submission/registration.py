"""Converts a driver's registration into a job, and its requests into sizes of executors.

`applications.py` answers the drivers.
"""

from collections.abc import Callable, Mapping, Sequence

from pydantic import ValidationError

from conf.loader import what_is_right
from conf.schema import JobSpec
from conf.units import checked_resources
from conf.util.counted import counted
from daemon.core.errors import RejectedError
from daemon.schemas.applications import ApplicationBody
from environment.resources import Resources
from framework.spark.executor_resources import resource_name
from framework.spark.memory import OVERHEAD_FRACTION, SMALLEST_HEAP_MIB, SMALLEST_OVERHEAD_MIB, executor_cores
from framework.spark.property_values import PropertyError
from framework.spark.submit_properties import job_properties

#: Fields of the job of a user's driver that its properties set; its driver knows all others itself.
_FIELDS = frozenset(
    {
        "name",
        "type",
        "owner",
        "queue",
        "priority",
        "deadline",
        "group",
        "labels",
        "min_executors",
        "max_runtime",
        "max_cost",
        "at_max_cost",
        "executors",
        "cpus",
        "memory",
        "resources",
        "spot",
    }
)
#: How settings begin that say something of executors.
_OF_EXECUTORS = ("spark.executor", "spark.resources.discoveryPlugin")
#: Spark's amounts of an executor that are not resources of agents.
_OF_SPARK = frozenset({"cores", "memory", "memoryOverhead", "offHeap", "pyspark.memory"})
#: Cores of an executor, as job files have it.
_MOST_CORES = 1024


def registered_spec(asked: ApplicationBody, spark_for: Callable[[str], str]) -> JobSpec:
    """The job of a user's driver; `spark_for` names the Spark here that is of its version. RejectedError."""
    try:
        name = spark_for(asked.spark)
        found = job_properties(asked.properties).fields
    except (PropertyError, ValueError) as error:
        raise RejectedError(422, "The application cannot be run", str(error)) from error
    fields = {key: value for key, value in found.items() if key in _FIELDS}
    conf = {key: text for key, text in found.get("conf", {}).items() if key.startswith(_OF_EXECUTORS)}
    conf.pop("spark.executor.id", None)  # the driver's own
    values = {
        **fields,
        "conf": conf,
        "spark": name,
        "app": "",
        "driver": {"on": "client"},
    }
    try:
        return JobSpec.model_validate(values)
    except ValidationError as error:
        wrong = (f"{_dotted(one['loc'])}{what_is_right(one, JobSpec, one['loc'])}" for one in error.errors())
        why = "; ".join(wrong)
        raise RejectedError(422, "The application cannot be run", why) from error


def executor_size(amounts: Mapping[str, int], cpus: float, heap_mib: int) -> Resources:
    """Size of an executor of a resource profile, by Spark's names of amounts, memory in MiB.

    `cpus` and `heap_mib` are those of the job's other executors, where the profile names none. RejectedError
    when there can be no such executor.
    """
    cores, heap = amounts.get("cores", executor_cores(cpus)), amounts.get("memory", heap_mib)
    if not 1 <= cores <= _MOST_CORES:
        why = f"executors of {counted(cores, 'core')}: should be 1 to {_MOST_CORES:,}"
        raise RejectedError(422, "No such executors", why)
    if heap < SMALLEST_HEAP_MIB:
        why = f"executors with {heap} MiB of memory: Spark needs {SMALLEST_HEAP_MIB}"
        raise RejectedError(422, "No such executors", why)
    of_heap = max(heap * OVERHEAD_FRACTION, SMALLEST_OVERHEAD_MIB)
    beside = amounts.get("offHeap", 0) + amounts.get("pyspark.memory", 0)
    memory = heap + amounts.get("memoryOverhead", int(of_heap)) + beside
    others = {
        resource_name(name): float(each) for name, each in amounts.items() if name not in _OF_SPARK and each
    }
    try:
        return Resources.of(float(cores), memory, checked_resources(others) or None)
    except ValueError as error:
        raise RejectedError(422, "No such executors", str(error)) from error


def _dotted(location: Sequence[int | str]) -> str:
    keys = [str(key) for key in location if not str(key).startswith("[")]  # a union's branch is no key
    return ".".join(keys) + ": " if keys else ""
