"""Submissions that are only tried: the same words as of real ones, and nothing comes of them."""

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio
import httpx
import pytest
from fastapi import FastAPI

from conf.loader import build
from conf.schema import Config, JobSpec
from daemon.auth.audit_log import Audit
from daemon.core.errors import RejectedError
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.http.routes.jobs import dry_run
from daemon.launch.launcher import Launcher
from daemon.scheduler.build import service_of
from daemon.scheduler.foundation import TermInputs
from daemon.scheduler.service import Service
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import SubmittedSpec
from daemon.what_if.cases import Present
from daemon.what_if.what_if import WhatIfService
from environment.types import PlacementRequest
from environment.view import RunningJob
from framework.embedded import AgentSpec
from framework.mesos.master_link import MasterLink
from framework.mesos.session import SessionOptions
from tests.benchmarks.daemon_of_commands import CommandLauncher
from tests.builders import make_job, make_view, make_vms
from tests.daemon.auth.user_api import house_of
from tests.daemon.small_scheduler import Foreseeing, Leads, SmallScheduler
from tests.framework.embedded.running import running as running_mesos
from tests.waiting import until

VM = AgentSpec("vm-1", "m1.large", 4, 8192, 0.24, "127.0.1.1", (20_000, 20_199))
SHA = "a" * 64


class Commands(CommandLauncher):
    """Jobs are checked as ever, and sleep."""

    command = ("sleep", "1000")
    check = Launcher.check


class House:
    """A daemon with one VM, and its answers."""

    def __init__(self, folder: Path, service: Service, store: Store) -> None:
        self.folder, self.service, self.store = folder, service, store
        self.app = create_app(Leads(service), store, AppOptions(token=None, version="1"))
        self.program = folder.parent / "count.py"
        self.program.write_text("print(1)")

    def post(self, path: str, job: Mapping[str, Any], **params: Any) -> httpx.Response:
        """The answer to a job."""
        return post(self.app, path, {"app": str(self.program), "memory": "1g", **job}, **params)

    def kept(self) -> list[Any]:
        """Numbers, keys and specs of jobs, labels and submission events in the store, and the uploads."""
        with closing(sqlite3.connect(self.folder / "stoker.db")) as sql:
            rows = [
                sql.execute(query).fetchall()
                for query in (
                    "SELECT number, idempotency_key, spec FROM jobs",
                    "SELECT * FROM labels",
                    "SELECT * FROM events WHERE kind = 'submitted'",
                )
            ]
        files = (self.folder / "uploads").glob("*")
        return [*rows, sorted((file.name, file.stat().st_mtime_ns) for file in files)]


def post(app: FastAPI, path: str, body: object, **params: Any) -> httpx.Response:
    """The app's answer."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post(path, json=body, params=params)

    return anyio.run(ask)


def busy(*_: object, **__: object) -> None:
    """Nobody plays anything."""
    raise RejectedError(503, "Not now", "another question is being answered")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One with a VM of four cpus, of which its first job has three."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dry_run, "_SECONDS", 60.0)  # however busy this machine is
        yield from _house(tmp_path_factory.mktemp("dry-run") / "data")


def _house(folder: Path) -> Iterator[House]:
    folder.mkdir()
    config = build(
        Config,
        {
            "data_dir": str(folder),
            "max_queued_jobs": 20,
            "uploads": {"size": 1},
            "queues": {
                "default": {},
                "small": {"most": {"cpus": 1}},
                "full": {"most": {"waiting": 0}},
                "private": {"submit": ["ann"]},
            },
        },
        "config",
    )
    store = Store(f"sqlite:///{folder / 'stoker.db'}")
    with running_mesos(folder / "mesos", [VM]) as mesos, closing(store):
        connect = partial(MasterLink, SessionOptions(mesos.address, user="root"))
        service = service_of(
            TermInputs(config, store, Commands(config, folder, "127.0.0.1"), connect, data_dir=folder)
        )
        loop = threading.Thread(target=service.run)
        loop.start()
        try:
            house = House(folder, service, store)
            until(lambda: bool(service.cluster().vms), "a VM")
            first = house.post("/v1/jobs", {"cpus": 3, "executors": 1})
            assert first.status_code == 201, first.text
            until(lambda: store.jobs.page()[0].state == "running", "the first job")
            yield house
        finally:
            service.stop()
            loop.join()


def test_a_job_that_fits_is_shown_where_it_would_be(house: House) -> None:
    """With its price, and when it would be over."""
    before, now = house.kept(), time.time()
    answer = house.post(
        "/v1/jobs/dry-run", {"cpus": 1, "executors": 1, "name": "tried", "labels": {"a": "b"}}
    )
    assert answer.status_code == 200, answer.text
    tried = answer.json()
    assert tried["placement"] == [
        {"vm": "vm-1", "type": "m1.large", "executors": 1, "price_per_hour": 0.24, "opens": False}
    ]
    assert tried["dollars_per_hour"] == pytest.approx(0.24 / 4)
    job, estimate = tried["job"], tried["job"]["estimate"]
    assert (job["id"], job["name"], job["state"], job["place"], job["reason"]) == (
        "",
        "tried",
        "queued",
        0,
        "",
    )
    assert now - 5.0 <= estimate["start"]["low"] <= estimate["start"]["high"] <= time.time()
    assert estimate["start"]["high"] < estimate["end"]["low"] < estimate["end"]["high"]
    assert 0.0 < estimate["cost"]["low"] < estimate["cost"]["high"]
    assert (tried["draws"], tried["policy"], tried["no_estimate"], tried["late"]) == (20, "ff", "", False)
    assert "durations of jobs of type unknown are unknown and guessed" in tried["assumes"]
    assert house.kept() == before


def test_a_job_that_waits_says_why(house: House) -> None:
    """A waiting job has a reason and an estimated start after the running job's expected end.

    An array is estimated as one job.
    """
    before = house.kept()
    tried = house.post("/v1/jobs/dry-run", {"cpus": 2, "executors": 1, "count": 3, "deadline": "1s"}).json()
    assert (tried["placement"], tried["dollars_per_hour"]) == ([], None)
    assert tried["job"]["reason"].startswith("room for 0 of 1 executor of 2 cpus")
    assert "job-1000" not in json.dumps(tried)
    estimate = tried["job"]["estimate"]
    assert estimate["at"] < estimate["start"]["low"] < estimate["end"]["low"]
    assert tried["late"]
    assert tried["job"]["count"] == 3
    assert house.kept() == before


@pytest.mark.parametrize(
    ("job", "title"),
    [
        ({"app": "/nowhere/count.py"}, "The job cannot be launched"),
        ({"app": f"stoker-file:{SHA}/count.py"}, "The job cannot be launched"),
        ({"spark": "0.9"}, "The job cannot be launched"),
        ({"app": "count.jar", "packages": ["nothing"]}, "The request is not valid"),
        ({"executors": "auto:9-", "cpus": 8}, "The job cannot be launched"),
        ({"cpus": 8}, "The job fits no cluster of this size"),
        ({"queue": "nowhere"}, "No such queue"),
        ({"queue": "private", "owner": "bob"}, "Not your queue"),
        ({"queue": "small", "cpus": 2}, "The job is over its queue's limits"),
        ({"queue": "full"}, "The queue is full"),
        ({"count": 21}, "The queue is full"),
        ({"after": "nothing"}, "It comes after a job that does not exist"),
        ({"after": "job-77"}, "It comes after a job that does not exist"),
        ({"executors": 0}, "The request is not valid"),
        ({"cpus": 1, "no": 1}, "The request is not valid"),
    ],
)  # fmt: skip
def test_what_a_submission_is_refused_for(house: House, job: dict[str, Any], title: str) -> None:
    """That a dry run is refused for, in the same words."""
    before = house.kept()
    tried, real = house.post("/v1/jobs/dry-run", job), house.post("/v1/jobs", job)
    assert tried.json()["title"] == title
    assert (tried.status_code, tried.json()) == (real.status_code, real.json())
    assert tried.headers.get("Retry-After") == real.headers.get("Retry-After")
    assert house.kept() == before


def test_files_that_will_be_sent_need_not_be_there(house: House) -> None:
    """But have to be such as are taken; those that are there are kept no longer for it."""
    data = b"print(2)"
    sha256 = hashlib.sha256(data).hexdigest()
    uploads = house.service.uploads
    uploads.put(sha256, len(data), 0, data)
    os.utime(house.folder / "uploads" / sha256, (1.0, 1.0))
    before = house.kept()
    there, missing = {"app": f"stoker-file:{sha256}/count.py"}, {"app": f"stoker-file:{SHA}/count.py"}
    assert house.post("/v1/jobs/dry-run", there).status_code == 200
    assert house.post("/v1/jobs/dry-run", missing).status_code == 422
    assert house.post("/v1/jobs/dry-run", missing, send=f"{SHA}:{1 << 20}").status_code == 200
    large = house.post("/v1/jobs/dry-run", missing, send=f"{SHA}:{(1 << 20) + 1}")
    with pytest.raises(RejectedError) as refused:
        uploads.put(SHA, (1 << 20) + 1, 0, b"")
    assert (large.status_code, large.json()["detail"]) == (413, refused.value.detail)
    assert house.post("/v1/jobs/dry-run", missing, send="a:1").status_code == 422
    assert house.kept() == before


def test_a_job_that_comes_after_another_is_played_from_its_end_on(house: House) -> None:
    """From where that is believed to be in each draw, and not beside it, though there is room."""
    small = {"cpus": 1, "executors": 1}
    beside = house.post("/v1/jobs/dry-run", small).json()["job"]["estimate"]
    tried = house.post("/v1/jobs/dry-run", {**small, "after": "job-1"}).json()
    job, estimate = tried["job"], tried["job"]["estimate"]
    assert (tried["no_estimate"], tried["draws"], tried["placement"]) == ("", 20, [])
    assert (job["reason"], job["place"]) == ("it comes after job-1, which has not ended", None)
    assert beside["start"]["high"] <= beside["at"] + 5.0
    assert estimate["at"] < estimate["start"]["low"] < estimate["start"]["high"] < estimate["end"]["high"]
    assert "its dependencies finish: it would not run if one failed" in tried["assumes"]


def test_of_an_array_so_many_are_played_at_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other it takes longer than beside each other."""
    asks = house.service.foresight
    present = asks._present()
    monkeypatch.setattr(asks, "_present", lambda: present)  # draws hang on how long the first job has run
    tried = [
        house.post("/v1/jobs/dry-run", {"cpus": 0.1, "executors": 1, "count": 3, **more}).json()
        for more in ({}, {"at_most": 3}, {"at_most": 1})
    ]
    free, all_of_them, one = (
        each["job"]["estimate"]["end"]["mean"] - each["job"]["estimate"]["at"] for each in tried
    )
    assert free == pytest.approx(all_of_them)
    assert one > 1.2 * free
    assert [each["no_estimate"] for each in tried] == ["", "", ""]
    assert any(said.startswith("1 job of its array runs at once") for said in tried[2]["assumes"])


def test_what_is_not_played_says_so(house: House) -> None:
    """A job that is not simulated is still checked, and reports the reason.

    A job after a held job is not simulated either, as its wait is unknown.
    """
    held = house.post("/v1/jobs", {"cpus": 1, "executors": 1, "after": "job-1"}).json()["id"]
    tried = house.post("/v1/jobs/dry-run", {"after": held}).json()
    assert tried["no_estimate"].startswith(f"it comes after {held}, which is not simulated: something else")
    assert (tried["job"]["estimate"], tried["placement"], tried["draws"]) == (None, [], 0)
    house.service.kill(held)
    tried = house.post("/v1/jobs/dry-run", {"after": held}).json()
    assert tried["no_estimate"] == f"it would not run: it comes after {held}, which was killed"


def test_a_job_that_begins_later_is_played_from_then_on(house: House) -> None:
    """It starts no earlier in any draw, and nothing is placed now."""
    tried = house.post("/v1/jobs/dry-run", {"start_at": "1h", "type": "sort"}).json()
    job, estimate = tried["job"], tried["job"]["estimate"]
    assert (tried["no_estimate"], tried["draws"] > 0, tried["placement"]) == ("", True, [])
    assert job["start_at"] <= estimate["start"]["low"] <= estimate["end"]["low"]
    assert job["reason"] == "it begins no earlier than its start_at"
    assert any("at its start" in said for said in tried["assumes"])


def test_without_time_to_play_the_checks_are_told(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer says that there is no estimate, and why."""
    monkeypatch.setattr(WhatIfService, "ask", busy)
    tried = house.post("/v1/jobs/dry-run", {"cpus": 1})
    assert tried.status_code == 200
    assert tried.json()["no_estimate"] == "another question is being answered"
    assert house.post("/v1/jobs/dry-run", {"cpus": 8}).status_code == 422


def test_who_waits_before_it_is_told_to_those_who_may_see_that(store: Store) -> None:
    """Others learn that somebody does."""
    vms, runs = make_vms(2), make_job("job-1", 8)
    running = RunningJob(runs, tuple(vm.id for vm in vms for _ in range(4)), 0.0, 100.0)
    view = replace(make_view(vms, free_cpus=(0.0, 0.0), executors=(4, 4)), running=(running,))
    present = Present(view, (PlacementRequest(replace(runs, id="job-7", owner="bob"), 8),))
    with house_of(store, "own") as house, patch.object(Foreseeing, "_present", lambda _: present):
        told = {
            who: house(who, "POST", "/v1/jobs/dry-run", json={"app": "count.py"}).json()["job"]
            for who in ("ann", "oper")
        }
    assert told["oper"]["reason"].startswith("job-7 waits first: room for 0 of 8 executors")
    assert told["ann"]["reason"].startswith("another job waits first: room for 0 of 8 executors")
    assert told["ann"]["place"] == 1


def test_it_is_no_submission_to_the_audit_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run is not in the audit log, which records changes only."""
    monkeypatch.setattr(WhatIfService, "ask", busy)
    audit = Audit(tmp_path / "audit.jsonl", size=1 << 20, earlier=1)
    with closing(Store(f"sqlite:///{tmp_path / 'stoker.db'}")) as store:
        app = create_app(SmallScheduler(store), store, AppOptions(token=None, version="1", audit=audit))
        for path in ("/v1/jobs/dry-run", "/v1/jobs"):
            assert post(app, path, {"app": "count.py"}).is_success
        assert len(store.jobs.page()) == 1
    audit.close()
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [line["path"] for line in lines] == ["/v1/jobs"]


def test_a_trial_is_a_job_that_nobody_has(house: House) -> None:
    """However often it is asked for; the next job is the next number."""
    spec = SubmittedSpec(JobSpec(app=str(house.program), memory=1024, name="again"))
    first, again = (house.service.trial(spec, {})[0] for _ in range(2))
    assert first.id == again.id
    last = house.store.jobs.page(limit=1)[0].job.id
    assert house.store.jobs.get(first.id) is None
    record = house.post("/v1/jobs", {"cpus": 1, "name": "again"}).json()
    assert int(record["id"].removeprefix("job-")) == int(last.removeprefix("job-")) + 1
    house.service.kill(record["id"])
