"""Arrival times of jobs in a simulation: the submission, or the end of the last hold if that is later.

As in the daemon (`model/releases.py`), except that every job that runs finishes here.
"""

import heapq
from collections import deque
from collections.abc import Sequence

from environment.types import Job


class Arrivals:
    """Future arrivals with their times; simultaneous ones stay in order of submission."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        """`jobs` are in order of submission; dependencies on jobs outside of them hold no job."""
        self._jobs = jobs
        self._places = {job.id: place for place, job in enumerate(jobs)}
        #: Unmet dependencies of each held job, and the jobs that come after each.
        self._unmet: dict[str, set[str]] = {}
        self._after: dict[str, list[str]] = {}
        self._next: list[tuple[float, int]] = []
        #: Of arrays with a limit of jobs at once: those released and not ended, and those next in line.
        self._going: dict[str, set[str]] = {job.array: set() for job in jobs if job.at_most is not None}
        self._in_line: dict[str, deque[str]] = {array: deque() for array in self._going}
        #: When those were submitted that are held, the first in front: policies are asked then, as ever.
        self._submitted: list[float] = []
        for place, job in enumerate(jobs):
            after = {i for one in job.after for i in one.jobs if i in self._places}
            for other in after:
                self._after.setdefault(other, []).append(job.id)
            if after:
                self._unmet[job.id] = after
            else:
                self._next.append((self._at_least(job), place))
            if after or self._at_least(job) > job.submitted_at:
                self._submitted.append(job.submitted_at)
        heapq.heapify(self._next)

    def _at_least(self, job: Job) -> float:
        return job.submitted_at if job.start_at is None else max(job.submitted_at, job.start_at)

    @property
    def held(self) -> bool:
        """Whether something holds, or held, a job after its submission."""
        return bool(self._unmet or self._submitted or self._going)

    @property
    def waiting(self) -> dict[str, str]:
        """Reasons of held jobs, by id: their dependencies, or the limit of their array."""
        in_line = {
            job_id: f"as many jobs of {array} run as may at once (at_most)"
            for array, line in self._in_line.items()
            for job_id in line
        }
        return in_line | {
            job_id: f"waits until {' and '.join(sorted(after))} {'has' if len(after) == 1 else 'have'} ended"
            for job_id, after in self._unmet.items()
        }

    def __bool__(self) -> bool:
        return bool(self._unmet or self._next or any(self._in_line.values()))

    def next_at(self, now: float) -> float | None:
        """Time of the next arrival or submission that nothing but its time holds; None without any."""
        while self._submitted and self._submitted[0] <= now:
            self._submitted.pop(0)
        times = [*self._submitted[:1], *(at for at, _ in self._next[:1])]
        return min(times, default=None)

    def take(self, now: float) -> tuple[Job, float | None] | None:
        """The next one that has come by then, and when it was let go if something held it."""
        while self._next and self._next[0][0] <= now:
            at, place = heapq.heappop(self._next)
            job = self._jobs[place]
            if job.at_most is not None:
                if len(self._going[job.array]) >= job.at_most:
                    self._in_line[job.array].append(job.id)
                    continue
                self._going[job.array].add(job.id)
            return job, at if at > job.submitted_at else None
        return None

    def ended(self, job_id: str, at: float) -> None:
        """Record a job's end: release the jobs that wait for it alone, and the next of its array."""
        array = self._jobs[self._places[job_id]].array
        if job_id in self._going.get(array, ()):
            self._going[array].discard(job_id)
            if self._in_line[array]:
                heapq.heappush(self._next, (at, self._places[self._in_line[array].popleft()]))
        for other in self._after.pop(job_id, ()):
            unmet = self._unmet[other]
            unmet.discard(job_id)
            if not unmet:
                del self._unmet[other]
                place = self._places[other]
                heapq.heappush(self._next, (max(self._at_least(self._jobs[place]), at), place))
