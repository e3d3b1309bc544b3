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
    """Length of the period, in hours until now."""
    limit: Annotated[int, Field(ge=1, le=10_000)] = 4000
    """Maximum number of tasks, newest first."""


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
    """Its state."""
    launched_at: float
    """When it was launched and began to hold resources, seconds since the epoch."""
    running_at: float | None
    """When it started to run, seconds since the epoch."""
    ended_at: float | None
    """When it ended."""


class TimelineJob(Body):
    """A job with tasks."""

    id: str
    """Its id."""
    name: Said
    """Its name."""
    type: Said
    """Its type."""
    state: JobState
    """Its state."""


class TimelineDecision(Body):
    """A decision about a job."""

    at: float
    """Time of the decision, seconds since the epoch."""
    job_id: str
    """Id of the job."""
    policy: Said
    """The policy or fallback that decided."""
    decision: Said
    """The decision."""
    reason: Said
    """The decision in words."""
    faults: list[Said]
    """Reasons why other policies' decisions were rejected; with any, the fallback decided."""


class TimelineBody(Body):
    """Events on the VMs in the last hours."""

    since: float
    """Start of the period, seconds since the epoch."""
    until: float
    """Now, seconds since the epoch."""
    tasks: list[TimelineTask]
    """Newest first."""
    jobs: list[TimelineJob]
    """Jobs of the tasks."""
    decisions: list[TimelineDecision]
    """Newest first."""
    left_out: bool
    """Whether tasks were left out by the limit."""


class TodayBody(Body):
    """Cost of VMs today (UTC), beside the cost under other ways of charging."""

    day: str
    """Today, such as 2026-11-22."""
    since: float
    """Start of today's costs, seconds since the epoch: midnight, or the first VM or job after it."""
    until: float
    """Now, seconds since the epoch."""
    paid: BillLine
    """The billed amount: cost of VMs from opened to closed."""
    held: float
    """Cost of jobs today by equation 4 of Islam 2022, where a VM costs while it holds an executor. The cost
    of a task that ran over midnight is divided by time."""
    fixed: float
    """Cost of all possible VMs, open all the time, whether or not a daemon ran."""
    fixed_per_hour: float
    """Their price per hour."""
    elastic: bool
    """Whether VMs open and close; if not, no policy changes the bill."""


class SessionWish(DocumentedModel):
    """Start of a session."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    token: Annotated[str, Field(min_length=1, max_length=4096, repr=False)]
    """A token, as for the header Authorization."""


class SessionBody(Body):
    """A session, which authenticates a browser without a token."""

    name: Said
    """The session's user; empty for the daemon's own token, or where no authentication is required."""
    role: Role
    """Role of the user."""
    seconds: float | None
    """Lifetime of the session in seconds; null where no session is needed."""


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
