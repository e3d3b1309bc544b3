"""The trace of a finished job, made from the store, so that no restart and no crash breaks one.

A job is a trace. Below it are accept (from the request to the disk), held (before its turn could come), and
for each of its tries queue (until its executors have places), launch (until all run) and run; besides, decide
(the round of decisions that placed it), boot (a VM of a pool that it waited for), executor (a task, as long
as it holds resources) and bill (from the job's end until nothing of it costs anything). `otlp.py` encodes
the spans.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from daemon.notifications.otlp import Span, SpanEvent, TraceSpans, Value
from environment.decisions.explain import Explanation
from environment.model.messages.lease import Lease
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.number_format import natural_key

#: Executors that have a span of their own, and rounds of decisions.
_MOST_EXECUTORS, _MOST_DECISIONS = 1000, 100


@dataclass(frozen=True, slots=True)
class PastJob:
    """Stored facts about a finished job.

    `tasks` are in order of launch, `decisions` the oldest first; `leases` are those of its executors' VMs.
    `accepted` has the times of its request and of its write to disk, where known; `settled` means that
    nothing of it costs anything more.
    """

    record: JobRecord
    tasks: Sequence[ExecutorRecord]
    decisions: Sequence[Explanation] = ()
    leases: Sequence[Lease] = ()
    happened: Sequence[SpanEvent] = ()
    accepted: tuple[float, float] | None = None
    settled: bool = True


class _Try(NamedTuple):
    """One try: since when it waited, its launch and start if any, its end, its error, its fault."""

    since: float
    placed: float | None
    began: float | None
    ended: float
    tasks: Sequence[ExecutorRecord]
    error: str
    fault: str


def trace_of(past: PastJob) -> TraceSpans:
    """Its trace."""
    job, record = past.record.job, past.record
    placing = [each for each in past.decisions if each.decision != "wait"]
    over = _over(past)
    begin = min(job.submitted_at, past.accepted[0]) if past.accepted else job.submitted_at
    end = max(over, *(task.ended_at or over for task in past.tasks), over)
    executors = [task for task in past.tasks if task.number is not None]
    root = Span(
        "job",
        begin,
        end,
        {
            "stoker.job.id": job.id,
            "stoker.job.name": job.name,
            "stoker.job.type": job.type,
            "stoker.job.state": record.state,
            "stoker.job.reason": record.reason,
            "stoker.job.exit_code": record.exit_code,
            "stoker.job.retries": record.retried + record.free_retries + (record.more_memory is not None),
            "stoker.user": job.owner,
            "stoker.queue": job.queue,
            "stoker.policy": placing[-1].policy if placing else None,
            "stoker.vms": _vms(past.tasks),
            "stoker.executors": len(executors),
            "stoker.executors.left_out": max(0, len(past.tasks) - _MOST_EXECUTORS) or None,
            "stoker.cost": record.cost,
            **{f"stoker.label.{name}": value for name, value in job.labels},
        },
        record.reason if record.state == "failed" else "",
        past.happened,
    )
    spans = [
        *_waits(past),
        *(span for number, one in enumerate(_tries(past), 1) for span in _of_try(record, number, one)),
        *_decided(placing[-_MOST_DECISIONS:], past.tasks),
        *_boots(past.leases),
        *(_of_task(task, end) for task in past.tasks[:_MOST_EXECUTORS]),
        Span("bill", over, end, {"stoker.cost": record.cost, "stoker.settled": past.settled}),
    ]
    # Ids of jobs are unique in a store; the moment distinguishes those of two daemons.
    return TraceSpans(f"{job.id} {job.submitted_at!r}", root, spans)


def _over(past: PastJob) -> float:
    found = past.record.finished_at
    return past.record.job.submitted_at if found is None else found


def _waits(past: PastJob) -> Iterator[Span]:
    """Spans before the job's turn could come."""
    if past.accepted:
        yield Span("accept", *past.accepted)
    if (released := past.record.released_at) is not None:
        yield Span("held", past.record.job.submitted_at, released)


def _tries(past: PastJob) -> Iterator[_Try]:
    """Each ends with a failure, where the next begins to wait, or with the job."""
    record, over = past.record, _over(past)
    failures = {attempt.ended: attempt for attempt in record.attempts}
    again = () if record.queued_again_at is None else (record.queued_again_at,)
    since = record.entered_at
    for until in (*sorted(at for at in {*failures, *again} if since < at < over), over):
        last, attempt = until == over, failures.get(until)
        own = [
            task for task in past.tasks if since <= task.launched_at and (last or task.launched_at < until)
        ]
        began = attempt.began if attempt else record.started_at if last else None
        if own or last or began is not None:
            placed = min((task.launched_at for task in own), default=record.placed_at if last else began)
            failed = attempt.why if attempt else record.reason if last and record.state == "failed" else ""
            yield _Try(since, placed, began, until, own, failed, attempt.fault if attempt else "")
        since = until


def _of_try(record: JobRecord, number: int, one: _Try) -> Iterator[Span]:
    job, key = record.job, str(number)
    about: dict[str, Value] = {"stoker.queue": job.queue, "stoker.job.type": job.type, "stoker.try": number}
    yield Span("queue", one.since, one.ended if one.placed is None else one.placed, about, key=key)
    if one.placed is None:
        return
    about |= {"stoker.vms": _vms(one.tasks)}
    never = one.error if one.began is None else ""
    yield Span("launch", one.placed, one.ended if one.began is None else one.began, about, never, key=key)
    if one.began is not None:
        about |= {"error.type": one.fault or None}
        yield Span("run", one.began, one.ended, about, one.error, key=key)


def _decided(placing: Sequence[Explanation], tasks: Sequence[ExecutorRecord]) -> Iterator[Span]:
    """Each from when the cluster was looked at until executors had their places."""
    for number, each in enumerate(placing, 1):
        launched = min((task.launched_at for task in tasks if task.launched_at >= each.at), default=each.at)
        about = {
            "stoker.policy": each.policy,
            "stoker.reason": each.reason,
            "stoker.faults": each.faults or None,
        }
        yield Span("decide", each.at, launched, about, key=str(number))


def _boots(leases: Iterable[Lease]) -> Iterator[Span]:
    for lease in leases:
        terms, vm = lease.vm.terms, lease.vm
        about = {
            "stoker.vm": vm.name,
            "stoker.vm.type": vm.type,
            "stoker.pool": terms.pool if terms else None,
        }
        if lease.ready_at is not None:
            yield Span(
                "boot", lease.asked_at, lease.ready_at, {**about, "stoker.lease": lease.id}, key=lease.id
            )


def _of_task(task: ExecutorRecord, over: float) -> Span:
    about = {
        "stoker.task": task.task_id,
        "stoker.task.kind": "driver" if task.number is None else "executor",
        "stoker.task.state": task.state,
        "stoker.vm": task.vm_name,
        "stoker.vm.type": task.vm_type,
        "stoker.price_per_hour": task.price_per_hour,
        "stoker.cost": task.cost,
        **{f"stoker.size.{name}": amount for name, amount in task.resources.amounts.items()},
    }
    end = over if task.ended_at is None else task.ended_at
    runs = () if task.running_at is None else (SpanEvent(task.running_at, "running", "it runs"),)
    error = (task.message or task.state) if task.state in ("lost", "failed") else ""
    return Span("executor", task.launched_at, end, about, error, runs, task.task_id)


def _vms(tasks: Iterable[ExecutorRecord]) -> Sequence[str]:
    return sorted({task.vm_name for task in tasks}, key=natural_key)
