"""A small round of sessions in bad times; `make soak` runs many."""

import subprocess
import sys

import pytest

from tests.chaos.scene import REPOSITORY


@pytest.mark.slow
def test_sessions_in_bad_times_lose_nothing() -> None:
    """Two drivers that grow and shrink, and two kills among them and all that they need."""
    command = [
        sys.executable,
        "-m",
        "tests.doors.soak",
        "--rounds",
        "1",
        "--sessions",
        "2",
        "--executors",
        "2",
    ]
    done = subprocess.run(
        [*command, "--faults", "2", "--seed", "5"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "losses: zero" in done.stdout
    assert "0 x kill -9" not in done.stdout
