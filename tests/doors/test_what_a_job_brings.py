"""Archives and packages, with real Spark: both reach the driver and the executors."""

import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.doors.page import commands
from tests.real_daemon import QUICK_JAVA, Daemon

APP = """
import os, pathlib
from pyspark import SparkContext

context = SparkContext()

def seen(_):
    import hello
    return [os.environ.get("PACKED"), pathlib.Path("env/words.txt").read_text(), hello.WORD]

print("DRIVER", seen(None))
print("EXECUTORS", context.parallelize(range(2), 2).map(seen).collect())
jar = context._jvm.Thread.currentThread().getContextClassLoader().getResource("words.txt")
print("JAR", jar.toString().rpartition("/")[2])
context.stop()
"""


def make_repository(folder: Path) -> str:
    """A Maven repository on the disk with one package, `org.example:hello:1.0`; its URL."""
    place = folder / "org/example/hello/1.0"
    place.mkdir(parents=True)
    with zipfile.ZipFile(place / "hello-1.0.jar", "w") as jar:
        jar.writestr("hello.py", "WORD = 'packaged'\n")
        jar.writestr("words.txt", "of the jar")
    (place / "hello-1.0.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
        "<artifactId>hello</artifactId><version>1.0</version></project>"
    )
    return folder.as_uri()


def make_environment(folder: Path, python: str) -> Path:
    """An archive with a Python of its own, which is known by a variable."""
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPACKED=yes exec {python} "$@"\n')
    program.chmod(0o755)
    (folder / "words.txt").write_text("of the archive")
    archive = folder / "env.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(program, "bin/python")
        tar.add(folder / "words.txt", "words.txt")
    return archive


@pytest.mark.slow
def test_archives_and_packages_reach_driver_and_executors(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver on the cluster and its executors run in a packed environment, with a package's classes."""
    brought = daemon.new_folder()
    (brought / "app.py").write_text(APP)
    make_environment(brought, daemon.python)
    repository = make_repository(daemon.new_folder())
    monkeypatch.chdir(brought)
    (command,) = commands("Packages and archives")
    shown = [word.replace("file:///srv/maven", repository) for word in command[1:]]
    java = [text for key, value in QUICK_JAVA.items() for text in ("--conf", f"{key}={value}")]
    submitted = daemon.stoker(command[0], "-o", "json", "--driver", "cluster", *java, *shown)
    job = daemon.ended(job_id := submitted["id"])
    assert job["state"] == "finished", (job["reason"], daemon.printed(job_id, stream="stderr")[-2000:])
    seen = ["yes", "of the archive", "packaged"]
    printed = daemon.printed(job_id).splitlines()
    assert printed[-3:] == [f"DRIVER {seen}", f"EXECUTORS {[seen, seen]}", "JAR words.txt"], printed


def test_what_a_failed_driver_on_the_cluster_printed_outlives_its_vm(daemon: Daemon) -> None:
    """A package that nobody has is its reason; logs are there when the agents' folders are not."""
    app = daemon.new_folder() / "fails.py"
    app.write_text("raise SystemExit(1)")
    driver = {"on": "cluster", "cpus": 0.5, "memory": 1024}
    spec = {"app": str(app), "executors": 1, "driver": driver, "packages": ["org.example:nope:1.0"]}
    # Where Maven's own repository would be asked, nobody answers.
    spec["env"] = {"DEFAULT_ARTIFACT_REPOSITORY": "http://127.0.0.1:1/"}
    job = daemon.ended(job_id := daemon.client.submit_spec(spec)["id"])
    assert job["state"] == "failed"
    assert "[unresolved dependency: org.example#nope;1.0: not found]" in job["reason"], job["reason"]
    agents = daemon.folder / "data/mesos/work/agents"
    for sandbox in agents.glob(f"*/frameworks/*/executors/{job_id}.*"):
        shutil.rmtree(sandbox)
    for shown in commands("After it ran"):
        arguments = [job_id if word == "job-1" else word for word in shown]
        over = shown[0] in ("ui", "history")  # see test_history.py
        printed = "" if over else daemon.stoker(*arguments)
        assert over or shown[0] == "logs" or "unresolved dependency" in " ".join(printed.split()), printed
    assert "stoker history" in daemon.stoker("ui", job_id, code=2)
    part = daemon.client.log_part(job_id, stream="stderr")
    assert (part["source"], "unresolved dependency" in part["text"]) == ("kept", True)
    part = daemon.client.log_part(job_id, executor=0, stream="stderr")
    assert (part["source"], "Executor 0 waits for the driver" in part["text"]) == ("kept", True), part
