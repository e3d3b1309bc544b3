"""Events of the cluster, as immutable facts with their time.

Events go into `ClusterModel.handle`, commands (`commands.py`) come out. Both are plain values that can be
logged and replayed. `task_states.py` defines the task states in events.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from environment.model.messages.lease import Lease
from environment.model.messages.options import ModelOptions
from environment.model.messages.records import ExecutorRecord, ExecutorRequest, JobRecord
from environment.model.messages.snapshot import ModelSnapshot, Offer, PoolSetback, Quota, ReservedJob, VmSize
from environment.model.messages.task_states import TaskState
from environment.model.messages.vm_accounts import Account
from environment.queues.shares import PastUsage, Spent
from environment.queues.types import Sharing
from environment.resources import Resources
from environment.types import Job, Vm


class InverseOffer(NamedTuple):
    """The master's wish to have a VM back from a time on, for so long (None: for ever), seconds."""

    id: str
    vm_id: str
    unavailable: tuple[float, float | None]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at a time (seconds since the epoch, or simulated seconds)."""

    at: float


@dataclass(frozen=True, slots=True)
class Restored(Event):
    """Initial event with the saved jobs and tasks: a log replays from here on.

    Jobs are in order of submission, tasks, ended or not, in order of launch; jobs that have ended are
    included as long as they have open tasks. Leases are those that have not ended, in the order in which they
    were asked for. Without a `moment` a daemon has just started; with one, it goes on.
    """

    jobs: tuple[JobRecord, ...]
    tasks: tuple[ExecutorRecord, ...]
    options: ModelOptions
    moment: ModelSnapshot | None = None
    leases: tuple[Lease, ...] = ()
    #: The VMs that are paid for, and the acting policy.
    accounts: tuple[Account, ...] = ()
    policy: str = ""
    #: Of records without a snapshot: jobs that wait for VMs that boot, in order, and pools that are left
    #: alone.
    reserved: tuple[ReservedJob, ...] = ()
    pools: tuple[PoolSetback, ...] = ()
    #: How the cluster is shared; None: jobs are placed as they come.
    sharing: Sharing | None = None
    #: Of records without a snapshot: charges of queues and users today, and their recent usage.
    spent: tuple[Spent, ...] = ()
    used: tuple[PastUsage, ...] = ()
    #: And how jobs have ended that others come after, by id.
    ends: tuple[tuple[str, str], ...] = ()
    #: And until when the VMs of leases that ended were paid for, by their provider's names, in order of time.
    paid: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class JobSubmitted(Event):
    """A user's job was accepted, and is stored as a new record of it.

    `ends` says of jobs that it comes after, by id, how they have ended, if they are not known any more.
    """

    job: Job
    ends: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class KillRequested(Event):
    """A user wants a job ended."""

    job_id: str


@dataclass(frozen=True, slots=True)
class ExecutorsAsked(Event):
    """The driver of a job says how many executors it wants now, in all, of each of its resource profiles."""

    job_id: str
    profiles: tuple[ExecutorRequest, ...]


@dataclass(frozen=True, slots=True)
class ExecutorsReleased(Event):
    """The driver of a job gives executors back, by their numbers: they are to end, and none is lost."""

    job_id: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DecommissionAsked(Event):
    """The driver of a job is to give executors up, by their numbers, once their blocks are elsewhere."""

    job_id: str
    numbers: tuple[int, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Subscribed(Event):
    """The master has (again) accepted the framework, under this id; all its earlier offers are void.

    `subscription` counts these: decisions from now on are meant for this one.
    """

    framework_id: str = ""
    subscription: int = 0


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """The connection to the master is gone, and with it all offers; or there is still none, and why."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class OffersReceived(Event):
    """The master offers resources."""

    offers: tuple[Offer, ...]


@dataclass(frozen=True, slots=True)
class OfferRescinded(Event):
    """The master takes an offer back."""

    offer_id: str


@dataclass(frozen=True, slots=True)
class VmLost(Event):
    """The master says that an agent is gone. No proof that its tasks are."""

    vm_id: str


@dataclass(frozen=True, slots=True)
class VmsMeasured(Event):
    """Sizes of the master's agents, as far as they can be ours.

    `vms` are all known properties of them, `closed` is the reason, by id, why the master offers nothing of a
    VM (`takes nothing new: ...`), `limits` are other restrictions on us, in words, and `quota` is the most
    that all our roles may ever hold together, by Mesos' names of resources. `used` is what tasks of all
    frameworks hold of VMs, as far as it is known.
    """

    sizes: tuple[VmSize, ...]
    vms: tuple[Vm, ...] = ()
    closed: tuple[tuple[str, str], ...] = ()
    limits: tuple[str, ...] = ()
    quota: Quota = field(default_factory=dict)
    used: tuple[VmSize, ...] = ()


@dataclass(frozen=True, slots=True)
class InverseOffersReceived(Event):
    """The master wants VMs back."""

    offers: tuple[InverseOffer, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """An accepted decision: each executor's VM by id, and the driver's when it runs on the cluster.

    `sizes` has the size of each executor; without it each has its requested size. `profile` is the number
    of their resource profile in Spark.
    """

    job_id: str
    vm_ids: tuple[str, ...]
    driver_vm_id: str | None = None
    sizes: tuple[Resources, ...] = ()
    profile: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """The head of the queue waits, and why; `keeps` are idle VMs, by id, that a plan uses, and until when."""

    job_id: str
    reason: str
    keeps: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Decided(Event):
    """A round of decisions is over: these jobs are placed, and the next one, if any, waits.

    `view_at` is the time of the view that was decided on, when it is older than the event.
    """

    placements: tuple[Placement, ...]
    waiting: Waiting | None = None
    view_at: float | None = None


@dataclass(frozen=True, slots=True)
class PolicyChanged(Event):
    """Another policy decides from now on: it may place jobs that the previous one told to wait.

    Or, if no `policy` is named, it is time to decide again about all waiting jobs.
    """

    policy: str = ""


@dataclass(frozen=True, slots=True)
class SharingChanged(Event):
    """The cluster is shared like that from now on; None: jobs are placed as they come."""

    sharing: Sharing | None


@dataclass(frozen=True, slots=True)
class RoomSought(Event):
    """A job has waited for a while: search for jobs to give way to it."""


@dataclass(frozen=True, slots=True)
class MovesSought(Event):
    """No move was looked for since a while: search for VMs to be emptied."""


@dataclass(frozen=True, slots=True)
class TaskChanged(Event):
    """State of a Mesos task, reported by the master or its agent, perhaps repeatedly.

    `exit_code` is the exit code of its process, 128 + N for signal N, if it is reported.
    """

    task_id: str
    state: TaskState
    vm_id: str = ""
    reason: str = ""
    message: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class DriverStarted(Event):
    """The driver on the daemon's host is a process now."""

    job_id: str


@dataclass(frozen=True, slots=True)
class DriverDelayed(Event):
    """The daemon's host could not start the driver, or keep it: it is tried again, as `message` says."""

    job_id: str
    message: str


@dataclass(frozen=True, slots=True)
class DriverEnded(Event):
    """A driver that is not a task has ended: with an exit code, or without one when its end was not seen.

    With `requeue`, the driver and not the job is over: the job is to start afresh. With `cleared`, another
    may be started as if there had been none, and is if the job has retries left. With a `state`, the job ends
    in that state, regardless of its exit code.
    """

    job_id: str
    exit_code: int | None
    message: str = ""
    requeue: bool = False
    cleared: bool = False
    state: Literal["finished", "failed", "killed"] | None = None


@dataclass(frozen=True, slots=True)
class LeaseOpened(Event):
    """The provider has opened the VM of a lease, and calls it `machine_id`; it is paid since `opened_at`."""

    lease_id: str
    machine_id: str
    opened_at: float
    price_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class LeaseRefused(Event):
    """The provider did not open the VM of a lease: the `kind` of refusal, and the provider's message.

    Where that is not `certain`, an earlier request may have opened it.
    """

    lease_id: str
    kind: Literal["capacity", "quota", "invalid", "unavailable"]
    message: str
    certain: bool = True


@dataclass(frozen=True, slots=True)
class LeaseClosed(Event):
    """The VM of a lease costs nothing more; `charged` is its cost as reported by the provider, dollars."""

    lease_id: str
    charged: float | None = None


@dataclass(frozen=True, slots=True)
class LeaseNotice(Event):
    """The provider takes the VM of a lease away at a time, or has said that it will not (None)."""

    lease_id: str
    away_at: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class OpeningsHeld(Event):
    """No VM of any pool is to be opened from now on, and why; an empty text says that they may be again.

    VMs of these `pools` get nothing new where they are open either, each for its reason; an empty name means
    all pools.
    """

    why: str = ""
    pools: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PoolPrices(Event):
    """Present price of a VM by pool, dollars per hour; pools not named here have their places' price."""

    prices: tuple[tuple[str, float], ...]


class Listed(NamedTuple):
    """A VM that a provider lists: under which lease, and its own name of it."""

    lease_id: str
    machine_id: str
    state: Literal["booting", "running", "closing"]
    opened_at: float | None = None
    price_per_hour: float | None = None
    charged: float | None = None


@dataclass(frozen=True, slots=True)
class MachinesListed(Event):
    """All VMs that the provider said are open, when it was asked at `asked_at`."""

    asked_at: float
    machines: tuple[Listed, ...]


@dataclass(frozen=True, slots=True)
class ChargesDue(Event):
    """Charge VMs for their cost until now: those not charged since `before`, at most `most` of them.

    Those that were charged longest ago come first.
    """

    before: float | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class ClockMoved(Event):
    """The clock was wrong and was set forward: `seconds` before this event have not really passed."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Time went by. Timeouts and retries are due at ticks only."""
