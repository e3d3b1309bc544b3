"""Routes of the cluster and its bill."""

from typing import Annotated

from fastapi import FastAPI, Query, Request

from daemon.auth.permits import permit_of
from daemon.http.app_options import AppOptions
from daemon.http.server.scheduler_interface import Leadership
from daemon.schemas.bill import BillBody, BillQuery, FocusQuery, bill_body
from daemon.schemas.cluster import ClusterBody, cluster_body
from daemon.schemas.focus import FocusBody, focus_body
from daemon.store.job_store import Store
from daemon.store.rows.bill import AskedBill
from daemon.store.rows.tables import OPEN_JOB

#: Jobs of one user whose executors are shown on VMs.
MOST_SHOWN = 10_000


def add_cluster(app: FastAPI, leadership: Leadership, store: Store, options: AppOptions) -> None:
    """Add the routes of VMs and their costs."""

    @app.get("/v1/cluster")
    def cluster(request: Request) -> ClusterBody:
        """Show all VMs and their used resources."""
        found, permit = leadership.leader().cluster(), permit_of(request)
        if not permit.limited:
            return cluster_body(found)
        jobs = store.jobs.page(states=OPEN_JOB, owners=permit.owners(()) or (), limit=MOST_SHOWN)
        own = {record.job.id for record in jobs}
        return permit.redacted(cluster_body(found, own), own)

    @app.get("/v1/bill")
    def bill(query: Annotated[BillQuery, Query()]) -> BillBody:
        """Show the cost of VMs until now, used or idle, from opened to closed."""
        leadership.live().charge()
        found = store.vms.bill(AskedBill(query.by, query.since, query.until, query.limit))
        return bill_body(found, query.by, leadership.live().budget())

    @app.get("/v1/bill/focus")
    def bill_in_focus(query: Annotated[FocusQuery, Query()]) -> FocusBody:
        """Show the bill of a day with the columns of FinOps FOCUS 1.2, by VM and job where that is stored."""
        leadership.live().charge()
        return focus_body(store.vms.charges_of(query.day), options.account, options.region)
