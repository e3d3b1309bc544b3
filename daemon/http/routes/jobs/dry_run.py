"""The route that tries a submission: the reason for a rejection, or the VM, time and price of a run.

It changes nothing. `submission/admission.py` checks the job; `what_if/what_if.py` plays the queue with one
job more. The answer holds whether or not there is time to play.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import FastAPI, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from conf.schema import JobSpec
from conf.uploaded_file import SHA256
from daemon.auth.permits import Permit, permit_of
from daemon.core.errors import RejectedError
from daemon.core.estimate import Estimate
from daemon.http.routes.jobs.submissions import PATH, Login
from daemon.http.server.scheduler_interface import Leadership, Scheduler
from daemon.schemas.base import Body, Said
from daemon.schemas.job_bodies import job_body
from daemon.schemas.jobs import JobBody
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import SubmittedSpec
from daemon.what_if.cases import Case, Present, always
from daemon.what_if.what_if import JobForecast, PolicyAhead
from environment.dependencies import After
from environment.model.messages.records import JobRecord
from environment.simulation.durations.prediction_intervals import Interval
from environment.simulation.forecast.outlook import FollowedJobs
from environment.types import Job

#: Draws as of estimates, and for how many seconds they are made at most.
_DRAWS, _SECONDS = 20, 4.0
#: Files that are looked at: so many are in the query of a URL.
_MOST_FILES = 200


class DryRunQuery(BaseModel):
    """Parameters beside the body."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    send: Annotated[
        list[Annotated[str, Field(pattern=rf"^{SHA256}:[0-9]{{1,15}}$")]], Field(max_length=_MOST_FILES)
    ] = []
    """Files that will be uploaded before the submission, and may be missing now: SHA256:BYTES."""


class PlacedBody(Body):
    """A VM on which executors would be placed."""

    vm: Said
    """Its name."""
    type: Said
    """Its type at the provider."""
    executors: int
    """Number of the job's executors there."""
    price_per_hour: float
    """Price of the whole VM, dollars per hour."""
    opens: bool
    """Whether a pool would open it for this job, so that it has to boot first."""


class DryRunBody(Body):
    """Forecast of a submission that was not made: the job would be accepted."""

    job: JobBody
    """The job as it would be, the first of an array, without an id; with the number of jobs that would be
    placed before it, the reason why it would wait now, and the estimate, of all jobs of an array as one."""
    placement: list[PlacedBody]
    """Placement of its executors now; empty where it would wait, or where the placement is unknown."""
    dollars_per_hour: float | None
    """Cost of the executors there: their shares of the VMs' prices, dollars per hour."""
    late: bool
    """Whether it would end after its deadline in most draws."""
    policy: Said
    """The acting policy."""
    draws: int
    """Number of simulations behind the estimate."""
    no_estimate: Said
    """Why there is no estimate of its start; else empty."""
    assumes: list[Said]
    """The assumptions of the estimate, in words."""


def add_dry_run(app: FastAPI, leadership: Leadership, store: Store) -> None:
    """Add it."""

    @app.post(f"{PATH}/dry-run")
    def dry_run(
        request: Request, spec: JobSpec, query: Annotated[DryRunQuery, Query()], stoker_login: Login = ""
    ) -> DryRunBody:
        """Check a job as if it were submitted, and forecast its run; changes nothing.

        A job that a submission would reject is rejected with the same error.
        """
        permit = permit_of(request)
        admitted, submitter = permit.admit(spec, stoker_login)
        sends = {sha256: int(size) for sha256, _, size in (each.partition(":") for each in query.send)}
        scheduler = leadership.leader()
        jobs = scheduler.trial(SubmittedSpec(admitted, submitter=submitter), sends)
        return _answer(scheduler, store, jobs, permit)


def _answer(scheduler: Scheduler, store: Store, jobs: Sequence[Job], permit: Permit) -> DryRunBody:
    job, acting = jobs[0], scheduler.policy()
    why = _would_not_run(job.after, {})
    present, ahead = None, None
    if not why:
        try:
            present, (ahead,) = scheduler.foresight.ask(
                [(acting.name, dict(acting.options))],
                draws=_DRAWS,
                seconds=_SECONDS,
                cases=[Case(joining=tuple(jobs))],
                who=permit.person.name,
            )
        except RejectedError as error:
            why = error.detail
    if present is not None and (why := _not_played(job, present, store)):
        present, ahead = None, None
    if ahead is not None and not ahead.followed:
        why = ahead.failure or _never(jobs, ahead)
    mine = {after.job for after in job.after}

    def told(text: str) -> str:
        return permit.told(text.replace(job.id, "it"), mine)

    followed = () if ahead is None else ahead.followed
    first = followed[0] if followed else None
    reason, before = ("", None) if first is None else (told(first.why), first.before)
    if first is not None and (held := _held(job)):
        reason, before = told(held), None
    record = JobRecord(replace(job, id="", array=""))
    estimate = None if present is None or not followed else _estimate(scheduler, job, present, followed)
    return DryRunBody(
        job=job_body(record, reason, before, estimate, scheduler.warnings(job.type)),
        placement=[] if present is None or first is None else _placement(present, first),
        dollars_per_hour=first.dollars_per_hour if first is not None and first.vms else None,
        late=present is not None and _late(job, present, followed),
        policy=acting.name,
        draws=len(followed),
        no_estimate=told(why),
        assumes=[] if present is None or not followed else [*map(told, _assumed(jobs, present))],
    )


def _would_not_run(comes_after: Sequence[After], ends: Mapping[str, str]) -> str:
    """Why the job would never run: how its predecessors ended (`ends`, for single jobs); empty otherwise."""
    for after in comes_after:
        if after.when == "success":
            ended = [after.ended, *(ends.get(job_id, "") for job_id in after.jobs)]
            if bad := [state for state in ended if state not in ("", "finished")]:
                how = "was killed" if bad[0] == "killed" else bad[0]
                return f"it would not run: it comes after {after}, which {how}"
    return ""


def _not_played(job: Job, present: Present, store: Store) -> str:
    """Why the forecast would be wrong: predecessors of the job are missing from it; empty otherwise."""
    view = present.view
    there = {request.job.id for request in present.queue}
    there |= {each.job.id for each in view.running if any(vm in view.index for vm in each.vm_ids)}
    unknown = {job_id: after for after in _open(job) for job_id in after.jobs if job_id not in there}
    if not unknown:
        return ""
    ends = store.jobs.ends_of([*unknown])
    if why := _would_not_run(job.after, ends):
        return why
    left = [(job_id, after) for job_id, after in unknown.items() if job_id not in ends]
    if not left:
        return ""
    job_id, after = left[0]
    which = "which" if job_id == after.job else f"of which {job_id}"
    return f"it comes after {after}, {which} is not simulated: something else holds it, or it is far behind"


def _open(job: Job) -> list[After]:
    return [after for after in job.after if not after.ended]


def _held(job: Job) -> str:
    """The reason that the job cannot wait for its turn yet; empty where there is none."""
    if still := _open(job):
        which = " and ".join(map(str, still))
        return f"it comes after {which}, which {'has' if len(still) == 1 else 'have'} not ended"
    return "it begins no earlier than its start_at" if _comes_later(job) else ""


def _never(jobs: Sequence[Job], ahead: PolicyAhead) -> str:
    whys = (ahead.never[job.id] for job in jobs if job.id in ahead.never)
    return f"it would not run: {next(whys, 'it did not run in any draw')}"


def _estimate(scheduler: Scheduler, job: Job, present: Present, followed: Sequence[FollowedJobs]) -> Estimate:
    """Estimate for the job, as for waiting jobs: seconds since the epoch."""
    draws = [each.ahead for each in followed]
    starts, ends, costs = ([getattr(draw, name) for draw in draws] for name in ("start", "end", "cost"))
    drawn = JobForecast(Interval.of(starts), Interval.of(ends), Interval.of(costs), len(draws))
    told, at = scheduler.mended(drawn), present.view.at
    start, end = told.start.later(at), told.end.later(at)
    if job.start_at is not None:  # which widening knows nothing of
        start = replace(start, low=max(start.low, job.start_at), high=max(start.high, job.start_at))
        end = replace(end, low=max(end.low, start.low), high=max(end.high, start.high))
    return Estimate(at, start, end, told.cost, len(draws))


def _comes_later(job: Job) -> bool:
    return job.start_at is not None and job.start_at > job.submitted_at


def _late(job: Job, present: Present, followed: Sequence[FollowedJobs]) -> bool:
    if job.deadline is None:
        return False
    due = job.deadline - present.view.at
    return 2 * sum(each.ahead.end > due for each in followed) > len(followed)


def _placement(present: Present, first: FollowedJobs) -> list[PlacedBody]:
    view, placed = present.view, []
    for vm_id, number in Counter(first.vms).items():
        at = view.index[vm_id]
        vm, openings = view.vms[at], view.openings
        opens = openings is not None and not bool(openings.open[at])
        placed.append(
            PlacedBody(
                vm=vm.name, type=vm.type, executors=number, price_per_hour=vm.price_per_hour, opens=opens
            )
        )
    return placed


def _assumed(jobs: Sequence[Job], present: Present) -> list[str]:
    job, more = jobs[0], []
    if job.expected_duration is None:
        more.append(f"durations of jobs of type {job.type} are unknown and guessed")
    if any(after.when == "success" for after in _open(job)):
        more.append("its dependencies finish: it would not run if one failed")
    if job.at_most is not None and job.at_most < len(jobs):
        run = "job of its array runs" if job.at_most == 1 else "jobs of its array run"
        more.append(f"{job.at_most} {run} at once (at_most), then the next")
    if _comes_later(job):
        more.append("at its start the same jobs run and wait as now, unless they have ended")
    if job.driver is not None:
        more.append("its driver on the cluster takes no resources")
    if present.others:
        number = present.others
        whom = "1 job that waits" if number == 1 else f"{number} jobs that wait"
        more.append(f"{whom} more, paused, held by a limit or far behind, are not simulated")
    return [*always(present), *more]
