"""Measurements of ended jobs in the store, for sizes: seconds on shapes, and memory that executors need."""

from collections.abc import Collection, Iterable, Sequence

from daemon.store.queries.stored_jobs import StoredJobs
from environment.decisions.sizing import is_open
from environment.model.jobs.end_reasons import short_of_memory
from environment.model.messages.records import JobRecord
from environment.types import Job
from profiles.shapes.memory_needs import MemoryNeed, MemoryRun, need_of
from profiles.shapes.runs import JobShape, ShapeRun
from profiles.shapes.sources import UNPRICED, UnsizedRun, sized

#: Ends of jobs that tell how long a shape takes.
FINISHED = frozenset({"finished"})


def memory_need(
    jobs: StoredJobs,
    type_name: str,
    finished: Sequence[JobRecord],
    most: int,
    owners: Collection[str] = (),
) -> MemoryNeed | None:
    """The need by these finished jobs and the newest failed ones; None where none is known.

    `most` of the failed ones are looked at, of these owners (empty: of all).

    StoreError when the store cannot be read.
    """
    ended = [
        *finished,
        *jobs.page(states=frozenset({"failed"}), owners=owners, types=(type_name,), limit=most),
    ]
    ended.sort(key=lambda record: record.finished_at or 0.0, reverse=True)
    return need_of(run for record in ended if (run := _run(record)) is not None)


def _run(record: JobRecord) -> MemoryRun | None:
    """A job's measurement of its executors' memory; None where it has none."""
    gib, more, use = record.job.memory_mib / 1024, record.more_memory, record.memory_use
    raised = None if more is None or more.of == "driver" else more.before_mib / 1024
    if record.state == "finished":
        peak = None if use is None or use.full_mib is None else use.full_mib / 1024
        return MemoryRun(gib, peak, record.job.cpus, failed_gib=raised)
    last = record.attempts[-1] if record.attempts else None
    if last is not None and last.fault == "memory" and short_of_memory(last.why) == "executor":
        raised = gib
    return None if raised is None else MemoryRun(gib, finished=False, failed_gib=raised)


def shape_runs(jobs: StoredJobs, records: Iterable[JobRecord]) -> list[ShapeRun]:
    """Those jobs that ran undisturbed on a number of executors that did not change.

    The daemon does not know how much input a job has, so that all of a type count as one job.
    """
    found = []
    for record in records:
        job, started, ended = record.job, record.started_at, record.finished_at
        if started is None or ended is None or ended <= started:
            continue
        if job.dynamic is not None or record.losses or record.retried or record.free_retries:
            continue
        if record.grown or record.gave:
            continue
        if (shape := _shape(jobs, job)) is not None:
            found.append(UnsizedRun(job.type, None, shape, ended - started))
    return sized(found)


def _shape(jobs: StoredJobs, job: Job) -> JobShape | None:
    if not is_open(job):
        return JobShape("", job.executors, job.cpus, job.memory_mib / 1024, UNPRICED)
    had = [task for task in jobs.executors(job.id) if task.number is not None]
    if not had:
        return None
    each = had[0].resources
    return JobShape("", len(had), each.cpus, each.memory_mib / 1024, UNPRICED)
