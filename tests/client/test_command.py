"""`python -m stoker` where only the client is installed: output and exit codes."""

import json
import os
import subprocess
import threading
import time
import venv
from importlib import metadata
from pathlib import Path

import pytest
from stoker import flows
from stoker.command import main

from tests.daemon.cli.conftest import Daemon
from tests.test_packaging import REPOSITORY, pip

Capture = pytest.CaptureFixture[str]
#: What httpx needs, and nothing besides.
NEEDED = ("httpx", "httpcore", "h11", "anyio", "idna", "certifi", "typing_extensions")


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An application."""
    path = tmp_path / "count.py"
    path.write_text("print(1)\n")
    return path


def test_submit_and_what_becomes_of_it(
    daemon: Daemon, app: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job from its submission to its end, as scripts see it."""
    monkeypatch.setattr(flows, "POLL_SECONDS", 0.01)
    assert (
        main(["submit", "--executors", "3", "--conf", "spark.a=b=c", "--driver", "cluster", str(app), "-o"])
        == 0
    )
    spec = daemon.cast.store.jobs.spec("job-1")
    assert spec is not None
    assert (spec.executors, spec.conf, spec.args) == (3, {"spark.a": "b=c"}, ("-o",))
    assert spec.app.startswith("stoker-file:")
    assert main(["submit", "--no-upload", "-o", "json", str(app), "--", "x"]) == 0
    assert '"id": "job-2"' in capsys.readouterr().out
    assert main(["jobs", "--state", "queued"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["job-2", "job-1"]
    daemon.cast.logs["driver stdout"] = "hello\n"
    assert main(["logs", "job-1"]) == 0
    assert capsys.readouterr().out == "hello\n"
    assert main(["wait", "job-1", "--timeout", "0.05"]) == 3
    assert "job-1 is queued after 0.05 s" in capsys.readouterr().err
    assert main(["kill", "job-1"]) == 0
    assert main(["wait", "job-1"]) == 1
    assert "Job job-1 (count) killed: killed by its user" in capsys.readouterr().out
    assert main(["job", "job-1"]) == main(["explain", "job-1"]) == 0
    assert json.loads("[" + capsys.readouterr().out.replace("\n}\n{", "\n},{") + "]")[0]["id"] == "job-1"


@pytest.mark.parametrize(("state", "code"), [("finished", 0), ("failed", 1)])
def test_submit_waits(daemon: Daemon, app: Path, capsys: Capture, state: str, code: int) -> None:
    """With --wait the exit code tells how the job ended."""

    def go(job_id: str) -> None:
        time.sleep(0.1)
        daemon.cast.put(job_id, state, "so it is", finished_at=time.time())  # type: ignore[arg-type]

    daemon.cast.fate = lambda job_id: threading.Thread(target=go, args=(job_id,)).start()
    assert main(["submit", "--wait", str(app)]) == code
    assert f"Job job-1 (count) {state}: so it is" in capsys.readouterr().out


def test_what_is_wrong_is_one_line(daemon: Daemon, app: Path, capsys: Capture) -> None:
    """The exit code is 2; a job's texts cannot control the terminal."""
    for command, why in (
        (["job", "job-9"], "there is no job job-9"),
        (["submit", "none.py"], "none.py: cannot be read: No such file or directory"),
        (["submit", "job.yaml"], "job files are read by the daemon's own `stoker submit`"),
        (["submit", "--conf", "x", str(app)], "--conf: should be key=value, found 'x'"),
        (["submit", "--name", "a\x1b[2Jb", str(app)], "name: should be one line"),
        (["jobs", "--url", "http://127.0.0.1:1"], "no daemon answers at http://127.0.0.1:1"),
        (["jobs", "--url", "nonsense"], "should be like http://127.0.0.1:8642"),
        (["jobs", "--token-file", "/none"], "token file /none: cannot be read"),
    ):
        assert main(command) == 2
        told = capsys.readouterr().err
        assert told.startswith("stoker: ")
        assert why in told
        assert "\x1b" not in told


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the client as it is installed from a checkout, and httpx; nothing of the daemon's."""
    folder = tmp_path_factory.mktemp("alone")
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/*/site-packages")
    for name in NEEDED:
        files = metadata.distribution(name).files or ()
        for part in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (packages / part).symlink_to(str(metadata.distribution(name).locate_file(part)))
    checkout = folder / "client"
    for file in (REPOSITORY / "client").rglob("*"):
        if file.is_file() and file.suffix in (".py", ".toml", ".md", ".typed"):
            copy = checkout / file.relative_to(REPOSITORY / "client")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    there = sorted(checkout.rglob("*"))
    pip("wheel", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder), str(checkout))
    assert sorted(checkout.rglob("*")) == there, "building leaves files in the checkout"
    pip("install", "--no-index", *map(str, folder.glob("*.whl")), python=folder / "bin/python")
    return folder / "bin/python"


def test_it_needs_httpx_alone(alone: Path, daemon: Daemon, app: Path, tmp_path: Path) -> None:
    """Installed from a checkout: from Python, and as a module, without anything of the daemon's."""
    program = (
        "import asyncio, importlib.util, sys, stoker\n"
        "there = [n for n in ('daemon', 'conf', 'yaml', 'pyspark') if importlib.util.find_spec(n)]\n"
        "assert not there, there\n"
        "with stoker.Stoker() as client:\n"
        "    print(client.submit(sys.argv[1], executors=2)['id'])\n"
        "async def main():\n"
        "    async with stoker.AsyncStoker() as client:\n"
        "        print((await client.submit(sys.argv[1]))['id'])\n"
        "asyncio.run(main())\n"
    )
    environ = {"PATH": os.defpath, "STOKER_URL": daemon.url, "HOME": str(tmp_path)}
    done = subprocess.run(
        [alone, "-c", program, app], env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "job-1\njob-2\n"), done.stderr
    for command in (["jobs"], ["spark-submit", "--version"], ["--help"], ["spark-submit", app]):
        done = subprocess.run(
            [alone, "-m", "stoker", *command], env=environ, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    assert (next(alone.parents[1].glob("lib/*/site-packages/stoker")) / "py.typed").is_file()
