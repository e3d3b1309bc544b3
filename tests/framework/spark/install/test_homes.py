"""Which Sparks are served under which names, and where each is said to be."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from conf.loader import ConfigError, build
from conf.schema import Spark
from framework.spark import SparkHomes


def make_spark(home: Path, version: str, scala: str = "2.13") -> Path:
    """A folder that looks like a Spark of this full version."""
    (home / "jars").mkdir(parents=True)
    (home / "jars" / f"spark-core_{scala}-{version}.jar").touch()
    return home


def homes(**config: Any) -> SparkHomes:
    """The homes of a config, where no Spark was fetched."""
    return SparkHomes(build(Spark, {"folder": "/nowhere", **config}, "test"), os.environ)


def test_a_job_gets_the_spark_that_it_names_or_the_default(tmp_path: Path) -> None:
    """On this host and on the agents the same."""
    old, new = make_spark(tmp_path / "old", "3.4.4"), make_spark(tmp_path / "new", "4.0.2")
    served = homes(default="4.0", versions={"3.4": {"home": str(old)}, "4.0": {"home": str(new)}})
    assert served.names()[0] == "4.0"
    assert (served.here(None).home, served.there(None).home) == (str(new), str(new))
    assert (served.here("3.4").home, served.there("3.4").home) == (str(old), str(old))
    assert (served.here("3.4").version, served.here("4.0").line) == ("3.4.4", (4, 0))


def test_what_is_not_served_is_refused_with_what_is(tmp_path: Path) -> None:
    """By its name, or by the version of a client."""
    served = homes(
        default="4.0", versions={"4.0": {"home": "/opt/spark"}, "ours": {"version": 2.4, "home": "s"}}
    )
    with pytest.raises(
        ValueError, match=r"4\.9 is not available here; available are 4\.0 \(the default\), .*ours"
    ):
        served.there("4.9")
    with pytest.raises(ValueError, match=r"Spark 4\.1\.1 is not available here; available are 4\.0 "):
        served.for_client("4.1.1")
    assert served.for_client("4.0.3") == "4.0"
    assert served.for_client("2.4.8") == "ours"
    with pytest.raises(ValueError, match="latest: not a version of Spark"):
        served.for_client("latest")


def test_a_spark_of_the_agents_alone_has_no_drivers_on_this_host() -> None:
    """Rather than drivers of another Spark."""
    served = homes(versions={"2.4": {"home": "/opt/nowhere", "java_home": "/java"}})
    assert served.there("2.4").java_home == "/java"
    with pytest.raises(ValueError, match=r"2\.4 is not on the daemon's host.*driver: \{on: cluster\}"):
        served.here("2.4")


def test_a_home_that_is_another_version_than_its_name_says_is_refused(tmp_path: Path) -> None:
    """Its drivers and executors elsewhere would not understand each other."""
    home = make_spark(tmp_path, "4.1.0")
    with pytest.raises(ValueError, match=rf"spark\.versions\.4\.0: {home} has Spark 4\.1\.0"):
        homes(versions={"4.0": {"home": str(home)}}).here("4.0")


def test_agents_have_their_own_java_and_python(tmp_path: Path) -> None:
    """Those of this host only where nothing is said of Spark either."""
    mine = make_spark(tmp_path / "3.5/spark", "3.5.9")
    served = homes(folder=str(tmp_path), versions={"2.4": {"home": "/opt/spark"}, "3.5": {"python": "/py"}})
    assert (served.there("2.4").java_home, served.there("2.4").python) == (None, "python3")
    assert (served.there("3.5").home, served.there("3.5").python) == (str(mine), "/py")
    assert served.here("3.5").python == sys.executable
    assert served.here("3.5").java_home == served.there("3.5").java_home == str(tmp_path / "3.5/java")


def test_what_was_fetched_is_served_from_then_on(tmp_path: Path) -> None:
    """Without a word in the config, and for the drivers of a home that is on the agents alone."""
    served = homes(
        folder=str(tmp_path), default="4.3", versions={"ours": {"version": "3.5", "home": "/opt/a"}}
    )
    assert served.names() == ("ours",)
    make_spark(tmp_path / "3.5/spark", "3.5.9")
    make_spark(tmp_path / "4.3/spark", "4.3.0")
    assert served.names() == ("4.3", "3.5", "ours")
    assert (served.here("ours").home, served.there("ours").home) == (str(tmp_path / "3.5/spark"), "/opt/a")


def test_jobs_of_a_store_that_knew_no_names_go_on_with_what_they_had() -> None:
    """That was 3.5; where it is not served any more, the default one."""
    assert homes(default="4.0", versions={"4.0": {"home": "/s"}, "3.5": {"home": "/t"}}).named("") == "3.5"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"home": "/opt/spark", "uris": []},
            r'write versions: {"3.5": {home: /opt/spark}} and default: "3.5"',
        ),
        (
            {"versions": {"ours": {"home": "/s"}}},
            "ours: not a version such as 4.3, so it needs a key version",
        ),
        ({"versions": {"4.0": {"image": "spark"}}}, "image needs home"),
        ({"versions": {"a/b": {}}}, "should be a name of letters, digits"),
        ({"versions": {"a": {"version": "4"}}}, "should be a version such as 4.3"),
    ],
)
def test_a_config_that_says_it_wrongly_is_told_what_is_right(config: dict[str, Any], said: str) -> None:
    """Homes without names among them, of when there was but one."""
    with pytest.raises(ConfigError) as error:
        build(Spark, config, "test")
    assert said in str(error.value)


def test_names_may_be_written_as_numbers() -> None:
    """As YAML reads them; and empty keys of earlier configs say nothing."""
    config = build(
        Spark, {"default": 4.0, "versions": {4.0: {"home": "/s"}}, "home": None, "uris": []}, "test"
    )
    assert (config.default, list(config.versions)) == ("4.0", ["4.0"])
