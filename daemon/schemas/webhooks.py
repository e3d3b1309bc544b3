"""Bodies that webhooks receive, and bodies of the API about webhooks."""

from typing import Literal

from conf.event_kinds import Kind
from daemon.core.status import DeliveryOutcome
from daemon.schemas import base
from daemon.schemas.jobs import JobBody


class TellingBody(base.Body):
    """Body that a webhook receives."""

    id: str
    """By which it is known again when it comes twice."""
    number: int | None
    """Later events have higher numbers; null of a test."""
    at: float
    """When it happened."""
    kind: Kind | Literal["test"]
    """What."""
    message: base.Said
    """The same in words."""
    job: JobBody | None
    """The job as it is now, with what it has cost; null where it is about none, or where it was pruned."""
    settled: bool
    """Whether what the job has cost is all that it will: it is over, and nothing of it runs."""


class WebhookBody(base.Body):
    """A webhook, and how well it is told; since this daemon leads."""

    name: str
    """As the config has it."""
    url: base.Printed
    """Its host; the rest may be a secret."""
    on: list[Kind]
    """Which events it is told."""
    queues: list[str]
    """Of which queues' jobs; empty: of all."""
    users: list[str]
    """Of which users' jobs; empty: of all."""
    state: Literal["idle", "delivers", "fails"]
    """Whether the last request was taken; idle before the first."""
    delivered_at: float | None
    """When a request was taken last."""
    fails_since: float | None
    """Since when none is; null when the last one was."""
    failure: base.Said
    """Why not; empty when it was."""
    next_at: float | None
    """When it is tried again."""
    behind: float
    """How many seconds ago that happened which is to be told next; 0 when all is told."""
    came: dict[DeliveryOutcome, int]
    """What came of requests."""


class WebhookList(base.Body):
    """The webhooks."""

    webhooks: list[WebhookBody]
    """Each of them, as the config has them."""


class TriedBody(base.Body):
    """Result of a test."""

    id: str
    """Of the event that was sent."""
    came: DeliveryOutcome
    """What came of it."""
    why: base.Said
    """Why it was not taken; empty when it was."""
    seconds: float
    """How long it took."""
