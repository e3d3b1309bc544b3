"""Examples of Spark's own and a Scala application, unchanged, through every door: results, reasons, bills."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from framework.spark import local_spark_home
from tests.doors.submitting import SparkSubmit, squares_jar
from tests.doors.test_spark_submit import shown
from tests.real_daemon import PATIENCE, QUICK_JAVA, Daemon

_CLIENT = Path(__file__).parents[2] / "client"
#: One executor, with the smallest heaps that Spark takes.
_SMALL = {**QUICK_JAVA, "spark.executor.instances": "1", "spark.executor.memory": "512m"}
_CONF = [text for name, value in _SMALL.items() for text in ("--conf", f"{name}={value}")]


#: What is in the driver's stdout, whose lines come in any order.
_PRINTED = {"pi": r"^Pi is roughly 3\.1[2-6]\d*$", "wordcount": r"^to: 2$", "scala": r"^SUM 338350$"}


@pytest.fixture(scope="module")
def applications(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Arguments after spark-submit's flags for each: pyspark's files as they are, and a jar of our own.

    pyspark has no jar of examples.
    """
    folder = tmp_path_factory.mktemp("applications")
    (folder / "words.txt").write_text("to be or\nnot to be\n")
    examples = Path(local_spark_home(os.environ, "4.3").home, "examples")
    return {
        "pi": [str(examples / "pi.py"), "2"],
        "wordcount": [str(examples / "wordcount.py"), str(folder / "words.txt")],
        "scala": ["--class", "Squares", str(squares_jar(folder)), "100"],
    }


@pytest.mark.slow
def test_all_run_through_every_door(
    daemon: Daemon, applications: dict[str, list[str]], tmp_path: Path
) -> None:
    """In turns of two, as each has two JVMs: on VMs that the policy chose, explained, and paid for."""
    master = f"mesos://{urlsplit(daemon.stage.url).netloc}"
    properties = tmp_path / "stoker.conf"
    properties.write_text(daemon.stoker("spark-conf") + "spark.driver.memory 512m\n")
    old, new = (SparkSubmit(version, _folder(tmp_path / version)) for version in ("3.5", "4.3"))

    def rest(application: list[str]) -> tuple[str, str]:
        if "--class" in application:  # as docs/submit.md has it
            flags = shown(3, daemon.stage.url)
            return new(*flags[: flags.index("--class")], *_CONF, *application).job, ""
        flags = [*shown(0, daemon.stage.url)[:6], "--conf", "spark.stoker.spark=4.3"]
        return old(*flags, *_CONF, *application).job, ""

    def client_mode(application: list[str]) -> tuple[str, str]:
        done = new("--properties-file", properties, *_CONF, *application)
        assert done.code == 0, done.text
        return _job(done.text), done.text

    def upload(application: list[str]) -> tuple[str, str]:
        flags = [*_CONF[:4], "--executors", "1", "--memory", "896m", "--upload", "-o", "json"]
        return daemon.stoker("submit", *flags, *application)["id"], ""

    def from_python(application: list[str]) -> tuple[str, str]:
        command = [
            sys.executable,
            "-m",
            "stoker",
            "spark-submit",
            "--master",
            master,
            *_CONF,
            *application,
        ]
        environment = {**os.environ, "PYTHONPATH": str(_CLIENT)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return _job(done.stderr), ""

    doors: list[Callable[[list[str]], tuple[str, str]]] = [rest, client_mode, upload, from_python]
    cases = [(door, name) for name in applications for door in doors]

    def through(case: tuple[Callable[[list[str]], tuple[str, str]], str]) -> None:
        door, name = case
        job_id, said = door(applications[name])
        job = daemon.ended(job_id)
        assert job["state"] == "finished", (door.__name__, name, job)
        assert re.search(_PRINTED[name], said or daemon.printed(job_id), re.MULTILINE), (door.__name__, name)
        explanations = daemon.client.explain(job_id)["explanations"]
        placed = {choice["vm"] for explanation in explanations for choice in explanation["choices"]}
        ran_on = {task["vm"] for task in job["tasks"]}
        assert ran_on <= placed, (door.__name__, explanations)
        assert job["cost"] == pytest.approx(sum(task["cost"] for task in job["tasks"]))
        assert job["cost"] > 0

    with ThreadPoolExecutor(2) as pool:
        assert len(list(pool.map(through, cases))) == 12


def _job(said: str) -> str:
    found = re.search(r"job-\d+", said)
    assert found is not None, said
    return found[0]


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
