"""Settings of queues and of the order of jobs, as frozen values that everything else here is a function of.

`conf.schema.sharing` defines them in config. `ordering` finds the next job by them, `limits` those over a
limit; both know a job by its queue (a path), its owner (the user), its priority and its deadline.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from conf.defaults import DEFAULT_QUEUE
from conf.schema.fields import SpotUse
from conf.schema.sharing import Amounts, Bounds, Cause, Criterion, QueueSpec, SharingSpec, paths, stricter
from environment.resources import NOTHING, Resources


@dataclass(frozen=True, slots=True)
class Most:
    """The most that a queue, or one of its users, may have; unlimited where None or not named.

    `resources` are held at once, by Mesos' names (cpus, mem in MiB, gpus); dollars per hour are the cost of
    all of those, per day and month (UTC) the charges. `running` are jobs that hold anything, `waiting` those
    that wait.
    """

    resources: Mapping[str, float] = field(default_factory=dict)
    dollars_per_hour: float | None = None
    dollars_per_day: float | None = None
    dollars_per_month: float | None = None
    running: int | None = None
    waiting: int | None = None

    def __bool__(self) -> bool:
        """Whether it bounds running jobs; `waiting` is checked where jobs are accepted."""
        bounds = (self.dollars_per_hour, self.dollars_per_day, self.dollars_per_month, self.running)
        return bool(self.resources) or any(bound is not None for bound in bounds)

    @property
    def by_time(self) -> bool:
        """Whether it bounds the charges of a day or a month."""
        return self.dollars_per_day is not None or self.dollars_per_month is not None


#: No bound at all.
ANY = Most()

#: Chosen: with one, shares stay within some percent of weights and hardly anything is idle (see
#: docs/results/sharing.md); with none, more is idle, and with four shares are up to a third off.
_BY_OTHERS = 1


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue by its path, such as prod.etl; see `conf.schema.sharing.QueueSpec`.

    `priority`, `protected`, `spot` and `submit` (None: everybody) are effective values: its own, or that of
    the nearest queue above it that sets one; `spot` the strictest of all of them.
    """

    path: str
    weight: float = 1.0
    guaranteed: Resources = NOTHING
    most: Most = ANY
    most_per_user: Most = ANY
    submit: tuple[str, ...] | None = None
    priority: int = 0
    spot: SpotUse = "allowed"
    protected: bool = False
    user_weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def above(self) -> str:
        """The path of the queue above it; empty at the top."""
        return self.path.rpartition(".")[0]

    def weight_of(self, user: str) -> float:
        """The share of a user beside those of others."""
        return self.user_weights.get(user, 1.0)


@dataclass(frozen=True)
class Queues:
    """All queues, those above before those below them; if empty, every queue that a job names exists.

    A queue that is not among them has a weight of 1 and no bounds, and is its own at the top: so jobs that
    were accepted before it went are placed all the same.
    """

    all: tuple[Queue, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.all)

    def __iter__(self) -> Iterator[Queue]:
        return iter(self.all)

    def __contains__(self, path: str) -> bool:
        return path in self._by_path

    @cached_property
    def _by_path(self) -> Mapping[str, Queue]:
        return {queue.path: queue for queue in self.all}

    @cached_property
    def _lines(self) -> dict[str, tuple[Queue, ...]]:
        """Cache of `line`, which is called for every job."""
        return {}

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """The paths of those that take jobs."""
        above = {queue.above for queue in self.all}
        return tuple(queue.path for queue in self.all if queue.path not in above)

    @cached_property
    def digest(self) -> str:
        """A short text that is another one when anything of them is."""
        return hashlib.sha256(repr(self.all).encode()).hexdigest()[:16]

    def get(self, path: str) -> Queue | None:
        """The queue of that path; None when it is not among them."""
        return self._by_path.get(path)

    def line(self, path: str) -> tuple[Queue, ...]:
        """The queue of that path, and those above it in front of it, the top first.

        Where there are no queues, a name has no effect: all jobs are in one.
        """
        known = self._lines.get(path)
        if known is None:
            found = self._by_path.get(path)
            if found is None:
                return (Queue(path),) if self.all else _ONE
            above = self.line(found.above) if found.above else ()
            known = self._lines[path] = (*above, found)
        return known

    def leaf(self, path: str) -> str:
        """Path of the queue in which jobs with that one stand."""
        return self.line(path)[-1].path

    def below(self, path: str) -> tuple[Queue, ...]:
        """The queues right below that one; those at the top for an empty path."""
        return tuple(queue for queue in self.all if queue.above == path)


#: The queue of all jobs where there are none.
_ONE = (Queue(DEFAULT_QUEUE),)


@dataclass(frozen=True, slots=True)
class Preemption:
    """Whether one job may take executors from another; see `conf.schema.sharing.PreemptionSpec`. Seconds."""

    by: tuple[Cause, ...] = ()
    young: float = 600.0
    nearly_done: float = 0.8
    pause: float = 60.0


@dataclass(frozen=True, slots=True)
class Sharing:
    """Rules for sharing a cluster; see `conf.schema.sharing.SharingSpec`. Seconds.

    Where there is none (None), jobs are placed as they come, regardless of their queues.
    """

    order: tuple[Criterion, ...] = ("fifo",)
    half_life: float = 3600.0
    starves_after: float = 12 * 3600.0
    window: int = 256
    overtaken_at_most: int | None = None
    preemption: Preemption = field(default_factory=Preemption)
    queues: Queues = field(default_factory=Queues)
    #: Limits of each user over all queues.
    most_per_user: Most = ANY

    @property
    def overtaken_by_others(self) -> int | None:
        """Number of jobs of others that may go before the first; None: as many as the policy allows.

        A policy that looks for the best fit among many jobs would give a user of small ones twice its
        share, and a user of large ones half of it: so where the order is `fair`, one of them may.
        """
        if self.overtaken_at_most is None and "fair" in self.order:
            return _BY_OTHERS
        return self.overtaken_at_most

    def priority_of(self, asked: int | None, queue: str) -> int:
        """The priority of a job that asks for this one, or for none, in that queue."""
        return self.queues.line(queue)[-1].priority if asked is None else asked


def sharing_of(spec: SharingSpec | None, queues: Mapping[str, QueueSpec]) -> Sharing | None:
    """Sharing defined by the two sections of a config; None where neither is there."""
    if spec is None and not queues:
        return None
    spec = spec or SharingSpec()
    preemption = spec.preemption
    return Sharing(
        spec.order,
        spec.half_life,
        spec.starves_after,
        spec.window,
        spec.overtaken_at_most,
        Preemption(preemption.by, preemption.young, preemption.nearly_done, preemption.pause),
        queues_of(queues),
        _most(spec.most_per_user) or ANY,
    )


def queues_of(specs: Mapping[str, QueueSpec]) -> Queues:
    """The tree that a config describes; `default` is there in any, unless there is none at all."""
    if not specs:
        return Queues()
    found: dict[str, Queue] = {}
    for path, spec in paths({DEFAULT_QUEUE: QueueSpec()} | dict(specs)):
        above = found.get(path.rpartition(".")[0], Queue(""))
        found[path] = Queue(
            path,
            spec.weight,
            _resources(spec.guaranteed),
            _most(spec.most),
            _most(spec.most_per_user),
            above.submit if spec.submit is None else spec.submit,
            above.priority if spec.priority is None else spec.priority,
            above.spot if spec.spot is None else stricter(above.spot, spec.spot) or spec.spot,
            above.protected if spec.protected is None else spec.protected,
            dict(spec.user_weights),
        )
    return Queues(tuple(found.values()))


def _resources(amounts: Amounts) -> Resources:
    return Resources.named(amounts.by_name)


def _most(bounds: Bounds) -> Most:
    return Most(
        bounds.by_name,
        bounds.dollars_per_hour,
        bounds.dollars_per_day,
        bounds.dollars_per_month,
        bounds.running,
        bounds.waiting,
    )
