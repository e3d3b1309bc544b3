"""The daemon runs jobs on a substrate that knows no Mesos, which shows that nothing else of it does."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from daemon.cli.operate.temporary_daemon import TemporaryDaemon
from tests.real_daemon import Daemon, real_daemon
from tests.waiting import until

_REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon whose tasks are processes of this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TemporaryDaemon, "program", "tests.daemon.substrate.process_daemon")
        patch.setenv("PYTHONPATH", str(_REPOSITORY))
        with real_daemon(tmp_path_factory.mktemp("daemon")) as running:
            yield running


def processes_of(job_id: str, daemon: Daemon) -> dict[str, list[int]]:
    """Pids of the processes in each task's folder."""
    found: dict[str, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            folder = (process / "cwd").readlink()
            if folder.parent == daemon.stage.data_dir / "tasks" and folder.name.startswith(f"{job_id}."):
                found.setdefault(folder.name, []).append(int(process.name))
    return found


@pytest.mark.slow
def test_a_job_runs_without_mesos_while_the_daemon_is_killed(daemon: Daemon) -> None:
    """A daemon that starts again finds executors and driver, and the result is right."""
    job_id = daemon.submit(12, 1.0)
    daemon.wait(job_id, lambda job: job["state"] == "running")
    assert sorted(processes_of(job_id, daemon)) == [f"{job_id}.0", f"{job_id}.1"]
    daemon.stage.restart()
    daemon.stage.await_ready(daemon.client)
    job = daemon.ended(job_id)
    assert (job["state"], job["exit_code"], job["losses"]) == ("finished", 0, 0), job
    assert daemon.printed(job_id) == f"SUM {sum(x * x for x in range(12))}\n"
    assert "CoarseGrainedExecutorBackend" in daemon.printed(job_id, 1, "stderr")
    assert {task["vm"] for task in job["tasks"]} <= {"vm-1", "vm-2"}
    assert job["cost"] > 0
    assert not processes_of(job_id, daemon)
    checks = httpx.get(f"{daemon.stage.url}/readyz", trust_env=False).json()["checks"]
    assert checks["processes"] == "ok"
    assert "mesos" not in checks
    assert not (daemon.stage.data_dir / "mesos").exists()


@pytest.mark.slow
def test_a_lost_executor_is_placed_again_and_a_job_is_killed_without_mesos(daemon: Daemon) -> None:
    """Its driver is a task, too; a kill ends all of its processes."""
    job_id = daemon.submit(100, 1.0, driver={"on": "cluster", "memory": 1024})
    daemon.wait(job_id, lambda job: job["state"] == "running")
    for pid in processes_of(job_id, daemon)[f"{job_id}.0"]:
        os.kill(pid, signal.SIGKILL)
    job = daemon.wait(job_id, lambda job: [t["state"] for t in job["tasks"]][3:] == ["running"])
    assert job["losses"] == 1, job
    daemon.client.kill(job_id)
    assert daemon.ended(job_id)["state"] == "killed"
    until(lambda: not processes_of(job_id, daemon), "all processes have ended")
