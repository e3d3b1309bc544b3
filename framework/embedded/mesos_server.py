"""Runs one embedded Mesos until a signal ends it: its socket, its signals, its clean end."""

import asyncio
import contextlib
import errno
import fcntl
import os
import resource
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from framework.embedded.cluster import EmbeddedCluster
from framework.embedded.faults import Faults
from framework.embedded.isolation import Cell
from framework.embedded.master.http_server import MasterConnection
from framework.embedded.master.routes import RouteAccess, Routes
from framework.embedded.process_keeper import keep
from framework.embedded.settings import BEATS, AgentSpec, MasterOptions, check_agents, with_addresses
from framework.host.listening_socket import listen
from framework.host.request_guard import RequestGuard

#: Of the event loop, from accepting a connection to its protocol: a task, a transport, a call. One is spare.
_ROUNDS_TO_CONNECT = 4
_ALONE_SECONDS = 15.0  # chosen: more than an ending server takes to end its tasks
_EVERYWHERE = frozenset({"", "0.0.0.0"})  # noqa: S104 (asked for by whoever starts it)
_BEAT_SECONDS = 0.5
#: Bytes of its log, which a daemon has it write to a file: it may run for years.
_LONGEST_LOG = 16 << 20
_FILES_WANTED = 8192  # chosen: streams, connections and sandbox files of thousands of tasks


def serve(
    agents: Sequence[AgentSpec],
    *,
    host: str = "127.0.0.1",
    port: int = 5050,
    listener: socket.socket | None = None,
    work_dir: Path,
    credentials: Mapping[str, str] | None = None,
    on_ready: Callable[[str], None] | None = None,
    options: MasterOptions | None = None,
    cells: Mapping[str, Cell] | None = None,
    may_fail: bool = False,
) -> int:
    """Run a master with these agents until SIGTERM or SIGINT; every task is killed at the end.

    It runs in a process below this one, see `keeper`; returns its exit code, 128 + N when signal N killed it.
    Must be called in the main thread of a process that has no children of its own to wait for. `on_ready`
    gets `host:port` once calls are answered; port 0 takes any free one, and a `listener` is used in place of
    both. `credentials` maps principals to secrets; None lets every program of this machine run tasks. Tasks
    of an agent that `cells` names run in its cell. With `may_fail` it misbehaves on request, see `faults`.
    Raises OSError when the port is taken, ValueError when the agents contradict each other.
    """
    check_agents(agents)
    work_dir = work_dir.resolve()
    work_dir.mkdir(parents=True, exist_ok=True)
    _allow_many_files()
    access = RouteAccess(RequestGuard(_names(host)), credentials, may_fail=may_fail)

    def work(ready: Callable[[], None]) -> None:
        def tell(address: str) -> None:
            if on_ready is not None:
                on_ready(address)
            ready()

        asyncio.run(_serve(agents, own, work_dir, access, tell, options or MasterOptions(), cells or {}))

    with _alone_in(work_dir), listener or listen(host, port) as own:
        return keep(work, own.close)


async def _serve(
    agents: Sequence[AgentSpec],
    listener: socket.socket,
    work_dir: Path,
    access: RouteAccess,
    on_ready: Callable[[str], None],
    options: MasterOptions,
    cells: Mapping[str, Cell],
) -> None:
    os.umask(0o066)  # the user that runs tasks may pass to its sandbox, and see nothing of others' on the way
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    host, port = listener.getsockname()[:2]
    agents = with_addresses(agents, port)
    cluster = EmbeddedCluster(agents, options=options, work_dir=work_dir, host=host, port=port, cells=cells)
    front = _Front(cluster, (host, port), access)
    beating = loop.create_task(_beat(work_dir / BEATS))
    try:
        await front.open(listener)
        cluster.start()
        await asyncio.sleep(0)
        on_ready(f"{host}:{port}")
        await ended.wait()
    finally:
        beating.cancel()
        await front.close()
        await cluster.close()


async def _beat(path: Path) -> None:
    """Show, as `since_beat` reads it, that the loop runs; bound the log meanwhile."""
    with path.open("wb") as file:
        while True:
            now = time.monotonic_ns()
            with contextlib.suppress(OSError, ValueError):  # ValueError: there is no standard error
                os.utime(file.fileno(), ns=(now, now))
                shorten_log(sys.stderr.fileno())
            await asyncio.sleep(_BEAT_SECONDS)


def shorten_log(descriptor: int, most: int = _LONGEST_LOG) -> None:
    """Empty a file that is appended to, once it has more than `most` bytes; OSError."""
    status = os.fstat(descriptor)
    appends = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
    if appends and stat.S_ISREG(status.st_mode) and status.st_size > most:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, b"earlier lines were removed, as they were too many\n")


class _Front:
    """The master's socket and its connections."""

    def __init__(self, cluster: EmbeddedCluster, address: tuple[str, int], access: RouteAccess) -> None:
        self._cluster = cluster
        self._address = address
        self._faults = Faults(cluster, self._restart_master)
        self._routes = Routes(cluster, self._faults, access)
        self._connections: set[MasterConnection] = set()
        self._strangers: dict[MasterConnection, None] = {}
        self._server: asyncio.Server | None = None
        self._opening: asyncio.Task[None] | None = None

    async def open(self, listener: socket.socket) -> None:
        """Accept connections."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connect, sock=listener)

    async def close(self) -> None:
        """Stop accepting, and cut all connections."""
        if self._opening is not None:
            self._opening.cancel()
        await self._accept_no_more()
        self._shut()
        await asyncio.sleep(0)

    async def _accept_no_more(self) -> None:
        """Let those be connected that were accepted: asyncio loses them if their server is closed before."""
        if self._server is None:
            return
        for listener in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listener.fileno())
        for _ in range(_ROUNDS_TO_CONNECT):
            await asyncio.sleep(0)

    def _connect(self) -> MasterConnection:
        return MasterConnection(self._routes.handle, self._routes.knows, self._connections, self._strangers)

    def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.abort()

    def _restart_master(self, away: float, agents_after: float) -> None:
        """Kill the master with its connections; until the next one starts, connecting is refused."""
        loop = asyncio.get_running_loop()
        self._shut()
        self._cluster.stop_master()
        self._opening = loop.create_task(self._start_again(away, agents_after))

    async def _start_again(self, away: float, agents_after: float) -> None:
        await asyncio.sleep(away)
        self._cluster.start_master()
        await self.open(listen(*self._address))
        await asyncio.sleep(agents_after)
        self._cluster.agents_return()


@contextlib.contextmanager
def _alone_in(work_dir: Path) -> Iterator[None]:
    """Hold the folder against others, in this process and those forked from it; OSError when one has it.

    One that was just killed holds it until its tasks are gone.
    """
    with (work_dir / "lock").open("w") as file:
        end = time.monotonic() + _ALONE_SECONDS
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > end:
                raise OSError(errno.EBUSY, "another embedded Mesos uses it", str(work_dir))
            time.sleep(0.05)
        yield


def _names(host: str) -> set[str]:
    """Under which names a master that listens on this address may be asked, beside loopback's."""
    own = {host, socket.gethostname(), socket.getfqdn()}
    if host in _EVERYWHERE:
        with contextlib.suppress(OSError):
            own |= {str(found[4][0]) for found in socket.getaddrinfo(socket.gethostname(), None)}
    return own


def _allow_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(_FILES_WANTED, hard) if hard != resource.RLIM_INFINITY else _FILES_WANTED
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
