"""How compiled code is kept: who imports numba, and when the cache no longer holds."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

TRY = """
import sys
from environment.compiled import njit
from environment.kernel.durations import is_good
@njit()
def good() -> bool:
    return is_good(1, 2, 1)
print(good(), sum(good.stats.cache_hits.values()))
"""


def test_the_daemon_does_without_numba() -> None:
    """Model, contract, check and loaders of clusters and workloads do not import it."""
    modules = (
        "environment.cluster, environment.rounds, environment.clusters, profiles.generators, agents.registry"
    )
    script = f"import sys, {modules}; print('numba' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "False"


def test_a_change_in_the_kernel_reaches_those_who_call_it(tmp_path: Path) -> None:
    """A function of another file is found in the cache, until something that it calls has changed."""
    for part in ("environment/__init__.py", "environment/types.py", "environment/compiled.py"):
        (tmp_path / part).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / part, tmp_path / part)
    shutil.copytree(
        ROOT / "environment/kernel",
        tmp_path / "environment/kernel",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    caller, durations = tmp_path / "caller.py", tmp_path / "environment/kernel/durations.py"
    caller.write_text(TRY)

    def call() -> str:
        command = [sys.executable, str(caller)]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, check=True
        ).stdout.strip()

    assert (call(), call()) == ("False 0", "False 1")
    durations.write_text(durations.read_text().replace("vms == executors", "vms != executors"))
    assert call() == "True 0"
