"""What every HTTP request passes before it reaches a route, and every answer on its way out.

Who may ask (token, host, origin), how large and of what kind a body may be, counting, and the answer when
something unexpected is raised.
"""

import hmac
import json
from collections.abc import Callable, Collection
from ipaddress import ip_address
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import structlog
from anyio import move_on_after
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.problems import Refusal, problem

log = structlog.get_logger("api")

#: A job file of this size (bytes) is no job file.
LONGEST_BODY = 1 << 20
#: Seconds within which a body has to arrive.
SLOWEST_BODY = 20.0
#: Chosen: no body that any route takes is nested deeper than a policy's options may sensibly be.
_DEEPEST = 32
_OPEN = frozenset({"/healthz", "/readyz"})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

#: Told of every answer: method, route, status, seconds.
Observer = Callable[[str, str, int, float], None]


class Guard:
    """Says who may not ask.

    With a token, whoever does not send it. Without one, whoever comes by another name than this machine's
    loopback: a page in the user's browser can reach loopback under a name of its own (DNS rebinding).
    And always a page of another site that wants something done.
    """

    def __init__(self, token: str | None, hosts: Collection[str]) -> None:
        self._token = None if token is None else token.encode()
        self._hosts = frozenset(host.lower() for host in (*hosts, "localhost"))

    def refusal(self, method: str, path: str, headers: Headers) -> Refusal | None:
        """Why the request is refused; None when it is not."""
        if path in _OPEN:
            return None
        host = headers.get("host", "")
        if self._token is None and not self._is_known(host):
            return Refusal(421, f"this server is not {host or 'without a name'}; ask for it as localhost")
        origin = headers.get("origin")
        if origin is not None and method not in _SAFE and origin.partition("://")[2].lower() != host.lower():
            return Refusal(403, f"pages of {origin} may not ask this server for anything")
        return None if self._token is None else self._token_refusal(headers.get("authorization"))

    def _is_known(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
            return name in self._hosts or ip_address(name).is_loopback
        except ValueError:
            return False

    def _token_refusal(self, authorization: str | None) -> Refusal | None:
        if authorization is None:
            detail = "this server wants a token: send the header Authorization: Bearer TOKEN"
            return Refusal(401, detail, headers={"WWW-Authenticate": 'Bearer realm="stoker"'})
        scheme, _, given = authorization.partition(" ")
        # Headers are Latin-1; compared as bytes, so that any text can be.
        right = hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._token or b"")
        if scheme.lower() == "bearer" and right:
            return None
        challenge = {"WWW-Authenticate": 'Bearer realm="stoker", error="invalid_token"'}
        return Refusal(401, "the token is not the one that this server was given", headers=challenge)


class Gate:
    """ASGI middleware around the whole API."""

    def __init__(self, app: ASGIApp, guard: Guard, observe: Observer, most: int) -> None:
        self._app = app
        self._most = most
        self._under_way = 0
        self._guard = guard
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = perf_counter(), 0
        self._under_way += 1

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._serve(scope, receive, sending)
        except Exception:
            log.exception("a request failed", method=scope["method"], path=scope["path"])
            if status:
                raise  # too late for another answer: the connection has to be cut
            detail = "the server made a mistake; its log says more"
            await problem(500, detail)(scope, receive, sending)
        finally:
            self._under_way -= 1
            route = getattr(scope.get("route"), "path", "none")
            self._observe(scope["method"], route, status, perf_counter() - begin)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, method = Headers(scope=scope), scope["method"]
        refusal = self._guard.refusal(method, scope["path"], headers) or self._overload(scope["path"])
        if refusal is None and method not in _SAFE:
            body = await _read(headers, receive)
            if body is None:
                return
            refusal = body if isinstance(body, Refusal) else _body_refusal(headers, body)
            if not isinstance(body, Refusal):
                receive = _replayed(body, receive)
        if refusal is not None:
            await refusal.response()(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _overload(self, path: str) -> Refusal | None:
        if self._under_way <= self._most or path in _OPEN:
            return None
        detail = f"{self._most} requests are under way already (max_requests)"
        return Refusal(429, detail, headers={"Retry-After": "1"})


async def _read(headers: Headers, receive: Receive) -> bytes | Refusal | None:
    """The whole body; a refusal when it is too large or too slow, None when the client went away."""
    refusal = Refusal(413, f"a request may have {LONGEST_BODY} bytes", headers={"Connection": "close"})
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()) or int(length[:20]) > LONGEST_BODY:
        return refusal
    body = bytearray()
    more = True
    with move_on_after(SLOWEST_BODY):
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > LONGEST_BODY:
                return refusal
            more = message.get("more_body", False)
        return bytes(body)
    detail = f"the body did not arrive within {SLOWEST_BODY:g} s"
    return Refusal(408, detail, headers={"Connection": "close"})


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _body_refusal(headers: Headers, body: bytes) -> Refusal | None:
    if not body:
        return None
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        found = kind or "no Content-Type"
        return Refusal(415, f"a body should be JSON, with Content-Type: application/json; found {found}")
    try:
        value = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        return Refusal(400, f"the body is not valid JSON: {why}")
    return Refusal(400, f"the body is nested deeper than {_DEEPEST} levels") if _is_deep(value) else None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
