"""From spark-submit's start to the first task's result: `python -m tests.benchmarks.start_up --runs 5`.

The same application with one executor comes by each of Stoker's doors, and for comparison by spark-submit
to a standalone master and worker of the same Spark on the same machine, in client mode and, in Scala, in
cluster mode. The ways take turns, so that other load of the machine affects all of them; printed are medians,
the fastest and the slowest, and the medians of how much more a way took than its partner in the same turn.
"""

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from stoker import Stoker

from daemon.cli.operate.temporary_daemon import TemporaryDaemon
from framework.spark import SparkHome, local_spark_home, python_path
from tests.daemon.ports import free_port

_APP = """
import time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
assert spark.sparkContext.parallelize([1], 1).map(lambda x: x + 1).collect() == [2]
print("FIRST", time.time(), flush=True)
spark.stop()
"""
#: The same in Scala: Spark's own standalone cluster mode takes jars only.
_SCALA = """
import org.apache.spark.sql.SparkSession

object First {
  def main(args: Array[String]): Unit = {
    val spark = SparkSession.builder().getOrCreate()
    assert(spark.sparkContext.parallelize(Seq(1), 1).map(_ + 1).collect().toSeq == Seq(2))
    println("FIRST " + java.math.BigDecimal.valueOf(System.currentTimeMillis(), 3).toPlainString)
    spark.stop()
  }
}
"""
_SIZE = ("--executor-memory", "512m", "--driver-memory", "512m")
_SCALA_STANDALONE = "standalone, cluster mode, Scala"
_CLIENT = Path(__file__).parents[2] / "client"
_PATIENCE = 180.0


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure how long it takes until the first task's result.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="", metavar="TEXT", help="ways whose name has this in it")
    asked = parser.parse_args()
    runs = asked.runs
    taken: dict[str, list[float]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stoker-start-up-")))
        made = stack.enter_context(all_ways(folder))
        ways = {name: way for name, way in made.items() if asked.only in name}
        for run in range(runs + 1):  # the first fills the caches, and does not count
            for name, way in ways.items():
                seconds = way()
                if run:
                    taken.setdefault(name, []).append(seconds)
                print(f"{run or 'warm-up'}  {seconds:6.2f} s  {name}", flush=True)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {runs} runs")
    print("median  fastest  slowest  more than standalone in the same mode")
    for name, all_of_it in taken.items():
        reference = taken.get(_SCALA_STANDALONE if "Scala" in name else "standalone, client mode", all_of_it)
        more = statistics.median(one - other for one, other in zip(all_of_it, reference, strict=True))
        print(f"{statistics.median(all_of_it):5.2f} s {min(all_of_it):6.2f} s {max(all_of_it):6.2f} s "
              f"{more:+8.2f} s  {name}")  # fmt: skip
    return 0


@contextmanager
def all_ways(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """The ways by name, each a call that gives the seconds it took."""
    app = folder / "first.py"
    app.write_text(_APP)
    new, old = local_spark_home(os.environ, "4.3"), local_spark_home(os.environ, "3.5")
    with (
        standalone(new, folder) as master,
        TemporaryDaemon(folder, "ff", "clusters/paper.yaml", {"jvms": 1000}) as stage,
        Stoker(stage.url) as client,
    ):
        stage.await_ready(client)
        settings = folder / "stoker.conf"
        command = [sys.executable, "-P", "-m", "daemon.cli", "spark-conf", "--url", stage.url]
        settings.write_text(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        address = stage.url.removeprefix("http://")
        one = ["--conf", "spark.executor.instances=1", "--conf", "spark.executor.cores=1", *_SIZE]

        def submitted(began: float, text: str) -> float:
            found = re.search(r"job-\d+", text)
            assert found is not None, text
            return _first(lambda: str(client.log(found[0]))) - began

        def cluster_by_client() -> float:
            environ = os.environ | {"PYTHONPATH": str(_CLIENT)}
            command = [sys.executable, "-m", "stoker", "spark-submit", "--master", f"mesos://{address}"]
            return submitted(
                time.time(), _run([*command, "--conf", "spark.stoker.spark=4.3", *one, str(app)], environ)
            )

        def cluster_by_spark_submit() -> float:
            command = [
                f"{old.home}/bin/spark-submit",
                "--master",
                f"mesos://{address}",
                "--deploy-mode",
                "cluster",
            ]
            command += ["--conf", "spark.master.rest.enabled=true", "--conf", "spark.stoker.spark=4.3"]
            return submitted(time.time(), _run([*command, *one, str(app)], _environ(old)))

        def in_client_mode(*where: str) -> float:
            began = time.time()
            text = _run([f"{new.home}/bin/spark-submit", *where, *_SIZE, str(app)], _environ(new))
            return _first(lambda: text) - began

        jar = _jar(new, folder)
        scala = ["--deploy-mode", "cluster", "--class", "First", *_SIZE, *one[2:4]]

        def scala_on_standalone() -> float:
            began, before = time.time(), set(folder.glob("work/driver-*"))
            most = ("--conf", "spark.cores.max=1", str(jar))
            _run([f"{new.home}/bin/spark-submit", "--master", master, *scala, *most], _environ(new))
            return _first(lambda: _read(set(folder.glob("work/driver-*")) - before)) - began

        def scala_on_stoker() -> float:
            began = time.time()
            rest = ("--conf", "spark.master.rest.enabled=true", *one[:2], str(jar))
            command = [f"{new.home}/bin/spark-submit", "--master", f"spark://{address}", *scala, *rest]
            return submitted(began, _run(command, _environ(new)))

        yield {
            "standalone, client mode": lambda: in_client_mode(
                "--master", master, "--conf", "spark.cores.max=1", "--conf", "spark.executor.cores=1"
            ),
            "Stoker, client mode (spark+stoker://)": lambda: in_client_mode(
                "--properties-file", str(settings), *one[:4]
            ),
            "Stoker, cluster mode by python -m stoker spark-submit": cluster_by_client,
            "Stoker, cluster mode by spark-submit of 3.5": cluster_by_spark_submit,
            _SCALA_STANDALONE: scala_on_standalone,
            "Stoker, cluster mode, Scala": scala_on_stoker,
        }


@contextmanager
def standalone(home: SparkHome, folder: Path) -> Iterator[str]:
    """A standalone master with one worker, of that Spark; the master's URL."""
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    package, work = "org.apache.spark.deploy", folder / "work"
    work.mkdir()
    commands = (
        (f"{package}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"),
        (f"{package}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--work-dir", str(work),
         "--cores", "4", "--memory", "4g", master),
    )  # fmt: skip
    processes = []
    try:
        for number, command in enumerate(commands):
            log = (folder / f"standalone-{number}.log").open("wb")
            with log:
                processes.append(
                    subprocess.Popen(
                        [f"{home.home}/bin/spark-class", *command],
                        env=_environ(home) | {"SPARK_DAEMON_MEMORY": "512m"}, stdout=log, stderr=log,
                    )
                )  # fmt: skip
        deadline = time.monotonic() + _PATIENCE
        while "Successfully registered with master" not in (folder / "standalone-1.log").read_text():
            assert time.monotonic() < deadline, (folder / "standalone-1.log").read_text()
            time.sleep(0.2)
        yield master
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
            process.wait()


def _jar(home: SparkHome, folder: Path) -> Path:
    """The Scala application."""
    (folder / "First.scala").write_text(_SCALA)
    compiler = ("-cp", f"{home.home}/jars/*", "scala.tools.nsc.Main", "-usejavacp", "-nowarn")
    command = [f"{home.java_home}/bin/java", *compiler, "-d", "first.jar", "First.scala"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "first.jar"


def _read(folders: Iterable[Path]) -> str:
    """Output of the drivers in these folders."""
    return "".join(found.read_text() for one in folders for found in one.glob("stdout"))


def _environ(home: SparkHome) -> dict[str, str]:
    """A user's shell environment."""
    own = {"SPARK_HOME": home.home, "JAVA_HOME": str(home.java_home), "PYSPARK_PYTHON": sys.executable}
    return (
        os.environ
        | own
        | {"PYTHONPATH": ":".join(python_path(Path(home.home))), "SPARK_LOCAL_IP": "127.0.0.1"}
    )


def _run(command: list[str], environ: dict[str, str]) -> str:
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _first(text: Callable[[], str]) -> float:
    """When the application had its first task's result, by its own words."""
    deadline = time.monotonic() + _PATIENCE
    while (found := re.search(r"FIRST ([0-9.]+)", text())) is None:
        assert time.monotonic() < deadline, text()
        time.sleep(0.2)
    return float(found[1])


if __name__ == "__main__":
    sys.exit(main())
