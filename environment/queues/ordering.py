"""The stage before every policy: waiting jobs, the order in which they are shown, and blocking limits.

It is independent of both worlds: `environment.model.jobs.waiting_queue` and `environment.simulation.world`
report waiting jobs, the holdings of running ones, and the cluster's resources. A policy, also a learned one,
is shown the order alone.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import islice
from types import MappingProxyType

from conf.util.counted import counted
from environment.number_format import clock
from environment.queues.limits import ShareLimits
from environment.queues.merge_cache import MergeCache
from environment.queues.ordered_queue import OrderedQueue, order_of, others
from environment.queues.progressive_filling import FillingScene, Gate, every
from environment.queues.shares import ALL_QUEUES, JobHolding, Shares, Standings
from environment.queues.sorted_lines import Lines, Path, WaitingJob, demand, keys, latest_start
from environment.queues.types import Sharing
from environment.resources import Resources
from environment.types import Job, PlacementRequest

#: Factor over its due up to which a queue or user is not said to have had more.
_NOTICEABLE = 1.05

#: Number of jobs of each queue whose blocking limit is reported without a request.
_TOLD = 20

#: A running job that asks for more: since when, its number, and its request.
Grows = tuple[float, int, PlacementRequest]


class Ordering:
    """Jobs that wait as a whole, in the order of a `Sharing`.

    Joining, leaving and changes of holdings affect only the lines concerned, and a round finds as much of the
    order as is needed: neither depends on the number of waiting jobs.
    """

    def __init__(self, sharing: Sharing) -> None:
        self.sharing = sharing
        self.shares = Shares(sharing)
        self.limits = ShareLimits(sharing)
        self._lines, self._ages = Lines(), Lines()
        #: Place of each waiting job in its line, and by age.
        self._places: dict[str, tuple[Path, WaitingJob, WaitingJob]] = {}
        #: Times when a job's deadline can no longer be met.
        self._late: list[tuple[float, int, str]] = []
        self._known = MergeCache()
        self._overtaken: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._places

    def join(self, request: PlacementRequest, number: int, now: float) -> None:
        """A job waits; `number` is that of its submission, by which it stands among others of its time."""
        job = request.job
        self.leave(job.id)
        path, key = keys(self.sharing, job, request.entered_at, number, now)
        entry = WaitingJob(key, request, *demand(request))
        aged = entry._replace(key=(request.entered_at, number))
        self._lines.add(path, entry)
        self._ages.add(((), path[1], ""), aged)
        self._places[job.id] = path, entry, aged
        if "deadline" in self.sharing.order and now <= latest_start(job) < math.inf:
            heappush(self._late, (latest_start(job), number, job.id))

    def leave(self, job_id: str) -> None:
        """A job waits no more."""
        found = self._places.pop(job_id, None)
        if found is not None:
            path, entry, aged = found
            self._lines.remove(path, entry.key)
            self._ages.remove(((), path[1], ""), aged.key)

    def passed(self, job_id: str, turns: OrderedQueue) -> None:
        """Record the placement of a waiting job: if the first is of another user or queue, it is overtaken.

        The order among jobs of one user is up to the policy.
        """
        head, found = turns.head, self._places.get(job_id)
        if head is not None and found is not None and others(self.sharing, head.job, found[1].request.job):
            self._overtaken[head.job.id] = self._overtaken.get(head.job.id, 0) + 1
        self._overtaken.pop(job_id, None)

    def overtaken(self) -> tuple[tuple[str, int], ...]:
        """Number of times that each waiting job was overtaken, by its id."""
        return tuple((job_id, times) for job_id, times in self._overtaken.items() if job_id in self._places)

    def resume(self, overtaken: Iterable[tuple[str, int]]) -> None:
        """Restore the counts."""
        self._overtaken = dict(overtaken)

    def turns(
        self,
        whole: Resources,
        now: float,
        day: str = "",
        *,
        first: Sequence[PlacementRequest] = (),
        growing: Sequence[Grows] = (),
        skipped: frozenset[str] = frozenset(),
        gate: Gate = every,
        placed: Iterable[JobHolding] = (),
        avoided: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> OrderedQueue:
        """The queue of a round at this time, in a cluster that has `whole` in all.

        `first` are placed before all others, as far as limits let them; `growing` take part like jobs that
        came when they asked. `placed` hold nothing yet, but are to. `avoided` names VMs, by id, that are no
        place for a job now.
        """
        scene, standings = self._scene(whole, now, day, growing, skipped, gate)
        if more := tuple(placed):
            standings = standings.with_more(more)
        scene = replace(scene, avoided=avoided)
        may = tuple(request for request in first if not self._over(standings, request))
        return OrderedQueue(replace(scene, first=may), standings)

    def _scene(
        self,
        whole: Resources,
        now: float,
        day: str,
        growing: Sequence[Grows] = (),
        skipped: frozenset[str] = frozenset(),
        gate: Gate = every,
    ) -> tuple[FillingScene, Standings]:
        self._look(now)
        lines = self._lines
        if growing:
            lines = self._lines.copy()
            for at, number, request in growing:
                path, key = keys(self.sharing, request.job, at, number, now)
                lines.add(path, WaitingJob(key, request, *demand(request)))
        tree, classes = lines.hand_out()
        ages, _ = self._ages.hand_out()
        scene = FillingScene(
            tree,
            classes,
            {queue: users[""] for queue, users in ages.get((), {}).items()},
            self.limits,
            skipped=self._by_queue(skipped, growing),
            gate=gate,
            overtaken=dict(self._overtaken),
            grow_in=frozenset(self.sharing.queues.leaf(request.job.queue) for _, _, request in growing),
            known=self._known,
        )
        return scene, self.shares.standings(whole, now, day)

    def _by_queue(self, jobs: Iterable[str], growing: Sequence[Grows]) -> dict[str, frozenset[str]]:
        """Waiting or growing jobs among these, by queue."""
        leaf = self.sharing.queues.leaf
        grow = {request.job.id: leaf(request.job.queue) for _, _, request in growing}
        found: dict[str, set[str]] = {}
        for job_id in jobs:
            place = self._places.get(job_id)
            queue = place[0][1] if place is not None else grow.get(job_id)
            if queue is not None:
                found.setdefault(queue, set()).add(job_id)
        return {queue: frozenset(ids) for queue, ids in found.items()}

    def _look(self, now: float) -> None:
        """Move jobs that can no longer meet their deadline behind those that can."""
        while self._late and self._late[0][0] < now:
            _, number, job_id = heappop(self._late)
            if job_id in self._places:
                self.join(self._places[job_id][1].request, number, now)

    def _over(self, standings: Standings, request: PlacementRequest) -> str:
        job, (_, least) = request.job, demand(request)
        over = self.limits.over(standings, job.queue, job.owner, least, more_jobs=int(not request.joins))
        return over.why if over else ""

    # ---- queries -----------------------------------------------------------------------------------

    def over(self, request: PlacementRequest, whole: Resources, now: float, day: str = "") -> str:
        """Which limit keeps a request from being placed, in words; empty when none does."""
        return self._over(self.shares.standings(whole, now, day), request)

    def kept_back(self, whole: Resources, now: float, day: str = "") -> dict[str, str]:
        """Limits that block the oldest jobs of each queue, in words, by job id."""
        ages, _ = self._ages.hand_out()
        standings = self.shares.standings(whole, now, day)
        found = {}
        for queue, users in ages.get((), {}).items():
            for entry in islice(users[""], _TOLD) if self.limits.bounded(queue) else ():
                if why := self._over(standings, entry.request):
                    found[entry.request.job.id] = why
        return found

    def place_of(
        self, job_id: str, whole: Resources, now: float, day: str = "", most: int = 1000
    ) -> int | None:
        """How many jobs are to be placed before this one, as things are.

        None when it does not wait, when a limit keeps it back, and when it is behind more than `most`.
        """
        if job_id not in self._places:
            return None
        scene, standings = self._scene(whole, now, day)
        ids = (request.job.id for request in islice(order_of(scene, standings), most + 1))
        return next((number for number, other in enumerate(ids) if other == job_id), None)

    def why_waits(self, job_id: str, whole: Resources, now: float, day: str = "", most: int = 1000) -> str:
        """Why a job that waits is not the first, in words; empty for the first, and for others."""
        if job_id not in self._places:
            return ""
        _, entry, _ = self._places[job_id]
        standings = self.shares.standings(whole, now, day)
        if why := self._over(standings, entry.request):
            return f"{why}; jobs behind it do not wait for it"
        place = self.place_of(job_id, whole, now, day, most)
        if place == 0:
            return ""
        jobs = f"more than {counted(most, 'job')}" if place is None else counted(place, "job")
        reasons = [*self._why_behind(entry.request.job, standings), *self.why_late(job_id, now)]
        return f"is behind {jobs} (order: {', '.join(self.sharing.order)})" + "".join(
            f"{': ' if number == 0 else '; '}{reason}" for number, reason in enumerate(reasons)
        )

    def _why_behind(self, job: Job, standings: Standings) -> Iterator[str]:
        queues = self.sharing.queues
        if "fair" not in self.sharing.order or not queues:
            return
        waiting = {queue for _, queue, _ in (place[0] for place in self._places.values())}
        active = (set(standings.uses) | waiting) - {ALL_QUEUES}
        for queue in queues.line(job.queue):
            beside = [other for other in active if other.rpartition(".")[0] == queue.above]
            times = standings.times_its_share(queue.path, beside)
            if times is not None and times >= _NOTICEABLE:
                yield f"queue {queue.path} has had {times:.1f} times its share by weight"
                return

    def why_late(self, job_id: str, now: float) -> Iterator[str]:
        """Message that a job cannot meet its deadline, by its expected duration; nothing where it can."""
        found = self._places.get(job_id)
        job = found[1].request.job if found else None
        if job is not None and job.deadline is not None and latest_start(job) < now:
            takes = (
                ""
                if job.expected_duration is None
                else f" and is expected to take {job.expected_duration:.0f} s"
            )
            yield f"its deadline cannot be met: it is due at {clock(job.deadline)}{takes}"
