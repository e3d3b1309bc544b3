"""The page's routes, without a browser: files, headers, sessions, stream, the last hours."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from fastapi import FastAPI

from conf.loader import build
from conf.schema.users import UsersSection
from daemon.auth.permits import Permit
from daemon.auth.sessions import COOKIE, LASTS, Sessions
from daemon.auth.user_directory import Directory
from daemon.core.errors import RejectedError
from daemon.core.estimate import Estimate
from daemon.core.identity import Person
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.page import stream as stream_module
from daemon.page.page_state import MOST_ENDED, PageScene
from daemon.page.stream import MOST_LISTENERS, MOST_OF_ONE, SnapshotStream
from daemon.store.job_store import Store
from environment.model.cluster_model import Changes
from environment.model.messages.vm_accounts import Account
from tests.daemon.page.crowd import Crowd, served
from tests.daemon.small_scheduler import ESTIMATE, SmallScheduler

TOKEN = "correct horse"
PAGE = Path(__file__).parents[3] / "daemon/page/files"
HTML = {"Accept": "text/html"}


@pytest.fixture
def app(store: Store) -> FastAPI:
    """With a token."""
    return create_app(SmallScheduler(store), store, AppOptions(token=TOKEN, version="1"))


def ask(app: FastAPI, method: str, path: str, host: str = "stoker", **more: Any) -> httpx.Response:
    """One request."""

    async def send() -> httpx.Response:
        base = f"http://{host}"
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base) as client:
            return await client.request(method, path, **more)

    return anyio.run(send)


def logged_in(app: FastAPI, token: str = TOKEN) -> dict[str, str]:
    """Log in with the token and return the session's cookie header."""
    answer = ask(app, "POST", "/v1/session", json={"token": token})
    assert answer.status_code == 201, answer.text
    return {"Cookie": f"{COOKIE}={answer.cookies[COOKIE]}"}


def test_the_page_is_for_browsers_and_the_index_for_programs(app: FastAPI) -> None:
    """Of one address, with nothing in it that needs a token."""
    assert "main.js" in ask(app, "GET", "/", headers=HTML).text
    assert ask(app, "GET", "/").json()["links"]["jobs"] == "/v1/jobs"


def test_nothing_but_our_scripts_runs_and_nobody_frames_it(app: FastAPI) -> None:
    """By its headers, those of its files too; and no file names a foreign host or has a script in it."""
    for path in ("/", "/docs", *(f"/page/{file.name}" for file in PAGE.iterdir())):
        answer = ask(app, "GET", path, headers=HTML)
        policy = answer.headers["content-security-policy"]
        assert answer.status_code == 200
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    for file in PAGE.iterdir():
        text = file.read_text()
        for host in ("https://", "http://"):
            assert host not in text.replace("http://www.w3.org/2000/svg", ""), file.name
        for dangerous in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            " onclick=",
        ):
            assert dangerous not in text, file.name
        assert len(text.splitlines()) < 370, file.name


def test_files_are_sent_once(app: FastAPI) -> None:
    """An unchanged file is answered with 304, an unknown one with 404."""
    first = ask(app, "GET", "/page/main.js")
    again = ask(app, "GET", "/page/main.js", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.text) == (200, 304, "")
    for path in ("/page/nothing.js", "/page/..%2Froutes.py", "/page/__init__.py"):
        assert ask(app, "GET", path).status_code == 404


def test_the_page_is_not_shown_under_a_foreign_name(store: Store) -> None:
    """Without a token, a site that has its name point here gets nothing (DNS rebinding)."""
    app = create_app(SmallScheduler(store), store, AppOptions(token=None, version="1"))
    for path in ("/", "/page/main.js", "/v1/stream"):
        assert ask(app, "GET", path, host="evil.example", headers=HTML).status_code == 421
    assert ask(app, "GET", "/", host="localhost:8080", headers=HTML).status_code == 200
    made = ask(app, "POST", "/v1/session", host="localhost", json={"token": "x"})
    assert made.status_code == 201
    assert "set-cookie" not in made.headers


def test_a_token_becomes_a_cookie_that_no_script_reads(app: FastAPI) -> None:
    """HttpOnly, strict, and secure where the page came by TLS; it lets in, and is not the token."""
    answer = ask(app, "POST", "/v1/session", json={"token": f" {TOKEN}\n"})
    said = answer.headers["set-cookie"].lower()
    assert {"httponly", "samesite=strict", "path=/"} <= set(said.split("; "))
    assert "secure" not in said
    assert TOKEN not in str(answer.headers) + answer.text
    assert answer.json() == {"name": "", "role": "admin", "seconds": LASTS}
    by_tls = ask(app, "POST", "/v1/session", json={"token": TOKEN}, headers={"Origin": "https://stoker"})
    assert "; secure" in by_tls.headers["set-cookie"].lower()
    cookie = {"Cookie": f"a=b; {COOKIE}={answer.cookies[COOKIE]}"}
    assert ask(app, "GET", "/v1/jobs", headers=cookie).status_code == 200
    assert ask(app, "GET", "/v1/jobs", headers={"Cookie": f"{COOKIE}={TOKEN}"}).status_code == 401


def test_a_wrong_token_begins_nothing(app: FastAPI) -> None:
    """And is told so without a browser's own dialogue."""
    answer = ask(app, "POST", "/v1/session", json={"token": "wrong"})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "www-authenticate" not in answer.headers
    for body in ({}, {"token": ""}, {"token": "x" * 5000}, {"token": TOKEN, "more": 1}):
        assert ask(app, "POST", "/v1/session", json=body).status_code == 422


def test_other_sites_do_nothing_with_the_cookie(app: FastAPI) -> None:
    """Changes with the cookie are accepted from the page's own origin only.

    A browser also sends the cookie for pages of another port.
    """
    cookie = logged_in(app)
    ask(app, "POST", "/v1/jobs", json={"app": "a.py"}, headers={"Authorization": f"Bearer {TOKEN}"})

    def kill(**headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return ask(app, "POST", "/v1/jobs/job-1/kill", headers={**cookie, **named}).status_code

    assert kill() == 403
    assert kill(Origin="http://stoker:9999") == 403
    assert kill(Origin="null") == 403
    assert kill(Sec_Fetch_Site="same-site", Origin="http://stoker") == 403
    assert kill(Sec_Fetch_Site="none") == 403
    asked = ask(app, "GET", "/v1/jobs", headers={**cookie, "Sec-Fetch-Site": "cross-site"})
    assert asked.status_code == 403
    assert kill(Origin="http://stoker", Sec_Fetch_Site="same-origin") == 202
    assert ask(app, "DELETE", "/v1/session", headers={**cookie, "Origin": "http://evil"}).status_code == 403
    assert ask(app, "GET", "/v1/me", headers=cookie).status_code == 200


def test_a_session_ends(app: FastAPI) -> None:
    """When it is asked to: the cookie lets nobody in any more."""
    cookie = logged_in(app)
    assert ask(app, "DELETE", "/v1/session", headers=cookie).status_code == 204
    assert ask(app, "GET", "/v1/me", headers=cookie).status_code == 401


def test_sessions_are_few_and_do_not_last() -> None:
    """Sessions expire, and each token has a limited number of them.

    The stored value differs from the cookie's.
    """
    clock = [0.0]
    sessions = Sessions(lambda: clock[0])

    def headers(secret: str) -> dict[str, str]:
        return {"cookie": f"{COOKIE}={secret}"}

    secrets = [sessions.begin("one") for _ in range(21)]
    assert sessions.of(headers(secrets[0])) is None
    assert sessions.of(headers(secrets[1])) is not None
    assert secrets[1] not in repr(vars(sessions))
    clock[0] = LASTS
    assert sessions.of(headers(secrets[20])) is None
    for odd in ("", "x" * 9000, "\udcff", '"'):
        assert sessions.of(headers(odd)) is None


@contextmanager
def house(
    store: Store, estimates: dict[str, Estimate] | None = None
) -> Iterator[tuple[FastAPI, Directory, dict[str, str]]]:
    """Yield the app, the user directory and the tokens of users ann and oper; each sees its own jobs."""
    section = build(UsersSection, {"see": "own"}, "config")
    with closing(Directory(store.users)) as directory:
        tokens = {}
        for name, role in (("ann", "submit"), ("oper", "operate")):
            directory.put(name, role, None, None)  # type: ignore[arg-type]
            tokens[name], _ = directory.make_token(name, None)
        crowd = Crowd(store, 6, 40)
        crowd.expected = estimates or {}
        yield (
            create_app(crowd, store, AppOptions(token=None, version="1", users=section, directory=directory)),
            directory,
            tokens,
        )


def test_the_end_of_a_token_ends_its_sessions(store: Store) -> None:
    """A revoked token ends its sessions at once: each request looks up the permissions."""
    with house(store) as (app, directory, tokens):
        cookie = logged_in(app, tokens["ann"])
        me = ask(app, "GET", "/v1/me", headers=cookie).json()
        assert (me["name"], me["role"]) == ("ann", "submit")
        directory.end_token(me["token"])
        assert ask(app, "GET", "/v1/me", headers=cookie).status_code == 401


# ---- the stream --------------------------------------------------------------------------------------


def events(url: str, until: Callable[[str, Any], object], **headers: str) -> list[tuple[str, str, Any]]:
    """Events of the stream as (id, event, data), up to the first for which `until` is true."""
    heard: list[tuple[str, str, Any]] = []
    with httpx.stream("GET", f"{url}/v1/stream", headers=headers, timeout=300, trust_env=False) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        found: dict[str, str] = {}
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                found[name] = value
            elif found.get("event") == "page":  # which says to whom the answer is
                assert json.loads(found["data"])
                found = {}
            elif "event" in found:
                heard.append((found.get("id", ""), found["event"], json.loads(found["data"])))
                if until(found["event"], heard[-1][2]):
                    return heard
                found = {}
            else:
                found = {}
    raise AssertionError("the stream ended")


def test_a_snapshot_then_differences_then_what_was_missed(store: Store) -> None:
    """A client that reconnects with the last id receives the missed changes.

    A client with an unknown id receives a whole snapshot.
    """
    crowd = Crowd(store, 8, 700)
    with served(create_app(crowd, store, AppOptions(token=None, version="1"))) as url:
        heard = events(url, lambda event, _: event == "whole")
        assert [event for _, event, _ in heard] == ["snapshot", "rows", "rows", "whole"]
        assert heard[2][2]["costs"].keys() == crowd.due().keys()
        names, first = heard[0][2]["columns"], heard[0][2]
        jobs = [
            dict(zip(names["jobs"], row, strict=True)) for _, _, told in heard for row in told.get("jobs", ())
        ]
        assert len(jobs) == first["number_of_jobs"] == 700
        assert {vm[names["vms"].index("name")] for vm in first["vms"]} == {
            vm.name for vm in crowd.cluster().vms
        }
        queued = [job["id"] for job in jobs if job["state"] == "queued"]
        assert first["line"] == queued[:200]

        killed = first["line"][0]

        def change() -> None:
            crowd.kill(killed)
            crowd.submit_some(1)
            crowd.step(1)

        timer = threading.Timer(0.3, change)
        timer.start()
        states = {}

        def killed_and_new(_: str, told: Any) -> bool:
            states.update({row[0]: row[5] for row in told.get("jobs", ())})
            return states.get(killed) == "killed" and "job-701" in states

        changes = events(url, killed_and_new)
        timer.join()
        assert killed not in [each for _, _, told in changes for each in told.get("line", ())][-200:]
        resumed = events(url, lambda event, _: event == "change", **{"Last-Event-ID": heard[-1][0]})
        assert resumed[0][1] == "change"
        other = events(url, lambda *_: True, **{"Last-Event-ID": "00000000-1"})
        assert other[0][1] == "snapshot"


def test_users_hear_of_own_jobs_alone(store: Store) -> None:
    """Where users see own jobs: of others neither rows, executors, places, starts nor money."""
    with (
        house(store, dict.fromkeys((f"job-{n}" for n in range(1, 41)), ESTIMATE)) as (app, _, tokens),
        served(app) as url,
    ):
        told: dict[str, Any] = {}
        for name, token in tokens.items():
            told[name] = events(url, lambda *_: True, Authorization=f"Bearer {token}")[0][2]
    mine = {row[0] for row in told["ann"]["jobs"]}
    assert mine == {row[0] for row in told["oper"]["jobs"] if row[3] == "ann"}
    assert 0 < len(mine) < 40
    tasks = {task.partition(".")[0] for vm in told["ann"]["vms"] for task in vm[-1]}
    assert tasks <= mine
    assert {each for each in told["ann"]["line"] if each} <= mine
    assert len(told["ann"]["line"]) == len(told["oper"]["line"])
    assert told["ann"]["estimates"].keys() == {each for each in told["ann"]["line"] if each}
    assert told["oper"]["estimates"].keys() == set(told["oper"]["line"])
    assert told["ann"]["budget"] is None
    assert told["oper"]["budget"] is not None


def test_listeners_are_bounded_and_do_not_count_as_requests(store: Store) -> None:
    """One too many is told to come later; a daemon that takes two requests answers all the same."""
    app = create_app(Crowd(store, 2, 3), store, AppOptions(token=None, version="1", max_requests=2))
    with served(app) as url:
        clients = [httpx.Client(trust_env=False, timeout=300) for _ in range(MOST_LISTENERS)]
        streams = [client.stream("GET", f"{url}/v1/stream") for client in clients]
        for stream in streams:
            assert stream.__enter__().status_code == 200
        assert httpx.get(f"{url}/v1/jobs", trust_env=False).status_code == 200
        refused = httpx.get(f"{url}/v1/stream", trust_env=False)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        for stream, client in zip(streams, clients, strict=True):
            stream.__exit__(None, None, None)
            client.close()


def test_one_user_does_not_take_every_place(store: Store) -> None:
    """One user's listeners are limited, those that connect at once too; a closed page frees a place."""
    stream = SnapshotStream(Crowd(store, 2, 3), store)
    ann, bob = (Permit(Person(name, "submit"), sees_all=False) for name in ("ann", "bob"))

    async def listen() -> None:
        asked = (stream.listen(ann, "") for _ in range(MOST_LISTENERS))
        found = await asyncio.gather(*asked, return_exceptions=True)
        heard = [each for each in found if isinstance(each, AsyncGenerator)]
        refused = [each for each in found if isinstance(each, RejectedError)]
        assert (len(heard), len(refused)) == (MOST_OF_ONE, MOST_LISTENERS - MOST_OF_ONE)
        assert {each.status for each in refused} == {429}
        more = await stream.listen(bob, "")
        assert stream.listeners == MOST_OF_ONE + 1
        assert (await anext(more)).startswith(b"retry")
        await heard[0].aclose()
        await stream.listen(ann, "")
        with pytest.raises(RejectedError, match="8 pages of ann"):
            await stream.listen(ann, "")
        stream.close()

    asyncio.run(listen())


def test_pages_of_one_user_share_the_whole_scene(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a quarter of a second with 20,000 jobs: pages that are opened again and again block nobody."""
    stream = SnapshotStream(Crowd(store, 2, 3), store)
    ann, bob = (Permit(Person(name, "submit"), sees_all=False) for name in ("ann", "bob"))
    made: list[tuple[str, bool]] = []
    whole = PageScene.whole

    def counted(scene: PageScene, permit: Permit) -> tuple[int, Sequence[str]]:
        made.append((permit.person.name, threading.current_thread() is threading.main_thread()))
        return whole(scene, permit)

    monkeypatch.setattr(PageScene, "whole", counted)

    async def opened(permit: Permit) -> bytes:
        messages = await stream.listen(permit, "")
        assert isinstance(messages, AsyncGenerator)
        async with contextlib.aclosing(messages):
            parts: list[bytes] = [await anext(messages) for _ in range(3)]
            return next(part for part in parts if b"snapshot" in part)

    async def ask() -> None:
        first, *others = await asyncio.gather(*(opened(ann) for _ in range(5)))
        assert {first, *others} == {first}
        assert (await opened(bob)).startswith(b"event: snapshot")
        stream.close()

    asyncio.run(ask())
    assert made == [("ann", False), ("bob", False)]


def test_large_changes_are_sent_as_the_whole_scene(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts, and once for all pages of a user: thousands of jobs in one message hold up the event loop."""
    monkeypatch.setattr(stream_module, "MOST_ROWS", 10)
    crowd = Crowd(store, 2, 60)
    stream = SnapshotStream(crowd, store)

    async def ask() -> None:
        messages = await stream.listen(Permit(Person("ann", "submit")), "")

        async def heard(event: str) -> bytes:
            async with asyncio.timeout(60):
                return await anext(each async for each in messages if f"event: {event}\n".encode() in each)

        await heard("whole")
        crowd.kill(crowd.waiting[-1])
        assert b"killed" in await heard("change")
        for job_id in crowd.waiting[-20:]:
            crowd.kill(job_id)
        async with asyncio.timeout(60):
            async for each in messages:
                assert each.count(b"killed on request") <= 10 or b"event: change" not in each
                if b"event: whole" in each:
                    break
        crowd.kill(crowd.waiting[-1])
        assert b"killed" in await heard("change")
        stream.close()

    asyncio.run(ask())


def test_the_scene_forgets(store: Store) -> None:
    """Jobs that are over go once enough others are; nothing is noted once nobody looks."""
    crowd = Crowd(store, 2, 3)
    scene = PageScene(crowd, store)
    scene.begin()
    crowd.submit_some(MOST_ENDED + 20)
    for number in range(4, MOST_ENDED + 24):
        crowd.kill(f"job-{number}")
    found = scene.look()
    assert found is not None
    assert found.gone[0] == "job-4"
    assert len(found.gone) == 20
    scene.end()
    crowd.kill("job-1")
    assert store.news.take() == {}


# ---- the last hours ----------------------------------------------------------------------------------


def test_the_timeline_is_bounded(store: Store) -> None:
    """Tasks of jobs that run or have ended, with those, and decisions; not more than was asked for."""
    crowd = Crowd(store, 6, 40)
    crowd.step(3)
    app = create_app(crowd, store, AppOptions(token=None, version="1"))
    told = ask(app, "GET", "/v1/timeline?hours=1", host="localhost").json()
    ran = {
        task.job_id for record in store.jobs.page(limit=100) for task in store.jobs.executors(record.job.id)
    }
    assert {task["job_id"] for task in told["tasks"]} == {job["id"] for job in told["jobs"]} == ran
    assert {one["policy"] for one in told["decisions"]} == {"greedy"}
    assert not told["left_out"]
    few = ask(app, "GET", "/v1/timeline?limit=2", host="localhost").json()
    assert (len(few["tasks"]), few["left_out"]) == (2, True)
    for wrong in ("hours=0", "hours=49", "hours=nan", "limit=0", "limit=10001", "since=1"):
        assert ask(app, "GET", f"/v1/timeline?{wrong}", host="localhost").status_code == 422


def test_today_beside_other_reckonings(store: Store) -> None:
    """The held cost is the sum of the jobs' costs (eq. 4).

    A fixed cluster costs every VM for all the time.
    """
    crowd = Crowd(store, 6, 12)
    crowd.step(2)
    app = create_app(crowd, store, AppOptions(token=None, version="1"))
    told = ask(app, "GET", "/v1/bill/today", host="localhost").json()
    jobs = ask(app, "GET", "/v1/jobs", host="localhost").json()["jobs"]
    assert told["held"] == pytest.approx(sum(job["cost"] for job in jobs), abs=0.01)
    assert told["fixed_per_hour"] == pytest.approx(6 * (0.24 + 0.48 + 0.39))
    assert told["fixed"] == pytest.approx(told["fixed_per_hour"] * (told["until"] - told["since"]) / 3600)


def test_the_cost_of_jobs_is_of_today_as_the_bill_is(store: Store) -> None:
    """Of a job that ran on at midnight only the part since then, and nothing of a task that ended before."""
    crowd = Crowd(store, 6, 1)
    app = create_app(crowd, store, AppOptions(token=None, version="1"))
    until = ask(app, "GET", "/v1/bill/today", host="localhost").json()["until"]
    midnight = until - until % 86400
    began = midnight - 3 * (until - midnight)
    job = store.jobs.get("job-1")
    task = store.jobs.executors("job-1")[0]
    assert job is not None
    runs = replace(task, task_id="job-1.7", launched_at=began, cost=4.0)
    over = replace(task, task_id="job-1.8", launched_at=began - 9, ended_at=began, state="killed", cost=16.0)
    store.changes.save(Changes((replace(job, cost=20.0),), (runs, over)))
    held = ask(app, "GET", "/v1/bill/today", host="localhost").json()["held"]
    assert held == pytest.approx(1.0, abs=0.01)


def test_all_of_today_counts_from_when_vms_are_paid_for(store: Store) -> None:
    """Today counts from the first paid VM, also for the cost of a fixed cluster.

    Otherwise that cost would be less than the bill before any job.
    """
    app = create_app(Crowd(store, 6, 0), store, AppOptions(token=None, version="1"))
    told = ask(app, "GET", "/v1/bill/today", host="localhost").json()
    assert (told["since"], told["fixed"]) == (told["until"], 0.0)
    midnight = told["until"] - told["until"] % 86400
    noon = (midnight + told["until"]) / 2
    for opened_at, since in ((noon, noon), (5.0, midnight)):
        account = Account("vm-1", "m1.large-1", "m1.large", 0.24, opened_at, opened_at)
        store.changes.save(Changes((), (), accounts=(account,)))
        assert ask(app, "GET", "/v1/bill/today", host="localhost").json()["since"] == pytest.approx(
            since, rel=0.0, abs=0.01
        )


def test_a_restart_takes_nothing_off_what_a_fixed_cluster_costs(store: Store) -> None:
    """Closed accounts count as paid: all VMs never cost less than the bill."""
    app = create_app(Crowd(store, 6, 0), store, AppOptions(token=None, version="1"))
    until = ask(app, "GET", "/v1/bill/today", host="localhost").json()["until"]
    midnight = until - until % 86400
    early, late = midnight + (until - midnight) / 4, midnight + (until - midnight) / 2
    before = Account("S0", "m1.large-1", "m1.large", 0.24, early, late)
    store.changes.save(Changes((), (), accounts=(before,)))
    store.changes.save(Changes((), (), accounts=(replace(before, closed=True),)))
    store.changes.save(Changes((), (), accounts=(Account("S1", "m1.large-1", "m1.large", 0.24, late, late),)))
    told = ask(app, "GET", "/v1/bill/today", host="localhost").json()
    assert told["since"] == pytest.approx(early, rel=0.0, abs=0.01)
    assert told["fixed"] == pytest.approx(told["fixed_per_hour"] * (told["until"] - early) / 3600)


def test_today_is_counted_by_the_clock_of_the_bill(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the time to which VMs are charged, not by another clock of this machine."""
    crowd = Crowd(store, 6, 0)
    monkeypatch.setattr(crowd, "charge", lambda: 1_700_000_000.0)
    told = ask(
        create_app(crowd, store, AppOptions(token=None, version="1")),
        "GET",
        "/v1/bill/today",
        host="localhost",
    )
    assert (told.json()["until"], told.json()["day"]) == (1_700_000_000.0, "2023-11-14")
