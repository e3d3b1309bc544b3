"""Decisions of a simulated run, read back from its records, and taken again."""

from collections.abc import Mapping, Sequence
from typing import Any

from environment.resources import Resources
from environment.simulation.results.decision_trace import TracedDecision
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView


class Replay:
    """A policy that decides again as it was decided, in the same order."""

    def __init__(self, decisions: Sequence[TracedDecision]) -> None:
        self._next = iter(decisions)

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """The next decision of the trace; ValueError when that job does not wait, or there is none."""
        traced = next(self._next, None)
        if traced is None or all(request.job.id != traced.job for request in queue):
            about = "is at its end" if traced is None else f"decides about {traced.job}"
            raise ValueError(f"{queue[0].job.id} is next at {view.at:g} s, but the trace {about}")
        return traced.decision


def trace_from_json(values: Sequence[Mapping[str, Any]]) -> tuple[TracedDecision, ...]:
    """The decisions that `trace_to_json` wrote."""
    return tuple(
        TracedDecision(
            value["at"], value["job"], value["queue"], _decision_from_json(value), tuple(value["faults"])
        )
        for value in values
    )


def _decision_from_json(value: Mapping[str, Any]) -> Decision:
    if "wait" in value:
        return Wait(value["wait"], tuple((vm, until) for vm, until in value.get("keeps", ())))
    scores = tuple(value.get("scores", ()))
    sizes = tuple(Resources.named(amounts) for amounts in value.get("sizes", ()))
    return Place(value["job"], tuple(value["placement"]), tuple(value["why"]), scores, sizes)
