"""The route of events, `/v1/events`, with its query and its body.

Times are seconds since the epoch.
"""

from collections.abc import Sequence
from typing import Annotated

from fastapi import FastAPI, Query, Request
from pydantic import Field
from stoker.characters import LONGEST_NAME

from daemon.auth.permits import Permit, permit_of
from daemon.http.routes.jobs.job_names import find_job
from daemon.schemas import base, queries
from daemon.store.job_store import Store
from daemon.store.rows.event_recorder import Kind
from daemon.store.rows.events import NumberedEvent


class EventsQuery(queries.Query):
    """Which events: without `since` and `after`, the last that there are."""

    job: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] | None = None
    """Only events of this job, by its id or name."""
    since: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Only events at this time or later."""
    after: Annotated[int, Field(ge=0, lt=1 << 62)] | None = None
    """Only events after this number, as in `next`."""
    limit: Annotated[int, Field(ge=1, le=10_000)] = 1000
    """Maximum number of events."""


class EventBody(base.Body):
    """An event."""

    number: int
    """Number of the event; later events have higher numbers."""
    at: float
    """Time, seconds since the epoch."""
    job_id: str | None
    """The job; null for an event of the cluster."""
    kind: Kind
    """Kind of event."""
    message: base.Said
    """The event in words."""


class EventList(base.Body):
    """Events, oldest first."""

    events: list[EventBody]
    """The events, oldest first."""
    next: int
    """The value of `after` for the next request."""
    more: bool
    """Whether more events exist already."""


def add_events(app: FastAPI, store: Store) -> None:
    """Add the route."""

    @app.get("/v1/events")
    def events(request: Request, query: Annotated[EventsQuery, Query()]) -> EventList:
        """List the events of a job, or of all jobs and the cluster."""
        permit = permit_of(request)
        of = None if query.job is None else find_job(store, permit, query.job).job.id
        found = store.events.read(
            query.limit,
            job_id=of,
            since=query.since,
            after=query.after,
            owners=permit.owners(()) or (),
        )
        return EventList(events=_bodies(permit, found.found), next=found.next, more=found.more)


def _bodies(permit: Permit, found: Sequence[NumberedEvent]) -> list[EventBody]:
    own = {each.happening.job_id for each in found if each.happening.job_id is not None}
    return [
        EventBody(
            number=each.number,
            at=each.happening.at,
            job_id=each.happening.job_id,
            kind=each.happening.kind,
            message=permit.told(each.happening.text, own),
        )
        for each in found
    ]
