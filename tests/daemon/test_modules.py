"""No serving process imports TensorFlow or its companions; SECURITY.md relies on that."""

import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from stoker import Stoker

from daemon.cli.operate.orphans import descendants
from framework.host.process_tree import adopt_orphans
from tests.chaos.scene import SPARK
from tests.daemon.fleet import Daemon
from tests.waiting import until

#: What is locked for training, measuring and drawing alone.
FOREIGN = ("tensorflow", "keras", "tensorboard", "tf_agents", "gym", "werkzeug", "h5py", "pyspark.sql", "PIL")
#: Every policy that has been trained, or is judged by one that was, and one that learns while it decides.
TRAINED: tuple[dict[str, Any], ...] = (
    {"name": "reinforce"},
    {"name": "dqn"},
    {"name": "lookahead", "base": "reinforce", "beta": 1.0},
    {"name": "ogasched"},
)


@pytest.mark.slow
def test_no_process_that_serves_imports_tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real daemon and its embedded Mesos, while policies that were trained decide one after the other."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # every import is told on stderr
    adopt_orphans()
    before = set(descendants())
    cluster = {"vms": [{"type": "small", "cpus": 4, "memory": "8g", "price_per_hour": 0.1, "count": 2}]}
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(cluster))
    mesos = {"cluster": str(tmp_path / "cluster.yaml"), "port": 0}
    config = {
        "data_dir": str(tmp_path / "data"),
        "mesos": mesos,
        "decision_timeout": 120.0,
        "policy": TRAINED[0],
    }
    daemon = Daemon(tmp_path, "daemon", config)
    daemon.up()
    try:
        until(daemon.leads, daemon.log)
        for policy in TRAINED:
            answer = httpx.put(f"{daemon.url}/v1/policy", json=policy, timeout=1200.0)
            assert answer.status_code == 200, answer.text
            assert decided_by(daemon, tmp_path) == policy["name"]
            for process in {*descendants()} - before:
                maps = maps_of(process)
                assert not [name for name in FOREIGN if f"/{name}/" in maps], (policy, process)
    finally:
        daemon.end(signal.SIGTERM)
    told = "\n".join(path.read_text(errors="replace") for path in tmp_path.rglob("*log*") if path.is_file())
    imported = {
        line.rpartition("|")[2].strip() for line in told.splitlines() if line.startswith("import time:")
    }
    assert {"daemon.server", "framework.embedded.master.master"} <= imported
    assert any(name.startswith("agents.drl.") for name in imported)
    assert not [
        name for name in imported if name in FOREIGN or name.startswith(tuple(f"{f}." for f in FOREIGN))
    ]


def decided_by(daemon: Daemon, folder: Path) -> str:
    """Submit a job; return the policy that placed it."""
    (folder / "started").touch()
    spec = {
        "app": str(SPARK / "home/driver.py"), "args": ["0.1", "0"], "executors": 1, "memory": 2048,
        "env": {"CHAOS_LOG": str(folder / "started"), "CHAOS_KEY": "key"},
    }  # fmt: skip
    with Stoker(daemon.url) as client:
        job = client.submit_spec(spec)["id"]
        until(lambda: client.job(job)["state"] in ("finished", "failed"), daemon.log)
        assert client.job(job)["state"] == "finished", client.job(job)
        return str(client.explain(job)["explanations"][-1]["policy"])


def maps_of(process: int) -> str:
    """The files that a process has mapped; nothing of one that has ended."""
    try:
        return Path(f"/proc/{process}/maps").read_text()
    except OSError:
        return ""
