"""Routes of the cluster and its bill."""

import time
from contextlib import nullcontext
from typing import Annotated

from fastapi import FastAPI, Query, Request

from conf.util.utc_days import day_of, midnight, next_day
from daemon.auth.permits import permit_of
from daemon.http.app_options import AppOptions
from daemon.http.server.scheduler_interface import Leadership
from daemon.schemas.bill import (
    BillBody,
    BillQuery,
    CommitmentBody,
    FocusQuery,
    bill_body,
    commitment_bodies,
    place_of,
)
from daemon.schemas.cluster import ClusterBody, cluster_body
from daemon.schemas.focus import FocusBody, focus_body, with_commitments
from daemon.store.job_store import Store
from daemon.store.rows.bill import DETAILS, AskedBill
from daemon.store.rows.tables import OPEN_JOB
from daemon.what_if.fair_queue import FairQueue
from environment.clusters.commitments import commitments_of

#: Bills by job, group or VM of one user, and of all, that are made or wait at once, and seconds that one
#: waits: each may sum up a million rows.
_EACH, _ALL, _TURN = 4, 8, 30.0
#: Jobs of one user whose executors are shown on VMs.
MOST_SHOWN = 10_000


def add_cluster(app: FastAPI, leadership: Leadership, store: Store, options: AppOptions) -> None:
    """Add the routes of VMs and their costs."""
    commitments = commitments_of(options.commitments)

    @app.get("/v1/cluster")
    def cluster(request: Request) -> ClusterBody:
        """Show all VMs and their used resources."""
        found, permit = leadership.leader().cluster(), permit_of(request)
        if not permit.limited:
            return cluster_body(found)
        jobs = store.jobs.page(states=OPEN_JOB, owners=permit.owners(()) or (), limit=MOST_SHOWN)
        own = {record.job.id for record in jobs}
        return permit.redacted(cluster_body(found, own), own)

    def committed(first: str | None, last: str | None) -> list[CommitmentBody]:
        """Commitments from the first to the last day, until now."""
        if not commitments or first is None:
            return []
        last = last or day_of(time.time())
        end = min(next_day(last), time.time())
        return commitment_bodies(commitments, store.vms.covered(first, last), midnight(first), end)

    turns = FairQueue(_EACH, _ALL)

    @app.get("/v1/bill")
    def bill(request: Request, query: Annotated[BillQuery, Query()]) -> BillBody:
        """Show the cost of VMs until now, used or idle, from opened to closed."""
        leadership.live().charge()
        asked, live = AskedBill(query.by, query.since, query.until, query.limit), leadership.live()
        long = query.by in DETAILS
        with turns.turn(permit_of(request).person.name, _TURN) if long else nullcontext():
            found = store.vms.bill(asked)
        first = query.since or (found.days or (None,))[0]
        return bill_body(found, query.by, live.budget(), committed(first, query.until))

    @app.get("/v1/bill/focus")
    def bill_in_focus(query: Annotated[FocusQuery, Query()]) -> FocusBody:
        """Show the bill of a day with the columns of FinOps FOCUS 1.2, by VM and job where that is stored.

        Rows come in pages of at most 1000 and the unused parts.
        """
        leadership.live().charge()
        day, after = query.day, None if query.after is None else place_of(query.after)
        page = focus_body(store.vms.charges_of(day, query.limit, after), options.account, options.region)
        if not (paid := committed(day, day)):
            return page
        covered, listed = store.vms.covered(day, day), store.vms.listed(day)
        return with_commitments(page, day, paid, commitments, covered, listed, options.account)
