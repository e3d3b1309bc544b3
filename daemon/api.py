"""The HTTP API: what can be asked under /v1, and what operators ask.

A route asks the scheduler or the store and answers with a body of `schemas.py` or a module beside it. Who may
ask is in `gate.py`, what is answered when something is wrong in `problems.py`.
"""

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Annotated
from urllib.parse import quote

from fastapi import FastAPI, Path, Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from agents.registry import list_policies
from conf.schema import Driver, JobSpec, PolicyChoice, Spark
from conf.schema.users import UsersSection
from daemon import (
    bill_schemas,
    cluster_schemas,
    explanation_schemas,
    job_bodies,
    job_schemas,
    policy_schemas,
    queries,
)
from daemon.application_routes import add_applications
from daemon.audit import Audit
from daemon.bill_rows import Asked
from daemon.contract import WITH_DRIVER, PolicyStatus, RejectedError, Scheduler
from daemon.description import describe
from daemon.event_routes import add_events
from daemon.file_routes import add_files
from daemon.foresight.dry_run import add_dry_run
from daemon.foresight.expected import notes_of
from daemon.foresight.routes import add_foresight
from daemon.gate import Gate
from daemon.groups import GroupSum
from daemon.metrics import Metrics
from daemon.page.routes import add_page
from daemon.problems import handle_problems
from daemon.queues.routes import add_queues
from daemon.reasons import told_of
from daemon.shadow_comparison import report
from daemon.spark_protocol import SparkErrors
from daemon.spark_rest import add_spark_rest, version_teller
from daemon.spark_ui import SparkUi
from daemon.store import Store
from daemon.submissions import PATH, IdempotencyKey, Login, ShortWay, Submissions
from daemon.tables import OPEN_JOB
from daemon.users.directory import Directory
from daemon.users.doorkeeper import Doorkeeper
from daemon.users.entrance import Entrance
from daemon.users.permissions import Permissions
from daemon.users.permits import Permit, no_such_job, permit_of
from daemon.users.sessions import Sessions
from daemon.users.user_routes import add_users
from daemon.vm_routes import add_vms
from daemon.webhooks.routes import add_webhooks
from environment.model.records import ExecutorRecord, JobRecord
from framework.guard import Guard
from framework.spark import SparkHomes

#: Jobs of one user whose executors are shown on VMs.
MOST_SHOWN = 10_000
#: A group in a path.
GroupName = Annotated[str, Path(description="The group's name, or an array's id, such as array-12.")]
#: Where to go from `/`.
_LINKS = {"jobs": "/v1/jobs", "cluster": "/v1/cluster", "policy": "/v1/policy", "api": "/openapi.json"}
#: A job in a path.
JobName = Annotated[str, Path(description="The job's id, such as job-17.")]


def create_app(
    scheduler: Scheduler,
    store: Store,
    *,
    token: str | None,
    version: str,
    hosts: Collection[str] = (),
    max_requests: int = 200,
    audit: Audit | None = None,
    homes: SparkHomes | None = None,
    driver: Driver | None = None,
    users: UsersSection | None = None,
    directory: Directory | None = None,
) -> FastAPI:
    """The API as an ASGI app, which answers so many requests at once and no more.

    Without a token and users, only requests for localhost, a loopback address or one of `hosts` are answered.
    `homes` are the Sparks that are served, those of this host unless given; `driver` is what the config says
    of them, `users` what it says of users, who are in the `directory` then.
    """
    homes = homes or SparkHomes(Spark(), os.environ)
    app = FastAPI(
        title="Stoker",
        summary="Places the executors of Apache Spark jobs on cloud VMs",
        version=version,
        docs_url=None,  # its page loads scripts from elsewhere: ours is among the page's files
        redoc_url=None,
        redirect_slashes=False,
    )
    doorkeeper = Doorkeeper(token, directory, None if users is None else users.header)
    metrics = Metrics(scheduler, store, lambda: doorkeeper.failed)
    submissions = Submissions(scheduler)
    _add_submissions(app, submissions)
    _add_jobs(app, scheduler, store)
    add_events(app, store)
    add_files(app, scheduler, store)
    add_applications(app, scheduler)
    add_vms(app, scheduler)
    add_foresight(app, scheduler, store)
    add_dry_run(app, scheduler, store)
    add_queues(app, scheduler)
    add_webhooks(app, scheduler)
    _add_cluster(app, scheduler, store)
    _add_policy(app, scheduler, store)
    add_spark_rest(app, scheduler, store, homes, driver or Driver())
    add_users(app, directory, users, lambda paths: scheduler.queues.check(paths))
    _add_operations(app, scheduler, metrics, version, audit, directory)
    sessions = Sessions()
    doorkeeper = Doorkeeper(token, directory, None if users is None else users.header, sessions)
    index = cluster_schemas.IndexBody(name="stoker", version=version, links=_LINKS)
    app.state.stream = add_page(app, scheduler, store, doorkeeper, sessions, index)
    guard = Guard(hosts, any_name=doorkeeper.wants_somebody)
    see = "all" if users is None else users.see
    entrance = Entrance(guard, doorkeeper, Permissions(lambda: app.routes), directory, see)
    app.add_middleware(ShortWay, submissions=submissions)
    app.add_middleware(Gate, entrance=entrance, observe=metrics.observe, most=max_requests, audit=audit)
    app.add_middleware(SparkErrors, spark_version=version_teller(homes))
    handle_problems(app)
    describe(app, with_token=doorkeeper.wants_somebody)
    return app


def _add_submissions(app: FastAPI, submissions: Submissions) -> None:
    known = {"model": job_schemas.JobBody, "description": "Known already"}

    @app.post(PATH, status_code=201, response_model=job_schemas.JobBody, responses={200: known})
    async def submit(
        request: Request, spec: JobSpec, idempotency_key: IdempotencyKey = None, stoker_login: Login = ""
    ) -> Response:
        """Submit a job. When the answer is 201, or 200 for a key used before, the job is on disk."""
        return await submissions.accept(permit_of(request), spec, idempotency_key, stoker_login)


def _add_jobs(app: FastAPI, scheduler: Scheduler, store: Store) -> None:
    uis = SparkUi()

    def known(request: Request, job_id: str) -> JobRecord:
        """The job, where whoever asks may do this with it."""
        record = store.job(job_id)
        if record is None:
            raise no_such_job(job_id)
        permit_of(request).check(record)
        return record

    def known_group(name: str, owners: Collection[str] | None) -> GroupSum:
        found = None if owners is None else store.group(name, owners)
        if found is None:
            raise RejectedError(404, "No such group", f"there is no group or array {name}")
        return found

    def summed(permit: Permit, found: GroupSum) -> job_schemas.GroupBody:
        due = scheduler.due()
        owed = (dollars for job_id in found.open_jobs for dollars in due.get(job_id, {}).values())
        own = set() if found.failure is None else {found.failure.job.id}
        return permit.redacted(job_bodies.group_body(found, math.fsum(owed)), own)

    @app.get("/v1/jobs")
    def jobs(request: Request, query: Annotated[queries.JobsQuery, Query()]) -> job_schemas.JobList:
        """List jobs, the newest first."""
        permit = permit_of(request)
        if (owners := permit.owners(query.owner)) is None:
            return job_schemas.JobList(jobs=[], next=None)
        records = store.jobs(
            states=query.state,
            owners=owners,
            queues=query.queue,
            types=query.type,
            group=query.group,
            labels=_labels(query.label),
            limit=query.limit,
            before=query.before,
            newest_first=query.order == "newest",
        )
        told, due = told_of(scheduler, store, permit, records), scheduler.due()
        expected = scheduler.estimates()
        return job_schemas.JobList(
            jobs=[
                job_bodies.job_body(
                    _now(record, due), *told[record.job.id], estimate=expected.get(record.job.id)
                )
                for record in records
            ],
            next=records[-1].job.id if len(records) == query.limit else None,
        )

    @app.get("/v1/groups/{group}")
    def group(request: Request, group: GroupName) -> job_schemas.GroupBody:
        """Sum up the jobs of a group, or of an array."""
        permit = permit_of(request)
        return summed(permit, known_group(group, permit.owners(())))

    @app.post("/v1/groups/{group}/kill", status_code=202)
    def kill_group(request: Request, group: GroupName) -> job_schemas.GroupBody:
        """Ask for the end of all jobs of a group, or of an array; those that have ended are left alone."""
        permit = permit_of(request)
        owners = permit.ruled()
        scheduler.kill_all(known_group(group, owners).open_jobs)
        return summed(permit, known_group(group, owners))

    @app.get("/v1/jobs/{job_id}")
    def job(request: Request, job_id: JobName) -> job_schemas.JobDetail:
        """Show a job with its executors."""
        record = known(request, job_id)
        reason, place = told_of(scheduler, store, permit_of(request), [record])[job_id]
        due, spec = scheduler.due(), store.spec(job_id)
        tasks = [_task_now(task, due.get(job_id, {})) for task in store.executors(job_id)]
        ui = _ui(record)
        why = reason + _unreadable(store, job_id)
        expected = scheduler.estimates().get(job_id)
        kept = store.estimates.of(job_id)
        notes = [] if expected is None else notes_of(record, scheduler.coverage())
        no_estimate = scheduler.no_estimate(record)
        body = job_bodies.job_detail(
            _now(record, due), why, spec, tasks, ui, place, expected, kept, no_estimate, notes
        )
        return permit_of(request).redacted(body, {job_id}).model_copy(update={"reason": body.reason})

    @app.delete("/v1/jobs/{job_id}", status_code=202)
    @app.post("/v1/jobs/{job_id}/kill", status_code=202)
    def kill(request: Request, job_id: JobName) -> job_schemas.JobBody:
        """Ask for a job's end; one that has ended is left alone."""
        killed = job_bodies.job_body(scheduler.kill(known(request, job_id).job.id))
        return permit_of(request).redacted(killed, {job_id})

    @app.post("/v1/jobs/{job_id}/decommission", status_code=202)
    def decommission(
        request: Request, job_id: JobName, asked: job_schemas.DecommissionBody
    ) -> job_schemas.JobBody:
        """Have the job's driver give executors up, once their blocks are elsewhere; it may get others."""
        numbers = list(dict.fromkeys(asked.executors))
        told = scheduler.decommission(known(request, job_id).job.id, numbers, asked.reason)
        return permit_of(request).redacted(job_bodies.job_body(told), {job_id})

    @app.get("/v1/jobs/{job_id}/explain")
    def explain(request: Request, job_id: JobName) -> explanation_schemas.ExplanationBody:
        """Say why a job's executors are where they are, or why it waits."""
        record = known(request, job_id)
        reason, place = told_of(scheduler, store, permit_of(request), [record])[job_id]
        found, why = store.explanations(job_id), reason + _unreadable(store, job_id)
        body = explanation_schemas.explanation_body(record, why, found, place)
        return permit_of(request).redacted(body, {job_id})

    @app.get("/v1/jobs/{job_id}/logs")
    def logs(
        request: Request, job_id: JobName, query: Annotated[queries.LogQuery, Query()]
    ) -> job_schemas.LogBody:
        """Read part of the driver's log, or of an executor's."""
        record, executor = known(request, job_id), None
        if query.executor is not None:
            found = [task for task in store.executors(job_id) if task.number == query.executor]
            if not found:
                raise RejectedError(404, "No such executor", f"{job_id} has no executor {query.executor}")
            executor = found[0]
        return job_bodies.log_body(scheduler.log(record, executor, query.stream, query.offset, query.limit))

    @app.get("/v1/jobs/{job_id}/ui", include_in_schema=False)
    def ui_root(request: Request, job_id: JobName) -> Response:
        """Links in the driver's UI are relative to this."""
        return RedirectResponse(f"/v1/jobs/{known(request, job_id).job.id}/ui/", 308)

    @app.get("/v1/jobs/{job_id}/ui/{path:path}", include_in_schema=False)
    async def ui(job_id: JobName, path: str, request: Request) -> Response:
        """Show a page of the Spark UI of the job's driver, while it runs."""
        record = await run_in_threadpool(known, request, job_id)
        shown = await run_in_threadpool(scheduler.ui, record)
        if shown is None:
            raise RejectedError(404, "No driver's UI", f"{job_id} is {record.state}: no driver shows a UI")
        query = request.scope["query_string"].decode("latin-1")
        return await uis.get(shown, f"/v1/jobs/{job_id}/ui", quote(path, safe="/:@!$&'()*+,;=~"), query)


def _add_cluster(app: FastAPI, scheduler: Scheduler, store: Store) -> None:
    @app.get("/v1/cluster")
    def cluster(request: Request) -> cluster_schemas.ClusterBody:
        """Show all VMs and what is used of them."""
        found, permit = scheduler.cluster(), permit_of(request)
        if not permit.limited:
            return cluster_schemas.cluster_body(found)
        jobs = store.jobs(states=OPEN_JOB, owners=permit.owners(()) or (), limit=MOST_SHOWN)
        own = {record.job.id for record in jobs}
        return permit.redacted(cluster_schemas.cluster_body(found, own), own)

    @app.get("/v1/bill")
    def bill(query: Annotated[bill_schemas.BillQuery, Query()]) -> bill_schemas.BillBody:
        """Show what VMs have cost until now, used or not, from opened to closed."""
        scheduler.charge()
        found = store.vms.bill(Asked(query.by, query.since, query.until, query.limit))
        return bill_schemas.bill_body(found, query.by, scheduler.budget())


def _add_policy(app: FastAPI, scheduler: Scheduler, store: Store) -> None:
    @app.get("/v1/policies")
    def policies() -> policy_schemas.PolicyList:
        """List the policies that come with Stoker."""
        return policy_schemas.policy_list(list_policies())

    def shown(status: PolicyStatus) -> policy_schemas.PolicyBody:
        return policy_schemas.policy_body(status, scheduler.coverage())

    @app.get("/v1/policy")
    def policy() -> policy_schemas.PolicyBody:
        """Show who decides."""
        return shown(scheduler.policy())

    @app.put("/v1/policy")
    def set_policy(chosen: PolicyChoice) -> policy_schemas.PolicyBody:
        """Let another policy decide from the next decision on; all keys but `name` are its options."""
        return shown(scheduler.set_policy(chosen.name, chosen.options))

    @app.put("/v1/policy/shadow")
    def set_shadow(chosen: PolicyChoice) -> policy_schemas.PolicyBody:
        """Let a policy decide beside the acting one, without effect; all keys but `name` are its options."""
        return shown(scheduler.set_shadow(chosen.name, chosen.options))

    @app.delete("/v1/policy/shadow")
    def drop_shadow() -> policy_schemas.PolicyBody:
        """Let no policy decide beside the acting one any more."""
        return shown(scheduler.set_shadow(None, {}))

    @app.get("/v1/policy/comparison")
    def comparison(
        query: Annotated[policy_schemas.ComparisonQuery, Query()],
    ) -> policy_schemas.ComparisonBody:
        """Show where shadow policies would have decided otherwise, and what that would have cost."""
        return policy_schemas.comparison_body(report(store.comparisons(), query.limit))


def _add_operations(
    app: FastAPI,
    scheduler: Scheduler,
    metrics: Metrics,
    version: str,
    audit: Audit | None,
    directory: Directory | None,
) -> None:
    @app.get("/healthz")
    async def healthz() -> cluster_schemas.AliveBody:
        """Say that the server answers."""
        return cluster_schemas.AliveBody(status="ok", version=version)

    @app.get("/readyz", responses={503: {"model": cluster_schemas.HealthBody, "description": "Not ready"}})
    def readyz(response: Response) -> cluster_schemas.HealthBody:
        """Say whether jobs can be scheduled now, and if not, why."""
        health = scheduler.health()
        if audit is not None and audit.trouble:
            health = replace(health, checks={**health.checks, "audit": audit.trouble})
        if directory is not None and directory.trouble:
            health = replace(health, checks={**health.checks, "users": "the file of users cannot be used"})
        response.status_code = 200 if health.ready else 503
        return cluster_schemas.health_body(health)

    @app.get("/metrics", response_class=_Metrics)
    def prometheus() -> Response:
        """Tell Prometheus."""
        return _Metrics(metrics.text())


class _Metrics(Response):
    media_type = CONTENT_TYPE_LATEST


def _now(record: JobRecord, due: Mapping[str, Mapping[str, float]]) -> JobRecord:
    """The record with what the job owes up to now."""
    return replace(record, cost=record.cost + math.fsum(due.get(record.job.id, {}).values()))


def _task_now(task: ExecutorRecord, due: Mapping[str, float]) -> ExecutorRecord:
    return task if task.ended else replace(task, cost=task.cost + due.get(task.task_id, 0.0))


def _labels(pairs: Sequence[str]) -> dict[str, str]:
    """Labels of a query by name; of one that is named twice with other values, no job has both."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if found.setdefault(name, value) != value:
            raise RejectedError(422, "No job has both", f"label: {name}={found[name]} and {name}={value}")
    return found


def _ui(record: JobRecord) -> str | None:
    """Where the Spark UI of the job's driver is, while there is one."""
    if elsewhere := record.job.client_driver:
        return elsewhere if elsewhere.startswith("http") and not record.ended else None
    return f"/v1/jobs/{record.job.id}/ui/" if record.state in WITH_DRIVER else None


def _unreadable(store: Store, job_id: str) -> str:
    """What of the job is left out, as its rows in the store are damaged."""
    rows = [str(damage) for damage in store.damages_of(job_id) if damage.table != "jobs"]
    return f" (left out, as the job store is damaged: {'; '.join(rows)}; see `stoker doctor`)" if rows else ""
