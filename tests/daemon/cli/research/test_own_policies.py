"""Policies of users' own: found beside the config or in the current folder, and replaced where they fail."""

import sys
from pathlib import Path

import pytest

from agents import registry
from daemon.cli import main

LAZY = """
from environment.types import Decision, Wait


def decide(view: object, queue: object) -> Decision:
    return Wait("nothing pleases me")
"""


@pytest.fixture(autouse=True)
def _paths_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(registry, "_FOLDERS", [])


def test_one_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy in the current folder that waits for ever is loaded.

    The fallback places its jobs, so the numbers are not the policy's: exit code 1. Without a fallback the run
    is an error of one line.
    """
    (tmp_path / "lazy_one.py").write_text(LAZY)
    monkeypatch.chdir(tmp_path)
    command = ["simulate", "--policy", "lazy_one:decide", "--jobs", "3"]
    assert main(command) == 1
    captured = capsys.readouterr()
    assert "failed in 100% of its decisions or placements: its numbers are those of ff" in captured.err
    told = " ".join(captured.out.split())
    assert "lazy_one:decide failed in 3 decisions, and ff decided instead; the first time: it waits" in told
    assert main([*command, "--fallback", "none"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("stoker: policy lazy_one:decide: job-1 will never be placed at")
    assert line.endswith("it waits although nothing runs and nothing will arrive: nothing pleases me")


def test_one_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says where it was looked for; a module that lacks another one says which."""
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "--policy", "lzy_one:decide"]) == 2
    told = f"no module lzy_one is installed, nor in {tmp_path}"
    assert capsys.readouterr().err == f"stoker: policy lzy_one:decide: {told}\n"
    (tmp_path / "needy_one.py").write_text("import not_there_either\n")
    assert main(["simulate", "--policy", "needy_one:decide"]) == 2
    assert "No module named 'not_there_either'" in capsys.readouterr().err


def test_one_beside_the_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy beside the config is found from every working folder.

    No file there shadows an installed module.
    """
    for name in ("lazy_two.py", "numpy.py"):
        (tmp_path / name).write_text(LAZY)
    (tmp_path / "stoker.yaml").write_text("policy: {name: 'lazy_two:decide'}\n")
    command = ["config", "check", str(tmp_path / "stoker.yaml"), "--set", f"data_dir={tmp_path}"]
    main([*command, "--set", "listen=127.0.0.1:0"])
    assert "lazy_two:decide can be created, and decides on a test cluster" in capsys.readouterr().out
    assert sys.path[-1] == str(tmp_path)


def test_one_that_fails_is_found_by_config_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before a daemon starts with it: the error names file and line."""
    broken = tmp_path / "broken_two.py"
    broken.write_text("def decide(view, queue):\n    return queue[0].prise\n")
    for key in ("policy", "fallback", "shadow"):
        (tmp_path / "stoker.yaml").write_text(f"{key}: {{name: 'broken_two:decide'}}\n")
        command = ["config", "check", str(tmp_path / "stoker.yaml"), "--set", f"data_dir={tmp_path}"]
        assert main([*command, "--set", "listen=127.0.0.1:0"]) == 1
        told = " ".join(capsys.readouterr().out.split())
        assert "broken_two:decide: on a made-up cluster, the policy failed: AttributeError" in told
        assert "line 2, in decide" in told
