"""The Spark UI of a job's driver behind the API: read only, bounded, and as little trusted as the job.

The author of the job controls the driver's answers. So a page runs in a browser's sandbox, without an origin;
nothing of ours (token, cookies) is sent to it except the key that its UI asks for, only the content type of
its headers comes back, and it redirects nobody elsewhere.
`core/url_paths.py` defines safe paths.
"""

import asyncio
import io
import re
from collections import Counter
from contextlib import nullcontext
from email.message import Message
from http.client import HTTPException, parse_headers
from urllib.parse import quote, unquote, urlsplit
from weakref import WeakValueDictionary

import anyio
from starlette.responses import RedirectResponse, Response

from daemon.core.errors import RejectedError
from daemon.core.url_paths import ambiguous, names_segment
from framework.spark import DriverUi

#: Seconds within which the driver has to answer with all that it has to say, and bytes of that.
_PATIENCE = 15.0
_LARGEST = 4 << 20
#: Bytes of its headers, and of a read. HTTP 1.0 has one answer to a request: an endless row of provisional
#: ones (1xx), which a client of HTTP 1.1 has to read, would keep the daemon from all else.
_LONGEST_HEAD, _PART = 1 << 16, 1 << 16
#: Requests to drivers at one time: to all, and to those of one owner, which may let them wait. Of the latter
#: those of one visitor; more wait, so that nobody keeps all others away.
_AT_ONCE, _OF_ONE, _OF_VISITOR = 32, 8, 4
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: Characters of a path that are not encoded when it is passed on.
_SAFE = "/:@!$&'()*+,=~"
_SAFE_IN_QUERY = f"{_SAFE};?%[]"
#: Content types that pass. Parts of `multipart/...` have headers of their own, which some browsers obey.
_KIND = re.compile(
    r"(?:text|image|font|application)/[\w.+-]+(?: ?; ?charset=\"?[\w-]+\"?)?", re.ASCII | re.IGNORECASE
)
_HEADERS = {
    "Content-Security-Policy": "sandbox allow-scripts allow-popups",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class SparkUi:
    """Asks drivers' UIs on behalf of the API's clients."""

    def __init__(self) -> None:
        #: Requests, by the job's owner.
        self._under_way: Counter[str] = Counter()
        #: By visitor and owner; each is there while somebody has or awaits it.
        self._turns = WeakValueDictionary[tuple[str, str], asyncio.Semaphore]()

    async def get(
        self, ui: DriverUi, prefix: str, path: str, query: str, owner: str = "", visitor: str = ""
    ) -> Response:
        """Answer of a driver's UI at `path`, decoded as by a server; its links lead below `prefix` again.

        `owner` is the job's, `visitor` asks; where there are no users, nobody has a name.

        RejectedError when it does not answer, its answer is too large, or the request would change something.
        """
        if names_segment(path, "kill"):
            raise RejectedError(403, "The driver's UI is read only", "`stoker kill` ends a job")
        if why := ambiguous(path):
            raise RejectedError(400, "No page of the driver's UI", f"the path has {why}")
        turn = self._turns.setdefault((visitor, owner), asyncio.Semaphore(_OF_VISITOR))
        async with turn if visitor else nullcontext():
            return await self._visit(ui, prefix, path, query, owner)

    async def _visit(self, ui: DriverUi, prefix: str, path: str, query: str, owner: str) -> Response:
        own = self._under_way[owner]
        if own >= _OF_ONE or self._under_way.total() >= _AT_ONCE:
            whose = f"{own} requests to UIs of this owner's jobs" if own else f"{_AT_ONCE} requests to UIs"
            detail = f"{whose} are under way already"
            raise RejectedError(429, "Too many requests", detail, {"Retry-After": "1"})
        self._under_way[owner] += 1
        try:
            with anyio.fail_after(_PATIENCE):
                return await _get(ui, prefix, path, query)
        except asyncio.IncompleteReadError:
            raise _unavailable("it ends the connection without an answer") from None
        except asyncio.LimitOverrunError:
            raise _unavailable(f"its headers have more than {_LONGEST_HEAD} bytes") from None
        except (OSError, HTTPException, ValueError) as error:  # TimeoutError is an OSError
            raise _unavailable(str(error) or f"no answer within {_PATIENCE:g} s") from error
        finally:
            self._under_way[owner] -= 1
            if not self._under_way[owner]:
                del self._under_way[owner]


def _unavailable(why: str) -> RejectedError:
    return RejectedError(503, "The driver's UI is not available", why, {"Retry-After": "1"})


async def _get(ui: DriverUi, prefix: str, path: str, query: str) -> Response:
    target = f"/{quote(path, safe=_SAFE)}" + (f"?{quote(query, _SAFE_IN_QUERY, 'latin-1')}" if query else "")
    asked = (
        f"GET {target} HTTP/1.0",
        f"Host: {ui.site.partition('//')[2]}",
        f"Authorization: Bearer {ui.key}",  # this driver's own, of no use elsewhere
        f"X-Forwarded-Context: {prefix}",
        "Accept: */*",
        "Accept-Encoding: identity",
        "Connection: close",
    )
    reader, writer = await asyncio.open_connection(ui.host, ui.port, limit=_LONGEST_HEAD)
    try:
        writer.write("".join(f"{line}\r\n" for line in (*asked, "")).encode())
        status, headers = _head(await reader.readuntil(b"\r\n\r\n"))
        if status in _REDIRECTS:
            return RedirectResponse(_below(prefix, ui.site, headers.get("Location", "")), 302, _HEADERS)
        if status not in (200, 404):
            raise ValueError(f"it answers with HTTP {status}")
        if "Content-Encoding" in headers:
            raise ValueError("it sends a compressed answer that was not requested")
        body = await _body(reader, headers)
    finally:
        writer.transport.abort()
    kind = headers.get("Content-Type", "application/octet-stream")
    return Response(body, status, {**_HEADERS, "Content-Type": _clean(kind)})


def _head(text: bytes) -> tuple[int, Message]:
    """Status and headers of an answer; ValueError when it is none of HTTP."""
    first, _, rest = text.partition(b"\r\n")
    match = re.fullmatch(rb"HTTP/1\.[01] (\d{3})(?: .*)?", first)
    if match is None:
        raise ValueError("it does not answer by HTTP")
    return int(match[1]), parse_headers(io.BytesIO(rest))


async def _body(reader: asyncio.StreamReader, headers: Message) -> bytes:
    """Read all that follows; ValueError when it is too much, too little, or in chunks (HTTP 1.1)."""
    if "Transfer-Encoding" in headers:
        raise ValueError("it sends chunks that were not requested")
    length = headers.get("Content-Length")
    if length is not None and not re.fullmatch(r"[0-9]{1,15}", length):
        raise ValueError("it sends an invalid length")
    body, most = bytearray(), _LARGEST if length is None else int(length)
    while len(body) < most + (length is None) and (part := await reader.read(_PART)):
        body += part
        if len(body) > _LARGEST:
            raise ValueError(f"it sends more than {_LARGEST} bytes")
    if length is not None and len(body) < most:
        raise ValueError("its answer ends too early")
    return bytes(body if length is None else body[:most])


def _below(prefix: str, site: str, location: str) -> str:
    """Target of a redirect, as a path of ours; ValueError when it is not the same UI."""
    if not (location.isascii() and location.isprintable()):
        raise ValueError("it redirects to an invalid address")
    parts = urlsplit(location)
    own = f"{parts.scheme}://{parts.netloc}" if parts.netloc else site
    if own != site or (not parts.netloc and not parts.path.startswith("/")):
        raise ValueError("it redirects to another server")
    path = unquote(parts.path)
    if why := ambiguous(path):
        raise ValueError(f"it redirects to a path with {why}")
    path = quote(path.removeprefix(prefix).lstrip("/"), safe=_SAFE)
    return f"{prefix}/{path}" + (f"?{parts.query}" if parts.query else "")


def _clean(kind: str) -> str:
    return kind if _KIND.fullmatch(kind) else "application/octet-stream"
