"""Hostile jobs attack the daemon and the jobs beside them, on a real daemon and Mesos.

    HOSTILE_JOBS=100 python -m pytest tests/daemon/end_to_end/test_hostile_jobs.py

runs 100 of them; `make test` runs each kind once. Spark is in miniature; a job's driver and executors perform
its actions, with the rights of jobs where the test runs: another user's rights where root runs it and others
can read the repository and an interpreter, the test's own or the system's. Elsewhere, kinds that are harmless
only then are left out; the test prints as which user jobs ran.
"""

import contextlib
import os
import pwd
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from framework.embedded.isolation import Isolation, IsolationError, IsolationOptions
from framework.host.process_tree import below
from framework.host.unix_users import cannot, find_account
from tests.chaos.hostile import KINDS, Kind
from tests.chaos.scene import SPARK
from tests.chaos.strangers import environment_of, exchanged
from tests.daemon.fleet import Daemon, Fleet, agents, fleets
from tests.waiting import PATIENCE, until

#: Each kind is there once at least.
COUNT = int(os.environ.get("HOSTILE_JOBS", "0"))
MEMORY_MIB = 200
#: Where a path of a job leads in turn, while the daemon and the fetcher look at it.
TARGETS = ("good", "secret", "/dev/zero", "fifo", "/proc/1/environ", "/proc/self/mem", "nothing")
#: What ends a job that failed: lost records, or a file that could not be fetched.
REASONS = ("record", "exit_code", "process.json", "fetch", "cannot be looked at")
#: What a config says for jobs to run as another user than the daemon.
OTHER_USER: dict[str, Any] = {"run_as": "nobody", "mesos": {"user": "nobody"}}
#: Modules that Python imports by itself, and one of ours.
MODULES = ("sitecustomize", "usercustomize", "framework")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that others may pass through; the daemon's secret is in it."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o711)
        (folder / "good").write_text("good")
        (folder / "secret").write_text("a secret of the daemon's")
        (folder / "secret").chmod(0o600)
        os.mkfifo(folder / "fifo")
        os.mkfifo(folder / "library")
        yield folder


@pytest.fixture(params=["none", "vm"])
def host(request: pytest.FixtureRequest, folder: Path) -> Iterator[Fleet]:
    """Fleet with executors that are processes of this machine, or run in VMs of their own."""
    isolated = request.param == "vm"
    if isolated:
        try:
            with Isolation(agents(), IsolationOptions(), "hostile"):
                pass
        except IsolationError as error:
            pytest.skip(f"VMs cannot be isolated here: {error}")
    with fleets(folder, isolated=isolated) as make:
        python = python_of_others(folder)
        fleet = make(python, **OTHER_USER) if python else make()
        fleet.started.chmod(0o666)
        yield fleet


def python_of_others(folder: Path) -> str:
    """An interpreter for a daemon with jobs of another user; empty where there can be no such jobs."""
    same = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, shutil.which(same, path="/usr/bin:/usr/local/bin")):
        read = [Path(python or "/nowhere"), SPARK / "home/driver.py", folder / "good"]
        if os.geteuid() == 0 and not cannot(find_account("nobody"), read=read):
            return str(python)
    return ""


@pytest.mark.slow
def test_hostile_jobs_harm_nobody(host: Fleet, folder: Path) -> None:
    """Every job ends as it must, as do ordinary ones; the daemon answers all the while; nothing is left.

    Where jobs run as another user, no process that has a job's environment is the daemon's user's.
    """
    daemon = host.add()
    as_other = bool(python_of_others(folder))
    environment = environment_of(folder, MODULES)
    names = [name for name, kind in KINDS.items() if as_other or not kind.needs_user]
    # No secret hangs on it.
    names += random.Random(COUNT).choices(names, k=max(0, COUNT - len(names)))  # noqa: S311 - the same jobs each time
    with exchanged(folder / "path", TARGETS, 0.001):
        submitted = [(submit(host, daemon, KINDS[name], folder, environment), name) for name in names]
        hostile = [(job_id, name) for job_id, name in submitted if job_id]
        ordinary = [host.submit(daemon, 0.2) for _ in names]
        watch(host, daemon, hostile, ordinary, as_other)
    for job_id in ordinary:
        assert host.wait(daemon, job_id, "finished", "failed", "killed")["state"] == "finished"
    for job_id, name in hostile:
        job = host.wait(daemon, job_id, "finished", "failed", "killed")
        assert job["state"] in KINDS[name].states, (name, job["reason"])
        if job["state"] == "failed":
            assert any(reason in job["reason"] for reason in REASONS), (name, job["reason"])
    owners = [path.stat().st_uid for path in (folder / "obeyed").iterdir()]
    print(
        f"{len(hostile)} hostile jobs of {'another' if as_other else 'the same'} user, "
        f"{len(names) - len(hostile)} refused; the daemon's memory was {memory_mib(daemon):.0f} MiB at most; "
        f"{len(owners)} processes obeyed, of {sorted(set(owners))}"
    )
    assert set(owners) == {pwd.getpwnam("nobody").pw_uid if as_other else os.geteuid()}
    assert memory_mib(daemon) < MEMORY_MIB
    until(lambda: not left(host), lambda: left(host))
    assert daemon.leads()


def submit(host: Fleet, daemon: Daemon, kind: Kind, folder: Path, stranger: Mapping[str, str]) -> str:
    """One hostile job; its id, empty where it is refused."""
    environment = {
        **stranger,
        "CHAOS_LOG": str(host.started),
        "CHAOS_KEY": "hostile",
        "CHAOS_SCRIPT": kind.script,
        "CHAOS_EXECUTOR_SCRIPT": kind.executor,
        "CHAOS_SECRET": str(folder / "secret"),
        "CHAOS_DAEMON": str(daemon.pid),
    }
    if kind.preload:
        environment["LD_PRELOAD"] = str(folder / "library")
    spec: dict[str, Any] = {
        "app": str(SPARK / "home/driver.py"), "args": ["0.1", "0"], "executors": 1, "cpus": 0.5,
        "env": environment,
    }  # fmt: skip
    if kind.fetches:
        names = [str(folder / "path")]
        spec |= {"driver": {"on": "cluster", "cpus": 0.5, "memory": 1024}, "files": names, "archives": names}
    with httpx.Client(base_url=daemon.url, timeout=PATIENCE) as client:
        answer = client.post("/v1/jobs", json=spec)
    assert answer.status_code == 201 or (kind.fetches and answer.status_code == 422), answer.text
    return str(answer.json()["id"]) if answer.status_code == 201 else ""


def watch(
    host: Fleet, daemon: Daemon, hostile: list[tuple[str, str]], ordinary: list[str], as_other: bool
) -> None:
    """Until all have ended: read their logs, kill those that never would, and see that the daemon answers."""
    killed: set[str] = set()
    pending = dict(hostile)
    with httpx.Client(base_url=daemon.url, timeout=PATIENCE) as client:
        while pending or any(not ended(client, job_id) for job_id in ordinary):
            assert client.get("/readyz").status_code == 200
            for job_id, name in list(pending.items()):
                kind, job = KINDS[name], client.get(f"/v1/jobs/{job_id}").json()
                over = ended(client, job_id)
                for stream in ("stdout", "stderr"):
                    answer = client.get(f"/v1/jobs/{job_id}/logs", params={"stream": stream, "limit": 65536})
                    assert answer.status_code in {200, kind.log}, (name, answer.text)
                    assert len(answer.content) < 1 << 20
                    assert b"TAKEN" not in answer.content, name
                if over and kind.log != 200 and not (as_other and kind.needs_daemon):
                    assert client.get(f"/v1/jobs/{job_id}/logs").status_code == kind.log, name
                if kind.kill and job["state"] == "running" and job_id not in killed:
                    killed.add(job_id)
                    assert client.delete(f"/v1/jobs/{job_id}").status_code < 300
                if over:
                    del pending[job_id]
            assert memory_mib(daemon) < MEMORY_MIB
            time.sleep(0.1)


def ended(client: httpx.Client, job_id: str) -> bool:
    """Whether a job is over."""
    job: dict[str, Any] = client.get(f"/v1/jobs/{job_id}").json()
    return job["state"] in {"finished", "failed", "killed"}


def memory_mib(daemon: Daemon) -> float:
    """The daemon's largest resident memory so far, MiB."""
    assert daemon._process is not None
    status = Path(f"/proc/{daemon._process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def left(host: Fleet) -> list[str]:
    """Command lines of remaining drivers and executors."""
    return list(_left(f"CHAOS_LOG={host.started}".encode()))


def _left(mark: bytes) -> Iterator[str]:
    for pid in below(os.getpid()):
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                yield f"{pid}: {Path(f'/proc/{pid}/cmdline').read_bytes()!r}"
