"""Running jobs that wait for more executors: the number, the first profile, and the turn of each job.

A job grows in turn: it stands among the new jobs by the time at which it asked, gets as many executors as
there is room for when its turn comes, and asks for the rest again behind all jobs that wait then. So no
driver that asks and asks keeps new jobs from starting, and no stream of new jobs keeps a running one small.
Where there is room for none, its turn ends after `growth_patience`; a job without any executor keeps it, as
a new job does. Executors that it lacks to have its `min` are not growth, but lost, and go before new jobs.

A job of a fixed number of executors that began with fewer grows as well, where that pays (`growth`), but only
while no other job waits.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from conf.util.counted import counted
from environment.model.messages.records import ExecutorRequest, JobRecord
from environment.model.messages.snapshot import Growth
from environment.model.vms.job_registry import JobRegistry
from environment.resources import Resources
from environment.scale_up import more_executors, pays
from environment.types import Job, PlacementRequest

#: Resource profiles of a job that get executors, and reasons that are quoted of as many.
MOST_PROFILES, _TOLD = 100, 3


class Lack(NamedTuple):
    """Executors of one resource profile that a job asks for and does not have, and how many it has."""

    profile: int
    size: Resources
    missing: int
    present: int


def bounded(job: Job, asked: Iterable[ExecutorRequest]) -> tuple[tuple[ExecutorRequest, ...], str]:
    """Executors that a dynamic job is allowed of those its driver asks for, and why fewer; empty if all.

    As in Spark, the bounds hold for each resource profile; profile 0 is the job's own request. Of others with
    executors, the first `MOST_PROFILES` count, since the loop looks through all of them at each event.
    """
    found: dict[int, ExecutorRequest] = {}
    over: list[str] = []
    for profile, size, total in asked:
        if total > job.executors:
            of = f" of resource profile {profile}" if profile else ""
            over.append(
                f"its driver asks for {counted(total, 'executor')}{of}, and its max is {job.executors}: "
                "it gets no more"
            )
        found[profile] = ExecutorRequest(profile, size if profile else job.size, min(total, job.executors))
    found.setdefault(0, ExecutorRequest(0, job.size, 0))
    kept = sorted(profile for profile, request in found.items() if request.total or not profile)
    if len(kept) > MOST_PROFILES:
        told = f"its driver asks for executors of {len(kept)} resource profiles"
        over.insert(0, f"{told}, and gets those of the first {MOST_PROFILES}")
    return tuple(found[profile] for profile in kept[:MOST_PROFILES]), some_of(over)


def some_of(reasons: Sequence[str]) -> str:
    """The first of these reasons, and how many more there are; a driver makes as many as it likes."""
    more = len(reasons) - _TOLD
    return "; ".join([*reasons[:_TOLD], *([f"and {more} more reasons"] if more > 1 else reasons[_TOLD:])])


def wanted(job: JobRecord) -> tuple[ExecutorRequest, ...]:
    """Executors that a dynamic job's driver asks for, or its initial ones before that; else empty."""
    if job.job.dynamic is None:
        return ()
    return job.wanted or (ExecutorRequest(0, job.job.size, job.job.begins_with),)


def lacks(job: JobRecord, roster: JobRegistry) -> list[Lack]:
    """Executors that a job with a standing launch is short of; the profile with the least share is first."""
    if not roster.stands(job) or job.gives_way or job.bounded:
        return []
    if job.job.dynamic is None:
        return _more(job, roster)
    present = Counter(task.profile for task in roster.executors(job) if not task.gone)
    found = [
        Lack(profile, size, total - present[profile], present[profile])
        for profile, size, total in wanted(job)
        if total > present[profile]
    ]
    return sorted(found, key=lambda lack: (lack.present / (lack.present + lack.missing), -lack.profile))


def _more(job: JobRecord, roster: JobRegistry) -> list[Lack]:
    """More executors that pay for a job which began with fewer than it asks for and has lost none."""
    if job.started_at is None or job.job.fewest >= job.job.executors or roster.missing(job):
        return []
    since = job.placed_at or 0.0  # not those of an attempt before
    tasks = [t for t in roster.tasks(job.job.id) if t.number is not None and t.launched_at >= since]
    if any(task.state == "finished" and not task.decommissioned_at for task in tasks):
        return []  # its driver has told them to stop: it is about to end
    had = tuple(task.resources for task in tasks if not task.gone)
    more = more_executors(job.job, had)
    return [Lack(0, had[-1], more, len(had))] if more else []


@dataclass(slots=True)
class _Turn:
    """When a job asked, from when on it may be placed, and since when it is first and finds no room."""

    asked_at: float
    due: float
    waits_since: float | None = None


class ScaleUp:
    """Which jobs grow, in the order in which they asked.

    Invariant: each runs, and has fewer executors of a profile than it wants; `update` sees to it.
    """

    def __init__(self, roster: JobRegistry, *, by_itself: bool = True) -> None:
        """`by_itself`: whether jobs get more executors of which no driver asks for any."""
        self._roster = roster
        self._by_itself = by_itself
        self._turns: dict[str, _Turn] = {}

    def __len__(self) -> int:
        return len(self._turns)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._turns

    def __iter__(self) -> Iterator[str]:
        return iter(self._turns)

    def state(self) -> tuple[Growth, ...]:
        """All that is known."""
        turns = self._turns.items()
        return tuple(Growth(i, turn.asked_at, turn.due, turn.waits_since) for i, turn in turns)

    def resume(self, state: Iterable[Growth]) -> None:
        """Restore the state."""
        self._turns = {g.job_id: _Turn(g.asked_at, g.due, g.waits_since) for g in state}

    def update(self, job: JobRecord, now: float, due: float) -> bool:
        """Check whether the job grows; one that already did keeps its turn. It is not placed before `due`."""
        if (job.job.dynamic is None and not self._by_itself) or not lacks(job, self._roster):
            self.leave(job.job.id)
            return False
        turn = self._turns.setdefault(job.job.id, _Turn(now, due))
        turn.due = max(turn.due, due)
        return True

    def missing(self, job: JobRecord, profile: int) -> int:
        """How many executors of a resource profile a job is short of."""
        return sum(lack.missing for lack in lacks(job, self._roster) if lack.profile == profile)

    def leave(self, job_id: str) -> bool:
        """The job does not grow; returns whether it did."""
        return self._turns.pop(job_id, None) is not None

    def yields(self, job_id: str, now: float, patience: float) -> bool:
        """A round found no room for the job, though it is first: whether it stands behind the others now."""
        job, turn = self._roster.job(job_id), self._turns[job_id]
        if job is not None and job.job.dynamic is None:
            return False  # it is there only while no other job waits
        turn.waits_since = now if turn.waits_since is None else turn.waits_since
        if job is None or now < turn.waits_since + patience or not self._roster.executors(job):
            return False
        self._turns[job_id] = _Turn(now, turn.due)
        return True

    def due(self, now: float) -> list[tuple[float, JobRecord]]:
        """The jobs that may be placed at that time, in order, and when they asked."""
        turns = sorted((turn.asked_at, i) for i, turn in self._turns.items() if turn.due <= now)
        found = ((asked_at, self._roster.job(job_id)) for asked_at, job_id in turns)
        return [(asked_at, job) for asked_at, job in found if job is not None]

    def is_due(self, job: JobRecord, now: float, *, alone: bool) -> bool:
        """Whether its turn may come: without a driver's request, when it waits `alone` and growth pays."""
        if job.job.dynamic is not None:
            return True
        just_asked = self._turns[job.job.id].asked_at >= now  # a round is about jobs that waited at its start
        if not alone or just_asked or not (short := lacks(job, self._roster)):
            return False
        had = tuple(task.resources for task in self._roster.executors(job))
        return pays(job.job, had, short[0].missing, self._roster.left(job, now))

    def requests(self, job: JobRecord) -> Iterator[PlacementRequest]:
        """One request for each profile that the job is short of, in the order of `lacks`.

        Each is made when it is read: most readers need the first one, and others are large.
        """
        present = tuple(task.vm_id for task in self._roster.executors(job))
        return (_request(job, lack, present) for lack in lacks(job, self._roster))


def _request(job: JobRecord, lack: Lack, present: Sequence[str]) -> PlacementRequest:
    least = 0 if job.job.dynamic is None or lack.profile else job.job.dynamic.min
    again = lack.present < least
    count = min(lack.missing, least - lack.present) if again else lack.missing
    sizes = () if lack.size == job.job.size else (lack.size,) * count
    return PlacementRequest(
        job.job, count, tuple(present), again, job.next_executor, sizes, grows=True, profile=lack.profile
    )


def runs_on(job: JobRecord, roster: JobRegistry) -> str:
    """Number of executors that a dynamic job runs on, and why no more if it wants more, in words."""
    number = sum(not task.gone for task in roster.executors(job))
    said = f"runs on {number} executor{'' if number == 1 else 's'}"
    return "; ".join(filter(None, (said, _gave(job, roster), job.bounded or job.capped)))


def _gave(job: JobRecord, roster: JobRegistry) -> str:
    """The last loss of executors to another job since placement, in words; empty once it has more again."""
    since = max((each.at for each in job.grown if each.after > each.before), default=job.placed_at or 0.0)
    gave = [each.told for each in job.gave if each.at >= since and not each.whole]
    return gave[-1] if gave and (job.job.dynamic is None or lacks(job, roster)) else ""
