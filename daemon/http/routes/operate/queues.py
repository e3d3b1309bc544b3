"""The routes about queues: how they do, and that they be others."""

from typing import Annotated, Any

from fastapi import Body, FastAPI, Path, Request, Response
from stoker.characters import LONGEST_NAME

from conf.schema import QueueSettings
from daemon.auth.permits import permit_of
from daemon.http.server.scheduler_interface import Leadership
from daemon.queues.queue_service import QueueService
from daemon.schemas.queues import QueueBody, QueueList, queue_body, queue_list

QueuePath = Annotated[
    str, Path(description="The queue's path, such as prod.etl.", min_length=1, max_length=LONGEST_NAME)
]
_Change = Annotated[
    dict[str, Any],
    Body(description="Settings that replace its own, key by key; null: the default."),
]
_MADE: dict[int | str, dict[str, Any]] = {201: {"model": QueueBody, "description": "The queue was created"}}


def add_queues(app: FastAPI, leadership: Leadership) -> None:
    """Add them."""

    def known() -> QueueService:
        return leadership.leader().queues

    @app.get("/v1/queues")
    def queues(request: Request) -> QueueList:
        """List the queues, with their use and their waiting jobs."""
        return queue_list(known().all(), permit_of(request))

    @app.get("/v1/queues/{path}")
    def queue(request: Request, path: QueuePath) -> QueueBody:
        """Show a queue."""
        return queue_body(known().one(path), permit_of(request))

    @app.put("/v1/queues/{path}", responses=_MADE)
    def set_queue(
        request: Request, path: QueuePath, settings: QueueSettings, response: Response
    ) -> QueueBody:
        """Create or replace a queue with these settings; the change survives restarts."""
        status, new = known().put(path, settings)
        response.status_code = 201 if new else 200
        return queue_body(status, permit_of(request))

    @app.patch("/v1/queues/{path}", responses=_MADE)
    def change_queue(request: Request, path: QueuePath, change: _Change, response: Response) -> QueueBody:
        """Change settings of a queue, or create one with them (RFC 7396); the change survives restarts."""
        status, new = known().patch(path, change)
        response.status_code = 201 if new else 200
        return queue_body(status, permit_of(request))

    @app.delete("/v1/queues/{path}")
    def remove_queue(request: Request, path: QueuePath) -> QueueBody:
        """Remove a queue that has no queue below it and no unfinished job; returns its last state."""
        return queue_body(known().remove(path), permit_of(request))
