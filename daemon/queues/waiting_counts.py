"""Counts of waiting jobs by queue and user, and the longest waiting one.

The cluster model decides which job is next.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from conf.schema import JobSpec
from daemon.queues import tree
from environment.model.messages.records import JobRecord
from environment.queues.shares import ALL_QUEUES
from environment.types import Job

#: Jobs that a job comes after, and labels of it, that take as much memory as one more job.
_ONE_MORE = 10


def weight(job: Job | JobSpec) -> int:
    """As how many jobs one counts in a user's share: by the daemon's memory for it while it waits.

    A specification knows the groups that it comes after, not yet the jobs of these.
    """
    return 1 + (len(job.after) + len(job.labels)) // _ONE_MORE


class WaitingBook:
    """The waiting jobs as a whole. `note` and `longest` are for one thread, `waiting` is for any."""

    def __init__(self) -> None:
        #: Since when, by queue and job, of jobs that nothing holds; in the order in which they began to wait.
        self._jobs: dict[str, dict[str, float]] = {}
        #: All of them, those that are held too.
        self._queued: set[str] = set()
        #: How many, by queue and user; None: of all users. Those below a queue are among its own.
        self._counts: Counter[tuple[str, str | None]] = Counter()

    def note(self, records: Iterable[JobRecord]) -> None:
        """Record changed or new jobs."""
        for record in records:
            job, queued = record.job, record.state == "queued"
            if queued and not record.held:
                self._jobs.setdefault(job.queue, {}).setdefault(job.id, record.entered_at)
            elif (here := self._jobs.get(job.queue)) is not None:
                here.pop(job.id, None)
                if not here:
                    del self._jobs[job.queue]
            if queued == (job.id in self._queued):
                continue
            self._queued ^= {job.id}
            for path in (ALL_QUEUES, job.queue, *tree.above(job.queue)):
                step = weight(job) if path == ALL_QUEUES else 1
                for user in (None, job.owner):
                    self._counts[path, user] += step if queued else -step
                    if not self._counts[path, user]:
                        del self._counts[path, user]

    def waiting(self, path: str, user: str | None = None) -> int:
        """Number of jobs waiting in a queue and below it, of a user or of all; `ALL_QUEUES`: their weight."""
        return self._counts.get((path, user), 0)

    def longest(self) -> Mapping[str, tuple[str, float]]:
        """Which job waits for longest, and since when, by the path of its queue and of those above."""
        found: dict[str, tuple[str, float]] = {}
        for queue, jobs in self._jobs.items():
            job_id, since = next(iter(jobs.items()))
            for path in (queue, *tree.above(queue)):
                if path not in found or since < found[path][1]:
                    found[path] = job_id, since
        return found

    def waits_since(self) -> float | None:
        """Since when the job waits that waits for longest; None where none does.

        Without queues each job may name one of its own: one look at each has to do.
        """
        return min((next(iter(jobs.values())) for jobs in self._jobs.values()), default=None)

    def queues(self) -> list[str]:
        """The queues in which jobs wait, as these name them."""
        return list(self._jobs)
