"""The example for Airflow, run by a real one with its stock operator.

Stoker does not require Airflow, which needs other versions of the same packages: `make airflow` fetches it
into a folder of its own, and runs this.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from framework.spark import local_spark_home
from tests.doors.page import blocks
from tests.doors.submitting import squares_jar
from tests.doors.test_spark_submit import APP
from tests.real_daemon import PATIENCE, QUICK_JAVA, Daemon

_HOME = os.environ.get("STOKER_AIRFLOW", "")
_SECTION = "spark-submit, cluster mode"
_CLIENT = Path(__file__).parents[2] / "client"
_FOLLOWED, _ACCEPTED = (json.loads(block) for block in blocks(_SECTION, "json"))
#: What a worker that has lost its task's process does with the job: it asks for its state, and ends it.
_AGAIN = """
import sys
from sums import dag
task = dag.get_task("sums")
print("STATE", task.get_job_status(sys.argv[1], {}))
task._backend.hook._driver_id = sys.argv[1]
task.on_kill()
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _HOME, reason="STOKER_AIRFLOW names no Airflow: `make airflow` fetches one"),
]


@dataclass(frozen=True)
class Airflow:
    """An Airflow with a home of its own, and an application with its files."""

    home: Path
    brought: Path
    daemon: Daemon

    def dag(self, connection: dict[str, Any], path: str, *changes: tuple[str, str]) -> dict[str, str]:
        """Write the page's DAG, with this instead of that; the environment in which it runs."""
        text = next(block for block in blocks(_SECTION, "python") if "SparkSubmitOperator" in block)
        own = ("/etc/airflow", str(self.home)), ("/srv/jobs", str(self.brought))
        for old, new in (*own, *changes):
            assert old in text
            text = text.replace(old, new)
        (self.home / "dags/sums.py").write_text(text.replace('DAG("sums")', 'DAG("sums") as dag'))
        where = urlsplit(self.daemon.stage.url)
        given = json.dumps(connection).replace("stoker.example", str(where.hostname))
        return {
            **os.environ,
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW_CONN_STOKER": given.replace("8642", str(where.port)),
            "PATH": f"{path}:{os.environ['PATH']}",
        }

    def run(self, *command: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a program of Airflow's environment."""
        return subprocess.run(
            [f"{_HOME}/bin/{command[0]}", *command[1:]],
            cwd=self.home / "dags",
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def test(self, connection: dict[str, Any], path: str, *changes: tuple[str, str]) -> tuple[bool, str]:
        """Run the DAG once; return whether its task is green, and the log."""
        environment = self.dag(connection, path, *changes)
        command = ("airflow", "dags", "test", "sums", "--dagfile-path", str(self.home / "dags/sums.py"))
        done = self.run(*command, environment=environment)
        return done.returncode == 0, done.stdout + done.stderr

    def job(self) -> Any:
        """The newest job."""
        return self.daemon.client.jobs(limit=1)["jobs"][0]

    def python(self) -> str:
        """A folder for PATH with the page's script, which needs no Spark."""
        script = next(block for block in blocks(_SECTION, "sh") if "-m stoker" in block)
        known = f"env PYTHONPATH={_CLIENT} {sys.executable}"
        file = self.home / "bin/spark-submit"
        file.parent.mkdir(exist_ok=True)
        file.write_text(script.replace("/srv/airflow/bin/python", known))
        file.chmod(0o755)
        return str(file.parent)


@pytest.fixture(scope="module")
def airflow(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    """Airflow with an empty database."""
    home, brought = tmp_path_factory.mktemp("airflow"), daemon.new_folder()
    (home / "dags").mkdir()
    (brought / "app.py").write_text(APP)
    (brought / "helper.py").write_text("SQUARES = [n * n for n in range(9)]\n")
    (brought / "words.txt").write_text("of the file")
    properties = {**QUICK_JAVA, "spark.stoker.type": "wordcount", "spark.driver.memory": "512m"}
    (home / "stoker.properties").write_text("".join(f"{key} {value}\n" for key, value in properties.items()))
    made = Airflow(home, brought, daemon)
    migrated = made.run("airflow", "db", "migrate", environment={**os.environ, "AIRFLOW_HOME": str(home)})
    assert migrated.returncode == 0, migrated.stderr
    return made


def spark_programs(version: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder for PATH of that Spark's programs, which find their Java."""
    spark = local_spark_home(os.environ, version)
    monkeypatch.setenv("JAVA_HOME", spark.java_home or "")
    return f"{spark.home}/bin"


def test_accepted_by_spark_submit(airflow: Airflow, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the old master and spark-submit of 3.5: the task is over when the job is there."""
    green, said = airflow.test(_ACCEPTED, spark_programs("3.5", monkeypatch))
    assert green, said
    assert "Submission successfully created as driver-" in said
    job = airflow.daemon.ended(airflow.job()["id"])
    assert (job["state"], job["name"], job["type"], job["executors"]) == ("finished", "sums", "wordcount", 2)
    printed = airflow.daemon.printed(job["id"])
    assert printed.splitlines()[:2] == ["ARGUMENTS ['--size', '8']", "SUM 14 of the file"]


def test_followed_to_its_end(airflow: Airflow) -> None:
    """With the page's script the task ends when its job has ended."""
    green, said = airflow.test(_FOLLOWED, airflow.python())
    assert green, said
    job = airflow.job()
    assert (job["state"], job["name"], job["executors"]) == ("finished", "sums", 2)
    assert "SUM 14 of the file" in airflow.daemon.printed(job["id"])


def test_a_job_that_fails_is_red(airflow: Airflow) -> None:
    """As the application ends, so does the task."""
    (airflow.brought / "wrong.py").write_text("raise SystemExit(3)\n")
    green, said = airflow.test(_FOLLOWED, airflow.python(), ("app.py", "wrong.py"))
    assert not green
    assert "exited with status FAILED" in said
    assert airflow.job()["reason"] == "its driver exited with code 3"


def test_a_refusal_is_red(airflow: Airflow) -> None:
    """With the daemon's words in the task's log."""
    change = ('"spark.executor.instances"', '"spark.stoker.typo"')
    green, said = airflow.test(_FOLLOWED, airflow.python(), change)
    assert not green
    assert "spark.stoker.typo does not exist; the properties are " in said


def test_a_jar_by_spark_submit_of_4(airflow: Airflow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own program, and the task follows the job."""
    squares_jar(airflow.brought)
    changes = (
        ('app.py"', 'squares.jar",\n        java_class="Squares"'),
        ('["--size", "8"]', '["100"]'),
        (f'        py_files="{airflow.brought}/helper.py",\n', ""),
    )
    green, said = airflow.test(_FOLLOWED, spark_programs("4.3", monkeypatch), *changes)
    assert green, said
    job = airflow.job()
    assert job["state"] == "finished"
    assert airflow.daemon.printed(job["id"]) == "SUM 338350\n"


def test_a_worker_finds_its_job_again_and_ends_it(airflow: Airflow) -> None:
    """By the submission's id, on the port that the connection says."""
    master = airflow.daemon.stage.url.replace("http", "spark")
    environment = airflow.dag(_FOLLOWED, airflow.python())
    command = [f"{airflow.python()}/spark-submit", "--master", master, str(airflow.daemon.app), "2", "600"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    submission = done.stderr.partition("created as ")[2].partition(".\n")[0]
    (airflow.home / "dags/again.py").write_text(_AGAIN)
    again = airflow.run("python", "again.py", submission, environment=environment)
    assert again.returncode == 0, again.stderr
    assert "STATE SUBMITTED" in again.stdout or "STATE RUNNING" in again.stdout
    assert airflow.daemon.ended(airflow.job()["id"])["state"] == "killed"
