"""`stoker up` assembles its parts, where this is not visible from outside."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from conf.schema import Config
from daemon.disk.crash_mark import RunningMark
from daemon.http.server.listen_address import listen
from daemon.store.job_store import Store
from daemon.store.queries.open_jobs import OpenJobs
from daemon.store.rows.database import StoreError
from daemon.substrate.choice import leave_embedded
from daemon.substrate.embedded_mesos import start_embedded
from framework.host.process_tree import identity
from tests.daemon.ports import free_port
from tests.waiting import PATIENCE, until


def test_answers_are_not_held_back() -> None:
    """Asyncio turns Nagle's algorithm off where the protocol is named; else answers wait 40 ms."""
    with listen(Config(listen="127.0.0.1:0")) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_the_embedded_mesos_stays_when_nobody_knows_whether_jobs_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that cannot be read neither ends tasks nor raises while the daemon stops."""
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("vms: [{type: small, cpus: 1, memory: 1g, price_per_hour: 0.1}]")
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")

    def silent(_: OpenJobs) -> None:
        raise StoreError("gone")

    embedded = start_embedded(cluster, 0, tmp_path)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(OpenJobs, "unfinished", silent)
            leave_embedded(embedded, store)
        host, _, port = embedded.address.rpartition(":")
        socket.create_connection((host, int(port)), 5.0).close()
    finally:
        leave_embedded(embedded, store)
        store.close()


_FAILING = """
import sys, time
from pathlib import Path
from conf.schema import Config
from daemon import server
from daemon.leader_or_standby import Candidate

def fail(self):
    time.sleep(1.0)  # by then it serves, as a rule
    raise RuntimeError("as if the loop had a fault")

Candidate.run = fail
data, port = sys.argv[1:]
config = Config(listen="127.0.0.1:0", data_dir=data, mesos={"master": f"127.0.0.1:{port}"})
sys.exit(server.run(config, Path(data)))
"""


def test_a_daemon_whose_loop_fails_says_so_by_its_exit_code(tmp_path: Path) -> None:
    """A failed loop exits with an error code, so a supervisor sees that it was no requested stop."""
    command = [sys.executable, "-c", _FAILING, str(tmp_path), str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 1, done.stderr
    assert "the scheduling loop failed" in done.stderr
    assert "told to stop" in done.stderr
    assert "why='its scheduling loop failed'" in done.stderr


_SERVING = """
import signal, sys
from pathlib import Path
from conf.schema import Config
from daemon import server

data, port = sys.argv[1:]
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which those that started the tests may ignore
config = Config(listen="127.0.0.1:0", data_dir=data, mesos={"master": f"127.0.0.1:{port}"})
sys.exit(server.run(config, Path(data)))
"""


def await_answer(url: str) -> None:
    """Return once a daemon answers; pytest's own time limit ends a wait without end."""
    while True:
        with suppress(httpx.TransportError):
            httpx.get(f"{url}/healthz", trust_env=False)
            return
        time.sleep(0.05)


@contextmanager
def serving(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", list[str]]]:
    """A serving daemon and its log lines so far."""
    command = [sys.executable, "-c", _SERVING, str(folder), str(free_port())]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as daemon:
        assert daemon.stderr is not None
        logged: list[str] = []
        try:
            for line in daemon.stderr:
                logged.append(line)
                if "listening" in line:
                    break
            await_answer(logged[-1].partition(" url=")[2].strip())
            yield daemon, logged
        finally:
            daemon.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_daemon_that_is_told_to_stop_says_by_whom(tmp_path: Path, number: signal.Signals) -> None:
    """Which process, of which user, by which command; at 3 am a stop differs from a crash."""
    with serving(tmp_path) as (daemon, _):
        daemon.send_signal(number)
        _, logged = daemon.communicate(timeout=PATIENCE)
    (line,) = (line for line in logged.splitlines() if "told to stop" in line)
    for word in (f"signal={number.name}", f"pid={os.getpid()}", f"uid={os.getuid()}", "command="):
        assert word in line, line
    assert "python" in line
    assert ("] stopped " in logged) is (number != signal.SIGHUP)


def test_a_daemon_that_crashed_is_told_of_by_the_next(tmp_path: Path) -> None:
    """And one that was stopped is not."""
    with serving(tmp_path) as (daemon, logged):
        assert "was not stopped" not in "".join(logged)
        killed = daemon.pid
        daemon.kill()
        daemon.wait()
    with serving(tmp_path) as (daemon, logged):
        (line,) = (line for line in logged if "the previous daemon was not stopped" in line)
        assert f"pid={killed}" in line
        daemon.terminate()
        daemon.wait()
    with serving(tmp_path) as (_, logged):
        assert "was not stopped" not in "".join(logged)


@pytest.mark.parametrize("own", [True, False])
def test_a_crash_is_told_though_another_process_has_its_pid(tmp_path: Path, own: bool) -> None:
    """After a restart a pid is another process's, in a container our own; the start tells them apart."""
    pid = os.getpid() if own else os.getppid()
    mark = RunningMark(tmp_path)
    with capture_logs() as logged:
        mark.begin()
        said = json.loads((tmp_path / "running").read_text())
        for process in (identity(pid), {**said["process"], "pid": pid, "start": 1}):
            (tmp_path / "running").write_text(json.dumps({**said, "process": process}))
            mark.begin()
    assert [line["pid"] for line in logged] == [pid]


def test_what_the_daemon_writes_is_for_nobody_else(tmp_path: Path) -> None:
    """Its store among it; also where its folder is open to others."""
    tmp_path.chmod(0o755)
    command = [sys.executable, "-c", _FAILING, str(tmp_path), str(free_port())]
    subprocess.run(command, capture_output=True, check=False, timeout=600)
    modes = {path.name: path.stat().st_mode & 0o077 for path in tmp_path.iterdir()}
    assert {"stoker.db", "host", "records"} <= set(modes)
    assert {name: mode for name, mode in modes.items() if mode and name != "jobs"} == {}


_STARTING = """
import sys, time
from pathlib import Path
from conf.schema import Config
from daemon import server

if sys.argv[2] == "answered":
    def create_app(*_):
        Path(sys.argv[1], "answered").touch()
        time.sleep(3600)

    server.create_app = create_app
config = Config(data_dir=sys.argv[1], listen="127.0.0.1:0", mesos={"master": "embedded", "port": 0})
sys.exit(server.run(config, Path(sys.argv[1])))
"""


@pytest.mark.parametrize(
    ("moment", "number"),
    [("starting", signal.SIGTERM), ("starting", signal.SIGKILL), ("answered", signal.SIGTERM)],
)
def test_one_that_is_ended_while_it_starts_leaves_no_mesos(
    tmp_path: Path, moment: str, number: signal.Signals
) -> None:
    """Whether its embedded Mesos answers by then or not, and whether the daemon can do anything about it."""
    folder = tmp_path / "mesos"
    (folder / "work").mkdir(parents=True)
    with (folder / "work/lock").open("w") as lock:
        if moment == "starting":
            fcntl.flock(lock, fcntl.LOCK_EX)  # the Mesos waits for it
        command = [sys.executable, "-c", _STARTING, str(tmp_path), moment]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as daemon:
            until(lambda: (tmp_path / "answered").exists() or moment == "starting")
            until((folder / "cluster").exists)
            mesos = json.loads((folder / "pid").read_text())
            until(lambda: is_waiting(mesos["pid"]) or moment == "answered")
            daemon.send_signal(number)
            _, logged = daemon.communicate(timeout=PATIENCE)
    assert daemon.returncode == (0 if number == signal.SIGTERM else -number), logged
    assert "ends by force" not in logged
    until(lambda: identity(mesos["pid"]) != mesos)


def is_waiting(pid: int) -> bool:
    """Whether an embedded Mesos waits for the lock, with its work folder open."""
    with suppress(OSError):  # it opens and closes others meanwhile
        return any(fd.readlink().name == "lock" for fd in Path(f"/proc/{pid}/fd").iterdir())
    return False


_HANGING = """
import ctypes
import signal
import threading
import time
from daemon import server
from framework.host import forced_exit
from daemon.leader_or_standby import Candidate
from daemon.maintenance.systemd import Notifier
from conf.schema import Config
from pathlib import Path
import sys
from framework.host.stop_signals import unblocked

forced_exit.end_within.__defaults__ = (1.0, 0)
run = Candidate.run

folder = Path(sys.argv[1])
libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(64)  # of zeros, as PTHREAD_MUTEX_INITIALIZER

def hang_in_c(self):
    if (folder / "told").exists():
        (folder / "hung").touch()
        while True:
            libc.pthread_mutex_lock(mutex)  # the second time for ever, and no signal interrupts it

Notifier.ready = hang_in_c

def hang(self):
    threading.Thread(target=start_a_process, daemon=True).start()
    run(self)
    threading.Event().wait()

def start_a_process():
    while not (folder / "hung").exists():
        time.sleep(0.01)
    time.sleep(0.1)
    with unblocked():
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

Candidate.run = hang
config = Config(data_dir=str(folder / "data"), listen="127.0.0.1:0", mesos={"master": "127.0.0.1:9"})
sys.exit(server.run(config, folder))
"""


def answers(url: str) -> bool:
    """Whether the daemon serves."""
    try:
        return httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.parametrize("starting", [False, True])
def test_it_ends_in_time_whatever_hangs(tmp_path: Path, starting: bool) -> None:
    """A thread that never ends keeps it from nothing; the log names the thread, and the store is whole.

    Also where the signal comes while a process is being started, and nobody hears who sent it, while the main
    thread hangs in C, and never comes to run a handler.
    """
    command = [sys.executable, "-c", _HANGING, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = ""
    while "listening" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    url = said.split(" url=")[1].strip()
    until(lambda: answers(url))
    if starting:
        (tmp_path / "told").touch()
    else:
        process.send_signal(signal.SIGTERM)
    said += process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, said
    assert said.count("told to stop") == 1
    assert ("while a process was being started" in said) is starting
    assert "ends by force: a thread hangs" in said
    assert "scheduler" in said
    Store(f"sqlite:///{tmp_path / 'data/stoker.db'}").close()


def test_it_ends_in_time_though_nobody_reads_its_log() -> None:
    """A pager or a journal that stands still: the pipe is full, and nothing may wait for it."""
    program = (
        "import os, threading\n"
        "from framework.host.forced_exit import end_within\n"
        "end_within(0.1, code=3)\n"
        "threading.Thread(target=os.write, args=(2, b'y' * (1 << 20))).start()\n"
        "threading.Event().wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) as process:
        assert process.wait(PATIENCE) == 3
