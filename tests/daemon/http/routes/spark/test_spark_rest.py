"""Spark's REST submission protocol at the daemon's door; tests/doors has the real spark-submit."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any, get_args

import anyio
import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from conf.schema import Driver, Spark
from daemon.auth.audit_log import Audit
from daemon.core.errors import ElsewhereError
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.http.routes.spark import spark_rest
from daemon.http.server.gate import Gate
from daemon.http.server.scheduler_interface import submit_one
from daemon.schemas.spark_rest import StatusBody, Written
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import SubmittedSpec
from environment.model.cluster_model import Changes
from environment.model.messages.states import JobState
from framework.spark import SparkHomes
from tests.daemon.auth.bare_entrance import bare_entrance
from tests.daemon.small_scheduler import SmallScheduler

CLIENT = "3.5.9"
TOKEN = "t0ken-of-this-test"
SPARK = Spark.model_validate(
    {"default": "3.5", "versions": {"3.5": {"home": "/opt/spark", "version": "3.5.9"}}, "folder": "/nowhere"}
)


class Door:
    """A client of the protocol, as spark-submit is one: it sends no headers of its own."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def __call__(self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> Any:
        """Ask; the answer, with `body` the message in it, which every answer of the protocol is."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8642") as client:
                return await client.request(
                    method, path, headers={"host": "localhost:8642"} | (headers or {}), **more
                )

        response = anyio.run(send)
        message = response.json()
        assert {"action", "serverSparkVersion", "success"} <= set(message), message
        assert message["success"] is (message["action"] != "ErrorResponse" and message["success"])
        return response

    def create(self, app: str = "file:/apps/app.py", properties: Any = None, **more: Any) -> Any:
        """Submit a valid request unless the test overrides it."""
        request = {
            "action": "CreateSubmissionRequest",
            "clientSparkVersion": CLIENT,
            "appResource": app,
            "appArgs": ["--size", "8"],
            "mainClass": "",
            "environmentVariables": {"SPARK_ENV_LOADED": "1"},
            "sparkProperties": {"spark.app.name": "wc", **(properties or {})},
            **more,
        }
        return self("POST", "/v1/submissions/create", json=request)

    def made(self, **more: Any) -> str:
        """Submit a valid request; return the submission's id."""
        response = self.create(**more)
        assert response.status_code == 200, response.text
        assert response.json()["success"]
        found: str = response.json()["submissionId"]
        return found


def refused(response: Any, status: int) -> str:
    """The words of a refusal."""
    assert (response.status_code, response.json()["action"]) == (status, "ErrorResponse"), response.text
    assert response.json()["success"] is False
    message: str = response.json()["message"]
    return message


@pytest.fixture
def scheduler(store: Store) -> SmallScheduler:
    """A scheduler that launches nothing."""
    return SmallScheduler(store)


def door_of(scheduler: SmallScheduler, token: str | None = None, audit: Audit | None = None) -> Door:
    """A door to that scheduler."""
    homes = SparkHomes(SPARK, {})
    store = scheduler.store
    return Door(create_app(scheduler, store, AppOptions(token=token, version="1", homes=homes, audit=audit)))


@pytest.fixture
def door(scheduler: SmallScheduler) -> Door:
    """A door without a token."""
    return door_of(scheduler)


@pytest.mark.parametrize("key", ["appArgs", "sparkProperties", "environmentVariables"])
def test_lists_are_bounded(door: Door, key: str) -> None:
    """As those of a job file."""
    many: Any = ["a"] * 10_001 if key == "appArgs" else {f"spark.{n}": "a" for n in range(2001)}
    says = refused(door.create(**{key: many}), 422)
    assert f"{key}: should have at most {len(many) - 1:,} entries, and has {len(many):,}" in says


def test_a_submission_is_a_job(door: Door, store: Store) -> None:
    """A submission becomes a job with the settings of spark-submit's flags; the answer has its id."""
    response = door.create(
        properties={
            "spark.executor.instances": "3",
            "spark.executor.memory": "1g",
            "spark.submit.pyFiles": "file:///apps/a%20b.py",
            "spark.files": "file:///apps/f.txt,hdfs://x/y",
            "spark.archives": "file:///apps/venv.tgz#venv",
            "spark.driver.supervise": "false",
            "spark.ui.port": "4050",
            "spark.sql.x": "1",
        },
        environmentVariables={
            "SPARK_ENV_LOADED": "1",
            "SPARK_MODE": "fast",
            "SPARK_USER": "ann",
            "MESOS_X": "1",
        },
        novelty=1,
    )
    answer = response.json()
    assert (response.status_code, answer["action"]) == (200, "CreateSubmissionResponse")
    assert answer["serverSparkVersion"] == "3.5.9"
    assert answer["message"].startswith("job-1: `stoker job job-1`")
    assert answer["message"].endswith("without effect: spark.ui.port (Stoker serves the pages of drivers)")
    assert answer["unknownFields"] == ["novelty"]
    assert response.headers["location"] == "/v1/jobs/job-1"
    spec = store.jobs.spec("job-1")
    assert spec is not None
    assert (spec.app, spec.args, spec.name) == ("/apps/app.py", ("--size", "8"), "wc")
    assert (spec.executors, spec.memory, spec.spark, spec.owner) == (3, 1408, "3.5", "ann")
    assert (spec.py_files, spec.files) == (("/apps/a b.py",), ("/apps/f.txt", "hdfs://x/y"))
    assert spec.archives == ("/apps/venv.tgz#venv",)
    assert spec.conf == {"spark.sql.x": "1"}
    assert spec.env == {"SPARK_MODE": "fast", "SPARK_USER": "ann"}


def test_reasons_of_what_has_no_effect_are_told_once(door: Door) -> None:
    """Each is true of all that stand before it; by the names that were given."""
    given = {
        "spark.mesos.principal": "x",
        "spark.driver.port": "1",
        "spark.mesos.secret": "y",
        "spark.ui.port": "2",
    }
    message = door.create(properties=given).json()["message"]
    assert message.endswith(
        "without effect: spark.driver.port (Stoker decides where drivers and executors listen); "
        "spark.mesos.principal, spark.mesos.secret (the daemon is the framework, which its config describes "
        "to Mesos (mesos)); spark.ui.port (Stoker serves the pages of drivers)"
    )


@pytest.mark.parametrize(
    ("properties", "fields"),
    [
        (
            {"spark.executor.memory": "4g", "spark.yarn.executor.memoryOverhead": "2048"},
            {"memory": 6144, "conf": {"spark.executor.memoryOverhead": "2048m"}},
        ),
        ({"spark.driver.minMemoryOverhead": "2g"}, {"conf": {"spark.driver.memoryOverhead": "2048m"}}),
        ({"spark.driver.cores": "0.5", "spark.executor.cores": "1.5"}, {"cpus": 1.5}),
    ],
)
def test_older_names_and_fractions_are_followed(
    door: Door, store: Store, properties: dict[str, str], fields: dict[str, Any]
) -> None:
    """As Spark and Mesos follow them."""
    door.made(properties=properties)
    spec = store.jobs.spec("job-1")
    assert spec is not None
    assert {name: getattr(spec, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"spark.task.resource.fpga.amount": "1"}, "requires spark.executor.resource.fpga.amount"),
        ({"spark.driver.resource.gpu.amount": "1"}, "a driver takes cpus and memory alone"),
        ({"spark.mesos.uris": "http://x/y.tgz"}, "spark.mesos.uris: give files by --files"),
        ({"spark.files": "file:///apps/a%23b.txt"}, "has a # in its name"),
    ],
)
def test_what_cannot_be_followed_is_refused_at_once(
    door: Door, properties: dict[str, str], words: str
) -> None:
    """An unsupported property is refused at once, also one that Spark itself would refuse later.

    Spark would refuse it once the job has its executors.
    """
    assert words in refused(door.create(properties=properties), 422)


def test_a_jar_comes_once(door: Door, store: Store) -> None:
    """spark-submit names the application among the jars, too."""
    jars = {"spark.jars": "file:/apps/lib.jar,file:/apps/app.jar"}
    door.made(app="file:/apps/app.jar", mainClass="org.x.Main", properties=jars)
    spec = store.jobs.spec("job-1")
    assert spec is not None
    assert (spec.app, spec.main_class, spec.jars) == ("/apps/app.jar", "org.x.Main", ("/apps/lib.jar",))


def test_what_is_not_said_of_a_driver_is_the_configs(scheduler: SmallScheduler, store: Store) -> None:
    """A size does not say a place."""
    usual = Driver(on="cluster", cpus=2.0)
    app = create_app(
        scheduler, store, AppOptions(token=None, version="1", homes=SparkHomes(SPARK, {}), driver=usual)
    )
    Door(app).made(properties={"spark.driver.memory": "2g"})
    Door(app).made()
    first, second = store.jobs.spec("job-1"), store.jobs.spec("job-2")
    assert first is not None
    assert second is not None
    assert (first.driver, second.driver) == (Driver(on="cluster", cpus=2.0, memory=2432), None)


def test_ids_cannot_be_guessed_and_are_not_kept(door: Door, store: Store, tmp_path: Path) -> None:
    """Ids match the pattern of drivers' ids and end in 39 random digits; only a hash is stored."""
    first, second = door.made(), door.made()
    assert first != second
    for submission in (first, second):
        assert re.fullmatch(r"driver-[0-9]{14}-[0-9]{39}", submission)
        assert submission.rpartition("-")[2] not in (tmp_path / "stoker.db").read_bytes().decode("latin-1")
        assert submission.rpartition("-")[2] not in (tmp_path / "stoker.db-wal").read_bytes().decode(
            "latin-1"
        )
    assert len({first[-39:-20], second[-39:-20], first[-20:], second[-20:]}) == 4
    assert refused(door("GET", "/v1/submissions/status/job-1"), 404) == "there is no submission job-1"
    mistyped = refused(door("GET", "/v1/submissions/status/job-1?x=1"), 422)
    assert mistyped == "x: unknown key; this request has no query"
    guess = first[:-1] + str((int(first[-1]) + 1) % 10)
    assert "there is no submission" in refused(door("POST", f"/v1/submissions/kill/{guess}"), 404)


def test_a_submission_is_asked_about_and_ended(door: Door, store: Store) -> None:
    """By its id; one that is over is left alone, and that is said."""
    submission = door.made()
    status = door("GET", f"/v1/submissions/status/{submission}").json()
    assert status == {
        "action": "SubmissionStatusResponse",
        "driverState": "SUBMITTED",
        "serverSparkVersion": "3.5.9",
        "submissionId": submission,
        "success": True,
    }
    killed = door("POST", f"/v1/submissions/kill/{submission}").json()
    assert (killed["action"], killed["success"]) == ("KillSubmissionResponse", True)
    assert store.jobs.get("job-1").state == "killed"  # type: ignore[union-attr]  # it is there
    status = door("GET", f"/v1/submissions/status/{submission}").json()
    assert (status["driverState"], status["message"]) == ("KILLED", "killed on request")
    again = door("POST", f"/v1/submissions/kill/{submission}").json()
    assert (again["success"], again["message"]) == (False, "job-1 has killed already")


@pytest.mark.parametrize(
    ("state", "placed", "told"),
    [
        ("queued", None, "SUBMITTED"),
        ("placing", 1.0, "SUBMITTED"),
        ("starting", 1.0, "SUBMITTED"),
        ("running", 1.0, "RUNNING"),
        ("relaunching", 1.0, "RUNNING"),
        ("finished", 1.0, "FINISHED"),
        ("failed", 1.0, "FAILED"),
        ("failed", None, "ERROR"),
        ("killed", 1.0, "KILLED"),
    ],
)
def test_states_are_those_of_drivers(door: Door, store: Store, state: Any, placed: Any, told: str) -> None:
    """A job that failed before anything of it ran could not be run at all."""
    submission = door.made()
    record = store.jobs.get("job-1")
    assert record is not None
    record.state, record.placed_at = state, placed
    store.changes.save(Changes((record,), ()))
    assert door("GET", f"/v1/submissions/status/{submission}").json()["driverState"] == told


def test_a_driver_that_failed_is_relaunching(door: Door, store: Store) -> None:
    """Until it runs again."""
    submission = door.made(properties={"spark.driver.supervise": "true"})
    record, spec = store.jobs.get("job-1"), store.jobs.spec("job-1")
    assert record is not None
    assert spec is not None
    assert spec.retries == 10
    record.retried = 1
    store.changes.save(Changes((record,), ()))
    assert door("GET", f"/v1/submissions/status/{submission}").json()["driverState"] == "RELAUNCHING"


def test_all_submissions_are_ended_and_no_other_jobs(
    door: Door, store: Store, scheduler: SmallScheduler
) -> None:
    """Clearing ends all submissions; jobs submitted in another way are not among them."""
    door.made()
    door("POST", "/v1/submissions/clear")
    door.made()
    submit_one(scheduler, SubmittedSpec(store.jobs.spec("job-1")))  # type: ignore[arg-type]  # it is there
    answer = door("POST", "/v1/submissions/killall").json()
    assert (answer["action"], answer["success"]) == ("KillAllSubmissionResponse", True)
    assert [store.jobs.get(f"job-{n}").state for n in (1, 2, 3)] == ["killed", "killed", "queued"]  # type: ignore[union-attr]
    cleared = door("POST", "/v1/submissions/clear").json()
    assert (cleared["action"], cleared["success"]) == ("ClearResponse", False)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"properties": {"spark.stoker.typo": "1"}},
            "spark.stoker.typo does not exist; the properties are spark.stoker.",
        ),
        ({"properties": {"spark.stoker.beta": "1"}}, "a policy's beta is in the daemon's config"),
        (
            {"properties": {"spark.executor.cores": "x"}},
            "spark.executor.cores=x: should be a number of cores",
        ),
        (
            {"clientSparkVersion": "2.4.8"},
            "Spark 2.4.8 is not available here; available are 3.5 (the default)",
        ),
        ({"clientSparkVersion": "new"}, "new: not a version of Spark"),
        ({"app": "file:/apps/app.R"}, "/apps/app.R: the application should be a Python file (.py) or a jar"),
        ({"app": "spark-internal"}, "spark-internal: the application should be"),
        ({"app": "file://elsewhere/app.py"}, "file://elsewhere/app.py: is on elsewhere"),
        (
            {"mainClass": "org.x.Main"},
            "--class org.x.Main is for a jar, but /apps/app.py is a Python file",
        ),
        ({"properties": {"spark.jars": "file:/apps/a.py"}}, "--jars: /apps/a.py is a Python file"),
        ({"app": "file:/apps/app.jar"}, "a jar needs main_class"),
        ({"properties": {"spark.stoker.queue": "x" * 300}}, "queue: should have at most 200 characters"),
        ({"properties": {"spark.executor.cores": "100"}}, "vm-2, the largest, has 8 cpus"),
        ({"clientSparkVersion": None}, "clientSparkVersion"),
        ({"action": "KillSubmissionRequest"}, "action"),
        ({"sparkProperties": {"spark.x": 1}}, "sparkProperties"),
        ({"appArgs": "one"}, "appArgs"),
    ],
)
def test_refusals_say_what_is_wrong(door: Door, store: Store, given: Any, words: str) -> None:
    """In one line, which spark-submit prints; nothing is submitted."""
    message = refused(door.create(**given), 422)
    assert words in message
    assert "\n" not in message
    assert store.jobs.page() == []


def test_answers_are_written_as_spark_writes_them(door: Door) -> None:
    """A line for each field, a blank on either side of the colon: tools read them line by line."""
    text = door("GET", f"/v1/submissions/status/{door.made()}").text
    assert '\n  "driverState" : "SUBMITTED",\n' in text


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_another_version_of_the_protocol_is_told_of_ours(door: Door, method: str) -> None:
    """With the status and the field of Spark's own servers."""
    response = door(method, "/v2/submissions/create")
    assert "unknown protocol version v2" in refused(response, 468)
    assert response.json()["highestProtocolVersion"] == "v1"


def test_whatever_is_wrong_is_told_in_the_protocols_words(door: Door) -> None:
    """Errors use the protocol's format: unknown paths, methods and bodies, foreign hosts and origins."""
    assert "nothing at" in refused(door("GET", "/v1/submissions/nosuch"), 404)
    assert "does not accept GET" in refused(door("GET", "/v1/submissions/create"), 405)
    assert "not valid JSON" in refused(
        door(
            "POST",
            "/v1/submissions/create",
            json=None,
            content=b"{",
            headers={"content-type": "application/json"},
        ),
        400,
    )
    assert "should be JSON" in refused(door("POST", "/v1/submissions/create", content=b"x"), 415)
    assert "address it as localhost" in refused(
        door("GET", "/v1/submissions/status/x", {"host": "evil"}), 421
    )
    origin = {"origin": "http://evil.example"}
    assert "may not send requests" in refused(door("POST", "/v1/submissions/killall", origin), 403)
    large = {"content-type": "application/json"}
    assert "bytes" in refused(door("POST", "/v1/submissions/create", large, content=b" " * (1 << 21)), 413)


def test_a_daemon_that_waits_says_who_leads(store: Store) -> None:
    """A standby names the leader, as Java's client follows no redirect of a POST."""

    class Waiting(SmallScheduler):
        def submit(self, *_: Any) -> Any:
            raise ElsewhereError("http://leader:8642")

    message = refused(door_of(Waiting(store)).create(), 503)
    assert message == "this daemon is a standby: ask the leader, http://leader:8642"


def test_the_token_comes_as_a_property_and_goes_nowhere(
    scheduler: SmallScheduler, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wanted for submissions; in no job, file, answer or log afterwards."""
    audit = Audit(tmp_path / "audit.jsonl", size=1 << 20, earlier=1)
    door = door_of(scheduler, TOKEN, audit)
    wanted = refused(door.create(), 401)
    assert wanted == "this daemon wants its token: write spark.stoker.token into a file for --properties-file"
    wrong = {"spark.stoker.token": "not-the-t0ken"}
    assert "is not the token" in refused(door.create(properties=wrong), 401)
    assert store.jobs.page() == []
    right = {"spark.stoker.token": TOKEN}
    submission = door.made(properties=right)
    texts = [refused(door.create(properties={**right, "spark.stoker.typo": "1"}), 422)]
    texts.append(refused(door.create(properties=right, sparkProperties={**right, "spark.x": 1}), 422))
    texts.append(refused(door.create(properties=right, appArgs=5), 422))
    number = {"spark.stoker.token": 5151515}
    texts.append(refused(door.create(sparkProperties=number), 401))
    spec = store.jobs.spec("job-1")
    assert spec is not None
    assert "token" not in spec.model_dump_json()
    # Whoever made it asks for it and ends it by its id.
    assert door("GET", f"/v1/submissions/status/{submission}").json()["driverState"] == "SUBMITTED"
    assert door("POST", f"/v1/submissions/kill/{submission}").json()["success"]
    for path in ("killall", "clear"):
        assert "token" in refused(door("POST", f"/v1/submissions/{path}"), 401)
        assert door("POST", f"/v1/submissions/{path}", {"authorization": f"Bearer {TOKEN}"}).json()["action"]
    assert "token" in refused(door("GET", "/v1/submissions/status"), 401)
    bad = {"authorization": "Bearer wrong"}
    assert "not the one" in refused(door("GET", f"/v1/submissions/status/{submission}", bad), 401)
    audit.close()
    store.close()
    texts += [path.read_bytes().decode("latin-1") for path in tmp_path.iterdir()]
    texts += list(capsys.readouterr())
    for text in texts:
        assert not any(secret in text for secret in (TOKEN, "not-the-t0ken", "5151515"))
    told = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(line["who"], line["status"]) for line in told[:3]] == [
        ("nobody known", 401),
        ("nobody known", 401),
        ("token", 200),
    ]
    assert told[2]["made"] == "/v1/jobs/job-1"
    assert told[2]["asked"] == {"appResource": "file:/apps/app.py", "clientSparkVersion": CLIENT}
    assert submission[-39:] not in (tmp_path / "audit.jsonl").read_text()


@pytest.mark.parametrize("token", [None, TOKEN])
def test_nothing_behind_the_gate_sees_the_token(token: str | None) -> None:
    """Whether it is wanted or not: the body that the app reads is without it."""
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(((await receive())["body"].decode(), scope))
        answer = StatusBody(
            server_spark_version=CLIENT, success=True, submission_id="x", driver_state="RUNNING"
        )
        await Written(answer)(scope, receive, send)

    gate: Any = Gate(app, bare_entrance(token), lambda *_: None, 5)
    assert Door(gate).create(properties={"spark.stoker.token": TOKEN}).status_code == 200
    [(body, scope)] = seen
    assert json.loads(body)["sparkProperties"] == {"spark.app.name": "wc"}
    assert TOKEN not in repr(scope)


def test_strangers_get_little_room(scheduler: SmallScheduler) -> None:
    """Without the token a body may have 256 KiB at most."""
    large = {"spark.x": "y" * 300_000}
    assert "262144 bytes" in refused(door_of(scheduler, TOKEN).create(properties=large), 413)


def test_strangers_with_much_to_say_keep_no_driver_silent() -> None:
    """Slow senders of large bodies share one limit, which does not delay a driver's heartbeat."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def never() -> Message:
        await asyncio.sleep(60)
        raise AssertionError

    async def told() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def asked(gate: Gate, length: int, receive: Receive) -> int:
        status: list[int | None] = []

        async def send(message: Message) -> None:
            status.append(message.get("status"))

        headers = [(b"host", b"h"), (b"content-type", b"application/json")]
        headers.append((b"content-length", str(length).encode()))
        path = "/v1/applications/job-1/heartbeat"
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
        await gate(scope, receive, send)
        return status[0] or 0

    async def crowd() -> tuple[int, int]:
        gate = Gate(app, bare_entrance(TOKEN), lambda *_: None, 100)
        slow = [asyncio.create_task(asked(gate, 100_000, never)) for _ in range(70)]
        await asyncio.sleep(0.1)
        found = await asked(gate, 100_000, told), await asked(gate, 2, told)
        for one in slow:
            one.cancel()
        return found

    assert asyncio.run(crowd()) == (429, 200)


def test_every_state_of_a_job_is_one_of_a_driver() -> None:
    """Every job state maps to a driver state; a missing one would be a server error."""
    assert spark_rest._STATES.keys() == set(get_args(JobState))
