"""Why an executor went where it went, or why a job waits: a decision in words and numbers.

An explanation is made from the decision and the view it was made on, so it holds for every policy.
"""

from dataclasses import dataclass, replace

from environment.check import shortfalls
from environment.rounds import Verdict
from environment.types import ClusterView, Place, PlacementRequest

#: On clusters with more VMs than this, only so many of those not chosen are listed; the rest is counted.
CANDIDATES_LISTED = 50


@dataclass(frozen=True, slots=True)
class Candidate:
    """A VM that was looked at: what it had free, what it lacked, how it scored."""

    vm: str
    type: str
    free_cpus: float
    free_memory_mib: int
    lacks: tuple[str, ...]
    score: float | None
    chosen: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice made for one executor of a job (0 is its first), or for the job as a whole (None)."""

    executor: int | None
    vm: str | None
    why: str
    candidates: tuple[Candidate, ...]
    candidates_left_out: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision about one job."""

    at: float
    job_id: str
    policy: str
    decision: str
    reason: str
    faults: tuple[str, ...]
    choices: tuple[Choice, ...]


def explain(verdict: Verdict, policy: str) -> Explanation:
    """Explain a verdict that the named policy reached."""
    decision, request, view = verdict.decision, verdict.request, verdict.view
    if isinstance(decision, Place):
        placed = ", ".join(view.vms[i].name for i in decision.placement)
        kind, reason = "place", f"{request.count} of {request.job.executors} executors placed: {placed}"
        choices = _choices(view, request, decision)
    else:
        kind, reason = "wait", decision.reason
        candidates, left_out = _candidates(view, request, None, ())
        choices = (Choice(None, None, reason, candidates, left_out),)
    return Explanation(view.at, request.job.id, policy, kind, reason, verdict.faults, choices)


def _choices(view: ClusterView, request: PlacementRequest, decision: Place) -> tuple[Choice, ...]:
    choices = []
    single = replace(request, count=1)
    for executor, index in enumerate(decision.placement):
        why = decision.why[executor] if executor < len(decision.why) else "the policy gave no reason"
        candidates, left_out = _candidates(view, single, index, decision.scores)
        choices.append(Choice(executor, view.vms[index].name, why, candidates, left_out))
        view = view.with_placement(single, (index,))
    return tuple(choices)


def _candidates(
    view: ClusterView, request: PlacementRequest, chosen: int | None, scores: tuple[float, ...]
) -> tuple[tuple[Candidate, ...], int]:
    listed = list(range(min(len(view.vms), CANDIDATES_LISTED)))
    if chosen is not None and chosen not in listed:
        listed.append(chosen)
    candidates = tuple(
        Candidate(
            vm=view.vms[i].name,
            type=view.vms[i].type,
            free_cpus=round(float(view.free_cpus[i]), 3),
            free_memory_mib=int(view.free_memory_mib[i]),
            lacks=tuple(str(shortfall) for shortfall in shortfalls(view, request, i)),
            score=scores[i] if scores else None,
            chosen=i == chosen,
        )
        for i in listed
    )
    return candidates, len(view.vms) - len(listed)
