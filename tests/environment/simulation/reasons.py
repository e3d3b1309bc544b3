"""Reasons why jobs waited in a run, found again from held resources and times, without the order's findings.

`unexplained` checks every moment at which a policy was asked and placed nothing more.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from environment.policy import Policy
from environment.queues.types import Most, Queue, Sharing
from environment.simulation.results.results import Result
from environment.types import Decision, Job, Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView
from profiles.workloads.workload import WorkloadJob

#: What policies say of the room there is for the head of the queue.
_ROOM = re.compile(r"room for (\d+) of (\d+) executors?")
#: And, in `easy`, of those who would delay it.
_DELAY = re.compile(r"(\d+) jobs? behind it that fit would delay it")
USERS = ("ann", "bob", "cleo")


@dataclass
class Moment:
    """The queue shown to a policy, and its decision."""

    at: float
    shown: tuple[PlacementRequest, ...]
    decision: Decision


@dataclass
class Watched:
    """A policy that records its every decision."""

    policy: Policy
    moments: list[Moment] = field(default_factory=list)

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Return the policy's decision."""
        decision = self.policy.decide(view, queue)
        self.moments.append(Moment(view.at, tuple(queue), decision))
        return decision


@dataclass
class Reasons:
    """The reasons of a run: `found` counts them by kind."""

    jobs: Sequence[WorkloadJob]
    vms: Sequence[Vm]
    sharing: Sharing
    result: Result
    #: Whether a job may be placed though the head of the queue is not, and whether one that fits may wait.
    overtakes: bool
    patient: bool
    found: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._of = {job.name: job for job in self.jobs}
        self._ran = {job.name: job for job in self.result.jobs}
        self._names = [job.name for job in self.result.jobs]
        self._overtaken: Counter[str] = Counter()
        #: By the time, users of which a job lacked only what others of their own held.
        self._held_up: dict[float, set[str]] = {}

    def unexplained(self, moments: Sequence[Moment]) -> Iterator[str]:
        """Jobs that waited at some moment without a reason, or for an untrue one."""
        last = {moment.at: number for number, moment in enumerate(moments)}
        first: Moment | None = None
        for number, moment in enumerate(moments):
            if first is None or first.at != moment.at:
                first = moment
            if isinstance(moment.decision, Wait):
                self._note_own(moment)
                if last[moment.at] == number:
                    yield from (f"{moment.at:g} s: {why}" for why in self._of_moment(moment, moment.decision))
            else:
                self._count(first.shown[0].job, moment, moment.decision)
                first = None
        # Where the last was placed, and where nobody was asked, nobody was left whom a policy may place.
        asked = {at for at, number in last.items() if isinstance(moments[number].decision, Wait)}
        ends = {job.ended_at for job in self.result.jobs}
        for at in sorted((last.keys() | ends | {job.submitted_at for job in self.jobs}) - asked):
            yield from (f"{at:g} s: {why}" for why in self._of_hidden(Moment(at, (), Wait(""))))

    def _note_own(self, moment: Moment) -> None:
        head = moment.shown[0]
        alone, own = self._room(head, moment.at, ()), self._room(head, moment.at, (head.job.owner,))
        if own < head.fewest <= alone:
            self._held_up.setdefault(moment.at, set()).add(head.job.owner)

    def _count(self, head: Job, moment: Moment, place: Place) -> None:
        """The head of the whole queue is overtaken, also where it has to wait for its own user's jobs."""
        placed = next(request.job for request in moment.shown if request.job.id == place.job_id)
        if (placed.queue, placed.owner) != (head.queue, head.owner):
            self._overtaken[head.id] += 1
        self._overtaken.pop(placed.id, None)

    def _of_moment(self, moment: Moment, wait: Wait) -> Iterator[str]:
        yield from self._of_shown(moment, wait)
        yield from self._of_hidden(moment)

    def _of_hidden(self, moment: Moment) -> Iterator[str]:
        """Waiting jobs that are not shown, though nothing is in their way."""
        shown = {request.job.id for request in moment.shown}
        for job in self._waiting(moment.at):
            if job.name not in shown:
                why = self._why_not_shown(job, moment)
                self.found[why] += 1
                if not why:
                    yield f"{job.name} is shown to nobody, and nothing is in its way"

    # ---- who is shown, and is not placed -----------------------------------------------------------

    def _of_shown(self, moment: Moment, wait: Wait) -> Iterator[str]:
        """The head waits for room, of which there is as much as is said; others for it, if they may."""
        rooms = {request.job.id: self._room(request, moment.at) for request in moment.shown}
        head = moment.shown[0]
        said = _ROOM.search(wait.reason)
        if said is None or (int(said[1]), int(said[2])) != (rooms[head.job.id], head.count):
            room = f"{rooms[head.job.id]} of {head.count}"
            yield f"{head.job.id} has room for {room}, and is told {wait.reason!r}"
        fit = [request.job.id for request in moment.shown if rooms[request.job.id] >= request.fewest]
        self.found["no room"] += len(moment.shown) - len(fit)
        if head.job.id in fit and not self.patient:
            yield f"{head.job.id} fits, and is told {wait.reason!r}"
        delaying = _DELAY.search(wait.reason)
        behind = len([job_id for job_id in fit if job_id != head.job.id])
        if delaying is not None:
            self.found["would delay the head"] += behind
            if int(delaying[1]) != behind:
                yield f"{behind} fit behind {head.job.id}, and it is said {wait.reason!r}"
        elif self.patient and behind:
            self.found["patience"] += behind
            if "expected to have room" not in wait.reason:
                yield f"{fit} fit, and nothing is said of patience: {wait.reason!r}"
        elif self.overtakes and behind:
            yield f"{fit} fit and may overtake {head.job.id}"
        else:
            self.found["behind the head"] += behind

    def _room(self, request: PlacementRequest, at: float, beside: Sequence[str] = USERS) -> int:
        """Number of executors with room beside what those users hold; at most the request's count."""
        held, room = self.result.held, 0
        of = [self._of[self._names[job]].owner in beside for job in held.job.tolist()]
        now = (held.start <= at) & (at < held.end) & np.array(of, np.bool_)
        for number, vm in enumerate(self.vms):
            kinds = [held.kinds[kind] for kind in held.kind[now & (held.vm == number)].tolist()]
            each = request.size.thousandths
            room += min(
                (vm.resources.get(name) - sum(kind.get(name) for kind in kinds)) // amount
                for name, amount in each.items()
            )
        return min(room, request.count)

    # ---- who is not shown --------------------------------------------------------------------------

    def _waiting(self, at: float) -> list[WorkloadJob]:
        return [
            job
            for job in self.jobs
            if job.submitted_at <= at
            and job.name not in self.result.refused
            and (job.name not in self._ran or self._ran[job.name].started_at > at)
        ]

    def _why_not_shown(self, job: WorkloadJob, moment: Moment) -> str:
        """The true obstacle; empty when there is none."""
        if self._limits(job, moment.at):
            return "a limit"
        if job.owner in self._held_up.get(moment.at, ()):
            return "behind a job that lacks what its own user holds"
        head, sharing = moment.shown[0].job if moment.shown else None, self.sharing
        most = sharing.overtaken_by_others
        hidden = head is not None and most is not None and self._overtaken[head.id] >= most
        if hidden and head is not None and (job.queue, job.owner) != (head.queue, head.owner):
            return "the head was overtaken as often as may be"
        waiting = self._waiting(moment.at)
        # Those of others who are not shown, as the head was overtaken so often, are part of the window.
        may = [
            other for other in waiting if hidden and other is not job and not self._limits(other, moment.at)
        ]
        if max(len(moment.shown), len(may)) >= sharing.window:
            return "outside the window"
        mine = self._scopes(job)
        for other in waiting:
            if other.submitted_at <= moment.at - sharing.starves_after and other is not job:
                reached = {scope for scope, _ in self._limits(other, moment.at)}
                if reached & mine and self._ever(other):
                    return "a limit, for one who starves"
        line = [other for other in waiting if other.queue == job.queue and other is not job]
        if "fair" in sharing.order:
            line = [other for other in line if other.owner == job.owner]
        if sum(bool(self._limits(other, moment.at)) for other in line) > sharing.window:
            return "behind more than the window of whom limits are in the way"
        return ""

    def _least(self, job: WorkloadJob) -> float:
        return job.cpus * (job.min_executors or job.executors)

    def _line(self, path: str) -> list[Queue]:
        return [queue for queue in self.sharing.queues if f"{path}.".startswith(f"{queue.path}.")]

    def _scopes(self, job: WorkloadJob) -> set[tuple[str, str | None]]:
        return {(queue.path, user) for queue in self._line(job.queue) for user in (None, job.owner)}

    def _bounds(self, job: WorkloadJob) -> Iterator[tuple[tuple[str, str | None], Most]]:
        for queue in self._line(job.queue):
            yield (queue.path, None), queue.most
            yield (queue.path, job.owner), queue.most_per_user

    def _ever(self, job: WorkloadJob) -> bool:
        return all(self._least(job) <= most.resources.get("cpus", 1e9) for _, most in self._bounds(job))

    def _limits(self, job: WorkloadJob, at: float) -> list[tuple[tuple[str, str | None], str]]:
        """Limits that a job would cross, by the resources held at that time."""
        held = self.result.held
        now = np.flatnonzero((held.start <= at) & (at < held.end))
        cpus = [
            (self._of[self._names[of]], held.kinds[kind].amount("cpus"))
            for of, kind in zip(held.job[now].tolist(), held.kind[now].tolist(), strict=True)
        ]
        running = [self._of[each.name] for each in self.result.jobs if each.started_at <= at < each.ended_at]
        found = []
        for scope, most in self._bounds(job):
            has = sum(amount for other, amount in cpus if scope in self._scopes(other))
            if has + self._least(job) > most.resources.get("cpus", 1e9):
                found.append((scope, f"{has} cpus"))
            run = sum(scope in self._scopes(other) for other in running)
            if most.running is not None and run >= most.running:
                found.append((scope, f"{run} jobs run"))
        return found
