"""`stoker.session()`: a notebook's SparkSession of its own Spark, with executors placed by the policy."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from framework.spark import local_spark_home, python_path
from tests.real_daemon import QUICK_JAVA, Daemon

NOTEBOOK = """
import json, os, sys, stoker
before = dict(os.environ)
spark = stoker.session(1, memory="1g", name="notebook", type="squares", conf=json.loads(sys.argv[1]))
print("SUM", spark.sparkContext.parallelize(range(10), 2).map(lambda x: x * x).sum(), flush=True)
try:
    stoker.session()
except stoker.StokerError as error:
    print("AGAIN", error, flush=True)
sys.stdin.readline()
spark.stop()
assert os.environ.get("PYSPARK_SUBMIT_ARGS") == before.get("PYSPARK_SUBMIT_ARGS")
"""


@pytest.mark.slow
def test_a_notebook_has_its_executors_from_the_daemon(daemon: Daemon, tmp_path: Path) -> None:
    """It computes; is a job like others; leaves no file, and nothing secret on a command line."""
    spark = local_spark_home(os.environ)
    client = Path(__file__).parents[2] / "client"
    packages = [str(client), *python_path(Path(spark.home))]
    environ = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "SPARK_HOME": spark.home,
        "JAVA_HOME": str(spark.java_home), "STOKER_URL": daemon.stage.url, "PYTHONPATH": ":".join(packages),
        "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    conf = str(QUICK_JAVA | {"spark.driver.memory": "512m"}).replace("'", '"')
    with subprocess.Popen(
        [sys.executable, "-c", NOTEBOOK, conf],
        env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as notebook:  # fmt: skip
        ending = threading.Timer(120, notebook.kill)
        ending.start()
        try:
            assert notebook.stdout is not None
            said = notebook.stdout.readline()
            if not said:
                raise AssertionError((notebook.stderr or sys.stdin).read()[:6000])
            assert said == "SUM 285\n"
            assert "a SparkContext is there already" in notebook.stdout.readline()
            jobs = daemon.client.jobs(limit=1)["jobs"]
            assert (jobs[0]["name"], jobs[0]["type"], jobs[0]["state"]) == ("notebook", "squares", "running")
            job = daemon.client.job(jobs[0]["id"])
            assert [task["vm"] for task in job["tasks"]] == ["m1.large-1"]
            assert job["memory_mib"] == 1024
            assert not _commands_with("spark.authenticate.secret")
            assert not list(tmp_path.glob("stoker-*.properties"))
            notebook.communicate("\n", timeout=600)
        finally:
            ending.cancel()
            notebook.kill()
    deadline = time.monotonic() + 600
    while daemon.client.job(job["id"])["state"] != "finished":
        assert time.monotonic() < deadline, daemon.client.job(job["id"])
        time.sleep(0.2)


def _commands_with(text: str) -> list[bytes]:
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = process.read_bytes()
        except OSError:
            continue
        if text.encode() in command and b"-c" not in command.split(b"\0"):
            found.append(command)
    return found
