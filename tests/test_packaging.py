"""Builds and locks: they name all imports, contain all files, and serve without training packages."""

import ast
import configparser
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.install import pip_indexes
from tests.chaos.scene import MINIATURE, SPARK
from tests.daemon.ports import free_port
from tests.waiting import until

REPOSITORY = Path(__file__).parents[1]
#: The client stands in a folder of its own, as it is a distribution, too.
CLIENT = "stoker"
PACKAGES = ("conf", "profiles", "environment", "agents", "framework", "audit", "daemon")
#: What is only reached by a name that is no import: SQLAlchemy's driver.
REACHED = {"psycopg"}
#: What is imported by applications alone, which Spark runs.
BY_SPARK = {"pyspark"}
#: What is a part of another package that is required.
PARTS = {"pydantic-core": "pydantic"}
#: What is needed by a provider of VMs, and to read logs in S3, comes with modules of their own.
CLOUD = re.compile(r"framework/providers/ec2|audit/s3_objects")
#: The application that tests compare with another database.
CHECKED = re.compile(r"profiles/apps/tpch")
#: What trains comes with a module of one of these names, and with nothing else of ours.
TRAINING = re.compile(r"agents/drl/(training/|networks_tf)|(?:environment|training)/(?:.*/)?(gym|tf)\.py")

#: A package of a lock file: name, version, marker, hashes.
LOCKED = r"^([a-z0-9-]+)==(\S+)(?: ; (.+))? \\\n((?: +--hash.*\n)+)"


def options(section: str, key: str) -> list[str]:
    """One list of setup.cfg."""
    parser = configparser.ConfigParser()
    parser.read(REPOSITORY / "setup.cfg")
    return [line for line in parser[section][key].splitlines() if line and not line.startswith("#")]


def names(lines: list[str]) -> set[str]:
    """The packages of requirements."""
    return {canonicalize_name(Requirement(line).name) for line in lines}


def unresolved(name: str) -> set[str]:
    """Packages that a requirements file names beside setup.cfg."""
    lines = (REPOSITORY / name).read_text().splitlines()
    return names([line for line in lines if line and not line.startswith(("#", "-"))])


def locked(name: str) -> dict[str, str]:
    """Package: version and hashes, of a lock file, for this Python."""
    text = (REPOSITORY / name).read_text()
    return {
        found[1]: found[2] + " ".join(sorted(re.findall(r"sha256:\w+", found[4])))
        for found in re.finditer(LOCKED, text, re.MULTILINE)
        if found[3] is None or Marker(found[3]).evaluate()
    }


SERVING = names(options("options", "install_requires"))
TO_TRAIN = names(options("options.extras_require", "training"))
TO_TEST = names(options("options.extras_require", "test"))
TO_OPEN_VMS = names(options("options.extras_require", "ec2"))


def imported() -> Iterator[tuple[str, str]]:
    """Each package that a file of ours imports, anywhere in it."""
    owners = metadata.packages_distributions()
    for top in PACKAGES:
        for path in (REPOSITORY / top).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.level == 0:
                    modules = [node.module or ""]
                for module in {module.partition(".")[0] for module in modules}:
                    if module not in sys.stdlib_module_names and module not in {*PACKAGES, CLIENT, *BY_SPARK}:
                        owner = canonicalize_name(owners.get(module, [module])[0])
                        yield str(path.relative_to(REPOSITORY)), PARTS.get(owner, owner)


def test_what_is_imported_is_required() -> None:
    """Serving code needs no extra, and every requirement is imported."""
    found = set(imported())
    elsewhere = (TRAINING, CLOUD, CHECKED)
    serving = {name for path, name in found if not any(part.match(path) for part in elsewhere)}
    training = {name for path, name in found if TRAINING.match(path)}
    assert serving | REACHED == SERVING | unresolved("requirements-serve.in") - {"setuptools", "uv", "wheel"}
    # botocore is the larger half of boto3
    assert {name for path, name in found if CLOUD.match(path)} - serving == TO_OPEN_VMS | {"botocore"}
    assert {name for path, name in found if CHECKED.match(path)} - serving <= TO_TEST
    assert training - serving == (TO_TRAIN | unresolved("requirements.in")) - SERVING


def test_locks_agree() -> None:
    """The smaller one is part of the whole one, to the hash; each holds exactly the requirements."""
    small, whole = locked("requirements-serve.lock"), locked("requirements.lock")
    assert len(small) > 40
    assert small.items() <= whole.items()
    assert SERVING | TO_OPEN_VMS | unresolved("requirements-serve.in") <= small.keys()
    assert SERVING | TO_TRAIN | TO_TEST | unresolved("requirements.in") <= whole.keys()
    assert not small.keys() & ((TO_TRAIN | TO_TEST | unresolved("requirements.in")) - SERVING)


def test_nothing_is_listed_twice() -> None:
    """Neither in setup.cfg and a file of requirements, nor in two of these."""
    assert "-r requirements-serve.in" in (REPOSITORY / "requirements.in").read_text().splitlines()
    serve, more = unresolved("requirements-serve.in"), unresolved("requirements.in")
    assert not serve & more
    assert not (serve | more) & (SERVING | TO_TRAIN | TO_TEST)


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    """The files of the tree that belong to it."""
    command = ["git", "-C", str(REPOSITORY), "ls-files", "-co", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this is no checkout: {done.stderr}")
    return [name for name in done.stdout.splitlines() if (REPOSITORY / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tracked: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built of the tracked files, without leftovers of earlier builds."""
    folder = tmp_path_factory.mktemp("build")
    for name in tracked:
        if not name.startswith(("tests/", "docs/")):
            (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "tree" / name).write_bytes((REPOSITORY / name).read_bytes())
    pip("wheel", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder), str(folder / "tree"))
    (built,) = folder.glob("*.whl")
    return built


def pip(*arguments: str, python: Path | None = None) -> None:
    """Run pip, which is to reach for nothing."""
    there = [] if python is None else ["--python", str(python)]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *there, arguments[0], "--no-deps"]
    done = subprocess.run([*command, *arguments[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_wheel_has_every_file(wheel: Path, tracked: list[str]) -> None:
    """Code, models, YAML and all other tracked files of the packages; and it states its requirements."""
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
        (about,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = archive.read(about).decode()
    inside = {name.removeprefix("client/") for name in tracked}
    assert found == {name for name in inside if name.partition("/")[0] in {*PACKAGES, CLIENT}}
    required = [Requirement(line) for line in re.findall(r"^Requires-Dist: (.+)$", text, re.MULTILINE)]
    assert {canonicalize_name(item.name) for item in required if item.marker is None} == SERVING


@pytest.fixture(scope="module")
def serving(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment's programs: Stoker as built, and of packages those of the smaller lock alone."""
    folder = tmp_path_factory.mktemp("serving")
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/*/site-packages")
    for name in locked("requirements-serve.lock"):
        files = metadata.distribution(name).files or ()
        for part in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (packages / part).symlink_to(str(metadata.distribution(name).locate_file(part)))
    pip("install", "--no-index", str(wheel), python=folder / "bin/python")
    return folder / "bin"


#: Compiling would take a minute, and show no more here.
UNCOMPILED = {"NUMBA_DISABLE_JIT": "1", "PATH": os.defpath}


def stoker(programs: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One command, far from the checkout."""
    return subprocess.run(
        [programs / "stoker", *arguments],
        cwd=folder, env={**UNCOMPILED, "HOME": str(folder)}, capture_output=True, text=True, timeout=1200,
    )  # fmt: skip


def installed(python: str) -> Path | None:
    """A Python of that name: from the path, or from pyenv, which has programs on the path that fail."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    on_path = shutil.which(python)
    for path in [*([Path(on_path)] if on_path else []), *pyenv.glob(f"versions/*/bin/{python}")]:
        if subprocess.run([path, "-V"], capture_output=True, check=False).returncode == 0:
            return path
    return None


@pytest.fixture(scope="module", params=["3.12", "3.13"])
def later(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a virtual environment of a later Python, with the smaller lock installed."""
    found = installed(f"python{request.param}")
    if found is None:
        pytest.skip(f"there is no Python {request.param}")
    folder = tmp_path_factory.mktemp("later")
    subprocess.run([found, "-m", "venv", "--without-pip", folder], check=True)
    program, python = str(Path(sys.executable).with_name("uv")), str(folder / "bin/python")
    uv = [program, "pip", "install", "--no-deps", "--python", python]
    indexes = {**pip_indexes(), **os.environ}
    for what in (["--require-hashes", "-r", str(REPOSITORY / "requirements-serve.lock")], [str(wheel)]):
        done = subprocess.run([*uv, *what], env=indexes, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder / "bin"


def test_it_decides_without_what_trains(serving: Path, tmp_path: Path) -> None:
    """Baselines, trained networks and the search, on files that come with it, plotted."""
    decides(serving, tmp_path)


@pytest.mark.slow
def test_it_decides_on_later_pythons(later: Path, tmp_path: Path) -> None:
    """From the same lock file; and training says which Python it needs."""
    decides(later, tmp_path)
    done = stoker(later, tmp_path, "train", "--config", "conf/train/reinforce-best.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "training needs Python 3.11" in done.stderr


def decides(serving: Path, tmp_path: Path) -> None:
    """Simulate with a policy of each kind, and plot."""
    names = "rr,ilp,reinforce,dqn,lookahead,ogasched"
    done = stoker(
        serving, tmp_path, "simulate", "--jobs", "3", "--seeds", "1", "--policy", names, "--plot", "p.png"
    )
    assert done.returncode == 0, done.stderr
    shown = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
    assert [name for name in shown if name in names.split(",")] == names.split(",")
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_training_says_what_it_lacks(serving: Path, tmp_path: Path) -> None:
    """In one line, with nothing left behind."""
    done = stoker(serving, tmp_path, "train", "--config", "conf/train/reinforce-best.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "stoker: tensorflow is not installed, which training needs: in Stoker's checkout, "
        "`pip install --no-deps --requirement requirements.lock` installs it\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_it_serves_without_what_trains(serving: Path, tmp_path: Path) -> None:
    """A daemon with its embedded Mesos, a trained network, and a job to its end, by commands alone."""
    url, log = f"http://127.0.0.1:{free_port()}", tmp_path / "log"
    cluster = {"vms": [{"type": "small", "cpus": 4, "memory": "8g", "price_per_hour": 0.1, "count": 2}]}
    config = {
        "data_dir": str(tmp_path / "data"),
        "listen": url.removeprefix("http://"),
        "decision_timeout": 60.0,
        "policy": {"name": "reinforce"},
        "mesos": {"cluster": "cluster.yaml", "port": 0},
        "spark": MINIATURE,
    }
    job = {
        "app": str(SPARK / "home/driver.py"), "args": ["0.1", "0"], "executors": 1, "memory": 2048,
        "env": {"CHAOS_LOG": str(tmp_path / "started"), "CHAOS_KEY": "key"},
    }  # fmt: skip
    (tmp_path / "started").touch()
    for name, content in (("cluster", cluster), ("config", config), ("job", job)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    environment = {
        **UNCOMPILED,
        "HOME": str(tmp_path),
    }
    with log.open("w") as output:
        command = [str(serving / "stoker"), "up", "--config", "config.yaml"]
        daemon = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=output, stderr=output)
    try:
        until(lambda: "leading" in log.read_text() or daemon.poll() is not None, log.read_text)
        done = stoker(serving, tmp_path, "submit", "--url", url, "--wait", "job.yaml")
        assert done.returncode == 0, (done.stderr, log.read_text())
        explained = stoker(serving, tmp_path, "explain", "--url", url, "job-1", "-o", "json")
        assert '"policy": "reinforce"' in explained.stdout
    finally:
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(600) == 0
