"""A process that was asked to end ends with its exit code, beside threads that go on."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading, time
from daemon import cli
from framework.host.forced_exit import end_within

threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
asked = sys.argv[1] == "asked"
cli.main = lambda: (end_within(300.0), 3)[1] if asked else 3
import atexit
atexit.register(print, "the interpreter's end")
sys.exit(cli.run_command())
"""


@pytest.mark.parametrize("asked", [True, False])
def test_a_process_that_was_asked_to_end_does_not_wait_for_the_interpreter(*, asked: bool) -> None:
    """A thread that is in native code then would abort it; another command ends as any program."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "asked" if asked else "not"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (3, "")
    assert ("the interpreter's end" in done.stdout) is not asked
