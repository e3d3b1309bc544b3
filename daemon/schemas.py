"""The bodies of the HTTP API's answers, and how they are made from records.

Times are seconds since the epoch, money is dollars, memory MiB. What users submit is `conf.schema.JobSpec`,
bodies about policies are in `policy_schemas`.
"""

from collections.abc import Collection, Sequence
from math import isfinite
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from conf.masking import masked_arguments, masked_text, masked_urls, masked_values
from conf.schema import JobSpec
from daemon.contract import Health, LogChunk, VmStatus
from daemon.problems import printable
from environment.explain import Candidate, Choice, Explanation
from environment.model.records import ExecutorRecord, JobRecord
from environment.model.states import ExecutorState, JobState

#: Bytes (8 TiB): the systems on which logs are kept read nothing beyond 16 TiB, and refuse to be asked.
LONGEST_LOG = 1 << 43


def _finite(value: Any) -> Any:
    """JSON has no infinity: what a policy cannot choose at all has no score."""
    return value if value is None or isfinite(value) else None


Printed = Annotated[str, BeforeValidator(printable)]
Said = Annotated[Printed, BeforeValidator(masked_urls)]
Score = Annotated[float | None, BeforeValidator(_finite)]
JobId = Annotated[str, Field(pattern=r"^job-[1-9][0-9]{0,17}$")]


class Query(BaseModel):
    """Query parameters; one that is not known is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JobsQuery(Query):
    """Which jobs to list: of these states, and those submitted before this one."""

    state: list[JobState] = []
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    before: JobId | None = None


class LogQuery(Query):
    """Which part of which log; without an executor's number, the driver's."""

    executor: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    stream: Literal["stdout", "stderr"] = "stdout"
    offset: Annotated[int, Field(ge=0, le=LONGEST_LOG)] = 0
    limit: Annotated[int, Field(ge=4, le=1 << 20)] = 1 << 16


class Body(BaseModel):
    """Part of an answer."""

    model_config = ConfigDict(frozen=True)


class JobBody(Body):
    """A job: what it asks for, and what became of it.

    `min_executors` equals `executors` where it runs on all of them only, `resources` is what an executor
    takes beside cpus and memory. Duration is from start to finish, completion from submission to finish.
    """

    id: str
    name: Said
    type: Said
    state: JobState
    reason: Said
    executors: int
    min_executors: int
    cpus: float
    memory_mib: int
    resources: dict[str, float]
    submitted_at: float
    placed_at: float | None
    started_at: float | None
    finished_at: float | None
    duration: float | None
    completion: float | None
    cost: float
    exit_code: int | None
    losses: int


class ExecutorBody(Body):
    """An executor, or the driver when it runs on the cluster (`number` is null)."""

    number: int | None
    task_id: Said
    vm: Said
    vm_type: Said
    price_per_hour: float
    state: ExecutorState
    cpus: float
    memory_mib: int
    resources: dict[str, float]
    launched_at: float
    running_at: float | None
    ended_at: float | None
    cost: float
    message: Said


class JobDetail(JobBody):
    """A job with what was submitted (values that look secret are masked) and all its executors.

    `ui` is the path of the Spark UI of its driver, while that runs.
    """

    spec: JobSpec | None
    tasks: list[ExecutorBody]
    ui: str | None = None


class JobList(Body):
    """Jobs, the newest first; `next` is the `before` of the next page, if there is one."""

    jobs: list[JobBody]
    next: str | None


class CandidateBody(Body):
    """A VM that was looked at; `score` is the policy's own, higher is better, `details` more by name."""

    vm: Said
    type: Said
    free_cpus: float
    free_memory_mib: int
    free_resources: dict[str, float]
    lacks: list[Said]
    score: Score
    chosen: bool
    details: dict[str, Score]


class ChoiceBody(Body):
    """The choice for one executor, and what it takes; or for the whole job (`executor` is null)."""

    executor: int | None
    vm: Said | None
    cpus: float | None
    memory_mib: int | None
    resources: dict[str, float]
    why: Said
    candidates: list[CandidateBody]
    candidates_left_out: int


class DecisionBody(Body):
    """One decision about the job; `faults` say why other policies' decisions were not taken."""

    at: float
    policy: Said
    decision: Said
    reason: Said
    faults: list[Said]
    choices: list[ChoiceBody]


class ExplanationBody(Body):
    """Why a job's executors are where they are, or why it waits."""

    id: str
    state: JobState
    reason: Said
    explanations: list[DecisionBody]


class LogBody(Body):
    """Part of a log; `next_offset` (bytes) is where the next part begins, `complete` that none can follow."""

    text: Printed
    next_offset: int
    complete: bool


class VmBody(Body):
    """A VM, and which tasks hold how much of it."""

    id: Said
    name: Said
    type: Said
    address: Said
    cpus: float
    memory_mib: int
    resources: dict[str, float]
    price_per_hour: float
    used_cpus: float
    used_memory_mib: int
    used_resources: dict[str, float]
    executors: list[Said]
    note: Said


class ClusterBody(Body):
    """All VMs that are there."""

    vms: list[VmBody]


class HealthBody(Body):
    """Whether jobs can be scheduled now, and each check in words."""

    ready: bool
    checks: dict[str, Said]


class AliveBody(Body):
    """That the server answers."""

    status: Literal["ok"]
    version: str


class IndexBody(Body):
    """Where to go from here."""

    name: str
    version: str
    links: dict[str, str]


def job_body(record: JobRecord, reason: str | None = None) -> JobBody:
    """A job as users see it, with another reason than the record's when there is one."""
    return JobBody(**_job_fields(record, reason))


def job_detail(
    record: JobRecord,
    reason: str,
    spec: JobSpec | None,
    executors: Sequence[ExecutorRecord],
    ui: str | None = None,
) -> JobDetail:
    """A job with everything that is known of it."""
    return JobDetail(
        **_job_fields(record, reason),
        spec=None if spec is None else masked(spec),
        tasks=[_executor_body(executor) for executor in executors],
        ui=ui,
    )


def masked(spec: JobSpec) -> JobSpec:
    """The spec without what is nobody's business: see `conf.masking`."""
    shown = {
        "app": masked_text(spec.app),
        "args": masked_arguments(spec.args),
        "conf": masked_values(spec.conf),
        "env": masked_values(spec.env),
        **{name: tuple(map(masked_text, getattr(spec, name))) for name in ("py_files", "files", "jars")},
    }
    return spec.model_copy(update=shown)


def explanation_body(record: JobRecord, reason: str, explanations: Sequence[Explanation]) -> ExplanationBody:
    """All decisions about a job."""
    decisions = [_decision_body(explanation) for explanation in explanations]
    return ExplanationBody(id=record.job.id, state=record.state, reason=reason, explanations=decisions)


def cluster_body(vms: Collection[VmStatus]) -> ClusterBody:
    """All VMs."""
    return ClusterBody(vms=[VmBody(**fields_of(vm, VmBody, executors=list(vm.executors))) for vm in vms])


def log_body(chunk: LogChunk) -> LogBody:
    """Part of a log."""
    return LogBody(**fields_of(chunk, LogBody))


def health_body(health: Health) -> HealthBody:
    """The checks."""
    return HealthBody(ready=health.ready, checks=dict(health.checks))


def _job_fields(record: JobRecord, reason: str | None) -> dict[str, Any]:
    job = record.job
    return {
        "id": job.id,
        "name": job.name or job.id,
        "type": job.type,
        "state": record.state,
        "reason": record.reason if reason is None else reason,
        "executors": job.executors,
        "min_executors": job.fewest,
        "cpus": job.cpus,
        "memory_mib": job.memory_mib,
        "resources": dict(job.resources),
        "submitted_at": job.submitted_at,
        "placed_at": record.placed_at,
        "started_at": record.started_at,
        "finished_at": record.finished_at,
        "duration": _between(record.started_at, record.finished_at),
        "completion": _between(job.submitted_at, record.finished_at),
        "cost": record.cost,
        "exit_code": record.exit_code,
        "losses": record.losses,
    }


def _executor_body(record: ExecutorRecord) -> ExecutorBody:
    return ExecutorBody(**fields_of(record, ExecutorBody, vm=record.vm_name))


def _decision_body(explanation: Explanation) -> DecisionBody:
    choices = [_choice_body(choice) for choice in explanation.choices]
    return DecisionBody(
        **fields_of(explanation, DecisionBody, faults=list(explanation.faults), choices=choices)
    )


def _choice_body(choice: Choice) -> ChoiceBody:
    candidates = [_candidate_body(candidate) for candidate in choice.candidates]
    return ChoiceBody(**fields_of(choice, ChoiceBody, candidates=candidates))


def _candidate_body(candidate: Candidate) -> CandidateBody:
    return CandidateBody(
        **fields_of(candidate, CandidateBody, lacks=list(candidate.lacks), details=dict(candidate.details))
    )


def fields_of(record: object, body: type[BaseModel], **instead: Any) -> dict[str, Any]:
    """The body's fields that the record has under the same name, but for those given."""
    same = {name: getattr(record, name) for name in body.model_fields if name not in instead}
    return same | instead


def _between(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else end - begin
