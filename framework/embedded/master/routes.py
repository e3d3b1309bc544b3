"""Routes of the master: the scheduler API, the operator API, the read-only endpoints.

A path belongs to the longest route that it starts with, as in a real master; most are also there under
`/master`.
"""

import asyncio
import base64
import binascii
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from conf.util.counted import counted
from framework.embedded.cluster import EmbeddedCluster
from framework.embedded.faults import Faults, FaultyStream
from framework.embedded.master import process_views, state_views
from framework.embedded.master.calls import Call, CallError, parse_call
from framework.embedded.master.http_server import (
    EventStream,
    Request,
    Response,
    encode,
    json_response,
    text_response,
)
from framework.embedded.master.master import Master, RefusalError
from framework.embedded.master.operator_api import OperatorApi, teardown
from framework.embedded.master.state import Framework, MasterState
from framework.host.request_guard import RequestGuard

_JSON = "application/json"
_PROTOBUF = "application/x-protobuf"
_SCHEDULER, _OPERATOR = "/api/v1/scheduler", "/api/v1"
_FAULTS, _VMS = "/stoker/faults", "/stoker/vms"
_OPEN = frozenset({"/health", "/version", "/redirect", "/", process_views.HELP, process_views.STATS})
_TEARDOWN = "/teardown"
#: Requests that operators make by POST; only the teardown makes sense here.
_POSTED = frozenset(
    {
        _TEARDOWN,
        "/machine/down",
        "/machine/up",
        "/reserve",
        "/unreserve",
        "/create-volumes",
        "/destroy-volumes",
    }
)
_VIEWS: dict[str, Callable[[MasterState], object]] = {
    "/state": state_views.whole_state,
    "/state-summary": state_views.summary,
    "/slaves": state_views.slaves,
    "/frameworks": state_views.frameworks,
    "/tasks": state_views.tasks,
    "/roles": state_views.roles,
    "/flags": lambda state: {"flags": state_views.flags(state)},
    # Nobody has any of these here.
    "/quota": lambda _: {},
    "/weights": lambda _: [],
    "/maintenance/status": lambda _: {},
    "/maintenance/schedule": lambda _: {},
}
_NOT_UNDER_MASTER = process_views.PROCESS_ROUTES | {"/version", "/metrics/snapshot", "/", _FAULTS, _VMS}
_ROUTES = process_views.PROCESS_ROUTES | _POSTED
_ROUTES |= {_SCHEDULER, _OPERATOR, _FAULTS, _VMS, "/metrics/snapshot", *_OPEN, *_VIEWS}


@dataclass(frozen=True, slots=True)
class RouteAccess:
    """Permissions of clients."""

    guard: RequestGuard
    credentials: Mapping[str, str] | None = field(default=None, repr=False)
    """Principals with their secrets; None admits every caller that passes the guard."""
    may_fail: bool = False
    """Whether faults can be injected by request."""


class Routes:
    """Answers the requests to one embedded Mesos."""

    def __init__(self, cluster: EmbeddedCluster, faults: Faults, access: RouteAccess) -> None:
        self._cluster = cluster
        self._faults = faults
        self._access = access
        self._loop = asyncio.get_running_loop()
        self._log_level = process_views.LogLevel()

    def knows(self, method: str, headers: Mapping[str, str]) -> bool:
        """Whether a caller passes the guard and has credentials, where these are needed."""
        if self._access.guard.denial(method, headers) is not None:
            return False
        return self._access.credentials is None or self._principal(headers) is not None

    def handle(self, request: Request) -> Response | None:
        """Answer a request; return None when it became an event stream."""
        denial = self._access.guard.denial(request.method, request.headers)
        if denial is not None:
            return text_response(denial.status, denial.detail)
        route = _route(request.path)
        if route is None or (route == _FAULTS and not self._access.may_fail):
            return text_response(404, "404 Not Found.")
        principal, refused = self._authenticate(request, route)
        if refused is not None:
            return refused
        if route == _FAULTS:
            return self._faults.handle(request)
        if route == _VMS:
            return self._cluster.pools.handle(request)
        master = self._cluster.master
        if master is None:
            return text_response(503, "No leader elected")
        if route in {_SCHEDULER, _OPERATOR}:
            return self._api(request, route, master, principal)
        if "jsonp" in request.query and principal is None:
            # Any page may have a script of this address run, and so read its answer.
            return text_response(403, "jsonp is only for authenticated callers")
        if route in _POSTED:
            return _posted(request, route, master)
        if route == process_views.TOGGLE:
            return self._log_level.handle(request.query, self._loop.time())
        return _read_only(request, route, master)

    def _api(self, request: Request, route: str, master: Master, principal: str | None) -> Response | None:
        refused = _bad_form(request)
        if refused is not None:
            return refused
        if route == _OPERATOR:
            return OperatorApi(master).handle(request.body)
        try:
            call = parse_call(request.body, principal)
            if call.type == "SUBSCRIBE":
                return self._subscribe(request, call, master, principal)
            framework = master.find(call, request.headers.get("mesos-stream-id"))
            return self._call(master, framework, call)
        except CallError as error:
            return text_response(400, str(error))
        except RefusalError as refusal:
            return text_response(refusal.status, str(refusal))

    def _call(self, master: Master, framework: Framework, call: Call) -> Response:
        if call.type == "UPDATE_FRAMEWORK":
            master.receive(framework, call)
            return Response(200)
        delay = self._faults.delay("calls")
        if self._faults.loses("calls", call.type):
            return Response(202)
        if delay:
            self._loop.call_later(delay, self._receive_late, framework, call)
        else:
            master.receive(framework, call)
        return Response(202)

    def _receive_late(self, framework: Framework, call: Call) -> None:
        master = self._cluster.master
        if master is not None and master.state.frameworks.get(framework.id) is framework:
            master.receive(framework, call)

    def _subscribe(
        self, request: Request, call: Call, master: Master, principal: str | None
    ) -> Response | None:
        if "mesos-stream-id" in request.headers:
            return text_response(400, "Subscribe calls should not include the 'Mesos-Stream-Id' header")
        close_after = request.headers.get("connection", "").lower() == "close"
        raw = request.connection.open_stream(close_after=close_after)
        stream = FaultyStream(raw, self._faults, self._loop)
        framework = master.subscribe(call, stream, principal)
        if framework is not None:
            _follow(raw, stream, master, framework)
        return None

    def _authenticate(self, request: Request, route: str) -> tuple[str | None, Response | None]:
        """The principal, or the refusal."""
        if self._access.credentials is None or route in _OPEN:
            return None, None
        if (principal := self._principal(request.headers)) is not None:
            return principal, None
        changing = dict.fromkeys((_OPERATOR, _FAULTS, _VMS, process_views.TOGGLE, *_POSTED), "readwrite")
        kind = {_SCHEDULER: "scheduler", **changing}.get(route, "readonly")
        realm = f'Basic realm="mesos-master-{kind}"'
        return None, text_response(401, "401 Unauthorized.", WWW_Authenticate=realm)

    def _principal(self, headers: Mapping[str, str]) -> str | None:
        """The principal that these headers have the secret of; None for no or wrong credentials."""
        principal, secret = _basic(headers.get("authorization", ""))
        right = (self._access.credentials or {}).get(principal or "")
        return (
            principal if right is not None and hmac.compare_digest(right.encode(), secret.encode()) else None
        )


def _follow(raw: EventStream, stream: FaultyStream, master: Master, framework: Framework) -> None:
    raw.on_gone = lambda: master.frameworks.disconnect(framework, stream)


def _route(path: str) -> str | None:
    under_master = path == "/master" or path.startswith("/master/")
    path = "/" + path.removeprefix("/master").strip("/") if under_master else "/" + path.strip("/")
    while path not in _ROUTES:
        path = path.rpartition("/")[0]
        if not path:
            return None
    return None if under_master and path in _NOT_UNDER_MASTER else path


def _not_posted(request: Request) -> Response | None:
    """The refusal of a request that is not a POST."""
    if request.method == "POST":
        return None
    told = f"405 Method Not Allowed. Expecting one of {{ 'POST' }}, but received '{request.method}'."
    return text_response(405, told, Allow="POST")


def _posted(request: Request, route: str, master: Master) -> Response:
    """Answer the operators' requests that predate the operator API."""
    if (refused := _not_posted(request)) is not None:
        return refused
    if route != _TEARDOWN:
        return text_response(501, f"{route} is not part of the embedded Mesos")
    named = parse_qs(request.body.decode("utf-8", "replace")).get("frameworkId")
    if named is None:
        return text_response(400, "Missing 'frameworkId' query parameter in the request body")
    return teardown(master, named[-1])


def _bad_form(request: Request) -> Response | None:
    """The refusal of a request that is not a POST of JSON, or does not take JSON."""
    if (refused := _not_posted(request)) is not None:
        return refused
    kind = request.headers.get("content-type")
    if kind is None:
        return text_response(400, "Expecting 'Content-Type' to be present")
    if kind == _PROTOBUF:
        return text_response(400, "Failed to parse body into Call protobuf")
    if kind != _JSON:
        return text_response(415, f"Expecting 'Content-Type' of {_JSON} or {_PROTOBUF}")
    accepted = request.headers.get("accept", "*/*")
    if not any(kind in accepted for kind in (_JSON, "application/*", "*/*")):
        return text_response(406, f"Expecting 'Accept' to allow '{_PROTOBUF}' or '{_JSON}'")
    return None


def _read_only(request: Request, route: str, master: Master) -> Response:
    if request.method not in {"GET", "HEAD"}:
        told = f"405 Method Not Allowed. Expecting one of {{ 'GET' }}, but received '{request.method}'."
        return text_response(405, told, Allow="GET")
    state = master.state
    if route == "/health":
        return Response(200)
    if route == "/redirect":
        return Response(307, b"", {"Location": f"//{state.hostname}:{state.port}"})
    if route == "/":
        page = (
            f"<!DOCTYPE html><title>Mesos</title><p>Embedded Mesos of Stoker, "
            f"{counted(len(state.agents), 'agent')}.\n"
        )
        return Response(200, page.encode(), {"Content-Type": "text/html"})
    if route == process_views.HELP:
        return process_views.help_page(request, sorted(_ROUTES - _NOT_UNDER_MASTER - {_OPERATOR, _SCHEDULER}))
    if route in process_views.FILES:
        return process_views.files(route, request.query)
    if route == process_views.STATS:
        return _jsonp(request, process_views.stats())
    if route == "/version":
        return _jsonp(request, state_views.version())
    if route == "/metrics/snapshot":
        return _jsonp(request, state_views.metrics(state))
    return _jsonp(request, _VIEWS[route](state))


def _jsonp(request: Request, value: object) -> Response:
    callback = request.query.get("jsonp")
    if callback is None:
        return json_response(value)
    body = callback.encode() + b"(" + encode(value) + b");"
    return Response(200, body, {"Content-Type": "text/javascript"})


def _basic(header: str) -> tuple[str | None, str]:
    """Principal and secret; a secret with a colon is not understood, as in a real master."""
    scheme, _, encoded = header.partition(" ")
    if scheme != "Basic":
        return None, ""
    try:
        parts = base64.b64decode(encoded, validate=True).decode().split(":")
    except (binascii.Error, UnicodeDecodeError):
        return None, ""
    return (parts[0], parts[1]) if len(parts) == 2 else (None, "")
