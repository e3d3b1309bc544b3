"""`make install` leaves nothing running behind: what compiles beside Spark's fetching ends with it."""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.waiting import until

REPOSITORY = Path(__file__).parents[1]
#: Stands for the interpreter: of all that it is asked, compiling alone takes time.
PYTHON = """#!/bin/sh
case "$*" in *daemon.what_if.precompile*) echo $$ > pid.new; mv pid.new pid; exec sleep 600;; esac
"""
#: Stands for `stoker spark add`, once it is being compiled.
FETCHES = "#!/bin/sh\nwhile ! test -e pid; do sleep 0.01; done\n"


def install(folder: Path, fetches: str) -> subprocess.Popen[bytes]:
    """Begin it with programs that stand for the real ones, in a session of its own as at a terminal."""
    for name in ("Makefile", "requirements.lock", "setup.cfg", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, folder)
    (folder / ".venv").mkdir()
    programs = {"python": PYTHON, "stoker": FETCHES + fetches}
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o700)
    command = ["make", "install", "PYTHON=true", "BIN=."]
    return subprocess.Popen(command, cwd=folder, start_new_session=True, stderr=subprocess.DEVNULL)


def runs(folder: Path) -> bool:
    """Whether it is being compiled still."""
    pid = (folder / "pid").read_text().strip()
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("interrupted", [False, True])
def test_nothing_is_compiled_on_after_it(tmp_path: Path, interrupted: bool) -> None:
    """Neither when Spark cannot be fetched, nor after Ctrl-C, which a shell's background does not hear."""
    process = install(tmp_path, "exec sleep 600\n" if interrupted else "exit 1\n")
    try:
        until((tmp_path / "pid").exists)
        if interrupted:
            os.killpg(process.pid, signal.SIGINT)
        assert process.wait(600)
        until(lambda: not runs(tmp_path), "it is being compiled still")
        assert not (tmp_path / ".venv/ready").exists()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
