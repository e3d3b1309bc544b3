"""The routes of the page: the page at `/`, its files, sessions, live changes, and the last hours.

The page requests everything else from the rest of the API. The headers restrict the browser: it runs only our
scripts, requests only this server, and shows the page in no frame.
"""

import hashlib
import math
import time
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated, Any

from fastapi import FastAPI, Header, Query, Request, Response
from starlette.responses import JSONResponse, StreamingResponse

from daemon.auth.authentication import ANYBODY, Authenticator
from daemon.auth.permits import permit_of
from daemon.auth.sessions import COOKIE, LASTS, Sessions
from daemon.core.errors import RejectedError
from daemon.http.server.scheduler_interface import Leadership
from daemon.page import schemas
from daemon.page.stream import SnapshotStream
from daemon.schemas import cluster as cluster_schemas
from daemon.schemas.bill import bill_body
from daemon.store.job_store import Store
from daemon.store.rows.bill import AskedBill
from framework.host.request_guard import Denial

_KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
#: For all that is loaded as a page or for one.
SAFE: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-cache",
    }
)
_UNSEEN = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_DAY = 86_400.0

#: Where to go from `/`.
_LINKS = {"jobs": "/v1/jobs", "cluster": "/v1/cluster", "policy": "/v1/policy", "api": "/openapi.json"}


def add_page(
    app: FastAPI,
    leadership: Leadership,
    store: Store,
    doorkeeper: Authenticator,
    sessions: Sessions,
    *,
    version: str,
) -> SnapshotStream:
    """Add them; the stream, which is to be closed before the server ends."""
    index = cluster_schemas.IndexBody(name="stoker", version=version, links=_LINKS)
    found = _read()
    stream = SnapshotStream(leadership, store, _edition(found))
    _add_files(app, found, index)
    _add_sessions(app, doorkeeper, sessions)

    @app.get("/v1/stream", include_in_schema=False)
    async def listen(
        request: Request, last_event_id: Annotated[str, Header(max_length=64)] = ""
    ) -> StreamingResponse:
        """Tell of cluster and jobs as they change, as server-sent events."""
        messages = await stream.listen(permit_of(request), last_event_id)
        headers = {**_UNSEEN, "X-Accel-Buffering": "no"}
        return StreamingResponse(messages, headers=headers, media_type="text/event-stream")

    @app.get("/v1/timeline")
    def timeline(query: Annotated[schemas.TimelineQuery, Query()]) -> schemas.TimelineBody:
        """Show the work of VMs in the last hours, and the decisions behind it."""
        until = time.time()
        since = until - 3600 * query.hours
        lately = store.jobs.recent.since(since, query.limit, schemas.MOST_DECISIONS)
        return schemas.timeline_body(lately, since, until)

    @app.get("/v1/bill/today")
    def today() -> schemas.TodayBody:
        """Show the cost of VMs today, beside the cost under other ways of charging."""
        until, cluster = leadership.live().charge(), leadership.leader().cluster()
        midnight = until - until % _DAY
        day = time.strftime("%Y-%m-%d", time.gmtime(until))
        bill = bill_body(store.vms.bill(AskedBill("kind", day, day)), "kind", None)
        held, first = store.jobs.recent.held(day, midnight, until)
        # VMs are paid for from when they are there, which may be before the first job of all.
        there = [max(each.opened_at, midnight) for each in store.vms.accounts()]
        # An account of before a restart is closed: what it was paid for counts as well.
        if (began := store.vms.first_opened()) is not None:
            there.append(max(began, midnight))
        since = min([until, *there] if first is None else [first, *there])
        held += math.fsum(math.fsum(tasks.values()) for tasks in leadership.live().due().values())
        fixed = math.fsum(vm.price_per_hour for vm in cluster.vms if not vm.pool)
        fixed += math.fsum(pool.max * pool.price_per_hour for pool in cluster.pools)
        return schemas.TodayBody(
            day=day,
            since=since,
            until=until,
            paid=bill.total,
            held=held,
            fixed=fixed * max(0.0, until - since) / 3600,
            fixed_per_hour=fixed,
            elastic=bool(cluster.pools) or any(vm.pool for vm in cluster.vms),
        )

    return stream


def _add_files(app: FastAPI, found: "Mapping[str, _PageFile]", index: cluster_schemas.IndexBody) -> None:
    @app.get("/", response_model=cluster_schemas.IndexBody)
    async def root(request: Request) -> Response:
        """Return links to the API; to a browser, the page."""
        if "text/html" in request.headers.get("accept", ""):
            return found["index.html"].answer(request)
        return JSONResponse(index.model_dump(), headers={"Vary": "Accept"})

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        """Show the API's documentation in a browser."""
        return found["docs.html"].answer(request)

    @app.get("/page/{name}", include_in_schema=False)
    async def page_file(request: Request, name: str) -> Response:
        """A file of the page's."""
        if name not in found:
            raise RejectedError(404, "No such file", f"the page has no file {name}")
        return found[name].answer(request)


def _add_sessions(app: FastAPI, doorkeeper: Authenticator, sessions: Sessions) -> None:
    @app.post("/v1/session", status_code=201)
    async def begin(request: Request, asked: schemas.SessionWish, response: Response) -> schemas.SessionBody:
        """Begin a session: exchange the token for a cookie that scripts cannot read."""
        peer = request.client.host if request.client else ""
        found = doorkeeper.by_token(asked.token.strip(), peer, "the token is not the one of this server")
        if isinstance(found, Denial):
            kept = {name: value for name, value in found.headers.items() if name == "Retry-After"}
            raise RejectedError(found.status, "Not let in", found.detail, kept)
        response.headers.update(_UNSEEN)
        seconds = None
        if found is not ANYBODY:
            seconds, secret = LASTS, sessions.begin(found.token)
            response.set_cookie(COOKIE, secret, max_age=int(LASTS), **_cookie(request))
        return schemas.SessionBody(name=found.person.name, role=found.person.role, seconds=seconds)

    @app.delete("/v1/session", status_code=204)
    async def end(request: Request) -> Response:
        """End the session of the request's cookie."""
        sessions.end(request.headers)
        response = Response(status_code=204, headers=_UNSEEN)
        response.delete_cookie(COOKIE, **_cookie(request))
        return response


def _cookie(request: Request) -> dict[str, Any]:
    """How the cookie is kept: sent to us alone, and never in clear where the page came by TLS."""
    by_tls = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    return {"path": "/", "httponly": True, "samesite": "strict", "secure": by_tls}


class _PageFile:
    """A file in memory, sent only to browsers that cache a different version."""

    def __init__(self, name: str, body: bytes) -> None:
        self._body = body
        self._kind = _KINDS["." + name.rpartition(".")[2]]
        self.tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'

    def answer(self, request: Request) -> Response:
        headers = {**SAFE, "ETag": self.tag, "Vary": "Accept"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        return Response(self._body, headers=headers, media_type=self._kind)


def _read() -> Mapping[str, _PageFile]:
    there = files("daemon.page").joinpath("files")
    names = [each.name for each in there.iterdir() if "." + each.name.rpartition(".")[2] in _KINDS]
    return {name: _PageFile(name, there.joinpath(name).read_bytes()) for name in names}


def _edition(found: Mapping[str, _PageFile]) -> str:
    """Which page that is: another where any file is."""
    tags = "".join(found[name].tag for name in sorted(found))
    return hashlib.sha256(tags.encode()).hexdigest()[:16]
