"""A round of decisions: the head of the queue again and again, each on the view that the last one left.

This is the loop that the simulator, the daemon and the benchmarks share. Every decision passes the one
check, whoever made it; one that does not, or a policy that raises, is replaced by the fallback's decision.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np

from environment.check import check
from environment.events import Decided, Placement, Waiting
from environment.types import CPU_TOLERANCE, ClusterView, Decision, Place, PlacementRequest, Wait

#: Of what the parts of a placement are made.
_PARTS: dict[str, tuple[type, ...]] = {
    "placement": (int, np.integer),
    "why": (str,),
    "scores": (float, int, np.floating),
}

#: What a policy is to this module.
Decide = Callable[[ClusterView, Sequence[PlacementRequest]], Decision]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One decision as it will be executed, the view it was made on, and what went wrong before it.

    `faults` says why the policy's own decision was not taken; empty when it was.
    """

    request: PlacementRequest
    view: ClusterView
    decision: Decision
    faults: tuple[str, ...] = ()
    driver_vm: int | None = None


class Queue(Sequence[PlacementRequest]):
    """The requests from a position on, without copying them."""

    def __init__(self, requests: Sequence[PlacementRequest], start: int = 0) -> None:
        self._requests = requests
        self._start = start

    def __len__(self) -> int:
        return len(self._requests) - self._start

    @overload
    def __getitem__(self, index: int) -> PlacementRequest: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PlacementRequest]: ...
    def __getitem__(self, index: int | slice) -> PlacementRequest | Sequence[PlacementRequest]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._requests[self._start + index]


def decide_round(
    decide: Decide,
    view: ClusterView,
    requests: Sequence[PlacementRequest],
    *,
    fallback: Decide | None = None,
) -> tuple[Verdict, ...]:
    """Decide about the queue until it is empty or its head has to wait; the last verdict may be a `Wait`."""
    return tuple(decide_in_turn(decide, view, requests, fallback=fallback))


def decide_in_turn(
    decide: Decide,
    view: ClusterView,
    requests: Sequence[PlacementRequest],
    *,
    fallback: Decide | None = None,
    start: int = 0,
) -> Iterator[Verdict]:
    """A round of decisions one by one, as above, about the requests from `start` on.

    Each verdict holds a view of its own, so a long queue on a large cluster is better not kept as a whole.
    """
    for position in range(start, len(requests)):
        verdict = decide_once(decide, view, Queue(requests, position), fallback=fallback)
        yield verdict
        if not isinstance(verdict.decision, Place):
            break
        view = view_after(verdict, verdict.decision)


def decide_once(
    decide: Decide, view: ClusterView, queue: Sequence[PlacementRequest], *, fallback: Decide | None = None
) -> Verdict:
    """Decide about the head of the queue; never raises, whatever the policy does."""
    request = queue[0]
    decision, fault = _ask(decide, view, queue)
    if fault and fallback is not None:
        decision, second = _ask(fallback, view, queue)
        fault = (*fault, *second)
    return _with_driver(Verdict(request, view, decision, fault))


def decided(verdicts: Iterable[Verdict], at: float) -> Decided:
    """The event that tells the cluster model of a round, whose verdicts are gone through once."""
    placements, waiting, view_at = [], None, None
    for verdict in verdicts:
        view_at = verdict.view.at
        job_id = verdict.request.job.id
        if isinstance(verdict.decision, Place):
            vms = verdict.view.vms
            driver = None if verdict.driver_vm is None else vms[verdict.driver_vm].id
            placements.append(Placement(job_id, tuple(vms[i].id for i in verdict.decision.placement), driver))
        else:
            waiting = Waiting(job_id, verdict.decision.reason)
    return Decided(at, tuple(placements), waiting, view_at)


def _ask(
    decide: Decide, view: ClusterView, queue: Sequence[PlacementRequest]
) -> tuple[Decision, tuple[str, ...]]:
    try:
        decision: object = decide(view, queue)
        faults = _misshapen(decision, view)
        if not faults and isinstance(decision, Place):
            faults = check(view, queue[0], decision)
    except Exception as error:  # a policy is foreign code: whatever it raises must not stop the queue
        faults = (f"the policy failed: {type(error).__name__}: {error}",)
    else:
        if not faults and isinstance(decision, Place | Wait):
            return decision, ()
    return Wait("the decision could not be executed: " + "; ".join(faults)), faults


def _misshapen(decision: object, view: ClusterView) -> tuple[str, ...]:
    """What is wrong with the decision as a value: what comes after it relies on its types."""
    if isinstance(decision, Wait):
        reason: object = decision.reason
        return () if isinstance(reason, str) else ("the reason to wait is no text",)
    if not isinstance(decision, Place):
        return (f"the policy returned {type(decision).__name__}, not Place or Wait",)
    for name, kinds in _PARTS.items():
        part: object = getattr(decision, name)
        if not isinstance(part, tuple) or not all(issubclass(kind, kinds) for kind in set(map(type, part))):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            return (f"the {name} of the decision should be a tuple of {wanted}",)
    if len(decision.scores) not in (0, len(view.vms)):
        return (f"{len(decision.scores)} scores for {len(view.vms)} VMs",)
    return ()


def _with_driver(verdict: Verdict) -> Verdict:
    """Find room for the driver of a job whose driver runs on the cluster, first beside its executors."""
    request, decision = verdict.request, verdict.decision
    driver = request.job.driver
    if driver is None or isinstance(decision, Wait) or request.again:
        return verdict
    after = verdict.view.with_placement(request, decision.placement)
    for index in dict.fromkeys((*decision.placement, *range(len(after.vms)))):
        fits = after.free_cpus[index] + CPU_TOLERANCE >= driver.cpus
        if fits and after.free_memory_mib[index] >= driver.memory_mib:
            return replace(verdict, driver_vm=index)
    needed = f"{driver.cpus:g} cpus and {driver.memory_mib} MiB"
    return replace(verdict, decision=Wait(f"beside its executors no VM has room for its driver ({needed})"))


def view_after(verdict: Verdict, place: Place) -> ClusterView:
    """The view that a verdict's placement leaves, its driver included."""
    view = verdict.view.with_placement(verdict.request, place.placement)
    driver = verdict.request.job.driver
    if driver is None or verdict.driver_vm is None:
        return view
    cpus, memory = view.free_cpus.copy(), view.free_memory_mib.copy()
    cpus[verdict.driver_vm] -= driver.cpus
    memory[verdict.driver_vm] -= driver.memory_mib
    return view.changed(free_cpus=cpus, free_memory_mib=memory)
