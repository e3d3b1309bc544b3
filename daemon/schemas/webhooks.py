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
    """Later events have higher numbers; null of a test."""
    at: float
    """When it happened."""
    kind: Kind | Literal["test"]
    """What."""
    message: base.Said
    """The same in words."""
    job: JobBody | None
    """The job as it is now, with its cost so far; null where the event concerns no job, or where it was
    pruned."""
    settled: bool
    """Whether the job's cost is final: it is over, and none of its tasks runs."""


class WebhookBody(base.Body):
    """A webhook, and how well it is told; since this daemon leads."""

    name: str
    """As the config has it."""
    url: base.Printed
    """Its host; the rest may be a secret."""
    on: list[Kind]
    """Kinds of events that it gets."""
    queues: list[str]
    """Queues whose jobs' events it gets; empty: all."""
    users: list[str]
    """Users whose jobs' events it gets; empty: all."""
    state: Literal["idle", "delivers", "fails"]
    """Whether the last request was accepted; idle before the first."""
    delivered_at: float | None
    """Time of the last accepted request."""
    fails_since: float | None
    """Since when none is; null when the last one was."""
    failure: base.Said
    """Why not; empty when it was."""
    next_at: float | None
    """When it is tried again."""
    behind: float
    """Age of the next event to send, seconds; 0 when all are sent."""
    came: dict[DeliveryOutcome, int]
    """Outcomes of requests."""


class WebhookList(base.Body):
    """The webhooks."""

    webhooks: list[WebhookBody]
    """Each of them, as the config has them."""


class TriedBody(base.Body):
    """Result of a test."""

    id: str
    """Of the event that was sent."""
    came: DeliveryOutcome
    """The result."""
    why: base.Said
    """Reason why it was not accepted; empty when it was."""
    seconds: float
    """Seconds until the answer."""
