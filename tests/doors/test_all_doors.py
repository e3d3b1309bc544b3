"""One PySpark and one Scala application, unchanged, through every door: right results, reasons and bills."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.doors.submitting import SparkSubmit, squares_jar
from tests.doors.test_spark_submit import shown
from tests.real_daemon import PATIENCE, QUICK_JAVA, Daemon

_PYTHON = """
import sys
from pyspark import SparkContext

context = SparkContext()
numbers = context.parallelize(range(1, int(sys.argv[1]) + 1), 2)
print("SUM", numbers.map(lambda n: n * n).sum(), flush=True)
context.stop()
"""
_CLIENT = Path(__file__).parents[2] / "client"
#: One executor, with the smallest heaps that Spark takes.
_SMALL = {**QUICK_JAVA, "spark.executor.instances": "1", "spark.executor.memory": "512m"}
_CONF = [text for name, value in _SMALL.items() for text in ("--conf", f"{name}={value}")]


@pytest.fixture(scope="module")
def applications(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What stands behind spark-submit's flags for each, in a folder of its user's own."""
    folder = tmp_path_factory.mktemp("applications")
    (folder / "squares.py").write_text(_PYTHON)
    return {
        "python": [str(folder / "squares.py")],
        "scala": ["--class", "Squares", str(squares_jar(folder))],
    }


@pytest.mark.slow
def test_both_run_through_every_door(
    daemon: Daemon, applications: dict[str, list[str]], tmp_path: Path
) -> None:
    """In turns of four, as each has two JVMs: on VMs that the policy chose, explained, and paid for."""
    master = f"mesos://{urlsplit(daemon.stage.url).netloc}"
    properties = tmp_path / "stoker.conf"
    properties.write_text(daemon.stoker("spark-conf") + "spark.driver.memory 512m\n")
    brought = daemon.new_folder()  # for the one door whose files lie on the daemon's host
    for path in Path(applications["python"][0]).parent.glob("squares.*"):
        (brought / path.name).write_bytes(path.read_bytes())
    old, new = (SparkSubmit(version, _folder(tmp_path / version)) for version in ("3.5", "4.3"))

    def rest(application: list[str]) -> tuple[str, str]:
        there = [
            word.replace(str(Path(word).parent), str(brought)) if "/" in word else word
            for word in application
        ]
        if "--class" in application:  # as docs/submit.md has it
            flags = shown(3, daemon.stage.url)
            return new(*flags[: flags.index("--class")], *_CONF, *there, "100").job, ""
        flags = [*shown(0, daemon.stage.url)[:6], "--conf", "spark.stoker.spark=4.3"]
        return old(*flags, *_CONF, *there, "100").job, ""

    def client_mode(application: list[str]) -> tuple[str, str]:
        done = new("--properties-file", properties, *_CONF, *application, "100")
        assert done.code == 0, done.text
        return _job(done.text), done.text

    def upload(application: list[str]) -> tuple[str, str]:
        flags = [*_CONF[:4], "--executors", "1", "--memory", "896m", "--upload", "-o", "json"]
        return daemon.stoker("submit", *flags, *application, "100")["id"], ""

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
            "100",
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
        assert "SUM 338350\n" in (said or daemon.printed(job_id))
        explanations = daemon.client.explain(job_id)["explanations"]
        placed = {choice["vm"] for explanation in explanations for choice in explanation["choices"]}
        ran_on = {task["vm"] for task in job["tasks"]}
        assert ran_on <= placed, (door.__name__, explanations)
        assert job["cost"] == pytest.approx(sum(task["cost"] for task in job["tasks"]))
        assert job["cost"] > 0

    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(through, cases))) == 8


def _job(said: str) -> str:
    found = re.search(r"job-\d+", said)
    assert found is not None, said
    return found[0]


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
