"""Spark's own servers as jobs, asked by their own clients: Thrift's and Connect's."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from framework.spark import SparkHome, connect_path, local_spark_home
from tests.doors.page import commands, programs
from tests.doors.test_client_mode import DYNAMIC, LONGEST, job_of, printed, settings, started
from tests.real_daemon import QUICK_JAVA, Daemon

THRIFT = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"


def _asked(spark: SparkHome, port: int, query: str) -> str:
    """Output of Spark's beeline for a query."""
    beeline = ("-cp", f"{spark.home}/jars/*", "org.apache.hive.beeline.BeeLine", "--silent=true")
    command = [f"{spark.java_home}/bin/java", "-XX:TieredStopAtLevel=1", *beeline, "--outputformat=csv2"]
    command += ["-u", f"jdbc:hive2://127.0.0.1:{port}", "-e", query]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False).stdout


def _asked_by_connect(spark: SparkHome, server: str, folder: Path) -> str:
    """Output of the page's client of Connect."""
    path = connect_path(Path(spark.home))
    if not path:
        pytest.skip("the client of Spark Connect is not here: `stoker spark add 4.3 --connect` fetches it")
    (folder / "client.py").write_text(programs("Spark Connect")[-1])
    environment = {**os.environ, "PYTHONPATH": ":".join(path)}
    command = [sys.executable, str(folder / "client.py"), server]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False
    )
    return done.stdout + done.stderr


def _answers(port: int) -> bool:
    """Whether somebody listens there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        free = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in free]


@pytest.mark.slow
def test_a_connect_server_on_the_cluster_answers(daemon: Daemon, tmp_path: Path) -> None:
    """Submitted as the page says: queries and functions of a Python elsewhere run on its executors."""
    spark, (port,) = local_spark_home(os.environ), _free_ports(1)
    (command,) = commands("Spark Connect")
    for number, word in enumerate(command):
        command[number] = word.replace("SPARK_HOME", spark.home).replace("15002", str(port))
    command[command.index("--max-executors") + 1] = "1"
    small = ["--memory", "896m", "--driver-memory", "1g"]
    for name, value in QUICK_JAVA.items():
        small += ["--conf", f"{name}={value}"]
    job_id = daemon.stoker(*command[:1], *small, "-o", "json", *command[1:])["id"]
    daemon.wait(job_id, lambda job: _answers(port) or job["state"] == "failed")
    said = _asked_by_connect(spark, f"sc://127.0.0.1:{port}", tmp_path)
    job = daemon.client.job(job_id)
    daemon.client.kill(job_id)
    assert "SUM 499500\nSQUARES [0, 1, 4, 9]\n" in said, (said, job)
    on = [task["vm"] for task in job["tasks"]]
    assert len(on) > 1
    assert set(on) <= {"m1.large-1", "m1.large-2"}
    assert daemon.ended(job_id)["cost"] > 0


@pytest.mark.slow
def test_thrifts_server_answers_a_query(daemon: Daemon, tmp_path: Path) -> None:
    """By an executor that the policy placed, and Connect's clients too; ended by a signal, it was killed."""
    spark, (port, connect_port) = local_spark_home(os.environ), _free_ports(2)
    plugin = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(connect_port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }
    one = {"spark.dynamicAllocation.maxExecutors": "1"}
    file = settings(daemon.stoker("spark-conf"), tmp_path, {**DYNAMIC, **one, **plugin})
    server = ("spark-submit", "--properties-file", file, "--class", THRIFT, "--name", "sql", "spark-internal")
    where = (f"hive.server2.thrift.port={port}", "hive.server2.thrift.bind.host=127.0.0.1")
    options = [part for one in where for part in ("--hiveconf", one)]
    with started(daemon, spark, tmp_path, *server, *options) as process:
        job_id = job_of(daemon, printed(tmp_path, "stoker: this is "))["id"]
        deadline = time.monotonic() + LONGEST
        while not _answers(port):
            assert time.monotonic() < deadline, (tmp_path / "printed").read_text()
            time.sleep(0.2)
        while not re.search("499500,1000", _asked(spark, port, "select sum(id), count(*) from range(1000)")):
            assert time.monotonic() < deadline, (tmp_path / "printed").read_text()
            time.sleep(1)
        assert daemon.client.job(job_id)["tasks"][0]["vm"] == "m1.large-1"
        said = _asked_by_connect(spark, f"sc://127.0.0.1:{connect_port}", tmp_path)
        assert "SUM 499500\nSQUARES [0, 1, 4, 9]\n" in said, said
        process.terminate()
        job = daemon.ended(job_id)
    assert (job["state"], job["reason"]) == ("killed", "its driver was ended by SIGTERM")
    assert job["cost"] > 0
