"""Fixture of tests that import an application of `profiles/apps`."""

import os
from pathlib import Path

import pytest

from framework.spark import local_spark_home, python_path


@pytest.fixture
def pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have applications imported here, which import pyspark."""
    for path in python_path(Path(local_spark_home(os.environ).home)):
        monkeypatch.syspath_prepend(path)
