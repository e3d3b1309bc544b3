"""Caching of compiled code: modules that import numba, and when the cache expires."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from environment.kernel import compiled

ROOT = Path(__file__).parents[3]

#: These import all modules with compiled functions.
COMPILED = (
    "agents.drl.play.playing",
    "agents.greedy.playing",
    "agents.lookahead.rollout",
    "agents.oga.kernel",
)

TRY = """
import sys
from environment.kernel.compiled import njit
from environment.kernel.durations import is_good
@njit(entry=True)
def good() -> bool:
    return is_good(1, 2, 1)
print(good(), sum(good.stats.cache_hits.values()))
"""

#: Waits for a word, so that all who run it compile at once.
TOGETHER = """
import sys
from environment.kernel.compiled import njit
from environment.kernel.durations import is_good
@njit(entry=True)
def good(number) -> bool:
    return is_good(1, 2, 1) or number > 1
print("ready", flush=True)
number = {"int": int, "float": float}[sys.stdin.readline().strip()](2)
print(good(number), sum(good.stats.cache_hits.values()))
"""

TWENTY = """
{imported}
from environment.kernel.compiled import njit
@njit()
def twenty() -> int:
    return {ten}() + 10
"""

PAIRS = """
from typing import NamedTuple
class Pair(NamedTuple):
    {}: int
    {}: int
class Pairs(NamedTuple):
    first: Pair
    @classmethod
    def of(cls, one: int, other: int) -> "Pairs":
        return cls(Pair(one=one, other=other))
"""

PAIR = """
from environment.kernel.compiled import njit
from other.pairs import Pairs
@njit(entry=True)
def one_of(pairs: Pairs) -> int:
    return pairs.first.one
print(one_of(Pairs.of(one=1, other=2)), sum(one_of.stats.cache_hits.values()))
"""

THIRTY = """
from environment.kernel.compiled import njit
from third.twenties import twenty
@njit(entry=True)
def thirty() -> int:
    return twenty() + 10
print(thirty(), sum(thirty.stats.cache_hits.values()))
"""


def test_the_daemon_does_without_numba() -> None:
    """All of its server, and the loaders of clusters and workloads do not import it: its players do."""
    ours = ("model.cluster_model", "decisions.decision_round", "clusters.cluster_files")
    others = ("profiles.workloads.generators", "agents.registry", "daemon.server")
    modules = ", ".join((*(f"environment.{name}" for name in ours), *others))
    script = f"import sys, {modules}; print('numba' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "False"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the compiled modules and the kernel."""
    (tmp_path / "environment").mkdir()
    for part in (ROOT / "environment").glob("*.py"):
        shutil.copy(part, tmp_path / "environment")
    shutil.copytree(
        ROOT / "environment/kernel",
        tmp_path / "environment/kernel",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    return tmp_path


def call(caller: Path, project: Path) -> str:
    """The script's output, run without Python's bytecode cache, which misses changes within a second."""
    command = [sys.executable, "-B", str(caller)]
    return subprocess.run(command, capture_output=True, text=True, cwd=project, check=True).stdout.strip()


def test_a_change_in_the_kernel_reaches_those_who_call_it(project: Path) -> None:
    """A function of another file is found in the cache, until something that it calls has changed."""
    caller, durations = project / "caller.py", project / "environment/kernel/durations.py"
    caller.write_text(TRY)
    assert (call(caller, project), call(caller, project)) == ("False 0", "False 1")
    durations.write_text(durations.read_text().replace("vms == executors", "vms != executors"))
    assert call(caller, project) == "True 0"


@pytest.mark.parametrize("imported", ["from other.tens import ten", "from other import tens"])
def test_a_change_in_another_folder_reaches_those_who_call_it(project: Path, imported: str) -> None:
    """Also by way of a third folder, and however the function is imported."""
    tens, twenties, caller = (project / name for name in ("other/tens.py", "third/twenties.py", "caller.py"))
    for path, text in (
        (tens, "from environment.kernel.compiled import njit\n@njit()\ndef ten() -> int:\n    return 10\n"),
        (twenties, TWENTY.format(imported=imported, ten="ten" if imported.endswith("ten") else "tens.ten")),
        (caller, THIRTY),
    ):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert (call(caller, project), call(caller, project)) == ("30 0", "30 1")
    tens.write_text(tens.read_text().replace("10", "11"))
    assert call(caller, project) == "31 0"


@pytest.mark.parametrize(
    ("imported", "name"),
    [("from other.values import TEN", "TEN"), ("from other import values", "values.TEN")],
)
def test_a_change_of_a_constant_reaches_those_who_use_it(project: Path, imported: str, name: str) -> None:
    """Also by way of a function in a third folder; the file that it stands in has no compiled function."""
    values, twenties, caller = (
        project / name for name in ("other/values.py", "third/twenties.py", "caller.py")
    )
    for path, text in (
        (values, "TEN = 10\n"),
        (twenties, TWENTY.format(imported=imported, ten=name)),
        (caller, THIRTY),
    ):
        path.parent.mkdir(exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text.replace(f"{name}()", name))
    assert (call(caller, project), call(caller, project)) == ("30 0", "30 1")
    values.write_text("TEN = 11\n")
    assert call(caller, project) == "31 0"


def test_a_change_of_the_order_of_fields_reaches_those_who_read_them(project: Path) -> None:
    """Numba takes tuples for the same that have as many fields of the same kinds."""
    pairs, caller = project / "other/pairs.py", project / "caller.py"
    pairs.parent.mkdir()
    (pairs.parent / "__init__.py").touch()
    pairs.write_text(PAIRS.format("one", "other"))
    caller.write_text(PAIR)
    assert (call(caller, project), call(caller, project)) == ("1 0", "1 1")
    pairs.write_text(PAIRS.format("other", "one"))
    assert call(caller, project) == "1 0"


def test_the_simulator_and_views_change_without_compiling_anew() -> None:
    """Compiled modules are in folders of their own, apart from uncompiled files of the environment."""
    for module in COMPILED:
        importlib.import_module(module)
    assert compiled._KERNEL.parent not in frozenset[Path]().union(
        *(sources.folders for sources in compiled._SOURCES.values())
    )


def test_constants_stand_before_the_functions_that_use_them() -> None:
    """All constants that a function freezes are defined before it."""
    for module in COMPILED:
        importlib.import_module(module)
    found = dict(compiled._SOURCES)
    assert len(found) > 150
    for function, sources in found.items():
        assert isinstance(function, Dispatcher)
        used = {*function.py_func.__code__.co_names}
        now = {
            (module, name, repr(value))
            for module, known in compiled._scopes(function.py_func)
            for name, value in known.items()
            if name in used and compiled._is_constant(value) and module.split(".")[0] in compiled._OURS
        }
        assert now <= sources.constants, function


def test_of_processes_that_need_it_at_once_one_compiles(project: Path) -> None:
    """The others load its compiled code; each of two kinds of arguments is compiled once."""
    (project / "caller.py").write_text(TOGETHER)
    command = [sys.executable, "caller.py"]
    pipe = subprocess.PIPE
    callers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=project) for _ in range(4)]
    for caller in callers:
        assert caller.stdout is not None
        assert caller.stdout.readline() == "ready\n"
    for caller, kind in zip(callers, ("int", "float", "int", "float"), strict=True):
        assert caller.stdin is not None
        caller.stdin.write(f"{kind}\n")
        caller.stdin.flush()
    said = [caller.communicate()[0].split() for caller in callers]
    assert [caller.returncode for caller in callers] == [0] * 4
    assert sorted(said) == [["True", "0"]] * 2 + [["True", "1"]] * 2


def test_whole_numbers_of_any_kind_are_compiled_for_once() -> None:
    """Constants and elements of 32-bit arrays run the code compiled for any integer."""

    @compiled.njit(entry=True)
    def double(number: int) -> int:
        return number * 2

    @compiled.njit(entry=True)
    def sums(numbers: NDArray[np.int32]) -> int:
        return double(0) + double(1) + double(numbers[0]) + double(len(numbers))

    most = np.iinfo(np.int32).max
    assert sums(np.array([most], np.int32)) == 2 + 2 * most + 2
    assert double(cast(int, np.int32(most))) == 2 * most
    assert len(cast(Dispatcher, double).signatures) == 1


def test_what_makes_an_array_is_not_compiled() -> None:
    """References to arrays are not counted, so that none would ever be freed."""

    @compiled.njit(entry=True)
    def least(count: int) -> float:
        return float(np.empty(count).min())

    with pytest.raises(NumbaError, match="returning of array"):
        least(3)
