"""A daemon for tests with real Spark: `stoker up` with an embedded Mesos, its client and its files.

A JVM costs seconds, so a file of tests shares one daemon, and a test has as few jobs as show the thing.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from stoker import Stoker

from daemon.cli.operate.temporary_daemon import TemporaryDaemon

Stream = Literal["stdout", "stderr"]
PATIENCE = 1200.0  # seconds after which a test gives up; never waited for when all is well

#: JVMs live for seconds here: neither to compile with care nor to collect garbage side by side is worth it.
QUICK_JAVA = dict.fromkeys(
    ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"),
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
)

APP = """
import sys, time
from pyspark import SparkContext

context = SparkContext()  # a session has a JVM load two more seconds of classes
tasks, seconds = int(sys.argv[1]), float(sys.argv[2])

def slowly(x):
    time.sleep(seconds)
    return x * x

numbers = context.parallelize(range(tasks), tasks)
print("SUM", numbers.map(slowly).sum(), flush=True)
context.stop()
"""


class Daemon:
    """A running daemon, its client and its files."""

    def __init__(self, stage: TemporaryDaemon, client: Stoker, folder: Path) -> None:
        self.stage, self.client, self.folder = stage, client, folder
        self.app = folder / "squares.py"
        self.app.write_text(APP)
        #: An interpreter that jobs can run.
        self.python = sys.executable

    def new_folder(self) -> Path:
        """A folder of the test's own on the daemon's host: tests of several files share one daemon."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    def stoker(self, *arguments: str, code: int = 0) -> Any:
        """Run a command of `stoker` with -o json; return its output."""
        command = [sys.executable, "-m", "daemon.cli", *arguments]
        environment = {**os.environ, "STOKER_URL": self.stage.url}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == code, (done.stdout, done.stderr)
        return json.loads(done.stdout) if "json" in arguments else done.stdout + done.stderr

    def submit(self, tasks: int, seconds: float, **more: Any) -> str:
        """Submit the app that sums squares; the job's id."""
        spec = {"app": str(self.app), "args": [str(tasks), str(seconds)], "executors": 2, "cpus": 1.0}
        job_id: str = self.client.submit_spec({**spec, "conf": QUICK_JAVA, **more})["id"]
        return job_id

    def wait(self, job_id: str, until: Callable[[Any], bool]) -> Any:
        """Wait until the job is as wanted; the job."""
        deadline = time.monotonic() + PATIENCE
        while not until(job := self.client.job(job_id)):
            assert time.monotonic() < deadline, job
            time.sleep(0.1)
        return job

    def ended(self, job_id: str) -> Any:
        """Wait for the job's end; the job, with all its executors at their end."""
        over = {"finished", "failed", "killed"}
        return self.wait(
            job_id,
            lambda j: j["state"] in over and all(t["ended_at"] is not None for t in j["tasks"]),
        )

    def printed(
        self, job_id: str, executor: int | None = None, stream: Literal["stdout", "stderr"] = "stdout"
    ) -> str:
        """A log of the job."""
        return self.client.log(job_id, executor=executor, stream=stream)


@contextmanager
def real_daemon(
    folder: Path, policy: str = "ff", cluster: str = "clusters/paper.yaml", **sections: Any
) -> Iterator[Daemon]:
    """A daemon with that policy on that cluster, from `with` to its end."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # What a machine carries depends on it; here as many run as have room on the VMs.
    with (
        TemporaryDaemon(folder, policy, cluster, {"jvms": 1000}, **sections) as stage,
        Stoker(stage.url) as client,
    ):
        stage.await_ready(client)
        yield Daemon(stage, client, folder)
    for number, handler in handlers.items():
        signal.signal(number, handler)
