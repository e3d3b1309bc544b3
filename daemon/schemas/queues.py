"""The bodies of the HTTP API's answers about queues, and how they are made.

Times are seconds since the epoch, money is dollars, memory MiB.
"""

from dataclasses import replace

from conf.schema import QueueSettings, SpotUse
from conf.util.copy_fields import carried
from daemon.auth.permits import Permit
from daemon.core.queue_status import QueuesStatus, QueueStatus
from daemon.schemas.base import Body, Said
from daemon.store.rows.resource_columns import flat


class QueueBody(Body):
    """A queue: its settings in force, its use, and its waiting jobs; with all queues below it."""

    path: Said
    """Its path: the names of the queues above it and its own, separated by dots."""
    leaf: bool
    """Whether it accepts jobs; other queues have queues below them."""
    known: bool
    """False for a removed queue with unfinished jobs; it accepts no new ones."""
    changed: bool
    """Whether it was changed while the daemon ran, and differs from the config."""
    settings: QueueSettings
    """Its own settings."""
    submit: list[Said] | None
    """Users who may submit jobs, as set here or by a queue above it; null: all."""
    priority: int
    """The priority of its jobs without one of their own, as set here or by a queue above it."""
    spot: SpotUse
    """VMs that its jobs may use, as set here or by a queue above it."""
    due: float
    """Its share of the cluster by weight while all queues have enough jobs."""
    share: float
    """The fraction of the cluster held by its jobs, of the resource of which they hold most."""
    used: float
    """The same including their past use, which decays (sharing.half_life)."""
    cpus: float
    """Cores held by its jobs."""
    memory_mib: int
    """Memory held by its jobs, MiB."""
    resources: dict[str, float]
    """Other resources held by its jobs, by name."""
    running: int
    """Number of its jobs that hold resources."""
    waiting: int
    """Number of its jobs that wait."""
    dollars_today: float
    """Cost of its jobs today (UTC), dollars."""
    dollars_this_month: float | None
    """The same of this month (UTC); null where no limit is by month."""
    waits: Said
    """Its longest waiting job; empty where none waits, and for callers that see only their own jobs."""
    waits_since: float | None
    """Start of that wait, seconds since the epoch."""


class QueueList(Body):
    """All queues, and the order of jobs over all of them."""

    queues: list[QueueBody]
    """Queues, each before those below it; empty where a job's queue may be any name."""
    order: list[str]
    """Criteria of the order, in sequence; empty: first come, first served."""


def queue_body(status: QueueStatus, permit: Permit) -> QueueBody:
    """A queue as the user may see it: the waiting jobs only if the user sees all jobs."""
    queue, use = status.queue, status.use
    if permit.owners(()) != ():
        use = replace(use, waits="")
    submit = None if queue.submit is None else list(queue.submit)
    return carried(QueueBody, status, use, queue, submit=submit, **flat(use.held))


def queue_list(status: QueuesStatus, permit: Permit) -> QueueList:
    """All of them."""
    return QueueList(queues=[queue_body(each, permit) for each in status.queues], order=list(status.order))
