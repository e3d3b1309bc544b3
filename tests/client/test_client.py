"""The client, blocking and awaited, against the daemon's real API."""

import asyncio
import hashlib
import inspect
import json
import os
import re
import threading
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import stoker
from stoker import (
    AsyncStoker,
    NotFoundError,
    ProblemError,
    Stoker,
    StokerError,
    UnauthorizedError,
    UnreachableError,
    flows,
)
from stoker.operations import Operation, Operations

from conf.schema.users import UsersSection
from conf.uploaded_file import UploadedFile
from daemon.auth.user_directory import Directory
from tests.daemon.cli.conftest import Cast, Daemon, served

Call = Callable[..., Any]


@pytest.fixture(params=["blocking", "awaited"])
def call(request: pytest.FixtureRequest, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """Call a method of the one client or of the other; a log comes as a list."""
    monkeypatch.setattr(flows, "POLL_SECONDS", 0.01)
    if request.param == "blocking":
        with Stoker() as client:

            def blocking(name: str, /, *arguments: Any, **named: Any) -> Any:
                found = getattr(client, name)(*arguments, **named)
                return list(found) if name == "logs" else found

            yield blocking
        return

    async def awaited(name: str, /, *arguments: Any, **named: Any) -> Any:
        async with AsyncStoker() as client:
            found: Awaitable[Any] | AsyncIterator[str] = getattr(client, name)(*arguments, **named)
            if isinstance(found, AsyncIterator):
                return [text async for text in found]
            return await found

    yield lambda name, /, *arguments, **named: asyncio.run(awaited(name, *arguments, **named))


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An application of this machine."""
    path = tmp_path / "count words.py"
    path.write_text("print('words')\n")
    return path


def test_a_job_is_submitted_with_its_files(call: Call, daemon: Daemon, app: Path, tmp_path: Path) -> None:
    """Local files are sent; URIs stay as they are, and so do paths that the daemon has."""
    large = tmp_path / "large.zip"
    large.write_bytes(os.urandom(3 << 20))
    sha256 = hashlib.sha256(large.read_bytes()).hexdigest()
    options: dict[str, Any] = {
        "name": "n", "executors": 2, "cpus": 0.5, "memory": "2g", "args": [1, "x"], "conf": {"spark.a": "1"},
        "files": [large, "https://h/x", f"file://{large}#b"], "archives": [f"{large}#data"],
        "py_files": [app],
    }  # fmt: skip
    job = call("submit", app, **options)
    assert (job["id"], job["name"], job["executors"], job["memory_mib"]) == ("job-1", "n", 2, 2048)
    spec = daemon.cast.store.jobs.spec("job-1")
    assert spec is not None
    name = f"stoker-file:{sha256}/large.zip"
    assert (spec.files, spec.archives) == ((name, "https://h/x", f"{name}#b"), (f"{name}#data",))
    assert spec.app == spec.py_files[0]
    assert (spec.app.partition("/")[2], spec.args) == ("count words.py", ("1", "x"))
    assert daemon.cast.uploads.path(UploadedFile(sha256, "large.zip")).read_bytes() == large.read_bytes()
    call("submit", app, upload=False, archives=[f"{large}#data"], idempotency_key="k")
    assert call("submit", app, upload=False, archives=[f"{large}#data"], idempotency_key="k")["id"] == "job-2"
    second = daemon.cast.store.jobs.spec("job-2")
    assert second is not None
    assert (second.app, second.archives) == (str(app), (f"{large}#data",))


def test_an_upload_goes_on_where_it_was(call: Call, daemon: Daemon, tmp_path: Path) -> None:
    """Nothing is sent twice; a file that changes on the way is not taken for the old one."""
    file = tmp_path / "f"
    file.write_bytes(os.urandom(2 << 20))
    data, sha256 = file.read_bytes(), hashlib.sha256(file.read_bytes()).hexdigest()
    uploads = daemon.cast.uploads
    uploads.put(sha256, len(data), 0, data[:1000])
    assert call("upload", file) == f"stoker-file:{sha256}/f"
    assert uploads.path(UploadedFile(sha256, "f")).read_bytes() == data
    other = tmp_path / "other"
    other.write_bytes(data[:2000])
    other_sha256 = hashlib.sha256(data[:2000]).hexdigest()
    # The daemon was stopped when it had all of it, and had not looked at that yet.
    (uploads._folder / f"{other_sha256}.part").write_bytes(data[:2000])
    assert call("upload", other) == f"stoker-file:{other_sha256}/other"
    (tmp_path / "empty").touch()
    assert call("upload", str(tmp_path / "empty")).endswith("/empty")
    with pytest.raises(StokerError, match="none: cannot be read: No such file"):
        call("upload", tmp_path / "none")


def test_what_becomes_of_a_job(call: Call, daemon: Daemon, app: Path) -> None:
    """Listed, shown, explained, its log read, ended."""
    call("submit", app, owner="alice")
    call("submit", app, owner="bob")
    assert [job["id"] for job in call("jobs")["jobs"]] == ["job-2", "job-1"]
    assert [job["id"] for job in call("jobs", owner="alice", state=["queued"], limit=5)["jobs"]] == ["job-1"]
    daemon.cast.place("job-1")
    assert call("job", "job-1")["tasks"][0]["vm"] == "m1.large-1"
    assert call("explain", "job-1")["explanations"][0]["policy"] == "ff"
    daemon.cast.logs["driver stdout"] = "hello, driver"
    daemon.cast.logs["0 stderr"] = "hello, executor"
    assert "".join(call("logs", "job-1")) == call("log", "job-1") == "hello, driver"
    assert call("log", "job-1", executor=0, stream="stderr") == "hello, executor"
    assert call("kill", "job-1")["id"] == "job-1"
    assert call("wait", "job-1")["state"] == "killed"
    with pytest.raises(stoker.JobFailedError, match=r"job-1 .* killed: killed by its user") as failed:
        call("wait", "job-1", check=True)
    assert failed.value.job["id"] == "job-1"
    with pytest.raises(TimeoutError, match=r"job-2 is queued after 0\.05 s"):
        call("wait", "job-2", timeout=0.05)


def test_a_job_is_followed_to_its_end(call: Call, daemon: Daemon, app: Path) -> None:
    """Its log as it grows, and its end."""

    def go(job_id: str) -> None:
        time.sleep(0.1)
        daemon.cast.logs["driver stdout"] = "first\n"
        time.sleep(0.1)
        daemon.cast.logs["driver stdout"] = "first\nsecond\n"
        daemon.cast.put(job_id, "finished", finished_at=time.time())

    daemon.cast.fate = lambda job_id: threading.Thread(target=go, args=(job_id,)).start()
    job = call("submit", app)
    assert "".join(call("logs", job["id"], follow=True)) == "first\nsecond\n"
    assert call("submit", app, wait=True)["state"] == "finished"


def test_the_cluster_and_who_decides(call: Call) -> None:
    """The API's other endpoints."""
    assert [vm["name"] for vm in call("cluster")["vms"]] == ["m1.large-1", "m1.large-2"]
    assert "ff" in [policy["name"] for policy in call("policies")["policies"]]
    assert call("policy")["name"] == "ff"
    assert call("set_policy", "rr")["name"] == "rr"
    assert call("set_shadow", "ff")["shadow"]["name"] == "ff"
    assert call("set_shadow", None)["shadow"] is None
    assert call("bill", "job", since="2026-11-22")["lines"] == []
    assert call("comparison") == {"totals": [], "differences": []}
    assert call("health")["ready"]
    assert call("ready")
    assert call("webhooks") == {"webhooks": []}
    with pytest.raises(NotFoundError):
        call("try_webhook", "chat")


def test_executors_events_and_what_would_come(call: Call, daemon: Daemon, app: Path) -> None:
    """A driver is asked for executors; events are reported; an unknown policy cannot be played."""
    job_id = call("submit", app)["id"]
    daemon.cast.place(job_id)
    assert call("decommission", job_id, [0], reason="vm-1 is emptied")["id"] == job_id
    with pytest.raises(ProblemError, match="executors"):
        call("decommission", job_id, [])
    told = call("events", job=job_id, limit=1)
    assert [event["kind"] for event in told["events"]] == ["submitted"]
    assert call("events", job=job_id, after=told["next"])["events"] == []
    assert "4.3" in [spark["name"] for spark in call("sparks")["sparks"]]
    with pytest.raises(ProblemError, match="nobody"):
        call("what_if", policies=[{"name": "nobody"}], seconds=1.0)


@pytest.mark.parametrize("client", [Stoker, AsyncStoker])
def test_users_and_their_tokens(client: Any, cast: Cast) -> None:
    """Added, given a token, which is shown once, and ended."""
    with (
        closing(Directory(cast.store.users)) as directory,
        served(cast, "t0ken", UsersSection(), directory) as url,
    ):

        async def awaited(token: str, name: str, *arguments: Any) -> Any:
            async with AsyncStoker(url, token=token) as client:
                return await getattr(client, name)(*arguments)

        def ask(name: str, *arguments: Any, token: str = "t0ken") -> Any:  # noqa: S107  # of this test alone
            if client is AsyncStoker:
                return asyncio.run(awaited(token, name, *arguments))
            with Stoker(url, token=token) as blocking:
                return getattr(blocking, name)(*arguments)

        assert ask("set_user", "ann", {"role": "submit"})["role"] == "submit"
        made = ask("make_token", "ann", 60.0)
        assert ask("whoami", token=made["token"])["name"] == "ann"
        assert [user["name"] for user in ask("users")["users"]] == ["ann"]
        assert ask("end_token", made["id"])["tokens"] == []
        with pytest.raises(UnauthorizedError):
            ask("whoami", token=made["token"])
        ask("end_user", "ann")
        assert ask("users")["users"] == []


#: What is for drivers, VMs, spark-submit, pages and monitors.
_OTHERS = (
    "/v1/applications",
    "/v1/vms/",
    "/v1/submissions/",
    "/v1/session",
    "/v1/timeline",
    "/v1/bill/today",
    "/v1/audit",
)


def test_the_client_has_what_the_api_has() -> None:
    """Each path that is there for programs stands in it."""
    folder = Path(stoker.__file__).parent
    described = json.loads((Path(__file__).parents[2] / "docs/openapi.json").read_text())
    paths = {path for path in described["paths"] if path.startswith("/v1/") and not path.startswith(_OTHERS)}
    paths -= {path for path in paths if path.endswith(".jar")}
    text = (folder / "operations.py").read_text() + (folder / "flows.py").read_text()
    there = {re.sub(r"\{[^/]*\}", "{}", found) for found in re.findall(r'"(/v1/[^"]*)"', text)}
    assert {re.sub(r"\{[^/]*\}", "{}", path) for path in paths} <= there


def test_both_clients_have_each_operation_as_it_is_described() -> None:
    """With its words and its parameters; that of the one blocks, that of the other is awaited."""
    for name, operation in vars(Operations).items():
        if isinstance(operation, Operation):
            blocking, awaited = getattr(Stoker, name), getattr(AsyncStoker, name)
            assert inspect.signature(blocking) == inspect.signature(awaited)
            assert blocking.__doc__ == awaited.__doc__ != None  # noqa: E711
            assert not inspect.iscoroutinefunction(blocking)
            assert inspect.iscoroutinefunction(awaited)
    assert str(inspect.signature(Stoker.job)) == "(self, job_id: 'str') -> 'JobDetail'"
    with pytest.raises(AttributeError, match="no attribute 'Stokr'"):
        stoker.Stokr  # type: ignore[attr-defined]  # noqa: B018
    assert {"Stoker", "session"} <= set(dir(stoker))


def test_queues(call: Call) -> None:
    """Made, changed, shown and removed."""
    assert call("queues") == {"queues": [], "order": []}
    assert call("set_queue", "prod", {"weight": 3, "most": {"cpus": 4}})["due"] == 0.75
    assert call("set_queue", "prod", {"most": {"cpus": None}})["settings"]["weight"] == 3
    assert call("queue", "prod")["settings"]["most"]["cpus"] is None
    with pytest.raises(ProblemError, match="should be greater than 0"):
        call("set_queue", "prod", {"weight": 0})
    assert [queue["path"] for queue in call("queues")["queues"]] == ["default", "prod"]
    assert call("remove_queue", "prod")["path"] == "prod"
    with pytest.raises(NotFoundError, match="there are no queues"):
        call("queue", "prod")


def test_errors_carry_the_problem(call: Call, app: Path) -> None:
    """The daemon's problem report: status, title, detail, and the wrong fields."""
    with pytest.raises(NotFoundError, match="there is no job job-9"):
        call("job", "job-9")
    with pytest.raises(ProblemError) as refused:
        call("submit", app, cpus="many", executors=-1)
    error = refused.value
    assert (error.status, error.title) == (422, "The request is not valid")
    assert {entry["field"] for entry in error.errors} == {"cpus", "executors"}
    assert "executors: " in str(error)
    with pytest.raises(ProblemError, match=r"m1\.large-1 has 4 cpus"):
        call("submit", app, cpus=8)
    with pytest.raises(StokerError, match=r"files: should be a list, found 'a\.txt'"):
        call("submit", app, files="a.txt")


def test_nobody_answers(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is said at once; a wait gives a daemon that is away some time."""
    dead = Stoker("http://127.0.0.1:1")
    assert not dead.ready()
    with pytest.raises(UnreachableError, match="is `stoker up` running"):
        dead.health()
    with pytest.raises(UnreachableError, match=r"no daemon answers at http://127\.0\.0\.1:1") as away:
        dead.jobs()
    assert not away.value.sent
    monkeypatch.setattr(flows, "AWAY_SECONDS", 0.1)
    began = time.monotonic()
    with pytest.raises(UnreachableError):
        dead.wait("job-1")
    assert time.monotonic() - began > 0.1


def test_a_lost_answer_is_no_second_job(daemon: Daemon, app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same submission is sent again, with the same key."""
    with Stoker() as client:
        send, lost = client._http.stream, [True]

        @contextmanager
        def losing(method: str, path: str, **options: Any) -> Iterator[httpx.Response]:
            with send(method, path, **options) as response:
                if method == "POST" and lost:
                    lost.clear()
                    response.read()
                    raise httpx.ReadError("gone", request=response.request)
                yield response

        monkeypatch.setattr(client._http, "stream", losing)
        assert client.submit(app)["id"] == "job-1"
        assert len(client.jobs()["jobs"]) == 1


def test_the_token_comes_from_a_file(cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or from a program; it is shown nowhere, and a network on which it can be read is told of."""
    file = tmp_path / "token"
    file.write_text("t0ken\n")
    file.chmod(0o600)
    with served(cast, "t0ken") as url:
        monkeypatch.setenv("STOKER_URL", url)
        with Stoker() as client, pytest.raises(stoker.UnauthorizedError, match="requires a token"):
            client.jobs()
        monkeypatch.setenv("STOKER_TOKEN_FILE", str(file))
        with Stoker() as client:
            assert client.jobs()["jobs"] == []
            assert "t0ken" not in repr(client.settings)
        monkeypatch.delenv("STOKER_TOKEN_FILE")
        with Stoker(token="t0ken") as client:
            assert client.jobs()["jobs"] == []
    with pytest.warns(UserWarning, match="can be read on the network"):
        Stoker("http://192.0.2.1:8642", token="t")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Stoker("https://192.0.2.1:8642", token="t")
    one_line = "should hold one line with the token"
    wrong = {
        b"": "is empty",
        b"\xff": "cannot be read: not text in UTF-8",
        b"two\nlines": one_line,
        b"\xc3\xa9": one_line,
        b"x" * 5000: one_line,
    }
    for content, why in wrong.items():
        file.write_bytes(content)
        with pytest.raises(StokerError, match=f"{file}: {why}"):
            Stoker(token_file=file)
    with pytest.raises(StokerError, match="none: cannot be read: No such file"):
        Stoker(token_file=tmp_path / "none")


@pytest.mark.parametrize("url", ["localhost:8642", "ftp://h", "http://", "http://h:0", "http://h:x"])
def test_what_is_no_url_is_said(url: str) -> None:
    """Before anything is asked."""
    with pytest.raises(StokerError, match=r"should be like http://127\.0\.0\.1:8642, found"):
        Stoker(url)


def test_a_waiting_daemon_sends_on_to_the_leader(daemon: Daemon) -> None:
    """The client follows, but not from https to http."""
    answers = [httpx.Response(307, headers={"Location": f"{daemon.url}/v1/cluster"})]

    def standby(request: httpx.Request) -> httpx.Response:
        if str(request.url).startswith(daemon.url):
            return httpx.Response(200, json={"vms": []})
        return answers[0]

    for url, follows in (("http://127.0.0.1:1", True), ("https://h:1", False)):
        client = Stoker(url)
        client._http = httpx.Client(base_url=url, transport=httpx.MockTransport(standby))
        if follows:
            assert client.cluster()["vms"] == []
        else:
            with pytest.raises(StokerError, match="which is not https: not followed"):
                client.cluster()


def test_a_dry_run_sends_nothing(call: Call, daemon: Daemon, app: Path, tmp_path: Path) -> None:
    """Files of this machine are named as if they were there, and are told with their sizes."""
    tried = call("dry_run", app, executors=1, name="n", files=[app])
    assert (tried["job"]["id"], tried["job"]["name"]) == ("", "n")
    assert daemon.cast.sent == {hashlib.sha256(app.read_bytes()).hexdigest(): len(app.read_bytes())}
    with pytest.raises(ProblemError, match="has 4 cpus"):
        call("dry_run", app, cpus=8.0, upload=False)
    with pytest.raises(StokerError, match="cannot be read"):
        call("dry_run", tmp_path / "gone.py")
    assert daemon.cast.store.jobs.page() == []
    assert not list((tmp_path / "uploads").glob("*"))


def test_a_page_of_jobs_is_gone_over(daemon: Daemon, app: Path) -> None:
    """`for job in client.jobs()` yields its jobs, and the page equals the API's answer; by both clients."""

    async def later() -> list[str]:
        async with AsyncStoker() as client:
            return [job["id"] for job in await client.jobs()]

    with Stoker() as client:
        ids = [client.submit(app)["id"] for _ in range(3)]
        page = client.jobs(limit=2)
        assert [job["id"] for job in page] == [job["id"] for job in page["jobs"]] == ids[:0:-1]
        assert [job["id"] for job in client.jobs(before=page["next"])] == ids[:1]
        assert json.loads(json.dumps(page)) == {"jobs": page["jobs"], "next": page["next"]}
    assert asyncio.run(later()) == ids[::-1]


def test_jobs_of_all_pages_are_gone_over(daemon: Daemon, app: Path) -> None:
    """By both clients, with the same filters; only a limit ends it before."""
    with Stoker() as client:
        first = client.submit(app, name="n", owner="ann")["id"]
        ids = [client.submit(app, queue="b")["id"] for _ in range(101)]
        page = client.jobs()
        assert (len(page), len(page["jobs"]), page["next"]) == (2, 100, page["jobs"][-1]["id"])
        assert [job["id"] for job in page] == [*ids[::-1], first]
        assert [job["id"] for job in client.jobs(order="oldest")] == [first, *ids]
        assert [job["id"] for job in client.jobs(queue="b")] == ids[::-1]
        assert [job["id"] for job in client.jobs(limit=100)] == ids[:0:-1]

    async def later() -> None:
        async with AsyncStoker() as client:
            page = await client.jobs()
            assert [job["id"] async for job in page] == [*ids[::-1], first]
            assert [job["id"] for job in await client.jobs(limit=2)] == ids[:-3:-1]
            with pytest.raises(TypeError, match="async for job in await"):
                list(page)

    asyncio.run(later())


def test_blanks_around_addresses_are_none_of_them(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """As editors and shells leave them; by the client and by the commands."""
    for blanks in ("  %s", "%s \n", "\t%s\t"):
        monkeypatch.setenv("STOKER_URL", blanks % daemon.url)
        with Stoker() as client:
            assert list(client.jobs()) == []
        assert daemon.run("jobs") == 0
