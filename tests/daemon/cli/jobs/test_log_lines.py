"""Logs for readers: no job steers a terminal, and an application can be read without Spark's own lines."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from stoker import log_lines
from stoker.errors import JobFailedError

from tests.daemon.cli.conftest import Daemon
from tests.test_packaging import REPOSITORY
from tests.waiting import PATIENCE

Capture = pytest.CaptureFixture[str]

#: What could steer a terminal, or hide: C0 and C1 but tabs and line ends, titles (OSC 2), links (OSC 8), the
#: clipboard (OSC 52), and what turns the direction of writing.
CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"]
BIDI = ["\u061c", "\u200e", "\u200f", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))]
SEQUENCES = ["\x1b]2;title\x07", "\x1b]8;;http://x\x1b\\", "\x1b]52;c;cm0gLXJm\x07", "\x1b[2J", "\x9b2J"]
EVIL = "".join(["begin ", *CONTROLS, *BIDI, *SEQUENCES, " end\n"])

LOG = """Setting default log level to "WARN".
26/11/25 21:00:00 INFO SparkContext: Running Spark version 3.5.9
26/11/25 21:00:00 WARN NativeCodeLoader: Unable to load native-hadoop library
Traceback (most recent call last):
  File "app.py", line 3, in <module>
26/11/25 21:00:01 ERROR Executor: Exception in task 0.0
\tat java.base/java.lang.Thread.run(Thread.java:840)
KeyError: 'amount'
[Stage 0:>                                                          (0 + 2) / 4]\r
21/11 INFO of the application's own
"""


def on_a_terminal(*command: str) -> bytes:
    """Output that a command writes to a terminal."""
    terminal, far = os.openpty()
    with subprocess.Popen([sys.executable, "-m", *command], stdout=far, stdin=far) as process:
        os.close(far)
        found = bytearray()
        try:
            while part := os.read(terminal, 65536):
                found.extend(part)
        except OSError:  # nobody writes any more
            pass
        finally:
            os.close(terminal)
        assert process.wait(PATIENCE) == 0
    return bytes(found)


@pytest.mark.parametrize("program", ["daemon.cli", "stoker"])
def test_no_job_steers_the_terminal_of_a_reader(
    daemon: Daemon, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log output is escaped on a terminal, and unchanged with --raw and in a pipe."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "client"))
    (tmp_path / "count.py").write_text("")
    assert daemon.run("submit", str(tmp_path / "count.py")) == 0
    daemon.cast.place("job-1")
    daemon.cast.logs = {"driver stdout": EVIL}
    asked = [program, "logs", "job-1", "--url", daemon.url]
    shown = on_a_terminal(*asked).decode().replace("\r\n", "\n")
    assert shown.startswith("begin \\x00\\x01")
    assert shown.endswith(" end\n")
    assert [each for each in (*CONTROLS, *BIDI) if each in shown] == []
    assert "\x1b]52;c;cm0gLXJm\x07" in on_a_terminal(*asked, "--raw").decode()
    piped = subprocess.run([sys.executable, "-m", *asked], capture_output=True, check=True, timeout=PATIENCE)
    assert piped.stdout.decode() == EVIL


def test_tables_and_messages_are_escaped_as_well(daemon: Daemon, tmp_path: Path, capsys: Capture) -> None:
    """No control sequence of a reason or an error reaches the terminal, in any output."""
    (tmp_path / "count.py").write_text("")
    assert daemon.run("submit", str(tmp_path / "count.py"), "--", "\x1b]52;c;x\x07", "\u202e") == 0
    daemon.cast.place("job-1")
    daemon.cast.put("job-1", "failed", EVIL, finished_at=time.time())
    capsys.readouterr()
    commands = (
        ["job", "job-1"], ["describe", "job-1"], ["explain", "job-1"], ["jobs"], ["events"],
        ["wait", "job-1"], ["job", "job-1", "-o", "yaml"], ["job", "job-1", "-o", "json"],
        ["logs", "job-1", "--follow"],
    )  # fmt: skip
    for command in commands:
        daemon.run(*command)
        printed = capsys.readouterr()
        for text in (printed.out, printed.err):
            assert [each for each in (*CONTROLS, *BIDI) if each in text] == [], command
    job: Any = {"id": "job-1", "name": "x", "state": "failed", "reason": EVIL}
    assert [each for each in (*CONTROLS, *BIDI) if each in str(JobFailedError(job))] == []


@pytest.mark.parametrize(
    ("level", "kept"),
    [
        ("off", [3, 4, 6, 7, 9]),
        ("error", [3, 4, 5, 6, 7, 9]),
        ("warn", [2, 3, 4, 5, 6, 7, 9]),
        ("info", [*range(1, 8), 9]),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_sparks_own_lines_are_left_out_by_level(level: Any, kept: list[int], size: int) -> None:
    """Spark's lines below the level are dropped, however the log is split.

    Lines of the application stay, also those that look like a level.
    """
    shown = log_lines.LogText(level)
    parts = [LOG[at : at + size] for at in range(0, len(LOG), size)]
    found = "".join([*map(shown.add, parts), shown.end()])
    lines = LOG.split("\n")
    assert found.split("\n")[:-1] == [lines[at] for at in kept]


def test_the_end_of_a_line_of_windows_is_none_of_a_terminal_s_business() -> None:
    """It is one line end, also where a part ends between its characters; another return is escaped."""
    shown = log_lines.LogText(escape=True)
    assert "".join([shown.add("a\r"), shown.add("\nb\rc"), shown.add("\r"), shown.end()]) == "a\nb\\rc\\r"


def test_levels_go_with_text(daemon: Daemon, capsys: Capture) -> None:
    """JSON has all of it."""
    assert daemon.run("logs", "job-1", "-o", "json", "--level", "off") == 2
    assert "go with text" in capsys.readouterr().err
