"""VMs with limits: real cgroups and network namespaces, or a skip that says why there can be none.

A limit is a bound from below on the time that something takes, which holds on a busy machine too.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.embedded import AgentSpec
from framework.embedded.agent.processes import popen
from framework.embedded.isolation import Entry, Isolation, IsolationError, IsolationOptions, remove_leftovers
from framework.embedded.isolation.cell import VmCell
from framework.embedded.isolation.isolation import RECORDS
from framework.host.cgroups import CgroupError, make_group
from framework.mesos.translate import task_changed_from_json
from tests.framework.embedded.running import Mesos, Subscription, framework_info, task
from tests.waiting import until

MBIT = 20.0
BURN = "import time\nwhile time.process_time() < {seconds}: pass"
HOG = "import sys; held = bytearray(int(sys.argv[1]) << 20)"
CLUSTER = "vms: [{type: small, cpus: 2, memory: 256m, price_per_hour: 0.1, count: 2}]"
SERVE = """
import socket, sys
with socket.create_server(("0.0.0.0", 5005)) as server:
    print("ready", flush=True)
    for _ in range(int(sys.argv[1])):
        peer, _ = server.accept()
        with peer:
            while peer.recv(1 << 16): pass
            peer.sendall(b"x")
"""
SHARES = """
import ctypes, os, sys
libc, mib = ctypes.CDLL(None, use_errno=True), int(sys.argv[1])
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(0, mib << 20, 0o1666)
ctypes.memset(libc.shmat(segment, None, 0), 1, mib << 20)
with open(f"/dev/shm/stoker-test-{os.getpid()}", "wb") as file:
    print(mib, file.write(bytes(mib << 20)) >> 20, sum(libc.semget(0, 1, 0o1666) >= 0 for _ in range(100)))
"""
SEND = """
import socket, sys, time
began = time.monotonic()
with socket.create_connection((sys.argv[1], 5005)) as peer:
    peer.sendall(bytes(int(sys.argv[2])))
    peer.shutdown(socket.SHUT_WR)
    peer.recv(1)
print(time.monotonic() - began)
"""


def agents() -> list[AgentSpec]:
    """Two VMs with a fifth of a core each, at the scale of the tests, and a third with much more."""
    return [
        AgentSpec("vm-0", "small", 2, 256, 0.1, "127.0.8.1", (20_000, 20_099)),
        AgentSpec("vm-1", "small", 2, 256, 0.1, "127.0.8.2", (20_100, 20_199)),
        AgentSpec("vm-2", "big", 10, 1024, 0.5, "127.0.8.3", (20_200, 20_299)),
    ]


@pytest.fixture(scope="module")
def isolation() -> Iterator[Isolation]:
    """Three VMs at a scale of a tenth."""
    try:
        made = Isolation(agents(), IsolationOptions(0.1, MBIT), "tests")
    except IsolationError as error:
        pytest.skip(f"VMs cannot be isolated here: {error}")
    with made:
        yield made


def start(
    cell: VmCell, container: str, code: str, *arguments: object, memory_mib: float = 0.0
) -> "subprocess.Popen[str]":
    """Start a Python program in a VM."""
    entry = Entry([sys.executable, "-c", code, *map(str, arguments)], None, None, os.environ)
    wrapped = cell.wrap(entry, container, 1.0, memory_mib)
    return popen(wrapped, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def printed(process: "subprocess.Popen[str]") -> str:
    """Output of a program that ended well."""
    output, complaints = process.communicate()
    assert process.returncode == 0, complaints
    return output.strip()


def left_of(run: str) -> list[str]:
    """Links and folders with this run's id."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    names = [line.split()[1] for line in links.splitlines() if f"stk{run}" in line]
    names += [path.name for path in Path("/run/netns").glob(f"stoker-{run}-*")]
    names += [str(path) for path in Path("/sys/fs/cgroup").rglob(f"stoker-{run}")]
    return names + [path.name for path in RECORDS.glob(f"{run}.json")]


def test_a_vm_has_the_cores_of_its_size(isolation: Isolation) -> None:
    """With a fifth of a core, 0.2 s of computing take about a second; two on one VM wait for each other."""
    cell = isolation.cells["vm-0"]
    began = time.monotonic()
    printed(start(cell, "alone", BURN.format(seconds=0.2)))
    assert time.monotonic() - began > 0.7
    cell.leave("alone")
    began = time.monotonic()
    both = [start(cell, name, BURN.format(seconds=0.2)) for name in ("one", "two")]
    for process in both:
        printed(process)
    assert time.monotonic() - began > 1.5
    assert [cell.leave(name) for name in ("one", "two")] == [None, None]


def test_only_what_leaves_a_vm_is_limited(isolation: Isolation) -> None:
    """2 MiB between two VMs take as long as the card's bandwidth says, those within a VM a moment."""
    here, there = isolation.cells["vm-2"], isolation.cells["vm-1"]
    size = 2 * 2**20
    server = start(here, "server", SERVE, 2)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    between = float(printed(start(there, "outside", SEND, here.address, size)))
    within = float(printed(start(here, "inside", SEND, here.address, size)))
    server.communicate()
    # The card lets a burst pass at once, and its queue holds back some more.
    assert between > 0.8 * size * 8 / (MBIT * 1e6)
    assert within < between / 2
    for cell, container in ((here, "server"), (there, "outside"), (here, "inside")):
        cell.leave(container)


def test_a_vm_reaches_this_machine_and_not_its_loopback(isolation: Isolation) -> None:
    """The host is reached at the bridge's address; 127.0.0.1 is the VM's own."""
    code = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()"
    with socket.create_server((isolation.host, 0)) as server:
        port = server.getsockname()[1]
        cell = isolation.cells["vm-2"]
        printed(start(cell, "reaching", code, isolation.host, port))
        refused = start(cell, "reaching", code, "127.0.0.1", port)
        assert "ConnectionRefusedError" in refused.communicate()[1]
        cell.leave("reaching")


def test_a_program_that_is_not_there(isolation: Isolation) -> None:
    """It ends as Mesos reports it: exit code 1, with the reason on standard error."""
    cell = isolation.cells["vm-2"]
    for entry, why in (
        (Entry(["nothing"], "/nowhere/nothing", None, {}), "[Errno 2] No such file or directory"),
        (Entry(["true"], None, None, {"BAD": "a\0b"}), "embedded null byte"),
    ):
        process = popen(cell.wrap(entry, "missing", 1.0, 0.0), stderr=subprocess.PIPE, text=True)
        assert process.communicate()[1].startswith(f"Failed to execute command: {why}")
        assert process.returncode == 1
        assert cell.leave("missing") is None


def test_nothing_is_left_after_the_end() -> None:
    """Isolation is removed with its processes; another under the same name has the same addresses."""
    try:
        made = Isolation(agents(), IsolationOptions(0.1, MBIT), "again")
    except IsolationError as error:
        pytest.skip(f"VMs cannot be isolated here: {error}")
    with made:
        running = start(made.cells["vm-1"], "forever", "import time; print(1, flush=True); time.sleep(1000)")
        assert running.stdout is not None
        assert running.stdout.readline() == "1\n"
        assert len(left_of(made.id)) >= 1 + 3 + 3 + 1 + 1
    assert running.wait() == -signal.SIGKILL
    running.communicate()
    assert left_of(made.id) == []
    with Isolation(agents(), IsolationOptions(0.1, MBIT), "again") as second:
        assert (second.host, second.id != made.id) == (made.host, True)


def serve(folder: Path, **environment: str) -> tuple["subprocess.Popen[str]", str, list[str]]:
    """Run `stoker mesos --isolation vm`; return process, master's address and output about isolation."""
    (folder / "cluster.yaml").write_text(CLUSTER)
    command = [sys.executable, "-m", "daemon.cli", "mesos", "--port", "0", "--isolation", "vm"]
    command += ["--cluster", str(folder / "cluster.yaml"), "--work-dir", str(folder / "work")]
    process = subprocess.Popen(
        [*command, "--ready-file", str(folder / "ready"), "--isolation-scale", "0.5"],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    until(lambda: (folder / "ready").exists() or process.poll() is not None, line)
    address, *rest = (folder / "ready").read_text().splitlines()
    return process, address, rest


def test_it_says_what_is_missing_and_runs_without(tmp_path: Path) -> None:
    """Without iproute2 the embedded Mesos runs all the same, without isolation, and says so."""
    process, address, (host, state) = serve(tmp_path, PATH="/nowhere")
    assert Mesos(address, tmp_path, process).get("/health") == ""
    process.terminate()
    _, complaints = process.communicate()
    assert host == "127.0.0.1"
    assert state.startswith("off: ")
    assert "`ip` is not installed (package iproute2)" in state
    assert complaints == f"isolation of VMs is {state}\n"


def test_only_root_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user gets an error."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(IsolationError, match="it needs root"):
        Isolation(agents(), IsolationOptions(), "tests")


def test_tasks_run_in_their_vm_and_end_for_want_of_memory(tmp_path: Path) -> None:
    """A task sees its VM's address; one that takes more memory than its VM has fails, and for that reason.

    After kill -9 of all that, the next one removes the leftovers.
    """
    process, address, (host, state) = serve(tmp_path)
    try:
        if state.startswith("off"):
            pytest.skip(f"VMs cannot be isolated here: {state}")
        mesos = Mesos(address, tmp_path / "work", process)
        known = b64encode(f"stoker:{(tmp_path / 'work.secret').read_text().strip()}".encode()).decode()
        with Subscription(mesos, framework_info(), Authorization=f"Basic {known}") as scheduler:
            first, second = scheduler.offers()
            own = first["url"]["address"]["ip"]
            assert own.rpartition(".")[0] == host.rpartition(".")[0]
            scheduler.launch(first, task("seen", "ip -4 -br addr show eth0 && test $(id -u) = 0", mem=64))
            scheduler.update("seen", "TASK_FINISHED")
            assert own in (mesos.sandbox("seen") / "stdout").read_text()
            hog = f"{sys.executable} -c '{HOG}' 512; sleep 1000"  # it ends with its child
            scheduler.launch(second, task("hog", hog, mem=64))
            status = scheduler.update("hog", "TASK_FAILED")
            assert_out_of_memory(status)
        (run,) = [path.stem for path in RECORDS.glob("*.json") if pid_of(path) == process.pid]
    finally:
        process.kill()
        process.communicate()
    assert left_of(run)
    remove_leftovers()
    assert left_of(run) == []


def test_a_container_that_needs_too_much_ends_alone(isolation: Isolation) -> None:
    """More than its own memory, or than the VM's where it has none; the one beside it goes on."""
    cell = isolation.cells["vm-0"]
    beside = start(cell, "beside", "import time; time.sleep(1000)", memory_mib=64)
    for memory, held, limit in (
        (64, 128, "it needed more than its 64 MB"),
        (0, 2048, "the tasks of this VM"),
    ):
        hog = start(cell, f"hog-{memory}", HOG, held, memory_mib=memory)
        assert hog.wait(60) == -signal.SIGKILL
        hog.communicate()
        assert f"Memory limit exceeded: {limit}" in (cell.leave(f"hog-{memory}") or "")
    assert beside.poll() is None
    beside.kill()
    beside.communicate()
    assert cell.leave("beside") is None


def test_a_full_vm_is_no_fault_of_the_task_that_it_ends(isolation: Isolation) -> None:
    """Neither of two needs more than its own memory, and both more than the VM has."""
    cell = isolation.cells["vm-1"]
    names = ("one", "other")
    wait = "\nimport time; time.sleep(1000)"
    both = {name: start(cell, name, HOG + wait, 150, memory_mib=240) for name in names}
    until(lambda: any(process.poll() is not None for process in both.values()))
    ended = next(name for name, process in both.items() if process.poll() is not None)
    for process in both.values():
        process.kill()
        process.communicate()
    said = {name: cell.leave(name) for name in names}
    assert "Memory limit exceeded: the tasks of this VM needed more than its 256 MB" in (said[ended] or "")


def test_a_task_that_multiplies_leaves_others_their_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As root, beyond limits for each user: in its VM half is left, and all in the others."""
    monkeypatch.setattr("framework.embedded.isolation.isolation.LEAST_PROCESSES", 60)
    monkeypatch.setattr("framework.embedded.isolation.isolation.most_processes_here", lambda: 180)
    try:
        made = Isolation(agents(), IsolationOptions(0.1, MBIT), "processes")
    except IsolationError as error:
        pytest.skip(f"VMs cannot be isolated here: {error}")
    with made:
        if made.cells["vm-0"].group.pids is None:
            pytest.skip("no controller limits processes here")
        started = [
            start(made.cells[vm], container, MULTIPLIES)
            for vm, container in (("vm-0", "multiplies"), ("vm-0", "beside"), ("vm-1", "elsewhere"))
        ]
        told = [process.stdout.readline() for process in started if process.stdout is not None]
        made.close()
        for process in started:
            process.communicate()
        assert told == ["29 Resource temporarily unavailable\n"] * 3


#: Forks until that fails; tells how often it could, and the reason.
MULTIPLIES = """
import os, signal, time
count = 0
while True:
    try:
        if not os.fork():
            time.sleep(1000)
    except OSError as error:
        print(count, error.strerror, flush=True)
        time.sleep(1000)
    count += 1
"""

#: Processes that each start the next one and end, faster than they are found.
CHAIN = """
import os, sys
os.setsid()
if os.fork():
    sys.exit()
while True:
    if os.fork():
        os._exit(0)
"""


def test_shared_memory_ends_with_its_task(isolation: Isolation) -> None:
    """Of System V and in /dev/shm, with semaphores: the VM has its memory again, and so has this machine."""
    cell = isolation.cells["vm-2"]
    before = len(listed_ipc("sem"))
    for number in range(3):
        process = start(cell, f"shares-{number}", SHARES, 60)
        assert printed(process).split() == ["60", "60", "100"]
        assert str(process.pid) not in [line.split()[4] for line in listed_ipc("shm")]  # that made each
        assert not Path(f"/dev/shm/stoker-test-{process.pid}").exists()
        cell.leave(f"shares-{number}")
        until(cell.clear)
        until(lambda: used_mib(cell) < 50)  # the kernel takes namespaces down a moment later
    # Others, such as databases of other tests, have some meanwhile.
    assert len(listed_ipc("sem")) < before + 100


def used_mib(cell: VmCell) -> int:
    """Memory that counts towards a VM."""
    name = "memory.current" if cell.group.unified else "memory.usage_in_bytes"
    return int((cell.group.memory / name).read_text()) >> 20


def listed_ipc(kind: str) -> list[str]:
    """System V's shared memory or semaphores of this machine, a line for each."""
    return Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]


def test_what_a_task_leaves_behind_is_killed_until_it_is_gone(tmp_path: Path) -> None:
    """Its first process has ended; the others claim to be of another task, and no task is started there."""
    process, address, (_, state) = serve(tmp_path)
    try:
        if state.startswith("off"):
            pytest.skip(f"VMs cannot be isolated here: {state}")
        mesos = Mesos(address, tmp_path / "work", process)
        known = b64encode(f"stoker:{(tmp_path / 'work.secret').read_text().strip()}".encode()).decode()
        with Subscription(mesos, framework_info(), Authorization=f"Basic {known}") as scheduler:
            first, second = scheduler.offers()
            scheduler.launch(first, task("other", "echo $MESOS_CONTAINER_ID; exec sleep 1000", mem=64))
            scheduler.update("other", "TASK_RUNNING")
            said = mesos.sandbox("other") / "stdout"
            until(said.read_text)
            (tmp_path / "chain.py").write_text(CHAIN)
            begin = f"MESOS_CONTAINER_ID={said.read_text().strip()} {sys.executable} {tmp_path}/chain.py"
            scheduler.launch(second, task("leaves", f"{begin}; {begin}; {begin}; {begin}; sleep 1", mem=64))
            scheduler.update("leaves", "TASK_FINISHED")
            until(lambda: len(containers(process.pid)) == 1)
    finally:
        process.kill()
        process.communicate()
        remove_leftovers()


def assert_out_of_memory(status: dict[str, Any]) -> None:
    """Assert that the status, and the daemon's event from it, report a lack of memory."""
    assert (status["reason"], status["source"]) == ("REASON_CONTAINER_LIMITATION_MEMORY", "SOURCE_AGENT")
    change = task_changed_from_json(status, 0.0)
    assert (change.state, change.reason) == ("failed", "container_limitation_memory")
    assert change.message.startswith("Memory limit exceeded: it needed more than its 64 MB")


def containers(pid: int) -> list[Path]:
    """Groups of containers that this embedded Mesos has, also those that it has left."""
    (record,) = [path for path in RECORDS.glob("*.json") if pid_of(path) == pid]
    cpu, *_ = json.loads(record.read_text())["group"]
    return [path for path in Path(cpu).glob("*/*") if path.is_dir()]


def pid_of(record: Path) -> int:
    """The process that a record names."""
    return int(json.loads(record.read_text())["process"]["pid"])


MOUNTS = """\
30 20 0:25 / {root}/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
31 20 0:26 /box {root}/memory rw,relatime - cgroup cgroup rw,memory
33 20 0:28 / {root}/pids rw,relatime - cgroup cgroup rw,pids
32 20 0:27 / {root}/unified rw,relatime - cgroup2 cgroup2 rw
"""


def test_limits_of_version_1(tmp_path: Path) -> None:
    """Each controller has a folder, below this process's own; a mount may show a part of the tree only."""
    for folder in ("cpu/own", "memory/own", "pids/own"):
        (tmp_path / folder).mkdir(parents=True)
    own = "5:pids:/own\n4:cpu,cpuacct:/own\n3:memory:/box/own\n0::/\n"
    group = make_group("vm", MOUNTS.format(root=tmp_path), own)
    assert group.folders == tuple(tmp_path / name / "own/vm" for name in ("cpu", "memory", "pids"))
    group.limit_cores(0.25)
    group.limit_processes(100)
    assert (tmp_path / "pids/own/vm/pids.max").read_text() == "100"
    group.limit_memory(64)
    group.share(1.5)
    assert (group.cpu / "cpu.cfs_quota_us").read_text() == "25000"
    assert (group.cpu / "cpu.shares").read_text() == "1536"
    assert (group.memory / "memory.limit_in_bytes").read_text() == str(64 * 2**20)
    assert group.memory_limit_mib == 64


def test_limits_of_version_2(tmp_path: Path) -> None:
    """There is one folder, below the nearest group that may set limits for its children."""
    own = tmp_path / "unified" / "session"
    own.mkdir(parents=True)
    for folder in (own, own.parent):
        (folder / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (own / "cgroup.subtree_control").mkdir()  # cannot be written: as in a group that has processes
    group = make_group("vm", MOUNTS.format(root=tmp_path), "0::/session\n")
    assert group.folders == (own.parent / "vm",)
    assert (own.parent / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    group.limit_cores(0.001)
    group.limit_processes(100)
    assert (group.cpu / "pids.max").read_text() == "100"
    group.limit_memory(64)
    group.share(2.0)
    assert (group.cpu / "cpu.max").read_text() == "1000 100000"
    assert (group.cpu / "cpu.weight").read_text() == "200"
    assert group.memory_limit_mib == 64
    (group.memory / "memory.events").write_text("oom 1\noom_kill 0\n")
    assert not group.killed_for_memory()
    (group.memory / "memory.events").write_text("oom 1\noom_kill 1\n")
    assert group.killed_for_memory()


def test_processes_are_not_limited_where_no_controller_can(tmp_path: Path) -> None:
    """All else is."""
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified" / "cgroup.controllers").write_text("cpu memory\n")
    group = make_group("vm", MOUNTS.format(root=tmp_path), "0::/\n")
    assert (tmp_path / "unified" / "cgroup.subtree_control").read_text() == "+cpu +memory"
    group.limit_processes(100)
    assert not (group.cpu / "pids.max").exists()


def test_controllers_that_are_not_there(tmp_path: Path) -> None:
    """The error names the missing controllers and the searched path."""
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified" / "cgroup.controllers").write_text("hugetlb\n")
    with pytest.raises(
        CgroupError, match=r"controllers cpu and memory are mounted .*unified/cgroup\.controllers"
    ):
        make_group("vm", MOUNTS.format(root=tmp_path), "0::/\n")
    with pytest.raises(CgroupError, match="controllers cpu and memory are mounted neither"):
        make_group("vm", "", "0::/\n")
