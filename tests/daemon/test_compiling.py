"""What is compiled before a daemon needs it."""

import re
from pathlib import Path

import pytest

from agents.registry import PolicyError, is_ours
from conf.schema import Config
from daemon.foresight.compiling import main

REPOSITORY = Path(__file__).parents[2]


def test_it_is_compiled_for_who_decides_first() -> None:
    """Of `make install`: the shipped config's policy is among those that it names."""
    names = re.findall(r"^COMPILED := (.*)$", (REPOSITORY / "Makefile").read_text(), re.M)[0].split()
    assert Config().policy.name in names
    assert all(is_ours(name) for name in names)


def test_it_is_played_with_once(capsys: pytest.CaptureFixture[str]) -> None:
    """And a name that is none is no success."""
    main(["ff"])
    assert "Compiling" in capsys.readouterr().out
    with pytest.raises(PolicyError, match="nosuch"):
        main(["nosuch"])
