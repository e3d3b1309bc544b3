"""Shared fixtures of benchmarks."""

from collections.abc import Callable

import pytest

Show = Callable[[str], None]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """Print a line past pytest's capture."""

    def line(text: str) -> None:
        with capsys.disabled():
            print(f"\n{text}", end="")

    return line
