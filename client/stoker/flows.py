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


class Answer(dict[str, Any]):
    """An object of an answer; StokerError, no KeyError, where the daemon left out a field."""

    def __missing__(self, key: str) -> Any:
        raise StokerError(f"the answer has no {key!r}: is it a Stoker daemon, and as new as this client?")


class Body:
    """The parts of an answer as they come; StokerError when they are more than any answer has."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._parts: list[bytes] = []
        self._left = MOST_ANSWERED

    def add(self, part: bytes) -> None:
        """Another part, decoded."""
        self._left -= len(part)
        if self._left < 0:
            place, most = _place(self._response.url), MOST_ANSWERED >> 20
            raise StokerError(f"{place} answers with more than {most} MiB: is it a Stoker daemon?")
        self._parts.append(part)

    def whole(self) -> httpx.Response:
        """The response with all that came."""
        found = self._response
        headers = [each for each in found.headers.multi_items() if each[0] not in _OF_TRANSFER]
        return httpx.Response(
            found.status_code, headers=headers, content=b"".join(self._parts), request=found.request
        )


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

#: Chosen: bytes of the largest answer; the jars and the longest lists of a daemon are far smaller.
MOST_ANSWERED = 1 << 28
_OF_TRANSFER = ("content-encoding", "content-length", "transfer-encoding")
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
_HOPS, _REDIRECTED = 4, 307
#: For what has to wait for its turn in the daemon, or is made when it is asked for.
_TURN_SECONDS = 300.0
_READY_SECONDS = 2.0
#: For the test of a webhook.
WEBHOOK_SECONDS = 70.0
#: Seconds between two messages about an upload's progress.
_TELL_SECONDS = 5.0
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
    """Send a request and return the JSON of the answer; see `send` and `read`."""
    return read((yield from send(method, path, **options)))


def send(method: str, path: str, **options: Any) -> Flow[httpx.Response]:
    """Send a request, redirected to the leader when the daemon is a standby; return the answer.

    UnreachableError when none answers.
    """
    hops = _HOPS
    while True:
        try:
            response: httpx.Response = yield Request(method, path, options)
        except httpx.TimeoutException as error:
            raise UnreachableError(
                f"the daemon at {asked(error)} does not answer in time", sent=True
            ) from None
        except httpx.TransportError as error:
            raise UnreachableError(
                f"no daemon answers at {asked(error)}: {_hint(error)} ({str(error) or type(error).__name__})",
                sent=not isinstance(error, httpx.ConnectError),
            ) from None
        hops -= 1
        if response.status_code != _REDIRECTED or not hops:
            return response
        path = response.headers.get("Location", "")
        if response.url.scheme == "https" and not path.startswith("https:"):
            raise StokerError(f"{_place(response.url)} sends on to {path}, which is not https: not followed")


def read(response: httpx.Response) -> Json:
    """Return the JSON of an answer; ProblemError when the daemon rejects the request."""
    if response.is_success:
        return _json(response)
    raise _problem(response)


def _json(response: httpx.Response) -> Json:
    found = json_object(response)
    if found is None:
        raise StokerError(f"{_place(response.url)} is no Stoker daemon: its answer is no JSON object")
    return found


def json_object(response: httpx.Response) -> Answer | None:
    """The JSON object that an answer is; None where it is anything else."""
    try:
        found = json.loads(response.content, object_hook=Answer)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, Answer) else None


def download(path: str) -> Flow[bytes]:
    """Fetch a file of the daemon's, which it may have to make first; ProblemError when it is refused."""
    response = yield from send("GET", path, timeout=_TURN_SECONDS)
    if response.is_success:
        return response.content
    raise _problem(response)


def submit(spec: Mapping[str, Any], idempotency_key: str | None = None) -> Flow[Json]:
    """Submit a job in the API's form; the job. Sent once more when the answer gets lost."""
    key = {"Idempotency-Key": idempotency_key or str(uuid.uuid4()), **_login()}
    try:
        return (yield from ask("POST", "/v1/jobs", json=spec, headers=key))
    except UnreachableError as error:
        if not error.sent:
            raise
    return (yield from ask("POST", "/v1/jobs", json=spec, headers=key))


def dry_run(spec: Mapping[str, Any], sizes: Mapping[str, int]) -> Flow[Json]:
    """Request the forecast of a job, as if files of these sizes had been sent: bytes by hash."""
    params = {"send": [f"{sha256}:{size}" for sha256, size in sizes.items()]}
    return ask("POST", "/v1/jobs/dry-run", json=spec, params=params, headers=_login(), timeout=_TURN_SECONDS)


def _login() -> dict[str, str]:
    return {"Stoker-Login": quote(login_name(), safe="")}


def spec(
    app: str | os.PathLike[str],
    options: Mapping[str, Any],
    *,
    upload: bool,
    sizes: dict[str, int] | None = None,
) -> Flow[dict[str, Any]]:
    """A job in the API's form, once its files are sent, unless they are the daemon's too.

    With `sizes` nothing is sent: the bytes that would be are entered there by their hash.
    """
    made: dict[str, Any] = {"app": os.fspath(app), **options}
    for name in ("args", *FILE_LISTS):
        if name in made:
            made[name] = [os.fspath(each) if name != "args" else each for each in _many(name, made[name])]
    place = None if not upload else upload_file if sizes is None else partial(measure, sizes)
    return (yield from placed_files(made, place))


def placed_files(spec: Mapping[str, Any], place: Callable[[Path], Flow[str]] | None) -> Flow[dict[str, Any]]:
    """The job with references to its files; see `placed`."""
    found = dict(spec)
    if "app" in found:
        found["app"] = yield from placed(found["app"], place)
    for name in FILE_LISTS:
        if name in found:
            texts = []
            for text in found[name]:
                texts.append((yield from placed(text, place, named=True)))
            found[name] = texts
    return found


def measure(sizes: dict[str, int], path: Path) -> Flow[str]:
    """Return a file's reference in jobs, and enter its size; nothing is sent."""
    sha256, size = yield from _read_whole(path)
    sizes[sha256] = size
    return f"{SCHEME}:{sha256}/{path.name}"


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


def upload_file(path: Path, tell: Callable[[str], None] | None = None) -> Flow[str]:
    """Send a file, or its missing parts; return its reference in jobs. StokerError when it cannot be read.

    `tell` receives messages about the progress of a large file, and about a daemon that is away.
    """
    sha256, size = yield from _read_whole(path)
    try:
        yield from _send(path, sha256, size, tell)
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


def what_if(asked: Mapping[str, Any]) -> Flow[Json]:
    """Request a forecast of the queue: the daemon plays for `seconds`, and before that waits for its turn."""
    return _play("/v1/what-if", asked)


def promote(asked: Mapping[str, Any]) -> Flow[Json]:
    """Request a promotion of a policy, with the waits of `what_if`."""
    return _play("/v1/policy/promotion", asked)


def _play(path: str, asked: Mapping[str, Any]) -> Flow[Json]:
    return ask("POST", path, json=dict(asked), timeout=float(asked.get("seconds", 0.0)) + _TURN_SECONDS)


def health() -> Flow[Json]:
    """Whether jobs can be scheduled; a daemon that is not ready gives the reasons with a 503."""
    return _json((yield from send("GET", "/readyz")))


def ready() -> Flow[bool]:
    """Whether a daemon answers soon, and can schedule jobs."""
    try:
        response = yield from send("GET", "/readyz", timeout=_READY_SECONDS)
    except UnreachableError:
        return False
    return response.status_code == httpx.codes.OK


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


def patient(fetch: Callable[[], Flow[Result]], tell: Callable[[str], None] | None = None) -> Flow[Result]:
    """Run the flow of `fetch`, and retry for a while when the daemon is away, which `tell` is told once."""
    give_up = time.monotonic() + AWAY_SECONDS
    while True:
        try:
            return (yield from fetch())
        except UnreachableError as error:
            if time.monotonic() > give_up:
                raise
            if tell is not None:
                tell(f"{error}; trying again")
                tell = None
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


def _send(path: Path, sha256: str, size: int, tell: Callable[[str], None] | None) -> Flow[None]:
    there = yield from uploaded(sha256)
    step, told = _FIRST, time.monotonic()
    give_up = told + _PATIENCE
    while not there["complete"]:
        offset = there["received"]
        data = yield Work(partial(_read, path, offset, step))
        if not data and offset < size:
            raise StokerError(f"{path}: changed while it was sent")
        began = time.monotonic()
        try:
            there = yield from patient(partial(_put, sha256, size, offset, data), tell)
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
        if tell is not None and time.monotonic() > told + _TELL_SECONDS:
            told = time.monotonic()
            tell(f"{path.name}: {there['received'] >> 20} of {size >> 20} MiB sent")


def uploaded(sha256: str) -> Flow[Json]:
    """Upload status of a file: received (bytes), complete."""
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
    return (yield from uploaded(sha256))  # somebody else sends the same file, or an answer got lost


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
    return _place(url)


def _place(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _hint(error: httpx.TransportError) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "is its certificate signed by an authority known here? --ca FILE names another"
    return "is `stoker up` running?"


def _problem(response: httpx.Response) -> StokerError:
    body = json_object(response)
    if body is None or not isinstance(body.get("detail", body.get("title")), str):
        place = _place(response.url)
        return StokerError(f"{place} answers with HTTP {response.status_code}: is it a Stoker daemon?")
    kinds = {401: UnauthorizedError, 404: NotFoundError}
    kind = kinds.get(response.status_code, ProblemError)
    found = body.get("errors")
    errors = [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    title, detail = str(body.get("title", "")), str(body.get("detail", ""))
    return kind(response.status_code, title, detail, errors, response.headers)
