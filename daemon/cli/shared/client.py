"""The HTTP client of the command line: one method per thing that the API can do, JSON in and out.

How answers are shown is in `render`; every failure is a CommandError fit for a user.
"""

import contextlib
import getpass
import json
import ssl
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from conf.bounded_read import read_token
from daemon.cli.shared.errors import CommandError

Json = Any

#: Chosen: a daemon answers in milliseconds; one that does not within this is in trouble.
_TIMEOUT_SECONDS = 30.0
#: For what a daemon makes when it is asked for.
_TEST_SECONDS = 70.0
_MAKING_SECONDS = 300.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class UnreachableError(CommandError):
    """No daemon answers at the URL; a caller that waits for a job may retry.

    `sent` is true if the request may have arrived all the same.
    """

    def __init__(self, text: str, *, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent


class RefusedError(CommandError):
    """The daemon rejected the request, with a reason; `status` is HTTP's."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Client:
    """A connection to one daemon."""

    def __init__(self, url: str, token_file: Path | None = None, ca: Path | None = None) -> None:
        """`ca` is a PEM file of the certificates that signed the daemon's; None for this system's."""
        self._url = _checked(url)
        headers = {} if token_file is None else {"Authorization": f"Bearer {_token(token_file)}"}
        parts = urlsplit(self._url)
        # A proxy from the environment cannot reach this machine's loopback.
        outside, encrypted = parts.hostname not in _LOOPBACK, parts.scheme == "https"
        if headers and outside and not encrypted:
            print(f"stoker: {self._url} is not https: the token can be read on the network", file=sys.stderr)
        self._http = httpx.Client(
            base_url=self._url,
            headers=headers,
            timeout=_TIMEOUT_SECONDS,
            trust_env=outside,
            verify=_trusted(ca) if ca or encrypted or outside else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def submit(self, spec: Mapping[str, Json], idempotency_key: str | None = None) -> Json:
        """Submit a job; the job. When the answer gets lost, the same submission is sent once more."""
        headers = {
            "Idempotency-Key": idempotency_key or str(uuid.uuid4()),
            "Stoker-Login": quote(login_name(), safe=""),
        }
        try:
            return self._ask("POST", "/v1/jobs", json=spec, headers=headers)
        except UnreachableError as error:
            if not error.sent:
                raise
        return self._ask("POST", "/v1/jobs", json=spec, headers=headers)

    def dry_run(self, spec: Mapping[str, Json], sends: Mapping[str, int]) -> Json:
        """Forecast of a submission for which these files would be sent: bytes by hash."""
        return self._ask(
            "POST",
            "/v1/jobs/dry-run",
            json=spec,
            params={"send": [f"{sha256}:{size}" for sha256, size in sends.items()]},
            headers={"Stoker-Login": quote(login_name(), safe="")},
            timeout=_MAKING_SECONDS,
        )

    def jobs(
        self,
        state: str | None,
        limit: int,
        owner: str | None = None,
        queue: str | None = None,
        group: str | None = None,
        labels: Sequence[str] = (),
        before: str | None = None,
        order: str | None = None,
        type: str | None = None,  # noqa: A002 - what jobs call it
    ) -> Json:
        """List jobs, the newest first or in that order, those behind that one."""
        asked = _given(state=state, owner=owner, queue=queue, type=type, group=group)
        page = _given(limit=limit, before=before, order=order)
        return self._ask("GET", "/v1/jobs", params={**asked, **page, "label": list(labels)})

    def group(self, name: str) -> Json:
        """The jobs of a group, or of an array, as one."""
        return self._ask("GET", f"/v1/groups/{_part(name)}")

    def kill_group(self, name: str) -> Json:
        """Ask for the end of all of them; the group."""
        return self._ask("POST", f"/v1/groups/{_part(name)}/kill")

    def job(self, job_id: str) -> Json:
        """One job with its executors."""
        return self._ask("GET", f"/v1/jobs/{_part(job_id)}")

    def kill(self, job_id: str) -> Json:
        """Ask for a job's end; the job."""
        return self._ask("POST", f"/v1/jobs/{_part(job_id)}/kill")

    def decommission(self, job_id: str, executors: Sequence[int], reason: str) -> Json:
        """Have a job's driver give executors up; the job."""
        body = {"executors": list(executors), "reason": reason}
        return self._ask("POST", f"/v1/jobs/{_part(job_id)}/decommission", json=body)

    def explain(self, job_id: str) -> Json:
        """Every decision about a job: why its executors are where they are, or why it waits."""
        return self._ask("GET", f"/v1/jobs/{_part(job_id)}/explain")

    def events(self, **asked: str | float | None) -> Json:
        """Events; see `/v1/events` for the parameters."""
        return self._ask("GET", "/v1/events", params=_given(**asked))

    def log(self, job_id: str, executor: int | None, stream: str, offset: int) -> Json:
        """Part of a log from a byte offset on: text, next_offset, complete."""
        params = _given(executor=executor, stream=stream, offset=offset)
        return self._ask("GET", f"/v1/jobs/{_part(job_id)}/logs", params=params)

    def upload(self, sha256: str) -> Json:
        """Upload status of a file: received (bytes), complete."""
        try:
            return self._ask("GET", f"/v1/files/{sha256}")
        except RefusedError as error:
            if error.status != 404:
                raise
            return {"received": 0, "complete": False}

    def put_part(self, sha256: str, size: int, offset: int, data: bytes) -> Json:
        """Send the part of a file at this offset and return the status, which other clients change too."""
        headers = {"Content-Type": "application/octet-stream"}
        where = {"size": size, "offset": offset}
        try:
            return self._ask("PUT", f"/v1/files/{sha256}", params=where, content=data, headers=headers)
        except RefusedError as error:
            if error.status != 409:
                raise
            return self.upload(sha256)

    def page(self, path: str) -> tuple[int, str, str, bytes]:
        """Fetch a path of the API as a browser does: status, type, redirect location, body."""
        response = self._send("GET", path)
        kind = response.headers.get("Content-Type", "application/octet-stream")
        return response.status_code, kind, response.headers.get("Location", ""), response.content

    def cluster(self) -> Json:
        """The VMs."""
        return self._ask("GET", "/v1/cluster")

    def bill(self, **asked: str | int | None) -> Json:
        """Cost of VMs; see `/v1/bill` for the parameters."""
        given = {key: value for key, value in asked.items() if value is not None}
        return self._ask("GET", "/v1/bill", params=given)

    def policies(self) -> Json:
        """The policies that there are."""
        return self._ask("GET", "/v1/policies")

    def policy(self) -> Json:
        """The policy that decides now."""
        return self._ask("GET", "/v1/policy")

    def set_policy(self, name: str, options: Mapping[str, Json]) -> Json:
        """Let another policy decide."""
        return self._ask("PUT", "/v1/policy", json={"name": name, **options})

    def set_shadow(self, name: str, options: Mapping[str, Json]) -> Json:
        """Let a policy decide beside the acting one."""
        return self._ask("PUT", "/v1/policy/shadow", json={"name": name, **options})

    def drop_shadow(self) -> Json:
        """Let none decide beside the acting one."""
        return self._ask("DELETE", "/v1/policy/shadow")

    def comparison(self, limit: int) -> Json:
        """Where shadow policies would have decided otherwise."""
        return self._ask("GET", "/v1/policy/comparison", params={"limit": limit})

    def what_if(self, asked: Mapping[str, Json]) -> Json:
        """Forecast of the queue.

        See `POST /v1/what-if`.
        """
        patience = float(asked.get("seconds", 0.0)) + _MAKING_SECONDS
        return self._ask("POST", "/v1/what-if", json=dict(asked), timeout=patience)

    def queues(self) -> Json:
        """The queues and their use."""
        return self._ask("GET", "/v1/queues")

    def queue(self, path: str) -> Json:
        """One of them."""
        return self._ask("GET", f"/v1/queues/{_part(path)}")

    def set_queue(self, path: str, settings: Mapping[str, Json]) -> tuple[Json, bool]:
        """Change settings of a queue, or make one with these; the queue, and whether it is new."""
        response = self._send("PATCH", f"/v1/queues/{_part(path)}", json=dict(settings))
        return self._answer(response), response.status_code == 201

    def remove_queue(self, path: str) -> Json:
        """Remove a queue; as it was."""
        return self._ask("DELETE", f"/v1/queues/{_part(path)}")

    def me(self) -> Json:
        """The requesting user, as the daemon recognises it."""
        return self._ask("GET", "/v1/me")

    def users(self) -> Json:
        """The users."""
        return self._ask("GET", "/v1/users")

    def put_user(self, name: str, **change: Json) -> Json:
        """Create a user, or change the given settings of one; returns the user."""
        return self._ask("PUT", f"/v1/users/{_part(name)}", json=_given(**change))

    def end_user(self, name: str) -> Json:
        """End a user; those that are left."""
        return self._ask("DELETE", f"/v1/users/{_part(name)}")

    def make_token(self, name: str, seconds: float | None) -> Json:
        """A new token of a user."""
        return self._ask("POST", f"/v1/users/{_part(name)}/tokens", json=_given(seconds=seconds))

    def end_token(self, number: str) -> Json:
        """Revoke a token; returns its user."""
        return self._ask("DELETE", f"/v1/tokens/{number}")

    def webhooks(self) -> Json:
        """The webhooks, and how they do."""
        return self._ask("GET", "/v1/webhooks")

    def try_webhook(self, name: str) -> Json:
        """Send a test to a webhook; returns the result."""
        return self._ask("POST", f"/v1/webhooks/{_part(name)}/test", timeout=_TEST_SECONDS)

    def sparks(self) -> Json:
        """The Sparks that are served."""
        return self._ask("GET", "/v1/spark")

    def download(self, path: str) -> bytes:
        """A file of the daemon's, which may have to be made first."""
        response = self._send("GET", path, timeout=_MAKING_SECONDS)
        if response.is_success:
            return response.content
        raise RefusedError("\n".join(self._problem(response)), response.status_code)

    @property
    def url(self) -> str:
        """Where the daemon is."""
        return self._url

    def ready(self) -> bool:
        """Whether the daemon is there and can schedule."""
        with contextlib.suppress(httpx.TransportError):
            return self._http.get("/readyz", timeout=2.0).status_code == 200
        return False

    def _ask(self, method: str, path: str, **request: Any) -> Json:
        """Send a request; the JSON of its answer."""
        return self._answer(self._send(method, path, **request))

    def _answer(self, response: httpx.Response) -> Json:
        """The JSON of an answer; RefusedError when it is a refusal."""
        if response.is_success:
            return self._body(response)
        raise RefusedError("\n".join(self._problem(response)), response.status_code)

    def _send(self, method: str, path: str, *, hops: int = 3, **request: Any) -> httpx.Response:
        """Send a request, to the daemon that leads when this one does not."""
        try:
            response = self._http.request(method, path, **request)
        except httpx.TimeoutException:
            raise UnreachableError(f"the daemon at {self._url} does not answer in time", sent=True) from None
        except httpx.TransportError as error:
            sent = not isinstance(error, httpx.ConnectError)
            hint = "is `stoker up` running?"
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                hint = "is its certificate signed by somebody known here? --ca FILE names another"
            text = f"no daemon answers at {self._url}: {hint} ({error})"
            raise UnreachableError(text, sent=sent) from None
        if response.status_code == 307 and hops:
            leader = response.headers["Location"]
            if self._url.startswith("https:") and not leader.startswith("https:"):
                raise CommandError(f"{self._url} sends on to {leader}, which is not https: not followed")
            return self._send(method, leader, hops=hops - 1, **request)
        return response

    def _body(self, response: httpx.Response) -> Json:
        try:
            return response.json()
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise CommandError(f"{self._url} is no Stoker daemon: its answer is no JSON") from None

    def _problem(self, response: httpx.Response) -> Iterator[str]:
        """Lines of a problem+json answer: its detail, then the field errors that the detail omits."""
        body = _object(response)
        detail = body.get("detail") or body.get("title")
        if not isinstance(detail, str):
            yield f"{self._url} answers with HTTP {response.status_code}: is it a Stoker daemon?"
            return
        hint = "; give --token-file" if response.status_code == 401 else ""
        yield detail + hint
        for entry in body.get("errors") or ():
            if isinstance(entry, dict) and str(entry.get("message")) not in detail:
                yield f"{entry.get('field')}: {entry.get('message')}"


def login_name() -> str:
    """Name of the logged-in user; empty where the system has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # the latter before Python 3.13
        return ""


def _checked(url: str) -> str:
    url = url.strip()
    parts = urlsplit(url)
    try:
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise CommandError(f"--url: should be like http://127.0.0.1:8642, found {url!r}")
    return url.rstrip("/")


def _trusted(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca.expanduser()))
    except OSError as error:
        why = error.strerror if not isinstance(error, ssl.SSLError) else "no certificates in PEM"
        raise CommandError(f"--ca {ca}: cannot be read: {why}") from None


def _token(path: Path) -> str:
    try:
        token = read_token(path)
    except ValueError as error:
        raise CommandError(f"--token-file {error}") from None
    if not token.isascii() or not token.isprintable():
        raise CommandError(f"--token-file {path}: should hold one line with the token")
    return token


def _object(response: httpx.Response) -> dict[str, Json]:
    try:
        body = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        return {}
    return body if isinstance(body, dict) else {}


def _given(**values: Json) -> dict[str, Json]:
    return {name: value for name, value in values.items() if value is not None}


def _part(text: str) -> str:
    return quote(text, safe="")
