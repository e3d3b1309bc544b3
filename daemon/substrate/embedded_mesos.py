"""Embedded Mesos for the daemon: agents for a cluster file, and one process to start, find and end.

`framework.embedded` does the work of that process; its command line, `stoker mesos`, is in
`daemon.cli.operate.mesos`.
"""

import contextlib
import dataclasses
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import structlog

from conf.errors import ReportedError
from conf.loader import ConfigError, load
from conf.schema import Cluster
from conf.util.counted import counted
from conf.util.whole_file import write_whole
from environment.clusters.cluster_files import vms_of
from environment.resources import Resources
from environment.types import Vm
from framework.embedded.credentials import PRINCIPAL, CredentialsError, own_secret
from framework.embedded.isolation import IsolationOptions
from framework.embedded.settings import BEATS, AgentSpec
from framework.host.listening_socket import listen, listener_of
from framework.host.process_tree import identity, is_stopped, kill, kill_below, let_go_on, since_beat
from framework.host.stop_signals import unblocked
from framework.task_folders import substrate_folder

HOST = "127.0.0.1"

#: Ports that agents may offer; all of them together on one machine, so every agent has its own.
FIRST_PORT, END_PORT = 20_000, 60_000
PORTS_PER_AGENT = 1_000
#: Chosen: an executor takes one port and a driver three, so this still carries a driver and some executors.
FEWEST_PORTS = 8
#: Disk that an agent offers, unless the cluster file states it.
DISK_MIB = 10_000.0

_START_SECONDS = 30.0
#: One that an earlier daemon left, and that does not answer for so long, hangs.
_TAKE_OVER_SECONDS = 30.0
#: Seconds that one which hangs gets to end its tasks in order.
HUNG_GRACE = 3.0
_POLL_SECONDS = 0.05
#: Chosen: more than a task's and an executor's grace together, so that tasks end in order.
_STOP_SECONDS = 15.0
#: A killed process is gone in a moment, unless the disk hangs.
_KILL_SECONDS = 5.0
#: So long has it to say whether it is well, for each step of that.
ANSWER_SECONDS = 2.0
#: Errors of reading that say nothing of the file: they pass.
_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO})

log = structlog.get_logger("daemon")


class EmbeddedError(ReportedError, RuntimeError):
    """The embedded Mesos is unavailable; the text gives the reason and a remedy."""


def agent_specs(cluster: Cluster) -> list[AgentSpec]:
    """One agent for each VM of a cluster file, those of pools for when they are opened.

    ConfigError when names clash or VMs are too many.
    """
    vms = vms_of(cluster)
    each = min(PORTS_PER_AGENT, (END_PORT - FIRST_PORT) // len(vms))
    if each < FEWEST_PORTS:
        most = (END_PORT - FIRST_PORT) // FEWEST_PORTS
        raise ConfigError(
            f"an embedded Mesos can have {counted(most, 'VM')} at most, this cluster has {len(vms):,}"
        )
    return [
        AgentSpec(
            name=vm.name,
            type=vm.type,
            cpus=vm.cpus,
            memory_mib=vm.memory_mib,
            price_per_hour=vm.price_per_hour,
            address="",
            ports=(FIRST_PORT + i * each, FIRST_PORT + (i + 1) * each - 1),
            resources=with_disk(vm).others,
            pool="" if vm.terms is None else vm.terms.pool,
            boot=0.0 if vm.terms is None else vm.terms.boot,
        )
        for i, vm in enumerate(vms)
    ]


def with_disk(vm: Vm) -> Resources:
    """Resources of a cluster file's VM on an embedded Mesos."""
    return Resources.of(vm.cpus, vm.memory_mib, {"disk": DISK_MIB, **vm.resources.others})


@dataclass(frozen=True, slots=True)
class EmbeddedMesos:
    """A running embedded Mesos: `address` is its master's host:port."""

    address: str
    pid: int
    #: Whether it was there already, left by an earlier daemon on the same data folder.
    taken_over: bool
    #: This machine's address as the tasks see it.
    host: str
    #: How the VMs are isolated, or why they are not; empty when that was not asked for.
    isolation: str
    #: Credentials for the master.
    principal: str
    secret: str = field(repr=False)
    _folder: Path = field(repr=False)
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)
    #: Its listening socket, held here too, so that its port is nobody else's when it ends; None where this
    #: machine does not permit that.
    listener: socket.socket | None = field(default=None, repr=False, compare=False)

    @property
    def agents(self) -> Path:
        """Folder with the work folders of its agents, by name."""
        return self._folder / "work" / "agents"

    def alive(self) -> bool:
        """Whether the process is still there; OSError when that cannot be told now."""
        if self._process is not None:
            return self._process.poll() is None
        return _recorded_pid(self._folder) == self.pid

    def stopped(self) -> bool:
        """Whether the process that keeps it stands still: nothing would see its end, or end it."""
        return is_stopped(self.pid)

    def let_go_on(self) -> None:
        """Resume the stopped process."""
        let_go_on(self.pid)

    def answers(self) -> bool:
        """Whether it says within `ANSWER_SECONDS` that it is well.

        Strangers can fill its port with connections, so that no answer comes: then its beats tell.
        """
        beat = since_beat(self._folder / "work" / BEATS)
        return (beat is not None and beat < ANSWER_SECONDS) or _answers(self.address)

    def leave(self) -> None:
        """Let go of its socket; a running one goes on."""
        if self.listener is not None:
            self.listener.close()

    def stop(self, seconds: float = _STOP_SECONDS, *, again: bool = False) -> None:
        """End it and all of its tasks; returns when they are gone.

        Processes that have not ended after so many seconds are killed, hanging or stopped ones too. Where it
        is started `again`, its port stays ours.
        """
        if not again:
            self.leave()
        if self.alive():
            for number in (signal.SIGTERM, signal.SIGCONT):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, number)
        if not until(lambda: not self.alive(), seconds):
            log.error("the embedded mesos does not end, and is killed", pid=self.pid, seconds=seconds)
            # First its child processes: no one would be left to end those.
            kill_below(self.pid, _KILL_SECONDS)
            if not until(lambda: not self.alive(), _KILL_SECONDS):
                kill(self.pid)
                until(lambda: not self.alive(), _KILL_SECONDS)
        for name in ("pid", "address", "cluster"):
            (self._folder / name).unlink(missing_ok=True)


def start_embedded(
    cluster_path: Path,
    port: int,
    data_dir: Path,
    isolation: IsolationOptions | None = None,
    *,
    listener: socket.socket | None = None,
    root: bool = True,
) -> EmbeddedMesos:
    """Start an embedded Mesos (`port` 0: a free one), or take over the one that runs on this data folder.

    `listener` is the socket of an earlier one, in place of the port; without `root` no task runs as root.

    It is a process of its own that outlives the daemon, so that a daemon which starts again finds its tasks;
    but when the thread that calls this ends before it answers, it ends too.
    With `isolation` its VMs are isolated where the machine can. ConfigError for a bad cluster file,
    EmbeddedError when it does not come up.
    """
    cluster = load(cluster_path, Cluster)
    agent_specs(cluster)
    folder = substrate_folder(data_dir)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o711)  # sandboxes are below it, of the tasks' users; its files are closed
    _secret(folder)
    if (pid := _recorded_pid(folder)) is not None:
        left = _take_over(folder, pid, _description(cluster, isolation), cluster_path)
        if left is not None:
            return left
    own = listener or _listening(port)
    process = _spawn(cluster_path, own, folder, isolation, root=root)
    write_whole(folder / "pid", json.dumps(identity(process.pid)))
    write_whole(folder / "cluster", _description(cluster, isolation))
    return _await_start(process, folder, own, again=listener is not None)


def find_embedded(data_dir: Path) -> EmbeddedMesos | None:
    """The embedded Mesos that runs on this data folder and answers, if there is one."""
    folder = substrate_folder(data_dir)
    pid = _recorded_pid(folder)
    if pid is None or not _answers(_ready(folder)[0]):
        return None
    return _embedded(folder, pid)


def ready_text(address: str, host: str, isolation: str) -> str:
    """Content of the process's ready file: the address; with isolation also host and state."""
    return "\n".join((address, host, isolation)) if isolation else address


def _ready(folder: Path) -> tuple[str, str, str]:
    """Content of the ready file; an empty address while there is none."""
    address, host, isolation, *_ = [*(_read(folder / "address") or "").splitlines(), "", "", ""]
    return address, host or HOST, isolation


def _embedded(folder: Path, pid: int, process: "subprocess.Popen[bytes] | None" = None) -> EmbeddedMesos:
    address, host, isolation = _ready(folder)
    secret = _secret(folder)
    return EmbeddedMesos(address, pid, process is None, host, isolation, PRINCIPAL, secret, folder, process)


def _secret(folder: Path) -> str:
    """Secret shared by the master and us, unknown to other users of this machine; it outlives us both."""
    try:
        return own_secret(folder / "secret")
    except CredentialsError as error:
        raise EmbeddedError(str(error)) from None


def _description(cluster: Cluster, isolation: IsolationOptions | None) -> str:
    """Description of cluster and isolation that identifies a running process as the wanted one."""
    settings = "" if isolation is None else json.dumps(dataclasses.asdict(isolation))
    return f"{cluster.model_dump_json()}\n{settings}".strip()


def _take_over(folder: Path, pid: int, wanted: str, path: Path) -> EmbeddedMesos | None:
    """The one that runs there; None when it ended, or hung and was ended."""

    def gone() -> bool:
        return _recorded_pid(folder) is None

    in_time = until(lambda: gone() or _answers(_ready(folder)[0]), _TAKE_OVER_SECONDS)
    if gone():
        return None
    if not in_time:
        log.error("the embedded mesos left by an earlier daemon hangs, and is ended", pid=pid)
        _embedded(folder, pid).stop(HUNG_GRACE)
        return None
    if _read(folder / "cluster") != wanted:
        raise EmbeddedError(
            f"an embedded Mesos left by an earlier daemon on {folder.parent} (pid {pid}) has other VMs than "
            f"those of {path}, or another isolation; end it with `kill {pid}`, or choose another data_dir"
        )
    taken = _embedded(folder, pid)
    host, _, port = taken.address.rpartition(":")
    return dataclasses.replace(taken, listener=listener_of(pid, (host, int(port))))


def _listening(port: int) -> socket.socket:
    try:
        return listen(HOST, port)
    except OSError as error:
        raise EmbeddedError(f"mesos.port: {error.strerror}, or 0 for any free one") from error


def _spawn(
    cluster_path: Path,
    listener: socket.socket,
    folder: Path,
    isolation: IsolationOptions | None,
    *,
    root: bool,
) -> "subprocess.Popen[bytes]":
    (folder / "address").unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "daemon.cli", "mesos", "--cluster", str(cluster_path.resolve())]
    command += ["--listener", str(listener.fileno()), "--work-dir", str((folder / "work").resolve())]
    command += ["--ready-file", str((folder / "address").resolve())]
    command += ["--secret-file", str((folder / "secret").resolve()), "--started-by", str(os.getpid())]
    command += [] if root else ["--no-root"]
    if isolation is not None:
        command += ["--isolation", "vm", "--isolation-delay", str(isolation.delay_ms)]
        command += [f"--isolation-scale={isolation.scale}"] if isolation.scale else []
        command += [f"--isolation-bandwidth={isolation.bandwidth_mbit}"] if isolation.bandwidth_mbit else []
    with (folder / "log").open("ab") as log, unblocked():
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(listener.fileno(),),
            umask=0o022,  # the daemon's umask closes its own files; sandboxes are for the tasks' users
        )


def _await_start(
    process: "subprocess.Popen[bytes]", folder: Path, listener: socket.socket, *, again: bool
) -> EmbeddedMesos:
    def settled() -> bool:
        return process.poll() is not None or _answers(_ready(folder)[0])

    in_time = until(settled, _START_SECONDS)
    started = dataclasses.replace(_embedded(folder, process.pid, process), listener=listener)
    if in_time and started.alive():
        return started
    code = process.poll()
    started.stop(again=again)
    how = "did not answer in time" if code is None else f"ended at its start with exit code {code}"
    raise EmbeddedError(f"the embedded Mesos {how}: {_last_line(folder / 'log')} (log: {folder / 'log'})")


def _recorded_pid(folder: Path) -> int | None:
    """The pid in the pid file, if that very process still runs: a pid that was given out again is none.

    OSError when that cannot be told, such as without a descriptor: None means the end of all its tasks.
    """
    try:
        recorded = json.loads(_read(folder / "pid") or "null")
        pid = int(recorded["pid"])
    except (ValueError, TypeError, KeyError):
        return None
    return pid if identity(pid) == recorded else None


def _answers(address: str) -> bool:
    if not address:
        return False
    try:
        connection = HTTPConnection(address, timeout=ANSWER_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", "/health", headers={"Connection": "close"})
            return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until the condition holds; tell whether it came to that in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError as error:
        if error.errno in _PASSING:
            raise
        return None
