"""Snapshot of queues and order: shares, waiting jobs, positions in the order, and the reasons for them.

The scheduling loop makes it from its model at intervals; everything else is derived on request.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from daemon.core.queue_status import QueueUse
from daemon.queues.waiting_counts import WaitingBook
from environment.model.cluster_model import ClusterModel
from environment.model.messages.records import JobRecord
from environment.queues.limits import ShareLimits
from environment.queues.shares import ALL_QUEUES, Standings
from environment.queues.sorted_lines import demand
from environment.resources import Resources
from environment.types import PlacementRequest

#: Number of jobs, the first in the order, whose places are known.
PLACES = 1000
#: Seconds between two snapshots, at least and at most, and in between a multiple of the time that one took:
#: with very many jobs in very many queues it is some 10 ms, in which no request is answered.
_BETWEEN, _TIMES = (0.5, 5.0), 40.0
#: How many times its share a queue must have had for that to be said.
_NOTICEABLE = 1.05


@dataclass(frozen=True)
class QueueSnapshot:
    """Snapshot of queues and order; `first` are the ids of the first jobs in order.

    `waiting` is the number of waiting jobs in each queue, with those below it, `longest` the job that has
    waited longest and since when (seconds); `stray` are missing queues that still have waiting jobs.
    """

    standings: Standings
    first: Sequence[str] = field(default=(), repr=False)
    waiting: Mapping[str, int] = field(default_factory=dict, repr=False)
    longest: Mapping[str, tuple[str, float]] = field(default_factory=dict, repr=False)
    stray: Collection[str] = ()

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {job_id: number for number, job_id in enumerate(self.first)}

    @cached_property
    def _limits(self) -> ShareLimits:
        return ShareLimits(self.standings.sharing)

    def place(self, job_id: str) -> int | None:
        """Number of jobs before this one in the order; None where it is not among the first."""
        return self._places.get(job_id)

    def why(self, record: JobRecord) -> str:
        """Reason why a waiting job is not the first; empty for the first, and where none is known."""
        if (place := self.place(record.job.id)) == 0 or not self.first:
            return ""
        job = record.job
        if place is None:
            least = demand(PlacementRequest(job, job.begins_with))[1]
            if over := self._limits.over(self.standings, job.queue, job.owner, least):
                return f"{over.why}; jobs behind it do not wait for it"
            if len(self.first) < min(self.standings.sharing.window, PLACES):
                return ""  # it came a moment ago, or is about to go
        order = ", ".join(self.standings.sharing.order)
        many = len(self.first) if place is None else place
        jobs = "1 job is" if place == 1 else f"{'more than ' if place is None else ''}{many} jobs are"
        before = f"{jobs} before it (order: {order})"
        return "; ".join((before, *islice(self._had_more(job.queue), 1)))

    def _had_more(self, path: str) -> Iterator[str]:
        """Which queue, from the top to that one, has had more than its share, if that counts."""
        queues = self.standings.sharing.queues
        if "fair" not in self.standings.sharing.order:
            return
        for queue in queues.line(path):
            beside = {other for other in self._active if other.rpartition(".")[0] == queue.above}
            times = self.standings.times_its_share(queue.path, beside)
            if times is not None and times >= _NOTICEABLE:
                yield f"queue {queue.path} has had {times:.1f} times its share by weight"

    @cached_property
    def _active(self) -> frozenset[str]:
        """The queues that have or want something."""
        return frozenset((*self.waiting, *self.standings.uses)) - {ALL_QUEUES}

    def uses(self) -> dict[str, QueueUse]:
        """Use of each queue, by path, including missing queues that have jobs."""
        queues = self.standings.sharing.queues
        held = (path for path in self.standings.uses if path not in queues and path != ALL_QUEUES)
        stray = {path for path in held if self.standings.of((path, None)).held} | set(self.stray)
        return {path: self._use(path) for path in (*(queue.path for queue in queues), *sorted(stray))}

    def _use(self, path: str) -> QueueUse:
        standings = self.standings
        use, whole, job = standings.of((path, None)), standings.whole, self.longest.get(path)
        past = use.past_at(standings.at, standings.sharing.half_life)
        return QueueUse(
            held=use.held,
            share=_share(use.held, whole),
            used=max((past.get(name, 0.0) / of for name, of in whole.thousandths.items()), default=0.0),
            running=use.running,
            waiting=self.waiting.get(path, 0),
            dollars_today=standings.spent.get((path, None), 0.0),
            dollars_this_month=standings.months.get((path, None), 0.0) if self._limits.by_month else None,
            waits=job[0] if job else "",
            waits_since=job[1] if job else None,
        )


def next_look(began: float, ended: float) -> float:
    """Time of the next snapshot on the same clock, seconds: the longer one took, the later."""
    least, most = _BETWEEN
    return ended + min(max(_TIMES * (ended - began), least), most)


def sight_of(model: ClusterModel, book: WaitingBook) -> QueueSnapshot | None:
    """Take a snapshot; None where the cluster is not shared. For the thread that owns the model."""
    if (standings := model.standings()) is None:
        return None
    requests = (request for request in model.requests() if not request.joins)
    queues, waiting = standings.sharing.queues, book.queues()
    longest = book.longest()
    return QueueSnapshot(
        standings,
        tuple(request.job.id for request in islice(requests, PLACES)),
        {path: book.waiting(path) for path in longest},
        longest,
        tuple(path for path in waiting if queues and path not in queues.leaves),
    )


def _share(held: Resources, whole: Resources) -> float:
    return held.share_of(whole) if held else 0.0
