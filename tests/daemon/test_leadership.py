"""Several daemons on one store: one leads, the others wait; whatever happens, never two."""

import contextlib
import signal
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import sqlalchemy as sa

from conf.schema import JobSpec
from daemon.cli.client import Client
from daemon.cli.errors import CommandError
from daemon.cli.orphans import descendants
from daemon.leadership import StoreElection
from daemon.store import DeposedError, Store
from environment.types import Job
from tests.chaos.scene import SPARK
from tests.daemon.cable import Cable
from tests.daemon.conftest import ZooKeeper
from tests.daemon.fleet import Daemon, Starter, until


def framework_of(url: str) -> str | None:
    """The framework's id that the store keeps."""
    store = Store(url)
    try:
        return store.get("framework_id")
    finally:
        store.close()


def test_the_next_daemon_leads_when_the_leader_is_killed(fleet: Starter, postgresql_url: str) -> None:
    """It answers reads before and points to the leader; then it takes framework, jobs and drivers over."""
    group = fleet(database=postgresql_url)
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
    assert (job["state"], job["losses"], len(job["tasks"])) == ("finished", 0, 2), job
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
    first.end(signal.SIGKILL)
    until(second.leads, second.log)
    if lost_drivers == "fail":
        job = group.wait(second, job_id, "finished", "failed", "killed")
        assert job["state"] == "failed"
        assert "whose daemon does not lead any more" in job["reason"]
    else:
        until(lambda: group.drivers() == 2, second.log)
    left = [pid for pid in descendants() if b"pyspark/driver.py" in command_of(pid)]
    assert left, "the first host's driver runs on"
    first.up()
    until(lambda: "driver given up" in first.log(), first.log)
    if lost_drivers == "requeue":
        job = group.wait(second, job_id, "running")
        assert [task["number"] for task in job["tasks"] if task["ended_at"] is None] == [2, 3]
        with Client(second.url) as client:
            client.kill(job_id)
    until(lambda: not [p for p in descendants() if b"pyspark/driver.py" in command_of(p)], first.log)


def submit_to(daemon: Daemon) -> httpx.Response:
    """Submit what can only be refused."""
    return httpx.post(f"{daemon.url}/v1/jobs", json={"app": "/nowhere/x.py"})


def command_of(pid: int) -> bytes:
    """A process's command line; empty when it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def test_a_leader_whose_lock_is_lost_steps_down(fleet: Starter, postgresql_url: str) -> None:
    """The connection that holds the lock is cut: it leads no more, and then whoever is first leads again."""
    group = fleet(database=postgresql_url)
    daemon = group.add()
    until(daemon.leads, daemon.log)
    engine = sa.create_engine(postgresql_url.replace(":", "+psycopg:", 1))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(
            sa.text(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid <> 0"
            )
        )
    engine.dispose()
    until(lambda: "no longer leading" in daemon.log(), daemon.log)
    until(lambda: daemon.log().count("subscribed") == 2 and daemon.leads(), daemon.log)
    assert "Traceback" not in daemon.log()


@pytest.mark.parametrize("how", ["cut", "frozen"])
def test_a_leader_that_loses_its_store_is_followed_by_another(
    fleet: Starter, postgresql_url: str, how: str
) -> None:
    """Whatever it answered with 201 is kept, the other goes on with it, and in the end both tell the same.

    Frozen, the leader does not even notice at first, while PostgreSQL gives its lock to the other.
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
    app = str(SPARK / "pyspark/driver.py")
    return {"app": app, "args": ["0.1", "0"], "executors": 1, "cpus": 0.1, "env": environment}


def standby_of(daemon: Daemon) -> str:
    """Whom a daemon takes for the leader while it waits; empty otherwise."""
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
    with Client(second.url) as client, pytest.raises(CommandError, match="no daemon leads now"):
        client.kill(job_id)
    with Client(second.url) as client:
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


def test_who_led_before_writes_no_more(url: str) -> None:
    """Once another one's term has begun, every write of the earlier leader is refused; reads go on."""

    def job(job_id: str) -> Job:
        return Job(job_id, "sort", 1.0, 1024, 1, 0.0)

    with contextlib.closing(Store(url)) as earlier, contextlib.closing(Store(url)) as later:
        earlier.begin_term("http://one")
        earlier.submit(JobSpec(app="a.py"), job, None, 0.0)
        later.begin_term("http://other")
        for write in (
            lambda: earlier.submit(JobSpec(app="a.py"), job, None, 0.0),
            lambda: earlier.put("framework_id", "mine"),
        ):
            with pytest.raises(DeposedError, match="another daemon leads"):
                write()
        later.submit(JobSpec(app="a.py"), job, None, 0.0)
        assert [record.job.id for record in earlier.jobs()] == ["job-2", "job-1"]
        earlier.end_term()
        assert earlier.leader() == "http://other"
        later.end_term()
        assert earlier.leader() == ""


def test_an_election_on_the_store(url: str) -> None:
    """Who is first leads until it resigns; the lock it was known by is gone with it."""
    with contextlib.closing(Store(url)) as one, contextlib.closing(Store(url)) as other:
        first, second = StoreElection(one), StoreElection(other)
        assert first.won()
        assert first.won(), "who leads may ask again"
        assert not second.won()
        assert second.state == "another daemon leads"
        assert first.lost(0.0) == ""
        first.resign()
        assert first.lost(0.0) != ""
        assert second.won()
        assert not first.won()
        second.close()
