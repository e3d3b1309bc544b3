"""Bodies of the HTTP API that explain the state of jobs, and the functions that make them.

Times are seconds since the epoch, memory is MiB. `environment.decisions.explain` defines the explanations.
"""

from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Any

from pydantic import BeforeValidator

from conf.util.copy_fields import carried
from daemon.schemas.base import Body, Said
from daemon.schemas.job_bodies import shape_body
from daemon.schemas.jobs import EstimateBody, GaveBody, ShapeBody, TookBody
from daemon.store.rows.resource_columns import flat, flat_free
from environment.decisions.explain import CandidateVm, Choice, Explanation
from environment.model.messages.records import JobRecord
from environment.model.messages.states import JobState


def _finite(value: Any) -> Any:
    """None for infinity, which JSON lacks: a VM that a policy cannot choose has no score."""
    return value if value is None or isfinite(value) else None


Score = Annotated[float | None, BeforeValidator(_finite)]


class CandidateBody(Body):
    """A VM that was considered."""

    vm: Said
    """The VM's name."""
    type: Said
    """The VM's type."""
    free_cpus: float
    """Cores that were free on it."""
    free_memory_mib: int
    """Memory that was free on it, MiB."""
    free_resources: dict[str, float]
    """Its other free resources, by name."""
    lacks: list[Said]
    """Its missing resources for the executor, in words; empty where it fits."""
    score: Score
    """The policy's score of the VM; higher is better."""
    chosen: bool
    """Whether the executor was placed there."""
    details: dict[str, Score]
    """More numbers of the policy, by name."""


class ChoiceBody(Body):
    """The choice for one executor, or for the whole job."""

    executor: int | None
    """The executor's number; null for the whole job."""
    vm: Said | None
    """The chosen VM's name; null without a choice."""
    cpus: float | None
    """Cores of the executor there."""
    memory_mib: int | None
    """Memory of the executor there, MiB."""
    resources: dict[str, float]
    """Other resources of the executor there, by name."""
    why: Said
    """Reason for the VM, in words."""
    candidates: list[CandidateBody]
    """VMs that were considered, including the chosen ones."""
    candidates_left_out: int
    """Number of further VMs that were considered."""


class KindBody(Body):
    """Estimate for the job's executors on VMs of one kind, or as they were placed."""

    types: list[Said]
    """The types of its VMs: one, but for the placement itself."""
    placed: bool
    """Whether it is the placement that was decided."""
    room: int
    """Number of the decision's executors that fit."""
    vms: int
    """Number of its VMs."""
    spot: int
    """Number of these that are spot VMs."""
    opens: int
    """Number of these that were yet to be opened."""
    ready_in: float
    """Seconds until all of its VMs are ready."""
    seconds: float | None
    """Expected seconds of the job from then on; null where not all fit, or its duration is not known."""
    dollars: float | None
    """Dollars for which its VMs are held longer for the job; null likewise."""


class DecisionBody(Body):
    """One decision about the job."""

    at: float
    """Time of the decision, seconds since the epoch."""
    policy: Said
    """The policy that decided."""
    decision: Said
    """The decision."""
    reason: Said
    """The decision in words."""
    faults: list[Said]
    """Reasons why other policies' decisions were not accepted."""
    choices: list[ChoiceBody]
    """A choice for each executor, or one for the whole job."""
    kinds: list[KindBody]
    """Estimates of a new job's placement, and then of the kinds of VM, the cheapest first."""


class ExplanationBody(Body):
    """Reasons for a job's placement or wait."""

    id: str
    """The job."""
    state: JobState
    """Its state."""
    reason: Said
    """Reason for the state, in words."""
    queue: Said
    """Queue of the job."""
    priority: int
    """Its priority, where the order is by priority; higher runs earlier."""
    deadline: float | None
    """Its deadline, seconds since the epoch; null: none."""
    place: int | None
    """Number of jobs before it in the order; null where it does not wait, or where the number is unknown."""
    estimate: EstimateBody | None
    """Its expected start, end and cost; null where it does not wait, or without an estimate."""
    no_estimate: Said
    """Why a waiting job has no estimate; empty with an estimate, or where none is due."""
    shape: ShapeBody | None
    """How its size was chosen; null where its user left nothing of it to Stoker."""
    gave: list[GaveBody]
    """Its preemptions by other jobs; the last hundred."""
    took: list[TookBody]
    """Its preemptions of other jobs; the last hundred."""
    explanations: list[DecisionBody]
    """The stored decisions on the job, oldest first."""


def explanation_body(
    record: JobRecord,
    reason: str,
    explanations: Sequence[Explanation],
    place: int | None = None,
    estimate: EstimateBody | None = None,
    no_estimate: str = "",
) -> ExplanationBody:
    """All decisions about a job."""
    decisions = [_decision_body(explanation) for explanation in explanations]
    return carried(
        ExplanationBody,
        record,
        record.job,
        reason=reason,
        place=place,
        estimate=estimate,
        no_estimate=no_estimate,
        shape=shape_body(record.job.shape),
        gave=[GaveBody(**gave._asdict()) for gave in record.gave],
        took=[TookBody(**took._asdict()) for took in record.took],
        explanations=decisions,
    )


def _decision_body(explanation: Explanation) -> DecisionBody:
    choices = [_choice_body(choice) for choice in explanation.choices]
    kinds = [carried(KindBody, kind, types=list(kind.types)) for kind in explanation.kinds]
    return carried(DecisionBody, explanation, faults=list(explanation.faults), choices=choices, kinds=kinds)


def _choice_body(choice: Choice) -> ChoiceBody:
    candidates = [_candidate_body(candidate) for candidate in choice.candidates]
    return carried(ChoiceBody, choice, candidates=candidates, **flat(choice.size))


def _candidate_body(candidate: CandidateVm) -> CandidateBody:
    lacks, details = list(candidate.lacks), dict(candidate.details)
    return carried(CandidateBody, candidate, lacks=lacks, details=details, **flat_free(candidate.free))
