"""The config's section `webhooks`: recipients of events, their addresses, and how they verify the sender."""

from collections.abc import Collection, Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from conf.event_kinds import Kind
from conf.schema.fields import Strict, Text, like, web_address
from conf.units import SECONDS_PER_DAY

#: The three ends of a job, and what is told of budgets, in a word each.
ENDS: Collection[Kind] = ("finished", "failed", "killed")
BUDGETS: Collection[Kind] = ("budget spent", "openings held", "openings resumed")
#: So many webhooks: each has a time series of its own.
MOST = 20
WebhookName = Annotated[
    str,
    Field(json_schema_extra={"pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$"}),
    AfterValidator(
        like(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", "should be a name of at most 40 letters, digits, - and _")
    ),
]


On = Literal["ended", "budget", Kind]


class Webhook(Strict):
    """An address that receives events as signed JSON."""

    url: Annotated[Text, AfterValidator(web_address), Field(repr=False)]
    """URL that events are posted to."""
    secret_file: Annotated[Text, Field(min_length=1)] | None = None
    """The file of the secret that signs them."""
    secret_env: Annotated[Text, Field(min_length=1)] | None = None
    """The daemon's environment variable with the secret, instead of a file."""
    on: Annotated[tuple[On, ...], Field(strict=False, min_length=1)] = ("ended", "budget")
    """Kinds of events; ended means finished, failed and killed, budget all kinds about budgets."""
    queues: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """Restricts events of jobs to these queues, and those below them; none: all."""
    users: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """Restricts events of jobs to these users; none: all."""
    timeout: Annotated[float, Field(ge=0.1, le=60, allow_inf_nan=False)] = 10.0
    """Timeout of an answer, seconds."""
    give_up: Annotated[float, Field(ge=1, le=30 * SECONDS_PER_DAY, allow_inf_nan=False)] = SECONDS_PER_DAY
    """Seconds after which an event is dropped."""
    ca: Annotated[Text, Field(min_length=1)] | None = None
    """The file of trusted certificates; null: those of the system."""

    @model_validator(mode="after")
    def _one_secret(self) -> "Webhook":
        if (self.secret_file is None) == (self.secret_env is None):
            raise ValueError("should have either secret_file or secret_env")
        return self

    @property
    def kinds(self) -> frozenset[Kind]:
        """Kinds of events that are sent."""
        found: set[Kind] = set()
        for name in self.on:
            found.update(ENDS if name == "ended" else BUDGETS if name == "budget" else (name,))
        return frozenset(found)

    def wants(self, kind: Kind, owner: str | None, queue: str) -> bool:
        """Whether an event is sent; for a job of that owner and queue, where the owner is not None."""
        if kind not in self.kinds:
            return False
        if owner is None:
            return True
        below = any(f"{queue}.".startswith(f"{path}.") for path in self.queues)
        return (not self.queues or below) and (not self.users or owner in self.users)

    @property
    def place(self) -> str:
        """Address of the webhook without possibly secret parts: scheme and host only."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}/{'...' if parts.path.strip('/') or parts.query else ''}"


Webhooks = Annotated[Mapping[WebhookName, Webhook], Field(max_length=MOST)]
