"""How a fetched Java is run: with the classes that were kept, where its class path allows that."""

import os
import subprocess
from pathlib import Path

import pytest

from conf.schema import Spark
from framework.spark.install import fetch
from framework.spark.install.homes import SparkHomes, fetched_folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A Spark as it is fetched, with a Java that prints its arguments, and another Spark beside it."""
    for name in ("9.9/java/bin", "9.9/java/runtime/bin", "9.9/spark/jars", "other/jars", "extra"):
        (tmp_path / name).mkdir(parents=True)
    for path, content in (
        ("bin/java", Path(fetch.__file__).with_name("java.sh").read_bytes()),
        ("runtime/bin/java", b"#!/bin/sh\nprintf '%s\\n' \"$@\"\n"),
    ):
        program = tmp_path / "9.9/java" / path
        program.write_bytes(content)
        program.chmod(0o755)
    (tmp_path / "9.9/spark/jars/slf4j-api-2.0.jar").touch()
    (tmp_path / "9.9/classes.jsa").touch()
    return tmp_path


def asked(place: Path, *options: str) -> list[str]:
    """Arguments with which Java itself is run, in the folder of a job."""
    command = [str(place / "9.9/java/bin/java"), *options]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


KEPT = ["-XX:SharedArchiveFile={0}/9.9/java/bin/../../classes.jsa", "-Xlog:cds*=off"]
HOME = "{0}/9.9/spark"


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("{home}/conf:{home}/jars/*", "{home}/jars/*"),
        ("{home}/conf:{home}/jars/slf4j-api-2.0.jar:{home}/jars/*:/etc/hadoop", "{home}/jars/*:/etc/hadoop"),
        ("{home}/jars/*", "{home}/jars/*"),
        ("gone:{home}/conf:{home}/jars/*", "{home}/jars/*"),
        ("stoker-ui/:{home}/conf:{home}/jars/*:a b", "{home}/jars/*:stoker-ui/:a b"),
        (
            "stoker-ui:/x/stoker-backend-4.3.0-1a.jar:stoker-backend.jar:{home}/jars/*",
            "{home}/jars/*:stoker-ui:/x/stoker-backend-4.3.0-1a.jar:stoker-backend.jar",
        ),
        ("{top}/way/spark/jars/*", "{home}/jars/*"),
        ("stoker-ui:extra:{home}/jars/*", None),
        (":{home}/jars/*", None),
        ("{top}/other/jars/*", None),
        ("{home}/jars/slf4j-api-2.0.jar", None),
    ],
)
def test_the_jars_come_first_where_nothing_else_has_to(place: Path, given: str, taken: str | None) -> None:
    """A user's entries before them stay there, and then Java has its own classes alone."""
    (place / "stoker-ui").mkdir()
    (place / "way").symlink_to("9.9")
    home = HOME.format(place)
    path = given.format(home=home, top=place)
    options = ["-Xmx1g", "-cp", path, "-Da=b c", "Main", "-cp"]
    kept = [] if taken is None else [option.format(place) for option in KEPT]
    expected = path if taken is None else taken.format(home=home)
    assert asked(place, *options) == [*kept, "-Xmx1g", "-cp", expected, "-Da=b c", "Main", "-cp"]


@pytest.mark.parametrize("option", ["-XX:SharedArchiveFile=own.jsa", "-XX:ArchiveClassesAtExit=own.jsa"])
def test_who_keeps_classes_for_himself_is_left_alone(place: Path, option: str) -> None:
    """Java takes no two archives of the kind."""
    home = HOME.format(place)
    assert asked(place, "-cp", f"{home}/jars/*", option, "Main") == ["-cp", f"{home}/jars/*", option, "Main"]


def test_without_kept_classes_nothing_is_said_of_them(place: Path) -> None:
    """And a module that this Java is without is not asked for."""
    (place / "9.9/classes.jsa").unlink()
    home = HOME.format(place)
    assert asked(place, "-cp", f"{home}/jars/*", "--add-modules=jdk.incubator.vector", "Main") == [
        "-cp",
        f"{home}/jars/*",
        "Main",
    ]


@pytest.mark.parametrize("name", ["4.3", "3.5"])
def test_spark_has_its_classes_at_once(tmp_path: Path, name: str) -> None:
    """As its own scripts run it, for a driver of ours."""
    spark = SparkHomes(Spark(), os.environ).here(name)
    if not (fetched_folder() / name / "classes.jsa").exists():
        pytest.skip(f"its classes are not kept: `stoker spark add {name}` does it")
    (tmp_path / "stoker-ui/stoker").mkdir(parents=True)
    environment = {
        **os.environ,
        "SPARK_HOME": spark.home,
        "JAVA_HOME": str(spark.java_home),
        "SPARK_SUBMIT_OPTS": "-Xlog:class+load:file=loaded",
    }
    submit = [
        f"{spark.home}/bin/spark-submit",
        "--conf",
        "spark.driver.extraClassPath=stoker-ui",
        "--version",
    ]
    done = subprocess.run(submit, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    loaded = (tmp_path / "loaded").read_text()
    assert "org.apache.spark.deploy.SparkSubmit source: shared objects file (top)" in loaded
    assert "[cds" not in done.stdout + done.stderr
