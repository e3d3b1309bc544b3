"""Webhooks over real HTTP: signed, in order, retried until accepted, even after a kill."""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, get_args

import httpx
import pytest
from structlog.testing import capture_logs

from conf.event_kinds import Kind
from conf.loader import ConfigError, parse
from conf.schema import Config, JobSpec, Webhook
from conf.util.backoff import Backoff
from daemon.core.errors import RejectedError
from daemon.maintenance.config_check import check
from daemon.notifications import notification_service as office_module
from daemon.notifications.event_sender import MOST_REFUSALS
from daemon.notifications.notification_service import FACT, NotificationService
from daemon.notifications.webhook_sender import MOST_AFTER
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from daemon.store.rows.event_recorder import HistoryEvent
from daemon.store.rows.events import EventRows, Events
from environment.dependencies import After
from environment.model.cluster_model import Changes
from environment.model.messages.records import JobRecord
from tests.daemon.notifications.receiver import Receiver, look_often, receiving, status, until
from tests.daemon.store.test_job_store import make_job, make_task, url_of
from tests.waiting import PATIENCE

SECRET = "a secret of twenty-four."
DOCS = Path(__file__).parents[3] / "docs/webhooks.md"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    look_often(monkeypatch)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store of either kind."""
    url = url_of(tmp_path) if request.param == "sqlite" else request.getfixturevalue("postgresql_url")
    with contextlib.closing(Store(url)) as store:
        yield store


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    """A store in a file."""
    with contextlib.closing(Store(url_of(tmp_path))) as store:
        yield store


def hook(receiver: Receiver, **given: Any) -> Webhook:
    """A webhook to that receiver."""
    return Webhook.model_validate({"url": receiver.url, "secret_env": "HOOK_SECRET", **given})


@contextlib.contextmanager
def told(
    store: Store,
    may_tell: Callable[[], bool] = lambda: True,
    /,
    now: Callable[[], float] = time.time,
    **webhooks: Webhook,
) -> Iterator[NotificationService]:
    """They are told within; tried again soon."""
    office = NotificationService(webhooks, store, may_tell, backoff=Backoff(first=0.01, longest=0.1), now=now)
    office.start()
    try:
        yield office
    finally:
        office.stop()


def known(store: Store) -> None:
    """Wait until a new webhook is stored; later events are sent to it."""
    until(lambda: store.facts.get(FACT) is not None)


def happens(store: Store, *texts: str, kind: Kind = "vm lost", at: float | None = None) -> None:
    """So much happened, now unless said otherwise, to no job."""
    at = time.time() if at is None else at
    store.changes.save(Changes((), ()), happened=[HistoryEvent(at, None, kind, text) for text in texts])


def ends(store: Store, owner: str = "", queue: str = "default", text: str = "all is well") -> JobRecord:
    """A job has finished, of which an executor ran."""
    spec = JobSpec(app="count.py", args=("--password", "hunter22"), env={"API_KEY": "hunter22"})
    make = lambda job_id: make_job(job_id, owner=owner, queue=queue)  # noqa: E731
    job, _ = store.jobs.new.add_one(spec, make, None, 5.0)
    over = replace(job, state="finished", reason=text, cost=0.25, exit_code=0, finished_at=9.0)
    task = make_task(job.job.id, 0, state="finished", ended_at=9.0)
    store.changes.save(
        Changes((over,), (task,)), happened=[HistoryEvent(time.time(), job.job.id, "finished", text)]
    )
    return over


def test_a_job_that_comes_after_many_makes_no_event_too_large(file_store: Store) -> None:
    """A receiver that refuses a large body would get no event of other jobs for a day."""
    after = tuple(After(f"job-{number}", "any", "\U0001f600" * 200) for number in range(1, 1001))
    with receiving() as receiver, told(file_store, chat=hook(receiver)):
        known(file_store)
        over = ends(file_store)
        over = replace(over, job=replace(over.job, after=after))
        happened = [HistoryEvent(time.time(), over.job.id, "finished", "all is well")]
        receiver.raw()
        file_store.changes.save(Changes((over,), ()), happened=happened)
        _, body = receiver.raw()
        assert len(body) < 64 << 10
        assert len(json.loads(body)["job"]["after"]) == MOST_AFTER


def test_the_end_of_a_job_is_told_and_signed(store: Store) -> None:
    """A job's end is sent with its cost and no secret; the documented ten lines verify the signature."""
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert len(code.strip().splitlines()) <= 12
    docs: dict[str, Any] = {}
    exec(code, docs)  # noqa: S102  # ours
    with receiving() as receiver, told(store, chat=hook(receiver)) as office:
        known(store)
        happens(store, "of another kind")
        job = ends(store)
        headers, body = receiver.raw()
        assert docs["is_from_stoker"](SECRET, headers, body)
        assert not docs["is_from_stoker"](SECRET, headers, body + b" ")
        assert not docs["is_from_stoker"]("another secret, as long", headers, body)
        late = {**headers, "Stoker-Timestamp": str(int(headers["Stoker-Timestamp"]) - 400)}
        assert not docs["is_from_stoker"](SECRET, late, body)
        assert b"hunter22" not in body
        happens(store, "$5.00 is spent", kind="budget spent")
        spent = receiver.next()
        until(lambda: office.status()[0].behind == 0.0 and office.status()[0].state == "delivers")
        (how,) = office.status()
    end = json.loads(body)
    assert (end["kind"], end["message"], end["settled"]) == ("finished", "all is well", True)
    assert (end["job"]["id"], end["job"]["cost"], end["job"]["exit_code"]) == (job.job.id, 0.25, 0)
    assert headers["Stoker-Event"] == end["id"]
    assert (spent["kind"], spent["job"], spent["message"]) == ("budget spent", None, "$5.00 is spent")
    assert spent["number"] > end["number"]
    assert (how.state, how.fails_since, how.failure, how.behind) == ("delivers", None, "", 0.0)
    assert "s3cret-path" not in how.model_dump_json()


def test_what_is_not_taken_is_sent_again(file_store: Store) -> None:
    """After an error, a redirect, an answer that never comes and one that never ends, as the same event."""
    with receiving() as receiver:
        receiver.answers = [
            status(500),
            status(302, Location=receiver.url),
            receiver.hang,
            receiver.mumble,
            receiver.babble,
        ]
        with (
            told(file_store, chat=hook(receiver, on=["vm lost"], timeout=1.5)) as office,
            capture_logs() as logs,
        ):
            known(file_store)
            happens(file_store, "one", "two")
            assert receiver.take(5) == ["one"] * 5
            while (message := receiver.next()["message"]) == "one":
                pass  # one that was answered too late
            assert message == "two"
            until(lambda: office.status()[0].behind == 0.0 and office.status()[0].state == "delivers")
            came = office.status()[0].came
    assert (came["delivered"], came["unreachable"], came["given up"]) == (2, 0, 0)
    assert came["timeout"] >= 2
    said = [(line["event"], line.get("why")) for line in logs if line.get("webhook") == "chat"]
    assert [event for event, _ in said] == [
        "a webhook accepts no request",
        "a webhook accepts requests again",
    ]
    assert "s3cret" not in str(logs)
    assert SECRET not in str(logs)


def test_whatever_this_machine_lacks_it_is_sent_again(
    file_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread to look a name up, of which a job may leave none; nor does a bad end of an answer matter."""
    send, close, lacking = httpx.AsyncClient.send, httpx.Response.aclose, [1]

    async def failing(*given: Any, **more: Any) -> httpx.Response:
        if lacking:
            raise RuntimeError(f"can't start new thread {lacking.pop()}")
        return await send(*given, **more)

    async def badly(answer: httpx.Response) -> None:
        await close(answer)
        raise RuntimeError("it ended badly")

    monkeypatch.setattr(httpx.AsyncClient, "send", failing)
    monkeypatch.setattr(httpx.Response, "aclose", badly)
    with receiving() as receiver, told(file_store, chat=hook(receiver, on=["vm lost"])) as office:
        known(file_store)
        happens(file_store, "first", "second")
        assert receiver.take(2) == ["first", "second"]
        until(lambda: office.status()[0].behind == 0.0 and office.status()[0].state == "delivers")
        (how,) = office.status()
    assert (how.came["unreachable"], how.came["given up"], how.failure) == (1, 0, "")


def test_what_nobody_expected_ends_no_webhook(file_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is begun anew where it was."""
    monkeypatch.setattr(office_module, "_AGAIN", 0.01)
    read, wrong = EventRows.read, [1]

    def failing(rows: EventRows, limit: int, **asked: Any) -> Events:
        if wrong and asked["after"]:
            raise RuntimeError(f"can't start new thread {wrong.pop()}")
        return read(rows, limit, **asked)

    monkeypatch.setattr(EventRows, "read", failing)
    with receiving() as receiver, told(file_store, chat=hook(receiver, on=["vm lost"])):
        known(file_store)
        happens(file_store, "first")
        assert receiver.take(1) == ["first"]
        happens(file_store, "second")
        assert receiver.take(1) == ["second"]
    assert not wrong


def test_a_dead_receiver_delays_nobody_else(file_store: Store) -> None:
    """Nor the end of the daemon; nothing of it is lost, and the next one goes on."""
    with receiving() as dead, receiving() as well, receiving() as new:
        dead.answers = [dead.hang]
        on = {"on": ["vm lost"]}
        with told(file_store, dead=hook(dead, **on, timeout=60), well=hook(well, **on)) as office:
            known(file_store)
            happens(file_store, *"abc")
            assert well.take(3) == [*"abc"]
            assert dead.take(1) == ["a"]
            until(lambda: office.status()[1].came["delivered"] == 3)
            assert office.status()[0].state == "idle"
        happens(file_store, "d")
        with told(file_store, dead=hook(dead, **on), well=hook(well, **on), new=hook(new, **on)):
            assert dead.take(4) == [*"abcd"]
            assert well.take(1) == ["d"]
            happens(file_store, "e")
            assert new.take(1) == ["e"]


KILLED = """
import sys, threading
from conf.schema import Webhook
from daemon.store.rows.events import EventRows, Events
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from daemon.notifications.notification_service import NotificationService
store = Store(sys.argv[1])
chat = Webhook(url=sys.argv[2], secret_env="HOOK_SECRET", on=["vm lost"], timeout=60)
NotificationService({"chat": chat}, store).start()
threading.Event().wait()
"""


def test_kill_9_loses_nothing(file_store: Store, tmp_path: Path) -> None:
    """An event in delivery is sent again, and an undelivered one is sent."""
    with receiving([status(204)]) as receiver:
        receiver.answers.append(receiver.hang)
        command = [sys.executable, "-c", KILLED, url_of(tmp_path), receiver.url]
        with subprocess.Popen(command) as process:
            try:
                known(file_store)
                happens(file_store, *"abc")
                assert receiver.take(2) == [*"ab"]
            finally:
                process.kill()
        with told(file_store, chat=hook(receiver, on=["vm lost"])):
            first, then = receiver.next(), receiver.next()
            rest = [first, then] if first["message"] == "b" else [then, receiver.next()]
            assert [each["message"] for each in rest] == ["b", "c"]


def test_what_is_too_old_is_given_up(file_store: Store) -> None:
    """An event that is too old is dropped, counted and reported; later ones are sent."""
    with (
        receiving() as receiver,
        capture_logs() as logs,
        told(file_store, chat=hook(receiver, on=["vm lost"], give_up=60)) as office,
    ):
        known(file_store)
        happens(file_store, "old", at=time.time() - 61)
        happens(file_store, "new")
        assert receiver.take(1) == ["new"]
        assert office.status()[0].came["given up"] == 1
    assert [line["kind"] for line in logs if line["event"] == "an event is given up"] == ["vm lost"]


@pytest.mark.parametrize("code", [400, 403, 413, 422])
def test_an_event_that_is_refused_for_its_content_holds_up_no_other(file_store: Store, code: int) -> None:
    """After a few refusals it is dropped, counted and logged; others are accepted, and so is a test."""
    with (
        receiving() as receiver,
        capture_logs() as logs,
        told(file_store, chat=hook(receiver, on=["vm lost"])) as office,
    ):
        receiver.judge = lambda body: code if b"<script>" in body else 204
        known(file_store)
        happens(file_store, "one", "<script>", "two")
        until(lambda: [each.came["given up"] for each in office.status()] == [1])
        until(lambda: office.status()[0].behind == 0.0 and office.status()[0].state == "delivers")
        messages = [receiver.next()["message"] for _ in range(receiver.came.qsize())]
    assert [text for text in messages if not text.startswith("a test")][:1] == ["one"]
    assert messages[-1] == "two"
    assert messages.count("<script>") == MOST_REFUSALS
    (line,) = [line for line in logs if line["event"] == "an event is given up"]
    assert line["why"] == f"answered {code}"


@pytest.mark.parametrize("code", [401, 403, 404, 429, 500])
def test_a_receiver_that_refuses_all_gets_all_later(file_store: Store, code: int) -> None:
    """A wrong address or secret, or a moment's trouble, loses no event."""
    refusing = [True]
    with receiving() as receiver, told(file_store, chat=hook(receiver, on=["vm lost"])) as office:
        receiver.judge = lambda _: code if refusing else 204
        known(file_store)
        happens(file_store, "one", "two")
        until(lambda: any(each.came["refused"] > 2 * MOST_REFUSALS for each in office.status()))
        assert office.status()[0].came["given up"] == 0
        refusing.clear()
        until(lambda: office.status()[0].came["delivered"] >= 2)
        messages = [receiver.next()["message"] for _ in range(receiver.came.qsize())]
    assert [text for text in messages if not text.startswith("a test")][-2:] == ["one", "two"]


def test_a_jump_of_the_wall_clock_gives_nothing_up(file_store: Store) -> None:
    """Events are as old as by the daemon's time; the receiver compares the wall clock's with its own."""
    behind = 3600.0
    with (
        receiving() as receiver,
        told(file_store, now=lambda: time.time() - behind, chat=hook(receiver, on=["vm lost"], give_up=60)),
    ):
        known(file_store)
        happens(file_store, "new", at=time.time() - behind)
        headers, body = receiver.raw()
    assert json.loads(body)["message"] == "new"
    assert float(headers["Stoker-Timestamp"]) == pytest.approx(time.time(), abs=300)


def test_only_what_is_wanted_is_told(file_store: Store) -> None:
    """Job events are filtered by user and queue; events without a job go to every webhook."""
    wanted: dict[str, Any] = {"on": ["ended", "vm lost"], "queues": ["prod"], "users": ["ann"]}
    with receiving() as receiver, told(file_store, chat=hook(receiver, **wanted)):
        known(file_store)
        ends(file_store, "bob", "prod", "bob's")
        ends(file_store, "ann", "production", "of another queue")
        ends(file_store, "ann", "prod.etl", "ann's")
        happens(file_store, "a VM's")
        assert receiver.take(2) == ["ann's", "a VM's"]


def test_the_cost_is_told_when_it_is_known(file_store: Store) -> None:
    """The end of a job waits for that of its executors."""
    with receiving() as receiver, told(file_store, chat=hook(receiver)):
        known(file_store)
        job, _ = file_store.jobs.new.add_one(JobSpec(app="a.py"), make_job, None, 5.0)
        failed = replace(job, state="failed", reason="exit code 1", cost=0.1, finished_at=9.0)
        task = make_task(job.job.id, 0, state="running")
        now = time.time()
        file_store.changes.save(
            Changes((failed,), (task,)), happened=[HistoryEvent(now, job.job.id, "failed", "1")]
        )
        ended = replace(task, state="killed", ended_at=10.0)
        file_store.changes.save(Changes((replace(failed, cost=0.3),), (ended,)))
        found = receiver.next()
    assert (found["job"]["cost"], found["settled"]) == (0.3, True)


def test_only_the_daemon_that_leads_tells(file_store: Store) -> None:
    """A deposed daemon stops sending; the next leader continues."""
    first = file_store.during(file_store.terms.begin("http://a"))
    with receiving() as receiver:
        chat = hook(receiver, on=["vm lost"])
        with told(first, chat=chat) as office:
            known(file_store)
            happens(file_store, "a")
            assert receiver.take(1) == ["a"]
            second = file_store.during(file_store.terms.begin("http://b"))
            happens(file_store, "b")
            until(lambda: not office._thread.is_alive())
        happens(file_store, "c")
        with told(second, chat=chat):
            while receiver.take(1) != ["c"]:
                pass


def test_nothing_is_told_while_another_may_lead(file_store: Store) -> None:
    """It is told when that is certain again."""
    asked, certain = SimpleQueue[None](), threading.Event()

    def may_tell() -> bool:
        asked.put(None)
        return certain.is_set()

    with receiving() as receiver, told(file_store, may_tell, chat=hook(receiver, on=["vm lost"])):
        known(file_store)
        happens(file_store, "a")
        asked.get(timeout=PATIENCE)
        asked.get(timeout=PATIENCE)
        assert receiver.came.empty()
        certain.set()
        assert receiver.take(1) == ["a"]


def test_it_ends_though_the_store_cannot_be_read(file_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries before the first event end with the service, so no process lives on for them."""
    tried = threading.Event()

    def silent(_: str) -> str | None:
        tried.set()
        raise StoreError("locked")

    monkeypatch.setattr(file_store.facts, "get", silent)
    with receiving() as receiver, told(file_store, chat=hook(receiver)):
        assert tried.wait(PATIENCE)
        readers = [each for each in threading.enumerate() if each.name.startswith("webhooks_")]
    for reader in readers:
        reader.join(PATIENCE)
    assert [each.is_alive() for each in readers] == [False] * len(readers)
    assert readers


def test_a_test_is_sent_at_once(file_store: Store) -> None:
    """A test is sent at once, once, and its outcome is reported."""
    with receiving([status(403)]) as receiver, told(file_store, chat=hook(receiver)) as office:
        known(file_store)
        until(lambda: bool(office.status()))
        refused, taken = office.test("chat"), office.test("chat")
        assert (refused.came, refused.why, taken.came) == ("refused", "answered 403", "delivered")
        assert [receiver.next()["id"], receiver.next()["id"]] == [refused.id, taken.id]
        with pytest.raises(RejectedError, match="no webhook nosuch; there are chat"):
            office.test("nosuch")
    with pytest.raises(RejectedError, match="just begun"):
        office.test("chat")


def test_a_test_in_the_moment_of_the_end_is_refused(file_store: Store) -> None:
    """A test during shutdown is refused and is no internal error, as no sender is left."""
    with receiving() as receiver, told(file_store, chat=hook(receiver)) as office:
        until(lambda: bool(office._couriers))
        office._loop, loop = asyncio.new_event_loop(), office._loop
        office._loop.close()
        with pytest.raises(RejectedError, match="the daemon ends"):
            office.test("chat")
        office._loop = loop


def test_nobody_is_there(file_store: Store) -> None:
    """A port that is closed, a name that is none, a certificate that is not known: said, and tried again."""
    with receiving() as receiver:
        nobody = hook(receiver)
        tls = hook(receiver, url=receiver.url.replace("http:", "https:"))
    with told(file_store, nobody=nobody, tls=tls) as office:
        until(lambda: len(office.status()) == 2)
        assert {office.test(name).came for name in ("nobody", "tls")} == {"unreachable"}
        assert all(how.state == "fails" and how.failure for how in office.status())


GOOD = "url: https://example.org/x, secret_env: HOOK_SECRET"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("chat: {url: example.org, secret_env: X}", "webhooks.chat.url: should be a URL such as"),
        ("chat: {url: 'ftp://example.org', secret_env: X}", "should be a URL such as"),
        ("chat: {url: 'https://a:b@example.org', secret_env: X}", "without a user, a password"),
        ("chat: {url: 'https://example.org'}", "should have either secret_file or secret_env"),
        (f"chat: {{{GOOD}, secret_file: y}}", "should have either secret_file or secret_env"),
        (f"chat: {{{GOOD}, on: [done]}}", "should be 'ended', 'budget'"),
        (f"chat: {{{GOOD}, on: []}}", "should have at least 1 item"),
        (f"chat: {{{GOOD}, timeout: 0}}", "should be greater than or equal to 0.1"),
        (f"chat: {{{GOOD}, url2: x}}", "unknown key; did you mean url?"),
        (f"'a b': {{{GOOD}}}", "should be a name of at most 40 letters"),
        (", ".join(f"h{n}: {{{GOOD}}}" for n in range(21)), "should have at most 20 items"),
    ],
)
def test_a_config_that_is_none(written: str, said: str) -> None:
    """A wrong setting is refused with the right form, and without text that may be secret."""
    with pytest.raises(ConfigError) as error:
        parse(f"webhooks: {{{written}}}", Config, "stoker.yaml")
    assert said in str(error.value)


def test_secrets_have_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_store: Store) -> None:
    """Before the daemon begins, and `config check` says so too; none is shown."""
    missing = f"webhooks: {{chat: {{url: 'http://example.org/p', secret_file: {tmp_path}/none}}}}"
    monkeypatch.setenv("SHORT", "short")
    short = "webhooks: {chat: {url: 'https://example.org/p', secret_env: SHORT}}"
    nobody = "webhooks: {chat: {url: 'https://example.org/p', secret_env: NOBODY}}"
    no_ca = f"webhooks: {{chat: {{{GOOD}, ca: {tmp_path}/none}}}}"
    for written, said in (
        (missing, "No such file"),
        (short, "at least 16"),
        (nobody, "no variable NOBODY"),
        (no_ca, "No such file"),
    ):
        config = parse(written, Config, "stoker.yaml")
        with pytest.raises(ConfigError, match=f"^webhooks.chat.*{said}") as error:
            NotificationService(config.webhooks, file_store)
        assert "short" not in str(error.value).replace("SHORT", "")
        (found,) = (each for each in check(config, tmp_path) if each.key == "webhooks.chat")
        assert (found.verdict, said in found.what) == ("error", True)
    config = parse(f"webhooks: {{chat: {{{GOOD}}}}}", Config, "stoker.yaml")
    assert "example.org/x" not in repr(config)
    (found,) = (each for each in check(config, tmp_path) if each.key == "webhooks.chat")
    assert (found.verdict, found.what) == ("ok", "https://example.org/...; secret in HOOK_SECRET")


def test_every_kind_can_be_asked_for() -> None:
    """Every event kind, and every group of kinds, can be subscribed."""
    one = Webhook(url="https://example.org", secret_env="X", on=(*get_args(Kind),))
    assert one.kinds == set(get_args(Kind))
    usual = Webhook(url="https://example.org", secret_env="X")
    assert usual.kinds == {
        "finished", "failed", "killed", "budget spent", "openings held", "openings resumed",
    }  # fmt: skip
