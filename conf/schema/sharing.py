"""Sharing of one cluster by many users, as config has it: a tree of queues, and the order among them.

`environment.queues.types` defines their meaning, and the types that the rest of Stoker uses.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from conf.defaults import DEFAULT_QUEUE
from conf.schema.fields import Memory, Name, Priority, SpotUse, Strict, Time, like
from conf.util.printable import LONGEST_NAME

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
        like(_QUEUE_NAME, "should be a queue's name: letters, digits, _ and -, as its path has dots")
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
    """What that may cost: its share in the prices of VMs."""
    dollars_per_day: _Amount | None = None
    """What it may have cost on a day (UTC): from then on nothing more is begun on that day."""
    running: _Number | None = None
    """Jobs that have executors."""
    waiting: _Number | None = None
    """Jobs that wait: more are not accepted."""


class QueueSettings(Strict):
    """Settings of a queue: jobs, or other queues below it, share its resources."""

    weight: Weight = 1.0
    """Its share beside those of its neighbours in the tree."""
    guaranteed: Amounts = Amounts()
    """What it gets before others get more than theirs, as long as it has use for it."""
    most: Bounds = Bounds()
    """What it may have at most, with all below it."""
    most_per_user: Bounds = Bounds()
    """What each of its users may have of it at most."""
    submit: Annotated[tuple[Name, ...] | None, Field(strict=False)] = None
    """Who may submit jobs; null: who may above it, at the top everybody."""
    priority: Priority | None = None
    """The priority of its jobs that say none; null: as above it, at the top 0."""
    spot: SpotUse | None = None
    """Which VMs its jobs may use at most; a job may be stricter. null: as above it, at the top all."""
    protected: bool | None = None
    """Whether nothing is taken from its jobs for others; null: as above it, at the top it may be."""
    user_weights: Mapping[Name, Weight] = {}
    """The shares of users beside those of others, who have 1 each."""

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
    """The queues below it; without any, it takes jobs."""


def _in_a_list(order: object) -> object:
    """One word is a list of one."""
    return (order,) if isinstance(order, str) else order


def _each_once(order: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
    if not order:
        raise ValueError("should name at least one")
    if len(set(order)) < len(order):
        raise ValueError("should name each at most once")
    if "fifo" in order[:-1]:
        raise ValueError("fifo: leaves no two jobs together, so nothing should stand behind it")
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
    """What gives the right to: a higher priority, or a queue's guarantee that it is short of."""
    young: Time = 600.0
    """A whole job that runs for longer is not taken."""
    nearly_done: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.8
    """Nor is one of which so much is believed to be done."""
    pause: Time = 60.0
    """What was taken from is left alone for so long, and takes nothing."""


class SharingSpec(Strict):
    """Order in which jobs are placed, over all queues."""

    order: Order = ("fifo",)
    """By what, one behind the other: fifo, priority, fair, deadline, shortest. Of equals, the older."""
    half_life: Time = 3600.0
    """After so long `fair` has forgotten half of what a queue has had; 0: what it has counts alone."""
    starves_after: Annotated[Time, Field(gt=0)] = 12 * 3600.0
    """A job that has waited for so long goes first, whatever the order; limits hold for it all the same."""
    window: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    """How many jobs, the first in order, a policy is shown."""
    overtaken_at_most: Annotated[int | None, Field(ge=0)] = None
    """How often jobs of others may overtake the first; null: once where order has fair, else as policies say.
    From then on only jobs of his own may, until he is placed."""
    preemption: PreemptionSpec = PreemptionSpec()
    """Whether jobs take executors from others."""


def _whole(queues: Mapping[str, QueueSpec]) -> Mapping[str, QueueSpec]:
    """A check that queues go together: jobs that name none have one, and no guarantee is an empty one."""
    if (default := queues.get(DEFAULT_QUEUE)) is not None and default.queues:
        raise ValueError(f"{DEFAULT_QUEUE}: takes jobs that name no queue, so it has no queues below it")
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
            raise ValueError(f"{name}: spot: {queue.spot} is not what the queue above it leaves, {above}")
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
                text = (
                    f"below it {amount:g} {key} are guaranteed, which are more than its most, {most[key]:g}"
                )
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
    """The order over all of them."""
