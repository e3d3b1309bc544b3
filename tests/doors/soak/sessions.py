"""Sessions of users: real pyspark drivers in client mode, their expected output, and its check."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from stoker import Stoker

from framework.host.process_tree import children
from framework.spark import local_spark_home, python_path

#: Beside what `stoker spark-conf` prints: the smallest heaps of Spark, and executors that come and go.
SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss512k",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss512k",
    "spark.ui.port": "0",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "4s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    # Executors are killed here for no fault of their tasks.
    "spark.task.maxFailures": "20",
    "spark.stage.maxConsecutiveAttempts": "20",
}
_SCRIPT = Path(__file__).with_name("notebook.py")


def settings_folder(folder: Path, client: Stoker, most: int) -> Path:
    """A configuration for Sparks with executors placed by that daemon, at most so many for each."""
    folder.mkdir()
    command = [
        sys.executable,
        "-P",
        "-m",
        "daemon.cli",
        "spark-conf",
        "-o",
        "json",
        "--url",
        client.settings.url,
    ]
    command += ["--jar", str(folder / "stoker-backend.jar")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    settings = json.loads(done.stdout) | SETTINGS | {"spark.dynamicAllocation.maxExecutors": str(most)}
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    return folder


class Session:
    """One user's driver, from its start on."""

    def __init__(self, name: str, settings: Path, folder: Path, random: Random, most: int) -> None:
        """Its output goes to `folder`; it has work for `most` executors, now and then."""
        self.name = name
        #: What was done to it; "" when it was left alone.
        self.killed = ""
        self._bursts = [
            (random.randint(most, 3 * most), round(random.uniform(0.2, 1.2), 2), random.random() < 0.4, pause)
            for pause in (round(random.uniform(2.0, 6.0), 2), 0.0)
        ]
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        home = local_spark_home(os.environ)
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "SPARK_HOME": home.home,
            "JAVA_HOME": str(home.java_home), "SPARK_CONF_DIR": str(settings),
            "PYTHONPATH": ":".join(python_path(Path(home.home))), "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        }  # fmt: skip
        plan = json.dumps({"name": name, "bursts": self._bursts})
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, str(_SCRIPT), plan],
                cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip

    @property
    def began(self) -> bool:
        """Whether its driver is there and has its job."""
        return self._out.stat().st_size > 0

    @property
    def over(self) -> bool:
        """Whether its process has ended."""
        return self.process.poll() is not None

    def kill(self, *, jvm: bool) -> bool:
        """Kill -9 of its Spark or of its Python; whether it was there."""
        victims = children(self.process.pid) if jvm else [self.process.pid]
        if self.over or not victims:
            return False
        self.killed = self.killed or ("its Spark" if jvm else "its Python")
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return True

    def complaints(self, jobs: list[Mapping[str, Any]], daemon_killed: bool) -> list[str]:
        """Violations found after the session's end, with the jobs of its name."""
        said = [json.loads(line) for line in self._out.read_text().splitlines()]
        code, printed = self.process.returncode, self._err.read_text(errors="replace")
        sums = [line["sum"] for line in said if "sum" in line]
        right = [sum(x * x for x in range(tasks)) for tasks, *_ in self._bursts]
        began, stopped = any("began" in line for line in said), any("stopped" in line for line in said)
        unserved = daemon_killed and not began and "no daemon answers" in printed
        found = []
        if sums != right[: len(sums)]:
            found.append(f"{self.name} computed {sums}, right is {right}")
        if not self.killed and not unserved and (code != 0 or len(sums) < len(right) or not stopped):
            lines = [line for line in printed.splitlines() if line.strip()]
            found.append(f"{self.name} was left alone, and ended with {code}: {' / '.join(lines[-3:])}")
        if len(jobs) > 1 or (began and not jobs):
            found.append(f"{self.name} has {len(jobs)} jobs")
        for job in jobs:
            what = (
                f"{self.name} ({job['id']}, killed: {self.killed or 'no'}) is {job['state']}: {job['reason']}"
            )
            stopped_well = (job["state"], job["reason"]) == ("finished", "its driver stopped")
            # A JVM whose Python was killed ends without saying how; one that was killed itself says nothing.
            ended = job["state"] in ("finished", "killed") and job["reason"].startswith("its driver")
            given_up = job["state"] == "failed" and "its driver" in job["reason"]
            if self.killed == "its Spark" and not stopped:
                true = given_up
            elif self.killed:
                true = ended or given_up
            else:
                true = stopped_well or (given_up and (unserved or daemon_killed))
            if not true:
                found.append(what)
            found += [
                f"{what}; {task['id']} is {task['state']}"
                for task in job["tasks"]
                if task["ended_at"] is None
            ]
        return found
