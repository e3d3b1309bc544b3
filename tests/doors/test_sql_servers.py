"""Spark's own SQL server on `spark+stoker://`: started by spark-submit, asked by its own client."""

import os
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest

from framework.spark import SparkHome, local_spark_home
from tests.doors.test_client_mode import DYNAMIC, LONGEST, job_of, printed, settings, started
from tests.real_daemon import Daemon

THRIFT = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"


def _asked(spark: SparkHome, port: int, query: str) -> str:
    """What Spark's beeline prints of a query."""
    beeline = ("-cp", f"{spark.home}/jars/*", "org.apache.hive.beeline.BeeLine", "--silent=true")
    command = [f"{spark.java_home}/bin/java", "-XX:TieredStopAtLevel=1", *beeline, "--outputformat=csv2"]
    command += ["-u", f"jdbc:hive2://127.0.0.1:{port}", "-e", query]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False).stdout


@pytest.mark.slow
def test_thrifts_server_answers_a_query(daemon: Daemon, tmp_path: Path) -> None:
    """By an executor that the policy placed; ended by a signal, its job was killed."""
    spark = local_spark_home(os.environ)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = settings(daemon.stoker("spark-conf"), tmp_path, DYNAMIC)
    server = ("spark-submit", "--properties-file", file, "--class", THRIFT, "--name", "sql", "spark-internal")
    where = (f"hive.server2.thrift.port={port}", "hive.server2.thrift.bind.host=127.0.0.1")
    options = [part for one in where for part in ("--hiveconf", one)]
    with started(daemon, spark, tmp_path, *server, *options) as process:
        job_id = job_of(daemon, printed(tmp_path, "stoker: this is "))["id"]
        deadline = time.monotonic() + LONGEST
        while not re.search("499500,1000", _asked(spark, port, "select sum(id), count(*) from range(1000)")):
            assert time.monotonic() < deadline, (tmp_path / "printed").read_text()
            time.sleep(1)
        assert daemon.client.job(job_id)["tasks"][0]["vm"] == "m1.large-1"
        process.terminate()
        job = daemon.ended(job_id)
    assert (job["state"], job["reason"]) == ("killed", "its driver was ended by SIGTERM")
    assert job["cost"] > 0
