"""`stoker spark` commands, with fake Spark installations instead of downloaded ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from daemon.cli import main


@pytest.fixture
def sparks(tmp_path: Path) -> list[str]:
    """Options that name a folder with a Spark 3.5 in it, and one of the agents."""
    home = tmp_path / "sparks/3.5/spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars/spark-core_2.12-3.5.9.jar").touch()
    ours = "{ours: {version: 2.4, home: /opt/nowhere, java_home: /opt/java}}"
    return ["--set", f"spark.folder={tmp_path / 'sparks'}", "--set", f"spark.versions={ours}"]


def listed(sparks: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """Parsed output of `spark list`."""
    assert main(["spark", "list", "-o", "json", *sparks]) == 0
    return json.loads(capsys.readouterr().out)


def test_what_is_served_is_listed(
    sparks: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """`spark list` shows the served versions with their missing parts, and the fetchable ones."""
    found = listed(sparks, capsys)
    home = tmp_path / "sparks/3.5"
    assert (found["default"], found["folder"], found["fetchable"]) == ("4.3", str(home.parent), ["4.3"])
    fetched, ours = found["sparks"]
    assert (fetched["name"], fetched["version"], fetched["fetched"], fetched["problem"]) == (
        "3.5",
        "3.5.9",
        True,
        None,
    )
    assert (fetched["home"], fetched["java_home"]) == (str(home / "spark"), str(home / "java"))
    assert (ours["name"], ours["version"], ours["fetched"], ours["home"]) == (
        "ours",
        "2.4",
        False,
        "/opt/nowhere",
    )
    assert "ours is not on the daemon's host" in ours["problem"]
    assert main(["spark", "list", *sparks]) == 0
    assert "`stoker spark add 4.3` fetches 4.3." in capsys.readouterr().out


def test_one_that_is_there_is_not_fetched_again_and_can_be_removed(
    sparks: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A second time is a mistake, and said so in one line."""
    assert main(["spark", "add", "3.5", *sparks]) == 0
    assert "and was already" in capsys.readouterr().out
    assert main(["spark", "remove", "3.5", *sparks]) == 0
    assert "is removed" in capsys.readouterr().out
    assert [each["name"] for each in listed(sparks, capsys)["sparks"]] == ["ours"]
    assert main(["spark", "remove", "3.5", *sparks]) == 2
    assert capsys.readouterr().err.startswith("stoker: 3.5: not in ")


def test_one_that_cannot_be_fetched_is_told_from_those_that_can(
    sparks: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line."""
    assert main(["spark", "add", "2.4", *sparks]) == 2
    assert (
        capsys.readouterr().err.splitlines()[0].startswith("stoker: 2.4: cannot be fetched; 4.3 and 3.5 can.")
    )


def test_a_daemon_without_its_default_is_told_how_to_get_it(
    sparks: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Before it is started, and when it is."""
    data = ["--set", f"data_dir={tmp_path / 'data'}", "--set", "mesos.port=0", "--set", "listen=127.0.0.1:0"]
    assert main(["config", "check", "-o", "json", *sparks, *data]) == 1
    findings = {each["key"]: each for each in json.loads(capsys.readouterr().out)["findings"]}
    assert findings["spark.default"]["verdict"] == "error"
    assert findings["spark.versions.3.5"]["verdict"] == "ok"
    assert findings["spark.versions.ours"]["verdict"] == "warning"
    assert main(["up", *sparks, *data]) == 2
    assert (
        "spark.default: spark: 4.3 is not available here; available are 3.5, ours" in capsys.readouterr().err
    )
