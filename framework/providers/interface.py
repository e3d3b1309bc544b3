"""What a provider of VMs can do: open, close, list, tell prices and notices.

All calls block, may be slow, and may raise; whoever makes them has threads and patience of its own. Each
VM that is asked for has a name of its own for ever, the lease: however often it is asked for under this
name, it is opened once, and by it a daemon that starts again finds what an earlier one had opened.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from environment.types import Vm

#: Why a provider opens nothing: there are none left of this kind (`capacity`), no more are allowed
#: (`quota`), it will never do so as it was asked (`invalid`), or it cannot be reached or has failed
#: (`unavailable`).
Refusal = Literal["capacity", "quota", "invalid", "unavailable"]


class ProviderError(Exception):
    """A provider did not do what it was asked; `kind` says why, the text says it in words."""

    def __init__(self, kind: Refusal, message: str) -> None:
        super().__init__(message)
        self.kind: Refusal = kind


@dataclass(frozen=True, slots=True)
class VmRequest:
    """A VM that is to be opened: under which lease, and what (its name, type, size, price and terms).

    Its Mesos agent has to have the attributes `vm` (the type), `price` (dollars per hour) and `lease`.
    """

    lease: str
    vm: Vm


@dataclass(frozen=True, slots=True)
class Machine:
    """A VM as its provider lists it, from opened until it costs nothing more.

    `id` is the provider's own; `opened_at` is since when it is paid for, seconds since the epoch, where
    that is told; `price_per_hour` in dollars, where it is not what the cluster file says; `charged` what
    it has cost so far by the provider's own account, dollars, where that is told.
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
        """Open a VM, or say which one is open under this lease already."""

    def close(self, machine_id: str) -> float | None:
        """Close a VM, which then costs nothing more; one that is not there is closed.

        What it has cost in all by the provider's own account, dollars, where that is told.
        """

    def list(self) -> Sequence[Machine]:
        """All VMs of this cluster that cost something now, whoever opened them."""

    def prices(self) -> Mapping[str, float]:
        """What a VM costs now by pool, dollars per hour, where the cluster file is not to be believed."""

    def notices(self) -> Sequence[Notice]:
        """The VMs that are going to be taken away."""
