"""Spark's own drivers, unmodified, on `spark+stoker://`: a shell, spark-submit, a session that ends badly."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from framework.spark import SparkHome, local_spark_home
from tests.doors.page import commands
from tests.real_daemon import QUICK_JAVA, Daemon

#: Seconds after which a test gives up.
LONGEST = 600.0
#: The smallest heaps that Spark takes, and JVMs that are quick to start.
SMALL = {
    **QUICK_JAVA,
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.ui.showConsoleProgress": "false",
}
FIXED = {"spark.executor.instances": "2"}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": "3",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
}


@pytest.fixture(scope="module")
def spark() -> SparkHome:
    """The default Spark on this host."""
    return local_spark_home(os.environ)


@pytest.fixture(scope="module")
def conf(daemon: Daemon) -> str:
    """Output of `stoker spark-conf`."""
    return str(daemon.stoker("spark-conf"))


def settings(conf: str, folder: Path, more: Mapping[str, str]) -> str:
    """A properties file's path, with the smallest JVMs."""
    path = folder / "stoker.conf"
    path.write_text(conf + "".join(f"{name} {value}\n" for name, value in {**SMALL, **more}.items()))
    return str(path)


@contextlib.contextmanager
def started(daemon: Daemon, spark: SparkHome, folder: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """A program of Spark's, with a pipe to it; its output goes to `printed`."""
    environment = {
        **os.environ,
        "SPARK_HOME": spark.home,
        "JAVA_HOME": spark.java_home or "",
        "PYSPARK_PYTHON": daemon.python,
        "PYSPARK_DRIVER_PYTHON_OPTS": "-i",  # as at a terminal: with `sc` and `spark`
    }
    with (folder / "printed").open("w") as out:
        process = subprocess.Popen(
            [f"{spark.home}/bin/{command[0]}", *command[1:]],
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()


def printed(folder: Path, text: str, count: int = 1) -> str:
    """Wait until that was printed so often; all that was."""
    deadline = time.monotonic() + LONGEST
    while (said := (folder / "printed").read_text()).count(text) < count:
        assert time.monotonic() < deadline, said
        time.sleep(0.1)
    return said


def job_of(daemon: Daemon, said: str) -> Any:
    """The job that a driver says it is."""
    return daemon.client.job(said.partition("stoker: this is ")[2].split()[0])


def executors(variable: str) -> list[int]:
    """The pids of the JVMs of executors that have this in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_executor = b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes()
            if is_executor and variable.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


@pytest.mark.slow
def test_a_shell_outlives_executors_and_the_daemon(
    daemon: Daemon, spark: SparkHome, conf: str, tmp_path: Path
) -> None:
    """At a prompt: right results after an executor and the daemon were killed; `stoker kill` ends it."""
    file = settings(conf, tmp_path, {**FIXED, "spark.executorEnv.SHELL_OF": str(tmp_path)})
    with started(daemon, spark, tmp_path, "pyspark", "--properties-file", file) as shell:
        assert shell.stdin is not None

        def say(line: str) -> None:
            assert shell.stdin is not None
            print(line, file=shell.stdin, flush=True)

        say("print('SUM', sc.parallelize(range(100), 4).map(lambda x: x * x).sum())")
        job = job_of(daemon, printed(tmp_path, "SUM 328350"))
        assert (job["state"], job["executors"], len(job["tasks"])) == ("running", 2, 2)
        assert job["ui"].startswith("http://127.0.0.1:")
        assert daemon.client.explain(job["id"])["explanations"]
        os.kill(executors(f"SHELL_OF={tmp_path}")[0], signal.SIGKILL)
        daemon.wait(job["id"], lambda j: j["losses"] == 1 and j["state"] == "running")
        say("print('SUM', sc.parallelize(range(100), 4).map(lambda x: x * x).sum())")
        printed(tmp_path, "SUM 328350", 2)
        daemon.stage.restart()
        daemon.stage.await_ready(daemon.client)
        say("print('SUM', sc.parallelize(range(100), 4).map(lambda x: x * x).sum())")
        printed(tmp_path, "SUM 328350", 3)
        time.sleep(3)  # a sign of life and more: it is taken by the daemon that is there now
        assert daemon.client.job(job["id"])["state"] == "running"
        daemon.client.kill(job["id"])
        printed(tmp_path, f"stoker: {job['id']} was ended: killed on request")
        assert all(task["ended_at"] for task in daemon.ended(job["id"])["tasks"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "lines", "answer"),
    [
        (
            "spark-shell",
            "case class One(n: Long)\nsc.range(0, 1000).map(One(_)).map(_.n).sum()\n:quit\n",
            "499500.0",
        ),
        ("spark-sql", "select sum(id), count(*) from range(1000);\nexit;\n", "499500\t1000"),
    ],
    ids=["spark-shell", "spark-sql"],
)
def test_lines_for_a_shell_run_on_executors(
    daemon: Daemon, spark: SparkHome, conf: str, tmp_path: Path, program: str, lines: str, answer: str
) -> None:
    """Scala with a class of its own, which executors fetch from the shell, and SQL."""
    file = settings(conf, tmp_path, {"spark.executor.instances": "1"})
    with started(daemon, spark, tmp_path, program, "--properties-file", file) as shell:
        assert shell.stdin is not None
        print(lines, file=shell.stdin, flush=True)
        job = job_of(daemon, printed(tmp_path, answer))
        assert shell.wait(LONGEST) == 0
    ended = daemon.ended(job["id"])
    assert (ended["state"], len(ended["tasks"])) == ("finished", 1)


def test_an_example_of_sparks_own_grows_as_it_needs(
    daemon: Daemon, spark: SparkHome, conf: str, tmp_path: Path
) -> None:
    """Pi by spark-submit, under dynamic allocation: it begins with no executor at all."""
    file = settings(conf, tmp_path, DYNAMIC)
    pi = (str(next(Path(spark.home, "examples").rglob("pi.py"))), "6")
    with started(daemon, spark, tmp_path, "spark-submit", "--properties-file", file, *pi) as submitted:
        assert submitted.wait(LONGEST) == 0
    said = printed(tmp_path, "Pi is roughly 3.1")
    job = daemon.ended(job_of(daemon, said)["id"])
    assert (job["state"], job["reason"], job["name"]) == ("finished", "its driver stopped", "PythonPi")
    assert 1 <= len(job["tasks"]) <= 3
    assert job["cost"] > 0


@pytest.mark.parametrize(("last", "code"), [("raise SystemExit(3)", 3), ("context._jvm.System.exit(4)", 4)])
def test_an_application_that_crashes_has_failed(
    daemon: Daemon, spark: SparkHome, conf: str, tmp_path: Path, last: str, code: int
) -> None:
    """With the exit code of its Python or Java, although Spark stops its context as of one that is done."""
    app = tmp_path / "app.py"
    app.write_text(f"from pyspark import SparkContext\ncontext = SparkContext()\n{last}\n")
    file = settings(conf, tmp_path, DYNAMIC)
    with started(daemon, spark, tmp_path, "spark-submit", "--properties-file", file, str(app)) as submitted:
        assert submitted.wait(LONGEST) == code
    job = daemon.ended(job_of(daemon, printed(tmp_path, "stoker: this is "))["id"])
    why = f"its driver exited with code {code}"
    assert (job["state"], job["exit_code"], job["reason"]) == ("failed", code, why)


def test_a_driver_that_is_killed_leaves_nothing(
    daemon: Daemon, spark: SparkHome, conf: str, tmp_path: Path
) -> None:
    """Its executors end with it; its job has failed a few seconds later."""
    app = tmp_path / "app.py"
    app.write_text(
        "from pyspark import SparkContext\n"
        "context = SparkContext()\n"
        "print('SUM', context.parallelize(range(10), 2).sum(), flush=True)\n"
        "import time; time.sleep(600)\n"
    )
    file = settings(conf, tmp_path, FIXED)
    with started(daemon, spark, tmp_path, "spark-submit", "--properties-file", file, str(app)) as driver:
        job = job_of(daemon, printed(tmp_path, "SUM 45"))
        os.killpg(driver.pid, signal.SIGKILL)
        begin = time.monotonic()
        job = daemon.ended(job["id"])
    assert (job["state"], job["reason"].rpartition("was ")[2]) == ("failed", "not heard of for 6 s"), str(job)
    assert time.monotonic() - begin < LONGEST, job


#: A daemon that refuses what a driver wants, is busy when it leaves, and counts its signs of life.
REFUSING = """
import json, threading, http.server
beats, goodbyes = [], []
class Refusing(http.server.BaseHTTPRequestHandler):
    def answer(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        status, said = 200, {"stop": None, "waits": None, "lost": [], "decommission": []}
        if self.path == "/v1/applications":
            status, said = 201, {"id": "job-1", "key": "k", "heartbeat": 0.1, "executors": 3}
        elif self.path.endswith("/executors"):
            status, said = 422, {"detail": "there are no such executors"}
        elif self.path.endswith("/heartbeat"):
            beats.append(self.path)
        elif self.command == "DELETE":
            goodbyes.append(self.path)
            status, said = (503, {"detail": "it is busy"}) if len(goodbyes) == 1 else (200, {})
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_PUT = do_DELETE = answer
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
threading.Thread(target=server.serve_forever, daemon=True).start()
conf = SparkConf().setMaster(f"spark+stoker://127.0.0.1:9,127.0.0.1:{server.server_port}")
conf.set("spark.dynamicAllocation.enabled", "true").set("spark.stoker.token", "t0ken")
conf.set("spark.scheduler.maxRegisteredResourcesWaitingTime", "300s")
begin = time.monotonic()
with SparkContext(conf=conf) as sc:
    jars = sc._jsc.sc().conf().contains("spark.app.initial.jar.urls"), sc._jsc.sc().listJars().size()
    print("THERE", time.monotonic() - begin < 250, "PARTS", sc.defaultParallelism, "JARS", *jars, flush=True)
    deadline = time.monotonic() + 100
    while len(beats) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    print("BEATS", len(beats) >= 3, "TOKEN", sc._jsc.sc().conf().contains("spark.stoker.token"), flush=True)
print("GOODBYES", len(goodbyes), flush=True)
"""


def test_what_is_wrong_is_said_in_a_line(daemon: Daemon, spark: SparkHome, conf: str, tmp_path: Path) -> None:
    """The terminal shows it within 5 s: no daemon behind the URL, executors that never fit, no URL at all.

    A busy machine takes up to a few times Spark's own start time.
    And a driver that is refused some executors goes on with others.
    """
    master = daemon.stage.url.replace("http", "spark+stoker")
    wrong = [
        ("spark+stoker://127.0.0.1:9", "1", "stoker: no daemon answers at http://127.0.0.1:9: Connection"),
        (master, "500", "stoker: the empty cluster has room for"),
        ("spark+stoker://nowhere", "1", "stoker: the master should be like spark+stoker://HOST:PORT, with"),
    ]
    app = tmp_path / "app.py"
    app.write_text(
        "import time\n"
        "print('BEGAN', time.time(), flush=True)\n"
        "from pyspark import SparkConf, SparkContext\n"
        f"for master, executors, _ in {wrong!r}:\n"
        "    begin = time.monotonic()\n"
        "    conf = SparkConf().setMaster(master).set('spark.executor.instances', executors)\n"
        "    try:\n"
        "        SparkContext(conf=conf)\n"
        "    except Exception as error:\n"
        "        print('TOOK', time.monotonic() - begin, flush=True)\n" + REFUSING
    )
    file = settings(conf, tmp_path, {})
    launched = time.time()
    with started(daemon, spark, tmp_path, "spark-submit", "--properties-file", file, str(app)) as driver:
        driver.wait(LONGEST)
    said = printed(tmp_path, "TOOK", len(wrong))
    for _, _, line in wrong:
        assert line in said
    took = [float(line.split()[1]) for line in said.splitlines() if line.startswith("TOOK")]
    began = next(float(line.split()[1]) for line in said.splitlines() if line.startswith("BEGAN"))
    assert max(took) < max(5.0, 4 * (began - launched))
    # What is refused keeps no sign of life back; nobody is sent the token.
    assert "Stoker: there are no such executors" in said
    assert "BEATS True TOKEN False" in said
    assert "GOODBYES 2" in said  # nobody took the first
    # It does not wait for its three executors, which are sent no jar of ours.
    assert "THERE True PARTS 3 JARS False 0" in said


def test_the_settings_are_as_documented(daemon: Daemon, tmp_path: Path) -> None:
    """Each command of Stoker's in docs/submit.md prints settings; `--jar` fetches the jar that they name."""
    plain, with_jar = commands("Client mode: shells, notebooks, SQL")
    assert plain[-2:] == [">", "stoker.conf"]
    printed_settings = dict(line.split(None, 1) for line in daemon.stoker(*plain[:-2]).splitlines())
    assert printed_settings["spark.master"] == daemon.stage.url.replace("http", "spark+stoker")
    jar = tmp_path / with_jar[with_jar.index("--jar") + 1]
    with_jar[with_jar.index("--jar") + 1] = str(jar)
    other = daemon.stoker(*with_jar)
    assert other["spark.driver.extraClassPath"] == str(jar)
    assert jar.stat().st_size > 10_000
    assert other["spark.authenticate.secret"] != printed_settings["spark.authenticate.secret"]
    refusal = daemon.stoker("spark-conf", "--version", "2.4", code=2)
    assert "stoker: --version: Spark 2.4 is not available; available are 4.3" in refusal
