"""History events for users, one line each: derived from changes of jobs, tasks and VMs.

`events.py` stores them. The model's own events, which allow its replay, are different ones.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from conf.event_kinds import Kind as Kind
from environment.decisions.explain import Explanation
from environment.model.cluster_model import Changes
from environment.model.messages.lease import Lease, LeaseState
from environment.model.messages.records import WAITS_ITS_TURN, ExecutorRecord, JobRecord
from environment.model.messages.states import ExecutorState, JobState
from environment.model.messages.vm_accounts import Account
from environment.number_format import natural_key

#: Seconds between two lines of a job's reasons, so that a reason that comes and goes fills no store: one that
#: comes sooner is written when they are over, if it still stands.
_BETWEEN_REASONS = 5.0
#: Executors that are named in one line.
_MOST_NAMED = 20
_LONGEST = 500
#: Jobs that are over and may still change: more than have tasks that go on ending.
_MOST_OVER = 10_000
_DIGITS = re.compile(r"\d+")
_OF_LEASES: Mapping[LeaseState, Kind] = {
    "opening": "vm opening",
    "booting": "vm booting",
    "up": "vm ready",
    "draining": "vm draining",
    "closing": "vm closing",
    "closed": "vm closed",
    "lost": "vm lost",
}
#: The other states are recorded by a job's reason, and by its executors' launch.
_OF_STATES: Mapping[JobState, Kind] = {
    "starting": "starting",
    "running": "running",
    "relaunching": "relaunching",
    "finished": "finished",
    "failed": "failed",
    "killed": "killed",
}


class HistoryEvent(NamedTuple):
    """One thing that happened: when (seconds since the epoch), to which job, if to one, and in words."""

    at: float
    job_id: str | None
    kind: Kind
    text: str


class _LastRecorded(NamedTuple):
    """Last recorded state of a job."""

    state: JobState
    #: Why it waits, without numbers; empty when it does not.
    waits: str
    waits_at: float
    tries: int
    failed_at: float | None
    gave_at: float | None
    took_at: float | None


class _Untold(NamedTuple):
    """Postponed event about a waiting job: latest time, kind, text, and the text without numbers."""

    due: float
    kind: Kind
    text: str
    waits: str


class EventRecorder:
    """Derives history events from changes. Remembers the events of open jobs; for one thread."""

    def __init__(self) -> None:
        self._jobs: dict[str, _LastRecorded] = {}
        #: Why jobs wait that was not told yet, as it came too soon; and when the first of that is due.
        self._untold: dict[str, _Untold] = {}
        self._due = math.inf
        #: Jobs whose end was recorded, the latest behind: their records may change until their tasks have
        #: ended.
        self._over: dict[str, None] = {}
        self._tasks: dict[str, ExecutorState] = {}
        self._leases: dict[str, LeaseState] = {}
        self._fixed: set[str] = set()

    def take_up(
        self,
        jobs: Iterable[JobRecord],
        tasks: Iterable[ExecutorRecord],
        leases: Iterable[Lease],
        accounts: Iterable[Account],
    ) -> None:
        """Remember known records; an earlier daemon has recorded their events."""
        for each in jobs:
            self._remember(each, _seen(each, -math.inf))
        self._tasks |= {each.task_id: each.state for each in tasks if not each.ended}
        self._leases |= {each.id: each.state for each in leases}
        self._fixed |= {each.id for each in accounts if not each.pool}

    def due(self, at: float) -> bool:
        """Whether there is something to tell at that time (seconds), though nothing may have changed."""
        return at >= self._due

    def tell(
        self, at: float, changes: Changes, explanations: Sequence[Explanation] = ()
    ) -> list[HistoryEvent]:
        """Events of a batch at that time (seconds), in reading order."""
        return [
            HistoryEvent(each.at, each.job_id, each.kind, each.text[:_LONGEST])
            for part in (
                self._of_leases(at, changes.leases),
                self._of_fixed(at, changes.accounts),
                _decided(explanations),
                self._of_tasks(at, changes.executors),
                (told for record in changes.jobs for told in self._of_job(at, record)),
                self._overdue(at),
            )
            for each in part
        ]

    def _of_job(self, at: float, record: JobRecord) -> Iterator[HistoryEvent]:
        job_id, now = record.job.id, _seen(record, at)
        if job_id in self._over:
            return
        self._untold.pop(job_id, None)
        seen = self._jobs.get(job_id, _NEW)
        if now.failed_at != seen.failed_at and record.attempts:
            last = record.attempts[-1]
            yield HistoryEvent(at, job_id, "attempt failed", f"{last.why} (fault: {last.fault})")
        if now.gave_at != seen.gave_at and record.gave:
            yield HistoryEvent(at, job_id, "preempted", record.gave[-1].told)
        if now.took_at != seen.took_at and record.took:
            yield HistoryEvent(at, job_id, "given", f"received {record.took[-1].told}")
        if now.tries > seen.tries:
            yield HistoryEvent(at, job_id, "retried", record.reason)
        elif now.waits in ("", seen.waits):
            now = now._replace(waits_at=seen.waits_at)
        elif now.state == seen.state and at < (due := seen.waits_at + _BETWEEN_REASONS):
            self._untold[job_id] = _Untold(due, _why(record), record.reason, now.waits)
            self._due = min(self._due, due)
            now = now._replace(waits=seen.waits, waits_at=seen.waits_at)
        elif seen is not _NEW or record.reason != WAITS_ITS_TURN:  # which goes without saying
            yield HistoryEvent(at, job_id, _why(record), record.reason)
        if now.state != seen.state and (kind := _OF_STATES.get(now.state)) is not None:
            yield HistoryEvent(at, job_id, kind, record.reason)
        self._remember(record, now)

    def _overdue(self, at: float) -> Iterator[HistoryEvent]:
        """Events about waiting jobs that were postponed and are due."""
        if not self.due(at):
            return
        for job_id, untold in [*self._untold.items()]:
            if at >= untold.due:
                del self._untold[job_id]
                self._jobs[job_id] = self._jobs[job_id]._replace(waits=untold.waits, waits_at=at)
                yield HistoryEvent(at, job_id, untold.kind, untold.text)
        self._due = min((untold.due for untold in self._untold.values()), default=math.inf)

    def _remember(self, record: JobRecord, now: _LastRecorded) -> None:
        if not record.ended:
            self._jobs[record.job.id] = now
            return
        self._jobs.pop(record.job.id, None)
        self._over[record.job.id] = None
        if len(self._over) > _MOST_OVER:
            del self._over[next(iter(self._over))]

    def _of_tasks(self, at: float, tasks: Sequence[ExecutorRecord]) -> Iterator[HistoryEvent]:
        launched, ended = [], []
        for task in tasks:
            known = self._tasks.get(task.task_id)
            if known is None and not task.ended:
                launched.append(task)
            if task.ended and (known is not None or task.ended_at == task.launched_at):
                ended.append(task)
                self._tasks.pop(task.task_id, None)
            elif not task.ended:
                self._tasks[task.task_id] = task.state
        for job_id, group in groupby(sorted(launched, key=_of), key=lambda task: task.job_id):
            yield HistoryEvent(at, job_id, "launched", _named(list(group)))
        for job_id, group in groupby(sorted(ended, key=_of), key=lambda task: task.job_id):
            of_job = list(group)
            for how, some in groupby(sorted(of_job, key=_how), key=_how):
                same = list(some)
                bad = how[0] in ("lost", "failed")
                text = f"{how[0]}: {_named(same)}" + (f": {how[1]}" if bad and how[1] else "")
                yield HistoryEvent(at, job_id, "executors lost" if bad else "executors ended", text)

    def _of_leases(self, at: float, leases: Sequence[Lease]) -> Iterator[HistoryEvent]:
        for lease in leases:
            if self._leases.get(lease.id) != lease.state:
                why = f": {lease.reason}" if lease.reason else ""
                text = f"{lease.id} ({lease.vm.type}){why}"
                yield HistoryEvent(at, None, _OF_LEASES[lease.state], text)
            if lease.ended:
                self._leases.pop(lease.id, None)
            else:
                self._leases[lease.id] = lease.state

    def _of_fixed(self, at: float, accounts: Sequence[Account]) -> Iterator[HistoryEvent]:
        """VMs of no pool: they come and go by themselves."""
        for account in accounts:
            if account.pool:
                continue
            text = f"{account.name} ({account.type})"
            if account.closed and account.id in self._fixed:
                self._fixed.discard(account.id)
                yield HistoryEvent(at, None, "vm closed", f"{text}: its agent has gone")
            elif not account.closed and account.id not in self._fixed:
                self._fixed.add(account.id)
                yield HistoryEvent(at, None, "vm ready", f"{text}: its agent has come")


def submitted(at: float, job_id: str, name: str, owner: str, queue: str) -> HistoryEvent:
    """A job was submitted."""
    by = f" by {owner}" if owner else ""
    return HistoryEvent(at, job_id, "submitted", f"{name or job_id}{by}, to queue {queue}"[:_LONGEST])


def _seen(record: JobRecord, at: float) -> _LastRecorded:
    return _LastRecorded(
        record.state,
        _DIGITS.sub("", record.reason) if record.state == "queued" else "",
        at,
        record.retried + record.free_retries + (record.more_memory is not None),
        record.attempts[-1].ended if record.attempts else None,
        record.gave[-1].at if record.gave else None,
        record.took[-1].at if record.took else None,
    )


def _why(record: JobRecord) -> Kind:
    return "held" if record.held else "waits"


_NEW = _LastRecorded("queued", "", -math.inf, 0, None, None, None)


def _decided(explanations: Sequence[Explanation]) -> Iterator[HistoryEvent]:
    for each in explanations:
        if each.decision != "wait":
            instead = f" (the fallback, as {'; '.join(each.faults)})" if each.faults else ""
            yield HistoryEvent(each.at, each.job_id, "decided", f"{each.policy}{instead}: {each.reason}")


def _of(task: ExecutorRecord) -> tuple[str, tuple[object, ...] | object]:
    return task.job_id, natural_key(task.task_id)


def _how(task: ExecutorRecord) -> tuple[str, str]:
    return task.state, task.message if task.state in ("lost", "failed") else ""


def _named(tasks: Sequence[ExecutorRecord]) -> str:
    """In words: driver on vm-1; executors 0, 1 on vm-1; executor 2 on vm-2."""
    parts = []
    for vm, group in groupby(sorted(tasks[:_MOST_NAMED], key=lambda task: task.vm_name), lambda t: t.vm_name):
        numbers = []
        for task in group:
            if task.number is None:
                parts.append(f"driver on {vm}")
            else:
                numbers.append(str(task.number))
        if numbers:
            noun = "executor" if len(numbers) == 1 else "executors"
            parts.append(f"{noun} {', '.join(numbers)} on {vm}")
    more = len(tasks) - _MOST_NAMED
    return "; ".join([*parts, *([f"{more} more"] if more > 0 else [])])
