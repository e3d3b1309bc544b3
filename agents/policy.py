"""The contract of a policy: a view of the cluster and the queue go in, one decision comes out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from environment.types import ClusterView, Decision, PlacementRequest


@runtime_checkable
class Policy(Protocol):
    """Decides where the executors of the job at the head of the queue go.

    `decide` gets an immutable view and the requests, oldest first (never empty), and answers with
    `Place(job, placement)` for the head of the queue, all of its executors or none, or with `Wait(reason)`.
    It may keep state of its own (a cursor, random numbers from a seed), but has no other effect.
    """

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Decide about `queue[0]`."""
        ...


@dataclass(frozen=True, slots=True)
class FunctionPolicy:
    """A plain function as a policy."""

    function: Callable[[ClusterView, Sequence[PlacementRequest]], Decision]

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Call the function."""
        return self.function(view, queue)
