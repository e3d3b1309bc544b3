"""Held jobs: jobs that come after others, start later, or exceed their array's `at_most`.

A released job waits like any other, see `waiting_queue.py`. All state here follows from the records. A
predecessor without a record has ended successfully, since a job fails together with any job that it comes
after.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from conf.util.counted import counted
from environment.dependencies import After
from environment.model.messages.event_context import EventContext
from environment.model.messages.records import JobRecord
from environment.model.vms.job_registry import JobRegistry
from environment.number_format import clock

#: Number of awaited jobs that a reason names.
_NAMED = 3


class Releases:
    """Held jobs and the conditions that hold them.

    Invariants: a job is held here as long as its record says so; no ended job holds another one.
    """

    def __init__(self, turn: EventContext, roster: JobRegistry) -> None:
        self._turn = turn
        self._roster = roster
        #: Unmet dependencies of each held job: jobs and arrays, by id.
        self._unmet: dict[str, dict[str, After]] = {}
        #: Of each dependency, the jobs that have not ended; by job, the dependencies that it is part of; and
        #: by dependency, the jobs that wait for it.
        self._open: dict[str, set[str]] = {}
        self._part_of: dict[str, dict[str, None]] = {}
        self._waiting: dict[str, dict[str, None]] = {}
        #: What was found of dependencies, until a job ends: those of an array's jobs are the same.
        self._found: dict[After, tuple[list[str], tuple[str, str] | None]] = {}
        #: Jobs that only their start time holds, the first in front; and those for which their array has no
        #: room.
        self._later: list[tuple[float, str]] = []
        self._in_line: dict[str, dict[str, None]] = {}
        #: Of arrays with a bound, the jobs that were let go and are not over.
        self._going: dict[str, set[str]] = {}

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._unmet

    def __len__(self) -> int:
        return len(self._unmet)

    def __iter__(self) -> Iterator[str]:
        return iter(self._unmet)

    def going(self, job: JobRecord) -> None:
        """The job is not held, and counts for its array as long as it is not over."""
        if job.job.at_most is not None and not job.ended:
            self._going.setdefault(job.job.array, set()).add(job.job.id)

    def hold(self, job: JobRecord, ends: Mapping[str, str]) -> str:
        """Add a job that is new, or was held; return why it can never start, empty when it may.

        It may start at once, and then is not held. `ends` are the end states of jobs without a record here.
        """
        unmet: dict[str, After] = {}
        for after in job.job.after:
            open_jobs, bad = self._look_up(after, ends)
            if bad and after.when == "success":
                return _failed(after, *bad)
            if open_jobs:
                unmet[after.job] = after
                self._waiting.setdefault(after.job, {})[job.job.id] = None
                if after.job not in self._open:
                    self._open[after.job] = set(open_jobs)
                    for other in open_jobs:
                        self._part_of.setdefault(other, {})[after.job] = None
        self._unmet[job.job.id] = unmet
        if unmet:
            self._roster.explain(job, _waits_for(unmet))
        else:
            self._consider(job, self._turn.now)
        return ""

    def _look_up(self, after: After, ends: Mapping[str, str]) -> tuple[list[str], tuple[str, str] | None]:
        """The jobs of these that have not ended, and the first that did not finish, with its state."""
        if after.ended:
            return [], None if after.ended == "finished" else (after.job, after.ended)
        if (known := self._found.get(after)) is not None:
            return known
        open_jobs: list[str] = []
        bad: tuple[str, str] | None = None
        for job_id in after.jobs:
            record = self._roster.job(job_id)
            if record is not None and not record.ended:
                open_jobs.append(job_id)
                continue
            state = ends.get(job_id, "finished") if record is None else record.state
            if state != "finished" and bad is None:
                bad = (job_id, state)
        self._found[after] = open_jobs, bad
        return open_jobs, bad

    def _consider(self, job: JobRecord, at: float) -> bool:
        """Nothing that it comes after holds it: see whether its time does, or its array; whether it goes."""
        start_at, most, array = job.job.start_at, job.job.at_most, job.job.array
        if start_at is not None and start_at > at:
            heapq.heappush(self._later, (start_at, job.job.id))
            self._roster.explain(job, f"begins at {clock(start_at)}, and not before")
            return False
        if most is not None and len(self._going.get(array, ())) >= most:
            self._in_line.setdefault(array, {})[job.job.id] = None
            what = f"{counted(most, 'job')} of {array} may run at once (at_most)"
            self._roster.explain(job, f"{what}, and {'does' if most == 1 else 'do'}")
            return False
        del self._unmet[job.job.id]
        job.released_at = at
        self.going(job)
        self._roster.explain(job, "waits for its turn")
        return True

    def ended(self, job: JobRecord) -> tuple[list[JobRecord], list[tuple[JobRecord, str]]]:
        """Process the end of a job; return the released jobs, and those that can never start, with why.

        The latter have ended, too.
        """
        self._found.clear()
        freed: dict[str, JobRecord] = {}
        failed: list[tuple[JobRecord, str]] = []
        over = [(job.job.id, job.state == "finished", job.state)]
        for job_id, well, state in over:  # which grows
            self._drop(job_id)
            for key in self._part_of.pop(job_id, {}):
                for other, why in self._one_less(key, job_id, well=well, state=state):
                    if not why:
                        freed[other.job.id] = other
                        continue
                    self._drop(other.job.id)
                    failed.append((other, why))
                    over.append((other.job.id, False, "failed"))
            if (record := self._roster.job(job_id)) is not None:
                freed |= {other.job.id: other for other in self._make_room(record)}
        return [*freed.values()], failed

    def _one_less(self, key: str, job_id: str, *, well: bool, state: str) -> Iterator[tuple[JobRecord, str]]:
        """Drop an ended job from an awaited set; yield jobs that this releases, or fails with the reason."""
        if (left := self._open.get(key)) is None:
            return  # its waiting jobs were released or failed by another of their dependencies
        left.discard(job_id)
        for waiting in [*self._waiting[key]]:
            other, unmet = self._roster.job(waiting), self._unmet.get(waiting)
            if other is None or unmet is None:
                continue
            after = unmet[key]
            if not well and after.when == "success":
                yield other, _failed(after, job_id, state)
            elif not left:
                del unmet[key]
                if unmet:
                    self._roster.explain(other, _waits_for(unmet))
                elif self._consider(other, self._turn.now):
                    yield other, ""
        if not left:
            self._open.pop(key, None)
            self._waiting.pop(key, None)

    def _make_room(self, job: JobRecord) -> Iterator[JobRecord]:
        """A job of an array is over: another one goes."""
        going, array = self._going.get(job.job.array, set()), job.job.array
        going.discard(job.job.id)
        in_line = self._in_line.get(array, {})
        while in_line and len(going) < (job.job.at_most or 0):
            other = self._roster.job(next(iter(in_line)))
            del in_line[next(iter(in_line))]
            if other is not None and other.job.id in self._unmet and self._consider(other, self._turn.now):
                yield other
        if not in_line:
            self._in_line.pop(array, None)
        if not going:
            self._going.pop(array, None)

    def _drop(self, job_id: str) -> None:
        """The job is over: nothing holds it any more."""
        for key in self._unmet.pop(job_id, {}):
            waiting = self._waiting.get(key, {})
            waiting.pop(job_id, None)
            if not waiting and key in self._open:
                for other in self._open.pop(key):
                    self._part_of.get(other, {}).pop(key, None)
                self._waiting.pop(key, None)
        if (job := self._roster.job(job_id)) is not None:
            self._in_line.get(job.job.array, {}).pop(job_id, None)

    def wake(self) -> list[JobRecord]:
        """Release the jobs due to start since the last call, in order of their start times.

        Each is released as of its start time and not of the present, so that a log may omit ticks.
        """
        freed = []
        while self._later and self._later[0][0] <= self._turn.now:
            at, job_id = heapq.heappop(self._later)
            job = self._roster.job(job_id)
            if job is not None and job_id in self._unmet and self._consider(job, at):
                freed.append(job)
        return freed


def _failed(after: After, job_id: str, state: str) -> str:
    which = "which" if job_id == after.job else f"of which {job_id}"
    return f"never began: it comes after {after}, {which} {'was ' if state == 'killed' else ''}{state}"


def _waits_for(unmet: Mapping[str, After]) -> str:
    names = [f"{after}" + (" (any end)" if after.when == "any" else "") for after in unmet.values()]
    return f"waits until {_listed(names)} {'has' if len(names) == 1 else 'have'} ended"


def _listed(names: Iterable[str]) -> str:
    found = [*names]
    more = len(found) - _NAMED
    if more > 0:
        return f"{', '.join(found[:_NAMED])} and {more} more"
    return " and ".join(chain([", ".join(found[:-1])] if len(found) > 1 else [], found[-1:]))
