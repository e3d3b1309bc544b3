"""Tests leave nothing behind: no processes when they fail, and no settings of their whole process."""

import os
import subprocess
import sys
from pathlib import Path

from framework.host.process_tree import adopt_orphans, below

FAILING = """
import logging, os, signal, subprocess
from pathlib import Path
import pytest, structlog

def test_it():
    orphan = ["sh", "-c", "setsid sleep 1000 > /dev/null 2>&1 & echo $!"]
    Path("pid").write_text(subprocess.run(orphan, stdout=subprocess.PIPE, text=True).stdout)
    assert False

def found():
    os.umask(mask := os.umask(0))
    return mask, structlog.get_config()["processors"], logging.root.level, signal.getsignal(signal.SIGTERM)

before = found()

@pytest.mark.parametrize("time", [1, 2])
def test_what_is_set(time):
    assert found() == before
    os.umask(0o007)
    structlog.configure(processors=[])
    logging.basicConfig(level=1, force=True)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""


def test_what_a_failing_test_started_ends_with_the_session(tmp_path: Path) -> None:
    """Processes with a session of their own and an ended parent end too; other tests find all as it was."""
    (tmp_path / "test_failing.py").write_text(FAILING)
    adopt_orphans()
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    ended = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert "1 failed, 2 passed" in ended.stdout, ended.stdout
    assert int((tmp_path / "pid").read_text()) not in below(os.getpid())
