"""Runs one driver so that it outlives the daemon, and writes down how it ended. A program of its own.

    python supervisor.py FOLDER GRACE_SECONDS COMMAND...

It leaves the caller's session, runs the command in FOLDER in a session of the command's own, and then waits.
SIGTERM to the supervisor ends the command: SIGTERM to its process group, SIGKILL after the grace. Files:

    process.json   who runs: pids, start times and the boot they belong to; made once, so a folder starts once
    stdout stderr  of the command
    exit_code      written last, in one step; 128 + N when signal N ended the command

It imports nothing but the standard library, so that it starts at once and stays small.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

PROCESS_FILE = "process.json"
EXIT_CODE_FILE = "exit_code"

# What the driver left for itself alone: the settings with the secret, and its scratch files.
_LEFTOVERS = ("spark.properties", "tmp")
_NOT_STARTED = 127  # what a shell answers for a command that it cannot start
_AWAITED = (signal.SIGCHLD, signal.SIGTERM)


def identity(pid: int) -> dict[str, int | str] | None:
    """Return what tells this process from every other that had or will have its pid; None when it is gone."""
    try:
        # The name in parentheses may hold anything; after it come the state and, 20th, the start in ticks.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in "ZX":
        return None
    return {"pid": pid, "start": int(fields[19]), "boot": _boot()}


def main(folder: str, grace_seconds: float, command: list[str]) -> None:
    """Start the command and return at once; a process of its own sees it through."""
    if os.fork():
        return
    os.setsid()
    os.chdir(folder)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a caller that ignores it must not make us miss the end
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    try:
        _register()
    except FileExistsError:
        return  # another one got here first: its driver is the one
    try:
        pid = _spawn(command)
    except OSError as error:
        Path("stderr").write_text(f"cannot start {command[0]}: {error}\n")
        _write(EXIT_CODE_FILE, str(_NOT_STARTED))
        return
    _write(PROCESS_FILE, json.dumps({"supervisor": identity(os.getpid()), "driver": identity(pid)}))
    _close_streams()
    code = _see_through(pid, grace_seconds)
    _clean_up()
    _write(EXIT_CODE_FILE, str(code))


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _register() -> None:
    """Claim the folder: making a link fails when the name is there, and shows a whole file or none."""
    draft = Path(f"{PROCESS_FILE}.{os.getpid()}")
    draft.write_text(json.dumps({"supervisor": identity(os.getpid()), "driver": None}))
    try:
        os.link(draft, PROCESS_FILE)
    finally:
        draft.unlink()


def _spawn(command: list[str]) -> int:
    create = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawnp(
        command[0],
        command,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, "stdout", create, 0o644),
            (os.POSIX_SPAWN_OPEN, 2, "stderr", create, 0o644),
        ],
        setsid=True,
        setsigmask=(),
    )


def _close_streams() -> None:
    """Let go of the caller's streams, by which the caller learns that the driver is started."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)


def _see_through(pid: int, grace_seconds: float) -> int:
    """Wait for the driver, end it when asked to, kill what it leaves behind and return its exit code."""
    kill_at: float | None = None
    while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if kill_at is None:
            received = signal.sigwaitinfo(_AWAITED)
            if received.si_signo == signal.SIGTERM:
                _signal_group(pid, signal.SIGTERM)
                kill_at = time.monotonic() + grace_seconds
        elif time.monotonic() < kill_at:
            signal.sigtimedwait(_AWAITED, max(0.0, kill_at - time.monotonic()))
        else:
            _signal_group(pid, signal.SIGKILL)
            kill_at = None
    _signal_group(pid, signal.SIGKILL)  # the driver is dead but not yet reaped: its group is still its own
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _clean_up() -> None:
    for name in _LEFTOVERS:
        if Path(name).is_dir():
            shutil.rmtree(name, ignore_errors=True)
        else:
            Path(name).unlink(missing_ok=True)


def _write(name: str, text: str) -> None:
    """Write a file in one step and down to the disk: who reads it finds the old text or the new."""
    draft = Path(f"{name}.{os.getpid()}")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(name)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
