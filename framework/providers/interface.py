"""Interface of a provider of VMs: open, close, list, report prices and notices.

All calls block, may be slow, and may raise; the caller provides threads and patience. Each
requested VM has a permanent name of its own, the lease: any number of requests under this
name open it once, and by it a daemon that starts again finds the VMs that an earlier one had opened.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from environment.types import Vm

#: Path of the daemon's API below which a VM reports about itself, by its lease.
VMS = "/v1/vms/"

#: Why a provider opens nothing: there are none left of this kind (`capacity`), no more are allowed
#: (`quota`), it will never do so as it was asked (`invalid`), or it cannot be reached or has failed
#: (`unavailable`).
Refusal = Literal["capacity", "quota", "invalid", "unavailable"]


class ProviderError(Exception):
    """A provider did not fulfil a request; `kind` is the reason, the text explains it in words."""

    def __init__(self, kind: Refusal, message: str) -> None:
        super().__init__(message)
        self.kind: Refusal = kind


@dataclass(frozen=True, slots=True)
class VmRequest:
    """A VM to open: its lease, and its specification (its name, type, size, price and terms).

    Its Mesos agent must have the attributes `vm` (the type), `price` (dollars per hour) and `lease`.
    """

    lease: str
    vm: Vm


@dataclass(frozen=True, slots=True)
class Machine:
    """A VM as its provider lists it, from its opening until it costs nothing more.

    `id` is the provider's own; `opened_at` is the begin of its charges, seconds since the epoch, where the
    provider reports it; `price_per_hour` in dollars, where it differs from the cluster file; `charged` is its
    cost so far by the provider's own account, dollars, where the provider reports it.
    """

    id: str
    lease: str
    pool: str
    state: Literal["booting", "running", "closing"]
    opened_at: float | None = None
    price_per_hour: float | None = None
    address: str = ""
    charged: float | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """The provider is going to take a VM away at a time, seconds since the epoch."""

    lease: str
    at: float
    why: str = ""


class Provider(Protocol):
    """Opens and closes VMs; see the module's text. Every call may raise ProviderError."""

    def open(self, wanted: VmRequest) -> Machine:
        """Open a VM, or return the one that is open under this lease already."""

    def close(self, machine_id: str) -> float | None:
        """Close a VM, which then costs nothing more; a missing one is closed.

        Returns its total cost by the provider's own account, dollars, where the provider reports it.
        """

    def list(self) -> Sequence[Machine]:
        """All VMs of this cluster that cost something now, including those opened by others."""

    def prices(self) -> Mapping[str, float]:
        """Present price of a VM by pool, dollars per hour, where it overrides the cluster file."""

    def notices(self) -> Sequence[Notice]:
        """The VMs that are going to be taken away."""

    def account(self) -> str:
        """The account that pays for the VMs; empty where that is not known. Raises nothing."""
