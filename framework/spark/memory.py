"""JVM's part of an executor's or driver's resources. Pure arithmetic; nothing is measured here."""

import math

OVERHEAD_FRACTION = 0.10  # spark.executor.memoryOverheadFactor
SMALLEST_OVERHEAD_MIB = 384  # Spark's own minimum for a process' memory beside its heap

# Spark refuses to start when the JVM reports less than 450 MiB (one and a half times the 300 MiB that its
# UnifiedMemoryManager reserves), and a JVM's report leaves out a survivor space: measured, the serial
# collector needs -Xmx466m and the parallel one, the default of Java 8, -Xmx506m. 512 works with all of them.
SMALLEST_HEAP_MIB = 512

SMALLEST_MEMORY_MIB = SMALLEST_HEAP_MIB + SMALLEST_OVERHEAD_MIB
"""The least memory, in MiB, with which a driver or an executor can start."""


def usual_overhead_mib(memory_mib: int) -> int:
    """Spark's rule for the overhead in so much memory: the larger of 10 % and 384 MiB."""
    return max(math.ceil(memory_mib * OVERHEAD_FRACTION), SMALLEST_OVERHEAD_MIB)


def heap_mib(memory_mib: int, process: str = "executor", overhead_mib: int | None = None) -> int:
    """The heap (MiB) of a process that takes `memory_mib` in all: the rest is overhead.

    The overhead, unless given, is Spark's rule; it is where Python workers live.

    ValueError when the heap is less than Spark can start with.
    """
    if overhead_mib is None:
        overhead_mib = usual_overhead_mib(memory_mib)
        smallest = SMALLEST_MEMORY_MIB
    else:
        smallest = SMALLEST_HEAP_MIB + overhead_mib
    heap = memory_mib - overhead_mib
    if heap < SMALLEST_HEAP_MIB:
        raise ValueError(
            f"{process} memory of {memory_mib} MiB leaves a heap of {max(heap, 0)} MiB after Spark's "
            f"overhead of {overhead_mib} MiB, and Spark needs {SMALLEST_HEAP_MIB}; "
            f"the smallest memory that works is {smallest} MiB"
        )
    return heap


def executor_cores(cpus: float) -> int:
    """Number of tasks that an executor of `cpus` runs at once: the whole cpus, and one where there is none.

    Mesos counts fractions of a cpu, Spark does not; 1.5 cpus run one task at a time, with some room to spare.
    """
    return max(1, math.floor(cpus))
