"""Access rules: every route of the app, requested by every kind of person, for own and others' jobs."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import anyio
import pytest
from starlette.routing import Route

from daemon.auth.route_roles import TABLE
from daemon.store.job_store import Store
from tests.daemon.auth.user_api import ROLES, House, Outcome, house_of

SHA = "a" * 64
JOB = {"app": "count.py"}
SUBMISSION = {
    "action": "CreateSubmissionRequest",
    "clientSparkVersion": "4.3.0",
    "appResource": "file:/apps/app.py",
    "sparkProperties": {},
}
APPLICATION = {
    "application_id": "app-1", "spark": "4.3.0", "user": "somebody", "secret": "s" * 32,
    "driver": {"host": "10.0.0.7", "port": 7078}, "properties": {},
}  # fmt: skip
#: What each route asks for, and what to send it. `own`: about a job, which is its owner's; `change`: and does
#: something to it; `everybody`: about all jobs; `key`: has keys of its own, and no person is asked for; `id`:
#: by what nobody can guess, or by a person of that role; `open`: for whoever comes.
ROUTES: Mapping[tuple[str, str], tuple[str, Any]] = {
    ("GET", "/"): ("key", None),
    ("GET", "/docs"): ("key", None),
    ("GET", "/page/{name}"): ("key", None),
    ("POST", "/v1/session"): ("key", {"token": "t0ken"}),
    ("DELETE", "/v1/session"): ("key", None),
    ("GET", "/v1/stream"): ("read", None),
    ("GET", "/v1/timeline"): ("everybody", None),
    ("GET", "/v1/events"): ("read", None),
    ("GET", "/openapi.json"): ("read", None),
    ("HEAD", "/openapi.json"): ("read", None),
    ("GET", "/healthz"): ("open", None),
    ("GET", "/readyz"): ("open", None),
    ("GET", "/metrics"): ("read", None),
    ("GET", "/v1/jobs"): ("read", None),
    ("POST", "/v1/jobs"): ("submit", JOB),
    ("POST", "/v1/jobs/dry-run"): ("submit", JOB),
    ("GET", "/v1/jobs/{job_id}"): ("own", None),
    ("DELETE", "/v1/jobs/{job_id}"): ("change", None),
    ("POST", "/v1/jobs/{job_id}/kill"): ("change", None),
    ("POST", "/v1/jobs/{job_id}/decommission"): ("change", {"executors": [0]}),
    ("GET", "/v1/jobs/{job_id}/explain"): ("own", None),
    ("GET", "/v1/jobs/{job_id}/logs"): ("own", None),
    ("GET", "/v1/jobs/{job_id}/ui"): ("own", None),
    ("GET", "/v1/jobs/{job_id}/ui/{path:path}"): ("own", None),
    ("GET", "/v1/files/{sha256}"): ("submit", None),
    ("PUT", "/v1/files/{sha256}"): ("submit", b"x"),
    ("GET", "/v1/fetch/{job_id}/{key}/{name}"): ("open", None),
    ("POST", "/v1/applications"): ("submit", APPLICATION),
    ("PUT", "/v1/applications/{job_id}"): ("key", APPLICATION),
    ("DELETE", "/v1/applications/{job_id}"): ("key", {}),
    ("PUT", "/v1/applications/{job_id}/executors"): ("key", {"profiles": []}),
    ("POST", "/v1/applications/{job_id}/release"): ("key", {"numbers": [0]}),
    ("POST", "/v1/applications/{job_id}/heartbeat"): ("key", {}),
    ("GET", "/v1/spark"): ("read", None),
    ("GET", "/v1/spark/{name}/stoker-backend.jar"): ("key", None),
    ("POST", "/v1/vms/{lease:path}/notice"): ("key", {"action": "stop", "time": "2026-11-22T00:00:00Z"}),
    ("GET", "/v1/cluster"): ("read", None),
    ("GET", "/v1/audit"): ("read", None),
    ("GET", "/v1/bill"): ("everybody", None),
    ("GET", "/v1/bill/focus"): ("everybody", None),
    ("GET", "/v1/bill/today"): ("everybody", None),
    ("GET", "/v1/policies"): ("read", None),
    ("GET", "/v1/policy"): ("read", None),
    ("PUT", "/v1/policy"): ("operate", {"name": "rr"}),
    ("PUT", "/v1/policy/shadow"): ("operate", {"name": "rr"}),
    ("DELETE", "/v1/policy/shadow"): ("operate", None),
    ("GET", "/v1/policy/comparison"): ("everybody", None),
    ("POST", "/v1/policy/promotion"): ("operate", {"policy": "rr", "since": 0.0}),
    ("POST", "/v1/submissions/create"): ("submit", SUBMISSION),
    ("GET", "/v1/submissions/status/{submission_id}"): ("id read", None),
    ("POST", "/v1/submissions/kill/{submission_id}"): ("id submit", None),
    ("POST", "/v1/submissions/killall"): ("operate", None),
    ("POST", "/v1/submissions/clear"): ("operate", None),
    **{(method, "/v{number:version}/submissions/{rest:path}"): ("read", None)
       for method in ("GET", "POST", "PUT", "PATCH", "DELETE")},
    ("GET", "/v1/groups/{group}"): ("read", None),
    ("POST", "/v1/groups/{group}/kill"): ("submit", None),
    ("POST", "/v1/what-if"): ("submit", {"draws": 1}),
    ("GET", "/v1/queues"): ("read", None),
    ("GET", "/v1/queues/{path}"): ("read", None),
    ("PUT", "/v1/queues/{path}"): ("admin", {}),
    ("PATCH", "/v1/queues/{path}"): ("admin", {}),
    ("DELETE", "/v1/queues/{path}"): ("admin", None),
    ("GET", "/v1/webhooks"): ("admin", None),
    ("POST", "/v1/webhooks/{name}/test"): ("admin", None),
    ("GET", "/v1/me"): ("read", None),
    ("GET", "/v1/users"): ("admin", None),
    ("PUT", "/v1/users/{name}"): ("admin", {}),
    ("DELETE", "/v1/users/{name}"): ("admin", None),
    ("POST", "/v1/users/{name}/tokens"): ("admin", {}),
    ("DELETE", "/v1/tokens/{token}"): ("read", None),
}  # fmt: skip
PATHS = {
    "bill/focus": "bill/focus?day=2026-11-22",
    "{sha256}": SHA, "{key}": "k", "{name}": "zed", "{path:path}": "jobs/", "{lease:path}": "p-1.7",
    "{submission_id}": f"driver-20261122000000-{'0' * 39}", "{number:version}": "2",
    "{rest:path}": "status/x", "{path}": "lab", "{group}": "array-1", "{token}": "0" * 16,
}  # fmt: skip
RANKS = ("read", "submit", "operate", "admin")
#: Of whom nobody is let in.
STRANGERS = ("nobody", "bad", "expired", "forged")
KNOWN = {**ROLES, "proxied": "submit", "config": "admin"}


@pytest.fixture(params=["own", "all"])
def see(request: pytest.FixtureRequest) -> str:
    """The setting for the jobs that users see."""
    return str(request.param)


@pytest.fixture
def house(store: Store, see: str) -> Iterator[House]:
    """With a user of each role; job-1 is ann's."""
    with house_of(store, see) as house:
        house.app.state.stream.close()  # its answer would never end
        assert anyio.run(house.outcome, "ann", "POST", "/v1/jobs", JOB) == "served"
        yield house


def expected(kind: str, who: str, see: str) -> Outcome:
    """The outcome of a request of that kind for ann's job."""
    if kind == "open":
        return "served"
    if kind.startswith("id ") and who in ("nobody", "forged"):
        return "served"
    if who in STRANGERS:
        return "unknown"
    rank, operator = RANKS.index(KNOWN[who]), KNOWN[who] in ("operate", "admin")
    if kind == "everybody":
        return "served" if see == "all" or operator else "forbidden"
    if kind in ("own", "change"):
        if rank < RANKS.index("submit" if kind == "change" else "read"):
            return "forbidden"
        if operator or who in ("ann", "proxied"):
            return "served"
        if see == "own":
            return "hidden"
        return "forbidden" if kind == "change" else "served"
    return "served" if rank >= RANKS.index(kind.removeprefix("id ")) else "forbidden"


def test_every_route_has_a_rule(house: House) -> None:
    """Those of the app, those that it does not describe too, are those of the table and of this test."""
    there = {(method, route.path) for route in house.app.routes if isinstance(route, Route)
             for method in route.methods or ()}  # fmt: skip
    assert there == ROUTES.keys()
    assert {(method, path) for method, path in there if method != "HEAD"} == TABLE.keys()
    described = {(m.upper(), p) for p, found in house.app.openapi()["paths"].items() for m in found}
    assert {path.replace(":path", "") for _, path in there} >= {path for _, path in described}


def test_the_matrix(house: House, see: str) -> None:
    """Every route answers every kind of person as expected; routes with keys of their own answer alike."""
    wrong: list[str] = []

    async def ask() -> None:
        for (method, template), (kind, body) in ROUTES.items():
            path = template.replace("{job_id}", "job-1").replace("{name}/stoker", "4.3/stoker")
            for name, value in PATHS.items():
                path = path.replace(name, value)
            found = {who: await house.outcome(who, method, path, body) for who in house.people}
            if kind == "key":
                wrong.extend([f"{method} {path}: {found}"] if len(set(found.values())) > 1 else [])
                continue
            for who, outcome in found.items():
                if outcome != (right := expected(kind, who, see)):
                    wrong.append(f"{method} {path} of {who}: {outcome}, should be {right}")

    anyio.run(ask)
    assert wrong == []


def test_a_route_without_a_rule_is_denied(house: House) -> None:
    """A route without a rule is denied to every user, whichever role they have."""

    @house.app.get("/v1/forgotten")
    def forgotten() -> dict[str, str]:
        raise AssertionError

    for who in house.people:
        right = "unknown" if who in STRANGERS else "forbidden"
        assert anyio.run(house.outcome, who, "GET", "/v1/forgotten", None) == right


def test_the_token_of_a_submission_may_be_in_its_body(house: House) -> None:
    """As spark-submit sends it: the same people may, as by a header."""
    for who, headers in house.people.items():
        token = headers.get("Authorization", "Bearer ").removeprefix("Bearer ")
        if not token:
            continue
        body = {**SUBMISSION, "sparkProperties": {"spark.stoker.token": token}}
        house.people = {**house.people, who: {}}
        outcome = anyio.run(house.outcome, who, "POST", "/v1/submissions/create", body)
        assert outcome == expected("submit", who, "own"), (who, json.dumps(body))
