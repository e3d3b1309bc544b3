"""A short bad day; `make chaos` runs long ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.__main__ import Progress
from tests.chaos.scene import REPOSITORY


@pytest.mark.slow
def test_a_bad_day_loses_nothing(tmp_path: Path) -> None:
    """Each fault about once: every job accepted ends as it must."""
    progress = str(tmp_path / "chaos.json")
    command = [sys.executable, "-m", "tests.chaos", "--faults", "22", "--seed", "7", "--progress", progress]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "losses: zero" in done.stdout


def test_days_that_were_run_are_not_run_again(tmp_path: Path) -> None:
    """An interrupted call goes on where it was; a new one begins anew."""
    path = tmp_path / "build" / "chaos.json"
    Progress(path, resume=True).add("seed 1, day 1", "all is well", lost=False)
    Progress(path, resume=True).add("seed 1, day 2", "something is gone", lost=True)
    resumed = Progress(path, resume=True)
    assert list(resumed.reports) == ["seed 1, day 1", "seed 1, day 2"]
    assert resumed.lost == ["seed 1, day 2"]
    assert Progress(path, resume=False).reports == {}
