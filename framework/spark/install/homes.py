"""Spark versions that are served, and the home of each: on this host for drivers here, and on the agents.

`command_lines` builds the processes that use a home. Nothing is fetched here.
"""

import math
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from conf.schema import Spark, SparkVersion
from framework.spark.install.java import find_java

#: Names of fetched Spark installations.
_FETCHED = r"\d+\.\d+"
#: The jar that tells the version of a Spark: each has it.
_CORE = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\d+)[^/]*\.jar")
#: The version that ran the jobs of daemons that knew only one.
FORMERLY = "3.5"
#: Seconds for which a found installation is assumed to be there still.
_LOOK_AGAIN = 1.0


@dataclass(frozen=True, slots=True)
class SparkHome:
    """Paths of Spark, Java and Python on the machine that runs a process.

    A relative `home` or `java_home` is meant from the folder in which the process runs (for Mesos, the
    sandbox), so that `uris` can bring them there.
    """

    version: str
    """4.3, or in full, 4.3.0."""
    home: str
    java_home: str | None
    """None: `java` is on that machine's PATH."""
    python: str
    """The interpreter's path or name."""
    uris: tuple[str, ...] = ()
    """Archives to fetch and unpack into the sandbox first."""
    image: str | None = None
    """A container image that has all of them."""

    @property
    def line(self) -> tuple[int, int]:
        """Major and minor number of its version: drivers and executors have to have the same."""
        return line_of(self.version)


def line_of(version: str) -> tuple[int, int]:
    """Major and minor number of a version; ValueError when it is none."""
    found = re.match(r"(\d+)\.(\d+)(?!\d)", version)
    if found is None:
        raise ValueError(f"{version}: not a version of Spark")
    return int(found[1]), int(found[2])


def version_in(home: Path) -> str | None:
    """The version of the Spark in a folder, 4.3.0; None when its jars do not say."""
    try:
        names = [path.name for path in (home / "jars").iterdir()]
    except OSError:
        return None
    return next((found[1] for name in names if (found := _CORE.fullmatch(name))), None)


def fetched_folder() -> Path:
    """Folder for fetched Spark versions, unless a config names another folder."""
    return Path(sys.prefix, "share/stoker/spark")


def python_path(home: Path) -> list[str]:
    """Entries of `sys.path` for a Python that imports pyspark by itself."""
    return [str(home / "python"), *map(str, (home / "python/lib").glob("py4j-*-src.zip"))]


def connect_path(home: Path) -> list[str]:
    """Entries of `sys.path` for a client of Spark Connect; empty where it was not fetched."""
    client = home.parent / "connect"
    return [*python_path(home), str(client)] if client.is_dir() else []


class SparkHomes:
    """Spark versions that a config serves, by name. Versions fetched meanwhile are served from then on."""

    def __init__(self, config: Spark, environ: Mapping[str, str]) -> None:
        self._config = config
        self._environ = environ
        #: Where those are that were fetched.
        self.folder = Path(config.folder).expanduser() if config.folder else fetched_folder()
        #: Until when found installations are assumed to be there, by the monotonic clock.
        self._there_until: dict[str, float] = {}

    @property
    def default(self) -> str:
        """The name of the one that runs jobs which say none."""
        return self._config.default

    def fetched(self) -> dict[str, Path]:
        """The homes of those that were fetched, by their names."""
        try:
            with os.scandir(self.folder) as entries:
                names = sorted(entry.name for entry in entries if re.fullmatch(_FETCHED, entry.name))
        except OSError:  # nothing was fetched
            return {}
        homes = {name: self.folder / name / "spark" for name in names}
        return {name: home for name, home in homes.items() if home.exists()}

    def names(self) -> tuple[str, ...]:
        """All that are served, the default one first."""
        found = {*self._config.versions, *self.fetched()}
        return tuple(sorted(found, key=lambda name: (name != self.default, name)))

    def served(self) -> str:
        """Them in words."""
        names = [f"{name} (the default)" if name == self.default else name for name in self.names()]
        return ", ".join(names) or "none"

    def named(self, name: str | None) -> str:
        """The name, or the default one's; ValueError lists the served names when it is not served.

        An empty name belongs to a job of a daemon that knew but one Spark.
        """
        if name == "":
            name = FORMERLY if self._serves(FORMERLY) else None
        name = name or self.default
        if not self._serves(name):
            raise ValueError(
                f"spark: {name} is not available here; available are {self.served()}. An operator can fetch "
                "another one (`stoker spark add`), or name its folder in the config (spark.versions)"
            )
        return name

    def _serves(self, name: str) -> bool:
        """Whether it is among `names`, without a look at the others: asked of every job, and mostly again."""
        now = time.monotonic()
        if name in self._config.versions or now < self._there_until.get(name, -math.inf):
            return True
        there = re.fullmatch(_FETCHED, name) is not None and (self.folder / name / "spark").exists()
        if there:
            self._there_until[name] = now + _LOOK_AGAIN
        return there

    def for_client(self, version: str) -> str:
        """The name of a Spark that suits a client of this full version (4.3.0).

        ValueError lists the served ones when none does.
        """
        names = [name for name in self.names() if line_of(self._there(name).version) == line_of(version)]
        if not names:
            raise ValueError(f"Spark {version} is not available here; available are {self.served()}")
        return names[0]

    def there(self, name: str | None) -> SparkHome:
        """The Spark of this name as it is on the agents.

        ValueError when it is not served, or is not the version that its name says.
        """
        return self._there(self.named(name))

    def here(self, name: str | None) -> SparkHome:
        """The Spark of this name as it is on this host, for a driver; ValueError also when it is not here."""
        return self._here(self.named(name))

    def _here(self, name: str) -> SparkHome:
        given = self._config.versions.get(name, SparkVersion())
        home = Path(given.home) if given.home else None
        if home is None or not home.is_absolute() or not home.is_dir():
            home = self._fetched_like(given.version or name)
        if home is None:
            raise ValueError(
                f"spark: {name} is not on the daemon's host, where the driver would run: `stoker spark add` "
                "fetches some, or `driver: {on: cluster}` runs the driver where the executors run"
            )
        version = version_in(home) or given.version or name
        if line_of(version) != line_of(given.version or name):
            raise ValueError(f"spark.versions.{name}: {home} has Spark {version}")
        python = shutil.which(given.python) if given.python else None
        return SparkHome(version, str(home), self._java(name, home, version, given), python or sys.executable)

    def _java(self, name: str, home: Path, version: str, given: SparkVersion) -> str:
        """Java home: the configured one, if it exists; this Spark's fetched one; else any suitable one."""
        if given.java_home and Path(given.java_home).is_dir():
            return given.java_home
        homes = self.fetched()
        if home in homes.values():
            return str(home.parent / "java")
        try:
            return str(
                find_java(self._environ, line_of(version), [one.parent / "java" for one in homes.values()])
            )
        except FileNotFoundError as error:
            raise ValueError(f"spark: {name}: {error}") from None

    def _there(self, name: str) -> SparkHome:
        given = self._config.versions.get(name, SparkVersion())
        version = given.version or name
        if given.home is None:
            here = self._here(name)
            java, python = given.java_home or here.java_home, given.python or here.python
            return SparkHome(here.version, here.home, java, python, given.uris)
        return SparkHome(
            version, given.home, given.java_home, given.python or "python3", given.uris, given.image
        )

    def _fetched_like(self, version: str) -> Path | None:
        """A fetched Spark of the same line."""
        found = self.fetched()
        return next((home for name, home in found.items() if line_of(name) == line_of(version)), None)


def local_spark_home(environ: Mapping[str, str], name: str | None = None) -> SparkHome:
    """The Spark of this name on this host, with no config; FileNotFoundError when it is not here."""
    try:
        return SparkHomes(Spark(), environ).here(name)
    except ValueError as error:
        raise FileNotFoundError(str(error)) from None
