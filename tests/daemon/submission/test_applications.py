"""Drivers that request executors themselves: authority, messages and abandonment."""

import hmac
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conf.schema import Driver, JobSpec
from daemon.auth.audit_log import Audit
from daemon.disk.launch_records import RecordsError
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.launch.application_records import ApplicationRecord, ApplicationRecords, application_key
from daemon.store.job_store import Store
from environment.model.cluster_model import Changes
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.model.vms.max_capacity import MaxCapacity
from environment.resources import Resources
from environment.types import Dynamic, Job
from tests.builders import make_job, make_vm
from tests.daemon.http.test_api import Api
from tests.daemon.small_scheduler import SmallScheduler

SECRET = "a-secret-of-the-application"
PROPERTIES = {"spark.app.name": "notebook", "spark.executor.instances": "2", "spark.executor.memory": "512m"}
DRIVER = {"host": "10.0.0.7", "port": 4747, "ui": "http://10.0.0.7:4040"}
BODY: dict[str, Any] = {
    "application_id": "app-1",
    "spark": "3.5.9",
    "user": "alice",
    "secret": SECRET,
    "driver": DRIVER,
    "properties": PROPERTIES,
}


class Door(SmallScheduler):
    """A scheduler with real applications, in a loop of which a test is a part."""

    def now(self, job_id: str, **changes: Any) -> JobRecord:
        """A job changed, and the loop has said so."""
        record = self._store.jobs.get(job_id)
        assert record is not None
        record = replace(record, **changes)
        self._store.changes.save(Changes((record,), ()))
        self.applications.observe((record,), ())
        return record


@pytest.fixture
def door(store: Store) -> Door:
    """One with four VMs."""
    return Door(store)


@pytest.fixture
def awake(door: Door, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets the daemon be awake for so many seconds, by a clock that goes with nothing else."""
    clock = [time.monotonic()]
    monkeypatch.setattr("daemon.submission.applications.time.monotonic", lambda: clock[0])

    def awake(seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            clock[0] += 0.5
            door.applications.tend()

    return awake


@pytest.fixture
def api(door: Door, store: Store) -> Api:
    """A client that sends no token where one is wanted."""
    return Api(create_app(door, store, AppOptions(token="t0ken", version="1")))


def dynamic_job(job_id: str) -> Job:
    """A job with a driver started here that requests executors itself."""
    return replace(make_job(job_id), dynamic=Dynamic(0, 1))


TOKEN = {"authorization": "Bearer t0ken"}


def register(api: Api, **others: Any) -> Any:
    """The answer to a driver's registration."""
    answer = api("POST", "/v1/applications", json={**BODY, **others}, headers=TOKEN)
    assert answer.status_code == 201, answer.text
    return answer.json()


def refused(api: Api, **others: Any) -> str:
    """Why it is refused."""
    answer = api("POST", "/v1/applications", json={**BODY, **others}, headers=TOKEN)
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    return str(problem["detail"])


def speak(api: Api, key: str, method: str = "POST", what: str = "/heartbeat", **body: Any) -> Any:
    """The answer to a request for `job-1` with this key."""
    headers = {"authorization": f"Bearer {key}"}
    answer = api(method, f"/v1/applications/job-1{what}", json=body, headers=headers)
    return answer.json()


def test_a_driver_that_is_there_gets_a_job(api: Api, store: Store) -> None:
    """A driver gets an ordinary job with its owner and address; its secrets are in no row."""
    answer = register(api)
    assert (answer["id"], answer["heartbeat"], answer["executors"]) == ("job-1", 2.0, 2)
    record, spec = store.jobs.get("job-1"), store.jobs.spec("job-1")
    assert record is not None
    assert spec is not None
    job = record.job
    assert (job.name, job.owner, job.executors, job.spark) == ("notebook", "alice", 2, "3.5")
    assert (job.size, job.client_driver) == (Resources.of(1.0, 896), "http://10.0.0.7:4040")
    assert (spec.app, spec.driver.on if spec.driver else "") == ("", "client")
    assert SECRET not in repr((record, spec))
    assert answer["key"] not in repr((record, spec))
    assert api("GET", "/v1/jobs/job-1", headers=TOKEN).json()["ui"] == "http://10.0.0.7:4040"


def test_a_driver_that_is_there_says_whether_it_uses_spot_vms(api: Api, store: Store) -> None:
    """As in a job file; executors of most jobs may be on some."""
    register(api, properties={"spark.stoker.spot": "never"})
    record = store.jobs.get("job-1")
    assert record is not None
    assert record.job.spot == "never"


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"properties": {"spark.executor.instances": "17"}}, "room for 16 executors of 1 cpu"),
        ({"properties": {"spark.executor.cores": "9"}}, "9"),
        ({"properties": {"spark.executor.memory": "1x"}}, "spark.executor.memory=1x: should be"),
        ({"properties": {"spark.stoker.kind": "x"}}, "spark.stoker.kind does not exist"),
        ({"properties": {"spark.stoker.maxRuntime": "0"}}, "spark.stoker.maxRuntime=0: should be"),
        ({"properties": {"spark.executor.memory": "100m"}}, "leaves a heap of 100 MiB"),
        ({"properties": {"spark.executor.instances": "20000"}}, "equal to 10000, found 20000"),
        ({"spark": "2.4.8"}, "Spark 2.4.8 is not available here; available are"),
        ({"secret": None}, "secret: missing"),
        ({"application_id": "a b"}, "application_id"),
        ({"driver": {"host": "$(id)", "port": 1}}, "driver.host"),
        ({"driver": {"host": "a", "port": 0}}, "driver.port"),
        ({"driver": {"host": "a", "port": 1, "ui": "javascript:alert(1)"}}, "driver.ui"),
        ({"more": 1}, "more"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(api: Api, others: dict[str, Any], why: str) -> None:
    """Before there is a job."""
    assert why in refused(api, **others)
    assert api("GET", "/v1/jobs", headers=TOKEN).json()["jobs"] == []


def test_only_its_key_speaks_for_an_application(api: Api, door: Door) -> None:
    """To register takes the token; after that neither that nor another's key is good."""
    assert api("POST", "/v1/applications", json=BODY).status_code == 401
    key = register(api)["key"]
    assert api("POST", "/v1/applications/job-1/heartbeat", json={}).status_code == 401
    for wrong in ("t0ken", key[:-1], register(api, secret=f"{SECRET}-2")["key"]):
        for method, what, body in (
            ("POST", "/heartbeat", {}),
            ("POST", "/release", {"numbers": [1]}),
            ("PUT", "/executors", {"profiles": []}),
            ("PUT", "", BODY),
            ("DELETE", "", {}),
        ):
            assert speak(api, wrong, method, what, **body)["status"] == 401
    assert door.events == []
    assert speak(api, key)["stop"] is None


def test_a_wrong_key_has_nobody_look_executors_up(
    api: Api, door: Door, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver may have had any number, and a client without a token may ask again and again."""
    register(api)
    door.applications._sessions.clear()  # as for the next daemon
    monkeypatch.setattr(store.jobs, "executors", None)
    answer = api("POST", "/v1/applications/job-1/heartbeat", json={}, headers={"authorization": "Bearer x"})
    assert answer.status_code == 401


def test_applications_that_share_a_secret_have_keys_of_their_own(api: Api, store: Store, door: Door) -> None:
    """A user's driver says its secret itself; a driver that is launched with the same one has another key."""
    first, second = register(api)["key"], register(api)["key"]
    assert first != second
    assert speak(api, second)["status"] == 401
    launch = door.launcher._launches.of("job-3", SECRET)
    assert application_key("job-3", launch.secret) == door.launcher.applications.key_of("job-3")
    assert len({first, second, door.launcher.applications.key_of("job-3")}) == 3
    records = ApplicationRecords(store, door.launcher._launches)
    assert [records.key_of(job_id) for job_id in ("job-1", "job-2")] == [first, second]
    door.launcher._launches.forget("job-3")


def test_a_record_is_read_once_for_many_executors(
    door: Door, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands are launched at once, and the loop does nothing else meanwhile; a change is seen at once."""
    records, reads = door.launcher.applications, list[int]()
    store.jobs.new.add_one(JobSpec(app=__file__), dynamic_job, None, 100.0)
    records.keep("job-1", ApplicationRecord("key", SECRET, "app-1"))
    read = store.database.read

    def counted() -> Any:
        reads.append(1)
        return read()

    monkeypatch.setattr(store.database, "read", counted)
    found = [records.kept("job-1") for _ in range(100)]
    assert found == [ApplicationRecord("key", SECRET, "app-1")] * 100
    assert len(reads) == 1
    records.keep("job-1", ApplicationRecord("key", SECRET, "app-2"))
    assert records.kept("job-1") == ApplicationRecord("key", SECRET, "app-2")
    store.applications.drop("job-1")
    assert records.kept("job-1") is None


def test_drivers_that_an_earlier_version_launched_keep_their_key(door: Door, store: Store) -> None:
    """It follows from the secret alone: such a driver runs on, here or on the cluster, and shows it."""
    key = hmac.digest(SECRET.encode(), b"the application's key", "sha256").hex()
    store.jobs.new.add_one(JobSpec(app=__file__), dynamic_job, None, 100.0)
    launches = door.launcher._launches
    launches.of("job-1", SECRET)
    path = launches.records("job-1").with_name("launch.json")
    kept = json.loads(path.read_text())
    del kept["by_job"]
    path.write_text(json.dumps(kept))
    records = door.launcher.applications
    assert records.key_of("job-1") == key
    launches.forget("job-1")
    records.keep("job-1", ApplicationRecord(key, SECRET, "app-1"))
    launch = records.launch_elsewhere("job-1")
    assert (records.key_of("job-1"), records.name("job-1", launch)) == (key, "app-1")
    launches.forget("job-1")


def test_others_are_unknown(api: Api, store: Store) -> None:
    """An unknown job is a 404, also one with a driver started by the daemon without a key."""
    assert api("POST", "/v1/applications/job-1/heartbeat", json={}).status_code == 404
    store.jobs.new.add_one(JobSpec(app=__file__), make_job, None, 100.0)
    assert api("POST", "/v1/applications/job-1/heartbeat", json={}).status_code == 404


def test_a_driver_that_was_started_here_attaches(api: Api, store: Store, door: Door) -> None:
    """A driver attaches with its job's key; its executors then learn its name."""
    store.jobs.new.add_one(JobSpec(app=__file__), dynamic_job, None, 100.0)
    door.launcher._launches.of("job-1")
    key = door.launcher.applications.key_of("job-1")
    assert speak(api, key, "PUT", "", **{**BODY, "secret": None})["id"] == "job-1"
    record, spec = store.jobs.get("job-1"), store.jobs.spec("job-1")
    assert record is not None
    assert spec is not None
    process, _ = door.launcher.describe(_task("job-1"), record.job, spec, ())
    assert process.argv[-2:] == ("app-1", "0")
    speak(api, key, "DELETE", "", exit_code=0)
    assert door.events == [ev.ExecutorsAsked(100.0, "job-1", ())]  # its supervisor tells of its end
    door.launcher.forget("job-1")


def test_executors_are_told_where_their_driver_is(api: Api, store: Store, door: Door) -> None:
    """Host, port, the application's id, and the secret by other ways than arguments."""
    register(api)
    record, spec = store.jobs.get("job-1"), store.jobs.spec("job-1")
    assert record is not None
    assert spec is not None
    process, name = door.launcher.describe(_task("job-1"), record.job, spec, ())
    assert name == "notebook: executor 0"
    assert process.argv[-9:-7] == ("10.0.0.7", "4747")
    assert process.argv[-2:] == ("app-1", "0")
    assert SECRET not in str(process.argv) + str(process.environment)
    assert process.secrets["_SPARK_AUTH_SECRET"] == SECRET
    assert process.environment["SPARK_EXECUTOR_ATTRIBUTE_STOKER_VM_PRICE"] == "0.24"
    store.applications.drop("job-1")
    with pytest.raises(RecordsError, match="the address of its driver"):
        door.launcher.describe(_task("job-1"), record.job, spec, ())


def test_a_silent_driver_is_given_up(
    api: Api, door: Door, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    """After 30 s without a sign of life, of the time that the daemon was awake."""
    key = register(api)["key"]
    clock = [0.0]
    monkeypatch.setattr("daemon.submission.applications.time.monotonic", lambda: clock[0])

    def awake(seconds: int) -> None:
        for _ in range(seconds * 2):
            clock[0] += 0.5
            door.applications.tend()

    clock[0] += 1000  # the daemon stood still
    awake(29)
    speak(api, key)
    awake(29)
    assert door.events == []
    awake(2)
    (event,) = door.events
    assert event == ev.DriverEnded(
        100.0, "job-1", None, "its driver (http://10.0.0.7:4040) was not heard of for 30 s"
    )
    door.now("job-1", state="failed", reason=event.message)
    assert "was not heard of" in speak(api, key)["stop"]
    awake(40)
    assert len(door.events) == 1
    # It comes back from its sleep, and is told all the same.
    assert "was not heard of" in speak(api, key)["stop"]


def test_a_driver_whose_executors_end_is_given_up_sooner(
    api: Api, door: Door, awake: Callable[[float], None]
) -> None:
    """They end when their driver does; if it gives a sign of life after that, it was something else."""
    key = register(api)["key"]
    door.applications.observe((), (replace(_task("job-1"), state="failed"),))
    awake(5)
    speak(api, key)
    awake(20)
    assert door.events == []
    door.applications.observe((), (replace(_task("job-1"), state="killed", killed_at=100.0),))
    awake(1)
    assert door.events == []
    door.applications.observe((), (replace(_task("job-1"), state="finished"),))
    awake(1)
    (event,) = door.events
    assert isinstance(event, ev.DriverEnded)
    assert event.message.endswith("was not heard of for 6 s")


def test_a_busy_driver_that_lost_one_executor_is_given_its_time(
    api: Api, door: Door, awake: Callable[[float], None]
) -> None:
    """All that were there when it was heard of last end without it; one that came later says nothing."""
    key = register(api)["key"]
    first, second, third = (replace(_task("job-1"), number=number) for number in (1, 2, 3))
    door.applications.observe((), (first, second))
    speak(api, key)
    door.applications.observe((), (replace(first, state="failed"), third))
    awake(20)
    assert door.events == []
    door.applications.observe((), (replace(second, state="failed"),))
    awake(1)
    assert len(door.events) == 1


def test_a_driver_is_found_again_by_the_next_daemon(api: Api, door: Door, store: Store) -> None:
    """On whichever host: with the same id and key, and executors of its own secret."""
    key = register(api)["key"]
    register(api, secret=f"{SECRET}-2")
    door.now("job-2", state="killed")
    again = Door(store)  # with a folder of its own
    again.applications.take_up(store.jobs.open.unfinished()[0])
    assert speak(Api(create_app(again, store, AppOptions(token="t0ken", version="1"))), key)["stop"] is None
    records = again.launcher.applications
    over, record, spec = records.kept("job-2"), store.jobs.get("job-1"), store.jobs.spec("job-1")
    assert over is not None
    assert record is not None
    assert spec is not None
    assert (over.secret, bool(over.key)) == ("", True)
    assert records.with_secret() == ["job-1"]
    process, _ = again.launcher.describe(_task("job-1"), record.job, spec, ())
    assert (process.secrets["_SPARK_AUTH_SECRET"], process.argv[-2]) == (SECRET, "app-1")


def test_a_driver_on_the_cluster_goes_on_under_another_host(api: Api, door: Door, store: Store) -> None:
    """New executors know it by the secret that it was given; it speaks by the same key; its UI is found."""
    spec = JobSpec(app=__file__, driver=Driver(on="cluster", memory=1024))
    record, _ = store.jobs.new.add_one(spec, dynamic_job, None, 100.0)
    driver = replace(
        _task("job-1"), task_id="job-1.d", number=None, ports=(31001, 31002, 31003), running_at=101.0
    )
    process, _ = door.launcher.describe(driver, record.job, spec, (driver,))
    secret = door.launcher._launches.of("job-1").secret
    assert f"spark.authenticate.secret={secret}" in process.secrets["STOKER_SPARK_PROPERTIES"]
    key = door.launcher.applications.key_of("job-1")
    speak(api, key, "PUT", "", **{**BODY, "secret": None})
    again = Door(store)
    other = Api(create_app(again, store, AppOptions(token="t0ken", version="1")))
    assert speak(other, key)["stop"] is None
    ui, known = door.launcher.ui("job-1", spec, (driver,)), again.launcher.ui("job-1", spec, (driver,))
    assert ui is not None
    assert ui == known
    process, _ = again.launcher.describe(_task("job-1"), record.job, spec, (driver,))
    assert (process.secrets["_SPARK_AUTH_SECRET"], process.argv[-2]) == (secret, "app-1")
    again.launcher.forget("job-1")
    assert secret not in str(store.applications.kept("job-1"))


def test_without_its_records_nobody_speaks_for_an_application(api: Api, door: Door, store: Store) -> None:
    """Without records no request for the application is accepted, with or without a key."""
    key = register(api)["key"]
    store.applications.drop("job-1")
    again = Door(store)
    again.applications.take_up(store.jobs.open.unfinished()[0])
    other = Api(create_app(again, store, AppOptions(token="t0ken", version="1")))
    assert other("POST", "/v1/applications/job-1/release", json={"numbers": [0]}).status_code == 404
    for wrong in ("", key):
        assert speak(other, wrong, "DELETE", "", exit_code=0)["status"] == 404
    assert again.events == []


def test_a_key_that_cannot_be_read_now_is_asked_for_again(
    api: Api, door: Door, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that was told that nobody knows it would end."""
    key = register(api)["key"]

    def no_more_files(_: str) -> str:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(door.launcher.applications, "key_of", no_more_files)
        door.applications._sessions.clear()
        door.applications.take_up(store.jobs.open.unfinished()[0])
        assert speak(api, key)["status"] == 503
    assert speak(api, key)["stop"] is None


def test_a_driver_that_is_started_again_has_a_key_and_a_name_of_its_own(
    api: Api, door: Door, store: Store
) -> None:
    """Messages and key of a job's earlier driver are void."""
    store.jobs.new.add_one(JobSpec(app=__file__), dynamic_job, None, 100.0)
    door.launcher._launches.of("job-1")
    old = door.launcher.applications.key_of("job-1")
    assert speak(api, old, "PUT", "", **{**BODY, "secret": None})["id"] == "job-1"
    door.launcher.abandon("job-1", afresh=True)
    door.launcher._launches.of("job-1")
    record, spec = store.jobs.get("job-1"), store.jobs.spec("job-1")
    assert record is not None
    assert spec is not None
    process, _ = door.launcher.describe(_task("job-1"), record.job, spec, ())
    assert process.argv[-2:] == ("", "0")  # it waits for the driver, who is yet to come
    new = door.launcher.applications.key_of("job-1")
    assert speak(api, new, "PUT", "", **{**BODY, "secret": None, "application_id": "app-2"})["key"] == new
    assert speak(api, old)["status"] == 401
    process, _ = door.launcher.describe(_task("job-1"), record.job, spec, ())
    assert process.argv[-2:] == ("app-2", "0")
    door.launcher.forget("job-1")


def test_executors_wait_for_a_driver_on_the_cluster_that_never_ran(
    api: Api, door: Door, store: Store
) -> None:
    """Executors and a driver that never ran are launched together, whichever name an earlier one had."""
    spec = JobSpec(app=__file__, driver=Driver(on="cluster", memory=1024))
    store.jobs.new.add_one(spec, dynamic_job, None, 100.0)
    door.launcher._launches.of("job-1")
    key = door.launcher.applications.key_of("job-1")
    speak(api, key, "PUT", "", **{**BODY, "secret": None})
    record = store.jobs.get("job-1")
    assert record is not None
    driver = replace(_task("job-1"), task_id="job-1.driver-2", number=None, ports=(31001, 31002, 31003))

    def told(driver: ExecutorRecord) -> str:
        process, _ = door.launcher.describe(_task("job-1"), record.job, spec, (driver,))
        return process.argv[-2]

    assert told(driver) == ""
    assert told(replace(driver, running_at=101.0)) == "app-1"
    door.launcher.describe(driver, record.job, spec, (driver,))
    assert told(replace(driver, running_at=101.0)) == ""
    door.launcher.forget("job-1")


def test_a_driver_is_told_of_its_jobs_end(api: Api, door: Door, store: Store) -> None:
    """A driver learns of the end with its reason, long after its secret is forgotten.

    A waiting job reports its reason.
    """
    key = register(api)["key"]
    door.now("job-1", reason="m1.large-1 has 0 cpus free")
    assert speak(api, key) == {
        "stop": None, "waits": "m1.large-1 has 0 cpus free", "lost": [], "decommission": [], "alone": False
    }  # fmt: skip
    door.now("job-1", state="running")
    assert speak(api, key)["waits"] is None
    door.now("job-1", state="killed", reason="killed on request")
    door.launcher.forget("job-1")
    assert speak(api, key)["stop"] == "job-1 was ended: killed on request"
    assert SECRET not in str(store.applications.kept("job-1"))


@pytest.mark.parametrize(
    ("goodbye", "code", "state", "why"),
    [
        ({"stopped": True}, None, "finished", "its driver stopped"),
        ({"exit_code": 0}, 0, None, "its driver exited with code 0"),
        ({"exit_code": 3}, 3, None, "its driver exited with code 3"),
        (
            {"exit_code": 1, "error": "a.BadError: token=x1\nand more"},
            1, None, "its driver exited with code 1: a.BadError: token=*** ... and more",
        ),
        ({"signal": "SIGTERM"}, None, "killed", "its driver was ended by SIGTERM"),
        ({}, None, None, "its driver ended by System.exit, with an unknown code"),
    ],
)  # fmt: skip
def test_a_goodbye_ends_the_job(
    api: Api, door: Door, goodbye: dict[str, Any], code: int | None, state: str | None, why: str
) -> None:
    """As the driver knows, and no more than it knows."""
    key = register(api)["key"]
    speak(api, key, "DELETE", "", **goodbye)
    (event,) = (event for event in door.events if isinstance(event, ev.DriverEnded))
    assert (event.exit_code, event.state, event.message) == (code, state, why)
    door.now("job-1", state="finished")
    speak(api, key, "DELETE", "", **goodbye)
    assert len(door.events) == 1


def test_lost_executors_and_those_to_leave_are_told(api: Api, door: Door) -> None:
    """Those that went with their VM; and those to be given up for as long as they are there."""
    key = register(api)["key"]
    lost = replace(_task("job-1", 1), state="lost", message="its agent is gone")
    leaves = replace(_task("job-1", 2), decommissioned_at=100.0)
    door.applications.observe((), (lost, leaves, lost))
    answer = speak(api, key)
    assert answer["lost"] == [{"number": 1, "reason": "lost on m1.large-1: its agent is gone"}]
    assert (answer["decommission"], answer["alone"]) == ([2], False)
    door.applications.observe((), (replace(leaves, decommissioned_at=-100.0),))
    assert speak(api, key)["alone"]
    door.applications.observe((), (replace(leaves, state="finished"),))
    assert speak(api, key)["decommission"] == []


def test_a_fixed_number_of_executors_is_kept(api: Api, door: Door) -> None:
    """Another number is refused without effect; returned executors end."""
    key = register(api)["key"]
    profiles = [{"id": 0, "total": 5, "executor": {"cores": 1, "memory": 512}}]
    answer = speak(api, key, "PUT", "/executors", profiles=profiles)
    assert answer["reason"] == "job-1 keeps its 2 executors, as dynamic allocation is off"
    speak(api, key, "POST", "/release", numbers=[3, 1])
    assert door.events == [ev.ExecutorsReleased(100.0, "job-1", (1, 3))]


DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": "8",
    "spark.executor.cores": "2",
    "spark.executor.memory": "2g",
}


def test_what_a_driver_wants_is_bounded_and_not_refused(api: Api, door: Door) -> None:
    """A driver's request is bounded and not refused, as Spark doubles it while tasks wait.

    Missing fields of a profile are the job's.
    """
    key = register(api, properties=DYNAMIC)["key"]
    profiles = [
        {"id": 0, "total": 1 << 20, "executor": {"cores": 2, "memory": 2048}},
        {"id": 1, "total": 2, "executor": {"gpu": 1}},
        {"id": 2, "total": 1, "executor": {"fpga": 3, "offHeap": 100}},
    ]
    answer = speak(api, key, "PUT", "/executors", profiles=profiles)
    assert answer["reason"] == "its driver asks for 1,048,576 executors, and its max is 8: it gets no more"
    (event,) = door.events
    assert isinstance(event, ev.ExecutorsAsked)
    assert [(one.profile, one.size, one.total) for one in event.profiles] == [
        (0, Resources.of(2.0, 2432), 1 << 20),
        (1, Resources.of(2.0, 2432, {"gpus": 1.0}), 2),
        (2, Resources.of(2.0, 2532, {"fpga": 3.0}), 1),
    ]


def test_further_executors_are_as_the_first(api: Api, door: Door) -> None:
    """Further executors match the first, also in GPUs of Mesos' settings, unknown to Spark."""
    door.applications._intake.note(0, MaxCapacity((make_vm(gpus=1),)), set())
    key = register(api, properties={**DYNAMIC, "spark.mesos.executor.gpus": "1"})["key"]
    profiles = [{"id": 0, "total": 2, "executor": {"cores": 2, "memory": 2048}}]
    speak(api, key, "PUT", "/executors", profiles=profiles)
    (event,) = door.events
    assert isinstance(event, ev.ExecutorsAsked)
    assert [one.size for one in event.profiles] == [Resources.of(2.0, 2432, {"gpus": 1.0})]


@pytest.mark.parametrize(
    ("amounts", "why"),
    [
        ({"memory": 10**400}, "memory"),
        ({"gpu": 1 << 31}, "gpu"),
        ({"memory": 100}, "executors with 100 MiB of memory: Spark needs 512"),
        ({"cores": 2000}, "executors of 2,000 cores: should be 1 to 1,024"),
    ],
)
def test_executors_that_cannot_be_are_refused(
    api: Api, door: Door, amounts: dict[str, int], why: str
) -> None:
    """Before anybody reckons with them."""
    key = register(api, properties=DYNAMIC)["key"]
    answer = speak(api, key, "PUT", "/executors", profiles=[{"id": 1, "total": 1, "executor": amounts}])
    assert answer["status"] == 422
    assert why in answer["detail"]
    assert door.events == []


def test_what_a_driver_says_once_is_stored_before_it_is_answered(api: Api, door: Door) -> None:
    """A message sent once is stored before its answer.

    The driver does not repeat it to the next daemon: a returned executor would stay until the job's end.
    """
    key = register(api, properties=DYNAMIC)["key"]
    door.stuck = True
    profiles = [{"id": 0, "total": 3, "executor": {}}]
    assert speak(api, key, "PUT", "/executors", profiles=profiles)["status"] == 503
    assert speak(api, key, "POST", "/release", numbers=[1])["status"] == 503
    door.stuck = False
    assert speak(api, key, "PUT", "/executors", profiles=profiles) == {"reason": ""}
    assert speak(api, key, "POST", "/release", numbers=[1]) == {}


def test_nonsense_in_the_records_is_nobodys_key(api: Api, door: Door, store: Store) -> None:
    """As where a disk has damaged it; it goes when the job is over."""
    key = register(api)["key"]
    for text in (
        "",
        "[]",
        '{"key": ""}',
        '{"key": 1}',
        '{"key": "k", "port": "x"}',
        '{"key": "k", "more": 1}',
    ):
        store.applications.keep("job-1", text, has_secret=True)
        with pytest.raises(RecordsError):
            door.launcher.applications.kept("job-1")
    door.applications._sessions.clear()
    assert speak(api, key)["status"] == 404
    door.launcher.forget("job-1")
    assert store.applications.kept("job-1") is None


def test_signs_of_life_are_not_audited(door: Door, store: Store, tmp_path: Path) -> None:
    """Heartbeats are not audited, as they change nothing; refusals are."""
    audit = Audit(tmp_path / "audit.jsonl", size=1 << 20, earlier=1)
    api = Api(create_app(door, store, AppOptions(token="t0ken", version="1", audit=audit)))
    key = register(api)["key"]
    speak(api, key)
    speak(api, "wrong")
    audit.close()
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(line["path"], line["status"]) for line in lines] == [
        ("/v1/applications", 201),
        ("/v1/applications/job-1/heartbeat", 401),
    ]
    assert SECRET not in str(lines)
    assert key not in str(lines)


def test_the_sparks_are_listed(api: Api) -> None:
    """With the jar's place, which is open to everybody; one that is not served has none."""
    found = api("GET", "/v1/spark", headers=TOKEN).json()
    assert found["driver_host"] == "127.0.0.1"
    names = [one["name"] for one in found["sparks"]]
    assert found["default"] == names[0]
    assert "3.5" in names
    answer = api("GET", "/v1/spark/2.4/stoker-backend.jar")
    assert answer.status_code == 404
    assert "2.4 is not available here" in answer.json()["detail"]


def _task(job_id: str, number: int = 0) -> ExecutorRecord:
    where = ("S1", "m1.large-1", "m1.large", "10.0.0.1", 0.24)
    return ExecutorRecord(
        f"{job_id}.{number}", job_id, number, *where, Resources.of(1.0, 896), (31000,), 100.0
    )
