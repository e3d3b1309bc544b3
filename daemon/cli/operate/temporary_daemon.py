"""A temporary daemon: a fresh folder with its config, `stoker up` as a process, and its end.

No process is left running afterwards, even after an error. The commands `demo` and `profile` use it.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

import yaml

from conf.loader import find
from daemon.cli.operate.orphans import descendants, end_all
from daemon.cli.shared.errors import CommandError
from daemon.substrate.embedded_mesos import find_embedded, until
from framework.host.process_tree import adopt_orphans, identity

if TYPE_CHECKING:
    from stoker import Stoker

_READY_SECONDS = 90.0
_KILL_JOBS_SECONDS = 10.0
_STOP_SECONDS = 20.0
_PID = "daemon.pid"


class TemporaryDaemon:
    """`stoker up` with an embedded Mesos in `folder`, from `with` to its end.

    This process adopts the processes that the daemon leaves behind, so that it can find and end them. `mesos`
    are further settings of that section of the daemon's config, `policies_allowed` may be chosen later.
    `sections` are others of the config; without `listen` it takes any free port.
    """

    #: The module that runs as `stoker`.
    program = "daemon.cli"

    def __init__(
        self,
        folder: Path,
        policy: str,
        cluster: str,
        mesos: Mapping[str, object] = MappingProxyType({}),
        policies_allowed: Sequence[str] = (),
        **sections: object,
    ) -> None:
        self._folder = folder
        self.url = f"http://{sections.get('listen') or f'127.0.0.1:{_free_port()}'}"
        self.config_file = folder / "stoker.yaml"
        self.log_file = folder / "daemon.log"
        self.data_dir = folder / "data"
        self._mesos = mesos
        self._policy = policy
        self._policies_allowed = policies_allowed
        self._sections = sections
        self._cluster = find(cluster)
        self._before: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "TemporaryDaemon":
        self._before = set(descendants())
        adopt_orphans()
        self.config_file.write_text(self._config())
        if os.geteuid() == 0:
            self._folder.chmod(0o711)  # root's jobs run as another user, whose folders are below this one
        self._start()
        return self

    def restart(self) -> None:
        """Kill the daemon and start it again, with the Mesos, the drivers and the files that it left."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-P", "-m", self.program, "up", "--config", str(self.config_file)]
        with self.log_file.open("ab") as log:
            # In a session of its own, so that Ctrl-C reaches this process alone, which ends things in order.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        (self._folder / _PID).write_text(json.dumps(identity(self._process.pid)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second signal now would leave processes behind.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        print("Stopping the daemon and the embedded Mesos ...", file=sys.stderr, flush=True)
        self._stop()

    def await_ready(self, client: "Stoker") -> None:
        """Wait until the daemon can schedule; CommandError when it ends before or takes too long."""
        if not until(lambda: self.ended or client.ready(), _READY_SECONDS):
            raise CommandError(f"the daemon was not ready after {_READY_SECONDS:.0f} s\n{self.log_tail()}", 1)
        self.check_alive()

    @property
    def ended(self) -> bool:
        """Whether the daemon's process has ended."""
        return self._process is None or self._process.poll() is not None

    def check_alive(self) -> None:
        """Raise CommandError with the end of its log when the daemon has ended."""
        if self.ended:
            raise CommandError(f"the daemon has ended\n{self.log_tail()}", 1)

    def log_tail(self, lines: int = 10) -> str:
        """The end of the daemon's log."""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    def _config(self) -> str:
        values: dict[str, Any] = {
            "listen": self.url.removeprefix("http://"),
            "data_dir": str(self.data_dir),
            "policy": {"name": self._policy},
            "policies_allowed": list(self._policies_allowed),
            "mesos": {"master": "embedded", "cluster": str(self._cluster), "port": 0, **self._mesos},
            **self._sections,
        }
        return yaml.safe_dump(values, sort_keys=False)

    def _stop(self) -> None:
        if self._process is not None:
            _kill_jobs(self.url)
            _end(self._process)
        left = find_embedded(self.data_dir)
        if left is not None:
            left.stop()
        end_all(lambda: [pid for pid in descendants() if pid not in self._before])


def end_left(folder: Path) -> None:
    """End the daemon, its jobs and its Mesos that one in this folder left, because it was killed."""
    try:
        recorded = json.loads((folder / _PID).read_text())
        config = yaml.safe_load((folder / "stoker.yaml").read_text())
        pid, url = int(recorded["pid"]), f"http://{config['listen']}"
    except (OSError, ValueError, TypeError, KeyError):
        return
    if identity(pid) == recorded:
        _kill_jobs(url)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        until(lambda: identity(pid) != recorded, _STOP_SECONDS)
    left = find_embedded(folder / "data")
    if left is not None:
        left.stop()


def _kill_jobs(url: str) -> None:
    """Kill the active jobs, so that drivers and executors end in the way Spark and Mesos expect."""
    from stoker import Stoker, StokerError

    from daemon.cli.shared.follow import ENDED

    with contextlib.suppress(StokerError), Stoker(url) as client:

        def active() -> list[str]:
            return [job["id"] for job in client.jobs(limit=1000)["jobs"] if job["state"] not in ENDED]

        for job_id in active():
            client.kill(job_id)
        until(lambda: not active(), _KILL_JOBS_SECONDS)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
