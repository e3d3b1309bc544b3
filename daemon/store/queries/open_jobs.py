"""Open jobs of the store: the ones a daemon loads at its start, and queries about them."""

import re
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from conf.uploaded_file import SCHEME, SHA256
from daemon.core.identity import stored_names
from daemon.core.job_ids import job_id
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.damaged_rows import FoundJobs, parts, put_aside, task_rows_to_go_on
from daemon.store.rows.job_rows import by_launch
from daemon.store.rows.tables import OPEN_EXECUTOR, OPEN_JOB, executors, jobs
from daemon.store.rows.vm_records import VmBooks
from environment.model.messages.records import ExecutorRecord, JobRecord

_UPLOADED = re.compile(f"{SCHEME}:({SHA256})/")
_IS_OPEN = jobs.c.state.in_(OPEN_JOB)


class OpenJobs:
    """Reads them. All methods may be called from any thread, and raise StoreError."""

    def __init__(self, access: StoreAccess, vms: VmBooks) -> None:
        self._access, self._vms = access, vms

    def unfinished(self) -> tuple[list[JobRecord], list[ExecutorRecord]]:
        """Return the jobs that are open or have open tasks, and their tasks, for a daemon's start.

        Jobs come in order of submission, tasks in order of launch; of very many, those that still matter.
        """
        going_on, damages = _going_on().subquery(), self._access.damages
        records = sa.select(jobs.c.number, jobs.c.record).join(going_on, going_on.c.number == jobs.c.number)
        with self._access.read() as connection:
            found = damages.jobs(connection, records.order_by(jobs.c.number))
            numbers: list[int] = list(connection.scalars(_going_on()))
            rows = [row for part in parts(numbers) for row in task_rows_to_go_on(connection, part)]
            return found, sorted(damages.tasks(rows), key=by_launch)

    def take_up(self, at: float) -> FoundJobs:
        """Load the jobs and tasks for a daemon's start, as in `unfinished`, with the damage found.

        Unreadable rows of these and of VMs are put aside; such jobs have failed, with that as their reason.
        """

        def work(connection: Connection) -> FoundJobs:
            found = put_aside(connection, list(connection.scalars(_going_on())), at)
            return replace(found, damages=(*found.damages, *self._vms.put_aside(connection, at)))

        found = self._access.write(work)
        if found.damages:  # some have failed meanwhile
            records, tasks = self.unfinished()
            return replace(found, jobs=records, tasks=tasks)
        return replace(found, tasks=sorted(found.tasks, key=by_launch))  # read once: they may be very many

    def by_keys(self, prefix: str) -> list[str]:
        """The ids of those that were submitted with keys that begin so."""
        theirs = jobs.c.idempotency_key.startswith(prefix, autoescape=True)
        query = sa.select(jobs.c.number).where(theirs, _IS_OPEN)
        with self._access.read() as connection:
            return [job_id(number) for number in connection.scalars(query.order_by(jobs.c.number))]

    def in_queue(self, queue: str) -> int:
        """Number of open jobs of a queue."""
        query = sa.select(sa.func.count()).select_from(jobs).where(jobs.c.queue == queue, _IS_OPEN)
        with self._access.read() as connection:
            return connection.scalar(query) or 0

    def uploads_needed(self) -> set[str]:
        """Stored names of the uploaded files that open jobs name, from any user."""
        named = jobs.c.spec.contains(f"{SCHEME}:", autoescape=True)
        query = sa.select(jobs.c.owner, jobs.c.spec).where(_IS_OPEN, named)
        with self._access.read() as connection:
            return {
                name
                for owner, text in connection.execute(query)
                for found in _UPLOADED.findall(text)
                for name in stored_names(found, owner)
            }


def _going_on() -> sa.CompoundSelect[tuple[int]]:
    """The numbers of jobs that are not over or have open tasks."""
    with_open = sa.select(executors.c.job).where(executors.c.state.in_(OPEN_EXECUTOR))
    return sa.union(sa.select(jobs.c.number).where(_IS_OPEN), with_open)
