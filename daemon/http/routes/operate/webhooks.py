"""The routes about webhooks: how they do, and a test of one."""

from typing import Annotated

from fastapi import FastAPI, Path

from daemon.http.server.scheduler_interface import Leadership
from daemon.schemas.webhooks import TriedBody, WebhookList

_Name = Annotated[str, Path(description="The webhook's name in the config.", min_length=1, max_length=40)]


def add_webhooks(app: FastAPI, leadership: Leadership) -> None:
    """Add them."""

    @app.get("/v1/webhooks")
    def webhooks() -> WebhookList:
        """List the webhooks, with the state of their delivery."""
        return WebhookList(webhooks=leadership.leader().webhooks.status())

    @app.post("/v1/webhooks/{name}/test")
    def try_webhook(name: _Name) -> TriedBody:
        """Send a test to a webhook at once, and return the result."""
        return leadership.leader().webhooks.test(name)
