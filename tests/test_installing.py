"""`make install`: its steps, its log, steps side by side, interruptions."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.install import TimeLeft
from tests.waiting import until

REPOSITORY = Path(__file__).parents[1]
#: Stands for the interpreter: it runs the installer itself, and notes everything else that it is asked.
PYTHON = f"""#!/bin/sh
case "$*" in deploy/install.py*) exec {sys.executable} "$@";; esac
echo "$*" >> calls
case "$*" in *requirements.lock*) if test -e broken; then echo "no such index"; exit 3; fi;; esac
case "$*" in *build-req*) if test -e "no uv" && grep -q ^uv== .venv/build-req*; then exit 3; fi;; esac
case "$*" in *daemon.what_if.precompile*) echo $$ > pid.new; mv pid.new pid; COMPILES; esac
"""
#: Stands for uv; fails as long as there is a file `broken`.
UV = """#!/bin/sh
echo "uv $*" >> calls
if test -e broken || test -e "uv is broken"; then echo "no such index"; exit 3; fi
"""
#: Stands for `stoker spark add`, once it is being compiled.
STOKER = "#!/bin/sh\nwhile ! test -e pid; do sleep 0.01; done\nFETCHES\n"
COMPILING = "exec sleep 600"
#: An installer with a fault, which asks for a real program, has it install nothing, and nowhere.
HARMLESS = {"PIP_NO_INDEX": "1", "PIP_REQUIRE_VIRTUALENV": "1", "UV_OFFLINE": "1"}
#: Without these of a `make test` around it, make prints no folders.
OF_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")


def prepare(folder: Path, fetches: str = "exit 0", compiles: str = "exit 0") -> None:
    """A checkout's folder with programs that stand for the real ones."""
    sources = (
        "Makefile",
        "requirements.lock",
        "requirements-serve.lock",
        "setup.cfg",
        "setup.py",
        "pyproject.toml",
        "deploy/install.py",
    )
    for name in sources:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, folder / name)
    programs = {
        "python": PYTHON.replace("COMPILES", compiles + ";"),
        "uv": UV,
        "stoker": STOKER.replace("FETCHES", fetches),
    }
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o700)


def install(folder: Path, *variables: str) -> subprocess.Popen[str]:
    """Begin it, in a session of its own as at a terminal."""
    environment = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    return subprocess.Popen(
        ["make", "install", "PYTHON=./python", "BIN=.", *variables],
        cwd=folder, env={**environment, **HARMLESS}, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


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
    """Neither when Spark cannot be fetched, nor after Ctrl-C."""
    prepare(tmp_path, "exec sleep 600" if interrupted else "exit 1", COMPILING)
    process = install(tmp_path)
    try:
        until((tmp_path / "pid").exists)
        if interrupted:
            os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=600)
        assert process.returncode
        until(lambda: not runs(tmp_path), "it is being compiled still")
        assert not (tmp_path / ".venv/ready").exists()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_it_shows_numbered_steps_with_size_and_time_left(tmp_path: Path) -> None:
    """Programs print into the log; pip installs uv by its hashes, and uv the packages by theirs."""
    prepare(tmp_path)
    shown, _ = install(tmp_path, "SPARK=4.3 3.5").communicate(timeout=600)
    steps = re.findall(r"^\[(\d)/4\] (.*): +about (\d+ s|\d+ min) left \.\.\. \d+ s$", shown, re.MULTILINE)
    assert [number for number, _, _ in steps] == ["1", "2", "3", "4"]
    assert all(re.search(r"\d+ MB\)", title) for _, title, _ in steps[1:])
    assert "Spark 4.3 and 3.5 with Java (980 MB)" in steps[-1][1]
    assert steps[0][2] == "2 min"
    assert len(shown.splitlines()) == 5  # the steps, and how long they took
    assert (tmp_path / ".venv/ready").exists()
    calls = (tmp_path / "calls").read_text()
    assert "-m pip install --disable-pip-version-check --no-deps --require-hashes -r .venv/build" in calls
    locks = re.findall(r"^uv .*--no-build-isolation --require-hashes -r (\S+)$", calls, re.MULTILINE)
    assert locks == ["requirements-serve.lock", "requirements.lock"]
    tools = (tmp_path / ".venv/build-requirements.txt").read_text()
    assert re.findall(r"^([a-z-]+)==\S+ \\$", tools, re.MULTILINE) == ["setuptools", "uv", "wheel"]
    assert tools.count("--hash=sha256:") > 4


def test_a_failure_names_the_log_and_shows_its_end(tmp_path: Path) -> None:
    """The next call installs all packages anew: uv may have left some of them half written."""
    prepare(tmp_path)
    (tmp_path / "broken").touch()
    process = install(tmp_path)
    shown, _ = process.communicate(timeout=600)
    assert process.returncode
    assert ".venv/install.log" in shown
    assert "    no such index\n" in shown
    assert "no such index" in (tmp_path / ".venv/install.log").read_text()
    assert not (tmp_path / ".venv/ready").exists()
    (tmp_path / "broken").unlink()
    (tmp_path / "calls").unlink()
    for again in (True, False):
        process = install(tmp_path)
        process.communicate(timeout=600)
        assert process.returncode == 0
        assert ("--reinstall" in (tmp_path / "calls").read_text()) is again
        (tmp_path / ".venv/ready").unlink()
        (tmp_path / "calls").unlink()


def test_spark_is_fetched_beside_packages_that_only_train_and_test(tmp_path: Path) -> None:
    """Each of both ends when the other has begun; when Spark fails, the installation does."""
    prepare(tmp_path, "touch fetching; while ! test -e installing; do sleep 0.01; done; exit 1")
    (tmp_path / "uv").write_text(
        '#!/bin/sh\ncase "$*" in *requirements.lock) touch installing\n'
        "while ! test -e fetching; do sleep 0.01; done; exec sleep 600; esac\n"
    )
    process = install(tmp_path)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode
    assert "a program ended with 1" in shown
    assert "-r requirements.lock" not in (tmp_path / "calls").read_text()  # by pip, as uv did not fail


def test_what_serves_needs_no_other_package(tmp_path: Path) -> None:
    """The other packages of requirements.lock are installed while those run: at the same versions."""
    serving, all_of_them = (
        {*re.findall(r"^[a-z0-9-]+==[^ ]+", (REPOSITORY / name).read_text(), re.MULTILINE)}
        for name in ("requirements-serve.lock", "requirements.lock")
    )
    assert serving < all_of_them


def test_time_left_follows_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as slow as expected so far: the rest is expected to take twice as long, and is never negative."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    left = TimeLeft([10.0, 20.0, 30.0])
    assert left.text() == "about 60 s left"
    assert left.text(4.0) == "about 56 s left"
    left.finish_step()
    clock[0] = 20.0
    assert left.text() == "about 2 min left"
    clock[0] = 70.0
    assert left.text(50.0) == "about 70 s left"  # the step takes longer than expected


@pytest.mark.parametrize("missing", ["no uv", "uv is broken"])
def test_pip_installs_where_uv_cannot(tmp_path: Path, missing: str) -> None:
    """On a platform without uv, or where it does not reach the index."""
    prepare(tmp_path)
    (tmp_path / missing).touch()
    process = install(tmp_path)
    process.communicate(timeout=600)
    assert process.returncode == 0
    calls = (tmp_path / "calls").read_text()
    assert ("uv pip install" in calls) is (missing == "uv is broken")
    assert re.search(r"-m pip install .*--require-hashes -r requirements.lock\n", calls)
    assert re.search(r"-m pip install .*--editable \.\n", calls)
    assert "uv==" not in (tmp_path / ".venv/build-requirements.txt").read_text() or missing != "no uv"


def test_uv_has_the_indexes_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of its variables and files; a variable of uv's own wins."""
    prepare(tmp_path)
    (tmp_path / "uv").write_text("#!/bin/sh\nenv >> uv-env\n")
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = file:///never\nextra-index-url =\n  file:///one\n  file:///two\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", "file:///main")
    monkeypatch.setenv("PIP_FIND_LINKS", "/a /b")
    monkeypatch.setenv("UV_FIND_LINKS", "/c")
    process = install(tmp_path)
    process.communicate(timeout=600)
    assert process.returncode == 0
    variables = dict(line.partition("=")[::2] for line in (tmp_path / "uv-env").read_text().splitlines())
    assert variables["UV_DEFAULT_INDEX"] == "file:///main"
    assert variables["UV_INDEX"].split() == ["file:///one", "file:///two"]
    assert variables["UV_FIND_LINKS"] == "/c"
