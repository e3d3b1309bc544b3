"""Functions compiled before a daemon needs them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agents.registry import PolicyError, is_ours
from conf.schema import Config
from daemon.what_if.precompile import main

REPOSITORY = Path(__file__).parents[3]
#: Of each compiled function, for which arguments; first and after playing what a daemon has.
PLAYED = """
from dataclasses import replace

from agents.registry import create
from daemon.what_if.precompile import main
from environment.kernel.compiled import _SOURCES
from environment.simulation.forecast.play_forward import play_ahead
from environment.simulation.options import SimulationOptions
from environment.types import PlacementRequest
from environment.view import RunningJob
from tests.builders import make_job, make_view, make_vms

main(["ff"])
had = {(one, each) for one in _SOURCES for each in one.signatures}
runs = RunningJob(make_job("job-1", 2, expected_duration=30.0), ("vm-0", "vm-0"), 0.0, 30.0)
view = make_view(make_vms(3))
view = replace(view, running=(replace(runs, vm_ids=(view.vms[0].id,) * 2),))
waits = [PlacementRequest(make_job(f"job-{n}", 2, expected_duration=60.0), 2) for n in (2, 3, 4)]
played = play_ahead(create("ff", {}), view, waits, seed=1, options=SimulationOptions(jvms=8))
assert had and len(played.jobs) == 3
print([one.py_func.__name__ for one in _SOURCES for each in one.signatures if (one, each) not in had])
"""


def test_it_is_compiled_for_who_decides_first() -> None:
    """Of `make install`: the shipped config's policy is among those that it names."""
    names = re.findall(r"^COMPILED := (.*)$", (REPOSITORY / "Makefile").read_text(), re.M)[0].split()
    assert Config().policy.name in names
    assert all(is_ours(name) for name in names)


def test_it_is_played_with_once(capsys: pytest.CaptureFixture[str]) -> None:
    """And a name that is none is no success."""
    main(["ff"])
    assert "Compiling" in capsys.readouterr().out
    with pytest.raises(PolicyError, match="nosuch"):
        main(["nosuch"])


def test_nothing_is_left_to_be_compiled() -> None:
    """Where jobs run and others wait, on VMs that are there."""
    done = subprocess.run([sys.executable, "-c", PLAYED], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
