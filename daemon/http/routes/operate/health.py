"""Routes for operators: whether the daemon answers, whether it is ready, its metrics."""

from collections.abc import Callable
from dataclasses import replace

from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST

from daemon.auth.permits import STRANGER
from daemon.http.app_options import AppOptions
from daemon.http.server.scheduler_interface import Leadership
from daemon.schemas.cluster import AliveBody, HealthBody, health_body


def add_health(
    app: FastAPI, leadership: Leadership, metrics: Callable[[], bytes], options: AppOptions
) -> None:
    """Add the routes; `metrics` returns the text for Prometheus."""
    audit, directory = options.audit, options.directory

    @app.get("/healthz")
    async def healthz() -> AliveBody:
        """Report that the server answers."""
        return AliveBody(status="ok", version=options.version)

    @app.get("/readyz", responses={503: {"model": HealthBody, "description": "Not ready"}})
    def readyz(response: Response) -> HealthBody:
        """Report whether jobs can be scheduled now, and if not, why."""
        health = leadership.live().health()
        if audit is not None and audit.trouble:
            health = replace(health, checks={**health.checks, "audit": audit.trouble})
        if directory is not None and directory.trouble:
            health = replace(health, checks={**health.checks, "users": "the file of users cannot be used"})
        response.status_code = 200 if health.ready else 503
        checks = {name: STRANGER.told(text, ()) for name, text in health.checks.items()}
        return health_body(replace(health, checks=checks))

    @app.get("/metrics", response_class=_Metrics)
    def prometheus() -> Response:
        """Return the metrics in Prometheus' format."""
        return _Metrics(metrics())


class _Metrics(Response):
    media_type = CONTENT_TYPE_LATEST
