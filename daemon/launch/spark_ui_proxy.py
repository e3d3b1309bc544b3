"""The Spark UI of a job's driver behind the API: read only, bounded, and as little trusted as the job.

The author of the job controls the driver's answers. So a page runs in a browser's sandbox, without an origin;
nothing of ours (token, cookies) is sent to it except the key that its UI asks for, only the content type of
its headers comes back, and it redirects nobody elsewhere.
`core/url_paths.py` defines safe paths.
"""

import re
from urllib.parse import quote, unquote, urlsplit

import anyio
import httpx
from starlette.responses import RedirectResponse, Response

from daemon.core.errors import RejectedError
from daemon.core.url_paths import ambiguous, names_segment
from framework.spark import UI_HAS_NO_TLS, DriverUi

#: Seconds within which the driver has to answer with all that it has to say, and bytes of that.
_PATIENCE = 15.0
_LARGEST = 4 << 20
#: Requests to drivers at one time.
_AT_ONCE = 8
#: Characters of a path that are not encoded when it is passed on.
_SAFE = "/:@!$&'()*+,=~"
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
        self._under_way = 0

    async def get(self, ui: DriverUi, prefix: str, path: str, query: str) -> Response:
        """Answer of a driver's UI at `path`, decoded as by a server; its links lead below `prefix` again.

        RejectedError when it does not answer, its answer is too large, or the request would change something.
        """
        if names_segment(path, "kill"):
            raise RejectedError(403, "The driver's UI is read only", "`stoker kill` ends a job")
        if why := ambiguous(path):
            raise RejectedError(400, "No page of the driver's UI", f"the path has {why}")
        if self._under_way >= _AT_ONCE:
            again = {"Retry-After": "1"}
            detail = f"{_AT_ONCE} requests to drivers' UIs are under way already"
            raise RejectedError(429, "Too many requests", detail, again)
        self._under_way += 1
        try:
            with anyio.fail_after(_PATIENCE):
                return await _get(ui, prefix, path, query)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as error:
            why = str(error) or f"no answer within {_PATIENCE:g} s"
            title = "The driver's UI is not available"
            raise RejectedError(503, title, why, {"Retry-After": "1"}) from error
        finally:
            self._under_way -= 1


async def _get(ui: DriverUi, prefix: str, path: str, query: str) -> Response:
    site = ui.site
    url = httpx.URL(f"{site}/{quote(path, safe=_SAFE)}" + (f"?{query}" if query else ""))
    asked = {
        "Authorization": f"Bearer {ui.key}",  # this driver's own, of no use elsewhere
        "X-Forwarded-Context": prefix,
        "Accept-Encoding": "identity",
        "Connection": "close",
    }
    async with (
        httpx.AsyncClient(trust_env=False, timeout=_PATIENCE, verify=UI_HAS_NO_TLS) as client,
        client.stream("GET", url, headers=asked) as answer,
    ):
        if answer.is_redirect:
            return RedirectResponse(_below(prefix, site, answer.headers["Location"]), 302, _HEADERS)
        if answer.status_code not in (200, 404):
            raise ValueError(f"it answers with HTTP {answer.status_code}")
        if "Content-Encoding" in answer.headers:
            raise ValueError("it sends a compressed answer that was not requested")
        body = bytearray()
        async for part in answer.aiter_raw():
            body += part
            if len(body) > _LARGEST:
                raise ValueError(f"it sends more than {_LARGEST} bytes")
        kind = answer.headers.get("Content-Type", "application/octet-stream")
    return Response(bytes(body), answer.status_code, {**_HEADERS, "Content-Type": _clean(kind)})


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
