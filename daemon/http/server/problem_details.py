"""All errors of the HTTP API, as RFC 9457 problem details.

`http/app.py` defines routes; the wording of invalid values is that of `conf.loader`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from stoker.characters import escape_surrogates

from conf.loader import what_is_right
from conf.schema.documented_model import DocumentedModel
from daemon.core.errors import ElsewhereError, RejectedError
from daemon.store.queries.insert_jobs import IdempotencyConflictError
from daemon.store.rows.database import StoreError

log = structlog.get_logger("api")

MEDIA_TYPE = "application/problem+json"
#: Number of wrong values of one request that are reported.
_MOST_ERRORS = 100
#: Characters of an unknown key that are repeated.
_LONGEST_KEY = 100
#: Routes that take any query: a driver's own pages read it, and a browser's links to our page may have one.
_ANY_QUERY = frozenset(
    {"/", "/docs", "/page/{name}", "/v1/jobs/{job_id}/ui", "/v1/jobs/{job_id}/ui/{path:path}"}
)


class FieldError(DocumentedModel):
    """An invalid value: its field, and the valid form."""

    model_config = ConfigDict(frozen=True)

    field: str
    """Where the value is: keys, with dots between them."""
    message: str
    """The error, and the correct form."""


class Problem(DocumentedModel):
    """Error of a request (RFC 9457)."""

    model_config = ConfigDict(frozen=True)

    type: str = "about:blank"
    """Always this: the status is the kind of problem."""
    title: str
    """The problem in a few words."""
    status: int = Field(ge=400, le=599)
    """The HTTP status."""
    detail: str
    """The error at this place, and the correct form."""
    errors: list[FieldError] = Field(default=[])
    """The values that are wrong, where the request is not valid."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is answered with a problem before it reaches a route."""

    status: int
    detail: str
    title: str = ""
    headers: Mapping[str, str] | None = None

    def response(self) -> Response:
        """The answer to send."""
        return problem(self.status, self.detail, title=self.title, headers=self.headers)


def problem(
    status: int,
    detail: str,
    *,
    title: str = "",
    errors: Sequence[FieldError] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Response with an error; the title is the status' own unless given."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": title or HTTPStatus(status).phrase,
        "status": status,
        "detail": escape_surrogates(detail),
    }
    if errors:
        body["errors"] = [
            {"field": escape_surrogates(error.field), "message": escape_surrogates(error.message)}
            for error in errors
        ]
    return JSONResponse(body, status, headers, MEDIA_TYPE)


def handle_problems(app: FastAPI) -> None:
    """Answer every error that a route or the routing raises with a problem."""
    for kind in (RequestValidationError, HTTPException, *REFUSED):
        app.add_exception_handler(kind, answer)


async def no_lost_query(request: Request) -> None:
    """Refuse a query that the route does not read: ?dry_run=true would change, ?owner=ann list all the same.

    A route with a query has a `Query`, which refuses unknown keys itself and names the nearest known one.
    """
    route = request.scope.get("route")
    if not request.url.query or not isinstance(route, APIRoute) or route.path in _ANY_QUERY:
        return
    if not route.dependant.query_params:
        name = next(iter(request.query_params), request.url.query)[:_LONGEST_KEY]
        detail = f"{name}: unknown key; this request has no query"
        raise RejectedError(422, "The request is not valid", detail)


#: Exceptions of the scheduler and the store that have an answer.
REFUSED = (RejectedError, IdempotencyConflictError, StoreError)


async def answer(request: Request, error: Exception) -> Response:
    """The problem that an error is; one for which there is none is raised again."""
    if isinstance(error, RequestValidationError):
        return _invalid(request, error.errors())
    if isinstance(error, ElsewhereError):
        return _elsewhere(request, error)
    if isinstance(error, RejectedError):
        return problem(error.status, error.detail, title=error.title, headers=error.headers)
    if isinstance(error, IdempotencyConflictError):
        return problem(409, str(error), title="Idempotency key used before")
    if isinstance(error, StoreError):
        log.error("store", error=str(error))
        return problem(503, str(error), title="The job store is not available")
    if isinstance(error, HTTPException):
        return _not_routed(request, error)
    raise error


def _elsewhere(request: Request, error: ElsewhereError) -> Response:
    """Send the client to the leader, or ask it to come again; it may follow or read the body."""
    if not error.leader:
        return problem(error.status, error.detail, title=error.title, headers={"Retry-After": "1"})
    path = quote(request.scope["path"], safe="/:@!$&'()*+,;=~")
    path += f"?{request.url.query}" if request.url.query else ""
    body = {"title": error.title, "status": 307, "detail": error.detail, "leader": error.leader}
    return JSONResponse(body, 307, {"Location": error.leader + path})


def _not_routed(request: Request, error: HTTPException) -> Response:
    path = request.url.path
    if error.status_code == 404:
        return problem(404, f"there is nothing at {path}; /openapi.json lists all paths")
    if error.status_code == 405:
        allowed = ", ".join(sorted(_methods(request)))
        headers = {"Allow": allowed}
        return problem(405, f"{path} does not accept {request.method}, but {allowed}", headers=headers)
    return problem(error.status_code, str(error.detail))


def _methods(request: Request) -> set[str]:
    routes = [route for route in request.app.routes if isinstance(route, APIRoute)]
    matching = [route for route in routes if route.matches(request.scope)[0] != Match.NONE]
    return {method for route in matching for method in route.methods or ()}


def _invalid(request: Request, details: Iterable[Any]) -> Response:
    route = request.scope.get("route")
    found = list(details)
    errors = [_field_error(route, detail) for detail in found[:_MOST_ERRORS]]
    words = [f"{error.field}: {error.message}" if error.field else error.message for error in errors]
    if more := len(found) - len(errors):
        words.append(f"and {more} more")
    what = "; ".join(words)
    return problem(422, what, title="The request is not valid", errors=errors)


def _field_error(route: object, detail: ErrorDetails) -> FieldError:
    part, *location = detail["loc"]
    message = what_is_right(detail, _schema(route, part), tuple(location))
    field = ".".join(str(step) for step in location if not str(step).startswith("["))
    if detail["type"] == "missing" and not location:
        message = "missing: the request needs a JSON object as its body"
    return FieldError(field=field, message=message)


def _schema(route: object, part: int | str) -> type[BaseModel] | None:
    """The model behind a route's body or query, which knows the right keys."""
    if not isinstance(route, APIRoute):
        return None
    fields = [route.body_field] if part == "body" else route.dependant.query_params
    for field in fields:
        annotation = field.field_info.annotation if field is not None else None
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation
    return None
