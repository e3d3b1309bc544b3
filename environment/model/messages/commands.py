"""Commands of the cluster model to the outside world, as immutable values.

Every command carries `cause`, the number of the event (`events.py`) that led to it. Code outside the model
executes it.
"""

from dataclasses import dataclass

from environment.types import Vm


@dataclass(frozen=True, slots=True)
class Command:
    """Something to do in the world, because of the event with number `cause`."""

    cause: int


@dataclass(frozen=True, slots=True)
class Launch(Command):
    """Accept all held offers of one VM and start these tasks there, as their records define them."""

    vm: Vm
    offer_ids: tuple[str, ...]
    task_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartDriver(Command):
    """Start the driver process on the daemon's host."""

    job_id: str


@dataclass(frozen=True, slots=True)
class KillDriver(Command):
    """End the driver process on the daemon's host."""

    job_id: str


@dataclass(frozen=True, slots=True)
class YieldDriver(Command):
    """End the driver process on the daemon's host, if it has not ended, and tell when another may start."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Decommission(Command):
    """Make the job's driver decommission these executors, once their blocks are elsewhere."""

    job_id: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpenVm(Command):
    """Make the provider open the VM of a lease; a repeated command opens no second VM."""

    lease_id: str


@dataclass(frozen=True, slots=True)
class CloseVm(Command):
    """Make the provider close a VM, by its own name of it; of a lease, or of none that is known."""

    lease_id: str
    machine_id: str


@dataclass(frozen=True, slots=True)
class KillTask(Command):
    """End a Mesos task."""

    task_id: str
    vm_id: str


@dataclass(frozen=True, slots=True)
class Decline(Command):
    """Decline offers, so that these resources are not offered for so many seconds unless revived."""

    offer_ids: tuple[str, ...]
    refuse_seconds: float


@dataclass(frozen=True, slots=True)
class AnswerInverse(Command):
    """Accept or decline inverse offers: accepted when no task of ours runs on their VMs."""

    offer_ids: tuple[str, ...]
    accept: bool


@dataclass(frozen=True, slots=True)
class Suppress(Command):
    """Ask for no more offers."""


@dataclass(frozen=True, slots=True)
class Revive(Command):
    """Request offers, including those declined before."""


@dataclass(frozen=True, slots=True)
class Reconcile(Command):
    """Ask the master for the state of these tasks, pairs of task id and VM id; of all it knows when empty."""

    tasks: tuple[tuple[str, str], ...]
