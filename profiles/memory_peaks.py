"""Peaks of the memory that executors used, as Spark's event logs report them.

Spark samples the memory of each executor, at heartbeats or more often
(`spark.executor.metrics.pollingInterval`), and logs the largest sample of a task, and of a stage where
`spark.eventLog.logStageExecutorMetrics` is set. A peak between two samples is not seen; a heap also contains
garbage that was not collected yet.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from profiles.event_lines import EventLines, amount_of, short_name

_MIB = float(1 << 20)
#: Memory of the JVM outside of its heap: its code and classes, buffers, and what Spark allocates itself.
_OFF_HEAP = ("JVMOffHeapMemory", "DirectPoolMemory", "OffHeapUnifiedMemory")
#: Resident memory of the JVM's child processes, and of the JVM: 0 unless Spark looks at processes
#: (`spark.executor.processTreeMetrics.enabled`).
_PYTHON = ("ProcessTreePythonRSSMemory", "ProcessTreeOtherRSSMemory")
_JVM_PROCESS = "ProcessTreeJVMRSSMemory"
_STAGE = "SparkListenerStageExecutorMetrics"
#: The events that `read_peaks` reads. Those of stages contain the samples of their tasks.
PEAK_EVENTS = frozenset({_STAGE})


class MemoryPeak(NamedTuple):
    """Largest samples of an executor's memory, MiB: heap, JVM beside it, and its other processes.

    `python_mib` has Python's workers, and programs that the executor started; None where not reported.
    """

    heap_mib: float
    off_heap_mib: float
    python_mib: float | None = None

    @property
    def total_mib(self) -> float:
        """The sum of the known peaks: samples of different moments, so it is never too small for them."""
        return self.heap_mib + self.off_heap_mib + (self.python_mib or 0.0)

    @property
    def whole(self) -> "MemoryPeak":
        """The peak in whole MiB, rounded up."""
        python = None if self.python_mib is None else math.ceil(self.python_mib)
        return MemoryPeak(math.ceil(self.heap_mib), math.ceil(self.off_heap_mib), python)

    def with_later(self, other: "MemoryPeak") -> "MemoryPeak":
        """The larger sample of each of two peaks."""
        known = [each for each in (self.python_mib, other.python_mib) if each is not None]
        heap, off_heap = max(self.heap_mib, other.heap_mib), max(self.off_heap_mib, other.off_heap_mib)
        return MemoryPeak(heap, off_heap, max(known, default=None))


def peak_of(metrics: Mapping[str, Any]) -> MemoryPeak | None:
    """The peak in the executor metrics of an event; None where they have no sample.

    TypeError or ValueError for values that are no amounts.
    """
    heap = amount_of(metrics.get("JVMHeapMemory", 0)) / _MIB
    if not heap:
        return None
    off_heap, processes = (sum(amount_of(metrics.get(name, 0)) for name in of) for of in (_OFF_HEAP, _PYTHON))
    known = amount_of(metrics.get(_JVM_PROCESS, 0)) > 0
    return MemoryPeak(heap, off_heap / _MIB, processes / _MIB if known else None)


def read_peaks(lines: EventLines, executors: Collection[str]) -> dict[str, MemoryPeak]:
    """Peaks of these executors of an application, by their ids.

    Raises as `EventLines` does, and errors of `MALFORMED` for events that Spark does not write.
    """
    found: dict[str, MemoryPeak] = {}
    for event in lines:
        if short_name(str(event.get("Event"))) == _STAGE and (name := event["Executor ID"]) in executors:
            peak = peak_of(event["Executor Metrics"])
            if peak is not None:
                found[name] = found[name].with_later(peak) if name in found else peak
    return found
