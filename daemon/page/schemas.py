"""The bodies of the HTTP API's answers about the last hours, today's bill and sessions.

Times are seconds since the epoch, money is dollars.
"""

from typing import Annotated

from pydantic import ConfigDict, Field

from conf.schema.documented_model import DocumentedModel
from conf.schema.users import Role
from conf.util.copy_fields import carried
from daemon.schemas.base import Body, Said
from daemon.schemas.bill import BillLine
from daemon.schemas.queries import Query
from daemon.store.queries.recent_activity import RecentActivity
from environment.decisions.explain import Explanation
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.model.messages.states import ExecutorState, JobState

#: Decisions that are told of at most.
MOST_DECISIONS = 200


class TimelineQuery(Query):
    """How far back, and how much at most."""

    hours: Annotated[float, Field(gt=0, le=48, allow_inf_nan=False)] = 3.0
    """So many hours until now."""
    limit: Annotated[int, Field(ge=1, le=10_000)] = 4000
    """So many tasks at most, the newest."""


class TimelineTask(Body):
    """A task on a VM, for one job."""

    task_id: Said
    """The task's id in Mesos."""
    job_id: str
    """Its job."""
    vm: Said
    """The VM's name."""
    vm_type: Said
    """The VM's type."""
    state: ExecutorState
    """How far it is."""
    launched_at: float
    """Since when it holds something."""
    running_at: float | None
    """Since when it ran."""
    ended_at: float | None
    """When it ended."""


class TimelineJob(Body):
    """A job of which there are tasks."""

    id: str
    """Its id."""
    name: Said
    """What it is called."""
    type: Said
    """Of which kind it is."""
    state: JobState
    """How far it is."""


class TimelineDecision(Body):
    """A decision about a job."""

    at: float
    """When it was taken."""
    job_id: str
    """About which."""
    policy: Said
    """The policy or the fallback, whichever decided."""
    decision: Said
    """The decision."""
    reason: Said
    """The decision in words."""
    faults: list[Said]
    """Why others' decisions were not taken: with any, the fallback decided."""


class TimelineBody(Body):
    """Events on the VMs in the last hours."""

    since: float
    """From when."""
    until: float
    """Until now."""
    tasks: list[TimelineTask]
    """The newest first."""
    jobs: list[TimelineJob]
    """Theirs."""
    decisions: list[TimelineDecision]
    """The newest first."""
    left_out: bool
    """Whether there are more tasks than were asked for."""


class TodayBody(Body):
    """Cost of VMs today (UTC), beside the cost under other ways of charging."""

    day: str
    """Today, such as 2026-11-22."""
    since: float
    """From when today anything could be paid for: midnight, or when the first VM or job came."""
    until: float
    """Until now."""
    paid: BillLine
    """Cost of VMs from opened to closed."""
    held: float
    """Cost of jobs today by equation 4 of Islam 2022, where a VM costs while it holds an executor. Of a task
    that ran on at midnight, the cost is divided by time."""
    fixed: float
    """Cost of all possible VMs, open all the time, whether or not a daemon ran."""
    fixed_per_hour: float
    """Their price per hour."""
    elastic: bool
    """Whether any VM is opened or closed. Where none is, no policy changes the bill."""


class SessionWish(DocumentedModel):
    """Start of a session."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    token: Annotated[str, Field(min_length=1, max_length=4096, repr=False)]
    """A token, as for the header Authorization."""


class SessionBody(Body):
    """A session, by which a browser is known without a token."""

    name: Said
    """The session's user; empty for the daemon's own token, or where no authentication is required."""
    role: Role
    """Role of the user."""
    seconds: float | None
    """For how long it lasts; null where none is needed."""


def timeline_body(found: RecentActivity, since: float, until: float) -> TimelineBody:
    """The answer for the found activity."""
    return TimelineBody(
        since=since,
        until=until,
        tasks=[_task(task) for task in found.tasks],
        jobs=[_job(record) for record in found.jobs],
        decisions=[_decision(one) for one in found.decisions],
        left_out=found.left_out,
    )


def _task(task: ExecutorRecord) -> TimelineTask:
    return carried(TimelineTask, task, vm=task.vm_name)


def _job(record: JobRecord) -> TimelineJob:
    job = record.job
    return TimelineJob(id=job.id, name=job.name or job.id, type=job.type, state=record.state)


def _decision(one: Explanation) -> TimelineDecision:
    return carried(TimelineDecision, one, faults=list(one.faults))
