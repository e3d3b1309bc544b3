"""Why an executor went where it went, or why a job waits: a decision in words and numbers.

An explanation is made from the decision and the view it was made on, so it holds for every policy.
"""

from dataclasses import dataclass

from environment.check import shortfalls
from environment.rounds import Verdict
from environment.types import ClusterView, Place, PlacementRequest

#: On clusters with more VMs than this, only so many of those not chosen are listed; the rest is counted.
CANDIDATES_LISTED = 50
#: Of jobs with more executors than this, the later ones list the VM that was chosen and no other. Chosen: no
#: more than anybody reads, so that it neither holds up the queue nor fills the store.
EXECUTORS_IN_FULL = 50


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
    """The choice made for one executor of a job, by its number, or for the job as a whole (None).

    `candidates` are the VMs that are listed, `candidates_left_out` counts the others.
    """

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
        candidates = _Sight(view, request, ()).candidates()
        choices = (Choice(None, None, reason, candidates, len(view.vms) - len(candidates)),)
    return Explanation(view.at, request.job.id, policy, kind, reason, verdict.faults, choices)


def _choices(view: ClusterView, request: PlacementRequest, decision: Place) -> tuple[Choice, ...]:
    sight, choices = _Sight(view, request, decision.scores), []
    for executor, index in enumerate(decision.placement):
        why = decision.why[executor] if executor < len(decision.why) else "the policy gave no reason"
        candidates = sight.candidates(index, alone=executor >= EXECUTORS_IN_FULL)
        left_out = len(view.vms) - len(candidates)
        choices.append(
            Choice(request.first_number + executor, view.vms[index].name, why, candidates, left_out)
        )
        sight.take(index)
    return tuple(choices)


class _Sight:
    """The VMs as seen while a job's executors are placed one by one.

    Between two executors one VM changes, so what was made of the others is used again. Invariant: `_listed`
    holds the first VMs of the view, none of them chosen, with what the executors before left of them.
    """

    def __init__(self, view: ClusterView, request: PlacementRequest, scores: tuple[float, ...]) -> None:
        self._view = view
        self._request = request
        self._scores = scores
        #: Cpus and MiB that are free on the VMs that executors of this job were placed on.
        self._left: dict[int, tuple[float, float]] = {}
        self._listed = [self._candidate(i) for i in range(min(len(view.vms), CANDIDATES_LISTED))]

    def candidates(self, chosen: int | None = None, *, alone: bool = False) -> tuple[Candidate, ...]:
        """The first VMs and the chosen one; or the chosen one `alone`."""
        if chosen is None:
            return tuple(self._listed)
        candidate = self._candidate(chosen, chosen=True)
        if alone:
            return (candidate,)
        if chosen < len(self._listed):
            return (*self._listed[:chosen], candidate, *self._listed[chosen + 1 :])
        return (*self._listed, candidate)

    def take(self, index: int) -> None:
        """An executor takes its part of the VM."""
        cpus, memory_mib = self._free(index)
        self._left[index] = (cpus - self._request.cpus, memory_mib - self._request.memory_mib)
        if index < len(self._listed):
            self._listed[index] = self._candidate(index)

    def _free(self, index: int) -> tuple[float, float]:
        if index in self._left:
            return self._left[index]
        return float(self._view.free_cpus[index]), float(self._view.free_memory_mib[index])

    def _candidate(self, index: int, *, chosen: bool = False) -> Candidate:
        vm, (cpus, memory_mib) = self._view.vms[index], self._free(index)
        lacks = shortfalls(vm, cpus, memory_mib, self._request.cpus, self._request.memory_mib)
        return Candidate(
            vm=vm.name,
            type=vm.type,
            free_cpus=round(cpus, 3),
            free_memory_mib=int(memory_mib),
            lacks=tuple(str(shortfall) for shortfall in lacks),
            score=self._scores[index] if self._scores else None,
            chosen=chosen,
        )
