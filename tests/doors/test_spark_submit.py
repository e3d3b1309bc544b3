"""spark-submit in cluster mode, as it comes with Spark 3.5 and 4.3, at the daemon's door."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from conf.schema import Http
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.http.server.uvicorn_server import make_server
from daemon.store.job_store import Store
from tests.daemon.small_scheduler import SmallScheduler
from tests.doors.page import commands
from tests.doors.submitting import SparkSubmit
from tests.real_daemon import QUICK_JAVA, Daemon

APP = """
import sys
from pathlib import Path
from pyspark import SparkContext, SparkFiles

import helper

context = SparkContext()
seen = context.parallelize(range(4), 2).map(lambda n: helper.SQUARES[n])
conf = context.getConf()
print("ARGUMENTS", sys.argv[1:])
print("SUM", seen.sum(), Path(SparkFiles.get("words.txt")).read_text())
print("SETTINGS", [conf.get(name, "none") for name in ("spark.app.name", "spark.ours", "spark.stoker.token")])
context.stop()
"""


@pytest.fixture(scope="session")
def submit(tmp_path_factory: pytest.TempPathFactory) -> SparkSubmit:
    """spark-submit of Spark 3.5."""
    return SparkSubmit("3.5", tmp_path_factory.mktemp("spark-conf"))


def shown(number: int, url: str, **others: str) -> list[str]:
    """The page's arguments after `spark-submit`, for the daemon there and with some words replaced."""
    words = commands("spark-submit, cluster mode", "spark-submit")[number]
    where = urlsplit(url).netloc
    words = [word.replace("127.0.0.1:8642", where).replace("stoker.example:8642", where) for word in words]
    return [next((new for old, new in others.items() if word.startswith(old)), word) for word in words]


def quick() -> list[str]:
    """Settings of applications that live for seconds."""
    return [text for name, value in QUICK_JAVA.items() for text in ("--conf", f"{name}={value}")]


@contextmanager
def guarded(folder: Path, token: str) -> Iterator[tuple[str, Store]]:
    """A door with a token, behind which jobs are kept and nothing runs: its URL, and the jobs."""
    store = Store(f"sqlite:///{folder / 'stoker.db'}")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app = create_app(SmallScheduler(store), store, AppOptions(token=token, version="1"))
        server = make_server(app, listener, Http())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", store
        server.should_exit = True
        thread.join()
    store.close()


@pytest.fixture(scope="module")
def brought(daemon: Daemon) -> Path:
    """A folder with an application and its files."""
    folder = daemon.new_folder()
    (folder / "app.py").write_text(APP)
    (folder / "helper.py").write_text("SQUARES = [n * n for n in range(9)]\n")
    (folder / "words.txt").write_text("of the file")
    return folder


@pytest.mark.slow
def test_python_with_all_that_it_brings(daemon: Daemon, submit: SparkSubmit, brought: Path) -> None:
    """Flags become the job, files reach driver and executors; --status tells how it ended."""
    settings = ("spark.ours=yes", "spark.stoker.type=wordcount", "spark.ui.port=4050")
    ours = [text for setting in settings for text in ("--conf", setting)]
    done = submit(*quick(), *ours, *shown(0, daemon.stage.url), folder=brought)
    assert done.code == 0
    assert "State of driver" in done.text
    assert "without effect: spark.ui.port (Stoker serves the pages of drivers)" in done.text
    job = daemon.ended(done.job)
    assert (job["state"], job["name"], job["type"], job["retries"]) == (
        "finished",
        "sums",
        "wordcount",
        10,
    ), job
    assert (job["executors"], job["cpus"], job["memory_mib"], job["spark"]) == (2, 1.0, 896, "3.5")
    assert daemon.printed(done.job).splitlines() == [
        "ARGUMENTS ['--size', '8']",
        "SUM 14 of the file",
        "SETTINGS ['sums', 'yes', 'none']",
    ]
    status = submit(*shown(1, daemon.stage.url, driver=done.submission))
    assert '"driverState" : "FINISHED"' in status.text


def test_a_submission_is_ended_by_kill(daemon: Daemon, submit: SparkSubmit) -> None:
    """spark-submit --kill ends a job that spark-submit began."""
    done = submit(*shown(0, daemon.stage.url)[:6], daemon.app, "100", "60")
    killed = submit(*shown(2, daemon.stage.url, driver=done.submission))
    assert f'"message" : "{done.job} is killed"' in killed.text
    assert daemon.ended(done.job)["state"] == "killed"


def test_refusals_are_printed(daemon: Daemon, submit: SparkSubmit) -> None:
    """The user's terminal shows the fault."""
    done = submit(*shown(0, daemon.stage.url)[:6], "--conf", "spark.stoker.typo=1", daemon.app)
    assert (
        '"message" : "spark.stoker.typo does not exist; the properties are spark.stoker.type, ' in done.text
    )


def test_nobody_behind_the_url(submit: SparkSubmit, daemon: Daemon) -> None:
    """Spark says so itself."""
    done = submit(*shown(0, "http://127.0.0.1:1")[:6], daemon.app)
    assert "Unable to connect to server" in done.text
    assert done.code == 1


def test_airflows_operator_with_a_token(submit: SparkSubmit, brought: Path, tmp_path: Path) -> None:
    """The command line that it builds is a job; the token comes by the file and is kept nowhere."""
    properties = tmp_path / "stoker.properties"
    properties.write_text("spark.stoker.token  the-t0ken\n")
    with guarded(tmp_path, "the-t0ken") as (url, store):
        words = shown(4, url, **{"/etc/airflow/": str(properties)})
        done = submit(*(word.replace("/srv/jobs", str(brought)) for word in words))
        assert "State of driver" in done.text
        spec = store.jobs.spec(done.job)
        assert spec is not None
        assert (spec.app, spec.args, spec.name) == (f"{brought}/app.py", ("--size", "8"), "sums")
        assert (spec.executors, spec.memory) == (2, 896)
        assert (spec.py_files, spec.files) == ((f"{brought}/helper.py",), (f"{brought}/words.txt",))
    assert not any(b"the-t0ken" in path.read_bytes() for path in tmp_path.glob("stoker.db*"))
