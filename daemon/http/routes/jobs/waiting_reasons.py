"""Reasons for the state of each job, as users see them: for waiting jobs, their place and the cause."""

from collections.abc import Sequence
from typing import NamedTuple

from daemon.auth.permits import Permit
from daemon.core.job_ids import job_number
from daemon.core.status import QueuePositions
from daemon.http.server.scheduler_interface import LiveStatus
from daemon.queues.queue_snapshot import QueueSnapshot
from daemon.store.job_store import Store
from environment.model.messages.records import WAITS_ITS_TURN, JobRecord


class ToldReason(NamedTuple):
    """The reason, and how many jobs are before it in the order; None where that is not known."""

    reason: str
    place: int | None = None


def told_of(
    live: LiveStatus, store: Store, permit: Permit, records: Sequence[JobRecord]
) -> dict[str, ToldReason]:
    """Reason of each job, by its id, for a user that may see these jobs; other jobs are not mentioned."""
    told = {record.job.id: ToldReason(permit.told(record.reason, {record.job.id})) for record in records}
    queued = sorted((record for record in records if record.state == "queued"), key=_submission)
    if not queued:
        return told
    standing = live.standing()
    if (sight := live.sight()) is not None:
        return told | _in_order(permit, queued, sight, standing)
    return told | _first_come(store, permit, queued, standing)


def _in_order(
    permit: Permit, queued: Sequence[JobRecord], sight: QueueSnapshot, standing: QueuePositions | None
) -> dict[str, ToldReason]:
    """Reasons under the order of queues. Paused jobs, and jobs with another cause, keep their own reason."""
    paused = frozenset() if standing is None else standing.paused
    told = {}
    for record in queued:
        place, why = sight.place(record.job.id), record.reason
        if record.job.id not in paused and (place is not None or why == WAITS_ITS_TURN):
            why = _beside(why, sight.why(record))
        told[record.job.id] = ToldReason(permit.told(why, {record.job.id}), place)
    return told


def _beside(reason: str, order: str) -> str:
    """The job's own reason, then that of the order, without the text that it waits for its turn."""
    own = reason.removeprefix(WAITS_ITS_TURN).removeprefix("; ")
    if not order or order in own:
        return own or reason
    return f"{own}; {order}" if own else order


def _first_come(
    store: Store, permit: Permit, queued: Sequence[JobRecord], standing: QueuePositions | None
) -> dict[str, ToldReason]:
    """Reasons under first-come order: a job that is not the head of the queue waits for the head.

    Paused jobs hold up no other job, and have reasons of their own.
    """
    head = store.jobs.head() if standing is None else store.jobs.get(standing.head)
    if head is None or head.state != "queued":
        return {}  # the head has left the queue a moment ago, or there is none
    known, told = standing or QueuePositions(), {}
    # A job that is already placed may be stored as queued for a moment still: no job is before the head.
    (of_head,) = store.jobs.positions([head.job.id])
    positions = store.jobs.positions([record.job.id for record in queued])
    before_head = known.ahead(head.job.id, of_head)
    for position, record in zip(positions, queued, strict=True):
        ahead = known.ahead(record.job.id, position) - before_head
        if record.job.id in known.paused:
            continue
        why = _behind(ahead, head if permit.sees(head.job.owner) else None) if ahead > 0 else record.reason
        told[record.job.id] = ToldReason(permit.told(why, {record.job.id, head.job.id}), max(ahead, 0))
    return told


def _behind(position: int, head: JobRecord | None) -> str:
    jobs = "1 job is" if position == 1 else f"{position} jobs are"
    if head is None:
        return f"{jobs} before it, first come first served"
    first = head.job.id if position == 1 else f"{head.job.id}, the first of them,"
    return f"{jobs} before it, first come first served; {first} waits because: {head.reason}"


def _submission(record: JobRecord) -> int:
    return job_number(record.job.id) or 0
