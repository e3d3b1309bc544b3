"""The route that reports the cost of ended jobs, and the least that they could have cost."""

from typing import Annotated

from fastapi import FastAPI, Query, Request
from starlette.responses import HTMLResponse

from daemon.auth.permits import permit_of
from daemon.core.cluster_status import PoolStatus, VmStatus
from daemon.http.server.scheduler_interface import Leadership
from daemon.maintenance.job_audits import JobAudits
from daemon.page.routes import SAFE
from daemon.schemas.queries import AuditQuery

#: The report has styles, and nothing else that a browser would load or run.
_HEADERS = {
    **SAFE,
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; sandbox",
    "Cache-Control": "no-store",
}


def add_audits(app: FastAPI, leadership: Leadership, audits: JobAudits) -> None:
    """Add it."""

    @app.get("/v1/audit", response_class=HTMLResponse)
    def audit(request: Request, query: Annotated[AuditQuery, Query()]) -> HTMLResponse:
        """Report costs and possible costs of ended jobs, by event logs, as `stoker audit --html` does.

        The jobs are those that the caller may see. Making a report takes a minute or more, five at most;
        it is kept for five.
        """
        permit, cluster = permit_of(request), leadership.leader().cluster()
        owners = (permit.person.name,) if permit.limited else ()
        vms: list[VmStatus | PoolStatus] = [*cluster.pools, *cluster.vms]
        return HTMLResponse(audits.report(query.period, owners, permit.person.name, vms), headers=_HEADERS)
