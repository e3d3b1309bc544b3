"""The HTTP API: every route's answers, and no request that ends in a 5xx."""

import contextlib
import json
import re
import sqlite3
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import anyio
import httpx
import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, seed, settings
from prometheus_client.parser import text_string_to_metric_families
from schemathesis import checks
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks as openapi_checks
from structlog.testing import capture_logs

from conf.loader import ConfigError, build
from conf.schema import JobSpec
from daemon.core.cluster_status import ClusterStatus
from daemon.core.shadow_comparison import Comparison, ComparisonReport, ComparisonTotals, Outcome
from daemon.core.status import (
    BudgetStatus,
    Health,
    PolicyStatus,
    QueuePositions,
    ShadowStatus,
    SpendingLimit,
)
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.http.routes.jobs import jobs
from daemon.schemas.policies import comparison_body
from daemon.store.job_store import Store
from daemon.store.queries.stored_jobs import StoredJobs
from daemon.store.rows.database import StoreError
from environment.decisions.explain import CandidateVm, Choice, Explanation
from environment.model.cluster_model import Changes
from environment.model.messages.records import ExecutorRecord
from environment.model.messages.vm_accounts import Charge
from environment.resources import Resources
from tests.daemon.small_scheduler import ESTIMATE, LOG, SmallScheduler
from tests.waiting import PATIENCE

JSON = {"Content-Type": "application/json"}


class Api:
    """A client of an app in this process, one request at a time."""

    def __init__(self, app: FastAPI, **headers: str) -> None:
        self._app = app
        self._headers = {"host": "localhost:8642", **headers}

    def __call__(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request; a body that is no problem although the status is 4xx or 5xx fails the test."""
        request["headers"] = self._headers | request.get("headers", {})

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8642") as client:
                return await client.request(method, path, **request)

        response = anyio.run(send)
        if response.status_code >= 400 and path != "/readyz":
            problem = response.json()
            assert response.headers["content-type"] == "application/problem+json"
            assert problem["status"] == response.status_code
            assert problem["type"] == "about:blank"
            assert problem["title"]
            assert "Traceback" not in problem["detail"]
        return response


@pytest.fixture
def scheduler(store: Store) -> SmallScheduler:
    """A scheduler on the store."""
    return SmallScheduler(store)


@pytest.fixture
def app(store: Store, scheduler: SmallScheduler) -> FastAPI:
    """The API of that scheduler, without a token."""
    return create_app(scheduler, store, AppOptions(token=None, version="1.2.3"))


@pytest.fixture
def api(app: FastAPI) -> Api:
    """A client of that API."""
    return Api(app)


def submit(api: Api, key: str | None = None, **spec: Any) -> httpx.Response:
    """Submit a job that is valid unless the test says otherwise."""
    headers = {} if key is None else {"Idempotency-Key": key}
    return api("POST", "/v1/jobs", json={"app": "count.py", **spec}, headers=headers)


def test_a_damaged_row_is_shown_and_counted(api: Api, store: Store, tmp_path: Path) -> None:
    """The list, the job itself and /metrics report a damaged row."""
    submit(api)
    submit(api)
    with contextlib.closing(sqlite3.connect(tmp_path / "stoker.db")) as sql:
        sql.execute("UPDATE jobs SET record = replace(record, 'queued', 'qveued') WHERE number = 1")
        sql.execute("UPDATE jobs SET spec = replace(spec, 'count', 'cpunt') WHERE number = 2")
        sql.commit()
    listed = api("GET", "/v1/jobs").json()["jobs"]
    assert [job["id"] for job in listed] == ["job-2", "job-1"]
    assert "is damaged; `stoker doctor`" in listed[1]["reason"]
    detail = api("GET", "/v1/jobs/job-2").json()
    assert detail["spec"] is None
    assert "left out, as the job store is damaged: specs job-2: its checksum" in detail["reason"]
    assert api("GET", "/v1/jobs/job-1/explain").status_code == 200
    assert "stoker_store_damaged_rows 2.0" in api("GET", "/metrics").text


def run_job(store: Store) -> None:
    """Let job-1 run to its end on vm-1, as the model would."""
    record = store.jobs.get("job-1")
    assert record is not None
    done = replace(
        record, state="finished", reason="its driver exited with code 0", placed_at=105.0, started_at=110.0,
        finished_at=140.0, exit_code=0, cost=0.002, losses=1,
    )  # fmt: skip
    task = ExecutorRecord(
        "job-1.0", "job-1", 0, "S1", "vm-1", "m1.large", "10.0.0.1", 0.24,
        Resources.of(1.0, 1024), (31000,), 105.0,
        state="finished", running_at=110.0, ended_at=140.0, cost=0.002, message="half a \ud83d pair",
    )  # fmt: skip
    candidates = (
        CandidateVm("vm-1", "m1.large", {"cpus": 4.0, "mem": 16384}, (), 1.0, True),
        CandidateVm(
            "vm-2",
            "m1.xlarge",
            {"cpus": 0.0, "mem": 1},
            ("vm-2 has 0 cpus free, 1 needed",),
            float("-inf"),
            False,
        ),
    )
    choice = Choice(0, "vm-1", "the first that has room", candidates, 0)
    why = Explanation(105.0, "job-1", "ff", "place", "1 of 1 executors placed: vm-1", (), (choice,))
    store.changes.save(Changes((done,), (task,)), [why])


def test_a_submitted_job_is_there(api: Api, store: Store) -> None:
    """A 201 has the job's location, which answers with the queued job as submitted."""
    response = submit(api, name="count", executors=2, memory="1g")
    assert response.status_code == 201
    assert response.headers["location"] == "/v1/jobs/job-1"
    body = response.json()
    assert (body["id"], body["state"], body["memory_mib"], body["submitted_at"]) == (
        "job-1",
        "queued",
        1024,
        100.0,
    )
    detail = api("GET", "/v1/jobs/job-1").json()
    assert (body.pop("place"), detail["place"]) == (None, 0), "where it stands is not known at once"
    assert detail.items() > body.items()
    assert (detail["spec"]["app"], detail["tasks"]) == ("count.py", [])
    assert store.jobs.spec("job-1") == JobSpec(app="count.py", name="count", executors=2)


def test_a_job_that_waits_says_when_it_will_start(api: Api, scheduler: SmallScheduler) -> None:
    """In the list and by itself; one of which nothing is known says nothing, nor does one that is over."""
    api("POST", "/v1/jobs", content=json.dumps({"app": __file__}), headers=JSON)
    assert api("GET", "/v1/jobs/job-1").json()["estimate"] is None
    scheduler.expected = {"job-1": ESTIMATE}
    found = api("GET", "/v1/jobs/job-1").json()["estimate"]
    assert found["start"] == {"mean": 160.0, "low": 150.0, "high": 200.0}
    assert (found["at"], found["end"]["high"], found["cost"]["low"]) == (100.0, 300.0, 0.4)
    assert api("GET", "/v1/jobs").json()["jobs"][0]["estimate"] == found
    api("DELETE", "/v1/jobs/job-1")
    assert api("GET", "/v1/jobs/job-1").json()["estimate"] is None


def test_a_key_twice_is_one_job(api: Api) -> None:
    """The second time the answer is 200 with the same job; with another job it is 409."""
    assert submit(api, "k").status_code == 201
    again = submit(api, "k")
    assert (again.status_code, again.json()["id"], again.headers["location"]) == (
        200,
        "job-1",
        "/v1/jobs/job-1",
    )
    conflict = submit(api, "k", app="other.py")
    assert conflict.status_code == 409
    assert "job-1" in conflict.json()["detail"]
    for bad in ("x" * 201, "a b", ""):
        assert submit(api, bad).status_code == 422


def test_a_finished_job(api: Api, store: Store) -> None:
    """Duration is start to finish, completion submission to finish; the executors say where they ran."""
    submit(api)
    run_job(store)
    job = api("GET", "/v1/jobs/job-1").json()
    assert (job["duration"], job["completion"], job["cost"], job["losses"]) == (30.0, 40.0, 0.002, 1)
    assert (job["state"], job["exit_code"], job["reason"]) == ("finished", 0, "its driver exited with code 0")
    (executor,) = job["tasks"]
    assert executor == {
        "number": 0, "task_id": "job-1.0", "vm": "vm-1", "vm_type": "m1.large", "price_per_hour": 0.24,
        "state": "finished",
        "cpus": 1.0, "memory_mib": 1024, "resources": {},
        "launched_at": 105.0, "running_at": 110.0, "ended_at": 140.0,
        "profile": 0, "decommissioned_at": None,
        "cost": 0.002, "message": "half a \\ud83d pair",
    }  # fmt: skip


def test_an_explanation(api: Api, store: Store) -> None:
    """Each executor's choice is told with all that was looked at; an infinite score is null in JSON."""
    submit(api)
    run_job(store)
    body = api("GET", "/v1/jobs/job-1/explain").json()
    assert (body["id"], body["state"], body["reason"]) == (
        "job-1",
        "finished",
        "its driver exited with code 0",
    )
    (decision,) = body["explanations"]
    assert (decision["policy"], decision["decision"], decision["at"]) == ("ff", "place", 105.0)
    first, second = decision["choices"][0]["candidates"]
    assert (first["score"], first["chosen"], second["score"]) == (1.0, True, None)
    assert second["lacks"] == ["vm-2 has 0 cpus free, 1 needed"]


def test_why_a_queued_job_waits(api: Api, store: Store) -> None:
    """The head has its own reason; jobs behind it report the number before them and the head's shortage."""
    for _ in range(4):
        submit(api)
    api("DELETE", "/v1/jobs/job-1")
    head = store.jobs.get("job-2")
    assert head is not None
    store.changes.save(Changes((replace(head, reason="no VM has 4 cpus free"),), ()))
    behind = "before it, first come first served; job-2"
    expected = {
        "job-4": f"2 jobs are {behind}, the first of them, waits because: no VM has 4 cpus free",
        "job-3": f"1 job is {behind} waits because: no VM has 4 cpus free",
        "job-2": "no VM has 4 cpus free",
        "job-1": "killed on request",
    }
    listed = api("GET", "/v1/jobs").json()["jobs"]
    assert {job["id"]: job["reason"] for job in listed} == expected
    assert [job["id"] for job in listed] == list(expected)
    page = api("GET", "/v1/jobs?limit=1&before=job-4&state=queued").json()["jobs"]
    assert [job["reason"] for job in page] == [expected["job-3"]]
    for path in ("/v1/jobs/job-4", "/v1/jobs/job-4/explain"):
        assert api("GET", path).json()["reason"] == expected["job-4"]


def test_who_pauses_is_before_nobody(api: Api, store: Store, scheduler: SmallScheduler) -> None:
    """A job with launches that never ran reports so at any position, and later jobs wait for others."""
    for number in range(1, 5):
        submit(api)
        record = store.jobs.get(f"job-{number}")
        assert record is not None
        store.changes.save(Changes((replace(record, reason=f"reason {number}"),), ()))
    scheduler.pausing = {"job-1", "job-3"}
    behind = "1 job is before it, first come first served; job-2 waits because: reason 2"
    expected = {"job-4": behind, "job-3": "reason 3", "job-2": "reason 2", "job-1": "reason 1"}
    listed = {job["id"]: job["reason"] for job in api("GET", "/v1/jobs").json()["jobs"]}
    assert listed == expected
    assert {i: api("GET", f"/v1/jobs/{i}/explain").json()["reason"] for i in expected} == expected


def test_nobody_is_before_the_head(
    api: Api, store: Store, scheduler: SmallScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though jobs before it, which have places by now, are not stored so yet."""
    for number in range(1, 5):
        submit(api)
        record = store.jobs.get(f"job-{number}")
        assert record is not None
        store.changes.save(Changes((replace(record, reason=f"reason {number}"),), ()))
    monkeypatch.setattr(scheduler, "standing", lambda: QueuePositions("job-3"))
    listed = {job["id"]: job["reason"] for job in api("GET", "/v1/jobs").json()["jobs"]}
    assert listed["job-3"] == "reason 3"
    assert listed["job-4"] == "1 job is before it, first come first served; job-3 waits because: reason 3"
    assert listed["job-1"] == "reason 1"


def test_owners_and_queues(api: Api) -> None:
    """Jobs are found by either, by several of them, and by states besides; each says which it has."""
    submit(api, owner="alice", queue="night")
    submit(api)
    submit(api, owner="bob", queue="night")
    api("DELETE", "/v1/jobs/job-3")

    def found(query: str) -> list[tuple[str, str, str]]:
        jobs = api("GET", f"/v1/jobs?{query}").json()["jobs"]
        return [(job["id"], job["owner"], job["queue"]) for job in jobs]

    first, second, third = ("job-1", "alice", "night"), ("job-2", "", "default"), ("job-3", "bob", "night")
    assert found("") == [third, second, first]
    assert found("owner=alice") == [first]
    assert found("owner=alice&owner=") == [second, first]
    assert found("queue=night") == [third, first]
    assert found("queue=night&state=queued") == [first]
    assert found("queue=night&owner=bob&owner=nobody&limit=1") == [third]
    assert api("GET", "/v1/jobs/job-1").json()["spec"]["owner"] == "alice"
    for wrong in ("owner=%1b", "queue=", f"queue={'x' * 201}", "&".join(["owner=a"] * 21)):
        assert api("GET", f"/v1/jobs?{wrong}").status_code == 422


def test_jobs_are_found_by_type(api: Api) -> None:
    """Jobs are filtered by one or several types, with states and owners; an invalid name is refused."""
    for kind, owner in (("sort", "ann"), ("count", "ann"), ("sort", "bob")):
        submit(api, type=kind, owner=owner)

    def found(query: str) -> list[str]:
        return [job["id"] for job in api("GET", f"/v1/jobs?{query}").json()["jobs"]]

    assert found("type=sort") == ["job-3", "job-1"]
    assert found("type=sort&type=count&owner=ann") == ["job-2", "job-1"]
    assert found("type=nosuch") == []
    for wrong in ("type=", "type=%1b", "&".join(["type=a"] * 21)):
        assert api("GET", f"/v1/jobs?{wrong}").status_code == 422


def test_a_list_of_few_knows_of_those_that_are_not_in_it(api: Api) -> None:
    """A filter does not change the jobs that a reason counts as before a job."""
    for owner in ("alice", "bob", "bob", "alice"):
        submit(api, owner=owner)
    listed = api("GET", "/v1/jobs?owner=alice").json()["jobs"]
    assert [job["reason"].partition(",")[0] for job in listed] == [
        "3 jobs are before it",
        "waits for its turn",
    ]


def test_pages(api: Api) -> None:
    """`next` leads through all jobs and is null at the end."""
    for _ in range(5):
        submit(api)
    seen: list[str] = []
    path = "/v1/jobs?limit=2"
    while path:
        page = api("GET", path).json()
        seen += [job["id"] for job in page["jobs"]]
        path = f"/v1/jobs?limit=2&before={page['next']}" if page["next"] else ""
    assert seen == ["job-5", "job-4", "job-3", "job-2", "job-1"]
    states = api("GET", "/v1/jobs?state=running&state=failed").json()
    assert states == {"jobs": [], "next": None}


def test_a_list_of_jobs_that_come_after_many_is_cut(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a list would take as much memory as the daemon has; `next` leads to the other jobs."""
    monkeypatch.setattr(jobs, "_PART", 2)
    monkeypatch.setattr(jobs, "_MOST_AFTER", 3)
    for _ in range(2):
        submit(api)
    for _ in range(4):
        submit(api, after=[{"job": "job-1", "when": "any"}, {"job": "job-2", "when": "any"}])
    page = api("GET", "/v1/jobs?limit=1000").json()
    assert ([job["id"] for job in page["jobs"]], page["next"]) == (["job-6", "job-5"], "job-5")
    page = api("GET", f"/v1/jobs?limit=1000&before={page['next']}").json()
    assert ([job["id"] for job in page["jobs"]], page["next"]) == (["job-4", "job-3"], "job-3")
    page = api("GET", f"/v1/jobs?limit=1000&before={page['next']}").json()
    assert ([job["id"] for job in page["jobs"]], page["next"]) == (["job-2", "job-1"], None)


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/v1/jobs/job-1"), ("POST", "/v1/jobs/job-1/kill")])
def test_kill(api: Api, method: str, path: str) -> None:
    """A job is ended on request; asked again, it stays as it is."""
    submit(api)
    for _ in range(2):
        response = api(method, path)
        assert (response.status_code, response.json()["state"]) == (202, "killed")


def test_logs(api: Api, store: Store) -> None:
    """Logs are read part by part, by byte offsets; an executor that never was is not found."""
    submit(api)
    first = api("GET", "/v1/jobs/job-1/logs?limit=7").json()
    rest = {"complete": False, "source": "", "note": ""}
    assert first == {"text": "début\n", "next_offset": 7, **rest}
    run_job(store)
    rest = api("GET", "/v1/jobs/job-1/logs?executor=0&offset=7&stream=stdout").json()
    assert rest == {"text": "fin\n", "next_offset": len(LOG), "complete": True, "source": "", "note": ""}
    assert api("GET", "/v1/jobs/job-1/logs?stream=stderr").json()["text"] == ""
    missing = api("GET", "/v1/jobs/job-1/logs?executor=7")
    assert (missing.status_code, missing.json()["detail"]) == (404, "job-1 has no executor 7")


def test_secrets_are_masked(api: Api) -> None:
    """Variables and settings with secret-sounding names are masked, others shown."""
    submit(
        api, env={"AWS_SECRET_ACCESS_KEY": "s3cr3t", "HOME": "/"}, conf={"my.password": "s3cr3t", "a": "b"}
    )
    response = api("GET", "/v1/jobs/job-1")
    assert "s3cr3t" not in response.text
    spec = response.json()["spec"]
    assert (spec["env"]["HOME"], spec["conf"]["a"], spec["env"]["AWS_SECRET_ACCESS_KEY"]) == (
        "/",
        "b",
        "***",
    )


def test_secrets_within_values_are_masked(api: Api, store: Store) -> None:
    """Secrets in URLs, arguments and Java options are masked in answers; the stored values are unchanged."""
    given: dict[str, Any] = {
        "app": "https://me:s3cr3t@example.org/count.py",
        "files": ["s3a://s3cr3t@bucket/x?X-Amz-Signature=s3cr3t&a=b", "/plain"],
        "args": ["--password", "s3cr3t", "--api-token=s3cr3t", "db.password=s3cr3t", "--rows", "5"],
        "conf": {"spark.driver.extraJavaOptions": "-Dstore.password=s3cr3t -Dx=y"},
        "env": {"URL": "jdbc:postgresql://h/d?user=u&password=s3cr3t", "JSON": '{"token": "s3cr3t"}'},
    }
    submit(api, **given)
    response = api("GET", "/v1/jobs/job-1")
    assert "s3cr3t" not in response.text
    spec = response.json()["spec"]
    assert spec["app"] == "https://***@example.org/count.py"
    assert spec["files"] == ["s3a://***@bucket/x?X-Amz-Signature=***&a=b", "/plain"]
    assert spec["args"] == ["--password", "***", "--api-token=***", "db.password=***", "--rows", "5"]
    assert spec["conf"] == {"spark.driver.extraJavaOptions": "-Dstore.password=*** -Dx=y"}
    assert spec["env"] == {"URL": "jdbc:postgresql://h/d?user=u&password=***", "JSON": '{"token": ***}'}
    assert store.jobs.spec("job-1") == JobSpec(**given)


def test_reasons_show_no_password(api: Api, store: Store) -> None:
    """A reason that quotes a URL is shown without its credentials."""
    submit(api)
    record = store.jobs.get("job-1")
    assert record is not None
    why = "failed to fetch http://me:s3cr3t@example.org/x"
    store.changes.save(Changes((replace(record, state="failed", reason=why, finished_at=1.0),), ()))
    assert api("GET", "/v1/jobs/job-1").json()["reason"] == "failed to fetch http://***@example.org/x"


@pytest.mark.parametrize("key", ["name", "type", "app", "owner", "queue"])
@pytest.mark.parametrize(
    "bad", ["\x00", "\n", "\x1b[2J", "\x9b2J", "\u202e", "\u2066", "\u200b", "\ufeff", "\U000e0041"]
)
def test_names_show_what_they_are(api: Api, key: str, bad: str) -> None:
    """No control, bidirectional override or invisible character, whether C0 or C1."""
    response = submit(api, **{"app": "a.py", key: f"a{bad}b.py"})
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == key


def test_half_a_character_is_refused(api: Api) -> None:
    """JSON can spell half a surrogate pair."""
    text = '{"app": "a.py", "name": "a\\ud83d"}'
    assert api("POST", "/v1/jobs", content=text, headers=JSON).status_code == 422
    assert submit(api, name="\u2764\ufe0f \u05e9\u05dc\u05d5\u05dd 名").status_code == 201


@pytest.mark.parametrize("offset", [2**43 + 1, 2**53 - 1, 2**53, 2**63, 10**30, -1])
def test_no_log_is_that_long(api: Api, offset: int) -> None:
    """An offset that no file can have is the client's mistake."""
    submit(api)
    assert api("GET", f"/v1/jobs/job-1/logs?offset={offset}").status_code == 422
    assert api("GET", f"/v1/jobs/job-1/logs?offset={2**43}").status_code == 200


def test_the_cluster(api: Api) -> None:
    """All VMs are shown with prices and used resources, and the pools with the provider's error."""
    answer = api("GET", "/v1/cluster").json()
    assert [(vm["name"], vm["state"], vm["used_cpus"], vm["executors"]) for vm in answer["vms"]] == [
        ("vm-1", "up", 1.5, ["job-1.0"]),
        ("vm-2", "up", 0.0, []),
        ("p-1", "booting", 0.0, []),
    ]
    (pool,) = answer["pools"]
    assert (pool["name"], pool["open"], pool["max"], pool["note"]) == ("p", 1, 3, "refused until 12:00:00")
    assert answer["provider"] == "list came to nothing"


def test_policies(api: Api) -> None:
    """Policies are listed and switched; one that cannot be is refused with the reason."""
    names = [policy["name"] for policy in api("GET", "/v1/policies").json()["policies"]]
    assert {"rr", "rrc", "ff"} <= set(names)
    assert api("GET", "/v1/policy").json()["last_fault"] == "it raised ValueError"
    assert api("PUT", "/v1/policy", json={"name": "rr"}).json()["name"] == "rr"
    spelt = api("PUT", "/v1/policy", json="random:seed=7").json()
    assert (spelt["name"], spelt["options"]) == ("random", {"seed": 7})
    unread = api("PUT", "/v1/policy", json="random:seed=7:x")
    assert (unread.status_code, "should be NAME:KEY=VALUE" in unread.json()["detail"]) == (422, True)
    assert api("PUT", "/v1/policy", json={"name": "rr"}).json()["name"] == "rr"
    refused = api("PUT", "/v1/policy", json={"name": "best"})
    assert (refused.status_code, refused.json()["title"]) == (422, "Not a policy")
    assert "unknown option" in api("PUT", "/v1/policy", json={"name": "rr", "cursor": 1}).json()["detail"]
    assert api("GET", "/v1/policy").json()["name"] == "rr"


def test_the_shadow(api: Api, store: Store) -> None:
    """The shadow is set and dropped independently; its differing decisions are listed, newest first."""
    assert api("GET", "/v1/policy").json()["shadow"] is None
    body = api("PUT", "/v1/policy/shadow", json={"name": "random", "seed": 7}).json()
    assert (body["name"], body["shadow"]["name"], body["shadow"]["options"]) == ("ff", "random", {"seed": 7})
    assert api("PUT", "/v1/policy/shadow", json={"name": "best"}).status_code == 422
    assert 'stoker_shadow_decisions_total{outcome="different"} 2.0' in api("GET", "/metrics").text
    assert api("GET", "/v1/policy").json()["shadow"]["different"] == 2
    assert api("DELETE", "/v1/policy/shadow").json()["shadow"] is None
    assert api("GET", "/v1/policy/comparison").json() == {"totals": [], "differences": []}
    submit(api)
    run_job(store)
    sides = Outcome("ff", {"vm-1": 1}, "", 0.24), Outcome("random", {"vm-2": 1}, "", 0.48)
    store.comparisons.add([Comparison(float(at), "job-1", *sides) for at in range(3)])
    body = api("GET", "/v1/policy/comparison", params={"limit": 2}).json()
    (totals,) = body["totals"]
    assert (totals["compared"], totals["different"], totals["priced"]) == (3, 3, 3)
    assert totals["shadow_cost"] == pytest.approx(2 * totals["acting_cost"])
    assert [each["at"] for each in body["differences"]] == [2.0, 1.0]
    assert body["differences"][0]["shadow"]["cost"] == pytest.approx(0.48 * 30 / 3600)
    assert (totals["acting_fallback_share"], totals["shadow_fallback_share"]) == (0.2, None)


def test_a_comparison_has_the_shares_of_decisions_that_policies_failed_to_take() -> None:
    """Shares of the acting policy, or of its fallback, and of the shadow."""
    pairs = [("mine:f", "rr:a=1"), ("ff", "rr:a=1"), ("mine:f", "rr"), ("aep", "rr:a=1")]
    found = ComparisonReport([ComparisonTotals(acting, shadow) for acting, shadow in pairs])
    status = PolicyStatus(
        "mine:f", {}, 6, 2, 6, "", fallback="ff", shadow=ShadowStatus("rr", {"a": 1}, 3, 1, 0, 1, "", 4)
    )
    shares = [
        (totals.acting_fallback_share, totals.shadow_fallback_share)
        for totals in comparison_body(found, status).totals
    ]
    assert shares == [(0.75, 0.25), (0.75, 0.25), (0.75, None), (None, 0.25)]
    fresh = replace(status, placed=0, waited=0, faults=0, shadow=ShadowStatus("rr", {"a": 1}, 0, 0, 0, 0, ""))
    first = comparison_body(found, fresh).totals[0]
    assert (first.acting_fallback_share, first.shadow_fallback_share) == (0.0, 0.0)


def test_options_that_json_lacks(store: Store) -> None:
    """Options from YAML may be dates or infinite; they are shown as texts."""

    class Dated(SmallScheduler):
        def policy(self) -> PolicyStatus:
            return PolicyStatus("mine:make", {"since": Path("x"), "most": float("inf")}, 0, 0, 0, "")

    api = Api(create_app(Dated(store), store, AppOptions(token=None, version="1")))
    assert api("GET", "/v1/policy").json()["options"] == {"since": "x", "most": "Infinity"}


def test_health(api: Api, scheduler: SmallScheduler) -> None:
    """/healthz says that the server lives, /readyz whether jobs can run, and why not."""
    assert api("GET", "/healthz").json() == {"status": "ok", "version": "1.2.3"}
    assert api("GET", "/readyz").status_code == 200
    scheduler.ready = False
    response = api("GET", "/readyz")
    assert response.status_code == 503
    assert response.json() == {"ready": False, "checks": {"mesos": "no answer", "store": "ok"}}


def test_metrics(api: Api, store: Store) -> None:
    """Prometheus reads jobs, cluster, decisions, cost and requests; routes, not paths, are labels."""
    submit(api)
    submit(api)
    run_job(store)
    api("GET", "/v1/jobs/job-1")
    api("GET", "/v1/jobs/job-9")
    api("GET", "/nowhere")
    text = api("GET", "/metrics").text
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert values["stoker_jobs", "queued"] == values["stoker_jobs", "finished"] == 1
    assert (values["stoker_jobs", "running"], values["stoker_executors_open",]) == (0, 0)
    assert values["stoker_cost_dollars_total",] == 0.002
    assert (values["stoker_vms",], values["stoker_cpus",], values["stoker_cpus_used",]) == (2, 12, 1.5)
    assert (values["stoker_leases", "p", "booting"], values["stoker_leases", "p", "up"]) == (1, 0)
    assert values["stoker_provider_calls_total", "open", "capacity"] == 2
    assert values["stoker_provider_trouble",] == 1
    assert (values["stoker_decisions_total", "place"], values["stoker_decision_faults_total",]) == (3, 1)
    assert values["stoker_decisions_cut_short_total",] == 4
    assert values["stoker_decisions_guarded_total",] == 5
    came = [values["stoker_estimates_total", each, "start"] for each in ("within", "before", "after")]
    assert came == [9, 1, 2]
    assert values["stoker_http_requests_total", "GET", "/v1/jobs/{job_id}", "200"] == 1
    assert values["stoker_http_requests_total", "GET", "/v1/jobs/{job_id}", "404"] == 1
    assert values["stoker_http_requests_total", "GET", "none", "404"] == 1
    assert values["stoker_http_request_seconds_count", "POST", "/v1/jobs"] == 2


def test_the_bill(api: Api, scheduler: SmallScheduler, store: Store) -> None:
    """The bill is grouped and filtered by days as requested, with the budget.

    Prometheus has it by kind and pool.
    """
    of = ("2026-11-22", "general-1.7", "general", "m1.large")
    used = Charge(*of, "job-1", "ann", "night", "ff", "used", 0.75)
    idle = Charge(*of, "", "", "", "ff", "idle", 0.25)
    store.changes.save(
        Changes((), (), charges=(used, idle, idle._replace(kind="difference", dollars=-0.125)))
    )
    scheduler.spent = BudgetStatus(
        "2026-11-22", 0.5, 1.0, hold=True, limits=(SpendingLimit("general", "month", 9.0, 3.0, True, 1.0),)
    )
    found = api("GET", "/v1/bill?by=owner&since=2026-11-22&limit=1").json()
    assert (found["since"], found["until"], found["total"]["total"]) == ("2026-11-22", "2026-11-22", 1.0)
    nothing = {"booting": 0.0, "draining": 0.0, "rounding": 0.0, "lost": 0.0, "memory": 0.0}
    assert found["lines"] == [
        {"key": "ann", "total": 0.75, "used": 0.75, "idle": 0.0, **nothing, "difference": None}
    ]
    assert found["rest"] == {
        "key": "", "total": 0.25, "used": 0.0, "idle": 0.25, **nothing, "difference": -0.125,
    }  # fmt: skip
    assert found["budget"] == {
        "day": "2026-11-22",
        "per_day": 0.5,
        "spent": 1.0,
        "hold": True,
        "limits": [
            {"pool": "general", "per": "month", "dollars": 9.0, "spent": 3.0, "hold": True, "until": 1.0}
        ],
    }
    assert api("GET", "/v1/bill?until=2026-11-21").json()["since"] is None
    text = api("GET", "/metrics").text
    assert 'stoker_bill_dollars_total{kind="used",pool="general"} 0.75' in text
    assert 'stoker_bill_difference_dollars{pool="general"} -0.125' in text
    assert "stoker_budget_dollars 0.5" in text
    for wrong in ("by=nobody", "since=today", "until=2026-13-01", "limit=-1"):
        assert api("GET", f"/v1/bill?{wrong}").status_code == 422
    row, other = api("GET", "/v1/bill/focus?day=2026-11-22").json()["rows"]
    assert (row["BilledCost"], row["ResourceId"], other["BilledCost"]) == (0.25, None, 0.75)
    assert api("GET", "/v1/bill/focus?day=2026-11-21").json() == {"rows": [], "next": None}
    places = (
        "x",
        "[]",
        "{}",
        '["a"]',
        "[" * 5000,
        '["\\u0000"' + ',""' * 7 + "]",
        '["\\ud800"' + ',""' * 7 + "]",
    )
    cursors = [f"day=2026-11-22&after={quote(place)}" for place in places]
    for wrong in (
        "",
        "day=2026-13-01",
        "day=today",
        "day=2026-11-22&by=job",
        "day=2026-11-22&limit=1001",
        *cursors,
    ):
        refused = api("GET", f"/v1/bill/focus?{wrong}")
        assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")


def test_the_index_and_no_pages_from_elsewhere(api: Api) -> None:
    """`/` says where things are; FastAPI's pages, which load scripts from the internet, are off."""
    links = api("GET", "/").json()["links"]
    for path in links.values():
        assert api("GET", path).status_code == 200
    assert api("GET", "/redoc").status_code == 404


def test_no_read_ignores_a_mistyped_parameter(api: Api, app: FastAPI) -> None:
    """`?sate=running` would list everything; only pages for browsers and drivers' pages take any query."""
    reads = {each.path for each in app.routes if isinstance(each, APIRoute) and "GET" in (each.methods or ())}
    pages = {"/", "/docs", "/page/{name}", "/v1/jobs/{job_id}/ui", "/v1/jobs/{job_id}/ui/{path:path}"}
    assert pages < reads
    for path in sorted(each for each in reads - pages if "/submissions/" not in each):  # in Spark's own words
        response = api("GET", re.sub(r"\{\w+\}", "x", path) + "?sate=running")
        assert (response.status_code, path) == (422, path)
        assert "sate: unknown key; " in response.json()["detail"], path


@pytest.mark.parametrize(
    ("method", "path", "status", "says"),
    [
        ("GET", "/v1/jobs/job-7", 404, "there is no job job-7"),
        ("GET", "/v1/jobs/%00", 404, "there is no job \x00"),
        ("GET", "/v1/jobs/job-7/explain", 404, "there is no job job-7"),
        ("GET", "/v1/jobs/job-7/logs", 404, "there is no job job-7"),
        ("DELETE", "/v1/jobs/job-7", 404, "there is no job job-7"),
        ("GET", "/v2", 404, "there is nothing at /v2; /openapi.json lists all paths"),
        ("GET", "/v1/jobs/", 404, "there is nothing at /v1/jobs/; /openapi.json lists all paths"),
        ("PUT", "/v1/jobs", 405, "/v1/jobs does not accept PUT, but GET, POST"),
        ("BREW", "/healthz", 405, "/healthz does not accept BREW, but GET"),
        ("GET", "/v1/jobs?limit=0", 422, "limit: should be greater than or equal to 1, found '0'"),
        ("GET", "/v1/jobs?limit=x", 422, "limit: should be a whole number, found 'x'"),
        ("GET", "/v1/jobs?stat=queued", 422, "stat: unknown key; did you mean state?"),
        ("GET", "/v1/jobs?before=x", 422, "before: should match pattern '^job-[1-9][0-9]{0,17}$', found 'x'"),
    ],
)
def test_requests_that_lead_nowhere(api: Api, method: str, path: str, status: int, says: str) -> None:
    """A request for a missing or unsuitable resource is answered with the reason."""
    response = api(method, path)
    assert (response.status_code, response.json()["detail"]) == (status, says)
    if status == 405:
        assert response.headers["allow"] == says.partition("but ")[2]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 422, "missing: the request needs a JSON object as its body"),
        (b"{", 400, "the body is not valid JSON: Expecting property name"),
        (b'{"app": "\xff"}', 400, "the body is not valid JSON: 'utf-8' codec can't decode"),
        (b'{"app": "a.py", "cpus": NaN}', 400, "the body is not valid JSON: NaN: not a valid JSON number"),
        (b'{"app": "a.py", "cpus": Infinity}', 400, "Infinity: not a valid JSON number"),
        (b'{"app": "a.py", "cpus": 1e999}', 422, "cpus: should be a finite number, found inf"),
        (b'{"app": "a.py", "cpus": 1' + b"0" * 4000 + b"}", 422, "cpus: should be a"),
        (b'{"app": "a.py", "cpus": 1' + b"0" * 5000 + b"}", 400, "valid JSON: Exceeds the limit"),
        (b'{"app": "a.py", "memory": 1' + b"0" * 4000 + b"}", 422, "memory: should be an amount of memory"),
        (b"[" * 20_000, 400, "the body is not valid JSON: nested too deeply"),
        (b'{"app": ' + b"[" * 40 + b"]" * 40 + b"}", 400, "nested deeper than 32 levels"),
        (json.dumps({"app": {f"k{i}": 0 for i in range(10_001)}}).encode(), 400, "has more than 10000 keys"),
        (json.dumps({"after": [{"a": 0, "b": 0}] * 5001}).encode(), 400, "has more than 10000 keys"),
        (b"[1]", 422, "should be keys and values, found [1]"),
        (b"null", 422, "should be keys and values, found nothing"),
        (b'{"app": "a\\u0000.py"}', 422, "app: should be a text without NUL characters"),
        (b'{"app": "\\ud800.py"}', 422, "app: should be a text of Unicode characters"),
        (b'{"\\ud800": 1, "app": "a.py"}', 422, "should be a text of Unicode characters"),
        (b'{"app": "a.py", "env": {"\\ud800": "x"}}', 422, "should be a variable's name"),
        (b'{"app": "a.py", "env": {"1": "x"}}', 422, "env.1: should be a variable's name"),
        (b'{"app": "a.py", "executers": 1}', 422, "executers: unknown key; did you mean executors?"),
        (b'{"app": "a.py", "driver": {"cpu": 1}}', 422, "driver.cpu: unknown key; did you mean cpus?"),
        (b'{"app": "a.jar"}', 422, "a jar needs main_class"),
        (b'{"app": "a.py", "cpus": 65}', 422, "vm-2, the largest, has 8 cpus"),
        (b'{"app": "a.py", "executors": -1, "cpus": "1"}', 422, "cpus: should be a number, found '1'"),
    ],
    ids=lambda value: value[:30].decode("latin-1") if isinstance(value, bytes) else None,
)  # fmt: skip
def test_jobs_that_cannot_be(api: Api, body: bytes, status: int, says: str) -> None:
    """An invalid job is refused with the field and the right form; nothing is stored."""
    response = api("POST", "/v1/jobs", content=body, headers=JSON)
    problem = response.json()
    assert (response.status_code, says in problem["detail"]) == (status, True), problem
    assert api("GET", "/v1/jobs").json()["jobs"] == []


@pytest.mark.parametrize(
    ("key", "entry", "most"),
    [
        ("args", "a", 10_000), ("args", None, 10_000), ("py_files", "/a.py", 1000), ("files", "/a", 1000),
        ("jars", "/a.jar", 1000), ("archives", "/a.zip", 1000), ("archives", "", 1000),
        ("packages", "a:b:1", 1000), ("packages", "", 1000), ("repositories", "https://a", 1000),
        ("after", "a", 1000), ("conf", "spark.", 2000), ("env", "A", 2000), ("env", "1", 2000),
        ("resources", "a", 100), ("labels", "a", 32),
    ],
)  # fmt: skip
def test_lists_are_bounded(api: Api, key: str, entry: Any, most: int) -> None:
    """In their number and in all of their text; they are counted before each of them is looked at."""
    named = key in ("conf", "env", "resources", "labels")

    def asked(number: int, text: Any = entry) -> Any:
        value = 1 if key == "resources" else ""
        entries = {f"{text}{each}": value for each in range(number)} if named else [text] * number
        response = api("POST", "/v1/jobs/dry-run", json={"app": __file__, key: entries})
        return response.json().get("errors", [])

    (error,) = asked(most + 1)
    assert error["field"] == key
    assert error["message"].startswith(f"should have at most {most:,} entries, and has {most + 1:,}")
    long = {f"a{n}": "x" * 30_000 for n in range(40)} if named else ["x" * 30_000] * 40
    if key not in ("after", "resources", "labels"):
        with pytest.raises(
            ConfigError, match=r"at most 1048576 characters in all, and has 12\d{5}: put long values"
        ):
            build(JobSpec, {"app": "a.py", key: long}, "job")


@pytest.mark.parametrize("path", ["/healthz", "/v1/jobs", "/"])
def test_nobody_reads_the_cookies_of_others(app: FastAPI, path: str) -> None:
    """Which takes seconds for some; a session's own goes on to where it is looked at."""
    seen: list[str] = []

    async def spied(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)
        seen.extend(value.decode() for name, value in scope["headers"] if name == b"cookie")

    slow = 'x="' + '\\"' * 8000 + '"'
    for cookies in (slow, f"{slow}; stoker-session=abc-_9; y=2", f"stoker-session={slow[2:]}"):
        Api(cast(FastAPI, spied))("GET", path, headers={"cookie": cookies})
    assert seen == ["stoker-session=abc-_9"]


def test_an_answer_does_not_list_every_mistake(api: Api) -> None:
    """Of thousands; it says how many there are more."""
    errors = submit(api, **dict[str, Any]({f"key{n}": 1 for n in range(1100)})).json()
    assert len(errors["errors"]) == 100
    assert errors["detail"].endswith("; and 1000 more")


def test_every_wrong_field_is_named(api: Api) -> None:
    """`errors` lists each wrong value with its field."""
    response = submit(api, executors=0, conf={"a": []}, nam="x")
    assert response.json()["errors"] == [
        {"field": "executors", "message": "should be greater than or equal to 1, found 0"},
        {"field": "conf.a", "message": "should be a text, found []"},
        {"field": "nam", "message": "unknown key; did you mean name?"},
    ]


def test_bodies_too_large_or_of_another_kind(api: Api) -> None:
    """A megabyte is the limit, told in advance or found on the way; only JSON is read."""

    async def parts() -> Any:
        for _ in range(20):
            yield b" " * 100_000

    assert api("POST", "/v1/jobs", content=b" " * (1 << 21), headers=JSON).status_code == 413
    assert api("POST", "/v1/jobs", content=parts(), headers=JSON).status_code == 413
    assert (
        api("POST", "/v1/jobs", content=b"{}", headers={**JSON, "Content-Length": "9" * 5000}).status_code
        == 413
    )
    form = api("POST", "/v1/jobs", data={"app": "a.py"})
    assert form.status_code == 415
    assert "application/x-www-form-urlencoded" in form.json()["detail"]
    assert api("POST", "/v1/jobs", content=b"{}").status_code == 415


def test_only_who_has_the_token_may_ask(store: Store, scheduler: SmallScheduler) -> None:
    """With a token, all but the two health checks and the page's files want it; any host name will do."""
    app = create_app(scheduler, store, AppOptions(token="schlüssel", version="1"))
    anonymous = Api(app, host="stoker.example")
    assert anonymous("GET", "/healthz").status_code == anonymous("GET", "/readyz").status_code == 200
    for path in ("/v1/jobs", "/metrics", "/openapi.json", "/nowhere", "/v1/stream", "/v1/timeline"):
        response = anonymous("GET", path)
        assert response.status_code == 401
        assert response.headers["www-authenticate"].startswith("Bearer")
    right = "Bearer schlüssel".encode()
    for wrong in (b"Bearer ", b"Bearer x", b"Basic schl", b"\xff\xfe", right + b"x", b"Basic" + right[6:]):
        assert anonymous("GET", "/v1/jobs", headers={b"Authorization": wrong}).status_code == 401
    assert anonymous("GET", "/v1/jobs", headers={b"Authorization": right}).status_code == 200
    assert anonymous("GET", "/v1/jobs", headers={b"Authorization": b"bearer" + right[6:]}).status_code == 200


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:8642", "127.8.8.8", "[::1]:8642", "mine"]
)
def test_this_machines_names(store: Store, scheduler: SmallScheduler, host: str) -> None:
    """Without a token, loopback's names and those configured are answered."""
    app = create_app(scheduler, store, AppOptions(token=None, version="1", hosts=["Mine"]))
    assert Api(app, host=host)("GET", "/v1/jobs").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "10.0.0.1", ""])
def test_other_names_are_not_answered(app: FastAPI, host: str) -> None:
    """A name that was made to point here (DNS rebinding) reads nothing."""
    assert Api(app, host=host)("GET", "/v1/jobs").status_code == 421


@pytest.mark.parametrize("host", ["[", "a b", "evil@127.0.0.1", "127.0.0.1@x", "localhost, localhost", "a/b"])
def test_what_is_no_host_is_refused(app: FastAPI, host: str) -> None:
    """An invalid host name is refused, as another reader might find another name in it."""
    assert Api(app, host=host)("GET", "/v1/jobs").status_code == 400


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8642", 202),
        ("http://evil.example", 403),
        ("http://localhost:9999", 403),
        ("null", 403),
        ("http://[", 403),
    ],
)
def test_pages_of_other_sites_may_do_nothing(api: Api, origin: str, status: int) -> None:
    """A browser says where a page comes from: only our own may change anything."""
    submit(api)
    assert api("DELETE", "/v1/jobs/job-1", headers={"Origin": origin}).status_code == status


def test_more_requests_than_can_be_answered_at_once(store: Store, scheduler: SmallScheduler) -> None:
    """They are told to come again; whether the server is alive is answered all the same."""
    most = 3
    app = create_app(scheduler, store, AppOptions(token=None, version="1", max_requests=most))
    release = threading.Event()
    scheduler.cluster = lambda: (release.wait(300), ClusterStatus(()))[1]  # type: ignore[method-assign]  # slow for once

    async def flood() -> list[httpx.Response]:
        transport, answers = httpx.ASGITransport(app), list[httpx.Response]()
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def ask() -> None:
                answers.append(await client.get("/v1/cluster"))
                if len(answers) == 2:
                    answers.append(await client.get("/healthz"))
                    release.set()

            async with anyio.create_task_group() as group:
                for _ in range(most + 2):
                    group.start_soon(ask)
        return answers

    answers = anyio.run(flood)
    statuses = [answer.status_code for answer in answers]
    assert statuses == [429, 429, 200, 200, 200, 200]
    assert answers[0].headers["retry-after"] == "1"
    assert "max_requests" in answers[0].json()["detail"]


def test_a_body_that_does_not_come(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is too slow with its body is sent away, and holds nothing up."""
    monkeypatch.setattr("daemon.http.server.gate.SLOWEST_BODY", 0.01)

    async def slowly() -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep(60)

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post("/v1/jobs", content=slowly(), headers=JSON)

    response = anyio.run(send)
    assert (response.status_code, response.headers["connection"]) == (408, "close")


def test_a_failing_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the store cannot be read, the answer is 503 and says so."""

    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(StoredJobs, "get", full)
    monkeypatch.setattr(StoredJobs, "count_by_state", full)
    broken = Api(create_app(SmallScheduler(store), store, AppOptions(token=None, version="1")))
    for path in ("/v1/jobs/job-1", "/metrics"):
        response = broken("GET", path)
        assert (response.status_code, response.json()["detail"]) == (503, "the disk is full")


def test_a_mistake_of_ours(store: Store) -> None:
    """An exception that nobody expected is a 500 without its text, which the log has."""

    class Mistaken(SmallScheduler):
        def health(self) -> Health:
            raise ZeroDivisionError("top secret")

        def cluster(self) -> Any:
            raise ZeroDivisionError("top secret")

    api = Api(create_app(Mistaken(store), store, AppOptions(token=None, version="1")))
    with capture_logs() as logged:
        assert api("GET", "/readyz").status_code == 500
        response = api("GET", "/v1/cluster")
    assert response.status_code == 500
    assert "secret" not in response.text
    assert [(entry["path"], entry["exc_info"]) for entry in logged] == [
        ("/readyz", True),
        ("/v1/cluster", True),
    ]


def test_the_description_names_problems_and_the_token(store: Store, scheduler: SmallScheduler) -> None:
    """OpenAPI describes errors and submissions, and the token when one is needed."""
    app = create_app(scheduler, store, AppOptions(token="t", version="1"))
    found = Api(app, Authorization="Bearer t")("GET", "/openapi.json").json()
    assert found["security"] == [{"token": []}, {"session": []}]
    assert "HTTPValidationError" not in json.dumps(found)
    answers = found["paths"]["/v1/jobs"]["post"]["responses"]
    assert set(answers) == {"200", "201", "default"}
    assert list(answers["default"]["content"]) == ["application/problem+json"]


#: Methods that the description does not name are tried above.
DESCRIBED = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.response_headers_conformance,
]


def can_be_wrong(operation: dict[str, Any]) -> bool:
    """Whether it takes more than any text at all in its path."""
    said = {"type", "title", "description"}
    parameters = operation.get("parameters", ())
    return "requestBody" in operation or any(
        each["in"] != "path" or not said.issuperset(each["schema"]) for each in parameters
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_any_request_is_answered_as_described(app: FastAPI, api: Api) -> None:
    """Valid and invalid requests generated from the description get no 5xx and the described answers."""
    submit(api)
    headers = {"host": "localhost"}
    description = schemathesis.openapi.from_asgi("/openapi.json", app, headers=headers)
    for found in description.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        modes = schemathesis.GenerationMode
        strategies = [operation.as_strategy(modes.POSITIVE)]
        if can_be_wrong(operation.definition.raw):
            strategies.append(operation.as_strategy(modes.NEGATIVE))
        if "{job_id}" in operation.path:
            strategies.append(operation.as_strategy(modes.POSITIVE, path_parameters={"job_id": "job-1"}))
        for strategy in strategies:

            @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), database=None)
            @seed(1)
            @given(case=strategy)
            def ask(case: schemathesis.Case[Any]) -> None:
                # By itself it waits 10 s: on a busy machine a process that foresees takes longer to start.
                case.call_and_validate(headers=headers, timeout=4 * PATIENCE, checks=DESCRIBED)

            ask()
