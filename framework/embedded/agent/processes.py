"""Process groups on this machine: started in a session of their own, ended with grace, never left behind.

All children of the process are reaped here, by one SIGCHLD handler; there is no thread and no descriptor
per child.
"""

import asyncio
import errno
import logging
import math
import os
import pwd
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from framework.embedded.agent.environments import ContainerReader
from framework.embedded.isolation import Entry
from framework.host.cgroups import most_processes_here
from framework.host.process_tree import adopt_orphans, below, children, kill, limit_processes
from framework.host.unix_users import find_account

_SWEEP_AGAIN = 0.05  # seconds; chosen: killed processes are gone by then
#: Seconds for which ended processes are reaped before all else gets its turn, for as long again. A job can
#: have them end faster than they are reaped.
_TURN = 0.02
#: Seconds until what multiplies faster than it is killed is left to the keeper.
_CLOSING = 5.0

log = logging.getLogger(__name__)


class ProcessGroup:
    """One started group; `on_exit` is called once, with the wait status of its first process."""

    def __init__(self, pid: int, loop: asyncio.AbstractEventLoop, on_exit: Callable[[int], None]) -> None:
        self.pid = pid
        self.on_exit = on_exit
        self._loop = loop
        self._last_resort: asyncio.TimerHandle | None = None
        self._ended = False

    def terminate(self, grace: float) -> None:
        """Send SIGTERM, and SIGKILL when the first process still lives `grace` seconds later."""
        self.signal(signal.SIGTERM)
        if self._last_resort is not None:
            self._last_resort.cancel()
        self._last_resort = self._loop.call_later(grace, self.signal, signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send a signal to the group; nothing happens when it has ended."""
        if not self._ended:
            try:
                os.killpg(self.pid, number)
            except (ProcessLookupError, PermissionError):
                return

    def ended(self) -> None:
        """Note that the first process is about to be reaped: the rest of the group is killed."""
        self.signal(signal.SIGKILL)
        self._ended = True
        if self._last_resort is not None:
            self._last_resort.cancel()


class Processes:
    """Starts and reaps the process groups of one embedded Mesos; must live in the main thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        #: The living groups by pid.
        self._groups: dict[int, ProcessGroup] = {}
        #: Ids of containers whose first process lives; their other processes are left alone.
        self._containers: set[str] = set()
        #: Containers of adopted processes by pid, each read once: no pid changes hands before it is reaped.
        self._adopted: dict[int, str] = {}
        self._reader = ContainerReader(loop, self._found)
        self._reaping: asyncio.Handle | None = None
        #: The next look for orphans, when (seconds of the loop) the last one was, and whether to end those
        #: that hide their container.
        self._sweeping: asyncio.Handle | None = None
        self._swept, self._ended = -math.inf, False
        adopt_orphans()
        if os.geteuid() == 0:  # which has no limit itself; tasks of other users get it from here
            limit_processes(most_processes_here())
        loop.add_signal_handler(signal.SIGCHLD, self._child_ended)
        # Hundreds of ends while the loop is busy fill its pipe. One byte in it is enough to reap them all.
        signal.set_wakeup_fd(signal.set_wakeup_fd(-1), warn_on_full_buffer=False)
        self._on_child = signal.getsignal(signal.SIGCHLD)

    def spawn(
        self,
        entry: Entry,
        *,
        folder: Path,
        owner: str | None,
        on_exit: Callable[[int], None],
    ) -> ProcessGroup:
        """Start a command in `folder`, with its output appended to `stdout` and `stderr` there.

        These are the `owner`'s. The command's user, if not None, is switched to, which only root can. Raises
        OSError when the command cannot start.
        """
        with appended(folder / "stdout", owner) as out, appended(folder / "stderr", owner) as err:
            process = popen(entry, cwd=folder, stdout=out, stderr=err)
        process.returncode = 0  # reaped below, not by Popen, which would warn about that
        group = ProcessGroup(process.pid, self._loop, on_exit)
        self._groups[process.pid] = group
        return group

    def opened(self, container: str) -> None:
        """Note that processes with this MESOS_CONTAINER_ID may run."""
        self._containers.add(container)

    def closed(self, container: str) -> None:
        """Kill the rest of a container after the end of its first process, also outside its session."""
        self._containers.discard(container)
        self._sweep_soon(ended=True)
        # Processes killed with their group are not gone yet, and their children are not ours yet.
        self._loop.call_later(_SWEEP_AGAIN, lambda: self._sweep_soon(ended=True))

    def _sweep_soon(self, *, ended: bool) -> None:
        """Look for orphans now, or once the pause after the last look is over: a job may have thousands."""
        self._ended |= ended
        if self._sweeping is None:
            wait = self._swept + _SWEEP_AGAIN - self._loop.time()
            self._sweeping = self._loop.call_later(max(0.0, wait), self._sweep)

    def _sweep(self) -> None:
        """Kill orphans of containers that are over; when one just ended, also those that hide it."""
        ended, self._ended, self._sweeping = self._ended, False, None
        for pid in children(os.getpid()):
            if pid in self._groups:
                continue
            if (container := self._adopted.get(pid)) is not None:
                self._judge(pid, container, ended=ended)
            else:
                self._reader.read(pid, ended=ended)
        self._swept = self._loop.time()

    def _found(self, pid: int, container: str | None, ended: bool) -> None:  # a callback
        if container is not None:
            self._adopted[pid] = container
        self._judge(pid, container, ended=ended)

    def _judge(self, pid: int, container: str | None, *, ended: bool) -> None:
        if container not in self._containers if container else ended:
            kill(pid)

    async def close(self) -> None:
        """Kill and reap all processes started here, including those outside their group."""
        for group in list(self._groups.values()):
            group.on_exit = _ignore
        until = self._loop.time() + _CLOSING
        while (victims := below(os.getpid())) and self._loop.time() < until:
            for pid in victims:
                kill(pid)
            await asyncio.sleep(0.005)
            self._reap()
        self._loop.remove_signal_handler(signal.SIGCHLD)

    def _child_ended(self) -> None:
        if self._reaping is None:
            self._reaping = self._loop.call_soon(self._reap)

    def _reap_later(self) -> None:
        """Do not hear of each end meanwhile: there are thousands a second where a job wants that."""
        if self._reaping is None:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._reaping = self._loop.call_later(_TURN, self._reap)

    def _reap(self) -> None:
        # WNOWAIT first: while a leader is a zombie its number cannot be used again, so killing the group is
        # safe.
        adopted, until = False, self._loop.time() + _TURN
        self._reaping = None
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL:  # before the look: no end is missed
            signal.signal(signal.SIGCHLD, self._on_child)
            signal.siginterrupt(signal.SIGCHLD, False)
        while (info := _next_zombie()) is not None:
            group = self._groups.pop(info, None)
            if group is not None:
                group.ended()
            _, status = os.waitpid(info, 0)
            self._adopted.pop(info, None)
            self._reader.reaped(info)
            if group is not None:
                self._tell(group, status)
            else:
                adopted = True
            if self._loop.time() > until:
                self._reap_later()
                break
        if adopted:
            self._reap_later()
            self._sweep_soon(ended=False)  # orphans of processes that are not ours are, now

    def _tell(self, group: ProcessGroup, status: int) -> None:
        try:
            group.on_exit(status)
        except Exception:  # the end of one task is not the others'
            log.exception("the end of process %d was not handled", group.pid)


def popen(entry: Entry, **options: Any) -> "subprocess.Popen[Any]":
    """Start a command in a session of its own; `options` are those of Popen. Raises OSError, ValueError."""
    with os.fdopen(os.memfd_create("given"), "w+b") as given:
        given.write(entry.given)
        given.seek(0)
        return subprocess.Popen(
            entry.argv,
            executable=entry.executable,
            env=entry.environment,
            stdin=given if entry.given else subprocess.DEVNULL,
            start_new_session=True,
            umask=0o022,  # ours is for the files that we make
            **_identity(entry.user),
            **options,
        )


def describe_exit(wait_status: int) -> str:
    """Description of a command's exit, in the words of Mesos."""
    if os.WIFSIGNALED(wait_status):
        return f"Command terminated with signal {signal.strsignal(os.WTERMSIG(wait_status))}"
    return f"Command exited with status {os.WEXITSTATUS(wait_status)}"


def switched_user(user: str | None, *, root: bool) -> str | None:
    """The user to switch to: None when it is the present one, or when only root could.

    Raises KeyError when there is no such user, or it is root, or none, where `root` runs no tasks.
    """
    if os.geteuid() != 0:
        return None
    other = user if user and pwd.getpwnam(user).pw_uid != 0 else None
    if other is None and not root:
        raise KeyError(user)
    return other


def hand_over(folder: Path, user: str | None) -> None:
    """Transfer a new, empty sandbox to the user that runs in it, and close it to others."""
    folder.chmod(0o700)
    if user is not None:
        entry = pwd.getpwnam(user)
        os.chown(folder, entry.pw_uid, entry.pw_gid, follow_symlinks=False)


def appended(path: Path, user: str | None) -> IO[bytes]:
    """Open an output of a task. The task may have put anything in its place: a link, a FIFO, another's file.

    Only a file that is made here is given to the user. OSError for one that is there and is no regular file,
    has a second name, or is not the user's.
    """
    account = None if user is None else pwd.getpwnam(user)
    append = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, append | os.O_CREAT | os.O_EXCL, 0o600)
        if account is not None:
            os.fchown(descriptor, account.pw_uid, account.pw_gid)
    except FileExistsError:
        descriptor = os.open(path, append)
    file = os.fdopen(descriptor, "ab")
    status, owner = os.fstat(descriptor), os.geteuid() if account is None else account.pw_uid
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_uid != owner:
        file.close()
        raise OSError(errno.EINVAL, "not a regular file of the task's user with one name", str(path))
    os.set_blocking(descriptor, True)
    return file


def _identity(user: str | None) -> dict[str, Any]:
    if user is None:
        return {}
    account = find_account(user)
    return {"user": account.uid, "group": account.gid, "extra_groups": account.groups}


def _next_zombie() -> int | None:
    try:
        info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if info is None else info.si_pid


def _ignore(_wait_status: int) -> None:
    return None
