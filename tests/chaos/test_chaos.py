"""A short bad day; `make chaos` runs long ones."""

import subprocess
import sys

import pytest

from tests.chaos.scene import REPOSITORY


@pytest.mark.slow
def test_a_bad_day_loses_nothing() -> None:
    """Three dozen faults, daemons killed with -9 among them: every job accepted ends as it must."""
    command = [sys.executable, "-m", "tests.chaos", "--faults", "36", "--seed", "7"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "losses: zero" in done.stdout
