"""Decisions of a simulation: as they were made, or as columns that become values on reading."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from conf.errors import ReportedError
from environment.policy_faults import failure, foreign, placed
from environment.types import Decision, EndedJob, Wait

_T = TypeVar("_T")


class StuckError(ReportedError, RuntimeError):
    """A policy waits although nothing will happen, or cannot learn; the text names job and reason."""


class EndlessError(StuckError):
    """A simulation exceeded its limit of events; the text names its clock's time and the running jobs."""


def asked(question: Callable[[], _T]) -> _T:
    """Answer of a policy about itself, by its own code; StuckError where that fails."""
    try:
        return question()
    except BaseException as error:
        if not foreign(error):
            raise
        raise StuckError(failure(error)) from error


def teach(observe: Callable[[EndedJob], None], ended: EndedJob) -> None:
    """Tell a policy that a job is over; StuckError where it fails."""
    try:
        observe(ended)
    except BaseException as error:
        if not foreign(error):
            raise
        raise StuckError(f"it does not learn from {ended.job.id}: {placed(error)}") from error


@dataclass(frozen=True, slots=True)
class TracedDecision:
    """A decision as executed, with its time, the number of waiting jobs, and the errors before it."""

    at: float
    job: str
    queue: int
    decision: Decision
    faults: tuple[str, ...] = ()


class TracedDecisions(Sequence[TracedDecision]):
    """The decisions of a run, in order. Equal to any sequence of the same."""

    @overload
    def __getitem__(self, index: int) -> TracedDecision: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[TracedDecision, ...]: ...
    def __getitem__(self, index: int | slice) -> TracedDecision | tuple[TracedDecision, ...]:
        if isinstance(index, slice):
            return tuple(self.at(number) for number in range(*index.indices(len(self))))
        return self.at(range(len(self))[index])

    @abstractmethod
    def at(self, number: int) -> TracedDecision:
        """The decision of that number, counted from 0."""

    @property
    @abstractmethod
    def waits(self) -> int:
        """Number of decisions to wait."""

    @property
    @abstractmethod
    def faulty(self) -> Sequence[TracedDecision]:
        """Decisions with an error before them."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # equal to tuples, which hash otherwise


class KeptDecisions(TracedDecisions):
    """Decisions as values."""

    def __init__(self, made: Sequence[TracedDecision]) -> None:
        self._made = tuple(made)

    def __len__(self) -> int:
        return len(self._made)

    def __iter__(self) -> Iterator[TracedDecision]:
        return iter(self._made)

    def at(self, number: int) -> TracedDecision:
        """The decision of that number, counted from 0."""
        return self._made[number]

    @property
    def waits(self) -> int:
        """Number of decisions to wait."""
        return sum(isinstance(traced.decision, Wait) for traced in self._made)

    @property
    def faulty(self) -> Sequence[TracedDecision]:
        """Decisions with an error before them."""
        return [traced for traced in self._made if traced.faults]


class ToldDecisions(TracedDecisions):
    """Decisions that become values on reading; none of them has an error before it."""

    def __init__(self, count: int, waits: int, tell: Callable[[int], TracedDecision]) -> None:
        """`tell` makes the decision of a number; so many of `count` were to wait."""
        self._count, self._waits, self._tell = count, waits, tell

    def __len__(self) -> int:
        return self._count

    def at(self, number: int) -> TracedDecision:
        """The decision of that number, counted from 0."""
        return self._tell(number)

    @property
    def waits(self) -> int:
        """Number of decisions to wait."""
        return self._waits

    @property
    def faulty(self) -> Sequence[TracedDecision]:
        """Decisions with an error before them."""
        return ()


def trace_to_json(decisions: Sequence[TracedDecision]) -> list[dict[str, Any]]:
    """Decisions as plain values, of which nothing but `details` is lost."""
    return [
        {"at": traced.at, "job": traced.job, "queue": traced.queue, "faults": list(traced.faults)}
        | _decision_to_json(traced.decision)
        for traced in decisions
    ]


def _decision_to_json(decision: Decision) -> dict[str, Any]:
    if isinstance(decision, Wait):
        return {"wait": decision.reason} | ({"keeps": list(decision.keeps)} if decision.keeps else {})
    shown: dict[str, Any] = {"placement": list(decision.placement), "why": list(decision.why)}
    if decision.sizes:
        shown["sizes"] = [size.amounts for size in decision.sizes]
    return {**shown, "scores": list(decision.scores)} if decision.scores else shown
