"""SECURITY.md describes the locked versions, and the risks that the code really excludes."""

import os
import re
from pathlib import Path

from framework.spark import local_spark_home

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "SECURITY.md"
#: Where a process reads what its parent asks, and `stoker reproduce` runs that it stored.
UNPICKLES = {REPOSITORY / "daemon/what_if/worker_messages.py", REPOSITORY / "agents/experiments/runner.py"}


def rows(pattern: str) -> list[tuple[str, str]]:
    """Names and versions in the first column of the table of packages."""
    cells: list[str] = re.findall(rf"^\| {pattern} \|", PAGE.read_text(), re.MULTILINE)
    pairs = [item.split(" ") for cell in cells for item in cell.split(", ")]
    return [(pair[0], pair[1]) for pair in pairs if len(pair) == 2 and pair[1][0].isdigit()]


def test_versions_are_those_that_are_locked() -> None:
    """So that the page is looked through again when the lock file changes."""
    locks = [REPOSITORY / "requirements.lock", *REPOSITORY.glob("framework/spark/install/locks/**/*.lock")]
    lock = "\n".join(path.read_text() for path in locks)
    packages = rows(r"([a-z][a-z0-9-]* \d[^|]*)")
    assert len(packages) > 20
    assert not [
        (name, version)
        for name, version in packages
        if not re.search(rf"^{name}=={re.escape(version)} [\\;]", lock, re.MULTILINE)
    ]


def test_each_package_that_is_locked_is_spoken_of() -> None:
    """The page has each version, for any requiring package: pygame comes with the training packages."""
    page = " ".join(PAGE.read_text().split())
    lock = (REPOSITORY / "requirements.lock").read_text()
    locked = re.findall(r"^([a-z0-9-]+)==(\S+) (?!; sys_platform == '(?:win32|never)')", lock, re.MULTILINE)
    assert len(locked) > 100
    assert not [
        f"{name} {version}"
        for name, version in locked
        if not re.search(rf"(?<![\w-]){name} {re.escape(version)}(?![\w.-]*\d)", page)
    ]


def test_the_interpreter_is_spoken_of() -> None:
    """Its known faults are listed beside the packages, under the required line."""
    (line,) = re.findall(r"^\| CPython (\S+), the interpreter \|.*tarfile.*$", PAGE.read_text(), re.MULTILINE)
    assert f"python_requires = >={line}," in (REPOSITORY / "setup.cfg").read_text()


def test_jars_are_those_that_come_along() -> None:
    """Of the older Spark that is locked."""
    jars = {path.name for path in Path(local_spark_home(os.environ, "3.5").home, "jars").glob("*.jar")}
    listed = rows(r"\.\.\. ([a-z][a-z0-9-]* \d[^|]*)")
    assert len(listed) > 15
    assert not [(name, version) for name, version in listed if f"{name}-{version}.jar" not in jars]


def test_nothing_is_called_that_the_page_says_is_not() -> None:
    """No model of Keras' and no SavedModel is loaded, nothing unpickled, nothing fetched by TensorFlow."""
    forbidden = re.compile(
        r"\b(load_model|get_file|saved_model\.load|json_format|allow_pickle=True|yaml\.load|"
        r"yaml\.unsafe_load|yaml\.full_load|import pygame|http\.cookies)\b|\bpickle\.(loads?|Unpickler)\("
    )
    for package in ("conf", "profiles", "environment", "agents", "framework", "audit", "daemon"):
        for path in (REPOSITORY / package).rglob("*.py"):
            if path not in UNPICKLES:
                assert not forbidden.search(path.read_text()), path
