"""Makes the bodies about jobs, defined in `jobs.py`, from records; secrets are masked."""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from conf.schema import JobSpec
from conf.util.copy_fields import carried
from conf.util.secret_masking import masked_arguments, masked_text, masked_values
from daemon.core.estimate import Estimate, KeptEstimates
from daemon.core.status import LogChunk
from daemon.schemas.base import interval_body
from daemon.schemas.jobs import (
    AfterBody,
    AttemptBody,
    CameBody,
    EstimateBody,
    ExecutorBody,
    ExpectedBody,
    GaveBody,
    GroupBody,
    JobBody,
    JobDetail,
    LogBody,
    MemoryUseBody,
    MoreMemoryBody,
    ShapeBody,
    ShapeEstimateBody,
    ToldBody,
    TookBody,
)
from daemon.schemas.next_steps import next_step
from daemon.store.queries.job_groups import GroupSum
from daemon.store.rows.resource_columns import flat
from environment.model.jobs.scale_up import wanted
from environment.model.messages.records import ExecutorRecord, JobRecord, MemoryUse
from profiles.shapes.told import ShapeChoice, ShapeEstimate

Shown = TypeVar("Shown", bound=BaseModel)


def job_body(
    record: JobRecord,
    reason: str | None = None,
    place: int | None = None,
    estimate: Estimate | None = None,
    warnings: Sequence[str] = (),
) -> JobBody:
    """A job as users see it, with another reason than the record's when there is one, and its place."""
    return _job_body(JobBody, record, reason, estimate, place=place, warnings=list(warnings))


def job_detail(
    record: JobRecord,
    reason: str,
    spec: JobSpec | None,
    executors: Sequence[ExecutorRecord],
    ui: str | None = None,
    place: int | None = None,
    estimate: Estimate | None = None,
    expected: KeptEstimates | None = None,
    no_estimate: str = "",
    estimate_notes: Sequence[str] = (),
) -> JobDetail:
    """A job with everything that is known of it."""
    return _job_body(
        JobDetail,
        record,
        reason,
        estimate,
        spec=None if spec is None else masked(spec),
        tasks=[_executor_body(executor) for executor in executors],
        gave=[GaveBody(**gave._asdict()) for gave in record.gave],
        took=[TookBody(**took._asdict()) for took in record.took],
        attempts=[AttemptBody(**attempt._asdict()) for attempt in record.attempts],
        ui=ui,
        place=place,
        warnings=[],
        no_estimate=no_estimate,
        estimate_notes=list(estimate_notes),
        expected=None
        if expected is None
        else ExpectedBody(
            first=_told_body(expected.first, record),
            last=None if expected.last is None else _told_body(expected.last, record),
        ),
    )


_FILES = ("py_files", "files", "jars", "archives", "repositories")


def masked(spec: JobSpec) -> JobSpec:
    """The spec with its secrets masked: see `conf.util.secret_masking`."""
    shown = {
        "app": masked_text(spec.app),
        "args": masked_arguments(spec.args),
        "conf": masked_values(spec.conf),
        "env": masked_values(spec.env),
        **{name: tuple(map(masked_text, getattr(spec, name))) for name in _FILES},
    }
    return spec.model_copy(update=shown)


def group_body(found: GroupSum, due: float) -> GroupBody:
    """A group, with the charges of its running jobs beyond the store (`due`, dollars)."""
    return GroupBody(
        id=found.id,
        state=found.state,
        jobs=sum(found.states.values()),
        states=found.states,
        cost=found.cost + due,
        submitted_at=found.submitted_at,
        finished_at=found.finished_at,
        first_failure=None if found.failure is None else job_body(found.failure),
    )


def log_body(chunk: LogChunk) -> LogBody:
    """Part of a log."""
    return carried(LogBody, chunk)


def estimate_of(record: JobRecord, estimate: Estimate | None) -> EstimateBody | None:
    """Estimate for a job while it waits."""
    if estimate is None or record.state != "queued":
        return None
    return estimate_body(estimate)


def estimate_body(estimate: Estimate) -> EstimateBody:
    """An estimate as it is told."""
    start, end, cost = map(interval_body, (estimate.start, estimate.end, estimate.cost))
    return EstimateBody(at=estimate.at, start=start, end=end, cost=cost)


def _told_body(estimate: Estimate, record: JobRecord) -> ToldBody:
    came = estimate.came(record)
    return ToldBody(
        **dict(estimate_body(estimate)), came=CameBody(start=came.start, end=came.end, cost=came.cost)
    )


def _job_body(
    body: type[Shown], record: JobRecord, reason: str | None, estimate: Estimate | None, **others: Any
) -> Shown:
    job = record.job
    return carried(
        body,
        job,
        record,
        name=job.name or job.id,
        after=[AfterBody(job=one.job, name=one.name, when=one.when) for one in job.after],
        labels=dict(job.labels),
        reason=record.reason if reason is None else reason,
        next_step=next_step(job.id, record.state, record.reason),
        min_executors=job.fewest if job.dynamic is None else job.dynamic.min,
        min_cpus=job.cpus if job.min_cpus is None else job.min_cpus,
        wanted_executors=None if job.dynamic is None else sum(asked.total for asked in wanted(record)),
        **flat(job.size),
        duration=_between(record.started_at, record.finished_at),
        completion=_between(job.submitted_at, record.finished_at),
        estimate=estimate_of(record, estimate),
        shape=shape_body(job.shape),
        more_memory=None if record.more_memory is None else MoreMemoryBody(**record.more_memory._asdict()),
        memory_use=None if record.memory_use is None else _memory_use_body(record.memory_use),
        **others,
    )


def _memory_use_body(use: MemoryUse) -> MemoryUseBody:
    return MemoryUseBody(
        peak_mib=use.peak.total_mib,
        **use.peak._asdict(),
        paid_mib_seconds=use.paid,
        reported_mib_seconds=use.reported,
        used_mib_seconds=use.used,
    )


def shape_body(choice: ShapeChoice | None) -> ShapeBody | None:
    """How a job's size was chosen, with the estimates beside it; None where its user set all of it."""
    if choice is None:
        return None
    estimates = {name: _shape_estimate(getattr(choice, name)) for name in ("taken", "smaller", "larger")}
    return carried(ShapeBody, choice, fields=list(choice.fields), **estimates)


def _shape_estimate(of: ShapeEstimate | None) -> ShapeEstimateBody | None:
    if of is None:
        return None
    dollars, *between = of.dollars
    return carried(
        ShapeEstimateBody,
        of,
        seconds_between=(of.least, of.most),
        dollars=dollars,
        dollars_between=tuple(between),
    )


def _executor_body(record: ExecutorRecord) -> ExecutorBody:
    return carried(ExecutorBody, record, vm=record.vm_name, **flat(record.resources))


def _between(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else end - begin
