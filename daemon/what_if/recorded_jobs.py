"""A past time to play in a forecast: the jobs submitted then, and their durations.

They are read from the job store, and played on the present cluster by `what_if.py`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from daemon.core.errors import RejectedError
from daemon.what_if.cases import Present
from environment.model.messages.records import JobRecord
from environment.pools import Openings
from environment.types import Job, PlacementRequest
from environment.view import ClusterView

#: A page of so many jobs, the newest first, before one; as the store gives them.
Page = Callable[[int, str | None], list[JobRecord]]

#: Maximum number of jobs that are played, that are read for that, and that are read at once.
_MOST, _LOOKED_AT, _PAGE = 5_000, 20_000, 500


@dataclass(frozen=True, slots=True)
class RecordedJobs:
    """Jobs submitted since a time, in order, with their durations in seconds."""

    since: float
    jobs: tuple[Job, ...] = ()
    took: Mapping[str, float] = field(default_factory=dict)
    #: How many came and are not played: they ended without ever having run, or are held still.
    left_out: int = 0

    @property
    def assumes(self) -> tuple[str, ...]:
        """Assumptions made when it is played."""
        return (
            "the cluster is the present one, or the case's, and idle at the beginning: earlier jobs and "
            "pruned jobs are left out",
            "jobs arrive at their submission, or when their dependencies or start times released them; "
            f"those that ended before they had run, or are still held, are left out ({self.left_out})",
            f"ended jobs ({len(self.took)} of {len(self.jobs)}) have their true duration wherever they are "
            "placed as their type prefers, even those that failed or were stopped; others their believed "
            "one",
            "policies know only the durations expected at the time",
            "no VM or executor is lost, and jobs start as soon as they are placed: launches take no time",
        )

    def on(self, now: Present) -> Present:
        """Present state with these jobs waiting, or coming, on the present cluster, where nothing runs."""
        vms, whole = now.view.vms, now.view.capacity
        openings = None
        if now.view.openings is not None:
            openings = Openings(np.zeros(len(vms), np.bool_), np.full(len(vms), self.since))
        view = ClusterView(self.since, vms, whole, np.zeros(len(vms), np.int64), openings=openings)
        queue = tuple(PlacementRequest(job, job.executors) for job in self.jobs)
        return replace(now, view=view, queue=queue, others=0, recorded=self)


def recorded(page: Page, since: float) -> RecordedJobs:
    """Jobs submitted since then; RejectedError when there are none, or too many to be played."""
    found, left_out, took = list[Job](), 0, dict[str, float]()
    for record in _since(page, since):
        if record.held or (record.ended and record.placed_at is None):
            left_out += 1
            if left_out > _LOOKED_AT - _MOST:
                why = f"since: too many jobs since then never ran, {left_out} and more"
                raise RejectedError(422, "Too much at once", why)
            continue
        job = record.job
        if record.ended and record.placed_at is not None and record.finished_at is not None:
            began = record.placed_at if record.started_at is None else record.started_at
            took[job.id] = max(record.finished_at - began, 0.0)
        found.append(replace(job, submitted_at=record.entered_at, after=(), start_at=None))
        if len(found) > _MOST:
            why = f"since: at most {_MOST} jobs are simulated, and more were submitted since then"
            raise RejectedError(422, "Too much at once", why)
    if not found:
        raise RejectedError(
            422, "No jobs to simulate", "since: no job that was submitted since then has run or waits"
        )
    jobs = tuple(sorted(found, key=lambda job: job.submitted_at))
    return RecordedJobs(since, jobs, took, left_out)


def _since(page: Page, since: float) -> Iterator[JobRecord]:
    """Yield jobs submitted since then, newest first."""
    before: str | None = None
    while records := page(_PAGE, before):
        for record in records:
            if record.job.submitted_at < since:
                return
            yield record
        before = records[-1].job.id
