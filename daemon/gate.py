"""What every HTTP request passes before it reaches a route, and every answer on its way out.

Who may ask (`framework/guard.py` says), how large and of what kind a body may be, counting, and the answer
when something unexpected is raised.
"""

import json
from collections.abc import Callable, Collection
from time import perf_counter
from typing import Any

import structlog
from anyio import move_on_after
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.problems import Refusal, problem
from framework.guard import Guard

log = structlog.get_logger("api")

#: A job file of this size (bytes) is no job file.
LONGEST_BODY = 1 << 20
#: Seconds within which a body has to arrive.
SLOWEST_BODY = 20.0
#: Chosen: no body that any route takes is nested deeper than a policy's options may sensibly be.
_DEEPEST = 32
#: Asked without a token and by any name, by whatever watches over the daemon.
OPEN = frozenset({"/healthz", "/readyz"})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

#: Told of every answer: method, route, status, seconds.
Observer = Callable[[str, str, int, float], None]


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
        refusal = self._denied(method, scope["path"], headers) or self._overload(scope["path"])
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

    def _denied(self, method: str, path: str, headers: Headers) -> Refusal | None:
        denial = self._guard.denial(method, path, _joined(headers))
        return None if denial is None else Refusal(denial.status, denial.detail, headers=denial.headers)

    def _overload(self, path: str) -> Refusal | None:
        if self._under_way <= self._most or path in OPEN:
            return None
        detail = f"{self._most} requests are under way already (max_requests)"
        return Refusal(429, detail, headers={"Retry-After": "1"})


def _joined(headers: Headers) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers.items():
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


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
