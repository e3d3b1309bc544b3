"""State of an earlier daemon in the store: jobs, tasks, VMs, charges and time, as one event for the model.

This module reads it; `loop.py` applies it, in order.
"""

from collections.abc import Sequence
from typing import NamedTuple

import structlog

from conf.util.utc_days import day_of, month_of
from daemon.core.clock import Clock
from daemon.queues import past_usage
from daemon.queues.live_queues import LiveQueues
from daemon.store.job_store import Store
from environment.model.cluster_model import ModelOptions
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.model.vms.provider_listing import REMEMBERED

log = structlog.get_logger("service")


class RecoveredState(NamedTuple):
    """Jobs that are not over, their tasks, and the event that tells the model of them and of all else."""

    jobs: Sequence[JobRecord]
    tasks: Sequence[ExecutorRecord]
    restored: ev.Restored

    def tell(self, *, closes_vms: bool) -> None:
        """Log the restored state."""
        if self.jobs:
            log.info("taken up", jobs=len(self.jobs), tasks=sum(not task.ended for task in self.tasks))
        if (leases := self.restored.leases) and not closes_vms:
            names = ", ".join(lease.id for lease in leases[:3])
            text = "open VMs cannot be closed: no provider is configured"
            log.error(text, vms=len(leases), some=names)


def left_behind(
    store: Store, clock: Clock, options: ModelOptions, policy: str, queues: LiveQueues
) -> RecoveredState:
    """Read it, and let the clock go on from there; rows that cannot be read are put aside.

    Raises StoreError when the store cannot be read.
    """
    found = store.jobs.open.take_up(clock.now())
    for damage in found.damages:
        log.error("a row of the job store cannot be read and is put aside", row=str(damage))
    (jobs, tasks), leases = (found.jobs, found.tasks), store.vms.leases()
    accounts = store.vms.accounts()
    clock.begin(jobs, [task for task in tasks if not task.ended], accounts)
    day = day_of(clock.now())
    restored = ev.Restored(
        clock.now(),
        tuple(jobs),
        tuple(tasks),
        options,
        leases=tuple(leases),
        accounts=tuple(accounts),
        reserved=tuple(store.vms.reservations()),
        pools=tuple(store.vms.pool_setbacks()),
        ends=_ends_awaited(store, jobs),
        paid=tuple(store.vms.paid_until(clock.now() - REMEMBERED)),
        policy=policy,
        sharing=queues.sharing(),
        spent=queues.spent(day, store.vms.spent_by_queue(month_of(day))),
        used=past_usage.taken_up(store.facts.get(past_usage.FACT), clock.now()),
    )
    return RecoveredState(jobs, tasks, restored)


def _ends_awaited(store: Store, jobs: Sequence[JobRecord]) -> tuple[tuple[str, str], ...]:
    """How those have ended that jobs come after which have not begun."""
    there = {job.job.id for job in jobs}
    awaited = {i: None for job in jobs if job.held for after in job.job.after for i in after.jobs}
    return tuple(store.jobs.ends_of([job_id for job_id in awaited if job_id not in there]).items())
