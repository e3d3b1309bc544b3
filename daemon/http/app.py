"""The HTTP API as one app: all its routes, what stands before them, and those of VMs, policies, operators.

A route asks the scheduler or the store and answers with a body of `schemas.py` or a module beside it. The
routes of jobs are in `http/routes/jobs.py`, others in modules named likewise. Who may ask is in `gate.py`,
what is answered when something is wrong in `http/server/problem_details.py`.
"""

import os
from collections.abc import Collection
from dataclasses import replace
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from agents.registry import list_policies
from conf.schema import Driver, JobSpec, PolicyChoice, Spark
from conf.schema.users import UsersSection
from daemon.auth.audit_log import Audit
from daemon.auth.authentication import Authenticator
from daemon.auth.authorization import Authorizer
from daemon.auth.permits import permit_of
from daemon.auth.route_roles import Permissions
from daemon.auth.sessions import Sessions
from daemon.auth.user_directory import Directory
from daemon.core.shadow_comparison import report
from daemon.core.status import (
    PolicyStatus,
)
from daemon.http.metrics import Metrics
from daemon.http.openapi import describe
from daemon.http.routes.applications import add_applications
from daemon.http.routes.dry_run import add_dry_run
from daemon.http.routes.events import add_events
from daemon.http.routes.files import add_files
from daemon.http.routes.jobs import add_jobs
from daemon.http.routes.queues import add_queues
from daemon.http.routes.spark_rest import add_spark_rest, version_teller
from daemon.http.routes.submissions import PATH, IdempotencyKey, Login, ShortWay, Submissions
from daemon.http.routes.users import add_users
from daemon.http.routes.vms import add_vms
from daemon.http.routes.webhooks import add_webhooks
from daemon.http.routes.what_if import add_foresight
from daemon.http.server.gate import Gate
from daemon.http.server.problem_details import handle_problems
from daemon.http.server.scheduler_interface import (
    Scheduler,
)
from daemon.page.routes import add_page
from daemon.schemas import (
    bill as bill_schemas,
)
from daemon.schemas import (
    cluster as cluster_schemas,
)
from daemon.schemas import (
    jobs as job_schemas,
)
from daemon.schemas import (
    policies as policy_schemas,
)
from daemon.schemas.spark_rest import SparkErrors
from daemon.store.job_store import Store
from daemon.store.rows.bill import AskedBill
from daemon.store.rows.tables import OPEN_JOB
from framework.host.request_guard import RequestGuard
from framework.spark import SparkHomes

#: Jobs of one user whose executors are shown on VMs.
MOST_SHOWN = 10_000
#: Where to go from `/`.
_LINKS = {"jobs": "/v1/jobs", "cluster": "/v1/cluster", "policy": "/v1/policy", "api": "/openapi.json"}


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
    doorkeeper = Authenticator(token, directory, None if users is None else users.header)
    metrics = Metrics(scheduler, store, lambda: doorkeeper.failed)
    submissions = Submissions(scheduler)
    _add_submissions(app, submissions)
    add_jobs(app, scheduler, store)
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
    doorkeeper = Authenticator(token, directory, None if users is None else users.header, sessions)
    index = cluster_schemas.IndexBody(name="stoker", version=version, links=_LINKS)
    app.state.stream = add_page(app, scheduler, store, doorkeeper, sessions, index)
    guard = RequestGuard(hosts, any_name=doorkeeper.wants_somebody)
    see = "all" if users is None else users.see
    entrance = Authorizer(guard, doorkeeper, Permissions(lambda: app.routes), directory, see)
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
        found = store.vms.bill(AskedBill(query.by, query.since, query.until, query.limit))
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
        return policy_schemas.comparison_body(report(store.comparisons.kept(), query.limit))


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
