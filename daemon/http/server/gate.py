"""Checks every HTTP request before it reaches a route, and every answer on its way out.

It authorises the request (`users/` identifies users and defines the rights of each route), limits size and
type of the body, counts requests, and answers when an unexpected error is raised.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Collection
from functools import partial
from time import perf_counter
from typing import Any

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.auth.audit_log import BODY, WHO, Audit
from daemon.auth.authentication import Visitor
from daemon.auth.authorization import Authorizer
from daemon.auth.permits import PERMIT, Permit
from daemon.auth.route_roles import Rule
from daemon.auth.sessions import without_other_cookies
from daemon.core.url_paths import CREATE
from daemon.http.server.expiring_responses import serve_while
from daemon.http.server.problem_details import Refusal, problem
from daemon.http.server.user_shares import HeldShares, TooManyError, UserShares
from daemon.schemas.spark_rest import token_taken
from framework.host.request_guard import Denial, is_loopback

log = structlog.get_logger("api")

#: A job file of this size (bytes) is no job file.
LONGEST_BODY = 1 << 20
#: Bytes of bodies that may be held at one time, those that are still arriving among them.
_MOST_BODIES = 32 << 20
#: Number of bodies of this size (bytes) that are read for clients that may send their token in the body; one
#: address has at most half of what others leave.
_MOST_STRANGERS = 64
_LONGEST_OF_STRANGERS = 256 << 10
#: Size of a request that needs no room: the drivers' heartbeats must get through.
_SMALL = 4 << 10
#: Seconds within which a body has to arrive.
SLOWEST_BODY = 20.0
#: Chosen: no body that any route takes is nested deeper than a policy's options may sensibly be.
_DEEPEST = 32
#: Chosen: more keys than all that a job may have together; an unknown one costs 20 us of the event loop.
_MOST_KEYS = 10_000
#: Chosen: more values than any body has; 350,000 empty lists took the event loop 700 ms.
_MOST_VALUES = 30_000
#: A text in JSON, or the rest of the body where it does not end: it matches at each quotation mark, once.
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)', re.DOTALL)
#: Size (bytes) of a JSON body from which a user's are read and handled one at a time.
_LARGE = 64 << 10
#: Below this, a body is part of a file, and is not looked into.
FILES = "/v1/files/"
#: Digits of a length; with more, zeros in front made a large body seem small.
_LONGEST_NUMBER = 20
_AGAIN = {"Retry-After": "1"}
_CLOSE = {"Connection": "close"}
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_SUBMITTED = ("POST", "/v1/jobs")
#: As which all count together who show a key, or nothing; no user has such a name.
_BY_KEY = "by key"
#: Content types of a part of a file; an empty file has none.
_PARTS = frozenset({"", "application/octet-stream"})

#: Told of every answer: method, route, status, seconds.
Observer = Callable[[str, str, int, float], None]


class Gate:
    """ASGI middleware around the whole API."""

    def __init__(
        self, app: ASGIApp, entrance: Authorizer, observe: Observer, most: int, audit: Audit | None = None
    ) -> None:
        self._audit = audit
        self._app = app
        self._most = most
        self._shares, self._addresses = UserShares(most), UserShares(most // 2)
        self._under_way = 0
        #: Large bodies of strangers that are read, by address.
        self._strangers = HeldShares(_MOST_STRANGERS)
        self._held = HeldShares(_MOST_BODIES)
        self._entrance = entrance
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["headers"] = without_other_cookies(scope["headers"])
        begin, status, location = perf_counter(), 0, ""
        rule, answered = self._entrance.rule(scope), 0.0

        async def sending(message: Message) -> None:
            nonlocal status, location, answered
            if message["type"] == "http.response.start":
                status = message["status"]
                answered = perf_counter() if rule.lasting else 0.0
                location = Headers(raw=message.get("headers", [])).get("location", "")
            await send(message)

        try:
            await self._serve(scope, receive, sending, rule)
        except Exception:
            log.exception("a request failed", method=scope["method"], path=scope["path"])
            if status:
                raise  # too late for another answer: the connection has to be cut
            detail = "the server failed; its log says more"
            await problem(500, detail)(scope, receive, sending)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self._observe(scope["method"], route, status, (answered or perf_counter()) - begin)
            if self._audit is not None:
                self._audit.note(scope, status, location)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, rule: Rule) -> None:
        headers, method = Headers(scope=scope), scope["method"]
        visitor = self._entrance.visitor(rule, method, _joined(headers), _peer(scope))
        refusal = self._refusal(scope, rule, visitor)
        if refusal is not None:
            await refusal.response()(scope, receive, send)
        elif method in _SAFE:
            await self._ask(scope, receive, send, rule, visitor)
        else:
            held, strange = bytearray(), visitor is None and self._entrance.wants_somebody
            permit: Permit | None = scope.get(PERMIT)
            user = permit.person.name if permit is not None and _is_large(scope) else ""
            try:
                async with self._shares.one_by_one(user):
                    await self._serve_body(held, scope, receive, send, rule, strange=strange)
            finally:
                self._held.hold(_sender(scope), -len(held))

    def _refusal(self, scope: Scope, rule: Rule, visitor: Visitor | Denial | None) -> Refusal | None:
        """Why a request is rejected; None stores the user for routes and audit log in the scope."""
        found = visitor
        if isinstance(visitor, Visitor):
            scope[WHO] = visitor.label, visitor.token
            found = self._entrance.permit(rule, visitor, scope)
        return (
            Refusal(found.status, found.detail, headers=found.headers) if isinstance(found, Denial) else None
        )

    async def _serve_body(
        self, held: bytearray, scope: Scope, receive: Receive, send: Send, rule: Rule, *, strange: bool
    ) -> None:
        """Serve a request once its body is there, which is read into `held`."""
        headers = Headers(scope=scope)
        read = self._read_strange if strange else self._read
        try:
            refusal = await read(held, scope, receive)
        except _GoneError:
            return
        if refusal is None and scope["path"].startswith(FILES):
            refusal = (
                None if _kind(headers) in _PARTS else _unkind(headers, "bytes", "application/octet-stream")
            )
        body = bytes(held)
        async with self._shares.one_by_one(_BY_KEY if strange and len(held) > _SMALL else ""):
            if refusal is None and held and not scope["path"].startswith(FILES):
                refusal, scope[BODY] = _understood(headers, held)
            if refusal is None and scope["path"] == CREATE:
                # Behind this line the token is hidden: it cannot be stored, logged or shown.
                token = token_taken(scope.get(BODY))
                body = json.dumps(scope.get(BODY)).encode()
                if strange:
                    refusal = self._refusal(scope, rule, self._entrance.in_body(token, _peer(scope)))
        if refusal is not None:
            await refusal.response()(scope, receive, send)
            return
        await self._ask(scope, _replayed(body, receive), send, rule)

    async def _ask(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        rule: Rule,
        visitor: Visitor | Denial | None = None,
    ) -> None:
        """Let the app answer, unless it has enough to do; a body that is slow to come is not done yet."""
        if rule.lasting:  # those are counted where they are answered
            headers = _joined(Headers(scope=scope))
            stands = partial(self._entrance.stands, rule, visitor, headers)
            await serve_while(stands, self._app, scope, receive, send)
            return
        if rule.entry == "open":  # files that drivers fetch may take hours, and no thread meanwhile
            await self._app(scope, receive, send)
            return
        if self._under_way >= self._most:
            detail = f"{self._most} requests are under way already (max_requests)"
            await Refusal(429, detail, headers=_AGAIN).response()(scope, receive, send)
            return
        permit: Permit | None = scope.get(PERMIT)
        user = _BY_KEY if permit is None else permit.person.name
        # Those that are submitted have threads of their own.
        takes_thread = permit is not None and (scope["method"], scope["path"]) != _SUBMITTED
        self._under_way += 1
        try:
            async with self._shares.turn(user, waits=takes_thread):
                if permit is not None:
                    await self._app(scope, receive, send)
                    return
                async with self._addresses.turn(_place(scope), waits=scope["method"] in _SAFE):
                    await self._app(scope, receive, send)
        except TooManyError as error:
            await Refusal(429, str(error), headers=_AGAIN).response()(scope, receive, send)
        finally:
            self._under_way -= 1

    async def _read_strange(self, held: bytearray, scope: Scope, receive: Receive) -> Refusal | None:
        """Read the body of a client that may lack a valid token; few large bodies at a time."""
        length, place = _length(Headers(scope=scope)), _place(scope)
        if length is not None and length <= _SMALL:
            return await self._read(held, scope, receive, _SMALL)
        try:
            if not self._strangers.hold(place, 1):
                which = "bodies of clients without a token in a header are under way already"
                detail = f"{_MOST_STRANGERS} {which}, or half of what others leave of these"
                return Refusal(429, detail, headers=_AGAIN | _CLOSE)
            return await self._read(held, scope, receive, _LONGEST_OF_STRANGERS)
        finally:
            self._strangers.hold(place, -1)

    async def _read(
        self, held: bytearray, scope: Scope, receive: Receive, longest: int = LONGEST_BODY
    ) -> Refusal | None:
        """Read the whole body into `held`; a refusal when it is too large, too slow, or one too many.

        Drivers' heartbeats are too small to be one too many.
        """
        too_large = Refusal(413, f"a request may have {longest} bytes", headers=_CLOSE)
        headers, sender = Headers(scope=scope), _sender(scope)
        length = _length(headers) if "content-length" in headers else 0
        if length is None or length > longest:
            return too_large
        more = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SLOWEST_BODY):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _GoneError
                    part = message.get("body", b"")
                    held += part
                    room = self._held.hold(sender, len(part))
                    if len(held) > longest:
                        return too_large
                    if not room and len(held) > _SMALL:
                        others = f", or half of what others leave of {_MOST_BODIES}"
                        detail = f"{_MOST_BODIES} bytes of bodies are under way already{others}"
                        return Refusal(429, detail, headers=_AGAIN | _CLOSE)
                    more = message.get("more_body", False)
                return None
        return Refusal(408, f"the body did not arrive within {SLOWEST_BODY:g} s", headers=_CLOSE)


class _GoneError(Exception):
    """The client went away before its request was complete."""


def _joined(headers: Headers) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers.items():
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _place(scope: Scope) -> str:
    """Where a request comes from: all addresses of this host are one, as anybody here has each of them."""
    address = _peer(scope)
    return "this host" if is_loopback(address) else address or "nowhere"


def _sender(scope: Scope) -> str:
    """The user that the bytes of a request's body count for: no user has a name with blanks."""
    permit: Permit | None = scope.get(PERMIT)
    return f"{_BY_KEY} from {_place(scope)}" if permit is None else permit.person.name


def _length(headers: Headers) -> int | None:
    """The length of a body by its header; None without a number there, or with too many digits."""
    text = headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER else None


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _understood(headers: Headers, body: bytearray) -> tuple[Refusal | None, Any]:
    """Parse a body: a reason for its rejection or None, and its value."""
    if _kind(headers) != "application/json":
        return _unkind(headers, "JSON", "application/json"), None
    if _values(body) > _MOST_VALUES and _values(_TEXT.sub(b"", body)) > _MOST_VALUES:
        return Refusal(400, f"the body has more than {_MOST_VALUES} values"), None
    try:
        value = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        return Refusal(400, f"the body is not valid JSON: {why}"), None
    why = _too_much(value)
    return (Refusal(400, f"the body {why}"), None) if why else (None, value)


def _values(body: bytes | bytearray) -> int:
    """Number of values in JSON, unless its texts have such characters; one more at most."""
    return sum(map(body.count, (b",", b"[", b"{")))


def _is_large(scope: Scope) -> bool:
    """Whether a body of JSON takes the event loop for a moment, by its length, or may, without one."""
    headers = Headers(scope=scope)
    length = _length(headers)
    given = "content-length" in headers or "transfer-encoding" in headers
    return not scope["path"].startswith(FILES) and given and (length is None or length > _LARGE)


def _kind(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _unkind(headers: Headers, what: str, kind: str) -> Refusal:
    found = _kind(headers) or "no Content-Type"
    return Refusal(415, f"a body should be {what}, with Content-Type: {kind}; found {found}")


def _no_number(name: str) -> Any:
    raise ValueError(f"{name}: not a valid JSON number")


def _too_much(value: Any) -> str:
    """The excess of a body, keys or levels, in words; empty where it has neither."""
    level, keys = [value], 0
    for _ in range(_DEEPEST):
        keys += sum(len(each) for each in level if isinstance(each, dict))
        if keys > _MOST_KEYS:
            return f"has more than {_MOST_KEYS} keys"
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return ""
    return f"is nested deeper than {_DEEPEST} levels"


def _inside(value: Any) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
