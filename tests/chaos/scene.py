"""The stage of a chaos run: a folder, an embedded Mesos, a daemon that can be killed, and their processes."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from stoker import Stoker, StokerError

from framework.embedded import AgentSpec
from framework.host.process_tree import children
from tests.chaos.skewed import SECONDS
from tests.daemon.ports import free_port
from tests.framework.embedded.running import Mesos

REPOSITORY = Path(__file__).parents[2]
SPARK = Path(__file__).parent / "spark"
#: What a config says of the Spark in miniature.
MINIATURE: dict[str, Any] = {
    "default": "0.1",
    "versions": {
        "0.1": {"home": str(SPARK / "home"), "java_home": str(SPARK / "java"), "python": sys.executable}
    },
}
PATIENCE = 60.0  # seconds after which a daemon that does not come up is given up

#: Short, so that a bad day fits into minutes; each is the counterpart of a default of Mesos.
MESOS_TIMES: dict[str, Any] = {
    "agent_ping_timeout": 0.5, "max_agent_ping_timeouts": 3, "offer_timeout": 5.0, "update_retry": 1.0,
    "update_retry_max": 5.0, "allocation_interval": 0.5, "executor_shutdown_grace": 1.0,
}  # fmt: skip


#: The disk of a daemon that may be filled: a few hundred jobs take a tenth of it.
DISK_MIB = 256


def mount(folder: Path) -> bool:
    """Make this folder a small disk of its own; whether that may be done here."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "stoker-chaos", str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0


def unmount(folder: Path) -> None:
    """Unmount the disk, if there is one; its contents are gone."""
    if folder.is_mount():
        subprocess.run(["umount", str(folder)], check=True)


def agents() -> list[AgentSpec]:
    """Six VMs of four cpus."""
    return [
        AgentSpec(f"vm-{n}", "m1.large", 4, 16384, 0.24, f"127.0.1.{n}", (20_000 + 200 * n, 20_199 + 200 * n))
        for n in range(1, 7)
    ]


class Daemon:
    """One `stoker up`, which can be killed and frozen."""

    def __init__(self, folder: Path, name: str, settings: dict[str, object], clock: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._folder, self._clock = folder, clock
        self._log = folder / "daemon.log"
        self._config = folder / f"{name}.yaml"
        self._config.write_text(yaml.safe_dump({"listen": self.url.removeprefix("http://"), **settings}))
        self.process: subprocess.Popen[bytes] | None = None
        self._wanted = False

    @property
    def fell(self) -> bool:
        """Whether it ended by itself."""
        return self._wanted and not self.up

    @property
    def up(self) -> bool:
        """Whether it was started and not ended."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it; another one on the same store may still be ending."""
        chosen = {"PYTHONPATH": str(REPOSITORY), "CHAOS_CLOCK": str(self._clock)}
        command = [sys.executable, "-P", "-m", "tests.chaos.skewed", "up", "--config", str(self._config)]
        environment = {**os.environ, **chosen}
        self._wanted = True
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self._folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def end(self, number: signal.Signals) -> int:
        """End it by a signal; its exit code."""
        assert self.process is not None
        self._wanted = False
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """It is stopped; then it goes on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def ready(self) -> bool:
        """Whether it leads and can schedule."""
        with Stoker(self.url) as client:
            return client.ready()


class Scene:
    """One daemon or, where several share the store, two on one folder, and one Mesos."""

    def __init__(
        self,
        folder: Path,
        mesos: Mesos,
        database: str = "",
        changes: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """`changes` are sections of the daemons' config that are other than usual here."""
        self.folder = folder
        self.mesos = mesos
        self.data = folder / "data"
        self.database = database or f"sqlite:///{self.data / 'stoker.db'}"
        self.log = folder / "tasks.log"
        self.log.touch()
        # Jobs may run as another user.
        folder.chmod(0o711)
        self.log.chmod(0o666)
        self._clock = folder / "clock"
        self._clock.write_bytes(SECONDS.pack(0.0))
        names = ("stoker", "standby") if database else ("stoker",)
        self.daemons = [Daemon(folder, name, {**self._settings(), **changes}, self._clock) for name in names]

    def _settings(self) -> dict[str, object]:
        return {
            "data_dir": str(self.data),
            "database": self.database,
            "leader": {"lease": 2.0},
            "policy": {"name": "rr"},
            "mesos": {"master": self.mesos.address, "launch_timeout": 2.0, "unreachable_timeout": 3.0},
            "spark": {"driver_host": "127.0.0.1", **MINIATURE},
        }

    def await_ready(self) -> None:
        """Wait until a daemon schedules."""
        self.wait(lambda: self.leader() is not None, "the daemon does not come up")

    def leader(self) -> Daemon | None:
        """The daemon that leads and can schedule."""
        return next((daemon for daemon in self.daemons if daemon.up and daemon.ready()), None)

    def wait(self, condition: Callable[[], bool], otherwise: str, seconds: float = PATIENCE) -> None:
        """Wait until the condition holds; AssertionError with the daemon's last words when it never does."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{otherwise}\n{self.log_tail()}")
            time.sleep(0.1)

    def jump(self, seconds: float) -> None:
        """The daemons' wall clock is wrong by so much from now on."""
        with self._clock.open("r+b", buffering=0) as file:
            file.write(SECONDS.pack(seconds))

    def log_tail(self, lines: int = 15) -> str:
        """The end of the daemon's log."""
        text = (self.folder / "daemon.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    @contextlib.contextmanager
    def client(self, turn: int = 0) -> Iterator[Stoker]:
        """A client of one daemon or another; the caller copes with an absent one."""
        with Stoker(self.daemons[turn % len(self.daemons)].url) as client:
            yield client

    def tell(self, work: Callable[[Stoker], object]) -> bool:
        """Ask a daemon for something; whether one could be asked."""
        for turn in range(len(self.daemons)):
            with self.client(turn) as client, contextlib.suppress(StokerError):
                work(client)
                return True
        return False

    # ---- processes -------------------------------------------------------------------------------

    def executors(self) -> list[int]:
        """Pids of the tasks' processes."""
        return [pid for pid, environ, _ in self._processes() if b"MESOS_EXECUTOR_ID=" in environ]

    def drivers(self) -> list[tuple[int, str]]:
        """Drivers on the daemon's host: pid and job id."""
        return [(pid, job) for pid, _, command in self._processes() if (job := self._job(pid, command))]

    def left(self) -> list[str]:
        """Processes besides Mesos and the daemon: pids with their commands."""
        keeper = self.mesos.process.pid
        daemons = {daemon.process.pid for daemon in self.daemons if daemon.process is not None}
        mine = {keeper, *children(keeper), os.getpid(), *daemons}
        of_daemons = {pid for daemon in daemons for pid in children(daemon)}
        return [
            f"{pid}: {_task(environ)} {command.decode(errors='replace')[:60]!r}"
            for pid, environ, command in self._processes()
            if pid not in mine and not (pid in of_daemons and _FORESIGHT in command)
        ]

    def left_for_good(self, patience: float = 60.0) -> list[str]:
        """The same when those have ended that played ahead for a daemon that was killed: they notice late."""
        until = time.monotonic() + patience
        while any(_FORESIGHT in command for _, _, command in self._processes()) and time.monotonic() < until:
            time.sleep(0.1)
        return self.left()

    def clear(self) -> None:
        """End everything that is left."""
        for daemon in self.daemons:
            if daemon.up:
                daemon.end(signal.SIGKILL)
        for line in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.partition(":")[0]), signal.SIGKILL)

    def _job(self, pid: int, command: bytes) -> str:
        with contextlib.suppress(OSError):
            folder = Path(f"/proc/{pid}/cwd").readlink()
            if b"driver.py" in command and folder.name == "driver" and b"supervisor" not in command:
                return folder.parent.name
        return ""

    def _processes(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Processes that refer to this folder: pid, environment, command line."""
        here = str(self.folder).encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                environ = (entry / "environ").read_bytes()
                if here in command or here in environ:
                    yield int(entry.name), environ, command


#: What a daemon plays its queue forward with, and ends with it.
_FORESIGHT = b"daemon.what_if.worker"


def _task(environ: bytes) -> str:
    """The Mesos task that a process belongs to, if it does to one."""
    ids = [part for part in environ.split(b"\0") if part.startswith(b"MESOS_EXECUTOR_ID=")]
    return ids[0].decode() if ids else "no task"
