"""Reads Spark's own settings out of its jars: `python -m tests.framework.spark.settings_of_spark`.

Each setting that Spark declares registers itself when its class is initialised, and `SparkConf` has tables
of names that were given up. A Java Virtual Machine of that Spark is asked for both by py4j, which comes
with pyspark. The settings are stored beside `framework/spark/settings_table.py`, a file for each version,
which needs no Java to be read.
"""

import argparse
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from framework.spark.install.fetch import fetchable
from framework.spark.install.homes import fetched_folder, python_path, version_in
from framework.spark.settings_table import FOLDER

_ENTRY = b"internal/config/Config"
_CONF = "org.apache.spark.SparkConf$"
_KNOWN = "org.apache.spark.internal.config.ConfigEntry$"
#: Java keeps these to itself unless it is told otherwise.
_OPENED = ("java.lang", "java.lang.invoke", "java.nio", "java.util", "sun.nio.ch", "sun.security.action")
#: Texts that one kind of value or another takes; some settings want more, or less, than others of their kind.
_NUMBERS = ("1", "0", "2", "100", "5000", "65536", "-1")
_SIZES = (*(f"1{unit}" for unit in "gmkb"), "2g", "64m", "64k")
_TIMES = ("1h", "1m", "1s", "1d", "30s")
_BYTES = {1 << 30: "B", 1 << 20: "KiB", 1 << 10: "MiB", 1: "GiB"}
_HOURS = {3_600_000_000: "us", 3_600_000: "ms", 3600: "s", 60: "min"}


def settings_text(home: Path, java_home: Path) -> str:
    """The settings of the Spark in a folder as a file has them; its Java runs, in a process of its own."""
    path = ":".join(map(str, (*python_path(home), Path(__file__).parents[3])))
    command = (sys.executable, "-m", "tests.framework.spark.settings_of_spark", "--ask")
    done = subprocess.run(
        (*command, str(home), str(java_home)), env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    return done.stdout


def _ask(home: Path, java_home: Path) -> None:
    """Print the settings; in a process that has py4j."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    port = launch_gateway(
        jarpath=str(next((home / "jars").glob("py4j*.jar"))), classpath=f"{home}/jars/*",
        javaopts=[f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED],
        java_path=str(java_home / "bin/java"), die_on_exit=True,
        redirect_stdout=sys.stderr, redirect_stderr=sys.stderr,
    )  # fmt: skip
    spark = _Spark(JavaGateway(gateway_parameters=GatewayParameters(port=port)).jvm)
    for name in _declaring(home):
        spark.load(name)
    names = spark.alternatives()
    deprecated = spark.deprecated()
    known = spark.entries()
    print(f"# The settings of Spark {version_in(home)}, read out of its jars by `make settings`.")
    print("# name, kind of its values, older names (=how their value becomes its), since when deprecated")
    for name in sorted({*known, *names, *deprecated}):
        entry = known.get(name)
        kind = "text" if entry is None else spark.kind(entry)
        others = (
            [] if entry is None else [each for each in entry.alternatives().mkString(",").split(",") if each]
        )
        also = [(each, "") for each in others if each not in dict(names.get(name, ()))]
        written = " ".join(f"{old}={how}" if how else old for old, how in (*also, *names.get(name, ())))
        print("\t".join((name, kind, written, deprecated.get(name, ""))).rstrip("\t"))


def _declaring(home: Path) -> Iterator[str]:
    """The names of all singletons of Spark's in which settings may be declared."""
    for jar in sorted((home / "jars").glob("spark-*.jar")):
        with zipfile.ZipFile(jar) as opened:
            for name in opened.namelist():
                if name.endswith("$.class") and _ENTRY in opened.read(name):
                    yield name.removesuffix(".class").replace("/", ".")


class _Spark:
    """A Java Virtual Machine with Spark's classes."""

    def __init__(self, jvm: Any) -> None:
        self._class = jvm.java.lang.Class
        self._loader = jvm.java.lang.ClassLoader.getSystemClassLoader()

    def load(self, name: str) -> Any:
        """The class, initialised; None if it needs missing classes."""
        from py4j.protocol import Py4JJavaError

        try:
            return self._class.forName(name, True, self._loader)
        except Py4JJavaError:
            return None

    def _field(self, name: str, field: str) -> Any:
        of = self.load(name)
        (found,) = (each for each in of.getDeclaredFields() if each.getName().split("$")[-1] == field)
        found.setAccessible(True)
        return found.get(of.getField("MODULE$").get(None))

    def entries(self) -> dict[str, Any]:
        """The settings that are declared, by name."""
        known = self._field(_KNOWN, "knownConfigs")
        return {str(each.getKey()): each.getValue() for each in known.entrySet()}

    def deprecated(self) -> dict[str, str]:
        """Names that Spark warns of, and since when."""
        found = self._field(_CONF, "deprecatedConfigs").valuesIterator()
        return {each.key(): each.version() for each in _all(found)}

    def alternatives(self) -> dict[str, list[tuple[str, str]]]:
        """Older names of settings, with formats of their values: `{}s` for 30, which becomes 30s."""
        found = {}
        for pair in _all(self._field(_CONF, "configsWithAlternatives").iterator()):
            each = list(_all(pair._2().iterator()))
            found[pair._1()] = [(other.key(), _translation(other.translation())) for other in each]
        return found

    def kind(self, entry: Any) -> str:
        """Kind of a setting's values, by its conversion of some texts."""
        convert = entry.valueConverter()
        if (made := _made(convert, ("#x", "x"))) is not None:
            return "list" if not isinstance(made[1], str) else "text"
        if isinstance((_made(convert, ("true",)) or ("", ""))[1], bool):
            return "boolean"
        for text, made_of in _each(convert, _SIZES):
            one = {
                "1g": 1 << 30,
                "1m": 1 << 20,
                "1k": 1 << 10,
                "1b": 1,
                "2g": 1 << 31,
                "64m": 1 << 26,
                "64k": 1 << 16,
            }
            if unit := _BYTES.get((1 << 30) * made_of // one[text] if made_of else 0):
                return f"size in {unit}"
        for text, made_of in _each(convert, _TIMES):
            one = {"1h": 3600, "1m": 60, "1s": 1, "1d": 86400, "30s": 30}
            if unit := _HOURS.get(3600 * made_of // one[text] if made_of else 0):
                return f"time in {unit}"
        if _made(convert, _NUMBERS) is None and _made(convert, ("0.5", "0.1")) is None:
            return "choice"
        return "number" if _made(convert, ("0.5", "1.5", "0.1")) is not None else "whole number"


def _each(convert: Any, texts: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for text in texts:
        made = _made(convert, (text,))
        if made is not None and isinstance(made[1], int) and not isinstance(made[1], bool):
            yield text, made[1]


def _made(convert: Any, texts: tuple[str, ...]) -> tuple[str, Any] | None:
    """The first of the texts that is accepted, and its converted value."""
    from py4j.protocol import Py4JJavaError

    for text in texts:
        try:
            made = convert.apply(text)
        except Py4JJavaError:
            continue
        except ValueError:  # a decimal, which py4j cannot read
            return text, float(text)
        try:
            return text, made.get()  # of an optional one
        except Exception:  # which it is not
            return text, made
    return None


def _translation(function: Any) -> str:
    if function is None:
        return ""
    made = str(function.apply("60"))
    if made == "60000k":
        return "{*1000}k"
    return made.replace("60", "{}")


def _all(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def main() -> None:
    """Store the settings of all Sparks that can be fetched, and were."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ask", nargs=2, metavar=("HOME", "JAVA_HOME"), type=Path)
    asked = parser.parse_args().ask
    if asked:
        _ask(*asked)
        return
    for name in fetchable():
        place = fetched_folder() / name
        (FOLDER / f"{name}.tsv").write_text(settings_text(place / "spark", place / "java"), encoding="utf-8")


if __name__ == "__main__":
    main()
