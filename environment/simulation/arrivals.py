"""When jobs of a simulation begin to wait: at their submission, or when what holds them is over, if later.

As in the daemon (`model/releases.py`), but that every job that runs finishes here, and none is of an array.
"""

import heapq
from collections.abc import Sequence

from environment.types import Job


class Arrivals:
    """Who comes next, and when; jobs that come at once keep the order in which they were submitted."""

    def __init__(self, jobs: Sequence[Job], *, held: bool = True) -> None:
        """`jobs` are in order of submission. Unless they are `held`, all are let go already."""
        self._jobs = jobs
        self._places = {job.id: place for place, job in enumerate(jobs)}
        #: What each job that is held still comes after, and who comes after what.
        self._unmet: dict[str, set[str]] = {}
        self._after: dict[str, list[str]] = {}
        self._next: list[tuple[float, int]] = []
        self._held = held
        #: When those were submitted that are held, the first in front: policies are asked then, as ever.
        self._submitted: list[float] = []
        for place, job in enumerate(jobs):
            after = {i for one in job.after for i in one.jobs if i in self._places} if held else set()
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
        if job.start_at is None or not self._held:
            return job.submitted_at
        return max(job.submitted_at, job.start_at)

    @property
    def held(self) -> bool:
        """Whether something holds, or held, a job after its submission."""
        return bool(self._unmet or self._submitted)

    @property
    def waiting(self) -> dict[str, str]:
        """Who comes after jobs that have not ended, by id, and why that is."""
        return {
            job_id: f"waits until {' and '.join(sorted(after))} {'has' if len(after) == 1 else 'have'} ended"
            for job_id, after in self._unmet.items()
        }

    def __bool__(self) -> bool:
        return bool(self._unmet or self._next)

    def next_at(self, now: float) -> float | None:
        """When the next one comes, or is submitted, that nothing but its time holds; None without any."""
        while self._submitted and self._submitted[0] <= now:
            self._submitted.pop(0)
        times = [*self._submitted[:1], *(at for at, _ in self._next[:1])]
        return min(times, default=None)

    def take(self, now: float) -> tuple[Job, float | None] | None:
        """The next one that has come by then, and when it was let go if something held it."""
        if not self._next or self._next[0][0] > now:
            return None
        at, place = heapq.heappop(self._next)
        job = self._jobs[place]
        return job, at if at > job.submitted_at else None

    def ended(self, job_id: str, at: float) -> None:
        """A job has ended then: those that come after it, and after nothing else, are let go."""
        for other in self._after.pop(job_id, ()):
            unmet = self._unmet[other]
            unmet.discard(job_id)
            if not unmet:
                del self._unmet[other]
                place = self._places[other]
                heapq.heappush(self._next, (max(self._at_least(self._jobs[place]), at), place))
