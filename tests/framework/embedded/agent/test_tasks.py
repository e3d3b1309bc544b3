"""Tasks as processes: environment, fetched files, output, grace, and that nothing is ever left behind."""

import base64
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.embedded import AgentSpec, serve
from framework.embedded.agent import environments
from framework.host import stop_signals
from tests.framework.embedded.running import Json, Mesos, Subscription, framework_info, running, task
from tests.framework.spark.driver.test_driver import TRACER
from tests.waiting import until


def run(mesos: Mesos, info: Json, end: str = "TASK_FINISHED") -> Json:
    """Run one task to its end and return its last status."""
    with Subscription(mesos, framework_info(failover_timeout=600.0)) as scheduler:
        scheduler.launch(scheduler.offers()[0], info)
        status = scheduler.update(info["task_id"]["value"], end)
        scheduler.call("TEARDOWN")
        return status


def test_environment_and_output(tmp_path: Path) -> None:
    """A task sees its variables and secrets and the MESOS_ ones; its output is in its sandbox."""
    secret = {"type": "VALUE", "value": {"data": base64.b64encode(b"hush").decode()}}
    variables = [
        {"name": "FOO", "value": "bar baz"},
        {"name": "TOKEN", "type": "SECRET", "secret": secret},
    ]
    command = 'echo "$FOO $TOKEN $MESOS_EXECUTOR_ID$MESOS_TASK_ID $MESOS_SANDBOX"; pwd; echo oops >&2'
    with running(tmp_path) as mesos:
        run(mesos, task("t", command, command_fields={"environment": {"variables": variables}}))
        sandbox = mesos.sandbox("t")
        assert (sandbox / "stdout").read_text() == f"bar baz hush t {sandbox}\n{sandbox}\n"
        assert (sandbox / "stderr").read_text() == "oops\n"
        assert "hush" not in str(mesos.get("/state"))


def test_secret_by_reference_is_refused(tmp_path: Path) -> None:
    """Only secrets by value can be resolved."""
    variable = {"name": "T", "type": "SECRET", "secret": {"type": "REFERENCE", "reference": {"name": "x"}}}
    with running(tmp_path) as mesos:
        info = task("t", command_fields={"environment": {"variables": [variable]}})
        status = run(mesos, info, "TASK_FAILED")
        assert status["message"].endswith("Default secret resolver cannot resolve references")


def test_uris_are_fetched(tmp_path: Path) -> None:
    """Files come by URI or path, executable, extracted, or under another name."""
    (tmp_path / "data.txt").write_text("data")
    with tarfile.open(tmp_path / "pack.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "data.txt", "inside.txt")
    uris = [
        {"value": f"file://{tmp_path}/data.txt", "executable": True},
        {"value": str(tmp_path / "data.txt"), "output_file": "sub/other.txt"},
        {"value": str(tmp_path / "pack.tar.gz")},
    ]
    with running(tmp_path / "work") as mesos:
        run(mesos, task("t", "cat inside.txt sub/other.txt", command_fields={"uris": uris}))
        sandbox = mesos.sandbox("t")
        assert (sandbox / "stdout").read_text() == "datadata"
        assert (sandbox / "data.txt").stat().st_mode & stat.S_IXUSR


@pytest.mark.parametrize("uri", ["/no/such/file", "http://x/y", "/etc/hostname|../../out"])
def test_uri_that_cannot_be_fetched(tmp_path: Path, uri: str) -> None:
    """The task fails with a real agent's words, and its stderr shows the fault."""
    value, _, output = uri.partition("|")
    entry = {"value": value} | ({"output_file": output} if output else {})
    with running(tmp_path) as mesos:
        status = run(mesos, task("t", command_fields={"uris": [entry]}), "TASK_FAILED")
        assert status["reason"] == "REASON_CONTAINER_LAUNCH_FAILED"
        assert value in (mesos.sandbox("t") / "stderr").read_text()


def test_argv_is_not_given_to_a_shell(tmp_path: Path) -> None:
    """A command that is no shell command gets its arguments as they are."""
    fields = {"shell": False, "arguments": ["echo", "$HOME", "a b"]}
    with running(tmp_path) as mesos:
        run(mesos, task("t", "echo", command_fields=fields))
        assert (mesos.sandbox("t") / "stdout").read_text() == "$HOME a b\n"


def test_kill_reaches_the_whole_group_and_grants_grace(tmp_path: Path) -> None:
    """SIGTERM comes first; a task that ignores it is killed when its grace is over, children included."""
    command = "trap 'touch asked' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    with running(tmp_path) as mesos, Subscription(mesos, framework_info()) as scheduler:
        policy = {"grace_period": {"nanoseconds": 200_000_000}}
        scheduler.launch(scheduler.offers()[0], task("t", command, kill_policy=policy))
        scheduler.update("t", "TASK_RUNNING")
        sandbox = mesos.sandbox("t")
        until(lambda: (sandbox / "pid").exists(), "the task runs")
        scheduler.call("KILL", {"task_id": {"value": "t"}})
        assert scheduler.update("t", "TASK_KILLED")["message"] == "Command terminated with signal Killed"
        assert (sandbox / "asked").exists()


@pytest.mark.timeout(90)
def test_a_task_that_is_traced_can_be_killed(tmp_path: Path) -> None:
    """Linux tells the end of a traced process to its tracer first, which need never look."""
    fields = {"shell": False, "arguments": [sys.executable, "-c", TRACER]}
    with running(tmp_path) as mesos, Subscription(mesos, framework_info()) as scheduler:
        policy = {"grace_period": {"nanoseconds": 100_000_000}}
        info = task("t", sys.executable, kill_policy=policy, command_fields=fields)
        scheduler.launch(scheduler.offers()[0], info)
        scheduler.update("t", "TASK_RUNNING")
        stdout = mesos.sandbox("t") / "stdout"
        until(lambda: stdout.read_text().endswith("\n"), "it is traced")
        if stdout.read_text() != "0\n":
            pytest.skip("this kernel lets no process trace another")
        scheduler.call("KILL", {"task_id": {"value": "t"}})
        scheduler.update("t", "TASK_KILLED")


def test_framework_that_wants_it_is_told_of_killing(tmp_path: Path) -> None:
    """TASK_KILLING comes between the wish and the end."""
    info = framework_info(capabilities=[{"type": "MULTI_ROLE"}, {"type": "TASK_KILLING_STATE"}])
    with running(tmp_path) as mesos, Subscription(mesos, info) as scheduler:
        scheduler.launch(scheduler.offers()[0], task("t", "sleep 600"))
        scheduler.update("t", "TASK_RUNNING")
        scheduler.call("KILL", {"task_id": {"value": "t"}})
        scheduler.update("t", "TASK_KILLING")
        scheduler.update("t", "TASK_KILLED")


def test_group_needs_its_framework_id(tmp_path: Path) -> None:
    """LAUNCH_GROUP without `ExecutorInfo.framework_id` is refused for every task."""
    with running(tmp_path) as mesos, Subscription(mesos, framework_info()) as scheduler:
        offer = scheduler.offers()[0]
        tasks = [task(name) | {"agent_id": offer["agent_id"]} for name in ("g1", "g2")]
        group = {
            "executor": {"type": "DEFAULT", "executor_id": {"value": "e"}},
            "task_group": {"tasks": tasks},
        }
        operation = {"type": "LAUNCH_GROUP", "launch_group": group}
        scheduler.call("ACCEPT", {"offer_ids": [offer["id"]], "operations": [operation]})
        for name in ("g1", "g2"):
            status = scheduler.update(name, "TASK_ERROR")
            assert status["message"] == "'ExecutorInfo.framework_id' must be set"
            assert status["reason"] == "REASON_TASK_GROUP_INVALID"


def test_failing_task_takes_its_group_along(tmp_path: Path) -> None:
    """When one task of a group fails the others are killed, and the executor ends."""
    with running(tmp_path) as mesos, Subscription(mesos, framework_info()) as scheduler:
        offer = scheduler.offers()[0]
        tasks = [task("bad", "exit 2"), task("good", "sleep 600")]
        executor = {
            "type": "DEFAULT",
            "executor_id": {"value": "e"},
            "framework_id": {"value": scheduler.framework_id},
        }
        tasks = [entry | {"agent_id": offer["agent_id"]} for entry in tasks]
        group = {"executor": executor, "task_group": {"tasks": tasks}}
        operation = {"type": "LAUNCH_GROUP", "launch_group": group}
        scheduler.call("ACCEPT", {"offer_ids": [offer["id"]], "operations": [operation]})
        ends: dict[str, str] = {}
        while len(ends) < 2:
            status = scheduler.wait("UPDATE")["status"]
            scheduler.acknowledge(status)
            if status["state"] in {"TASK_FAILED", "TASK_KILLED"}:
                ends[status["task_id"]["value"]] = status["state"]
        assert ends == {"bad": "TASK_FAILED", "good": "TASK_KILLED"}
        failure = scheduler.wait("FAILURE")
        assert failure == {"agent_id": offer["agent_id"], "executor_id": {"value": "e"}, "status": 0}


STUBBORN = "trap '' TERM; setsid sleep 600 & echo $! $$ > pids; while :; do sleep 0.05; done"


def start_stubborn(mesos: Mesos, scheduler: Subscription) -> list[int]:
    """Start a task that ignores SIGTERM and leaves its group; return both pids."""
    scheduler.launch(scheduler.offers()[0], task("t", STUBBORN))
    scheduler.update("t", "TASK_RUNNING")
    pids = mesos.sandbox("t") / "pids"
    until(lambda: pids.exists() and pids.read_text().endswith("\n"), "the task tells its pids")
    return [int(pid) for pid in pids.read_text().split()]


def alive(pid: int) -> bool:
    """Whether a process lives; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_nothing_is_left_after_the_end(tmp_path: Path) -> None:
    """SIGTERM to the embedded Mesos ends every process of every task, also one that left its group."""
    info = framework_info(failover_timeout=600.0)
    with running(tmp_path) as mesos, Subscription(mesos, info) as scheduler:
        pids = start_stubborn(mesos, scheduler)
        assert all(alive(pid) for pid in pids)
        mesos.process.send_signal(signal.SIGTERM)
        mesos.process.wait(300)
        assert not any(alive(pid) for pid in pids)


#: Leaves its session, its parents and its environment behind, and tells its pid.
HIDE = "(setsid env -i sh -c 'trap : TERM; echo $$ > hidden; sleep 600; sleep 600' &)"


@pytest.mark.parametrize("victim", ["the keeper", "the master"])
def test_tasks_end_when_the_embedded_mesos_is_killed(tmp_path: Path, victim: str) -> None:
    """After SIGKILL of either of its processes nothing that tasks started goes on, wherever it hides."""
    info = framework_info(failover_timeout=600.0)
    with running(tmp_path) as mesos, Subscription(mesos, info) as scheduler:
        stubborn = f"{HIDE}; trap '' TERM; echo $$ > pid; sleep 600; true"
        scheduler.launch(scheduler.offers()[0], task("t", stubborn))
        scheduler.update("t", "TASK_RUNNING")
        files = [mesos.sandbox("t") / name for name in ("pid", "hidden")]
        until(lambda: all(f.exists() and f.read_text() != "" for f in files), "the task tells its pids")
        pids = [int(file.read_text()) for file in files]
        assert all(alive(pid) for pid in pids)
        (master,) = below_directly(mesos.process.pid)
        os.kill(mesos.process.pid if victim == "the keeper" else master, signal.SIGKILL)
        mesos.process.wait(300)
        if victim == "the master":
            assert not any(alive(pid) for pid in pids)  # the keeper ends last
        until(lambda: not any(alive(pid) for pid in (*pids, master)), "all of them end")


def test_what_leaves_a_tasks_session_ends_with_the_task(tmp_path: Path) -> None:
    """Processes that hide their task end too; background processes of a live task are left alone."""
    stays = "(setsid sh -c 'echo $$ > hidden; sleep 600; true' &); sleep 600"
    with running(tmp_path) as mesos, Subscription(mesos, framework_info()) as scheduler:
        offer, other, *_ = scheduler.offers()
        scheduler.launch(other, task("stays", stays))
        scheduler.update("stays", "TASK_RUNNING")
        known = HIDE.replace("env -i ", "").replace("hidden", "known")
        until_told = "while [ ! -s hidden ] || [ ! -s known ]; do sleep 0.01; done"
        scheduler.launch(offer, task("ends", f"{HIDE}; {known}; {until_told}"))
        scheduler.update("ends", "TASK_FINISHED")
        left = [int((mesos.sandbox("ends") / name).read_text()) for name in ("hidden", "known")]
        until(lambda: not any(alive(pid) for pid in left), "what the task left behind ends")
        file = mesos.sandbox("stays") / "hidden"
        until(lambda: file.exists() and file.read_text() != "", "the other task tells its pid")
        assert alive(int(file.read_text()))


#: Lets the kernel show a GiB of its memory as its environment (PR_SET_MM_MAP), which any process may.
ENDLESS = """
import ctypes, struct, sys, time
libc = ctypes.CDLL(None)
libc.mmap.restype = libc.sbrk.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
at = libc.mmap(None, 1 << 30, 3, 0x4022, -1, 0)
stat = open("/proc/self/stat").read().rpartition(")")[2].split()
of = [int(stat[number - 3]) for number in (26, 27, 45, 46, 47, 28, 48, 49)]
places = (*of[:5], libc.sbrk(0), *of[5:], at, at + (1 << 30))
shown = ctypes.create_string_buffer(struct.pack("<11QQIi", *places, 0, 0, -1))
print(libc.prctl(35, 14, shown, 104, 0), flush=True)
time.sleep(600)
"""


def test_an_endless_environment_is_not_read() -> None:
    """An orphan of a task could take all memory, and with it the tasks of everybody."""
    with subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"0\n":
                pytest.skip("this kernel does not let a process move its environment")
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            assert environments._container_of(process.pid) == ""
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 18  # KiB
            assert stop_signals._command(process.pid)
        finally:
            process.kill()


@pytest.fixture
def passable() -> Iterator[Path]:
    """A folder that other users may pass through; pytest's any other pytest on the machine closes."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a task as root")
def test_no_task_is_roots_where_none_may_be(passable: Path) -> None:
    """Not for a framework with the right secret either; without a user it would be the agent's, root."""
    with running(passable / "work", root=False) as mesos:
        for number, user in enumerate(({"user": "root"}, {"user": ""}, {})):
            status = run(mesos, task(f"t{number}", "id -u", command_fields=user), "TASK_LOST")
            assert "No such user" in status["message"]
        run(mesos, task("t", "id -u", command_fields={"user": "nobody"}))
        assert (mesos.sandbox("t") / "stdout").read_text().strip() != "0"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a task as another user")
def test_a_user_does_not_get_all_processes(passable: Path) -> None:
    """Root, as which Mesos and daemon run, finds room for its own."""
    with running(passable / "work") as mesos:
        shown = "awk '/Max processes/ {print $4}' /proc/self/limits"
        run(mesos, task("t", shown, command_fields={"user": "nobody"}))
        most = int(Path("/proc/sys/kernel/pid_max").read_text())
        assert int((mesos.sandbox("t") / "stdout").read_text()) < most


def test_a_sandbox_is_its_users_alone(passable: Path) -> None:
    """A task of another user owns all of its sandbox, and reads no other sandbox or forbidden file."""
    if os.geteuid() != 0:
        pytest.skip("only root can run a task as another user")
    (passable / "open").write_text("for all")
    (passable / "closed").write_text("for root")
    (passable / "closed").chmod(0o600)

    def fetched(name: str) -> Json:
        return {"user": "nobody", "uris": [{"value": str(passable / name)}]}

    info = framework_info(failover_timeout=600.0)
    with running(passable / "work") as mesos, Subscription(mesos, info) as scheduler:
        offer, other, third = scheduler.offers()
        scheduler.launch(offer, task("roots", "echo secret > file; sleep 600"))
        scheduler.update("roots", "TASK_RUNNING")
        secret = mesos.sandbox("roots") / "file"
        until(secret.exists, "root's task has written")
        try_all = (
            f"id -un; cat open; cat $MESOS_SANDBOX/open; cat {secret} || ls {secret.parents[1]} || echo no"
        )
        scheduler.launch(other, task("nobodys", try_all, command_fields=fetched("open")))
        scheduler.update("nobodys", "TASK_FINISHED")
        sandbox = mesos.sandbox("nobodys")
        assert (sandbox / "stdout").read_text() == "nobody\nfor allfor allno\n"
        assert {path.owner() for path in (sandbox, *sandbox.iterdir())} == {"nobody"}
        assert sandbox.stat().st_mode & 0o777 == secret.parent.stat().st_mode & 0o777 == 0o700
        scheduler.launch(third, task("curious", "cat closed", command_fields=fetched("closed")))
        scheduler.update("curious", "TASK_FAILED")
        assert "nobody may not read it" in (mesos.sandbox("curious") / "stderr").read_text()


@pytest.mark.parametrize("trap", ["ln -s {there} stderr", "mkfifo stderr"])
def test_outputs_of_checks_follow_no_link(tmp_path: Path, trap: str) -> None:
    """A task that puts something else in place of its output has nothing written there, and hangs nobody."""
    there = tmp_path / "there"
    there.write_text("as it was")
    check = {"type": "COMMAND", "command": {"value": "echo written >&2; true"}, "delay_seconds": 0.2}
    command = f"rm stderr; {trap.format(there=there)}; sleep 600"
    with running(tmp_path / "work") as mesos, Subscription(mesos, framework_info()) as scheduler:
        info = task("t", command, health_check=check | {"interval_seconds": 0.1, "grace_period_seconds": 0.3})
        scheduler.launch(scheduler.offers()[0], info)
        scheduler.update("t", "TASK_RUNNING")
        scheduler.wait("UPDATE", lambda body: body["status"].get("healthy") is False)
        assert there.read_text() == "as it was"
        assert mesos.get("/health") == ""


def below_directly(pid: int) -> list[int]:
    """The children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_two_do_not_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits until the first and its tasks are gone, and gives up with the folder's name."""
    monkeypatch.setattr("framework.embedded.mesos_server._ALONE_SECONDS", 0.1)
    with running(tmp_path), pytest.raises(OSError, match="another embedded Mesos uses it") as caught:
        serve([], port=0, work_dir=tmp_path)
    assert caught.value.filename == str(tmp_path)


def test_taken_port_is_explained(tmp_path: Path) -> None:
    """A port in use is an OSError that says so."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} of 127.0.0.1 is taken"):
            serve([], port=port, work_dir=tmp_path)


def test_agents_must_not_share_ports_or_names(tmp_path: Path) -> None:
    """Contradicting agents are refused before anything starts."""
    one = AgentSpec("a", "t", 1, 1024, 0.1, "127.0.1.1", (100, 200))
    with pytest.raises(ValueError, match="unique"):
        serve([one, one], work_dir=tmp_path)
    other = AgentSpec("b", "t", 1, 1024, 0.1, "127.0.1.2", (200, 300))
    with pytest.raises(ValueError, match="share ports"):
        serve([one, other], work_dir=tmp_path)


def test_resources_are_exact(tmp_path: Path) -> None:
    """Three decimals of cpu are kept through any number of launches and ends."""
    with (
        running(tmp_path, allocation_interval=0.02) as mesos,
        Subscription(mesos, framework_info()) as scheduler,
    ):
        scheduler.launch(scheduler.offers()[0], *[task(f"t{i}", cpus=0.333) for i in range(12)])
        running_tasks = {f"t{i}" for i in range(12)}
        while running_tasks:
            status = scheduler.wait("UPDATE")["status"]
            scheduler.acknowledge(status)
            if status["state"] == "TASK_FINISHED":
                running_tasks.remove(status["task_id"]["value"])
        assert mesos.get("/slaves")["slaves"][0]["used_resources"]["cpus"] == 0


def test_no_more_than_there_is_is_ever_launched(tmp_path: Path) -> None:
    """The fourth of four tasks that do not fit together is refused."""
    with running(tmp_path) as mesos, Subscription(mesos, framework_info()) as scheduler:
        offer = scheduler.offers()[0]
        scheduler.launch(offer, *[task(f"t{i}", "sleep 600", cpus=1.001) for i in range(4)])
        states = [scheduler.wait("UPDATE")["status"]]
        while states[-1]["state"] != "TASK_ERROR":
            states.append(scheduler.wait("UPDATE")["status"])
        assert states[-1]["task_id"]["value"] == "t3"
