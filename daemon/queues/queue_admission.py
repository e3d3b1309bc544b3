"""Admission checks of a job's queue: it accepts jobs, the user is allowed, the job could run, there is room.

One user's waiting jobs leave room for those of others.

The cluster model decides the order within queues, and the limits that jobs wait for.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from threading import Lock

from conf.schema import JobSpec, SpotUse, stricter
from conf.util.counted import counted
from daemon.core.errors import RejectedError
from daemon.queues import tree
from daemon.queues.waiting_counts import weight
from daemon.store.queries.insert_jobs import SubmittedSpec
from environment.queues.job_limits import PER_USER, bounds_of
from environment.queues.shares import ALL_QUEUES
from environment.queues.types import Queues
from environment.types import Job

#: How many jobs wait in a queue, by its path, and of which user; None: of all.
Waiting = Callable[[str, str | None], int]
#: After how many seconds a submission to a full queue may be tried again.
PAUSE = "30"
#: Levels of a queue's name where there are no queues, so that any name is taken: jobs are counted at each.
_DEEPEST = 10


def check(queues: Queues, spec: JobSpec) -> None:
    """Raise RejectedError when the job's queue accepts no such job on any cluster."""
    if not queues:
        if (levels := spec.queue.count(".") + 1) > _DEEPEST:
            detail = (
                f"queue: a queue is at most {_DEEPEST} levels deep, with dots between them, found {levels}"
            )
            raise RejectedError(422, "No such queue", detail)
        return
    queue = queues.get(spec.queue)
    if queue is None or spec.queue not in queues.leaves:
        raise _no_leaf(queues, spec.queue)
    if queue.submit is not None and spec.owner not in queue.submit:
        refused = (
            f"{spec.owner} may not submit" if spec.owner else "a job without an owner may not be submitted"
        )
        may = ", ".join(queue.submit) or "nobody"
        raise RejectedError(403, "Not your queue", f"{refused} to {queue.path}; {may} may")
    if stricter(queue.spot, spec.spot) is None:
        detail = f"spot: {spec.spot} cannot be in {queue.path}, whose jobs have spot: {queue.spot}"
        raise RejectedError(422, "The job does not fit its queue", detail)


def check_priority(queues: Queues, spec: JobSpec) -> None:
    """Raise RejectedError when a job asks for a higher priority than its queue gives."""
    most = queues.line(spec.queue)[-1].priority
    if spec.priority is not None and spec.priority > most:
        allowed = f"priority: {spec.priority}: jobs of queue {spec.queue} have {most} at most"
        who = "an operator may submit one with more, an admin raise the queue's"
        raise RejectedError(403, "Not your priority", f"{allowed}; {who}")


def spot_of(queues: Queues, spec: JobSpec) -> SpotUse:
    """Permitted VMs of a job: its own setting, or its queue's where that is stricter."""
    if not queues:
        return spec.spot
    return stricter(queues.line(spec.queue)[-1].spot, spec.spot) or spec.spot


def priority_of(queues: Queues, spec: JobSpec) -> int:
    """Priority of a job: its own, or else its queue's."""
    return queues.line(spec.queue)[-1].priority if spec.priority is None else spec.priority


class QueueAdmission:
    """Admits jobs to queues with a limit on waiting jobs. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: Waiting = lambda *_: 0
        #: Admitted jobs that do not wait yet, by queue and user as in `Waiting`.
        self._coming: Counter[tuple[str, str | None]] = Counter()

    def note(self, waiting: Waiting) -> None:
        """Set the counter of waiting jobs."""
        self._waiting = waiting

    def enter(self, queues: Queues, spec: JobSpec) -> RejectedError | None:
        """Admit a job; return the reason when it is rejected."""
        if not queues:
            return None
        number = spec.count or 1
        with self._lock:
            if (full := self._full(queues, spec, number)) is not None:
                return full
            self._coming.update(dict.fromkeys(_places(spec.queue, spec.owner), number))
        return None

    def full(self, queues: Queues, spec: JobSpec) -> RejectedError | None:
        """Rejection that a job would get now; None when it would be admitted."""
        with self._lock:
            return self._full(queues, spec, spec.count or 1) if queues else None

    def _full(self, queues: Queues, spec: JobSpec, number: int) -> RejectedError | None:
        for queue in reversed(queues.line(spec.queue)):
            for most, whose, key in bounds_of(queue):
                bound, user = most.waiting, spec.owner if key == PER_USER else None
                if bound is None:
                    continue
                if self._waiting(queue.path, user) + self._coming[queue.path, user] + number > bound:
                    has = "as many" if number == 1 else f"no room for {number} more"
                    detail = (
                        f"{whose} may have {counted(bound, 'job')} waiting ({key}.waiting), and has {has}"
                    )
                    return RejectedError(429, "The queue is full", detail, {"Retry-After": PAUSE})
        return None

    def leave(self, path: str, user: str, number: int = 1) -> None:
        """Discount admitted jobs that are now counted as waiting, or were never submitted."""
        with self._lock:
            for place in _places(path, user):
                self._coming[place] -= number
                if self._coming[place] <= 0:
                    del self._coming[place]


class WaitingShares:
    """Jobs of users that wait, out of `most` at once. Every method may be called from any thread.

    A user has at most half of the room that others leave. Operators have all of it, and so has everybody
    where there are no users, as each job there may name any owner. Numbers are weights of jobs.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._waiting: Waiting = lambda *_: 0
        #: Accepted jobs that are not counted as waiting yet, by owner.
        self._coming: Counter[str] = Counter()

    def note(self, waiting: Waiting) -> None:
        """Set the counter of waiting jobs."""
        self._waiting = waiting

    def enter(self, submitted: SubmittedSpec) -> RejectedError | None:
        """Admit a job, or all of an array; return the reason when it is rejected."""
        with self._lock:
            if (full := self._full(submitted)) is None:
                self._coming[submitted.spec.owner] += _weight(submitted.spec)
            return full

    def full(self, submitted: SubmittedSpec) -> RejectedError | None:
        """Rejection that a job would get now; None when it would be admitted."""
        with self._lock:
            return self._full(submitted)

    def store(self, spec: JobSpec, jobs: Sequence[Job]) -> None:
        """Count the jobs that an admitted one became: by now it is known how many they come after."""
        with self._lock:
            self._coming[spec.owner] += sum(map(weight, jobs)) - _weight(spec)

    def arrive(self, job: Job) -> None:
        """Discount a job that is now counted as waiting."""
        self._discount(job.owner, weight(job))

    def leave(self, spec: JobSpec) -> None:
        """Discount an admitted job that was not stored."""
        self._discount(spec.owner, _weight(spec))

    def _discount(self, owner: str, number: int) -> None:
        with self._lock:
            self._coming[owner] -= number
            if self._coming[owner] <= 0:
                del self._coming[owner]

    def _full(self, submitted: SubmittedSpec) -> RejectedError | None:
        if not submitted.submitter.name or submitted.submitter.raises:
            return None
        owner = submitted.spec.owner
        own = self._waiting(ALL_QUEUES, owner) + self._coming[owner]
        others = max(0, self._waiting(ALL_QUEUES, None) + self._coming.total() - own)
        bound = max(1, (self._most - others) // 2)
        if own + _weight(submitted.spec) <= bound:
            return None
        room = "no more" if own >= bound else f"room for {bound - own} more"
        detail = (
            f"{owner} has {counted(own, 'job')} waiting, and {room}: one user may have half of what others "
            f"leave of {self._most} (max_queued_jobs), and a job counts once more for every ten jobs that "
            "it comes after"
        )
        return RejectedError(429, "The queue is full", detail, {"Retry-After": PAUSE})


def _weight(spec: JobSpec) -> int:
    return (spec.count or 1) * weight(spec)


def _places(path: str, user: str) -> list[tuple[str, str | None]]:
    return [(each, of) for each in (path, *tree.above(path)) for of in (None, user)]


def _no_leaf(queues: Queues, path: str) -> RejectedError:
    below = [queue.path for queue in queues.below(path)] if path in queues else []
    if below:
        inside = [leaf for leaf in queues.leaves if leaf.startswith(f"{path}.")]
        detail = f"queue {path} accepts no jobs itself, those below it do: {tree.named(inside, path)}"
    else:
        detail = f"there is no queue {path}; jobs can be in {tree.named(list(queues.leaves), path)}"
    return RejectedError(422, "No such queue", detail)
