"""Sharing of one cluster by many users, as config has it: a tree of queues, and the order among them.

`environment.queues.types` defines their meaning, and the types that the rest of Stoker uses.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from stoker.characters import LONGEST_NAME

from conf.defaults import DEFAULT_QUEUE
from conf.schema.fields import Memory, Name, Priority, SpotUse, Strict, Time, like

#: By what jobs are put in order.
Criterion = Literal["fifo", "priority", "fair", "deadline", "shortest"]
#: Why one job may take executors from another.
Cause = Literal["priority", "guarantee"]

_QUEUE_NAME = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}"
#: What one queue is called; its path has the names of those above it, with dots between them.
QueueName = Annotated[
    str,
    Field(json_schema_extra={"pattern": f"^{_QUEUE_NAME}$"}),
    AfterValidator(
        like(
            _QUEUE_NAME,
            ("should be a queue's name: letters, digits, _ and -, since dots separate the names of a path"),
        )
    ),
]
Weight = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
_Amount = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
_Number = Annotated[int, Field(ge=0, le=1_000_000_000)]


class Amounts(Strict):
    """Amounts of a cluster's resources."""

    cpus: _Amount | None = None
    """Cores."""
    memory: Memory | None = None
    """MiB, or an amount with its unit, such as 16g."""
    gpus: _Number | None = None
    """Whole GPUs."""

    @property
    def by_name(self) -> dict[str, float]:
        """Amounts by Mesos' names, without the unset ones."""
        said = {"cpus": self.cpus, "mem": self.memory, "gpus": self.gpus}
        return {name: float(amount) for name, amount in said.items() if amount is not None}


class Bounds(Amounts):
    """The most that a queue, or one of its users, may have at once; null: any amount."""

    dollars_per_hour: _Amount | None = None
    """Maximum cost per hour: its share in the prices of VMs."""
    dollars_per_day: _Amount | None = None
    """Maximum cost on a day (UTC); after that no job starts on that day."""
    dollars_per_month: _Amount | None = None
    """Maximum cost in a calendar month (UTC); after that no job starts in that month."""
    running: _Number | None = None
    """Maximum number of jobs that have executors."""
    waiting: _Number | None = None
    """Maximum number of waiting jobs: more are rejected."""


class QueueSettings(Strict):
    """Settings of a queue: jobs, or other queues below it, share its resources."""

    weight: Weight = 1.0
    """Its share relative to its neighbours in the tree."""
    guaranteed: Amounts = Amounts()
    """Resources that it gets before others get more than theirs, as long as it uses them."""
    most: Bounds = Bounds()
    """Its maximum resources, including the queues below it."""
    most_per_user: Bounds = Bounds()
    """The maximum resources of each of its users in it."""
    submit: Annotated[tuple[Name, ...] | None, Field(strict=False)] = None
    """Users that may submit jobs; null: as the queue above, at the top all."""
    priority: Priority | None = None
    """The priority of its jobs without one of their own; null: as above it, at the top 0."""
    spot: SpotUse | None = None
    """VMs that its jobs may use at most; a job may be stricter. null: as above it, at the top all."""
    protected: bool | None = None
    """Whether its jobs are protected from preemption; null: as above it, at the top they are not."""
    user_weights: Mapping[Name, Weight] = {}
    """Weights of users; all others have a weight of 1."""

    @model_validator(mode="after")
    def _promises_what_it_may_have(self) -> Self:
        most = self.most.by_name
        for name, amount in self.guaranteed.by_name.items():
            if amount > most.get(name, amount):
                raise ValueError(f"guaranteed: {amount:g} {name} are more than its most, {most[name]:g}")
        return self


class QueueSpec(QueueSettings):
    """A queue with those below it."""

    queues: Mapping[QueueName, "QueueSpec"] = {}
    """The queues below it; without any, it accepts jobs."""


def _in_a_list(order: object) -> object:
    """One word is a list of one."""
    return (order,) if isinstance(order, str) else order


def _each_once(order: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
    if not order:
        raise ValueError("should name at least one")
    if len(set(order)) < len(order):
        raise ValueError("should name each at most once")
    if "fifo" in order[:-1]:
        raise ValueError("fifo: leaves no ties, so no word should follow it")
    return order


Order = Annotated[
    tuple[Criterion, ...],
    Field(strict=False),
    BeforeValidator(_in_a_list),
    AfterValidator(_each_once),
]


class PreemptionSpec(Strict):
    """Whether one job may take executors from another, and when not."""

    by: Annotated[tuple[Cause, ...], Field(strict=False)] = ()
    """Grounds for preemption: a higher priority, or a queue's unmet guarantee."""
    young: Time = 600.0
    """A whole job that has run for longer is not stopped."""
    nearly_done: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.8
    """A job that is expected to be done by at least this share is not stopped."""
    pause: Time = 60.0
    """Time for which a preempted job is not preempted again, and preempts no other."""


class SharingSpec(Strict):
    """Order in which jobs are placed, over all queues."""

    order: Order = ("fifo",)
    """Criteria in sequence: fifo, priority, fair, deadline, shortest. Ties go to the older job."""
    half_life: Time = 3600.0
    """Past use this long ago counts half for `fair`; 0: only present use counts."""
    starves_after: Annotated[Time, Field(gt=0)] = 12 * 3600.0
    """A job that has waited for this long goes first, under any order; limits still apply."""
    window: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    """Number of jobs, the first in order, that a policy is shown."""
    overtaken_at_most: Annotated[int | None, Field(ge=0)] = None
    """How often jobs of others may overtake the first; null: once where order has fair, else as policies
    allow. From then on only jobs of its own user may, until it is placed."""
    preemption: PreemptionSpec = PreemptionSpec()
    """Whether jobs may preempt executors of others."""
    most_per_user: Bounds = Bounds()
    """The maximum resources of each user over all queues."""

    @model_validator(mode="after")
    def _bounds_what_runs(self) -> Self:
        if self.most_per_user.waiting is not None:
            raise ValueError("most_per_user.waiting: should be set in queues, where waiting jobs are counted")
        return self


def _whole(queues: Mapping[str, QueueSpec]) -> Mapping[str, QueueSpec]:
    """A check that queues go together: jobs that name none have one, and no guarantee is an empty one."""
    if (default := queues.get(DEFAULT_QUEUE)) is not None and default.queues:
        raise ValueError(
            f"{DEFAULT_QUEUE}: accepts jobs that name no queue, so it cannot have queues below it"
        )
    for path, _ in paths(queues):
        if len(path) > LONGEST_NAME:
            raise ValueError(f"{path[:40]}...: should have {LONGEST_NAME} characters at most as a path")
    _check_spot(queues, "allowed")
    promised(queues)
    return queues


def stricter(above: SpotUse, said: SpotUse) -> SpotUse | None:
    """Effective use of spot VMs from a queue's rule and the rule of its content; None: they contradict."""
    if above in ("allowed", said):
        return said
    return above if said == "allowed" else None


def _check_spot(queues: Mapping[str, QueueSpec], above: SpotUse) -> None:
    for name, queue in queues.items():
        rule = stricter(above, queue.spot or "allowed")
        if rule is None:
            raise ValueError(f"{name}: spot: {queue.spot} contradicts the queue above it, {above}")
        _check_spot(queue.queues, rule)


def promised(queues: Mapping[str, QueueSpec], above: str = "") -> dict[str, float]:
    """Total guaranteed to these queues and those below them, by Mesos' names.

    ValueError for one with more guaranteed below than it may have.
    """
    found: dict[str, float] = {}
    for name, queue in queues.items():
        path = f"{above}.{name}" if above else name
        own, inner, most = queue.guaranteed.by_name, promised(queue.queues, path), queue.most.by_name
        for key, amount in inner.items():
            if amount > most.get(key, amount) + 1e-9:
                text = f"the guarantees below it are {amount:g} {key}, more than its most, {most[key]:g}"
                raise ValueError(f"{path}: {text}")
        for key in {**own, **inner}:
            found[key] = found.get(key, 0.0) + max(own.get(key, 0.0), inner.get(key, 0.0))
    return found


#: The queues of a cluster by name; empty: any queue that a job names is there.
QueueSpecs = Annotated[Mapping[QueueName, QueueSpec], AfterValidator(_whole)]


def paths(queues: Mapping[str, QueueSpec], above: str = "") -> Iterator[tuple[str, QueueSpec]]:
    """All queues by path, those above first, in the order of the file."""
    for name, queue in queues.items():
        path = f"{above}.{name}" if above else name
        yield path, queue
        yield from paths(queue.queues, path)


class SharingFile(Strict):
    """The sharing section of the daemon's config as a file of its own, for simulations."""

    queues: QueueSpecs = Field(default={})
    """The queues by name."""
    sharing: SharingSpec = SharingSpec()
    """The order over all queues."""
