"""Memory that an executor holds in all, by the settings of its application. Pure arithmetic."""

import math
from collections.abc import Mapping
from typing import Any

from conf.units import memory_mib

#: Spark's own rule for a process' memory beside its heap: a share of it, and so many MiB at least.
_OVERHEAD, _LEAST = 0.10, 384
_HEAP = 1024
_MIB = 1 << 20


def memory_of(executor: str, conf: Mapping[str, str], requests: Mapping[str, Any] | None = None) -> int:
    """MiB of heap, overhead and memory outside of the heap, as the application's settings ask for.

    `requests` are those of the executor's own resource profile, in MiB, which come first where it has one
    that says more than Spark's defaults. The executor `driver` is a local run, with the driver's memory.
    """
    process = "driver" if executor == "driver" else "executor"
    heap = _setting(conf, f"spark.{process}.memory") or _HEAP
    overhead = _setting(conf, f"spark.{process}.memoryOverhead", f"spark.yarn.{process}.memoryOverhead")
    off_heap = 0
    if conf.get("spark.memory.offHeap.enabled", "").lower() == "true":
        off_heap = _setting(conf, "spark.memory.offHeap.size", plain_bytes=True) or 0
    python = _setting(conf, f"spark.{process}.pyspark.memory") or 0
    if process == "executor" and requests:
        asked = {name: _amount(each) for name, each in requests.items()}
        if asked.get("memory", 0) != _HEAP or "spark.executor.memory" not in conf:
            heap = asked.get("memory") or heap
        overhead = asked.get("memoryOverhead") or overhead
        off_heap = asked.get("offHeap") or off_heap
        python = asked.get("pyspark.memory") or python
    if overhead is None:
        overhead = max(math.ceil(heap * _factor(conf, process)), _LEAST)
    return heap + overhead + off_heap + python


def _setting(conf: Mapping[str, str], *names: str, plain_bytes: bool = False) -> int | None:
    """A setting in MiB; None when it is not there or no amount. A plain number is MiB, or bytes."""
    for name in names:
        text = conf.get(name, "").strip()
        if text.isdecimal() and plain_bytes:
            return int(text) // _MIB
        try:
            return memory_mib(text)
        except ValueError:
            continue
    return None


def _amount(request: Mapping[str, Any]) -> int:
    try:
        return int(request["Amount"])
    except (KeyError, TypeError, ValueError):
        return 0


def _factor(conf: Mapping[str, str], process: str) -> float:
    for name in (f"spark.{process}.memoryOverheadFactor", "spark.kubernetes.memoryOverheadFactor"):
        try:
            return float(conf[name])
        except (KeyError, ValueError):
            continue
    return _OVERHEAD
