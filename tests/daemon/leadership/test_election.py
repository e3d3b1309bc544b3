"""Several daemons on one store: one leads, the others wait, and there are never two leaders."""

import contextlib
import multiprocessing
import multiprocessing.synchronize
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection
from stoker import Stoker, StokerError

from conf.schema import JobSpec
from daemon.cli.operate.orphans import descendants
from daemon.leadership.election import FileElection, LeaseElection
from daemon.store.job_store import Store
from daemon.store.rows.database import DeposedError, StoreBusyError
from daemon.store.rows.terms import LeaderTerms
from environment.resources import Resources
from environment.types import Job
from tests.chaos.scene import SPARK
from tests.daemon.cable import Cable
from tests.daemon.conftest import ZooKeeper
from tests.daemon.fleet import Daemon, Starter
from tests.waiting import PATIENCE, until


def framework_of(url: str) -> str | None:
    """The framework's id that the store keeps."""
    store = Store(url)
    try:
        return store.facts.get("framework_id")
    finally:
        store.close()


@pytest.mark.slow
def test_the_next_daemon_leads_when_the_leader_is_killed(fleet: Starter, postgresql_url: str) -> None:
    """It answers reads before and points to the leader; then it takes framework, jobs and drivers over."""
    # No launch is given up on a slow machine: then the job would have more executors than it asked for.
    group = fleet(database=postgresql_url, mesos={"launch_timeout": PATIENCE})
    first, second = group.add(), group.add()
    until(first.leads, first.log)
    ready = second.get("/readyz")
    assert ready is not None
    assert (ready.status_code, ready.json()["ready"]) == (503, False)
    assert ready.json()["checks"]["leader"].startswith(f"standby: {first.url} leads")
    sent_on = httpx.post(f"{second.url}/v1/jobs", json={"app": "x.py"})
    assert sent_on.status_code == 307
    assert sent_on.headers["location"] == f"{first.url}/v1/jobs"
    assert sent_on.json()["leader"] == first.url
    metrics = second.get("/metrics")
    assert metrics is not None
    assert "stoker_leader 0.0" in metrics.text

    job_id = group.submit(second, 2.0)
    group.wait(second, job_id, "running")
    framework = framework_of(postgresql_url)
    first.end(signal.SIGKILL)
    killed = time.monotonic()
    until(second.leads, second.log)
    print(f"another daemon leads {time.monotonic() - killed:.1f} s after kill -9")
    job = group.wait(second, job_id, "finished", "failed", "killed")
    assert (job["state"], job["losses"], len(job["tasks"])) == ("finished", 0, 2), str(job)
    assert group.drivers() == 1
    assert framework_of(postgresql_url) == framework
    first.up()
    assert not first.leads()
    second.end(signal.SIGTERM)
    until(first.leads, first.log)


@pytest.mark.parametrize("lost_drivers", ["fail", "requeue"])
def test_drivers_of_a_host_that_is_gone(fleet: Starter, postgresql_url: str, lost_drivers: str) -> None:
    """Its jobs fail and say why, or start afresh; the old host's daemon ends the drivers when it is back."""
    group = fleet(database=postgresql_url, leader={"lost_drivers": lost_drivers})
    first, second = group.add("one"), group.add("other")
    job_id = group.submit(first, 3600.0)
    group.wait(first, job_id, "running")
    until(lambda: group.drivers() == 1, first.log)  # as soon as its executors run, the job does
    first.end(signal.SIGKILL)
    until(second.leads, second.log)
    if lost_drivers == "fail":
        job = group.wait(second, job_id, "finished", "failed", "killed")
        assert job["state"] == "failed"
        assert "whose daemon does not lead any more" in job["reason"]
    else:
        until(lambda: group.drivers() == 2, second.log)
    left = [pid for pid in descendants() if b"home/driver.py" in command_of(pid)]
    assert left, "the first host's driver runs on"
    first.up()
    until(lambda: "driver given up" in first.log(), first.log)
    if lost_drivers == "requeue":
        job = group.wait(second, job_id, "running")
        assert [task["number"] for task in job["tasks"] if task["ended_at"] is None] == [2, 3]
        with Stoker(second.url) as client:
            client.kill(job_id)
    until(lambda: not [p for p in descendants() if b"home/driver.py" in command_of(p)], first.log)


def submit_to(daemon: Daemon) -> httpx.Response:
    """Submit a job that can only be refused."""
    return httpx.post(f"{daemon.url}/v1/jobs", json={"app": "/nowhere/x.py"})


def command_of(pid: int) -> bytes:
    """A process's command line; empty when it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@contextlib.contextmanager
def frozen(daemon: Daemon) -> Iterator[None]:
    """A daemon stopped midway, with all its connections and locks."""
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(daemon.pid, signal.SIGCONT)


@pytest.fixture(params=["postgresql", "zookeeper"])
def several(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A config by which several daemons find their leader."""
    leader = {"lease": 2.0, "lost_drivers": "requeue"}
    if request.param == "postgresql":
        return {"database": request.getfixturevalue("postgresql_url"), "leader": leader}
    address = request.getfixturevalue("zookeeper").address
    return {
        "database": f"sqlite:///{tmp_path / 'shared.db'}",
        "leader": {**leader, "zookeeper": f"{address}/stoker/leader"},
    }


def test_a_frozen_leader_is_followed_and_changes_nothing_when_it_thaws(
    several: dict[str, Any], fleet: Starter
) -> None:
    """It keeps its connections and locks; going on, it writes no row, makes no call, starts nothing."""
    url, group = several["database"], fleet(**several)
    with contextlib.closing(Cable(int(group.mesos.address.rpartition(":")[2]))) as cable:
        far = {"master": f"127.0.0.1:{cable.port}", "launch_timeout": 2.0}
        first = group.add("one", mesos=far)
        until(first.leads, first.log)
        second = group.add("other")
        jobs = [group.submit(first, seconds) for seconds in (0.5, 1.0, 1.0, 2.0)]
        group.wait(first, jobs[0], "running")
        with frozen(first):
            stopped = time.monotonic()
            until(second.leads, second.log)
            print(f"another daemon leads {time.monotonic() - stopped:.1f} s after the leader froze")
            for job_id in jobs:
                job = group.wait(second, job_id, "finished", "failed", "killed")
                assert job["state"] == "finished", (job, second.log())
            rows, sent, started = rows_of(url), cable.sent, group.started.read_text()
        if first.ended:  # it froze while it wrote to a file, which only its end can free
            assert "the previous leader blocks the store, and is ended" in second.log()
        else:
            until(lambda: standby_of(first) == second.url, first.log)
            until(lambda: "no longer leading" in first.log(), first.log)
        # It may read once more which agents there are, which it does now and then, and which changes nothing.
        assert b"POST" not in cable.sent[len(sent) :]
        assert (rows_of(url), group.started.read_text()) == (rows, started)
        later = group.submit(second, 0.1)
        assert group.wait(second, later, "finished", "failed")["state"] == "finished"
        assert not any("Traceback" in daemon.log() for daemon in (first, second)), first.log()


def rows_of(url: str) -> dict[str, list[tuple[object, ...]]]:
    """All rows of the store except the leader's write probe."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
    with engine.connect() as connection:
        tables = sa.inspect(connection).get_table_names()
        found = {
            name: sorted(map(tuple, connection.execute(sa.text(f"SELECT * FROM {name}"))))  # noqa: S608
            for name in tables
        }
    engine.dispose()
    found["facts"] = [row for row in found["facts"] if row[0] not in ("lease", "probe")]
    return found


@pytest.mark.parametrize("how", ["postgresql", "sqlite"])
def test_a_leader_that_froze_while_it_wrote_does_not_hold_the_next_one_up(
    how: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Its connection is ended, and where it cannot be, as with a file, it is ended itself."""
    url = (
        f"sqlite:///{tmp_path / 'stoker.db'}"
        if how == "sqlite"
        else request.getfixturevalue("postgresql_url")
    )
    context = multiprocessing.get_context("spawn")
    writing = context.Event()
    leader = context.Process(target=write_for_ever, args=(url, writing))
    with contextlib.closing(Store(url)) as store:
        election = LeaseElection(store, 1.0)
        leader.start()
        try:
            assert writing.wait(600)
            assert leader.pid is not None
            os.kill(leader.pid, signal.SIGSTOP)
            until(lambda: election.won("http://next"), lambda: election.state)
            assert store.terms.leader() == "http://next"
        finally:
            leader.kill()
            leader.join()


def write_for_ever(url: str, writing: "multiprocessing.synchronize.Event") -> None:
    """Lead, and come to no end of a transaction."""
    store = Store(url)
    term = store.terms.begin("http://one", 1.0)
    term.renew()

    def work(connection: Connection) -> None:
        term.fence(connection)
        connection.execute(sa.text("UPDATE facts SET value = 'mine' WHERE key = 'made_at'"))
        writing.set()
        time.sleep(3600)

    store.database.write(work)


def test_a_leader_whose_loop_hangs_is_followed_by_another(url: str) -> None:
    """The rest of the process lives, its connections too; without the loop nobody renews the lease."""
    with contextlib.closing(Store(url)) as one, contextlib.closing(Store(url)) as other:
        first, second = LeaseElection(one, 1.0), LeaseElection(other, 1.0)
        term = first.won("http://one")
        assert term is not None
        term.renew()
        assert (term.holds, first.lapsed) == (True, False)
        assert second.won("http://other") is None
        assert second.state == "another daemon leads"
        until(lambda: second.won("http://other"))
        assert (term.holds, first.lapsed) == (False, True)
        with pytest.raises(DeposedError):
            term.renew()
        assert not term.holds


def test_of_two_who_wait_one_leads(url: str) -> None:
    """Both have seen the same lease come to its end; the second to take it finds another one."""
    with contextlib.closing(Store(url)) as one, contextlib.closing(Store(url)) as other:
        seen = other.terms.watch().over()
        assert seen == one.terms.watch().over() == ""
        one.terms.begin("http://one", 300.0, seen)
        with pytest.raises(StoreBusyError):
            other.terms.begin("http://other", 300.0, seen)
        assert other.terms.leader() == "http://one"


def test_a_lease_that_lapsed_unnoticed_is_renewed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that was stopped for a while goes on when nobody came in between, and only then."""
    with contextlib.closing(Store(url)) as store:
        term = store.terms.begin("http://one", 1.0)
        term.renew()
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        monkeypatch.setattr("daemon.store.rows.terms.boot_seconds", lambda: now + 3600)
        assert not term.holds
        term.renew()
        assert term.holds


@pytest.mark.parametrize("how", ["cut", "frozen"])
def test_a_leader_that_loses_its_store_is_followed_by_another(
    fleet: Starter, postgresql_url: str, how: str
) -> None:
    """Jobs answered with 201 are stored, and the next leader continues with them.

    In the end both daemons report the same. A frozen leader does not notice at first;
    without its lease it does nothing.
    """
    server = urlsplit(postgresql_url)
    with contextlib.closing(Cable(server.port or 0)) as cable:
        far = postgresql_url.replace(f":{server.port}", f":{cable.port}")
        group = fleet(database=postgresql_url, leader={"lost_drivers": "requeue"})
        first = group.add("one", database=far)
        until(first.leads, first.log)
        second = group.add("other")
        running = group.submit(first, 2.0)
        group.wait(second, running, "running")

        accepted: list[str] = []
        users = [threading.Thread(target=insist, args=(first, f"{n}", accepted)) for n in range(3)]
        for user in users:
            user.start()
        until(lambda: len(accepted) > 5, first.log)
        if how == "cut":
            cable.cut()
        else:
            cable.freeze()
            cable.end_far()
        lost = time.monotonic()
        until(second.leads, second.log)
        print(f"another daemon leads {time.monotonic() - lost:.1f} s after the store was lost")
        for user in users:
            user.join()
        later = group.submit(second, 0.1)
        cable.mend()
        until(lambda: "no longer leading" in first.log(), first.log)
        for job_id in (running, later, *accepted):
            job = group.wait(second, job_id, "finished", "failed", "killed")
            assert job["state"] == "finished", (job, second.log())
        until(lambda: standby_of(first) == second.url, first.log)
        told = [daemon.get("/v1/jobs?limit=1000") for daemon in (first, second)]
        assert told[0] is not None
        assert told[1] is not None
        assert told[0].json() == told[1].json()
        # What was accepted but not answered in time is there under its key, once.
        assert len(told[0].json()["jobs"]) <= 2 + len(accepted) + len(users)
        assert not any("Traceback" in daemon.log() for daemon in (first, second)), first.log()


def insist(daemon: Daemon, name: str, accepted: list[str]) -> None:
    """Submit short jobs until one is not answered with 201; the ids of those that were."""
    for number in range(1000):
        body = {**brief(daemon), "name": f"{name}-{number}"}
        try:
            answer = httpx.post(f"{daemon.url}/v1/jobs", json=body, timeout=3.0, follow_redirects=False)
        except httpx.TransportError:
            return
        if answer.status_code != 201:
            assert answer.status_code in (307, 429, 503), answer.text
            return
        accepted.append(answer.json()["id"])
        time.sleep(0.1)


def brief(daemon: Daemon) -> dict[str, object]:
    """A job of one executor that is over soon."""
    environment = {"CHAOS_LOG": str(daemon.folder / "started"), "CHAOS_KEY": "key"}
    app = str(SPARK / "home/driver.py")
    return {"app": app, "args": ["0.1", "0"], "executors": 1, "cpus": 0.1, "env": environment}


def standby_of(daemon: Daemon) -> str:
    """The leader that a waiting daemon reports; empty otherwise."""
    ready = daemon.get("/readyz")
    text = "" if ready is None else ready.json()["checks"].get("leader", "")
    return str(text.removeprefix("standby: ").partition(" leads")[0]) if " leads" in text else ""


def test_zookeeper_finds_the_leader(fleet: Starter, zookeeper: ZooKeeper, tmp_path: Path) -> None:
    """On a SQLite store too: the second leads when the first is killed; without ZooKeeper nobody does."""
    group = fleet(
        database=f"sqlite:///{tmp_path / 'shared.db'}",
        leader={"zookeeper": f"{zookeeper.address}/stoker/leader"},
    )
    first = group.add()
    until(first.leads, first.log)
    second = group.add()
    job_id = group.submit(second, 1.0)
    group.wait(second, job_id, "running")
    first.end(signal.SIGKILL)
    killed = time.monotonic()
    until(second.leads, second.log)
    print(f"another daemon leads {time.monotonic() - killed:.1f} s after kill -9")
    job = group.wait(second, job_id, "finished", "failed", "killed")
    assert job["state"] == "finished", (job, second.log())
    assert group.drivers() == 1
    zookeeper.stop()
    until(lambda: "no longer leading" in second.log(), second.log)
    until(lambda: submit_to(second).status_code == 503, second.log)
    assert submit_to(second).headers["retry-after"] == "1"
    with Stoker(second.url) as client, pytest.raises(StokerError, match="no daemon leads now"):
        client.kill(job_id)
    with Stoker(second.url) as client:
        assert client.job(job_id)["state"] == "finished", "what the store holds is answered"
    zookeeper.start()
    until(second.leads, second.log)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that is empty."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'stoker.db'}"
    found: str = request.getfixturevalue("postgresql_url")
    return found


def test_a_term_is_read_once_in_each_transaction(url: str) -> None:
    """A term is read once in each transaction, also by writers sharing a commit with the next leader.

    They write no more.
    """
    with contextlib.closing(Store(url)) as store:
        term = store.terms.begin("http://one")
        asked: list[str] = []

        def note(*arguments: Any) -> None:
            asked.append(arguments[2])

        def thrice(connection: Connection) -> None:
            for _ in range(3):
                term.fence(connection)

        sa.event.listen(store.database._engine, "before_cursor_execute", note)
        for count in (1, 2):
            store.database.write(thrice)
            assert sum("SELECT" in statement for statement in asked) == count

        def both(connection: Connection) -> None:
            term.fence(connection)
            shared: Any = SimpleNamespace(write=lambda work: work(connection))
            LeaderTerms(shared).begin("http://other")
            term.fence(connection)

        with pytest.raises(DeposedError, match="another daemon leads"):
            store.database.write(both)


def test_who_led_before_writes_no_more(url: str) -> None:
    """Once another leader's term has begun, every write of the earlier leader is refused; reads go on.

    A write pending at the end of the term is refused as well, in any later state of the process.
    """

    def job(job_id: str) -> Job:
        return Job(job_id, "sort", Resources.of(1.0, 1024), 1, 0.0)

    with contextlib.closing(Store(url)) as one, contextlib.closing(Store(url)) as other:
        first = one.terms.begin("http://one")
        earlier = one.during(first)
        earlier.jobs.new.add_one(JobSpec(app="a.py"), job, None, 0.0)
        second = other.terms.begin("http://other")
        later = other.during(second)
        for write in (
            lambda: earlier.jobs.new.add_one(JobSpec(app="a.py"), job, None, 0.0),
            lambda: earlier.facts.put("framework_id", "mine"),
        ):
            with pytest.raises(DeposedError, match="another daemon leads"):
                write()
        later.jobs.new.add_one(JobSpec(app="a.py"), job, None, 0.0)
        assert [record.job.id for record in earlier.jobs.page()] == ["job-2", "job-1"]
        first.end()
        assert one.terms.leader() == "http://other"
        second.end()
        assert one.terms.leader() == ""
        one.terms.begin("http://one")
        with pytest.raises(DeposedError):
            later.facts.put("framework_id", "mine")


def test_the_next_one_leads_at_once_when_the_leader_has_gone(url: str) -> None:
    """A leader that resigned or died on this machine is replaced at once; a silent one is waited for."""
    with contextlib.closing(Store(url)) as store, contextlib.closing(Store(url)) as other:
        election, next_one = LeaseElection(store, 300.0), LeaseElection(other, 300.0)
        process = multiprocessing.get_context("spawn").Process(target=lead_and_die, args=(url,))
        process.start()
        process.join()
        assert election.won("http://one")
        assert next_one.won("http://other") is None
        election.resign()
        assert next_one.won("http://other")
        next_one.resign()


def lead_and_die(url: str) -> None:
    """End in office."""
    Store(url).terms.begin("http://gone", 300.0)
    os._exit(1)


def test_daemons_that_take_turns_keep_out_one_that_does_not(tmp_path: Path) -> None:
    """Those that ZooKeeper elects share a SQLite store; one that knows of no others does not start there."""
    url = f"sqlite:///{tmp_path / 'stoker.db'}"
    with contextlib.closing(Store(url)) as one, contextlib.closing(Store(url)) as other:
        one.database.lock(shared=True)
        other.database.lock(shared=True)
        with contextlib.closing(Store(url)) as alone, pytest.raises(StoreBusyError):
            alone.database.lock()


def test_an_election_on_a_file(tmp_path: Path) -> None:
    """The first candidate leads until it resigns."""
    url = f"sqlite:///{tmp_path / 'stoker.db'}"
    with contextlib.closing(Store(url)) as one, contextlib.closing(Store(url)) as other:
        first, second = FileElection(one), FileElection(other)
        assert first.won("http://one")
        assert second.won("http://other") is None
        assert second.state == "another daemon leads"
        assert first.lost(0.0) == ""
        first.resign()
        assert second.won("http://other")
        assert first.won("http://one") is None
        second.resign()
