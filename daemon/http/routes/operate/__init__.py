"""Routes for operating: audits, cluster, bill, policies, queues, users, VMs, webhooks, health, metrics."""

from collections.abc import Callable

from fastapi import FastAPI

from daemon.http.app_options import AppOptions
from daemon.http.routes.operate.audits import add_audits
from daemon.http.routes.operate.cluster import add_cluster
from daemon.http.routes.operate.health import add_health
from daemon.http.routes.operate.policies import add_policies
from daemon.http.routes.operate.queues import add_queues
from daemon.http.routes.operate.users import add_users
from daemon.http.routes.operate.vms import add_vms
from daemon.http.routes.operate.webhooks import add_webhooks
from daemon.http.server.scheduler_interface import Leadership
from daemon.maintenance.job_audits import JobAudits
from daemon.store.job_store import Store


def add_operation_routes(
    app: FastAPI, leadership: Leadership, store: Store, metrics: Callable[[], bytes], options: AppOptions
) -> None:
    """Add all routes for operating; `metrics` returns the text for Prometheus."""
    add_audits(app, leadership, JobAudits(store, options.data_dir))
    add_vms(app, leadership)
    add_queues(app, leadership)
    add_webhooks(app, leadership)
    add_cluster(app, leadership, store, options)
    add_policies(app, leadership, store)
    add_users(app, options.directory, options.users, lambda paths: leadership.leader().queues.check(paths))
    add_health(app, leadership, metrics, options)
