"""The contract of a policy: a view of the cluster and the queue go in, one decision comes out.

A policy that learns may be an `Observer` too, which is notified how jobs ended, and a `Keeper`; one that has
a clock is `TimedPolicy`, one that chooses sizes of jobs a `Sizer`, one behind a guard `GuardedPolicy`, one
that can play a whole simulation in compiled code `CompiledPolicy`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from environment.types import Decision, EndedJob, IntArray, Job, Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView, RunningJob

if TYPE_CHECKING:
    from environment.kernel.play_loop import Trace
    from environment.kernel.resized_jobs import SparedResources
    from environment.kernel.state import Batch

#: A policy's one method, for callers that need no more of it.
Decide = Callable[[ClusterView, Sequence[PlacementRequest]], Decision]


@runtime_checkable
class Policy(Protocol):
    """Decides which job of the queue is next, and where its executors go.

    `decide` gets an immutable view and the requests, oldest first (never empty), and answers with
    `Place(job, placement)` for one of them, all of its executors or none, or with `Wait(reason)`: nothing is
    placed, and `queue[0]` waits for that reason. A policy that only ever places `queue[0]` serves first come,
    first served, as Islam 2022 does; it is asked again at once, about the queue without the job it placed.
    It may keep state of its own (a cursor, random numbers from a seed), but has no other effect.
    """

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place a job of the queue, or wait."""
        ...


@runtime_checkable
class Observer(Protocol):
    """A policy that is notified how jobs ended, in both worlds, before its next decision."""

    def observe(self, ended: EndedJob) -> None:
        """A job is over."""
        ...


@runtime_checkable
class Keeper(Protocol):
    """A policy with learned state that the daemon stores and restores over its own restarts."""

    def state(self) -> bytes:
        """All that another policy of the same kind needs to go on where this one is."""
        ...

    def restore(self, state: bytes) -> None:
        """Go on from a state, before the first decision; ValueError when it cannot be read."""
        ...


@runtime_checkable
class TimedPolicy(Protocol):
    """A policy with decisions that depend on a clock in one case: when a safety stop cuts one short.

    The work of a decision is bounded, so that the same view and queue give the same decision on every
    machine. A decision that is cut short is counted.
    """

    @property
    def cut_short(self) -> int:
        """Number of decisions cut short since the policy was made."""
        ...


@runtime_checkable
class Sizer(Protocol):
    """A policy that chooses the sizes of jobs itself, and is shown them with all that they ask for."""

    @property
    def chooses_sizes(self) -> bool:
        """Whether it does."""
        ...


@runtime_checkable
class StatefulPolicy(Protocol):
    """A policy that changes state with each placement, so that the next one may differ.

    To ask it without effect, set its turn back afterwards: its decisions are then as if it had not been
    asked.
    """

    turn: Any


@runtime_checkable
class GuardedPolicy(Protocol):
    """A policy behind a guard, which decides in its place where jobs that fit wait for too long."""

    @property
    def guarded(self) -> int:
        """Number of decisions that the guard took since the policy was made."""
        ...


@runtime_checkable
class Bounded(Protocol):
    """A policy that knows whether it may hold back for ever a job that fits."""

    @property
    def bounds_waits(self) -> bool:
        """Whether it does not, beside any running jobs: while the first job fits it never waits, or not long.

        Then nobody else watches for how long it waits: `environment.decisions.vain_waits`.
        """
        ...


def bounds_waits(policy: object) -> bool:
    """Whether a policy says that it holds back for ever no job that fits."""
    return isinstance(policy, Bounded) and policy.bounds_waits


def counts_of(policy: object) -> tuple[int, int]:
    """Decisions that were cut short, and those of the guard, as the policy counts them; 0 where it does not.

    It may raise anything, as all of a policy's code. TypeError for what is no number.
    """
    cut_short = policy.cut_short if isinstance(policy, TimedPolicy) else 0
    guarded = policy.guarded if isinstance(policy, GuardedPolicy) else 0
    return index(cut_short), index(guarded)


class Player(Protocol):
    """A policy in compiled code, in one world that the kernel knows whole; jobs by arrival."""

    @property
    def order(self) -> IntArray:
        """The numbers by arrival of the jobs, by those of the kernel; int64 [M]."""
        ...

    def play(self, batch: "Batch", spared: "SparedResources", trace: "Trace", until: int) -> bool:
        """Play row 0 until `until` jobs are placed; False when the head waits and no event will follow."""
        ...

    def place(self, number: int, job: Job, placement: tuple[int, ...]) -> Place:
        """The decision of that number, which placed the job there, as the policy would have returned it."""
        ...

    def wait(self, number: int, shortage: str) -> Wait:
        """The decision of that number to wait; `shortage` is why the first job does not fit, or empty."""
        ...


@runtime_checkable
class CompiledPolicy(Protocol):
    """A policy that decides the same in compiled code; it never waits while nothing runs and nobody comes.

    It is played there only while it bounds its waits (`Bounded`), which nobody watches in compiled code.
    """

    def player(
        self, jobs: Sequence[Job], vms: Sequence[Vm], running: Mapping[int, RunningJob], *, exact: bool
    ) -> Player | None:
        """Return the player for these jobs, with the beliefs about them; some run already, by number.

        `exact`: the beliefs about jobs that will run are true. None where the compiled code would decide
        otherwise with the policy's options or these VMs: then the policy is asked decision by decision.
        """
        ...


@dataclass(frozen=True, slots=True)
class FunctionPolicy:
    """A plain function as a policy."""

    function: Decide

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Call the function."""
        return self.function(view, queue)
