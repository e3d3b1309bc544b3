"""Files that clients send, with real Spark: drivers on the host and on the cluster have them, executors too.

And `python -m stoker spark-submit` sends the same as Spark's own.
"""

import http.server
import json
import os
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from stoker import Stoker
from stoker.command import main

from framework.spark import local_spark_home
from tests.real_daemon import QUICK_JAVA, Daemon

APP = """
import os, pathlib, sys
import helper
from pyspark import SparkContext, SparkFiles

context = SparkContext()

def seen(x):
    import helper
    return helper.WORD + pathlib.Path(SparkFiles.get("words.txt")).read_text() + str(x)

def packed(_):
    return pathlib.Path("data.zip/words.txt").read_text()

print("DRIVER", seen(0), pathlib.Path("words.txt").read_text(), sys.argv[1:], packed(0))
print("PACKED", context.parallelize(range(2), 2).map(packed).collect())
print("EXECUTORS", context.parallelize(range(2), 2).map(seen).collect())
context.stop()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An application and its files, called otherwise than it calls them, where no job may look."""
    (tmp_path / "an app.py").write_text(APP)
    (tmp_path / "other.py").write_text("WORD = 'helper '\n")
    (tmp_path / "list.txt").write_text("words ")
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as packed:
        packed.writestr("words.txt", "packed")
    tmp_path.chmod(0o700)
    return tmp_path


@pytest.mark.slow
def test_jobs_have_the_files_that_were_sent(
    daemon: Daemon, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through spark-submit's flags on the host, and from Python on the cluster, which fetches them."""
    monkeypatch.chdir(folder)
    conf = [text for name, value in QUICK_JAVA.items() for text in ("--conf", f"{name}={value}")]
    sent = ["--archives", "data.zip", "--files", "list.txt#words.txt", "--py-files", "other.py#helper.py"]
    wait = ["--conf", "spark.stoker.submission.waitCompletion=true", "--num-executors", "1"]
    command = ["spark-submit", "--master", daemon.stage.url, *wait, *conf, *sent, "an app.py", "--size", "8"]
    with Stoker(daemon.stage.url) as client:
        job = client.submit(
            "an app.py", files=["list.txt#words.txt"], py_files=["other.py#helper.py"], args=["--size", "8"],
            conf=QUICK_JAVA, driver={"on": "cluster"}, archives=["data.zip"],
        )  # fmt: skip
        code = main(command)
        told = capsys.readouterr().err
        other = f"job-{int(job['id'].partition('-')[2]) + 1}"
        assert code == 0, (told, client.job(other), client.log(other, stream="stderr")[-3000:])
        ended = client.wait(job["id"])
        assert ended["state"] == "finished", (ended, client.log(job["id"], stream="stderr")[-3000:])
        assert ended["spec"] is not None
        assert ended["spec"]["app"].startswith("stoker-file:")
        for job_id in (job["id"], other):
            assert client.log(job_id) == (
                "DRIVER helper words 0 words  ['--size', '8'] packed\n"
                "PACKED ['packed', 'packed']\n"
                "EXECUTORS ['helper words 0', 'helper words 1']\n"
            )
        # The URL by which the cluster fetched them is in nothing that is shown.
        shown = json.dumps([client.job(job["id"]), client.explain(job["id"])])
        assert "/v1/fetch/" not in shown + client.log(job["id"], stream="stderr")


class Recorder(http.server.BaseHTTPRequestHandler):
    """A server that answers submissions and keeps them."""

    requests: list[Any]

    def do_POST(self) -> None:
        """Record the request."""
        self.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        answer = {
            "action": "CreateSubmissionResponse", "serverSparkVersion": "3.5.9", "success": True,
            "submissionId": "driver-1",
        }  # fmt: skip
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def recording() -> Iterator[tuple[str, list[Any]]]:
    """The server's address, and the requests it received."""
    kept: list[Any] = []
    handler = type("Handler", (Recorder,), {"requests": kept})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}", kept
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_what_is_sent_is_what_spark_submit_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Word for word, of the same command line, properties and environment, when no file is here."""
    spark = local_spark_home(os.environ, "3.5")
    file = tmp_path / "properties"
    file.write_text(
        "spark.executor.memory 3g\nspark.a : of the file\\\n  , too\nspark.b=b\nspark.driver.cores 2\n"
    )
    with recording() as (address, kept):
        command = (
            f"--master mesos://{address} --deploy-mode cluster --name wc "
            "--conf spark.master.rest.enabled=true "
            f"--properties-file {file} --total-executor-cores 3 --conf spark.executor.instances=3 "
            "--executor-memory 1g --driver-memory 700m --py-files file:/none/a.py "
            "--files file:/none/f.txt,https://h/x --supervise -c spark.b=command "
            "--repositories https://h/maven "
            "--driver-java-options -Da=b --driver-class-path /c "
            "--archives file:/none/e.zip#e file:/none/app.py "
            "--size 8 --name x"
        ).split()
        environ = {
            "PATH": os.environ["PATH"], "JAVA_HOME": str(spark.java_home), "SPARK_HOME": spark.home,
            "SPARK_USER": "alice", "SPARK_MINE": "1", "HOME": str(tmp_path),
        }  # fmt: skip
        done = subprocess.run(
            [f"{spark.home}/bin/spark-submit", *command],
            env=environ,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert len(kept) == 1, done.stderr
        for name in [name for name in os.environ if name.startswith(("SPARK_", "MESOS_", "STOKER_"))]:
            monkeypatch.delenv(name)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        assert main(["spark-submit", *command]) == 0, capsys.readouterr().err
    theirs, ours = kept
    # What Spark's own scripts put into the environment of their JVM is not the user's.
    added = set(theirs["environmentVariables"]) - set(ours["environmentVariables"])
    assert not [name for name in added if name in environ]
    for name in added:
        del theirs["environmentVariables"][name]
    for name in ("spark.jars", "spark.app.submitTime"):
        theirs["sparkProperties"].pop(name, None)
    assert ours == theirs
