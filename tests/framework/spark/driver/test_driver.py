"""Drivers on this host, with shell scripts in the place of Spark."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framework.host.cgroups import make_tracker, most_processes_here
from framework.host.unix_users import find_account
from framework.spark import DriverPlace, DriverStatus, HostError, ProcessSpec, TooLateError
from framework.spark.driver import driver as driver_module
from framework.spark.driver import supervisor as supervisor_module

ENVIRON = {"PATH": os.environ["PATH"]}
ENDED = DriverStatus("ended", 0)


def records(folder: Path) -> Path:
    """Where the records of the driver of a folder are."""
    return folder.with_name(folder.name + ".records")


def start_driver(
    spec: ProcessSpec, folder: Path, environ: Mapping[str, str], grace_seconds: float = 10.0, **options: Any
) -> DriverStatus:
    """Start a driver in a folder."""
    place = DriverPlace(folder, records(folder), **options)
    return driver_module.start_driver(spec, place, environ, grace_seconds)


def driver_status(folder: Path) -> DriverStatus:
    """How the driver of a folder is doing."""
    return driver_module.driver_status(records(folder))


def stop_driver(folder: Path) -> None:
    """Stop the driver of a folder."""
    driver_module.stop_driver(records(folder))


def shell(script: str, **environment: str) -> ProcessSpec:
    """A process that runs a shell script."""
    return ProcessSpec(("bash", "-c", script), environment, {})


def wait_until(condition: Callable[[], object]) -> None:
    """Return once the condition holds; pytest's own time limit ends a wait without end."""
    while not condition():
        time.sleep(0.01)


def wait_for_end(folder: Path) -> DriverStatus:
    """The driver's last status."""
    wait_until(lambda: driver_status(folder).state != "running")
    return driver_status(folder)


def pids_of(folder: Path) -> tuple[int, int]:
    """The pids of supervisor and driver."""
    processes = json.loads((records(folder) / "process.json").read_text())
    return processes["supervisor"]["pid"], processes["driver"]["pid"]


def is_running(pid: int) -> bool:
    """Whether the process runs; one that is dead and not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill_supervisor(folder: Path) -> int:
    """Kill the supervisor as a machine short of memory would."""
    supervisor, driver = pids_of(folder)
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: not is_running(supervisor))
    return driver


def test_exit_code_and_output_are_kept(tmp_path: Path) -> None:
    """The exit code and both outputs are in the folder when the driver has ended."""
    script = "echo out; echo err >&2; pwd; exit 7"
    assert start_driver(shell(script), tmp_path / "driver", ENVIRON).state in ("running", "ended")
    assert wait_for_end(tmp_path / "driver") == DriverStatus("ended", 7)
    assert (tmp_path / "driver" / "stdout").read_text() == f"out\n{tmp_path / 'driver'}\n"
    assert (tmp_path / "driver" / "stderr").read_text() == "err\n"


def test_secret_file_and_scratch_are_gone_in_the_end(tmp_path: Path) -> None:
    """The driver's own temporary files are removed when it ends; the rest stays."""
    start_driver(
        shell("echo x > spark.properties; mkdir tmp events; touch tmp/a events/b"), tmp_path, ENVIRON
    )
    assert wait_for_end(tmp_path) == ENDED
    assert sorted(path.name for path in tmp_path.iterdir()) == [*("events", "stderr", "stdout")]
    assert sorted(path.name for path in records(tmp_path).iterdir()) == ["exit_code", "process.json"]


def test_driver_survives_who_started_it(tmp_path: Path) -> None:
    """A driver goes on when the process that started it is killed, and the next one finds it."""
    program = (
        "import os, signal; from pathlib import Path\n"
        "from framework.spark import DriverPlace, ProcessSpec, start_driver\n"
        f"spec = ProcessSpec(('bash', '-c', 'until [ -e go ]; do sleep 0.05; done; exit 5'), {{}}, {{}})\n"
        f"place = DriverPlace(Path({str(tmp_path)!r}), Path({str(records(tmp_path))!r}))\n"
        "start_driver(spec, place, os.environ)\n"
        "os.killpg(os.getpgid(0), signal.SIGKILL)\n"
    )
    daemon = subprocess.run([sys.executable, "-c", program], start_new_session=True, check=False)
    assert daemon.returncode == -signal.SIGKILL
    assert driver_status(tmp_path) == DriverStatus("running")
    (tmp_path / "go").touch()
    assert wait_for_end(tmp_path) == DriverStatus("ended", 5)


def test_stop_ends_the_whole_group(tmp_path: Path) -> None:
    """A stopped driver and its children get SIGTERM, and the exit code says so."""
    start_driver(shell("sleep 1000 & echo $! > child; wait"), tmp_path, ENVIRON)
    wait_until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().endswith("\n"))
    stop_driver(tmp_path)
    assert wait_for_end(tmp_path) == DriverStatus("ended", 128 + signal.SIGTERM)
    assert not is_running(int((tmp_path / "child").read_text()))


@pytest.mark.parametrize("asked_to_end", [False, True])
def test_a_supervisor_that_is_stopped_is_let_go_on(tmp_path: Path, *, asked_to_end: bool) -> None:
    """By the next look at the driver: its end is reported, on its own or when it is asked to end."""
    start_driver(shell("until [ -e go ]; do sleep 0.05; done; exit 5"), tmp_path, ENVIRON)
    os.kill(pids_of(tmp_path)[0], signal.SIGSTOP)
    if asked_to_end:
        stop_driver(tmp_path)
    else:
        (tmp_path / "go").touch()
    assert wait_for_end(tmp_path) == DriverStatus("ended", 128 + signal.SIGTERM if asked_to_end else 5)


def test_stubborn_driver_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    """A driver that ignores SIGTERM is killed, however often one asks."""
    start_driver(shell("trap '' TERM; touch ready; while :; do sleep 0.05; done"), tmp_path, ENVIRON, 0.2)
    wait_until((tmp_path / "ready").exists)
    stop_driver(tmp_path)
    stop_driver(tmp_path)
    assert wait_for_end(tmp_path) == DriverStatus("ended", 128 + signal.SIGKILL)


def test_driver_leaves_no_process_behind(tmp_path: Path) -> None:
    """Children that outlive the driver are killed when it ends."""
    start_driver(shell("sleep 1000 & echo $! > child"), tmp_path, ENVIRON)
    assert wait_for_end(tmp_path) == ENDED
    wait_until(lambda: not is_running(int((tmp_path / "child").read_text())))


def test_driver_without_supervisor_is_lost_and_can_be_killed(tmp_path: Path) -> None:
    """A driver with a killed supervisor is lost; stopping it kills its remaining processes."""
    start_driver(shell("sleep 1000"), tmp_path, ENVIRON)
    driver = kill_supervisor(tmp_path)
    assert driver_status(tmp_path) == DriverStatus("lost")
    assert is_running(driver)
    stop_driver(tmp_path)
    wait_until(lambda: not is_running(driver))
    stop_driver(tmp_path)
    assert driver_status(tmp_path) == DriverStatus("lost")


@pytest.mark.parametrize(("key", "value"), [("start", 1), ("boot", "another")])
def test_reused_pid_is_not_taken_for_the_driver(tmp_path: Path, key: str, value: object) -> None:
    """A process that has the pid but another start time or boot is not the driver, nor is it killed."""
    keeper = records(tmp_path)
    keeper.mkdir()
    bystander = subprocess.Popen(["sleep", "1000"], start_new_session=True, cwd=keeper)
    stat = Path(f"/proc/{bystander.pid}/stat").read_text().rpartition(")")[2].split()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    process = {"pid": bystander.pid, "start": int(stat[19]), "boot": boot}
    try:
        (keeper / "process.json").write_text(json.dumps({"supervisor": process, "driver": process}))
        assert driver_status(tmp_path) == DriverStatus("running")
        process[key] = value
        (keeper / "process.json").write_text(json.dumps({"supervisor": process, "driver": process}))
        assert driver_status(tmp_path) == DriverStatus("lost")
        stop_driver(tmp_path)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_folder_starts_a_driver_once(tmp_path: Path) -> None:
    """Starting again, during the run or after it, starts nothing and tells how the first one is doing."""
    script = "echo started; until [ -e go ]; do sleep 0.02; done"
    for _ in range(3):
        assert start_driver(shell(script), tmp_path, ENVIRON) == DriverStatus("running")
    (tmp_path / "go").touch()
    assert wait_for_end(tmp_path) == ENDED
    assert start_driver(shell(script), tmp_path, ENVIRON) == ENDED
    assert (tmp_path / "stdout").read_text() == "started\n"


def test_two_supervisors_at_once_start_one_driver(tmp_path: Path) -> None:
    """Where two daemons start the same driver at the same time, one driver runs."""
    records(tmp_path).mkdir()
    argv = ["bash", "-c", "echo started"]
    task: dict[str, Any] = {"argv": argv, "environment": ENVIRON, "folder": str(tmp_path)}
    task |= {"grace": 1, "user": None, "ports": [], "groups": [], "processes": 0, "before": 1e12}
    program = [sys.executable, "-I", supervisor_module.__file__, str(records(tmp_path))]
    both = [subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    told = [process.communicate(json.dumps(task).encode()) for process in both]
    assert [said for said, _ in told] == [b"ready\n", b"ready\n"]
    assert wait_for_end(tmp_path) == ENDED
    assert (tmp_path / "stdout").read_text() == "started\n"


def test_daemon_keeps_its_environment_to_itself(tmp_path: Path) -> None:
    """A driver sees its own variables and secrets and a few harmless ones, not the daemon's credentials."""
    spec = ProcessSpec(("env",), {"MODE": "fast"}, {"PASS": "word"})
    start_driver(spec, tmp_path, {**ENVIRON, "MESOS_SECRET": "x", "LANG": "C.UTF-8"})
    assert wait_for_end(tmp_path) == ENDED
    seen = dict(line.split("=", 1) for line in (tmp_path / "stdout").read_text().splitlines())
    assert seen == {**ENVIRON, "LANG": "C.UTF-8", "MODE": "fast", "PASS": "word"}


def test_command_that_does_not_exist_ends_at_once(tmp_path: Path) -> None:
    """A command that cannot be started ends with a shell's 127 and a line that says why."""
    start_driver(ProcessSpec(("/no/such/command",), {}, {}), tmp_path, ENVIRON)
    why = "cannot start /no/such/command: No such file or directory"
    assert wait_for_end(tmp_path) == DriverStatus("ended", 127, why)


def test_folder_without_a_driver(tmp_path: Path) -> None:
    """Where no driver was started there is none, and stopping it does nothing."""
    assert driver_status(tmp_path) == DriverStatus("absent")
    stop_driver(tmp_path)
    assert driver_status(tmp_path / "missing") == DriverStatus("absent")


def test_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """A folder that cannot be made is an error with its name."""
    (tmp_path / "file").touch()
    with pytest.raises(HostError, match="file"):
        start_driver(shell("true"), tmp_path / "file", ENVIRON)


# What a job may do to its driver's records, where it runs as the daemon's user, and to its start.


@pytest.mark.parametrize("name", ["process.json", "exit_code"])
@pytest.mark.parametrize(
    "nonsense",
    ["ok", "[]", "{}", "[" * 5000, "-1", "1e3", "256", "9" * 5000, "\0", "é", "fifo", "link", "folder"],
)
def test_nonsense_in_the_records_is_told_and_the_driver_can_be_ended(
    tmp_path: Path, name: str, nonsense: str
) -> None:
    """Neither waited for nor followed nor believed; the driver's supervisor is found without them."""
    start_driver(shell("sleep 1000"), tmp_path, ENVIRON)
    supervisor, driver = pids_of(tmp_path)
    record = records(tmp_path) / name
    record.unlink(missing_ok=True)
    if nonsense == "fifo":
        os.mkfifo(record)
    elif nonsense == "link":
        (tmp_path / "elsewhere").write_text("0")
        record.symlink_to(tmp_path / "elsewhere")
    elif nonsense == "folder":
        record.mkdir()
    else:
        record.write_text(nonsense)
    status = driver_status(tmp_path)
    assert (status.state, status.exit_code) == ("unclear", None)
    assert name in status.message
    assert start_driver(shell("true"), tmp_path, ENVIRON).state == "unclear"
    stop_driver(tmp_path)
    wait_until(lambda: not is_running(supervisor) and not is_running(driver))


@pytest.mark.parametrize("all_of_them", [False, True])
def test_a_driver_without_records_can_be_ended(tmp_path: Path, all_of_them: bool) -> None:
    """Its supervisor is known by where it works, even if that is not there any more."""
    start_driver(shell("sleep 1000"), tmp_path, ENVIRON)
    supervisor, driver = pids_of(tmp_path)
    if all_of_them:
        shutil.rmtree(records(tmp_path))
    else:
        (records(tmp_path) / "process.json").unlink()
    assert driver_status(tmp_path) == DriverStatus("absent")
    stop_driver(tmp_path)
    wait_until(lambda: not is_running(supervisor) and not is_running(driver))


def test_records_that_name_another_process_end_nobody(tmp_path: Path) -> None:
    """A job that names the daemon as its supervisor does not have it ended."""
    bystander = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    stat = Path(f"/proc/{bystander.pid}/stat").read_text().rpartition(")")[2].split()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    process = {"pid": bystander.pid, "start": int(stat[19]), "boot": boot}
    records(tmp_path).mkdir()
    (records(tmp_path) / "process.json").write_text(json.dumps({"supervisor": process, "driver": None}))
    try:
        stop_driver(tmp_path)
        assert driver_status(tmp_path) == DriverStatus("lost")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_the_environment_of_a_job_reaches_the_job_alone(tmp_path: Path) -> None:
    """A library that is a FIFO holds up only the driver that asked for it; it can be killed."""
    os.mkfifo(tmp_path / "library")
    folder = tmp_path / "driver"
    environment = {"LD_PRELOAD": str(tmp_path / "library"), "PYTHONPATH": "/x", "SECRET": "word"}
    assert start_driver(shell("true", **environment), folder, ENVIRON, 0.2).state == "running"
    supervisor, driver = pids_of(folder)
    for text in ("environ", "cmdline"):
        assert b"library" not in Path(f"/proc/{supervisor}/{text}").read_bytes()
    stop_driver(folder)
    assert wait_for_end(folder).state == "ended"
    assert not is_running(driver)


def test_a_supervisor_that_does_not_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller waits for so long and no longer."""
    (tmp_path / "silent.py").write_text("import time; time.sleep(3)")
    monkeypatch.setattr(supervisor_module, "__file__", str(tmp_path / "silent.py"))
    monkeypatch.setattr(driver_module, "_PATIENCE", 0.2)
    with pytest.raises(HostError, match="did not answer"):
        start_driver(shell("true"), tmp_path / "driver", ENVIRON)


def test_a_driver_gets_its_port_though_it_is_kept_for_it(tmp_path: Path) -> None:
    """Other programs do not get the port meanwhile; when the driver has ended, all can have it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = (
        f"import socket, time; socket.create_server(('127.0.0.1', {port})); print('listens', flush=True); "
    )
    spec = ProcessSpec((sys.executable, "-c", script + "time.sleep(1000)"), {}, {})
    start_driver(spec, tmp_path, ENVIRON, ports=(("127.0.0.1", port),))
    wait_until(lambda: (tmp_path / "stdout").read_text() == "listens\n")
    stop_driver(tmp_path)
    wait_for_end(tmp_path)
    socket.create_server(("127.0.0.1", port)).close()


def test_a_port_that_is_taken_is_the_hosts_fault(tmp_path: Path) -> None:
    """Nothing was started; the job is not to blame."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
        status = start_driver(shell("true"), tmp_path, ENVIRON, ports=(address,))
        assert status.state == "ended" or wait_for_end(tmp_path).state == "ended"
    status = driver_status(tmp_path)
    assert status.host_failed
    assert f"port {address[1]} on 127.0.0.1: Address already in use" in status.message
    assert not (tmp_path / "stdout").exists()


def test_what_leaves_the_drivers_session_is_killed_with_it(tmp_path: Path) -> None:
    """A child in a session of its own, with its parent gone, is found all the same; so are its children."""
    inner = "setsid sleep 1000 & echo $! > inner; sleep 1000"
    script = f"setsid bash -c '{inner}' & echo $! > outer; until [ -s inner ]; do sleep 0.05; done"
    start_driver(shell(script), tmp_path, ENVIRON)
    assert wait_for_end(tmp_path) == ENDED
    for name in ("outer", "inner"):
        assert not is_running(int((tmp_path / name).read_text()))


def test_what_leaves_the_session_of_a_driver_without_supervisor_is_killed_with_it(tmp_path: Path) -> None:
    """Where control groups can be had, nothing gets away though nobody adopts it; the group is removed."""
    mounts, own = (Path("/proc/self", name).read_text() for name in ("mountinfo", "cgroup"))
    group = make_tracker(f"stoker-test-{os.getpid()}", mounts, own)
    if group is None:
        pytest.skip("no control group can be made here")
    script = "setsid sleep 1000 & echo $! > child; sleep 1000"
    start_driver(shell(script), tmp_path, ENVIRON, groups=(str(group),))
    wait_until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().endswith("\n"))
    child = int((tmp_path / "child").read_text())
    assert str(child) in (group / "cgroup.procs").read_text().split()
    driver = kill_supervisor(tmp_path)
    stop_driver(tmp_path)
    wait_until(lambda: not is_running(driver) and not is_running(child))
    assert not group.exists()


def test_a_link_in_the_place_of_scratch_is_not_followed(tmp_path: Path) -> None:
    """Cleaning up removes the link and nothing behind it."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    script = "ln -s ../precious tmp; ln -s ../precious/file spark.properties"
    start_driver(shell(script), tmp_path / "driver", ENVIRON)
    assert wait_for_end(tmp_path / "driver") == ENDED
    assert (tmp_path / "precious/file").exists()
    assert sorted(path.name for path in (tmp_path / "driver").iterdir()) == ["stderr", "stdout"]


def test_a_daemon_that_stood_still_starts_nothing(tmp_path: Path) -> None:
    """The supervisor is told until when its daemon leads, and looks itself: then it leaves no trace."""
    asked: list[float] = []

    def before() -> float:
        asked.append(time.clock_gettime(time.CLOCK_BOOTTIME))
        # From here on the daemon stands still, until others may lead.
        return asked[-1] + 0.3

    popen = subprocess.Popen.communicate

    def frozen(process: "subprocess.Popen[bytes]", *arguments: Any, **options: Any) -> Any:
        while time.clock_gettime(time.CLOCK_BOOTTIME) < asked[-1] + 0.3:
            time.sleep(0.01)
        return popen(process, *arguments, **options)

    place = DriverPlace(tmp_path / "driver", records(tmp_path / "driver"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(subprocess.Popen, "communicate", frozen)
        with pytest.raises(TooLateError, match="too late to start"):
            driver_module.start_driver(shell("touch started"), place, ENVIRON, before=before)
    assert len(asked) == 1
    assert driver_status(tmp_path / "driver").state == "absent"
    assert not (tmp_path / "driver/started").exists()
    assert start_driver(shell("touch started"), tmp_path / "driver", ENVIRON).state in ("running", "ended")


def test_a_slow_start_of_the_supervisor_takes_nothing_of_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine its interpreter needs seconds: until when it may start is asked after that."""
    program = tmp_path / "slow.py"
    command = f"[sys.executable, '-I', '-S', {supervisor_module.__file__!r}, sys.argv[1]]"
    program.write_text(f"import os, sys, time\ntime.sleep(1)\nos.execv(sys.executable, {command})\n")
    monkeypatch.setattr(supervisor_module, "__file__", str(program))
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    asked: list[float] = []

    def before() -> float:
        asked.append(time.clock_gettime(time.CLOCK_BOOTTIME))
        return asked[-1] + 3600.0

    place = DriverPlace(tmp_path / "driver", records(tmp_path / "driver"))
    status = driver_module.start_driver(shell("touch started"), place, ENVIRON, before=before)
    assert status.state in ("running", "ended")
    assert asked[0] - began >= 1.0


def test_few_drivers_are_started_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More interpreters that start side by side keep each other from it, until the lease is over."""
    changed, inside, most = threading.Condition(), [0], [0]

    def starts(*_: object) -> None:
        with changed:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            changed.notify_all()
            changed.wait_for(lambda: most[0] > 2, timeout=0.3)
            inside[0] -= 1
        raise OSError("it is only counted")

    def start(number: int) -> None:
        with pytest.raises(HostError, match="only counted"):
            start_driver(shell("true"), tmp_path / str(number), ENVIRON)

    monkeypatch.setattr(driver_module, "_AT_ONCE", threading.BoundedSemaphore(2))
    monkeypatch.setattr(driver_module, "_started", starts)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(start, range(6)))
    assert most == [2]


#: Traces its parent from another session, and never lets its end be seen: PR_SET_PTRACER, PTRACE_SEIZE.
TRACER = """
import ctypes, os, signal
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long] * 4
libc.prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)
leader, (heard, told) = os.getpid(), os.pipe()
if not os.fork():
    os.setsid()
    os.write(told, b"%d" % libc.ptrace(0x4206, leader, 0, 0))
    while True:
        signal.pause()
print(os.read(heard, 9).decode(), flush=True)
while True:
    signal.pause()
"""


@pytest.mark.timeout(90)
def test_a_driver_that_is_traced_can_be_ended(tmp_path: Path) -> None:
    """Linux tells the end of a traced process to its tracer first, which need never look."""
    traced = ProcessSpec((sys.executable, "-c", TRACER), {}, {})
    start_driver(traced, tmp_path, ENVIRON, 0.1)
    wait_until(lambda: (tmp_path / "stdout").read_text().endswith("\n"))
    if (tmp_path / "stdout").read_text() != "0\n":
        pytest.skip("this kernel lets no process trace another")
    stop_driver(tmp_path)
    assert wait_for_end(tmp_path).exit_code == 128 + signal.SIGKILL  # SIGTERM waits for the tracer, too


def test_a_driver_whose_orphans_end_without_end_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its supervisor would otherwise reap for ever, and see no signal."""
    left = 300_000
    waitid = os.waitid

    def endless(kind: int, pid: int, options: int) -> Any:
        nonlocal left
        if kind == os.P_PID:
            return waitid(kind, pid, options)
        left -= 1
        return SimpleNamespace(si_pid=-1) if left > 0 else None

    waitpid = os.waitpid
    monkeypatch.setattr(os, "waitid", endless)
    monkeypatch.setattr(os, "waitpid", lambda pid, options: (0, 0) if pid == -1 else waitpid(pid, options))
    driver = subprocess.Popen(["sleep", "600"], start_new_session=True)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, supervisor_module._AWAITED)
    try:
        signal.raise_signal(signal.SIGTERM)  # to this thread alone
        assert supervisor_module._see_through(driver.pid, 60.0, []) == 128 + signal.SIGTERM
        assert left > 0
    finally:
        driver.returncode = 0  # reaped above
        signal.sigtimedwait(supervisor_module._AWAITED, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a driver as another user")
def test_a_user_does_not_get_all_processes() -> None:
    """Root, as which the daemon runs, finds room for its own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        start_driver(
            shell("ulimit -Hu"), folder := Path(name) / "jobs/driver", ENVIRON, user=find_account("nobody")
        )
        assert wait_for_end(folder) == ENDED
        assert int((folder / "stdout").read_text()) == most_processes_here()
