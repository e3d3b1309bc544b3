"""Steps of the client's operations, without input or output: shared by the blocking and the async client.

A flow is a generator: it yields requests, pauses and pieces of work, and is sent their results. `client.py`
and `asynchronous.py` run them.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, Union
from urllib.parse import quote, unquote, urlsplit

import httpx

from stoker.errors import NotFoundError, ProblemError, StokerError, UnauthorizedError, UnreachableError

Json = Any
Result = TypeVar("Result")


@dataclass(frozen=True)
class Request:
    """A request; it is sent the response."""

    method: str
    path: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pause:
    """So many seconds."""

    seconds: float


@dataclass(frozen=True)
class Work:
    """Local work that takes a while; the flow is sent its result."""

    call: Callable[[], Any]


@dataclass(frozen=True)
class Done:
    """Last step of a flow, with its result."""

    result: Any


Step = Union[Request, Pause, Work]
Flow = Generator[Step, Any, Result]

ENDED = frozenset({"finished", "failed", "killed"})
#: Seconds between two looks at a job or its log.
POLL_SECONDS = 0.5
#: Chosen: a daemon that is being restarted comes back within this.
AWAY_SECONDS = 120.0
#: Bytes of one part of a file, at first, at least and at most; parts grow while they are quick (seconds).
_FIRST, _SMALLEST, _LARGEST, _QUICK = 1 << 18, 1 << 14, 1 << 20, 0.5
_TOO_SLOW, _BUSY = 408, (429, 503)
#: Seconds for which an upload is tried again that the daemon has no time for.
_PATIENCE = 60.0
_HOPS = 4
#: For what has to wait for its turn in the daemon.
_TURN_SECONDS = 300.0
#: A job's lists of files.
FILE_LISTS = ("py_files", "files", "jars", "archives")
SCHEME = "stoker-file"


def following(flow: Flow[Any], answer: Any = None, *, error: Exception | None = None) -> Step | Done:
    """The first step of a flow, or the one after that of which this came."""
    try:
        return flow.send(answer) if error is None else flow.throw(error)
    except StopIteration as done:
        return Done(done.value)


def ask(method: str, path: str, **options: Any) -> Flow[Json]:
    """Send a request, redirected to the leader when the daemon is a standby; return the answer's JSON.

    ProblemError for a request that the daemon rejects, UnreachableError when none answers.
    """
    for _ in range(_HOPS):
        try:
            response = yield Request(method, path, options)
        except httpx.TimeoutException as error:
            raise UnreachableError(f"{asked(error)} does not answer in time", sent=True) from None
        except httpx.TransportError as error:
            raise UnreachableError(
                f"no daemon answers at {asked(error)}: {str(error) or type(error).__name__}",
                sent=not isinstance(error, httpx.ConnectError),
            ) from None
        if response.status_code != 307:
            break
        path = response.headers.get("Location", "")
        if response.url.scheme == "https" and not path.startswith("https:"):
            raise StokerError(f"{response.url} sends on to {path}, which is not https: not followed")
    if response.is_success:
        try:
            return response.json()
        except ValueError:
            raise StokerError(f"{response.url.host} is no Stoker daemon: its answer is no JSON") from None
    raise _problem(response)


def submit(
    app: str | os.PathLike[str],
    options: Mapping[str, Any],
    *,
    upload: bool,
    idempotency_key: str | None = None,
) -> Flow[Json]:
    """Submit a job, with the files of this machine unless they are the daemon's too; the job.

    When the answer gets lost, the same submission is sent once more.
    """
    spec = yield from _spec(app, options, upload_file if upload else None)
    key = {
        "Idempotency-Key": idempotency_key or str(uuid.uuid4()),
        "Stoker-Login": quote(login_name(), safe=""),
    }
    try:
        return (yield from ask("POST", "/v1/jobs", json=spec, headers=key))
    except UnreachableError as error:
        if not error.sent:
            raise
    return (yield from ask("POST", "/v1/jobs", json=spec, headers=key))


def dry_run(app: str | os.PathLike[str], options: Mapping[str, Any], *, upload: bool) -> Flow[Json]:
    """Request the forecast of a job; local files are read, not sent."""
    sends: dict[str, int] = {}

    def look(path: Path) -> Flow[str]:
        sha256, size = yield from _read_whole(path)
        sends[sha256] = size
        return f"{SCHEME}:{sha256}/{path.name}"

    spec = yield from _spec(app, options, look if upload else None)
    params = {"send": [f"{sha256}:{size}" for sha256, size in sends.items()]}
    headers = {"Stoker-Login": quote(login_name(), safe="")}
    return (
        yield from ask(
            "POST", "/v1/jobs/dry-run", json=spec, params=params, headers=headers, timeout=_TURN_SECONDS
        )
    )


def _spec(
    app: str | os.PathLike[str], options: Mapping[str, Any], send: Callable[[Path], Flow[str]] | None
) -> Flow[dict[str, Any]]:
    """A job as it is submitted; see `placed`."""
    spec: dict[str, Any] = {"app": os.fspath(app), **options}
    for name in ("args", *FILE_LISTS):
        if name in spec:
            spec[name] = [os.fspath(each) if name != "args" else each for each in _many(name, spec[name])]
    spec["app"] = yield from placed(spec["app"], send)
    for name in FILE_LISTS:
        if name in spec:
            found = []
            for text in spec[name]:
                found.append((yield from placed(text, send, named=True)))
            spec[name] = found
    return spec


def placed(text: str, send: Callable[[Path], Flow[str]] | None, *, named: bool = False) -> Flow[str]:
    """Reference to a file in a job: `send`'s answer for a local file, an absolute path, or its own URI.

    A `named` file may have another name behind a #.
    """
    text, mark, name = text.partition("#") if named else (text, "", "")
    parts = urlsplit(text)
    if parts.scheme and parts.scheme != "file":
        return text + mark + name
    path = Path(unquote(parts.path)) if parts.scheme else Path(text).expanduser()
    if send is None:
        return f"{path.absolute()}{mark}{name}"
    found = yield from send(path)
    return found + mark + name


def upload_file(path: Path) -> Flow[str]:
    """Send a file, or its missing parts; return its reference in jobs. StokerError when it cannot be read."""
    sha256, size = yield from _read_whole(path)
    try:
        yield from _send(path, sha256, size)
    except OSError as error:
        raise _unreadable(path, error) from None
    return f"{SCHEME}:{sha256}/{path.name}"


def _read_whole(path: Path) -> Flow[tuple[str, int]]:
    """A file's hash and size; StokerError when it cannot be read."""
    try:
        found: tuple[str, int] = yield Work(lambda: _measured(path))
    except OSError as error:
        raise _unreadable(path, error) from None
    return found


def _unreadable(path: Path, error: OSError) -> StokerError:
    return StokerError(f"{path}: cannot be read: {error.strerror or error}")


def jobs(
    state: str | Sequence[str],
    owner: str | Sequence[str],
    queue: str | Sequence[str],
    kind: str | Sequence[str],
    group: str | None,
    labels: Mapping[str, str] | None,
    limit: int,
    before: str | None,
) -> Flow[Json]:
    """Ask for a page of jobs: see `Stoker.jobs`."""
    wanted = {"state": state, "owner": owner, "queue": queue, "type": kind}
    named = {name: [value] if isinstance(value, str) else list(value) for name, value in wanted.items()}
    label = [f"{name}={value}" for name, value in (labels or {}).items()]
    params = {**named, "label": label, **given(group=group, limit=limit, before=before)}
    return ask("GET", "/v1/jobs", params=params)


def set_shadow(name: str | None, options: Mapping[str, Any] | None) -> Flow[Json]:
    """Let a policy decide beside the acting one, or none any more."""
    if name is None:
        return ask("DELETE", "/v1/policy/shadow")
    return ask("PUT", "/v1/policy/shadow", json={"name": name, **(options or {})})


def what_if(asked: Mapping[str, Any]) -> Flow[Json]:
    """Request a forecast of the queue: the daemon plays for `seconds`, and before that waits for its turn."""
    return ask(
        "POST", "/v1/what-if", json=dict(asked), timeout=float(asked.get("seconds", 0.0)) + _TURN_SECONDS
    )


def health() -> Flow[Json]:
    """Whether jobs can be scheduled; a daemon that is not ready says why with a 503."""
    response = yield Request("GET", "/readyz")
    return response.json()


def wait(job_id: str, timeout: float | None = None) -> Flow[Json]:
    """Wait for a job's end; the job then. A daemon that goes away meanwhile is waited for, for a while.

    TimeoutError when it has not ended after so many seconds.
    """
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        job = yield from patient(lambda: ask("GET", f"/v1/jobs/{part(job_id)}"))
        if job["state"] in ENDED:
            return job
        if until is not None and time.monotonic() > until:
            raise TimeoutError(f"{job_id} is {job['state']} after {timeout:g} s: {job['reason']}")
        yield Pause(POLL_SECONDS)


def log_part(job_id: str, executor: int | None, stream: str, offset: int, *, follow: bool) -> Flow[Json]:
    """The next part of a log, with text unless no more can come or, without `follow`, none is there."""
    params = given(executor=executor, stream=stream, offset=offset)
    path = f"/v1/jobs/{part(job_id)}/logs"
    while True:
        found = yield from (
            patient(lambda: ask("GET", path, params=params)) if follow else ask("GET", path, params=params)
        )
        if found["text"] or found["complete"] or not follow:
            return found
        yield Pause(POLL_SECONDS)


def patient(fetch: Callable[[], Flow[Result]]) -> Flow[Result]:
    """Run the flow of `fetch`, and retry for a while when the daemon is away."""
    give_up = time.monotonic() + AWAY_SECONDS
    while True:
        try:
            return (yield from fetch())
        except UnreachableError:
            if time.monotonic() > give_up:
                raise
        yield Pause(POLL_SECONDS)


def given(**values: Any) -> dict[str, Any]:
    """Those that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def part(text: str) -> str:
    """The text as a part of a path."""
    return quote(text, safe="")


def login_name() -> str:
    """Name of the logged-in user; empty where the system has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def _send(path: Path, sha256: str, size: int) -> Flow[None]:
    there = yield from _there(sha256)
    step, give_up = _FIRST, time.monotonic() + _PATIENCE
    while not there["complete"]:
        offset = there["received"]
        data = yield Work(partial(_read, path, offset, step))
        if not data and offset < size:
            raise StokerError(f"{path}: changed while it was sent")
        began = time.monotonic()
        try:
            there = yield from patient(partial(_put, sha256, size, offset, data))
        except ProblemError as error:
            if error.status == _TOO_SLOW and step > _SMALLEST:
                step //= 2
            elif error.status in _BUSY and time.monotonic() < give_up:
                yield Pause(1.0)
            else:
                raise
            continue
        give_up = time.monotonic() + _PATIENCE
        if time.monotonic() - began < _QUICK:
            step = min(2 * step, _LARGEST)


def _there(sha256: str) -> Flow[Json]:
    try:
        return (yield from ask("GET", f"/v1/files/{sha256}"))
    except NotFoundError:
        return {"received": 0, "complete": False}


def _put(sha256: str, size: int, offset: int, data: bytes) -> Flow[Json]:
    where = {"size": size, "offset": offset}
    headers = {"Content-Type": "application/octet-stream"}
    try:
        return (yield from ask("PUT", f"/v1/files/{sha256}", params=where, content=data, headers=headers))
    except ProblemError as error:
        if error.status != 409:
            raise
    return (yield from _there(sha256))  # somebody else sends the same file, or an answer got lost


def _measured(path: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
            size += len(data)
    return digest.hexdigest(), size


def _read(path: Path, offset: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size)


def _many(name: str, value: Any) -> Sequence[Any]:
    if isinstance(value, (str, bytes, os.PathLike)):
        raise StokerError(f"{name}: should be a list, found {value!r}")
    return list(value)


def asked(error: httpx.TransportError) -> str:
    """Address of the daemon that did not answer."""
    try:
        url = error.request.url
    except RuntimeError:
        return "the daemon's URL"
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _problem(response: httpx.Response) -> StokerError:
    try:
        body = json.loads(response.content)
    except ValueError:
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("detail", body.get("title")), str):
        host = response.url.host
        return StokerError(f"{host} answers with HTTP {response.status_code}: is it a Stoker daemon?")
    kinds = {401: UnauthorizedError, 404: NotFoundError}
    kind = kinds.get(response.status_code, ProblemError)
    errors = [entry for entry in body.get("errors") or () if isinstance(entry, dict)]
    title, detail = str(body.get("title", "")), str(body.get("detail", ""))
    return kind(response.status_code, title, detail, errors, response.headers)
