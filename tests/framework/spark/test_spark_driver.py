"""Drivers on this host, with shell scripts in the place of Spark."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from framework.spark import DriverStatus, ProcessSpec, driver_status, start_driver, stop_driver

ENVIRON = {"PATH": os.environ["PATH"]}
ENDED = DriverStatus("ended", 0)


def shell(script, **environment):
    """Return a process that runs a shell script."""
    return ProcessSpec(("bash", "-c", script), environment, {})


def wait_until(condition):
    """Return once the condition holds; pytest's own time limit ends a wait without end."""
    while not condition():
        time.sleep(0.01)


def wait_for_end(folder):
    """Return the driver's last status."""
    wait_until(lambda: driver_status(folder).state != "running")
    return driver_status(folder)


def pids_of(folder):
    """Return the pids of supervisor and driver."""
    processes = json.loads((folder / "process.json").read_text())
    return processes["supervisor"]["pid"], processes["driver"]["pid"]


def is_running(pid):
    """Tell whether the process runs; one that is dead and not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill_supervisor(folder):
    """Kill the supervisor as a machine short of memory would."""
    supervisor, driver = pids_of(folder)
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: not is_running(supervisor))
    return driver


def test_exit_code_and_output_are_kept(tmp_path):
    """The exit code and both outputs are in the folder when the driver has ended."""
    script = "echo out; echo err >&2; pwd; exit 7"
    assert start_driver(shell(script), tmp_path / "driver", ENVIRON).state in ("running", "ended")
    assert wait_for_end(tmp_path / "driver") == DriverStatus("ended", 7)
    assert (tmp_path / "driver" / "stdout").read_text() == f"out\n{tmp_path / 'driver'}\n"
    assert (tmp_path / "driver" / "stderr").read_text() == "err\n"


def test_secret_file_and_scratch_are_gone_in_the_end(tmp_path):
    """What the driver needed for itself alone is removed when it ends; the rest stays."""
    start_driver(
        shell("echo x > spark.properties; mkdir tmp events; touch tmp/a events/b"), tmp_path, ENVIRON
    )
    assert wait_for_end(tmp_path) == ENDED
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("events", "exit_code", "process.json", "stderr", "stdout")
    ]


def test_driver_survives_who_started_it(tmp_path):
    """A driver goes on when the process that started it is killed, and the next one finds it."""
    program = (
        "import os, signal; from pathlib import Path; from framework.spark import ProcessSpec, start_driver\n"
        f"spec = ProcessSpec(('bash', '-c', 'until [ -e go ]; do sleep 0.05; done; exit 5'), {{}}, {{}})\n"
        f"start_driver(spec, Path({str(tmp_path)!r}), os.environ)\n"
        "os.killpg(os.getpgid(0), signal.SIGKILL)\n"
    )
    daemon = subprocess.run([sys.executable, "-c", program], start_new_session=True, check=False)
    assert daemon.returncode == -signal.SIGKILL
    assert driver_status(tmp_path) == DriverStatus("running")
    (tmp_path / "go").touch()
    assert wait_for_end(tmp_path) == DriverStatus("ended", 5)


def test_stop_ends_the_whole_group(tmp_path):
    """A stopped driver and its children get SIGTERM, and the exit code says so."""
    start_driver(shell("sleep 1000 & echo $! > child; wait"), tmp_path, ENVIRON)
    wait_until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().endswith("\n"))
    stop_driver(tmp_path)
    assert wait_for_end(tmp_path) == DriverStatus("ended", 128 + signal.SIGTERM)
    assert not is_running(int((tmp_path / "child").read_text()))


def test_stubborn_driver_is_killed_after_the_grace_period(tmp_path):
    """A driver that ignores SIGTERM is killed, however often one asks."""
    start_driver(shell("trap '' TERM; touch ready; while :; do sleep 0.05; done"), tmp_path, ENVIRON, 0.2)
    wait_until((tmp_path / "ready").exists)
    stop_driver(tmp_path)
    stop_driver(tmp_path)
    assert wait_for_end(tmp_path) == DriverStatus("ended", 128 + signal.SIGKILL)


def test_driver_leaves_no_process_behind(tmp_path):
    """Children that outlive the driver are killed when it ends."""
    start_driver(shell("sleep 1000 & echo $! > child"), tmp_path, ENVIRON)
    assert wait_for_end(tmp_path) == ENDED
    wait_until(lambda: not is_running(int((tmp_path / "child").read_text())))


def test_driver_without_supervisor_is_lost_and_can_be_killed(tmp_path):
    """A driver whose supervisor was killed is lost; stopping it kills what is left of it."""
    start_driver(shell("sleep 1000"), tmp_path, ENVIRON)
    driver = kill_supervisor(tmp_path)
    assert driver_status(tmp_path) == DriverStatus("lost")
    assert is_running(driver)
    stop_driver(tmp_path)
    wait_until(lambda: not is_running(driver))
    stop_driver(tmp_path)
    assert driver_status(tmp_path) == DriverStatus("lost")


@pytest.mark.parametrize(("key", "value"), [("start", 1), ("boot", "another")])
def test_reused_pid_is_not_taken_for_the_driver(tmp_path, key, value):
    """A process that has the pid but another start time or boot is not the driver, nor is it killed."""
    bystander = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    stat = Path(f"/proc/{bystander.pid}/stat").read_text().rpartition(")")[2].split()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    process = {"pid": bystander.pid, "start": int(stat[19]), "boot": boot}
    try:
        (tmp_path / "process.json").write_text(json.dumps({"supervisor": process, "driver": process}))
        assert driver_status(tmp_path) == DriverStatus("running")
        process[key] = value
        (tmp_path / "process.json").write_text(json.dumps({"supervisor": process, "driver": process}))
        assert driver_status(tmp_path) == DriverStatus("lost")
        stop_driver(tmp_path)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_folder_starts_a_driver_once(tmp_path):
    """Starting again, during the run or after it, starts nothing and tells how the first one is doing."""
    script = "echo started; until [ -e go ]; do sleep 0.02; done"
    for _ in range(3):
        assert start_driver(shell(script), tmp_path, ENVIRON) == DriverStatus("running")
    (tmp_path / "go").touch()
    assert wait_for_end(tmp_path) == ENDED
    assert start_driver(shell(script), tmp_path, ENVIRON) == ENDED
    assert (tmp_path / "stdout").read_text() == "started\n"


def test_two_supervisors_at_once_start_one_driver(tmp_path):
    """Where two daemons start the same driver at the same time, one driver runs."""
    from framework.spark import supervisor

    program = [sys.executable, "-I", supervisor.__file__, str(tmp_path), "1", "bash", "-c", "echo started"]
    both = [subprocess.Popen(program, stdout=subprocess.PIPE) for _ in range(2)]
    assert [process.communicate()[0] for process in both] == [b"", b""]
    assert wait_for_end(tmp_path) == ENDED
    assert (tmp_path / "stdout").read_text() == "started\n"


def test_daemon_keeps_its_environment_to_itself(tmp_path):
    """A driver sees its own variables and secrets and a few harmless ones, not the daemon's credentials."""
    spec = ProcessSpec(("env",), {"MODE": "fast"}, {"PASS": "word"})
    start_driver(spec, tmp_path, {**ENVIRON, "MESOS_SECRET": "x", "LANG": "C.UTF-8"})
    assert wait_for_end(tmp_path) == ENDED
    seen = dict(line.split("=", 1) for line in (tmp_path / "stdout").read_text().splitlines())
    assert seen == {**ENVIRON, "LANG": "C.UTF-8", "MODE": "fast", "PASS": "word"}


def test_command_that_does_not_exist_ends_at_once(tmp_path):
    """A command that cannot be started ends with a shell's 127 and a line that says why."""
    start_driver(ProcessSpec(("no-such-command",), {}, {}), tmp_path, ENVIRON)
    assert wait_for_end(tmp_path) == DriverStatus("ended", 127)
    assert "cannot start no-such-command" in (tmp_path / "stderr").read_text()


def test_folder_without_a_driver(tmp_path):
    """Where no driver was started there is none, and stopping it does nothing."""
    assert driver_status(tmp_path) == DriverStatus("absent")
    stop_driver(tmp_path)
    assert driver_status(tmp_path / "missing") == DriverStatus("absent")


def test_folder_that_cannot_be_used_is_told(tmp_path):
    """A folder that cannot be made is an error with its name."""
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        start_driver(shell("true"), tmp_path / "file", ENVIRON)
