"""Messages of Spark's REST submission protocol: their fields, and how they are written.

Every answer has action, serverSparkVersion and success; an error is an ErrorResponse. `spark_rest.py`
interprets a submission.
"""

import json
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from conf.schema import Arguments, Name, Text
from conf.schema.documented_model import DocumentedModel
from conf.schema.fields import Texts
from daemon.core.url_paths import UNKNOWN_VERSION, VERSION
from framework.spark.submit_properties import TOKEN

_OURS = re.compile(r"/v[0-9]{1,9}/submissions(/.*)?")

DriverState = Literal[
    "SUBMITTED", "RUNNING", "FINISHED", "RELAUNCHING", "UNKNOWN", "KILLED", "FAILED", "ERROR"
]


class _Message(DocumentedModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class SubmissionRequest(_Message):
    """Submission by spark-submit; unknown fields are returned, not rejected."""

    model_config = ConfigDict(extra="allow", strict=True)

    action: Literal["CreateSubmissionRequest"]
    """The requested action."""
    client_spark_version: Name
    """The version of the client's Spark: the job runs on the available version of the same line."""
    app_resource: Annotated[Text, Field(min_length=1)]
    """The application: the URI of a Python file or a jar."""
    main_class: Annotated[Text, BeforeValidator(lambda name: name or "")] = ""
    """The class whose main method is the job; empty for Python."""
    app_args: Annotated[Arguments, BeforeValidator(lambda given: given or ())] = ()
    """The application's arguments."""
    spark_properties: Texts
    """Spark's properties; docs/submit.md explains them."""
    environment_variables: Annotated[Texts, BeforeValidator(lambda given: given or {})] = Field(default={})
    """Variables of the client whose names begin with SPARK_ or MESOS_."""


class _Answer(_Message):
    server_spark_version: str
    """The server's Spark version."""
    success: bool
    """Whether the request succeeded."""
    message: str | None = None
    """The message."""


class CreatedBody(_Answer):
    """A submission was accepted: it is on disk."""

    action: Literal["CreateSubmissionResponse"] = "CreateSubmissionResponse"
    """The answered action."""
    submission_id: str
    """Its secret id: a client with the id may read its status and kill it."""
    unknown_fields: list[str] | None = None
    """Fields of the request without effect here."""


class StatusBody(_Answer):
    """State of a submission."""

    action: Literal["SubmissionStatusResponse"] = "SubmissionStatusResponse"
    """The answered action."""
    submission_id: str
    """Id of the submission."""
    driver_state: DriverState
    """The state of its driver."""
    worker_id: str | None = None
    """The VM on which its driver runs; absent for one on the daemon's host."""
    worker_host_port: str | None = None
    """Address of that driver."""


class KilledBody(_Answer):
    """A submission was ended, or had ended before."""

    action: Literal["KillSubmissionResponse"] = "KillSubmissionResponse"
    """The answered action."""
    submission_id: str
    """Id of the submission."""


class AllKilledBody(_Answer):
    """All submissions were ended."""

    action: Literal["KillAllSubmissionResponse"] = "KillAllSubmissionResponse"
    """The answered action."""


class ClearedBody(_Answer):
    """Reason for the refusal."""

    action: Literal["ClearResponse"] = "ClearResponse"
    """The answered action."""


class ErrorBody(_Answer):
    """Error of a request."""

    action: Literal["ErrorResponse"] = "ErrorResponse"
    """The kind of this answer."""
    success: Literal[False] = False
    """False: the request had no effect."""
    message: str
    """The error, and the correct form."""
    highest_protocol_version: str | None = None
    """The supported version of the protocol, where another one was requested."""


class Written(Response):
    """A message as Spark writes it: programs that read Spark's answers line by line can read it, too."""

    media_type = "application/json"

    def render(self, content: _Answer) -> bytes:
        """The message's text."""
        told = content.model_dump(by_alias=True, exclude_none=True)
        return json.dumps(told, indent=2, separators=(",", " : "), sort_keys=True).encode()


def token_taken(body: Any) -> str | None:
    """The API's token among a request's properties, which are left without it; None when there is none."""
    properties = body.get("sparkProperties") if isinstance(body, dict) else None
    token = properties.pop(TOKEN, None) if isinstance(properties, dict) else None
    return token if isinstance(token, str) else None


class SparkErrors:
    """ASGI middleware around all: on the protocol's paths, problems are answered as ErrorResponse."""

    def __init__(self, app: ASGIApp, spark_version: Callable[[], str]) -> None:
        self._app = app
        self._spark_version = spark_version

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or not _OURS.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        body = b""

        async def sending(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start" and message["status"] >= 300:
                start = message
            elif start is None:
                await send(message)
            else:
                body += message.get("body", b"")
                if not message.get("more_body", False):
                    await self._error(start, body)(scope, receive, send)

        await self._app(scope, receive, sending)

    def _error(self, start: Message, body: bytes) -> Response:
        """An ErrorResponse with the message of the problem."""
        try:
            problem = json.loads(body)
        except ValueError:
            problem = {}
        status = start["status"]
        kept = (b"retry-after", b"allow", b"www-authenticate", b"connection")
        headers = {name.decode(): value.decode("latin-1") for name, value in start["headers"] if name in kept}
        error = ErrorBody(
            server_spark_version=self._spark_version(),
            message=problem.get("detail") or f"HTTP status {status}",
            highest_protocol_version=VERSION if status == UNKNOWN_VERSION else None,
        )
        # Java's client follows no redirection of a POST: it gets the leader's address, and asks the next.
        return Written(error, 503 if status < 400 else status, headers)
