"""Spark's settings of resources beside cores and memory, as amounts that an executor takes from its VM.

Spark calls a kind `gpu`, Mesos and Stoker `gpus`; all others have one name. How Spark's own settings of
Mesos count GPUs is here, too.
"""

import json
import re
from collections.abc import Mapping

from conf.units import checked_resources
from conf.util.counted import counted
from framework.spark import property_values as values
from framework.spark.property_values import PropertyError

_AMOUNT = re.compile(r"spark\.(executor|task)\.resource\.(.+)\.amount")
_OF_A_KIND = re.compile(r"spark\.executor\.resource\.([^.]+)\..*")
_NAMES = {"gpu": "gpus"}


def resource_name(kind: str) -> str:
    """The name that agents give a kind of resource that Spark calls so."""
    return _NAMES.get(kind, kind)


def executor_resources(
    properties: Mapping[str, str],
    executors: int,
    mesos_gpus: int | None = None,
    mesos_most: int | None = None,
) -> dict[str, float]:
    """Resources of each executor beside cores and memory, by the names of agents.

    `mesos_gpus` are those of an executor, `mesos_most` those of all, as Spark's settings of Mesos have them.
    PropertyError for amounts that Spark would refuse, or that contradict each other.
    """
    amounts = _amounts(properties, "executor")
    for name in properties:
        if (found_kind := _OF_A_KIND.fullmatch(name)) and found_kind[1] not in amounts:
            raise PropertyError(f"{name}: requires spark.executor.resource.{found_kind[1]}.amount")
    for kind, asked in _amounts(properties, "task").items():
        name = f"spark.task.resource.{kind}.amount"
        has = amounts.get(kind, 0.0)
        if not has:
            raise PropertyError(
                f"{name}={asked:g}: requires spark.executor.resource.{kind}.amount, which its tasks share"
            )
        if asked > has:
            raise PropertyError(
                f"{name}={asked:g} is more than spark.executor.resource.{kind}.amount={has:g}"
            )
    found = {resource_name(kind): amount for kind, amount in amounts.items() if amount}
    gpus = _mesos_gpus(executors, mesos_gpus, mesos_most)
    if gpus and found.setdefault("gpus", float(gpus)) != gpus:
        raise PropertyError(
            f"spark.executor.resource.gpu.amount={found['gpus']:g} contradicts Mesos' settings, by which an "
            f"executor has {gpus} (spark.mesos.executor.gpus, spark.mesos.gpus.max)"
        )
    try:
        return checked_resources(found)
    except ValueError as error:
        raise PropertyError(f"spark.executor.resource: {error}") from None


def check_shares(conf: Mapping[str, str], line: tuple[int, int]) -> None:
    """Raise ValueError for a task's part of a unit that its Spark, of this major and minor number, refuses.

    Up to Spark 3.5, several tasks share a unit or one has it whole; only later ones take 0.6.
    """
    for kind, amount in _amounts(conf, "task").items():
        if line < (4, 0) and 0.5 < amount < 1:
            raise ValueError(
                f"conf: spark.task.resource.{kind}.amount={amount:g}: should be at most 0.5, or a whole "
                f"number, for Spark {line[0]}.{line[1]}; 1 lets as many tasks run at once"
            )


def given_addresses(conf: Mapping[str, str]) -> str:
    """The resources of an executor as a file for Spark has them, in JSON; empty where it finds them itself.

    Each is numbered from 0 on, as GPU isolation shows them to a task. Without a file, or a script that finds
    them, an executor would end at once.
    """
    if conf.get("spark.resources.discoveryPlugin", "").strip():
        return ""
    amounts = {
        kind: int(amount)
        for kind, amount in _amounts(conf, "executor").items()
        if amount and not conf.get(f"spark.executor.resource.{kind}.discoveryScript", "").strip()
    }
    found = [
        {
            "id": {"componentName": "spark.executor", "resourceName": kind},
            "addresses": [str(number) for number in range(amount)],
        }
        for kind, amount in sorted(amounts.items())
    ]
    return json.dumps(found) if found else ""


def _amounts(properties: Mapping[str, str], scope: str) -> dict[str, float]:
    found = {}
    for name, value in properties.items():
        match = _AMOUNT.fullmatch(name)
        if match is None or match[1] != scope or not value.strip():
            continue
        read = values.whole(0) if scope == "executor" else values.factor
        amount = float(read(name, value.strip()))
        if scope == "task" and amount > 1 and amount % 1:
            raise PropertyError(f"{name}={amount:g}: should be a whole number, or at most 1")
        found[match[2]] = amount
    return found


def _mesos_gpus(executors: int, of_each: int | None, most: int | None) -> int:
    """GPUs of an executor by Spark's settings of Mesos, where all executors together have `most`."""
    if of_each is None:
        if most and most < executors:
            raise PropertyError(
                f"spark.mesos.gpus.max={most}: is less than one for each of {counted(executors, 'executor')}"
            )
        return (most or 0) // executors
    if most is not None and of_each * executors > most:
        have = "an executor has" if executors == 1 else f"{counted(executors, 'executor')} have"
        raise PropertyError(
            f"spark.mesos.executor.gpus={of_each}: {have} {of_each * executors} gpus, more than "
            f"spark.mesos.gpus.max={most}"
        )
    return of_each
