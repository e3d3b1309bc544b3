"""Routes of queues: answers and refusals."""

import time
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from daemon.http import queue_metrics
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.store.job_store import Store
from environment.model.cluster_model import Changes
from environment.queues.types import Queues
from environment.resources import Resources
from tests.daemon.http.test_api import Api
from tests.daemon.queues.snapshots import seen
from tests.daemon.small_scheduler import SmallScheduler


@pytest.fixture
def scheduler(store: Store) -> SmallScheduler:
    """A scheduler on the store."""
    return SmallScheduler(store)


@pytest.fixture
def api(scheduler: SmallScheduler) -> Api:
    """A client of its API."""
    return Api(create_app(scheduler, scheduler.store, AppOptions(token=None, version="1")))


def listed(api: Api) -> dict[str, Any]:
    """All queues, by path."""
    return {queue["path"]: queue for queue in api("GET", "/v1/queues").json()["queues"]}


def test_queues_are_made_changed_and_removed(api: Api, scheduler: SmallScheduler) -> None:
    """Each answer is the queue as it is then; inherited settings may come from above it."""
    assert api("GET", "/v1/queues").json() == {"queues": [], "order": []}
    made = api("PUT", "/v1/queues/prod", json={"weight": 3, "priority": 10, "submit": ["ann"]})
    assert (made.status_code, made.json()["changed"], made.json()["leaf"]) == (201, True, True)
    assert api("PATCH", "/v1/queues/prod.etl", json={"most": {"cpus": 4, "memory": "2g"}}).status_code == 201
    changed = api("PATCH", "/v1/queues/prod.etl", json={"weight": 2, "most": {"memory": None}})
    assert changed.status_code == 200
    etl = changed.json()
    assert (etl["settings"]["most"]["cpus"], etl["settings"]["most"]["memory"]) == (4, None)
    assert (etl["priority"], etl["submit"], etl["spot"]) == (10, ["ann"], "allowed")
    assert (etl["due"], listed(api)["default"]["due"]) == (0.75, 0.25)
    assert [(path, queue["leaf"]) for path, queue in listed(api).items()] == [
        ("default", True), ("prod", False), ("prod.etl", True),
    ]  # fmt: skip
    assert api("PUT", "/v1/queues/prod.etl", json={}).json()["settings"]["weight"] == 1
    assert api("GET", "/v1/queues").json()["order"] == ["fifo"]
    assert api("DELETE", "/v1/queues/prod").status_code == 409
    assert api("DELETE", "/v1/queues/prod.etl").json()["path"] == "prod.etl"
    assert api("DELETE", "/v1/queues/prod.etl").status_code == 404
    assert api("GET", "/v1/queues/prod.etl").status_code == 404
    assert api("GET", "/v1/queues/default").json()["settings"]["weight"] == 1
    scheduler.seen = seen(
        scheduler.live_queues.queues(), ("prod", "ann", Resources.of(2.0, 1024)),
        ("gone", "", Resources.of(1.0)), waiting={"prod": 3}, longest={"prod": ("job-2", 7.0)}, spent=1.5,
    )  # fmt: skip
    prod, gone = listed(api)["prod"], listed(api)["gone"]
    use = ("share", "used", "cpus", "memory_mib", "running", "waiting", "dollars_today", "waits")
    assert [prod[name] for name in (*use, "waits_since")] == [0.25, 0.125, 2, 1024, 1, 3, 1.5, "job-2", 7]
    assert (prod["known"], gone["known"], gone["changed"]) == (True, False, False)


def test_prometheus_is_told_of_the_first_queues_and_the_rest_together(
    api: Api, scheduler: SmallScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that take jobs, so that sums are right; as many time series as are bearable."""
    assert "stoker_queue" not in api("GET", "/metrics").text
    for path in ("prod", "prod.a", "prod.b", "prod.c"):
        api("PUT", f"/v1/queues/{path}", json={})
    now, names = time.time(), ("prod.a", "prod.b", "prod.c")
    scheduler.seen = seen(
        scheduler.live_queues.queues(), *((name, "ann", Resources.of(2.0, 512)) for name in names),
        waiting=dict.fromkeys(names, 3), spent=1.5,
        longest={"prod.a": ("job-1", now - 50), "prod.b": ("job-2", now - 70)},
    )  # fmt: skip
    monkeypatch.setattr(queue_metrics, "MOST_LABELS", 2)
    families = text_string_to_metric_families(api("GET", "/metrics").text)
    found = {
        (sample.name.removeprefix("stoker_queue_"), *sample.labels.values()): sample.value
        for family in families for sample in family.samples if family.name.startswith("stoker_queue")
    }  # fmt: skip
    assert {labels[1] for labels in found} == {"default", "prod.a", "(others)"}
    assert (found["jobs", "prod.a", "waiting"], found["jobs", "(others)", "waiting"]) == (3, 6)
    assert (found["cpus_used", "(others)"], found["memory_used_mib", "prod.a"]) == (4, 512)
    assert (found["due_share", "default"], found["dollars_today", "(others)"]) == (0.5, 3)
    assert 50 <= found["longest_wait_seconds", "prod.a"] < 60
    assert 70 <= found["longest_wait_seconds", "(others)"] < 80
    assert found["longest_wait_seconds", "default"] == 0


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"weight": 0}, "weight", "should be greater than 0, found 0"),
        ({"wieght": 2}, "wieght", "unknown key; did you mean weight?"),
        ({"most": {"cpus": "many"}}, "most.cpus", "should be a number, found 'many'"),
        ({"queues": {"x": {}}}, "queues", "unknown key"),
        ({"guaranteed": {"gpus": 2}, "most": {"gpus": 1}}, "", "2 gpus are more than its most, 1"),
    ],
)
def test_what_is_wrong_is_said(api: Api, method: str, body: dict[str, Any], field: str, message: str) -> None:
    """By its key, alike for both."""
    refused = api(method, "/v1/queues/prod", json=body)
    assert refused.status_code == 422
    assert field in refused.json()["detail"]
    assert message in refused.json()["detail"]
    assert not listed(api)


@pytest.mark.parametrize(
    ("reason", "own"),
    [
        ("waits for its turn", ""),
        ("its deadline cannot be met: due at 20:08", "its deadline cannot be met: due at 20:08; "),
        ("waits for its turn; was stopped for job-9", "was stopped for job-9; "),
    ],
)
def test_who_is_behind_others_says_what_else_it_waits_for(
    api: Api, scheduler: SmallScheduler, reason: str, own: str
) -> None:
    """A job reports its own reason, if it has one, and then the jobs before it, each once."""
    for _ in range(2):
        assert api("POST", "/v1/jobs", json={"app": "count.py"}).status_code == 201
    record = scheduler.store.jobs.get("job-2")
    assert record is not None
    scheduler.store.changes.save(Changes((replace(record, reason=reason),), ()))
    scheduler.seen = seen(Queues(), first=["job-1", "job-2"])
    told = f"{own}1 job is before it (order: priority, fair)"
    assert api("GET", "/v1/jobs/job-2").json()["reason"] == told
