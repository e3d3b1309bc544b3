"""A job store as another version of Stoker leaves it, killed while jobs run and wait, as SQL text.

    python -m tests.daemon.store.record_store COMMIT

writes `tests/daemon/store/stores/COMMIT.sql`, which `test_takeover.py` finds. The daemon is that of the
commit, on the embedded Mesos of this tree; its executors and drivers on the cluster only sleep.
"""

import contextlib
import io
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import yaml

from framework.embedded import AgentSpec
from tests.daemon.ports import free_port
from tests.framework.embedded.running import running

STORES = Path(__file__).parent / "stores"
#: Of the master: agents and frameworks have ids that begin with it.
MASTER = "00000000-0000-4000-8000-000000000000"
AGENTS = [
    AgentSpec(f"vm-{n}", "m1.large", 4, 16384, 0.24, f"127.0.8.{n}", (20_000 + 200 * n, 20_199 + 200 * n))
    for n in (1, 2)
]
#: One that is over, one with its driver on the host, one with it on the cluster, two that wait.
JOBS: tuple[dict[str, Any], ...] = (
    {"name": "over"},
    {"name": "here", "executors": 2, "type": "sort"},
    {"name": "there", "executors": 2, "min_executors": 1, "driver": {"on": "cluster"}},
    {"name": "large", "cpus": 4.0},
    {"name": "small", "cpus": 0.5},
)
#: The daemon of commands, on a host without a name of its own.
_DAEMON = """import socket, sys
socket.gethostname = lambda: "recorded"
from tests.benchmarks.daemon_of_commands import main
sys.exit(main())"""


def record(commit: str, folder: Path) -> str:
    """The store of that version, as the statements that make it."""
    tree, data = folder / "tree", folder / "data"
    archive = subprocess.run(["git", "archive", commit], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(tree, filter="data")
    data.mkdir(mode=0o700)
    with running(folder / "mesos", AGENTS, master_id=MASTER) as mesos:
        listen = f"127.0.0.1:{free_port()}"
        config = {"listen": listen, "data_dir": str(data), "mesos": {"master": mesos.address}}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        command = [sys.executable, "-c", _DAEMON, str(folder / "config.yaml"), "sleep", "3600"]
        with subprocess.Popen(command, cwd=tree) as daemon:
            try:
                _play(httpx.Client(base_url=f"http://{listen}"))
            finally:
                daemon.send_signal(signal.SIGKILL)
    with contextlib.closing(sqlite3.connect(data / "stoker.db")) as sql:
        return "\n".join(sql.iterdump()) + "\n"


def _play(api: httpx.Client) -> None:
    _wait(api, "/readyz", lambda answer: answer.get("ready", False))
    for number, job in enumerate(JOBS, 1):
        headers = {"Idempotency-Key": job["name"]}
        answer = api.post("/v1/jobs", json={"app": "/apps/sort.py", **job}, headers=headers)
        answer.raise_for_status()
        if number <= 3:
            _wait(api, f"/v1/jobs/job-{number}", lambda job: job["state"] == "running")
        if number == 1:
            api.delete("/v1/jobs/job-1").raise_for_status()
            _wait(api, "/v1/jobs/job-1", lambda job: job["tasks"][0]["state"] == "killed")
    _wait(api, "/v1/jobs/job-4/explain", lambda answer: answer["explanations"])


def _wait(api: httpx.Client, path: str, fits: Any) -> None:
    deadline = time.monotonic() + 600
    while True:
        with contextlib.suppress(httpx.TransportError):
            if fits(api.get(path).json()):
                return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path}: {api.get(path).text}")
        time.sleep(0.1)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        STORES.mkdir(exist_ok=True)
        (STORES / f"{sys.argv[1]}.sql").write_text(record(sys.argv[1], Path(made)))
