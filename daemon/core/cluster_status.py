"""Status of the cluster's VMs and pools, as the scheduler shows it to users."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from conf.util.counted import counted
from environment.model.messages.records import MemoryCounts

#: Of a VM that costs something.
OpenState = Literal["opening", "booting", "up", "draining", "closing"]
#: The same of any VM, or that it holds executors and cannot be reached.
VmState = OpenState | Literal["unreachable"]


@dataclass(frozen=True, slots=True)
class VmStatus:
    """A VM as users see it; memory in MiB, its price in dollars."""

    id: str
    name: str
    type: str
    address: str
    cpus: float
    memory_mib: int
    price_per_hour: float
    used_cpus: float
    used_memory_mib: int
    executors: tuple[str, ...]
    #: Its resources beside cpus and memory, and their used part.
    resources: Mapping[str, float] = field(default_factory=dict)
    used_resources: Mapping[str, float] = field(default_factory=dict)
    #: Reason why nothing is placed there now, or the error in its report.
    note: str = ""
    #: `up`, unless it cannot be reached, or is of a pool and opens, boots, is drained or closes.
    state: VmState = "up"
    #: Its pool and its lease there; empty for one that is always there.
    pool: str = ""
    lease: str = ""
    #: When the VM of a pool came, or should have booted, seconds since the epoch.
    ready_at: float | None = None


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """A pool of VMs of one kind, as users see it; memory in MiB, prices in dollars, times in seconds."""

    name: str
    type: str
    cpus: float
    memory_mib: int
    resources: Mapping[str, float]
    price_per_hour: float
    boot: float
    min: int
    max: int
    #: How many of its VMs cost something now.
    open: int
    #: Why no other is opened now.
    note: str = ""


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """Status of the VM provider: number of calls by request and result; the present trouble, in words."""

    calls: Mapping[tuple[str, str], int] = field(default_factory=dict)
    trouble: str = ""


class MemorySeconds(NamedTuple):
    """Memory of ended jobs' executors over time, MiB by seconds.

    Paid for all, for those of which a peak is known, and the peaks of these.
    """

    paid: float = 0.0
    reported: float = 0.0
    used: float = 0.0


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """All VMs, fixed and from pools, the pools, and the order in which jobs share them."""

    vms: tuple[VmStatus, ...]
    pools: tuple[PoolStatus, ...] = ()
    provider: ProviderStatus = field(default_factory=ProviderStatus)
    #: Criteria by which jobs are ordered, one after the other, where queues share the VMs; and the number of
    #: queues that accept jobs.
    order: tuple[str, ...] = ()
    queues: int = 0
    #: How many executors and drivers the machine under an embedded cluster carries at once (None: any
    #: number), and whether a job waits since it carries no more.
    jvms: int | None = None
    crowded: bool = False
    #: Failures of jobs for memory, and restarts with more.
    memory: MemoryCounts = field(default_factory=MemoryCounts)
    #: Memory of executors over time since the daemon's start.
    memory_seconds: MemorySeconds = field(default_factory=MemorySeconds)

    @property
    def note(self) -> str:
        """Reason why jobs wait that no VM and no policy changes; empty when there is none."""
        cores = math.fsum(vm.cpus for vm in self.vms if not vm.pool)
        cores += math.fsum(pool.max * pool.cpus for pool in self.pools)
        if not self.crowded or self.jvms is None or self.jvms >= cores:
            return ""
        carried = "1 JVM" if self.jvms == 1 else f"{self.jvms} JVMs"
        return (
            f"Jobs wait for this machine, not for VMs: it carries {carried} (executors and drivers) at once, "
            f"and the cluster on it has {counted(cores, 'core')}. No policy and no VM "
            f"changes that: a larger machine "
            "does, a Mesos of several machines, or mesos.jvms, if this one carries more."
        )
