"""Real Spark: a driver on this host and executors on loopback addresses, without Mesos between them."""

import ast
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from conf.schema import Config
from daemon.launch.launcher import Launcher
from environment.resources import Resources
from framework.spark import (
    Application,
    DriverEndpoint,
    DriverPlace,
    DriverStatus,
    ExecutorPlace,
    ProcessSpec,
    driver_process,
    driver_status,
    executor_process,
    local_spark_home,
    start_driver,
    stop_driver,
    ui_key,
)
from tests.real_daemon import QUICK_JAVA

ODD_SETTING = " a\\b=c: é😀\tx\n \t"

# Every task notes on which executor it runs, then waits until the test lets all of them go.
SUM_APPLICATION = """
import os, pathlib, sys, time
from pyspark import SparkContext
import greeting

folder = pathlib.Path(sys.argv[1])

def note(number):
    (folder / ("on-" + os.environ["SPARK_LOCAL_IP"])).touch()
    while not (folder / "go").exists():
        time.sleep(0.05)
    return number * int(os.environ["FACTOR"])

context = SparkContext()
with (folder / "result.txt").open("w", encoding="utf-8") as result:
    print(context.range(0, 1000, numSlices=4).map(note).sum(), file=result)
    print(context.parallelize(range(2), 2).map(lambda _: greeting.WORD).collect(), file=result)
    print(repr(context.getConf().get("spark.test.odd")), file=result)
    print(sys.argv[2], file=result)
context.stop()
"""

# Sets its own master, as many applications do by mistake.
LOCAL_APPLICATION = """
import pathlib, time
from pyspark import SparkContext
context = SparkContext(master="local[1]")
while not pathlib.Path("seen").exists():
    time.sleep(0.05)
context.stop()
"""


#: For drivers to which no executor will come.
ALONE = {**QUICK_JAVA, "spark.scheduler.maxRegisteredResourcesWaitingTime": "1s"}


class Cluster:
    """Starts drivers' and executors' processes for a test and ends those that are left."""

    def __init__(self, folder: Path) -> None:
        #: Where every process has its own folder.
        self.folder = folder
        #: The job's secret.
        self.secret = secrets.token_hex(16)
        self.spark = local_spark_home(os.environ)
        self.shape = Resources.of(cpus=1.0, memory_mib=1024)
        ports = free_ports(3)
        self.endpoint = DriverEndpoint("127.0.0.1", ports[0], ports[1], ports[2], memory_mib=1024)
        self.records = folder / "records"
        #: Started here, ended in `close`.
        self.processes: list[subprocess.Popen[bytes]] = []

    def driver_spec(self, application: Application, fetch: bool = False) -> ProcessSpec:
        """The driver's process."""
        fetched = "file://{}".format if fetch else None
        return driver_process(
            "sum", application, self.endpoint, [self.shape] * 2, self.secret, self.spark, fetched=fetched
        )

    def start_executor(
        self, application: Application, number: int, address: str
    ) -> "subprocess.Popen[bytes]":
        """Start an executor as an agent would: in a folder and a session of its own."""
        place = ExecutorPlace(number, address, free_ports(1, address)[0])
        spec = executor_process(application, self.endpoint, place, self.shape, self.secret, self.spark)
        return self.start(spec, f"executor-{number}")

    def start(self, spec: ProcessSpec, name: str, **variables: str) -> "subprocess.Popen[bytes]":
        """Start a process in a new folder of this name, with further variables."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        with (folder / "stdout").open("w") as out, (folder / "stderr").open("w") as err:
            process = subprocess.Popen(
                spec.argv,
                env={"PATH": os.environ["PATH"], **spec.environment, **spec.secrets, **variables},
                cwd=folder,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def close(self) -> None:
        """End the remaining processes."""
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        stop_driver(self.records)
        wait_until(lambda: driver_status(self.records).state != "running")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Give a cluster that leaves no process behind."""
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


def free_ports(count: int, address: str = "127.0.0.1") -> list[int]:
    """Ports that are free now."""
    sockets = [socket.create_server((address, 0)) for _ in range(count)]
    ports = [listening.getsockname()[1] for listening in sockets]
    for listening in sockets:
        listening.close()
    return ports


def wait_until(condition: Callable[[], object]) -> None:
    """Return once the condition holds; pytest's own time limit ends a wait without end."""
    while not condition():
        time.sleep(0.05)


def command_lines() -> bytes:
    """The command lines of all processes."""
    lines = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines += path.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
    return lines


def answers_of_ui(port: int, key: str) -> str:
    """The application's settings in Spark's UI, as data and as a page."""
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers) as ui:
        application = ui.get("/api/v1/applications").json()[0]["id"]
        return ui.get(f"/api/v1/applications/{application}/environment").text + ui.get("/environment/").text


def answers_to_strangers(log: str) -> dict[str, set[int]]:
    """The status codes with which all web servers that this log of a driver names answer."""
    answers: dict[str, set[int]] = {}
    for name, port in re.findall(r"service '(\w+UI)' on port (\d+)", log):
        for path in ("", "environment/", "static/webui.css", "api/v1/applications", "json/", "metrics/json/"):
            for headers in ({}, {"Authorization": "Bearer"}, {"Authorization": "Bearer " + "0" * 64}):
                for method in ("GET", "HEAD", "POST", "OPTIONS"):
                    url = f"http://127.0.0.1:{port}/{path}"
                    answer = httpx.request(method, url, headers=headers)
                    answers.setdefault(name, set()).add(answer.status_code)
    return answers


@pytest.mark.slow
def test_job_survives_the_loss_of_an_executor(cluster: Cluster, tmp_path: Path) -> None:
    """A job with a killed executor goes on with a new one, ends well, and shows its secret nowhere."""
    (tmp_path / "app.py").write_text(SUM_APPLICATION)
    (tmp_path / "greeting.py").write_text("WORD = 'hello'\n")
    application = Application(
        str(tmp_path / "app.py"),
        arguments=(str(tmp_path), "two words"),
        py_files=(str(tmp_path / "greeting.py"),),
        conf={**QUICK_JAVA, "spark.test.odd": ODD_SETTING},
        environment={"FACTOR": "2"},
    )
    driver = tmp_path / "driver"
    place = DriverPlace(driver, cluster.records)
    start_driver(cluster.driver_spec(application), place, os.environ)
    first = cluster.start_executor(application, 1, "127.0.1.1")
    second = cluster.start_executor(application, 2, "127.0.1.2")
    wait_until(lambda: (tmp_path / "on-127.0.1.1").exists() and (tmp_path / "on-127.0.1.2").exists())

    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    third = cluster.start_executor(application, 3, "127.0.1.3")
    wait_until((tmp_path / "on-127.0.1.3").exists)
    assert driver_status(cluster.records) == DriverStatus("running")
    assert (driver / "spark.properties").stat().st_mode & 0o777 == 0o600
    key = ui_key(cluster.secret)
    shown = command_lines() + answers_of_ui(cluster.endpoint.ui_port, key).encode()
    assert b"CoarseGrainedExecutorBackend" in shown
    assert b"spark.authenticate.secret" in shown
    assert b"spark.stoker.KeyFilter.param.secret" in shown
    assert [secret for secret in (cluster.secret, key) if secret.encode() in shown] == []
    kept = Path(cluster.spark.home).with_name("classes.jsa")
    assert (str(kept) in Path(f"/proc/{third.pid}/maps").read_text()) == kept.exists()
    assert answers_to_strangers((driver / "stderr").read_text()) == {"SparkUI": {401}, "MasterUI": {401}}
    (tmp_path / "go").touch()

    wait_until(lambda: driver_status(cluster.records).state != "running")
    assert driver_status(cluster.records) == DriverStatus("ended", 0), (driver / "stderr").read_text()
    assert (second.wait(), third.wait()) == (0, 0)
    result = (tmp_path / "result.txt").read_text(encoding="utf-8").splitlines()
    assert result == ["999000", "['hello', 'hello']", repr(ODD_SETTING), "two words"]
    assert len(list((driver / "events").iterdir())) == 1
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    for secret in (cluster.secret, key):
        assert [path for path in files if secret.encode() in path.read_bytes()] == []


# Eight tasks that wait for each other, so that all run at once and none can use what another has.
RESOURCES_APPLICATION = """
import os, pathlib, sys, time
from pyspark import SparkContext, TaskContext

folder = pathlib.Path(sys.argv[1])

def has(number):
    (folder / f"task-{number}").touch()
    while len(list(folder.glob("task-*"))) < 8:
        time.sleep(0.05)
    found = TaskContext.get().resources()
    return os.environ["SPARK_LOCAL_IP"], sorted((name, each.addresses) for name, each in found.items())

context = SparkContext()
found = context.parallelize(range(8), 8).map(has).collect()
(folder / "result.txt").write_text(repr(sorted(found)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kinds"), [("3.5", ["gpu"]), ("4.3", ["fpga", "gpu", "nic"])])
def test_executors_have_the_resources_that_their_settings_name(
    cluster: Cluster, tmp_path: Path, version: str, kinds: list[str]
) -> None:
    """Executors have each kind, also without a discovery script; a script's findings come first.

    Tasks share one or have several, all of their own executor. PySpark 3.5 shows a task one kind only, the
    last of them.
    """
    cluster.spark = local_spark_home(os.environ, version)
    cluster.shape = Resources.of(cpus=4.0, memory_mib=1024)
    (tmp_path / "app.py").write_text(RESOURCES_APPLICATION)
    script = tmp_path / "find.sh"
    script.write_text("""echo '{"name": "fpga", "addresses": ["f7"]}'""")
    script.chmod(0o755)
    amounts = {"gpu": ("2", "0.5"), "fpga": ("1", "0.25"), "nic": ("8", "2")}
    conf = {f"spark.executor.resource.{kind}.amount": amounts[kind][0] for kind in kinds}
    conf |= {f"spark.task.resource.{kind}.amount": amounts[kind][1] for kind in kinds}
    if "fpga" in kinds:
        conf["spark.executor.resource.fpga.discoveryScript"] = str(script)
    application = Application(
        str(tmp_path / "app.py"), arguments=(str(tmp_path),), conf={**QUICK_JAVA, **conf}
    )
    start_driver(
        cluster.driver_spec(application), DriverPlace(tmp_path / "driver", cluster.records), os.environ
    )
    executors = [cluster.start_executor(application, number, f"127.0.1.{number}") for number in (1, 2)]
    wait_until(lambda: driver_status(cluster.records).state != "running")
    assert driver_status(cluster.records) == DriverStatus("ended", 0), (
        tmp_path / "driver/stderr"
    ).read_text()
    found = ast.literal_eval((tmp_path / "result.txt").read_text())
    units = {
        "fpga": [["f7"]] * 4,
        "gpu": [["0"], ["0"], ["1"], ["1"]],
        "nic": [["0", "1"], ["2", "3"], ["4", "5"], ["6", "7"]],
    }
    for address in ("127.0.1.1", "127.0.1.2"):
        shown = [dict(resources) for executor, resources in found if executor == address]
        assert {kind: sorted(task[kind] for task in shown) for kind in kinds} == {
            kind: units[kind] for kind in kinds
        }
    assert [executor.wait() for executor in executors] == [0, 0]


def test_executor_tells_when_the_application_has_a_local_master(cluster: Cluster, tmp_path: Path) -> None:
    """An application that runs in its driver alone, here one fetched as on the cluster, is named as such."""
    (tmp_path / "local.py").write_text(LOCAL_APPLICATION)
    application = Application(str(tmp_path / "local.py"), conf=QUICK_JAVA)
    spec = cluster.driver_spec(application, fetch=True)
    task = tmp_path / "task"
    task.mkdir()
    (task / "local.py").write_text(Path(spec.uris[0].value.removeprefix("file://")).read_text())
    driver = cluster.start(spec, "task")
    executor = cluster.start_executor(application, 1, "127.0.1.1")
    assert executor.wait() == 3
    assert "runs in its driver alone (local-" in (tmp_path / "executor-1" / "stderr").read_text()
    (task / "seen").touch()
    assert driver.wait() == 0


def test_executor_gives_up_without_a_driver(cluster: Cluster, tmp_path: Path) -> None:
    """An executor without an answer from its driver ends by itself and reports the awaited address."""
    application = Application("/apps/app.py")
    place = ExecutorPlace(1, "127.0.1.1", 0)
    spec = executor_process(
        application, cluster.endpoint, place, cluster.shape, "", cluster.spark, patience_seconds=0.5
    )
    assert cluster.start(spec, "executor-1").wait() == 4
    told = f"the driver's UI at 127.0.0.1:{cluster.endpoint.ui_port} told no application id in 1 s"
    assert told in (tmp_path / "executor-1" / "stderr").read_text()


@pytest.mark.parametrize(
    ("core", "code", "refusals"),
    [("2.12-3.5.9", 5, 0), ("2.12-3.5.9", 5, 1), ("2.13-4.3.1", 9, 0), ("", 9, 1)],
)
def test_executor_of_another_spark_than_its_driver_gives_up(
    cluster: Cluster, tmp_path: Path, core: str, code: int, refusals: int
) -> None:
    """It gives up before it joins; one of unknown version goes on, to the stand-in for Spark here.

    A driver with a filter of an earlier Stoker refuses unknown requests, and is asked as Spark is.
    """
    home = tmp_path / "home"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / f"spark-core_{core}.jar").touch()
    (home / "bin").mkdir()
    (home / "bin/spark-class").write_text("#!/bin/sh\nexit 9\n")
    (home / "bin/spark-class").chmod(0o755)
    place = ExecutorPlace(1, "127.0.1.1", 0)
    spark = replace(cluster.spark, home=str(home))
    spec = executor_process(Application("/app.py"), cluster.endpoint, place, cluster.shape, "", spark)
    with socket.create_server(("127.0.0.1", cluster.endpoint.ui_port)) as ui:
        executor = cluster.start(spec, "executor-1")
        told = [{"id": "app-1", "name": "x", "attempts": [{"appSparkVersion": "4.3.0"}]}]
        answers = [b"HTTP/1.1 302 Found\r\nLocation: /jobs/\r\n\r\n"] * refusals
        answers.append(b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(told, indent=2).encode())
        for answer, path in zip(answers, ("/stoker/application", "/api/v1/applications"), strict=False):
            connection, _ = ui.accept()
            with connection, connection.makefile("rb") as asked:
                assert asked.readline().split()[1] == path.encode()
                while asked.readline().strip():
                    pass
                connection.sendall(answer)
        assert executor.wait() == code
    said = (tmp_path / "executor-1" / "stderr").read_text()
    assert ("its driver is of Spark 4.3.0, and" in said) == (code == 5), said


def test_waiting_executor_ends_on_sigterm(cluster: Cluster, tmp_path: Path) -> None:
    """An executor that still waits for its driver ends as soon as it is told to."""
    executor = cluster.start_executor(Application("/apps/app.py"), 1, "127.0.1.1")
    wait_until(lambda: "waits for the driver" in (tmp_path / "executor-1" / "stderr").read_text())
    os.kill(executor.pid, signal.SIGTERM)
    assert executor.wait() == -signal.SIGTERM


@pytest.mark.parametrize("taken", ["port", "ui_port"])
def test_a_port_that_is_taken_is_told_in_words_that_are_understood(cluster: Cluster, taken: str) -> None:
    """Spark's own, by which such an end is told from a failure of the job."""
    (cluster.folder / "app.py").write_text("from pyspark import SparkContext\nSparkContext()\n")
    with socket.create_server(("127.0.0.1", getattr(cluster.endpoint, taken))):
        spec = cluster.driver_spec(Application(app=str(cluster.folder / "app.py"), conf=QUICK_JAVA))
        start_driver(spec, DriverPlace(cluster.folder / "driver", cluster.records), os.environ)
        wait_until(lambda: driver_status(cluster.records).state != "running")
    launcher = Launcher(Config(), cluster.folder, "127.0.0.1")
    shutil.copytree(cluster.folder / "driver", launcher.folder("job-1") / "driver")
    assert "BindException" in launcher.host_trouble("job-1", driver_status(cluster.records))


@pytest.mark.parametrize("taken", ["block_manager_port", None])
def test_a_task_tells_by_98_that_a_port_is_taken(cluster: Cluster, tmp_path: Path, taken: str) -> None:
    """And by that alone: an application's own 98 becomes 1; SIGTERM lets Spark end in order."""
    text = "import os, sys\nfrom pyspark import SparkContext\nSparkContext()\n"
    (tmp_path / "app.py").write_text(f"{text}sys.exit(98)\n")
    spec = cluster.driver_spec(Application(app=str(tmp_path / "app.py"), conf=ALONE))
    port = getattr(cluster.endpoint, taken) if taken else 0
    with socket.create_server(("127.0.0.1", port)):
        assert cluster.start(spec, "task", STOKER_TASK="yes").wait() == (98 if taken else 1)


def test_a_task_that_is_told_to_end_ends_in_order(cluster: Cluster, tmp_path: Path) -> None:
    """Its shell waits for Spark, which closes its event log before."""
    text = "import time\nfrom pyspark import SparkContext\nSparkContext()\nprint('here', flush=True)\n"
    (tmp_path / "app.py").write_text(f"{text}time.sleep(60)\n")
    spec = cluster.driver_spec(Application(app=str(tmp_path / "app.py"), conf=ALONE))
    driver = cluster.start(spec, "task", STOKER_TASK="yes")
    wait_until(lambda: (tmp_path / "task" / "stdout").read_text())
    os.killpg(driver.pid, signal.SIGTERM)
    assert driver.wait() == 143
    (log,) = (tmp_path / "task" / "events").iterdir()
    assert not log.name.endswith(".inprogress")
