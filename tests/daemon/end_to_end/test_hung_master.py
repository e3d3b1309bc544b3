"""The daemon with a hung master: it decides, answers and ends as usual, and reports the fault."""

import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from stoker import Stoker

from tests.chaos.scene import SPARK
from tests.daemon.conftest import ZooKeeper
from tests.daemon.fleet import Daemon, agents
from tests.framework.embedded.running import running
from tests.framework.mesos.test_hung_master import Announcer
from tests.waiting import until


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """A daemon's config but for its master."""
    return {"data_dir": str(tmp_path / "data"), "spark": {"driver_host": "127.0.0.1"}}


def test_kills_are_answered_and_the_daemon_ends_while_its_master_hangs(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    """A kill is stored at once and done when there is a master; SIGTERM needs none."""
    with running(tmp_path / "mesos", agents()) as mesos:
        daemon = Daemon(tmp_path, "daemon", {**config, "mesos": {"master": mesos.address}})
        spec = {
            "app": str(SPARK / "home/driver.py"), "args": ["600", "0"], "executors": 2, "cpus": 0.5,
            "env": {"CHAOS_LOG": str(tmp_path / "started"), "CHAOS_KEY": "key"},
        }  # fmt: skip
        daemon.up()
        try:
            until(daemon.leads, daemon.log)
            (framework,) = mesos.get("/frameworks")["frameworks"]
            assert framework["webui_url"] == daemon.url
            with Stoker(daemon.url) as client:
                job_id = str(client.submit_spec(spec)["id"])
                until(lambda: client.job(job_id)["state"] == "running", daemon.log)
                mesos.hang()
                assert client.kill(job_id)["state"] == "killed"
                until(lambda: not daemon.leads(), daemon.log)
                ready = httpx.get(f"{daemon.url}/readyz").json()
                assert ready["checks"]["mesos"] != f"subscribed to {mesos.address}"
                assert ready["checks"]["loop"] == "ok"
            asked = time.monotonic()
            daemon.end(signal.SIGTERM)
            print(f"ended {time.monotonic() - asked:.1f} s after SIGTERM")
            assert "Traceback" not in daemon.log()
            mesos.go_on()
            daemon.up()
            until(daemon.leads, daemon.log)
            with Stoker(daemon.url) as client:
                until(lambda: all(t["ended_at"] for t in client.job(job_id)["tasks"]), daemon.log)
        finally:
            mesos.go_on()
            daemon.end(signal.SIGTERM)
            daemon.end(signal.SIGKILL)


def test_a_job_is_launched_by_the_next_leader_while_the_last_one_hangs(
    tmp_path: Path, config: dict[str, Any], zookeeper: ZooKeeper
) -> None:
    """It was submitted while nobody answered; nothing of the old leader is waited for but its election."""
    announcer = Announcer(zookeeper.address)
    with running(tmp_path / "a", agents()) as one, running(tmp_path / "b", agents()) as other:
        master = f"zk://{zookeeper.address}/mesos"
        daemon = Daemon(tmp_path, "daemon", {**config, "policy": {"name": "ff"}, "mesos": {"master": master}})
        spec = {
            "app": str(SPARK / "home/driver.py"), "args": ["600", "0"], "executors": 2, "cpus": 0.5,
            "env": {"CHAOS_LOG": str(tmp_path / "started"), "CHAOS_KEY": "key"},
        }  # fmt: skip
        try:
            znode = announcer.announce(one.address)
            announcer.announce(other.address)
            daemon.up()
            until(daemon.leads, daemon.log)
            one.hang()
            with Stoker(daemon.url) as client:
                job_id = str(client.submit_spec(spec)["id"])
                assert client.job(job_id)["tasks"] == []
                announcer.withdraw(znode)
                elected = time.monotonic()
                until(lambda: client.job(job_id)["tasks"], daemon.log)
                print(f"launched {time.monotonic() - elected:.2f} s after the election")
                until(lambda: client.job(job_id)["state"] == "running", daemon.log)
                print(f"running {time.monotonic() - elected:.2f} s after the election")
                assert len(other.get("/tasks")["tasks"]) == 2
                assert client.kill(job_id)["state"] == "killed"
        finally:
            one.go_on()
            announcer.close()
            daemon.end(signal.SIGTERM)
            daemon.end(signal.SIGKILL)
