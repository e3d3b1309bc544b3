"""Ended jobs of a store as runs on shapes, from which the model of shapes learns."""

from collections.abc import Iterable, Mapping

from daemon.store.queries.stored_jobs import StoredJobs
from environment.decisions.sizing import is_open
from environment.model.messages.records import JobRecord
from environment.types import Job
from profiles.shapes.belief import by_type
from profiles.shapes.runs import JobShape, ShapeRun
from profiles.shapes.sources import UNPRICED, UnsizedRun, sized

#: Ends of jobs that tell how long a shape takes.
FINISHED = frozenset({"finished"})
#: Runs of a type, the newest, that are learned from, and ended jobs that are looked at for other types.
#: Chosen: more than the model makes use of.
MOST_RUNS, _MOST_OTHERS = 64, 500


def runs_of_type(jobs: StoredJobs, type_name: str) -> list[ShapeRun]:
    """The newest runs of a type that finished; StoreError when the store cannot be read."""
    return shape_runs(jobs, jobs.page(states=FINISHED, types=(type_name,), limit=MOST_RUNS))


def runs_of_others(jobs: StoredJobs, type_name: str) -> Mapping[str, list[ShapeRun]]:
    """Runs of all other types among the newest that finished; StoreError as above."""
    found = by_type(shape_runs(jobs, jobs.page(states=FINISHED, limit=_MOST_OTHERS)))
    return {name: runs[:MOST_RUNS] for name, runs in found.items() if name != type_name}


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
