"""Jobs that fail since their executors end, on a real Spark: the reason quotes the executor's own error."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_daemon import QUICK_JAVA, Daemon, real_daemon

HEAP = """
from pyspark.sql import SparkSession

session = SparkSession.builder.getOrCreate()
session.range(1).selectExpr("length(repeat(cast(id as string), 2000000000))").collect()
"""
KILLED = """
import os, time
from pathlib import Path
from pyspark import SparkContext

def kill(_):
    jvm = Path(f"/proc/{os.getppid()}/stat").read_text().split()[3]
    os.kill(int(jvm), 9)
    time.sleep(600)

SparkContext().range(1, numSlices=1).map(kill).collect()
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """The daemon of this module."""
    with real_daemon(tmp_path_factory.mktemp("daemon")) as running:
        yield running


def submit(daemon: Daemon, app: str, conf: dict[str, str], **more: Any) -> str:
    """A job with one executor; its id."""
    path = daemon.new_folder() / "app.py"
    path.write_text(app)
    spec = {"app": str(path), "executors": 1, "cpus": 1.0, "memory": 1024, "conf": {**QUICK_JAVA, **conf}}
    return str(daemon.client.submit_spec({**spec, **more})["id"])


@pytest.mark.slow
def test_the_reason_quotes_the_error_of_the_executor(daemon: Daemon, tmp_path: Path) -> None:
    """Whether Stoker counts the executors or the driver fails with them, here and on the cluster."""
    once = {"spark.task.maxFailures": "1"}
    no_agent = {"spark.executor.extraJavaOptions": f"-javaagent:{tmp_path}/none.jar"}
    heap = {"spark.executor.extraJavaOptions": "-XX:+ExitOnOutOfMemoryError", **once}
    killed = (
        "executor N on m1.large-1 ended: Command terminated with signal Killed (SIGKILL: usually sent by the "
        "kernel"
    )
    jobs = {
        submit(
            daemon, HEAP, no_agent
        ): f"Error opening zip file or JAR manifest missing : {tmp_path}/none.jar "
        "(lost 4 executors; the last, executor 3: Command exited with status 1)",
        submit(daemon, HEAP, heap): "Terminating due to java.lang.OutOfMemoryError: Java heap space "
        "(executor N on m1.large-1 ended: Command exited with status 3); org.apache.spark.SparkException: ",
        submit(daemon, KILLED, once): killed,
        submit(daemon, KILLED, once, driver={"on": "cluster"}): killed,
    }
    for job_id, reason in jobs.items():
        job = daemon.ended(job_id)
        # On a busy machine the first executor may be replaced before its driver is there.
        found = re.sub(r"executor \d+ on \S+", "executor N on m1.large-1", job["reason"])
        assert (job["state"], found[: len(reason)]) == ("failed", reason)
        assert "executor" in job["next_step"]
