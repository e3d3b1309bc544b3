"""The main job end to end: a real daemon, an embedded Mesos, real PySpark jobs, the command line.

One daemon serves all tests of this module, as a user's would; Spark jobs are the cost here, so there are few.
"""

import contextlib
import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from stoker import StokerError

from audit.prices import Prices
from audit.read_logs import read_logs
from conf.schema.prices import PriceList, VmPrice
from daemon.cli.jobs.upload import upload_files
from daemon.store.job_store import Store
from environment.model.cluster_model import ClusterModel
from environment.model.event_log import replay
from tests.real_daemon import PATIENCE, QUICK_JAVA, Daemon, real_daemon

PATIENT_APP = """
import pathlib, sys, time
from pyspark import SparkContext

context = SparkContext()
print("UI", context.uiWebUrl, flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
print("SUM", context.range(100).sum(), flush=True)
context.stop()
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """The daemon of this module."""
    with real_daemon(tmp_path_factory.mktemp("daemon")) as running:
        yield running


def executor_pids(job_id: str, daemon: Daemon) -> dict[str, int]:
    """Pids of the daemon's running executor JVMs by task id, found by the environment that Mesos set."""
    found = {}
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes()
            ours = (process / "cwd").readlink().is_relative_to(daemon.folder)
            if ours and b"CoarseGrainedExecutorBackend" in command and b"java" in command.split(b"\0")[0]:
                variables = (process / "environ").read_bytes().split(b"\0")
                task = next(v for v in variables if v.startswith(b"MESOS_EXECUTOR_ID="))
                found[task.partition(b"=")[2].decode()] = int(process.name)
    return {task: pid for task, pid in found.items() if task.startswith(f"{job_id}.")}


@pytest.mark.slow
def test_an_executor_killed_in_the_middle_is_placed_again(daemon: Daemon) -> None:
    """A real job loses an executor to kill -9, gets another under a new number, and its result is right."""
    job_id = daemon.submit(12, 1.0, type="squares", name="survivor")
    daemon.wait(job_id, lambda j: len(executor_pids(job_id, daemon)) == 2)
    driver_log = "Registered executor NettyRpcEndpointRef"
    daemon.wait(job_id, lambda _: daemon.printed(job_id, stream="stderr").count(driver_log) == 2)
    secret = json.loads((daemon.folder / "data/records" / job_id / "launch.json").read_text())["secret"]
    assert_nowhere(secret, daemon)
    assert_the_ui_is_shown(job_id, daemon)
    os.kill(executor_pids(job_id, daemon)[f"{job_id}.0"], signal.SIGKILL)
    job = daemon.ended(job_id)
    assert (job["state"], job["exit_code"]) == ("finished", 0), job
    assert daemon.printed(job_id) == f"SUM {sum(x * x for x in range(12))}\n"
    assert [(t["number"], t["vm"]) for t in job["tasks"]] == [(n, "m1.large-1") for n in range(3)]
    failed = [task["number"] for task in job["tasks"] if task["state"] == "failed"]
    # The last executor fails too where it comes up after its driver has stopped.
    assert failed in ([0], [0, 2]), job
    assert job["losses"] == len(failed), job
    assert job["cost"] == pytest.approx(sum(t["cost"] for t in job["tasks"]))
    assert 0 < job["duration"] <= job["completion"]
    decisions = daemon.client.explain(job_id)["explanations"]
    numbers = [[c["executor"] for c in d["choices"]] for d in decisions if d["decision"] == "place"]
    assert numbers == [[0, 1], [2]]
    assert "CoarseGrainedExecutorBackend" in daemon.printed(job_id, 1, "stderr")
    events = list((daemon.folder / "data/jobs" / job_id / "driver/events").iterdir())
    assert events, "Spark's event log is kept"
    assert secret not in events[0].read_text()
    assert_the_audit_prices_it_as_the_bill_does(job, events[0], daemon.stage.url)
    report = httpx.get(f"{daemon.stage.url}/v1/audit", params={"period": "day"}, timeout=300.0)
    assert report.status_code == 200, report.text
    assert "survivor" in report.text


def assert_the_audit_prices_it_as_the_bill_does(job: dict[str, Any], log: Path, url: str) -> None:
    """The event log of the job has from when on, and by which share of its VM, each executor is paid for."""
    [application] = read_logs([str(log)]).applications
    prices = {task["vm_type"]: task["price_per_hour"] for task in job["tasks"]}
    types = {name: VmPrice(cpus=1, memory=1, price_per_hour=price) for name, price in prices.items()}
    priced = Prices(PriceList(types=types))
    logged = {int(executor.id): executor for executor in application.executors}
    tasks = {task["number"]: task for task in job["tasks"] if task["number"] in logged}
    for number, executor in logged.items():
        assert executor.added_at == pytest.approx(tasks[number]["launched_at"], abs=0.001)
    # The last executor may come too late to register.
    if len(tasks) == len(job["tasks"]):
        bill = httpx.get(f"{url}/v1/bill", params={"by": "job"}, timeout=300.0).json()
        [used] = [line["used"] for line in bill["lines"] if line["key"] == job["id"]]
        held = ((priced.per_hour(application, logged[number]), task) for number, task in tasks.items())
        paid = sum(rate * (task["ended_at"] - task["launched_at"]) / 3600 for rate, task in held)
        assert paid == pytest.approx(used, rel=0.001)


def assert_the_ui_is_shown(job_id: str, daemon: Daemon) -> None:
    """Pages of Spark's own UI come through the API, with links that lead through it again."""
    ui = daemon.client.job(job_id)["ui"]
    assert ui is not None
    with httpx.Client(base_url=daemon.stage.url, follow_redirects=True, timeout=300.0) as client:
        page = asked_again(client, ui)
        assert page.status_code == 200, page.text
        assert page.url.path == f"{ui}jobs/"
        assert "Spark Jobs" in page.text
        links = re.findall(r'(?:href|src)="(/[^"]*)"', page.text)
        assert links
        assert all(link.startswith(ui) for link in links), links
        style = next(link for link in links if link.endswith(".css"))
        assert asked_again(client, style).headers["content-type"] == "text/css"
        assert asked_again(client, f"{ui}api/v1/applications").json()[0]["name"] == "survivor"


def test_a_ui_is_for_the_daemon_alone(daemon: Daemon) -> None:
    """Direct requests to a driver's UI port get nothing; a restarted daemon shows the UI again."""
    app, go = daemon.folder / "patient.py", daemon.folder / "go"
    app.write_text(PATIENT_APP)
    spec = {"app": str(app), "args": [str(go)], "executors": 1, "cpus": 1.0, "conf": QUICK_JAVA}
    jobs = {
        place: daemon.client.submit_spec({**spec, "name": place, "driver": {"on": place, "memory": 1024}})[
            "id"
        ]
        for place in ("host", "cluster")
    }
    for name, job_id in jobs.items():
        daemon.wait(job_id, lambda job: "UI" in daemon.printed(job["id"]))
        assert_shown_through_the_api(job_id, name, daemon)
        site = daemon.printed(job_id).split()[1]
        for path in ("", "environment/", "static/webui.css", "api/v1/applications", "metrics/json/"):
            for headers in ({}, {"Authorization": "Bearer " + "0" * 64}):
                response = httpx.get(f"{site}/{path}", headers=headers)
                assert response.status_code == 401, (name, path, headers)
                assert "app-" not in response.text
    daemon.stage.restart()
    daemon.stage.await_ready(daemon.client)
    for name, job_id in jobs.items():
        assert_shown_through_the_api(job_id, name, daemon)
    go.touch()
    for job_id in jobs.values():
        assert daemon.ended(job_id)["state"] == "finished"
        assert daemon.printed(job_id).endswith("SUM 4950\n")


def assert_shown_through_the_api(job_id: str, name: str, daemon: Daemon) -> None:
    """The proxy has the key."""
    with httpx.Client(base_url=daemon.stage.url, timeout=300.0) as client:
        answer = asked_again(client, f"/v1/jobs/{job_id}/ui/api/v1/applications")
        assert answer.status_code == 200, answer.text
        assert answer.json()[0]["name"] == name


def asked_again(client: httpx.Client, path: str) -> httpx.Response:
    """Answer to a path of a UI: a driver on a busy machine may need longer for it than the proxy waits."""
    deadline = time.monotonic() + PATIENCE
    while (answer := client.get(path)).status_code == 503 and time.monotonic() < deadline:
        time.sleep(float(answer.headers["retry-after"]))
    return answer


def assert_nowhere(secret: str, daemon: Daemon) -> None:
    """The secret is in no command line, and in no log that the API or the disk shows."""
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            assert secret.encode() not in (process / "cmdline").read_bytes()
    data = daemon.folder / "data"
    logs = [data / "events.jsonl", daemon.stage.log_file, *data.glob("jobs/*/driver/std*")]
    logs += [*data.glob("mesos/log"), *data.glob("mesos/work/agents/*/frameworks/*/executors/*/runs/*/std*")]
    for log in logs:
        assert secret not in log.read_text(errors="replace"), log


@pytest.mark.slow
def test_the_policy_is_switched_while_it_runs(daemon: Daemon) -> None:
    """From `policy set` on another policy decides, and says why; the job in between is not disturbed."""
    shown = daemon.stoker("policy", "set", "rr", "-o", "json")
    assert shown["name"] == "rr"
    first, second = daemon.submit(2, 0.1), daemon.submit(2, 0.1, executors=1)
    jobs = [daemon.ended(first), daemon.ended(second)]
    assert [t["vm"] for job in jobs for t in job["tasks"]] == [
        "m1.large-1",
        "m1.large-2",
        "m1.large-3",
    ]
    for job in jobs:
        assert job["state"] == "finished", job
        (decision,) = daemon.stoker("explain", job["id"], "-o", "json")["explanations"]
        assert decision["policy"] == "rr"
        assert len(decision["choices"][0]["candidates"]) == 12
    with pytest.raises(Exception, match="nosuch"):
        daemon.client.set_policy("nosuch", {})
    daemon.stoker("policy", "set", "ff")


@pytest.mark.slow
def test_a_driver_on_the_cluster_whose_port_is_taken_is_tried_again(daemon: Daemon) -> None:
    """A driver on the cluster is launched again when a program outside Mesos has its port; the job succeeds.

    Such a driver takes its size from a VM as executors do, and its log is found all the same.
    """
    store = Store(f"sqlite:///{daemon.stage.data_dir / 'stoker.db'}")
    job_id = daemon.submit(2, 0.1, executors=1, driver={"on": "cluster", "cpus": 0.5, "memory": 1024})
    while not (launched := [task for task in store.jobs.executors(job_id) if task.number is None]):
        time.sleep(0.05)
    (driver,) = launched
    store.close()
    with socket.create_server((driver.address, driver.ports[2])):  # Spark comes to its UI last
        job = daemon.ended(job_id)
    assert (job["state"], job["exit_code"]) == ("finished", 0), job
    drivers = [task for task in job["tasks"] if task["number"] is None]
    assert [(task["state"], task["cpus"]) for task in drivers] == [("failed", 0.5), ("finished", 0.5)]
    assert {task["cpus"] for task in job["tasks"] if task["number"] is not None} == {1.0}
    assert daemon.printed(job_id) == "SUM 1\n"


def test_a_job_that_fails_says_why(daemon: Daemon) -> None:
    """A driver that exits with another code than 0 fails its job, and its last error is the job's reason."""
    app = daemon.folder / "broken.py"
    app.write_text("raise ValueError('no rows')")
    job_id = daemon.client.submit_spec({"app": str(app), "executors": 1, "cpus": 0.5, "memory": 1024})["id"]
    job = daemon.ended(job_id)
    assert (job["state"], job["exit_code"]) == ("failed", 1)
    assert job["reason"] == "ValueError: no rows (its driver exited with code 1)"
    for command in ("job", "jobs", "explain"):
        shown = daemon.stoker(command, *([] if command == "jobs" else [job_id]))
        assert "ValueError" in shown, shown


def test_jobs_wait_with_a_reason_and_are_killed(daemon: Daemon) -> None:
    """Jobs without room wait with a reason; killed jobs leave nothing on the cluster."""
    big = daemon.submit(2, 120.0, cpus=4.0)
    wide = daemon.submit(2, 0.1, executors=24, cpus=4.0)  # takes the whole cluster
    third = daemon.submit(2, 120.0, executors=1)
    waiting = daemon.wait(wide, lambda j: j["state"] == "queued" and "room for" in j["reason"])
    assert "24 executors" in waiting["reason"]
    assert wide in daemon.client.job(third)["reason"]
    text = daemon.stoker("explain", wide)
    assert "m1.large-1" in text
    for job_id in (third, wide, big):
        daemon.stoker("kill", job_id)
    assert {daemon.ended(job_id)["state"] for job_id in (third, wide, big)} == {"killed"}
    assert all(vm["used_cpus"] == 0 for vm in daemon.client.cluster()["vms"])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"cpus": 13.0}, "m2.xlarge"),
        ({"executors": 10_000}, "room for"),
        ({"memory": "1m"}, "896"),
        ({"app": "/nowhere/app.py"}, "no such file"),
        ({"main_class": "Main"}, "main_class: Main goes with a jar, not with a Python file"),
        ({"conf": {"spark.authenticate.secret": "mine"}}, "reserved"),
        ({"executors": -1}, "executors"),
        ({"color": "red"}, "unknown key"),
    ],
)
def test_what_cannot_run_is_refused_when_it_is_submitted(
    daemon: Daemon, change: dict[str, Any], complaint: str
) -> None:
    """Bad jobs get a 4xx that names the field or the limit, and are not kept."""
    before = len(daemon.client.jobs(limit=1000)["jobs"])
    with pytest.raises(Exception, match=complaint):
        daemon.submit(1, 0.0, **change)
    assert len(daemon.client.jobs(limit=1000)["jobs"]) == before


def test_what_is_no_jar_is_refused_when_it_is_submitted(daemon: Daemon) -> None:
    """Whether it lies here or was sent."""
    jar = daemon.folder / "no.jar"
    jar.write_text("not a jar")
    for spec in ({"app": str(jar), "main_class": "Main"}, {"app": str(daemon.app), "jars": [str(jar)]}):
        with pytest.raises(StokerError, match=r"no\.jar: not a jar: it is not in the format of zip files"):
            daemon.client.submit_spec(spec)
        with pytest.raises(StokerError, match=r"^no\.jar: not a jar: it is not in the format of zip files"):
            daemon.client.submit_spec(upload_files(daemon.client, spec, lambda _: None))


def test_a_submission_repeated_with_its_key_is_one_job(daemon: Daemon) -> None:
    """An idempotency key given twice names one job."""
    spec = {"app": str(daemon.app), "args": ["1", "0"], "executors": 1, "cpus": 1.0, "memory": 1024}
    ids = {daemon.client.submit_spec(spec, "once")["id"] for _ in range(3)}
    assert len(ids) == 1
    daemon.client.kill(ids.pop())


def test_a_second_daemon_on_the_same_store_is_refused(daemon: Daemon) -> None:
    """`stoker up` on a store that is in use, or a port that is taken, ends with 2 and one line."""
    command = ["up", "--log-level", "error", "--config", str(daemon.stage.config_file)]
    assert "listen" in daemon.stoker(*command, code=2)
    text = daemon.stoker(*command, "--set", "listen=127.0.0.1:0", code=2)
    assert len(text.splitlines()) == 1
    assert "another" in text


def test_the_daemon_does_without_tensorflow(daemon: Daemon) -> None:
    """Nothing of TensorFlow is mapped into the daemon, nor into the embedded Mesos."""
    found = 0
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if str(daemon.folder).encode() in (process / "cmdline").read_bytes():
                found += 1
                assert "tensorflow" not in (process / "maps").read_text()
    assert found >= 2


def test_the_event_log_replays(daemon: Daemon) -> None:
    """The recorded events, through a fresh model, give the recorded commands."""
    model, events = ClusterModel(), 0
    with (daemon.folder / "data/events.jsonl").open() as log:
        for event, commands in replay(log):
            assert model.handle(event) == commands
            model.take_changes()
            events += 1
    assert events > 50
