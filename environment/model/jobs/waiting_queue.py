"""Jobs that wait for a placement, in order, and those set aside as they could not run now even alone.

`waiting_reasons.py` explains why jobs wait; `model/vms/offer_demand.py` requests offers for them;
`model/vms/max_capacity.py` finds requests that no free cluster could fulfil now; `scale_up.py` defines how
many executors running jobs ask for, and when it is their turn; `ordering.py` defines the order of jobs of
many queues and users.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import merge
from itertools import islice

from environment.model.jobs.backoff import LaunchBackoff
from environment.model.jobs.jvm_limit import JvmRoom
from environment.model.jobs.ordering import OrderStage
from environment.model.jobs.scale_up import ScaleUp, runs_on, some_of
from environment.model.jobs.waiting_reasons import ASIDE, BACK, MORE, WaitingReasons
from environment.model.messages.events import Waiting
from environment.model.messages.records import JobRecord
from environment.model.messages.snapshot import Growth
from environment.model.vms.job_registry import JobRegistry
from environment.model.vms.max_capacity import Alike, MaxCapacity
from environment.model.vms.reservations import Reservations
from environment.queues.ordered_queue import OrderedQueue
from environment.queues.types import Sharing
from environment.types import Job, PlacementRequest, Vm


class WaitingLine:
    """New jobs, first come first served, jobs with lost executors to place again, and jobs that grow.

    Some of them wait aside: they could not run now even if nothing else did, as their VMs are not there or
    a quota is too small. They keep their places, are not placed, and block no other job.

    Invariants: a job is in one of the three at most; new jobs stand in the order of their submission; after
    `look`, exactly the jobs that the capacity reachable then rules out are aside.
    """

    def __init__(
        self,
        roster: JobRegistry,
        setbacks: LaunchBackoff,
        room: JvmRoom,
        reservations: Reservations,
        stage: OrderStage,
        *,
        grows_by_itself: bool = True,
    ) -> None:
        self._roster = roster
        self._room = room
        self._beyond_room = ""
        self._setbacks = setbacks
        self._reservations = reservations
        self._stage = stage
        self._queue: dict[str, PlacementRequest] = {}
        self._alike = Alike()
        #: Jobs that lost executors, and when these may be placed again.
        self._relaunch_at: dict[str, float] = {}
        self._growing = ScaleUp(roster, by_itself=grows_by_itself)
        #: Of jobs that grow, the resource profiles of which they could not have an executor even alone.
        self._stuck: dict[str, frozenset[int]] = {}
        #: Reasons of the waiting jobs.
        self.reasons = WaitingReasons(roster, self._growing)
        #: Jobs that wait aside, and whether for a quota alone, so that no new VM would help.
        self._aside: dict[str, bool] = {}
        #: The capacity by which jobs were last set aside; and jobs changed since then, which are not checked
        #: yet.
        self._reach: MaxCapacity | None = None
        self._unseen: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._queue) + len(self._relaunch_at) + len(self._growing)

    def __contains__(self, job: JobRecord) -> bool:
        return any(job.job.id in waiting for waiting in (self._queue, self._relaunch_at, self._growing))

    def state(self) -> tuple[tuple[tuple[str, float], ...], str | None, tuple[Growth, ...]]:
        """Relaunch times by job id, the job that a policy told to wait, and the growing jobs."""
        return tuple(self._relaunch_at.items()), self.reasons.told, self._growing.state()

    def resume(
        self, relaunch_at: Iterable[tuple[str, float]], told: str | None, growing: Iterable[Growth]
    ) -> None:
        """Restore the state."""
        self._relaunch_at, self.reasons.told = dict(relaunch_at), told
        self._growing.resume(growing)
        self._reach = None

    def join(self, job: JobRecord) -> None:
        """A new job waits behind all others."""
        count = job.job.begins_with
        self._queue[job.job.id] = PlacementRequest(
            job.job, count, first_number=job.next_executor, released_at=job.released_at
        )
        self._unseen[job.job.id] = None
        self._alike.add(self._queue[job.job.id])
        self._stage.join(self._queue[job.job.id])
        if why := self._stage.late(job.job):
            self.reasons.say(job, why)

    def share(self, sharing: Sharing | None) -> None:
        """Place jobs in the order of `sharing` from now on, or as they come."""
        self._stage.share(sharing, [r for i, r in self._queue.items() if i not in self._aside])
        self._reach = None  # limits may be others

    def rejoin(self, job: JobRecord) -> None:
        """Queue a job at its original place after it was held or its launch was undone."""
        self.join(job)
        in_order = (other.job.id for other in self._roster.by_entry())
        self._queue = {job_id: self._queue[job_id] for job_id in in_order if job_id in self._queue}

    def too_dear(self, job: JobRecord) -> None:
        """VMs of a job would cost too much together: it avoids some, and waits aside if it needs them."""
        self._setbacks.too_dear(job.job.id)
        self._unseen[job.job.id] = None

    def relaunch(self, job: JobRecord, due: float) -> None:
        """The job's lost executors wait from then on, or from an earlier time that was set before.

        A job that gets no more goes on without them.
        """
        if job.bounded:
            return
        self._reservations.release(job.job.id)  # which was for fewer
        self._growing.leave(job.job.id)
        self._relaunch_at.setdefault(job.job.id, due)
        self._unseen[job.job.id] = None

    def grow(self, job: JobRecord, now: float, due: float = 0.0) -> bool:
        """Check whether a running job has fewer executors than it wants; it waits for more from `due` on."""
        job_id = job.job.id
        if job_id in self._queue or job_id in self._relaunch_at:
            return False
        if (kept := self._reservations.of(job_id)) is not None:
            if job.job.dynamic is not None and self._roster.stands(job):  # its driver may want fewer by now
                self._reservations.shrink(job_id, self._growing.missing(job, kept.profile))
            if job_id in self._reservations:
                return False
        grew, grows = job_id in self._growing, self._growing.update(job, now, due)
        if grows:
            self._unseen[job_id] = None
            if not grew and job.state == "running" and job.job.dynamic is not None:
                self._roster.explain(job, MORE)
            return True
        self._aside.pop(job_id, None)
        if job.reason.startswith(MORE):
            self._roster.explain(job, runs_on(job, self._roster))
        return False

    def leave(self, job: JobRecord) -> bool:
        """The job waits no more, nor for VMs that boot; returns whether it did."""
        self._aside.pop(job.job.id, None)
        kept = self._reservations.release(job.job.id) is not None
        grew = self._growing.leave(job.job.id)
        queued = self._queue.pop(job.job.id, None) is not None
        self._alike.drop(job.job.id)
        self._stage.leave(job.job.id)
        return queued or self._relaunch_at.pop(job.job.id, None) is not None or grew or kept

    def waits_for_vms(self, job: JobRecord) -> bool:
        """Whether something is kept for the job until others of its VMs have booted."""
        return job.job.id in self._reservations

    def is_new(self, job: JobRecord) -> bool:
        """Whether the job as a whole waits, and not only lost executors of it."""
        return job.job.id in self._queue

    def due(self, now: float) -> bool:
        """Whether a job may be placed at that time."""
        if self._stage:
            first, growing = self._first(now), self._to_grow(now)
            running = (*first, *(request for _, request in growing))
            return any(not self._stage.over(request) for request in running) or self._stage.anyone()
        if any(at <= now for job_id, at in self._relaunch_at.items() if job_id not in self._aside):
            return True
        growing = self._to_grow(now)
        if self._room.bounded and not any(request.again for _, request in growing):
            return next(self._room.let_in(self._in_turn(now)), None) is not None
        if growing:
            return True
        pauses = self._setbacks.paused().items()
        out = sum(at > now and i in self._queue and i not in self._aside for i, at in pauses)
        # These are few, and those aside may be many.
        run = sum(i in self._aside for waiting in (self._relaunch_at, self._growing) for i in waiting)
        return len(self._queue) > out + len(self._aside) - run

    def requests(self, now: float, *, gated: bool = True) -> Sequence[PlacementRequest]:
        """Requests that may be placed now, in order; lost executors come before new jobs and growing ones.

        A job that pauses, because its launches never ran, or waits aside is omitted and keeps its place; so
        are, where `gated`, jobs beyond the machine's JVM limit.
        """
        if self._stage:
            return self._turns(now, gated=gated)
        new = self._in_turn(now)
        new = self._room.let_in(new) if gated and self._room.bounded else new
        waiting = (*self._first(now), *new)
        return tuple(map(self._placeable, waiting)) if self._setbacks else waiting

    def _first(self, now: float) -> Iterator[PlacementRequest]:
        """Lost executors, and those that running jobs are short of to have their least."""
        lost = ((i, at) for i, at in self._relaunch_at.items() if i not in self._aside)
        due = (self._roster.job(job_id) for job_id, at in lost if at <= now)
        yield from (self._again(job) for job in due if job is not None)
        yield from (request for _, request in self._to_grow(now) if request.again)

    def _turns(self, now: float, *, gated: bool = True) -> OrderedQueue:
        """The queue of a round, where the stage orders it."""
        growing = [
            (at, self._roster.number(request.job.id), self._placeable(request))
            for at, request in self._to_grow(now)
            if not request.again
        ]
        return self._stage.turns([*map(self._placeable, self._first(now))], growing, gated=gated)

    def anyone(self, now: float) -> bool:
        """Whether a whole job waits that may be placed; faster than finding the first one."""
        return self._stage.anyone() if self._stage else next(self._new(now), None) is not None

    def head(self, now: float) -> str:
        """The first job that waits as a whole, neither pausing nor aside; empty when there is none."""
        if self._stage:
            head = self._stage.turns(gated=False).head
            return "" if head is None else head.job.id
        first = next(self._new(now), None)
        return "" if first is None else first.job.id

    def _new(self, now: float) -> Iterator[PlacementRequest]:
        """The jobs that wait as a whole, neither pausing nor aside, in order."""
        paused, aside = self._setbacks.paused(), self._aside
        return (r for i, r in self._queue.items() if paused.get(i, now) <= now and i not in aside)

    def _in_turn(self, now: float) -> Iterator[PlacementRequest]:
        """The same, and among them by the time at which they asked, jobs that grow."""
        growing = [(at, request) for at, request in self._to_grow(now) if not request.again]
        if not growing:
            return self._new(now)
        new = ((request.entered_at, request) for request in self._new(now))
        return (request for _, request in merge(new, growing, key=lambda waiting: waiting[0]))

    def _to_grow(self, now: float) -> list[tuple[float, PlacementRequest]]:
        """Requests of running jobs that neither pause nor are aside, by the time at which they asked."""
        if not self._growing:
            return []
        paused, aside = self._setbacks.paused(), self._aside
        alone = not self.anyone(now)
        return [
            (asked_at, request)
            for asked_at, job in self._growing.due(now)
            if paused.get(job.job.id, now) <= now and job.job.id not in aside
            if self._growing.is_due(job, now, alone=alone)
            for request in islice(self._to_have(job), 1)
        ]

    def _to_have(self, job: JobRecord) -> Iterator[PlacementRequest]:
        """A request for each profile that a job is short of and may have executors of, the first in front."""
        requests, stuck = self._growing.requests(job), self._stuck.get(job.job.id, frozenset())
        return (request for request in requests if request.profile not in stuck)

    def _placeable(self, request: PlacementRequest) -> PlacementRequest:
        """The request with the VMs that are no place for it."""
        avoided = self._setbacks.avoided(request.job.id)
        return replace(request, avoided=avoided) if avoided else request

    # ---- jobs that could not run now even alone -----------------------------------------------------

    @property
    def aside(self) -> Collection[str]:
        """The jobs that wait as a whole, and aside."""
        return tuple(job_id for job_id in self._aside if job_id in self._queue)

    @property
    def wants_vms(self) -> bool:
        """Whether new or larger VMs may help a job that waits aside."""
        return not all(self._aside.values())

    def look(self, reach: MaxCapacity, *, again: bool = False) -> None:
        """Set aside jobs that could not run now even alone and bring back those that could, with the reason.

        Checks the jobs for which this may have changed, or with `again` all.
        """
        quickly = not (reach.quota or self._setbacks)
        if again or reach != self._reach:
            queued = self._queue if self._reach is None or not quickly else self._out_of(reach)
            self._unseen.update(dict.fromkeys((*queued, *self._relaunch_at, *self._growing)))
            self._reach = reach
        reach = self._reach  # the same as before, with its results
        for job_id in self._unseen:
            job = self._roster.job(job_id)
            if job is None or (quickly and self._stays(job, reach)):
                continue
            if job in self:
                self._look_at(job, reach)
        self._unseen.clear()

    def vms(self) -> tuple[Vm, ...]:
        """The VMs by which jobs were last set aside."""
        return () if self._reach is None else self._reach.vms

    def could_run(self, job: Job) -> bool:
        """Whether a new job could run now if nothing else did, as far as is known."""
        if self._reach is None:
            return False
        request = self._placeable(PlacementRequest(job, job.begins_with))
        why = self._reach.beyond_quota(request) or self._reach.beyond_vms(request)
        return not (why or self._stage.never(request))

    def _out_of(self, reach: MaxCapacity) -> Iterable[str]:
        """Jobs that wait aside, or could not run now: a few of 100,000 waiting ones when a VM comes or goes.

        Valid where there are neither quotas nor setbacks.
        """
        return (*self._aside, *self._alike.of_whom(lambda one: self._bars(one, reach)))

    def _bars(self, request: PlacementRequest, reach: MaxCapacity) -> bool:
        return bool(reach.beyond_vms(request) or self._stage.never(request))

    def _stays(self, job: JobRecord, reach: MaxCapacity) -> bool:
        """Whether a job waits as a whole, not aside, and may, where there are neither quotas nor setbacks.

        True of nearly all.
        """
        request = self._queue.get(job.job.id)
        if request is None or job.job.id in self._aside or job.reason.startswith(ASIDE):
            return False
        return not self._bars(request, reach)

    def _look_at(self, job: JobRecord, reach: MaxCapacity) -> None:
        job_id, quota, why = job.job.id, "", ""
        if job_id in self._growing:
            quota, why = self._look_at_growth(job, reach)
        elif job_id not in self._setbacks.paused():  # who pauses is not placed either, and says why
            request = self._placeable(self._queue.get(job_id) or self._again(job))
            quota, why = self._beyond(job, request, reach)
            if not why and job_id in self._queue:  # no VM that comes helps it either
                quota = why = self._stage.never(request)
        if why:
            if job_id not in self._aside:
                self._stage.leave(job_id)
            self._aside[job_id] = bool(quota)
            why += self._setbacks.why_dear(job_id)
            self.reasons.say(job, f"{ASIDE}: {why}; jobs behind it do not wait for it")
        else:
            if self._aside.pop(job_id, None) is not None and job_id in self._queue:
                self._stage.join(self._queue[job_id])
            if job.reason.startswith((ASIDE, f"{MORE}: {ASIDE}")):
                self.reasons.say(job, BACK)

    def _beyond(self, job: JobRecord, request: PlacementRequest, reach: MaxCapacity) -> tuple[str, str]:
        """Why quotas keep the request from its needs, and why it could not run now even alone."""
        quota = reach.beyond_quota(request, self._roster.open_tasks(job)) if reach.quota else ""
        return quota, quota or reach.beyond_vms(request)

    def _look_at_growth(self, job: JobRecord, reach: MaxCapacity) -> tuple[str, str]:
        """The same of a job that grows, if it is so of all profiles that it is short of; note which."""
        requests = self._growing.requests(job)
        found = {r.profile: self._beyond(job, self._placeable(r), reach) for r in requests}
        self._stuck.pop(job.job.id, None)
        if stuck := frozenset(profile for profile, (_, why) in found.items() if why):
            self._stuck[job.job.id] = stuck
        if len(stuck) < len(found):
            return "", ""
        quotas, whys = zip(*found.values(), strict=True)
        return (some_of([*dict.fromkeys(quotas)]) if all(quotas) else ""), some_of([*dict.fromkeys(whys)])

    def tell(self, waiting: Waiting | None, now: float = 0.0, patience: float = 0.0) -> bool:
        """A policy told this job to wait, or none; one that does not wait any more is not told.

        Returns whether the job has let others go before it: one that grows and was first for that long.
        """
        return self.reasons.tell(waiting, self.__contains__, now, patience)

    def explain_silence(self, why: Callable[[PlacementRequest], str], now: float) -> None:
        """Nothing can be decided for this reason: the first one says so, unless a policy told it another."""
        if (head := next(iter(self.requests(now)), None)) is not None:
            self.reasons.silence(head, why)

    def explain_room(self, now: float) -> None:
        """The first job that there is no room for says so."""
        if not self._room.bounded:
            return
        in_turn = self._turns(now, gated=False) if self._stage else self._in_turn(now)
        waiting = [*in_turn]
        let_in = tuple(self._room.let_in(waiting))
        there = {request.job.id for request in let_in}
        request = next((r for r in waiting if r.job.id not in there), None)
        self._beyond_room = "" if request is None else request.job.id
        if request is not None:
            self.reasons.no_room(request, self._room.why_not(request, let_in))

    @property
    def beyond_room(self) -> str:
        """The first job for which the machine under an embedded cluster had no room; empty: there is none."""
        return self._beyond_room if self._beyond_room in self._queue else ""

    def explain_limits(self) -> None:
        """Jobs that a limit of their queue keeps back say so, and that it does not any more."""
        self.reasons.limits(self._stage.kept_back(), lambda i: i in self._queue and i not in self._aside)

    def _again(self, job: JobRecord) -> PlacementRequest:
        present = tuple(task.vm_id for task in self._roster.executors(job))
        sizes = self._roster.lost_sizes(job)
        alike = set(sizes) == {job.job.size}
        return PlacementRequest(job.job, len(sizes), present, True, job.next_executor, () if alike else sizes)
