"""Users: their records, the jobs they see of others, and the owner of a job at every entry point."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conf.schema import JobSpec
from conf.uploaded_file import UploadedFile
from daemon.auth.audit_log import Audit
from daemon.auth.authentication import Authenticator, Visitor
from daemon.auth.permits import Permit
from daemon.auth.user_directory import Directory
from daemon.core.identity import ROLES, Person
from daemon.core.tokens import is_it, make_token, token_id
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.maintenance.backup import back_up, restore
from daemon.page.page_state import PageScene
from daemon.store.job_store import Store
from daemon.store.rows.event_recorder import HistoryEvent
from environment.decisions.explain import Explanation
from environment.model.cluster_model import Changes
from environment.model.messages.records import Attempt, PreemptionGain, PreemptionLoss
from tests.daemon.auth.user_api import PROXY, House, house_of
from tests.daemon.http.test_api import Api
from tests.daemon.small_scheduler import SmallScheduler
from tests.daemon.submission.test_applications import BODY

JOB = {"app": "count.py"}
BINARY = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def house(store: Store) -> Iterator[House]:
    """A daemon on which users see only their own jobs."""
    with house_of(store) as house:
        yield house


def submitted(house: House, who: str, **more: Any) -> str:
    """A job's id."""
    answer = house(who, "POST", "/v1/jobs", json={**JOB, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_a_token_is_kept_as_a_hash(house: House, store: Store, tmp_path: Path) -> None:
    """Neither the store nor a listing has it; two are never alike."""
    token = house.people["ann"]["Authorization"].removeprefix("Bearer ")
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("stoker.db*"))
    assert token.encode() not in stored
    assert hashlib.sha256(token.encode()).hexdigest().encode() in stored
    assert token not in house("admin", "GET", "/v1/users").text
    made, record = make_token(0.0)
    assert token_id(made) == record.id
    assert is_it(made, record)
    assert not is_it(made[:-1] + ("A" if made[-1] != "A" else "B"), record)
    assert not is_it(made, None)
    assert len({make_token(0.0)[0] for _ in range(100)}) == 100


def test_who_is_ended_is_let_in_no_more(house: House) -> None:
    """At once: by one token, which its owner may end as well, or by all."""
    asked = house("admin", "POST", "/v1/users/ann/tokens", json={"seconds": 3600}).json()
    house.people["other"] = {"Authorization": f"Bearer {asked['token']}"}
    assert house("other", "GET", "/v1/me").json()["token"] == asked["id"]
    assert house("bob", "DELETE", f"/v1/tokens/{asked['id']}").status_code == 404
    assert house("ann", "DELETE", f"/v1/tokens/{asked['id']}").status_code == 200
    assert house("other", "GET", "/v1/me").status_code == 401
    assert house("ann", "GET", "/v1/me").json()["name"] == "ann"
    assert house("admin", "DELETE", "/v1/users/ann").status_code == 200
    assert house("ann", "GET", "/v1/me").status_code == 401
    assert house("admin", "DELETE", "/v1/users/ann").status_code == 404


def test_a_role_counts_with_the_next_request(house: House) -> None:
    """Up and down; the rest of a user stays as it was."""
    assert house("ann", "PUT", "/v1/policy", json={"name": "rr"}).status_code == 403
    assert house("admin", "PUT", "/v1/users/ann", json={"role": "operate"}).status_code == 200
    assert house("ann", "PUT", "/v1/policy", json={"name": "rr"}).status_code == 200
    house("admin", "PUT", "/v1/users/ann", json={"queues": ["etl"]})
    assert house("ann", "GET", "/v1/me").json()["role"] == "operate"
    for wrong in ("-ann", "a b", "0" * 16, "x" * 65):
        assert house("admin", "PUT", f"/v1/users/{wrong}", json={}).status_code == 422


def test_the_words_of_a_job_name_no_others_and_its_users_own_stay(house: House, store: Store) -> None:
    """By every route that shows the job, and on the page."""
    other = submitted(house, "bob")
    own = submitted(house, "ann", name=f"after {other}", args=[other])
    record = store.jobs.get(own)
    assert record is not None
    gave, took = (
        PreemptionLoss(1.0, other, "prod", 10, 1, 0.1, True),
        PreemptionGain(1.0, other, 1, 0.1, True, f"{other} ended"),
    )
    attempt = Attempt(None, 1.0, "infrastructure", gave.told)
    record = replace(
        record,
        state="failed",
        finished_at=2.0,
        gave=(gave,),
        took=(took,),
        attempts=(attempt,),
        reason=gave.told,
    )
    store.changes.save(Changes((record,), ()))
    detail = house("ann", "GET", f"/v1/jobs/{own}").json()
    assert detail["gave"][0]["to"] == detail["took"][0]["of"] == "another job"
    worded = ("reason", "gave", "took", "attempts", "tasks")
    assert other not in json.dumps([detail[name] for name in worded])
    killed = house("ann", "POST", f"/v1/jobs/{own}/kill").json()
    listed = house("ann", "GET", "/v1/jobs").json()["jobs"][0]
    for body in (detail, killed, listed):
        assert (body["name"], other in body["reason"]) == (f"after {other}", False)
    assert detail["spec"]["args"] == [other]
    _, rows = scene_of(house, store).whole(Permit(Person("ann", "submit"), sees_all=False))
    (row,) = json.loads(rows[0])["jobs"]
    assert (row[1], other in row[6]) == (f"after {other}", False)
    assert house("oper", "GET", f"/v1/jobs/{own}").json()["gave"][0]["to"] == other


def test_no_text_on_policies_or_health_names_others_jobs(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor to a client without a token, which may ask whether the daemon is ready."""
    fault = "it waits although job-7 fits: busy"
    status, health = house.scheduler.policy(), house.scheduler.health()
    monkeypatch.setattr(house.scheduler, "policy", lambda: replace(status, last_fault=fault))
    monkeypatch.setattr(house.scheduler, "health", lambda: replace(health, checks={"policy": fault}))
    hidden = "it waits although another job fits: busy"
    assert house("ann", "GET", "/v1/policy").json()["last_fault"] == hidden
    assert house("oper", "GET", "/v1/policy").json()["last_fault"] == fault
    assert house("nobody", "GET", "/readyz").json()["checks"] == {"policy": hidden}


def scene_of(house: House, store: Store) -> PageScene:
    """The page's scene of the daemon."""
    scene = PageScene(house.scheduler, store)
    scene.begin()
    return scene


def test_who_may_raise_a_priority() -> None:
    """Operators, and everybody where there are no users."""
    raises = {role: Permit(Person("ann", role)).admit(JobSpec(app="count.py"))[1].raises for role in ROLES}
    assert raises == {"read": False, "submit": False, "operate": True, "admin": True}
    assert Permit().admit(JobSpec(app="count.py"))[1].raises


def test_others_jobs_are_neither_listed_nor_counted(house: House, store: Store) -> None:
    """Others' jobs are not listed, counted or named in reasons of own jobs; an operator sees them all."""
    first, second, own = (submitted(house, who) for who in ("bob", "bob", "ann"))
    bobs = store.jobs.get(first)
    assert bobs is not None
    store.changes.save(Changes((replace(bobs, reason="no VM has room for secret.py"),), ()))
    head = store.jobs.get(own)
    assert head is not None
    why = Explanation(1.0, own, "ff", "wait", f"{own} waits: {first} and {second} are before it", (), ())
    store.changes.save(Changes((head,), ()), [why])
    told = house("ann", "GET", f"/v1/jobs/{own}/explain").json()
    assert told["explanations"][0]["reason"] == f"{own} waits: another job and another job are before it"
    assert first in house("oper", "GET", f"/v1/jobs/{own}/explain").text
    found = house("ann", "GET", "/v1/jobs").json()
    assert ([job["id"] for job in found["jobs"]], found["next"]) == ([own], None)
    assert found["jobs"][0]["reason"] == "2 jobs are before it, first come first served"
    assert house("ann", "GET", "/v1/jobs?owner=bob").json()["jobs"] == []
    assert len(house("ann", "GET", "/v1/jobs?owner=bob&owner=ann").json()["jobs"]) == 1
    assert [len(house(who, "GET", "/v1/jobs").json()["jobs"]) for who in ("reader", "bob", "oper")] == [
        0,
        2,
        3,
    ]
    assert "secret.py" in house("oper", "GET", f"/v1/jobs/{own}").text
    missing = house("ann", "GET", "/v1/jobs/job-99").json()
    hidden = house("ann", "GET", f"/v1/jobs/{second}").json()
    assert hidden == {**missing, "detail": missing["detail"].replace("job-99", second)}


def test_what_happened_to_others_jobs_is_not_told(house: House, store: Store) -> None:
    """Events of others' jobs are hidden, by job and in the list of all; cluster events name none of them."""
    bobs, own = submitted(house, "bob"), submitted(house, "ann")
    store.facts.put("x", "y", [HistoryEvent(1.0, None, "vm opening", f"general-1.1: for {bobs}")])
    found = house("ann", "GET", "/v1/events").json()
    assert [(each["job_id"], each["kind"]) for each in found["events"]] == [
        (own, "submitted"),
        (None, "vm opening"),
    ]
    assert found["events"][1]["message"] == "general-1.1: for another job"
    assert bobs not in str(found)
    assert house("ann", "GET", f"/v1/events?job={bobs}").status_code == 404
    assert house("ann", "GET", f"/v1/events?job={own}").json()["events"][0]["job_id"] == own
    assert len(house("oper", "GET", "/v1/events").json()["events"]) == 3


def test_executors_of_others_are_not_shown_on_vms(house: House) -> None:
    """How much is used is."""
    assert submitted(house, "bob") == "job-1"

    def shown(who: str) -> list[list[str]]:
        return [vm["executors"] for vm in house(who, "GET", "/v1/cluster").json()["vms"]]

    assert shown("ann") == [[], [], []]
    assert shown("bob") == shown("oper") == [["job-1.0"], [], []]


def test_a_job_is_of_who_submits_it(house: House, store: Store) -> None:
    """A job belongs to its submitter, whichever login the client sends.

    An operator, or a client with the config's token, may name another owner.
    """
    mine = submitted(house, "ann")
    login = {"Stoker-Login": "root"}
    assert house("ann", "POST", "/v1/jobs", json=JOB, headers=login).json()["owner"] == "ann"
    refused = house("ann", "POST", "/v1/jobs", json={**JOB, "owner": "bob"})
    assert (refused.status_code, refused.json()["title"]) == (403, "Not your name")
    assert house("ann", "POST", "/v1/jobs", json={**JOB, "owner": "ann"}).status_code == 201
    theirs = submitted(house, "oper", owner="ann")
    assert house("config", "POST", "/v1/jobs", json=JOB, headers=login).json()["owner"] == "root"
    assert submitted(house, "config", owner="ann")
    for job_id in (mine, theirs):
        assert store.jobs.spec(job_id).owner == store.jobs.get(job_id).job.owner == "ann"  # type: ignore[union-attr]
        assert house("ann", "DELETE", f"/v1/jobs/{job_id}").status_code == 202


def test_without_users_a_job_is_of_whom_its_client_says(store: Store) -> None:
    """Without users the owner is the login that the client sends; the job's own field takes precedence."""
    api = Api(
        create_app(SmallScheduler(store), store, AppOptions(token=None, version="1")),
        **{"Stoker-Login": "j%C3%BCrgen"},
    )
    assert api("POST", "/v1/jobs", json=JOB).json()["owner"] == "jürgen"
    assert api("POST", "/v1/jobs", json={**JOB, "owner": "x"}).json()["owner"] == "x"
    for why in ("No users", "no users are configured"):
        assert why in api("GET", "/v1/users").text
    assert api("GET", "/v1/me").json()["role"] == "admin"


def test_queues_that_are_somebodys(house: House) -> None:
    """The first of them is where jobs go that name none; those below are theirs, too."""
    house("admin", "PUT", "/v1/users/ann", json={"queues": ["etl", "adhoc.ann"]})
    assert house("ann", "POST", "/v1/jobs", json=JOB).json()["queue"] == "etl"
    for queue, status in (
        ("adhoc.ann", 201),
        ("etl.night", 201),
        ("etls", 403),
        ("adhoc", 403),
        ("default", 403),
    ):
        assert house("ann", "POST", "/v1/jobs", json={**JOB, "queue": queue}).status_code == status, queue


def test_queues_of_users_are_queues(house: House) -> None:
    """Where there are any: else nobody could submit, and nothing would say why."""
    assert house("admin", "PUT", "/v1/queues/etl", json={}).status_code == 201
    refused = house("admin", "PUT", "/v1/users/ann", json={"queues": ["etl", "elt"]})
    assert (refused.status_code, refused.json()["title"]) == (422, "No such queue")
    assert refused.json()["detail"].startswith("queues: there is no queue elt; there are etl")
    users = {user["name"]: user for user in house("admin", "GET", "/v1/users").json()["users"]}
    assert users["ann"]["queues"] == []
    assert house("admin", "PUT", "/v1/users/ann", json={"queues": ["etl"]}).json()["queues"] == ["etl"]


def test_a_key_is_each_users_own(house: House) -> None:
    """Sent again it is the same job; of another it is another one, and tells nothing."""
    ids = [
        house(who, "POST", "/v1/jobs", json=JOB, headers={"Idempotency-Key": "k"}).json()["id"]
        for who in ("ann", "bob", "ann", "config", "config")
    ]
    assert ids == ["job-1", "job-2", "job-1", "job-3", "job-3"]


def test_a_hash_opens_nothing(house: House) -> None:
    """A user that has not sent a file can neither see that it exists nor use it in a job."""
    data = b"print('a secret')\n"
    sha = hashlib.sha256(data).hexdigest()
    binary: dict[str, Any] = {"headers": BINARY, "params": {"size": str(len(data))}}
    assert house("ann", "PUT", f"/v1/files/{sha}", content=data, **binary).status_code == 201
    for who, status in (("ann", 200), ("bob", 404), ("admin", 404)):
        assert house(who, "GET", f"/v1/files/{sha}").status_code == status
    uploads = house.scheduler.uploads
    file = UploadedFile(sha, "a.py")
    uploads.use(file, "ann", "ann")
    with pytest.raises(ValueError, match="no file with the hash"):
        uploads.use(file, "bob", "bob")
    with pytest.raises(ValueError, match="no file with the hash"):
        uploads.use(file)
    with pytest.raises(ValueError, match="does not have a file"):
        uploads.path(file, "bob")
    uploads.use(file, "ann", "bob")  # an operator's, for another
    assert uploads.path(file, "bob").read_bytes() == uploads.path(file, "ann").read_bytes() == data
    assert house("bob", "PUT", f"/v1/files/{sha}", content=data, **binary).status_code == 200


def test_files_of_users_are_kept_for_their_jobs(house: House, store: Store) -> None:
    """As long as a job of theirs that is not over names them."""
    data, uploads = b"x", house.scheduler.uploads
    sha = hashlib.sha256(data).hexdigest()
    for who in ("ann", "bob"):
        uploads.put(sha, 1, 0, data, who)
    house("ann", "POST", "/v1/jobs", json={"app": f"stoker-file:{sha}/a.py"})
    assert uploads.sweep(store.jobs.open.uploads_needed, age=-1.0)[0] == 1
    assert uploads.status(sha, "ann") is not None
    assert uploads.status(sha, "bob") is None


def test_spark_submits_doors(house: House, store: Store) -> None:
    """spark-submit's jobs are their user's, and known by an id; so are sessions, which speak by keys."""
    token = house.people["ann"]["Authorization"].removeprefix("Bearer ")
    request: dict[str, Any] = {
        "action": "CreateSubmissionRequest", "clientSparkVersion": "4.3.0",
        "appResource": "file:/apps/app.py",
        "sparkProperties": {"spark.stoker.token": token}, "environmentVariables": {"SPARK_USER": "root"},
    }  # fmt: skip
    made = house("nobody", "POST", "/v1/submissions/create", json=request).json()
    assert made["success"], made
    assert store.jobs.get("job-1").job.owner == "ann"  # type: ignore[union-attr]
    assert token not in json.dumps(store.jobs.spec("job-1").model_dump(mode="json"))  # type: ignore[union-attr]
    request["sparkProperties"] |= {"spark.stoker.owner": "bob"}
    assert house("nobody", "POST", "/v1/submissions/create", json=request).status_code == 403
    killed = house("nobody", "POST", f"/v1/submissions/kill/{made['submissionId']}", json={})
    assert killed.json()["success"]
    session = house("bob", "POST", "/v1/applications", json={**BODY, "user": "root"})
    assert session.status_code == 201, session.text
    assert store.jobs.get("job-2").job.owner == "bob"  # type: ignore[union-attr]
    heartbeat = "/v1/applications/job-2/heartbeat"
    key = {"Authorization": f"Bearer {session.json()['key']}"}
    assert house("nobody", "POST", heartbeat, json={}, headers=key).status_code == 200
    assert house("bob", "POST", heartbeat, json={}).status_code == 401
    assert house("admin", "POST", heartbeat, json={}).status_code == 401
    assert house("nobody", "GET", "/v1/jobs/job-2", headers=key).status_code == 401


def test_what_a_proxy_says(house: House) -> None:
    """A user named by the proxy alone is trusted, before a token; an invalid name or role is ignored."""

    def me(headers: dict[str, str], peer: str = PROXY) -> Any:
        answer = house("nobody", "GET", "/v1/me", peer, headers=headers)
        return (
            (answer.json()["name"], answer.json()["role"])
            if answer.status_code == 200
            else answer.status_code
        )

    assert me({"X-Forwarded-User": "zoe@x.example"}) == ("zoe@x.example", "submit")
    assert me({"X-Forwarded-User": "zoe", "X-Forwarded-Role": "operate"}) == ("zoe", "operate")
    assert me({"X-Forwarded-User": "ann", "X-Forwarded-Role": "admin"}) == ("ann", "submit")
    assert me({"X-Forwarded-User": "zoe", **house.people["admin"]}) == ("zoe", "submit")
    assert me({"X-Forwarded-User": "zoe"}, "::ffff:10.1.0.9") == ("zoe", "submit")
    assert me(house.people["bob"]) == ("bob", "submit")
    assert me({"X-Forwarded-User": "zoe"}, "10.2.0.1") == 401
    assert me({"X-Forwarded-User": "zoe"}, "") == 401
    assert me({"X-Forwarded-User": "zoe", "X-Forwarded-Role": "root"}) == 403
    assert me({"X-Forwarded-User": "zoe, ann"}) == 403
    assert me({"X-Forwarded-User": ""}) == 401
    assert me({"X-Forwarded-User": "admin", **house.people["ann"]}, "10.2.0.1") == ("ann", "submit")


def test_wrong_tokens_make_an_address_wait(house: House) -> None:
    """Good ones of users are taken from there all the same, the config's is not; others do not wait."""
    wrong = {"Authorization": "Bearer guess"}
    statuses = [house("nobody", "GET", "/v1/me", headers=wrong).status_code for _ in range(11)]
    assert statuses == [401] * 10 + [429]
    late = house("config", "GET", "/v1/me")
    assert (late.status_code, late.headers["retry-after"]) == (429, "1")
    assert house("ann", "GET", "/v1/me").status_code == 200
    assert house("config", "GET", "/v1/me", "10.9.9.9").status_code == 200
    assert "stoker_wrong_tokens_total 11.0" in house("ann", "GET", "/metrics").text


def test_for_how_long_an_address_waits(house: House) -> None:
    """Twice as long each time, a minute at most; after a quiet minute all is forgotten."""
    clock = [50.0]
    door = Authenticator("t0ken", house.directory, now=lambda: clock[0])

    def waits(headers: Mapping[str, str]) -> str:
        told = door.who({name.lower(): value for name, value in headers.items()}, "10.9.0.1")
        return "" if isinstance(told, Visitor) else told.headers.get("Retry-After", "")

    bad, good = house.people["bad"], house.people["config"]
    assert [waits(bad) for _ in range(18)] == [""] * 10 + ["1", "2", "4", "8", "16", "32", "60", "60"]
    assert waits(good) == "60"
    clock[0] += 59.0
    assert waits(good) == "1"
    clock[0] += 1.0
    assert waits(good) == ""
    assert waits(bad) == "60"
    clock[0] += 121.0
    assert waits(bad) == waits(good) == ""


def test_the_audit_log_says_who_did_what(store: Store, tmp_path: Path) -> None:
    """The audit log has user name and token id, also for anonymous and refused requests; it has no token."""
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, size=1 << 20, earlier=0)
    with house_of(store, audit=audit) as house:
        submitted(house, "ann")
        house("proxied", "POST", "/v1/jobs", PROXY, json=JOB)
        house("ann", "PUT", "/v1/policy", json={"name": "rr"})
        house("ann", "GET", "/v1/users")
        house("expired", "GET", "/v1/jobs")
        house("admin", "POST", "/v1/users/ann/tokens", json={})
    audit.close()
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(r["who"], r["status"]) for r in records] == [
        ("ann", 201), ("ann", 201), ("ann", 403), ("ann", 403), ("nobody known", 401), ("admin", 201),
    ]  # fmt: skip
    token = house.people["ann"]["Authorization"].removeprefix("Bearer ")
    assert [r.get("token") for r in records[:2]] == [token_id(token), None]
    assert token not in path.read_text()


def test_a_backup_has_the_users(house: House, store: Store, tmp_path: Path) -> None:
    """With their tokens."""
    folder = tmp_path / "data"
    folder.mkdir()
    back_up(tmp_path / "stoker.db", tmp_path / "backup.db", replace=False, progress=lambda *_: None)
    restore(tmp_path / "backup.db", folder / "stoker.db", folder)
    token = house.people["bob"]["Authorization"].removeprefix("Bearer ")
    with (
        closing(Store(f"sqlite:///{folder / 'stoker.db'}")) as again,
        closing(Directory(again.users)) as known,
    ):
        found = known.by_token(token)
        assert not isinstance(found, str)
        assert found[0].name == "bob"
