"""Queues of a real daemon: every door goes by them, changes outlive it, and no job is lost with its queue."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.daemon.fleet import Daemon, Fleet, fleets
from tests.waiting import until

QUEUES = {"prod": {"submit": ["ann"], "queues": {"etl": {"priority": 5}, "adhoc": {}}}, "lab": {}}
#: What is held counts from the next second on, and for minutes.
SHARING = {"order": ["priority", "fair"], "half_life": "16s"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A daemon with these queues."""
    with fleets(tmp_path_factory.mktemp("queues")) as make:
        fleet = make(queues=QUEUES, sharing=SHARING, mesos={"jvms": 1000})
        until(fleet.add().leads, fleet.daemons[0].log)
        yield fleet


def ask(daemon: Daemon, method: str, path: str, body: Any = None) -> httpx.Response:
    """A request."""
    return httpx.request(method, f"{daemon.url}{path}", json=body, timeout=100.0)


def submit(fleet: Fleet, queue: str, owner: str, seconds: float = 600) -> httpx.Response:
    """Submit a job of the miniature's, which takes one executor."""
    spec = {
        "app": str(Path(__file__).parents[2] / "chaos/spark/home/driver.py"), "args": [str(seconds), "0"],
        "env": {"CHAOS_LOG": str(fleet.started), "CHAOS_KEY": "key"}, "cpus": 0.5,
        "queue": queue, "owner": owner,
    }  # fmt: skip
    return ask(fleet.daemons[0], "POST", "/v1/jobs", spec)


def weights(daemon: Daemon) -> dict[str, float]:
    """The weight of each queue."""
    found = ask(daemon, "GET", "/v1/queues").json()["queues"]
    return {queue["path"]: queue["settings"]["weight"] for queue in found}


def test_every_door_goes_by_the_queues(fleet: Fleet) -> None:
    """The API, spark-submit's protocol and drivers of users' own are refused alike, and let in alike."""
    (daemon,) = fleet.daemons
    assert submit(fleet, "lab", "").status_code == 201
    for queue, owner, status, why in (
        ("nowhere", "ann", 422, "there is no queue nowhere; jobs can be in "),
        ("prod", "ann", 422, "queue prod accepts no jobs itself"),
        ("prod.etl", "bob", 403, "bob may not submit to prod.etl; ann may"),
    ):
        properties = {"spark.stoker.queue": queue, "spark.stoker.owner": owner}
        registration = {
            "application_id": "app-1", "spark": "4.3.0", "user": owner, "secret": "s" * 32,
            "driver": {"host": "127.0.0.1", "port": 7078}, "properties": properties,
        }  # fmt: skip
        creation = {
            "action": "CreateSubmissionRequest", "clientSparkVersion": "4.3.0",
            "appResource": "file:/apps/app.py", "appArgs": [], "mainClass": "", "environmentVariables": {},
            "sparkProperties": properties,
        }  # fmt: skip
        for answer in (
            submit(fleet, queue, owner),
            ask(daemon, "POST", "/v1/applications", registration),
            ask(daemon, "POST", "/v1/submissions/create", creation),
        ):
            assert answer.status_code == status, answer.text
            assert why in answer.text
    full = ask(daemon, "PATCH", "/v1/queues/lab", {"most": {"waiting": 0}})
    assert full.status_code == 200
    answer = submit(fleet, "lab", "")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "30"), answer.text
    ask(daemon, "PATCH", "/v1/queues/lab", {"most": {"waiting": None}})
    etl = submit(fleet, "prod.etl", "ann")
    assert (etl.status_code, etl.json()["priority"]) == (201, 5)


def test_who_waits_for_a_limit_says_so(fleet: Fleet) -> None:
    """The job, its explanation, and the queue that holds all that it may have; raised, it lets the job in."""
    (daemon,) = fleet.daemons
    assert ask(daemon, "PUT", "/v1/queues/small", {"most": {"cpus": 0.5}}).status_code == 201
    runs, waits = (submit(fleet, "small", "cy").json()["id"] for _ in range(2))
    fleet.wait(daemon, runs, "running")
    why = (
        "queue small may have 0.5 cpus at most and has 0.5; this takes 0.5; jobs behind it do not wait for it"
    )

    def reasons() -> set[str]:
        paths = (f"/v1/jobs/{waits}", f"/v1/jobs/{waits}/explain")
        return {ask(daemon, "GET", path).json()["reason"] for path in paths}

    until(lambda: reasons() == {why}, daemon.log)

    def small() -> dict[str, Any]:
        found: dict[str, Any] = ask(daemon, "GET", "/v1/queues/small").json()
        return found

    until(lambda: small()["waits"] == waits, daemon.log)
    use = small()
    assert (use["cpus"], use["running"], use["waiting"], use["share"]) == (0.5, 1, 1, 0.5 / 16)
    assert 'stoker_queue_jobs{queue="small",state="waiting"} 1.0' in ask(daemon, "GET", "/metrics").text
    ask(daemon, "PATCH", "/v1/queues/small", {"most": {"cpus": 1}})
    fleet.wait(daemon, waits, "running")
    until(lambda: small()["cpus"] == 1, daemon.log)
    for job in (runs, waits):
        ask(daemon, "DELETE", f"/v1/jobs/{job}")
        fleet.wait(daemon, job, "killed")
    assert ask(daemon, "DELETE", "/v1/queues/small").status_code == 200


def test_what_was_had_outlives_the_daemon(fleet: Fleet) -> None:
    """A queue that holds nothing now has had its share and its day's dollars, and waits for both reasons."""
    (daemon,) = fleet.daemons

    def had() -> dict[str, Any]:
        found: dict[str, Any] = ask(daemon, "GET", "/v1/queues/past").json()
        return found

    assert ask(daemon, "PUT", "/v1/queues/past", {}).status_code == 201
    job = submit(fleet, "past", "cy").json()["id"]
    # What comes and goes within one step of the past (a second here) was never had.
    until(lambda: had()["used"] > 0.1 * had()["share"] > 0.0, daemon.log)
    ask(daemon, "DELETE", f"/v1/jobs/{job}")
    until(lambda: had()["cpus"] == 0, daemon.log)
    ask(daemon, "PATCH", "/v1/queues/past", {"most": {"dollars_per_day": 1e-9}})
    daemon.end(signal.SIGTERM)  # which is when VMs are charged for
    daemon.up()
    until(daemon.leads, daemon.log)
    until(lambda: had()["used"] > 0.0 and had()["dollars_today"] > 0.0, daemon.log)
    waits = submit(fleet, "past", "cy").json()["id"]
    reason = "queue past may cost $1e-09 per day at most and has cost $"
    until(lambda: reason in ask(daemon, "GET", f"/v1/jobs/{waits}").json()["reason"], daemon.log)
    ask(daemon, "DELETE", f"/v1/jobs/{waits}")
    fleet.wait(daemon, waits, "killed")
    assert ask(daemon, "DELETE", "/v1/queues/past").status_code == 200


def asked_of_queues(daemon: Daemon) -> list[tuple[str, object]]:
    """Methods and bodies of the requests to `/v1/queues` in the audit log, in order."""
    lines = (daemon.folder / "host/audit.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return [(record["method"], record.get("asked")) for record in records if "/v1/queues" in record["path"]]


def test_changes_outlive_the_daemon_and_jobs_their_queue(fleet: Fleet) -> None:
    """A kill right behind the answer loses nothing; the config has the last word, and jobs go on without."""
    (daemon,) = fleet.daemons
    job = submit(fleet, "lab", "").json()["id"]
    refused = ask(daemon, "DELETE", "/v1/queues/lab")
    assert (refused.status_code, "lab is not removed: it has " in refused.text) == (409, True)
    assert ask(daemon, "PATCH", "/v1/queues/prod.etl", {"weight": 3}).status_code == 200
    # What is asked is written down a moment after the answer.
    until(lambda: ("PATCH", {"weight": 3}) in asked_of_queues(daemon), daemon.log)
    assert ask(daemon, "PATCH", "/v1/queues/prod.adhoc", {"weight": 4}).status_code == 200
    assert ask(daemon, "DELETE", "/v1/queues/prod.adhoc").status_code == 200
    assert ask(daemon, "PUT", "/v1/queues/new", {"weight": 2}).status_code == 201
    daemon.end(signal.SIGKILL)
    daemon.up()
    until(daemon.leads, daemon.log)
    changed = {"default": 1, "prod": 1, "prod.etl": 3, "lab": 1, "new": 2}
    assert weights(daemon) == changed

    daemon.end(signal.SIGKILL)
    config = yaml.safe_load(daemon.file.read_text())
    config["queues"] = {"prod": {"submit": ["ann"], "queues": {"etl": {"weight": 7}}}}
    daemon.file.write_text(yaml.safe_dump(config))
    daemon.up()
    until(daemon.leads, daemon.log)
    assert {path: weight for path, weight in weights(daemon).items() if path != "lab"} == {
        "default": 1, "prod": 1, "prod.etl": 7, "new": 2,
    }  # fmt: skip
    assert "jobs are in a missing queue" in daemon.log()
    assert "there is no queue lab" in submit(fleet, "lab", "").text
    assert fleet.wait(daemon, job, "running")["queue"] == "lab"
