"""Usable cores and memory of this machine, and how many JVMs run there at once."""

import os
from dataclasses import dataclass
from pathlib import Path

import structlog

from conf.schema import Config

log = structlog.get_logger("daemon")

#: Measured (docs/reliability.md): more delay requests, fewer take much longer.
_JVMS_A_CORE = 2
#: Chosen: the real memory of a driver, or of an executor of a small heap.
_JVM_MIB = 512

#: Shipped clusters of pools by the cores of all their VMs.
_CLUSTERS = (
    (8, "clusters/laptop-8.yaml"),
    (16, "clusters/laptop-16.yaml"),
    (32, "clusters/laptop-32.yaml"),
    (96, "clusters/demo.yaml"),
)

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """Cores and memory."""

    cores: int
    memory_mib: int

    @property
    def jvms(self) -> int:
        """Number of executors and drivers that the machine runs at once."""
        return max(1, min(_JVMS_A_CORE * self.cores, self.memory_mib // _JVM_MIB))


def this_machine() -> ThisMachine:
    """The machine that this process is on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in map(Path, _LIMITS):
        try:
            memory = min(memory, int(path.read_text()))
        except (OSError, ValueError):  # not there, or `max`
            continue
    return ThisMachine(len(os.sched_getaffinity(0)), memory >> 20)


def cluster_for(machine: ThisMachine) -> str:
    """The shipped cluster that such a machine carries: of the largest with no more cores than JVMs, or so."""
    fitting = [name for cores, name in _CLUSTERS if cores <= machine.jvms]
    return fitting[-1] if fitting else _CLUSTERS[0][1]


def jvms_at_once(config: Config) -> int | None:
    """Number of executors and drivers that may run at once under this config; None: any number."""
    jvms = config.mesos.jvms
    if jvms is None and config.vms_here:
        machine = this_machine()
        jvms = machine.jvms
        log.info(
            "executors and drivers that run at once, as this machine carries them; further jobs wait",
            jvms=jvms, cores=machine.cores, memory_mib=machine.memory_mib, setting="mesos.jvms",
        )  # fmt: skip
    return jvms
