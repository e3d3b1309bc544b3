"""Jobs that do what they can against the daemon and those beside them, on a real daemon and Mesos.

    HOSTILE_JOBS=100 python -m pytest tests/daemon/end_to_end/test_hostile_jobs.py

runs so many of them; `make test` runs each kind once. Spark is in miniature; what a job does, its driver
does, in its folder, with the rights that jobs have where the test runs.
"""

import contextlib
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from daemon.cli.shared.client import Client
from framework.host.process_tree import below
from tests.chaos.hostile import KINDS, Kind
from tests.chaos.scene import SPARK
from tests.daemon.fleet import Daemon, Fleet, Starter
from tests.waiting import PATIENCE, until

#: Each kind is there once at least.
COUNT = int(os.environ.get("HOSTILE_JOBS", "0"))
MEMORY_MIB = 200
#: Seconds for an answer while all this goes on; the machine may have other things to do.


@pytest.mark.slow
def test_hostile_jobs_harm_nobody(fleet: Starter, tmp_path: Path) -> None:
    """Every job ends as it must, as do ordinary ones; the daemon answers all the while; nothing is left."""
    host = fleet()
    daemon = host.add()
    os.mkfifo(tmp_path / "library")
    names = list(KINDS)
    names += random.Random(COUNT).choices(names, k=max(0, COUNT - len(names)))  # noqa: S311 - no secret hangs on it
    hostile = [(submit(host, daemon, KINDS[name], tmp_path / "library"), name) for name in names]
    ordinary = [host.submit(daemon, 0.2) for _ in names]
    watch(host, daemon, hostile, ordinary)
    for job_id in ordinary:
        assert host.wait(daemon, job_id, "finished", "failed", "killed")["state"] == "finished"
    for job_id, name in hostile:
        job = host.wait(daemon, job_id, "finished", "failed", "killed")
        assert job["state"] in KINDS[name].states, (name, job["reason"])
        if job["state"] == "failed":
            assert (
                "record" in job["reason"] or "exit_code" in job["reason"] or "process.json" in job["reason"]
            ), name
    print(f"{len(hostile)} hostile jobs; the daemon's memory was {memory_mib(daemon):.0f} MiB at most")
    assert memory_mib(daemon) < MEMORY_MIB
    until(lambda: not left(host), lambda: left(host))
    assert daemon.leads()


def submit(host: Fleet, daemon: Daemon, kind: Kind, library: Path) -> str:
    """One hostile job; its id."""
    environment = {"CHAOS_LOG": str(host.started), "CHAOS_KEY": "hostile", "CHAOS_SCRIPT": kind.script}
    if kind.preload:
        environment["LD_PRELOAD"] = str(library)
    spec = {
        "app": str(SPARK / "home/driver.py"), "args": ["0.1", "0"], "executors": 1, "cpus": 0.5,
        "env": environment,
    }  # fmt: skip
    with Client(daemon.url) as client:
        return str(client.submit(spec)["id"])


def watch(host: Fleet, daemon: Daemon, hostile: list[tuple[str, str]], ordinary: list[str]) -> None:
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
                if over and kind.log != 200:
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
    """What is left of drivers and executors: their command lines."""
    return list(_left(f"CHAOS_LOG={host.started}".encode()))


def _left(mark: bytes) -> Iterator[str]:
    for pid in below(os.getpid()):
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                yield f"{pid}: {Path(f'/proc/{pid}/cmdline').read_bytes()!r}"
