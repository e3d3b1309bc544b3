"""Which Java is taken. The Javas are small scripts that answer as java does."""

import os
from pathlib import Path

import pytest

from framework.spark import find_java, local_spark_home


def make_java(home: Path, version: str) -> Path:
    """Write a `java` that tells this version and home, and return the home."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        f'echo "    java.home = {home}" >&2\n'
        f'echo "    java.specification.version = {version}" >&2\n'
    )
    java.chmod(0o755)
    return home


@pytest.mark.parametrize("version", ["1.8", "11", "17"])
def test_java_home_comes_first(tmp_path: Path, version: str) -> None:
    """JAVA_HOME is used when Spark runs on its Java, for any Java on PATH."""
    home = make_java(tmp_path / "home", version)
    other = make_java(tmp_path / "other", "17")
    assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}, (3, 5)) == home


def test_java_on_path_is_found_behind_a_link(tmp_path: Path) -> None:
    """A link to java on PATH leads to the home that java itself reports."""
    home = make_java(tmp_path / "home", "11")
    (tmp_path / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path)}, (3, 5)) == home


@pytest.mark.parametrize(("line", "versions"), [((3, 5), ("17",)), ((4, 0), ("17", "21")), ((4, 3), ("21",))])
def test_a_spark_gets_a_java_on_which_it_runs(
    tmp_path: Path, line: tuple[int, int], versions: tuple[str, ...]
) -> None:
    """Unsuitable and broken Javas are passed over for the one that came along with Spark."""
    unsuitable = make_java(tmp_path / "unsuitable", "21" if line < (4, 0) else "11")
    broken = tmp_path / "java"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    for version in versions:
        carried = make_java(tmp_path / version, version)
        environ = {"JAVA_HOME": str(unsuitable), "PATH": str(tmp_path)}
        assert find_java(environ, line, [unsuitable, carried]) == carried


def test_no_java_at_all_says_what_was_found(tmp_path: Path) -> None:
    """The error names the Javas found and those that would do."""
    new = make_java(tmp_path / "new", "21")
    with pytest.raises(FileNotFoundError, match=r"Spark 3\.5 needs Java 8, 11 or 17.*bin/java \(Java 21\)"):
        find_java({"JAVA_HOME": str(new)}, (3, 5))
    with pytest.raises(FileNotFoundError, match=r"Spark 4\.3 needs Java 17 or 21.*found no Java at all"):
        find_java({}, (4, 3))


@pytest.mark.parametrize("name", ["4.3", "3.5"])
def test_a_fetched_spark_is_complete(name: str) -> None:
    """Spark, a Java of its own and Python are all there."""
    spark = local_spark_home(os.environ, name)
    assert os.access(f"{spark.home}/bin/spark-submit", os.X_OK)
    assert spark.java_home == str(Path(spark.home).parent / "java")
    assert os.access(f"{spark.java_home}/bin/java", os.X_OK)
    assert os.access(spark.python, os.X_OK)
    assert spark.version.startswith(f"{name}.")
