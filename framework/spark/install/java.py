"""Finds a Java that a Spark runs on, on this machine. Installs nothing."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

_VERSION = re.compile(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", re.MULTILINE)
_HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)


def supported_java(line: tuple[int, int]) -> tuple[int, ...]:
    """On which Javas a Spark of this major and minor version runs."""
    return (17, 21) if line >= (4, 0) else (8, 11, 17)


def find_java(environ: Mapping[str, str], line: tuple[int, int], carried: Sequence[Path] = ()) -> Path:
    """The home (`JAVA_HOME`) of a Java on which a Spark of this major and minor version runs.

    Tried in this order: `JAVA_HOME` and `java` on `PATH`, both of `environ`, then the homes that are
    `carried` along with Spark versions.

    FileNotFoundError when there is none; the message lists the Java versions found instead.
    """
    supported = supported_java(line)
    seen = []
    for executable in _candidates(environ, carried):
        version, home = _ask(str(executable))
        if version in supported and home:
            return executable.parents[1] if executable.parents[1] in carried else Path(home)
        seen.append(f"{executable} ({f'Java {version}' if version else 'does not run'})")
    raise FileNotFoundError(
        f"Spark {line[0]}.{line[1]} needs Java {', '.join(map(str, supported[:-1]))} or {supported[-1]}: "
        "set JAVA_HOME or put java on PATH (`stoker spark add` installs one, too); found "
        f"{', '.join(seen) or 'no Java at all'}"
    )


def _candidates(environ: Mapping[str, str], carried: Sequence[Path]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield Path(on_path)
    for home in carried:
        yield home / "bin" / "java"


def java_version(executable: Path) -> int | None:
    """The major version that a `java` says it has; None when it does not run."""
    return _ask(str(executable))[0]


@lru_cache
def _ask(executable: str) -> tuple[int | None, str | None]:
    """The major version and the home that a `java` reports; None for a value it does not report."""
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
