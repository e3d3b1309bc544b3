"""State of a cluster model beyond its records, as plain values from which another model goes on.

Each component defines the fields of its part. `events.py` has the events of a model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from environment.queues.shares import PastUsage, Spent
from environment.resources import NOTHING, Resources
from environment.spot_forecast import PriceObservations
from environment.types import Vm

#: The most that may be held of each resource, by Mesos' names; a resource without an entry has no limit.
Quota = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Offer:
    """Resources of one VM that the master lets us use now; `ports` are inclusive ranges."""

    id: str
    vm: Vm
    resources: Resources = NOTHING
    ports: tuple[tuple[int, int], ...] = ()
    #: When planned maintenance of the VM begins, and for how long (None: for ever), seconds.
    unavailable: tuple[float, float | None] | None = None


class VmSize(NamedTuple):
    """Size of a VM, as the master reports it."""

    vm_id: str
    resources: Resources


@dataclass(frozen=True, slots=True)
class SupplySnapshot:
    """State of the demand for offers; `model/vms/offer_demand.py` defines each field."""

    subscribed: bool
    suppressed: bool
    stale: bool
    asked_at: float
    revived_at: float
    changed_at: float
    why: str = ""
    undecided: bool = True
    declined: tuple[tuple[str, float], ...] = ()
    apart: bool = False
    asked_for_all: int = 0
    kept: bool = False
    keep_from: float = 0.0


@dataclass(frozen=True, slots=True)
class OfferSnapshot:
    """Known VMs and held offers; `model/vms/offers.py` defines each field."""

    since: float
    offers: tuple[Offer, ...]
    vms: tuple[Vm, ...]
    measured: tuple[str, ...]
    gone: tuple[str, ...]
    told: tuple[VmSize, ...]
    others: tuple[VmSize, ...] = ()
    awaited: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    closed: tuple[tuple[str, str], ...] = ()
    windows: tuple[tuple[str, float, float | None], ...] = ()
    limits: tuple[str, ...] = ()
    quota: Quota = field(default_factory=dict)
    counted: bool = False
    wanted_since: float = 0.0
    offered_at: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ReconciliationSnapshot:
    """Tasks in doubt; `model/jobs/reconciliation.py` defines each field."""

    questions: tuple[tuple[str, float, float], ...]
    unreachable_since: tuple[tuple[str, float], ...]
    swept_at: float


class JobSetback(NamedTuple):
    """A job with launches that never ran; `model/jobs/backoff.py` defines each field."""

    job_id: str
    launches: int
    due: float
    last: float
    avoided: tuple[tuple[str, float], ...]
    frugal_until: float = 0.0
    frugal: int = 0


class VmSetback(NamedTuple):
    """A VM with launches that never ran; `model/jobs/backoff.py` defines each field."""

    vm_id: str
    name: str
    launches: int
    last: float
    left_out: int
    until: float
    message: str
    trying: str


class Growth(NamedTuple):
    """A job that waits for more executors; `model/jobs/scale_up.py` defines each field."""

    job_id: str
    asked_at: float
    due: float
    waits_since: float | None


class ReservedJob(NamedTuple):
    """A job that waits for VMs to boot: its placement and its time; `sizes` has the size of each executor.

    `driver` is the size of its driver, if that is on the cluster; all its VMs are up since `ready_at`.
    """

    job_id: str
    vm_ids: tuple[str, ...]
    sizes: tuple[Resources, ...]
    at: float
    driver_vm_id: str | None = None
    driver: Resources = NOTHING
    profile: int = 0
    ready_at: float | None = None

    @property
    def all_vms(self) -> tuple[str, ...]:
        """The VM of each executor, and of the driver."""
        return self.vm_ids if self.driver_vm_id is None else (*self.vm_ids, self.driver_vm_id)


class PendingTransfer(NamedTuple):
    """Tasks, by id, being taken for a job: since `at`, and awaited until `until`, seconds."""

    taker: str
    tasks: tuple[str, ...]
    at: float
    until: float
    why: str


class PoolSetback(NamedTuple):
    """A pool with refused VMs or VMs that did not boot; `model/vms/open_backoff.py` defines each field."""

    pool: str
    times: int
    last: float
    until: float
    message: str
    trial: bool = False


@dataclass(frozen=True, slots=True)
class QueueState:
    """State of shares and the order that records do not contain; each part defines its fields."""

    used: tuple[PastUsage, ...] = ()
    overtaken: tuple[tuple[str, int], ...] = ()
    spent: tuple[Spent, ...] = ()


@dataclass(frozen=True, slots=True)
class IdleSnapshot:
    """State of idle VMs that leases do not contain; each part defines its fields."""

    seen: PriceObservations = field(default_factory=PriceObservations)
    needed: tuple[str, ...] = ()
    planned: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """State of pools and their VMs that leases do not contain; each part defines its fields."""

    number: int = 0
    pools: tuple[PoolSetback, ...] = ()
    reserved: tuple[ReservedJob, ...] = ()
    seen: tuple[tuple[str, float], ...] = ()
    orphans: tuple[tuple[str, float], ...] = ()
    away: tuple[tuple[str, float], ...] = ()
    sizes: tuple[tuple[str, Resources], ...] = ()
    held: str = ""
    idled: IdleSnapshot = field(default_factory=IdleSnapshot)
    paid: tuple[tuple[str, float], ...] = ()
    connected_at: float | None = None
    prices: tuple[tuple[str, float], ...] = ()
    held_pools: tuple[tuple[str, str], ...] = ()
    counted: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class MovesSnapshot:
    """Time of the last search for VMs to be emptied, and of each executor's move within the last hour."""

    sought_at: float = 0.0
    moved: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """All that a model knows beyond its records, `number` events after it began."""

    number: int
    supply: SupplySnapshot
    book: OfferSnapshot
    watch: ReconciliationSnapshot
    relaunch_at: tuple[tuple[str, float], ...]
    told: str | None
    job_setbacks: tuple[JobSetback, ...] = ()
    vm_setbacks: tuple[VmSetback, ...] = ()
    vms_started: tuple[tuple[str, float], ...] = ()
    growing: tuple[Growth, ...] = ()
    fleet: FleetSnapshot = field(default_factory=FleetSnapshot)
    takings: tuple[PendingTransfer, ...] = ()
    #: Time of the last search for a preemption.
    sought_at: float = 0.0
    not_taken: tuple[tuple[str, str], ...] = ()
    shared: QueueState | None = None
    moves: MovesSnapshot = field(default_factory=MovesSnapshot)
