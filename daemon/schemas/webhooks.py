"""Bodies that webhooks receive, and bodies of the API about webhooks."""

from typing import Literal

from conf.event_kinds import Kind
from daemon.core.status import DeliveryOutcome
from daemon.schemas import base
from daemon.schemas.jobs import JobBody


class TellingBody(base.Body):
    """Body that a webhook receives."""

    id: str
    """Its id, which is the same when it is sent twice."""
    number: int | None
    """Later events have higher numbers; null for a test."""
    at: float
    """Time of the event, seconds since the epoch."""
    kind: Kind | Literal["test"]
    """Kind of event."""
    message: base.Said
    """The event in words."""
    job: JobBody | None
    """The job as it is now, with its cost so far; null where the event concerns no job, or where it was
    pruned."""
    settled: bool
    """Whether the job's cost is final: the job has ended and none of its tasks runs."""


class WebhookBody(base.Body):
    """A webhook, with the state of its delivery since this daemon leads."""

    name: str
    """Its name in the config."""
    url: base.Printed
    """Its host; the rest may be a secret."""
    on: list[Kind]
    """Kinds of events that are sent."""
    queues: list[str]
    """Only events of jobs in these queues are sent; empty: all."""
    users: list[str]
    """Only events of these users' jobs are sent; empty: all."""
    state: Literal["idle", "delivers", "fails"]
    """Whether the last request was accepted; idle before the first."""
    delivered_at: float | None
    """Time of the last accepted request."""
    fails_since: float | None
    """Start of the failures, seconds since the epoch; null when the last request was accepted."""
    failure: base.Said
    """Reason of the last failure; empty when the last request was accepted."""
    next_at: float | None
    """Time of the next attempt, seconds since the epoch."""
    behind: float
    """Age of the next event to send, seconds; 0 when all are sent."""
    came: dict[DeliveryOutcome, int]
    """Outcomes of requests."""


class WebhookList(base.Body):
    """The webhooks."""

    webhooks: list[WebhookBody]
    """Webhooks in the order of the config."""


class TriedBody(base.Body):
    """Result of a test."""

    id: str
    """Id of the event that was sent."""
    came: DeliveryOutcome
    """The result."""
    why: base.Said
    """Reason why it was not accepted; empty when it was."""
    seconds: float
    """Seconds until the answer."""
