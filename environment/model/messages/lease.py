"""Lease: the record of a VM of a pool, from the request to open it until it is closed.

The model owns and changes leases; everyone else reads copies. `fleet.py` decides when one is opened and
closed, `model/vms/usage_ledger.py` divides its cost among jobs, `environment.pools` defines the terms of VMs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from environment.types import Job, Vm

#: `opening`: the provider was asked for it; `booting`: it has opened it, and its agent is not there yet;
#: `up`: its agent is; `draining`: no task starts there, and running ones are to move; `closing`: the provider
#: was asked to close it; `closed`: it costs nothing more; `lost`: neither, its end is unknown.
LeaseState = Literal["opening", "booting", "up", "draining", "closing", "closed", "lost"]
ENDED_LEASE: frozenset[str] = frozenset({"closed", "lost"})


class OpenedFor(NamedTuple):
    """The job that a VM was opened for, to which the VM's cost counts until something runs there."""

    job: str
    owner: str
    queue: str
    #: The group of the job, or its array.
    group: str

    @classmethod
    def of(cls, job: Job) -> "OpenedFor":
        """What is kept of the job, which may have ended before its VM is up."""
        return cls(job.id, job.owner, job.queue, job.group or job.array)


@dataclass(slots=True)
class Lease:
    """A VM of a pool that was asked for. Times are seconds since the epoch, None while they have not come."""

    #: Never used twice: the VM's name and a running number, `general-3.17`. The provider knows the VM
    #: by it, and its
    #: agent tells it as the attribute `lease`.
    id: str
    #: The VM as the cluster file has it; its `id` is that of its place in the pool, `general-3`.
    vm: Vm
    asked_at: float
    state: LeaseState = "opening"
    #: The job that it was opened for, the reason why it is closed, or its error.
    reason: str = ""
    #: The provider's name of it.
    machine_id: str = ""
    #: The Mesos agent on it.
    agent_id: str = ""
    #: Since when it is paid for.
    opened_at: float | None = None
    #: When its agent came.
    ready_at: float | None = None
    #: Since when nothing runs there, while that is so.
    idle_since: float | None = None
    #: When its provider takes it away, as it said.
    notice: float | None = None
    #: Since when it is to be empty.
    draining_at: float | None = None
    #: When its closing was asked for.
    closing_at: float | None = None
    closed_at: float | None = None
    #: The cost by its provider's own account, dollars, where the provider states it.
    charged: float | None = None
    #: The job that it was opened for; None of one that is always open, or unknown.
    opened_for: OpenedFor | None = None

    @property
    def vm_id(self) -> str:
        """Id of its VM in events and commands: the substrate's once it is there, before that its place's."""
        return self.agent_id or self.vm.id

    @property
    def ended(self) -> bool:
        """Whether it costs nothing more."""
        return self.state in ENDED_LEASE


def due(times: Mapping[str, float], now: float, find: Callable[[str], Lease | None]) -> list[Lease]:
    """Due leases, found by id with `find`, in an order that does not depend on that of `times`."""
    ids = sorted((at, lease_id) for lease_id, at in times.items() if at <= now)
    found = (find(lease_id) for _, lease_id in ids)
    return [lease for lease in found if lease is not None]
