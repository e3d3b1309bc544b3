"""Why an executor went where it went, or why a job waits: a decision in words and numbers.

An explanation is made from the decision and the view it was made on, so it holds for every policy.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from conf.util.counted import counted
from environment.decisions.decision_round import Verdict
from environment.decisions.feasibility import closed, not_offered, shortfalls
from environment.decisions.sizing import told
from environment.decisions.vm_kinds import KindEstimate, estimates_by_kind
from environment.resources import BASIC, Resources, total
from environment.types import Place, PlacementRequest
from environment.view import ClusterView

#: On clusters with more VMs than this, only so many of those not chosen are listed; the rest is counted.
CANDIDATES_LISTED = 50
#: Of jobs with more executors than this, the later ones list the chosen VM and no other. Chosen: no more than
#: anybody reads, so that it neither delays the queue nor fills the store.
EXECUTORS_IN_FULL = 50


@dataclass(frozen=True, slots=True)
class CandidateVm:
    """A VM that was considered: its free resources, its lacks for this executor, and its score.

    `free` has the free resources of the kinds that the job asks for, by Mesos' names; `details` are further
    numbers computed by the policy.
    """

    vm: str
    type: str
    free: Mapping[str, float]
    lacks: tuple[str, ...]
    score: float | None
    chosen: bool
    details: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice made for one executor of a job, by its number, or for the job as a whole (None).

    `candidates` are the VMs that are listed, `candidates_left_out` counts others. `size` is the executor's
    size.
    """

    executor: int | None
    vm: str | None
    why: str
    candidates: tuple[CandidateVm, ...]
    candidates_left_out: int
    size: Resources | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision about one job; `kinds` are estimates of its placement and of the kinds of VM."""

    at: float
    job_id: str
    policy: str
    decision: str
    reason: str
    faults: tuple[str, ...]
    choices: tuple[Choice, ...]
    kinds: tuple[KindEstimate, ...] = ()


def explain(verdict: Verdict, policy: str) -> Explanation:
    """Explain a verdict that the named policy reached."""
    decision, request, view = verdict.decision, verdict.request, verdict.view
    kinds: tuple[KindEstimate, ...] = ()
    if isinstance(decision, Place):
        placed = _by_vm([view.vms[index].name for index in decision.placement])
        count = f"{len(decision.placement)} of {counted(request.job.begins_with, 'executor')}"
        fewer = len(decision.placement) < request.count
        kind, reason = "place", f"started with {count}: {placed}" if fewer else f"{count} placed: {placed}"
        if request.grows:
            reason = (
                f"{len(decision.placement)} of {counted(request.count, 'more executor')} placed: {placed}"
            )
        if smaller := told(view, request, decision):
            reason = f"{reason}; {smaller}"
        choices, kinds = _choices(view, request, decision), estimates_by_kind(view, request, decision)
    else:
        kind, reason = "wait", decision.reason
        sight = _Sight(view, Place("", ()), request.size, request)
        candidates = sight.candidates()
        choices = (Choice(None, None, reason, candidates, len(view.vms) - len(candidates)),)
    return Explanation(view.at, request.job.id, policy, kind, reason, verdict.faults, choices, kinds)


def _by_vm(names: Sequence[str]) -> str:
    """The VMs of executors in words, each once, with how many are there where there are several anywhere."""
    counts = Counter(names)
    if len(counts) == len(names):
        return ", ".join(names)
    return ", ".join(f"{count} on {name}" for name, count in counts.items())


def _choices(view: ClusterView, request: PlacementRequest, decision: Place) -> tuple[Choice, ...]:
    sizes = request.granted(decision)
    sight, choices = _Sight(view, decision, sizes[0], request), []
    for executor, (index, size) in enumerate(zip(decision.placement, sizes, strict=True)):
        why = decision.why[executor] if executor < len(decision.why) else "the policy gave no reason"
        sight.look_for(size)
        candidates = sight.candidates(index, alone=executor >= EXECUTORS_IN_FULL)
        left_out = len(view.vms) - len(candidates)
        number, vm = request.first_number + executor, view.vms[index].name
        choices.append(Choice(number, vm, why, candidates, left_out, size))
        sight.take(index)
    return tuple(choices)


class _Sight:
    """The VMs as seen while a job's executors are placed one by one.

    Between two executors of one size one VM changes, so computed values of the others are reused.
    Invariant: `_listed` holds the first VMs of the view, none of them chosen, with the resources left by the
    executors before.
    """

    def __init__(self, view: ClusterView, place: Place, size: Resources, request: PlacementRequest) -> None:
        self._view = view
        self._place = place
        self._size = size
        self._request = request
        #: Free resources before this job, of cpus, memory and all others that it requests: [N] by name.
        self._free = {name: view.free.amounts(name) for name in dict.fromkeys((*BASIC, *request.size))}
        self._closes_some = view.closes_some(request)
        #: Executors of this job by the VM that they were placed on: their number, resources that are not
        #: subtracted yet (few VMs are looked at again), and the free resources after the others.
        self._placed: Counter[int] = Counter()
        self._taken: dict[int, list[Resources]] = {}
        self._left: dict[int, Resources] = {}
        self._listed = self._list()

    def look_for(self, size: Resources) -> None:
        """The next executor is of this size."""
        if size != self._size:
            self._size = size
            self._listed = self._list()

    def _list(self) -> list[CandidateVm]:
        self._fits = self._view.free.contains(self._size)
        return [self._candidate(i) for i in range(min(len(self._view.vms), CANDIDATES_LISTED))]

    def candidates(self, chosen: int | None = None, *, alone: bool = False) -> tuple[CandidateVm, ...]:
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
        self._taken.setdefault(index, []).append(self._size)
        self._placed[index] += 1
        if index < len(self._listed):
            self._listed[index] = self._candidate(index)

    def _withheld(self, index: int) -> str | None:
        """Why the next executor may not be placed on the VM although its resources are free there."""
        if self._view.offered is None:
            return None
        taken = self._view.free.at(index) - self._left_of(index) + self._size
        return not_offered(self._view, index, taken, self._placed[index] + 1)

    def _left_of(self, index: int) -> Resources:
        left = self._left[index] if index in self._left else self._view.free.at(index)
        if taken := self._taken.pop(index, None):
            left = self._left[index] = left - total(taken)
        return left

    def _candidate(self, index: int, *, chosen: bool = False) -> CandidateVm:
        vm, lacks = self._view.vms[index], []
        if index in self._placed or not self._fits[index]:
            left = self._left_of(index)
            free = {name: left.amount(name) for name in self._free}
            lacks = shortfalls(vm, left, self._size)
        else:
            free = {name: float(had[index]) for name, had in self._free.items()}
        said = [str(shortfall) for shortfall in lacks]
        if self._closes_some and (why := closed(self._view, index, self._request)):
            said.insert(0, why)
        elif not said and (withheld := self._withheld(index)):
            said.append(withheld)
        return CandidateVm(
            vm=vm.name,
            type=vm.type,
            free=free,
            lacks=tuple(said),
            score=self._place.scores[index] if self._place.scores else None,
            chosen=chosen,
            details={name: values[index] for name, values in self._place.details.items()} | self._boot(index),
        )

    def _boot(self, index: int) -> dict[str, float]:
        """In how many seconds the VM is ready, where VMs come and go."""
        if self._view.openings is None:
            return {}
        return {"ready in s": max(0.0, round(float(self._view.openings.ready_at[index]) - self._view.at, 1))}
