"""Daemons as processes, one or several on a store, with a Mesos and a Spark in miniature."""

import contextlib
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml
from stoker import Stoker

from daemon.cli.operate.orphans import descendants, end_all
from framework.embedded import AgentSpec
from framework.host.process_tree import adopt_orphans
from tests.chaos.scene import MESOS_TIMES, MINIATURE, REPOSITORY, SPARK
from tests.daemon.ports import free_port
from tests.framework.embedded.running import Mesos, running
from tests.waiting import PATIENCE, until


def agents() -> list[AgentSpec]:
    """Four VMs of four cpus, on addresses that no other tests use."""
    return [
        AgentSpec(f"vm-{n}", "m1.large", 4, 16384, 0.24, f"127.0.9.{n}", (20_000 + 200 * n, 20_199 + 200 * n))
        for n in range(1, 5)
    ]


class Daemon:
    """One of several daemons; its jobs run a Spark in miniature."""

    def __init__(self, folder: Path, name: str, config: dict[str, Any], python: str = sys.executable) -> None:
        self._python = python
        self.url = f"http://127.0.0.1:{free_port()}"
        self.folder = folder
        self.file = folder / f"{name}.yaml"
        self._log = folder / f"{name}.log"
        versions = {"0.1": {**MINIATURE["versions"]["0.1"], "python": python}}
        spark = {**MINIATURE, "versions": versions, **config.get("spark", {})}
        listen = self.url.removeprefix("http://")
        self.file.write_text(yaml.safe_dump({**config, "spark": spark, "listen": listen}))
        self._process: subprocess.Popen[bytes] | None = None
        # It is asked often: to read each time whose certificates are trusted would take most of a core.
        self._no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def up(self) -> None:
        """Start it, and wait until it answers."""
        # Another interpreter of the same version finds the packages of this one.
        packages = [path for path in sys.path if path and not path.startswith(sys.base_prefix)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *packages])}
        command = [self._python, "-P", "-m", "daemon.cli", "up", "--config", str(self.file)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        until(lambda: self.ended or self.get("/healthz"), self.log)
        assert not self.ended, self.log()

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it is gone."""
        return self._process is None or self._process.poll() is not None

    def end(self, number: signal.Signals) -> None:
        """End it by a signal."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)

    def get(self, path: str) -> httpx.Response | None:
        """Ask for something; None when nobody answers."""
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.url}{path}", timeout=5.0, verify=self._no_tls)
        return None

    def leads(self) -> bool:
        """Whether it can schedule."""
        response = self.get("/readyz")
        return response is not None and response.status_code == 200

    def log(self) -> str:
        """Return the daemon's log output."""
        return self._log.read_text(errors="replace")


class Fleet:
    """Daemons on one store and one Mesos, each with a data folder: the same one is the same host."""

    def __init__(self, folder: Path, mesos: Mesos, config: dict[str, Any], python: str) -> None:
        self.started = folder / "started"
        self.started.touch()
        self.mesos = mesos
        self._folder = folder
        self._python = python
        self._config = {
            "policy": {"name": "rr"},
            **config,
            "spark": {"driver_host": mesos.host, **config.get("spark", {})},
            "mesos": {"master": mesos.address, "launch_timeout": 2.0, **config.get("mesos", {})},
        }
        self.daemons: list[Daemon] = []

    def add(self, host: str = "host", **config: Any) -> Daemon:
        """Another daemon, running; its config may differ."""
        config = {**self._config, "data_dir": str(self._folder / host), **config}
        self.daemons.append(Daemon(self._folder, f"daemon-{len(self.daemons)}", config, self._python))
        self.daemons[-1].up()
        return self.daemons[-1]

    def submit(self, daemon: Daemon, seconds: float) -> str:
        """Submit a job with a driver on the daemon's host; its id."""
        spec = {
            "app": str(SPARK / "home/driver.py"), "args": [str(seconds), "0"], "executors": 2, "cpus": 0.5,
            "env": {"CHAOS_LOG": str(self.started), "CHAOS_KEY": "key"},
        }  # fmt: skip
        with Stoker(daemon.url) as client:
            return str(client.submit_spec(spec)["id"])

    def wait(self, daemon: Daemon, job_id: str, *states: str) -> Any:
        """Wait until the job is in one of these states."""

        def there() -> bool:
            response = daemon.get(f"/v1/jobs/{job_id}")
            return response is not None and response.json()["state"] in states

        until(there, lambda: (getattr(daemon.get(f"/v1/jobs/{job_id}"), "text", ""), daemon.log()))
        with Stoker(daemon.url) as client:
            return client.job(job_id)

    def drivers(self) -> int:
        """How many drivers were ever started."""
        return sum(line.startswith("driver") for line in self.started.read_text().splitlines())


Starter = Callable[..., Fleet]


@contextlib.contextmanager
def fleets(
    folder: Path, vms: Sequence[AgentSpec] = (), *, isolated: bool = False, **times: Any
) -> Iterator[Starter]:
    """A Mesos of these VMs, or four, and a factory of fleets on it; all processes are ended afterwards.

    `times` are those of the Mesos that differ from short ones.
    """
    adopt_orphans()
    before = set(descendants())
    made: list[Fleet] = []
    try:
        with running(
            folder / "mesos", list(vms) or agents(), isolated=isolated, **{**MESOS_TIMES, **times}
        ) as mesos:

            def make(python: str = sys.executable, **config: Any) -> Fleet:
                made.append(Fleet(folder, mesos, config, python))
                return made[-1]

            try:
                yield make
            finally:
                for daemon in (daemon for each in made for daemon in each.daemons):
                    daemon.end(signal.SIGKILL)
    finally:
        end_all(lambda: [pid for pid in descendants() if pid not in before])
