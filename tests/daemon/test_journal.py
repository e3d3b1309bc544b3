"""The event log on disk: whole lines, in order, whatever the disk says."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from daemon.journal import Journal


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process may grow beyond that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_lines_are_appended_and_wait_for_a_full_disk(tmp_path: Path) -> None:
    """What does not fit leaves no half line, is told, and is written in order when there is room again."""
    path = tmp_path / "events.jsonl"
    path.write_text("before\n")
    journal = Journal(path)
    journal.write(["one"])
    assert journal.trouble == ""
    with room_for(path.stat().st_size + 6):
        journal.write(["two", "three"])
        journal.write(["four"])
    assert path.read_text() == "before\none\n"
    assert "cannot be written: File too large" in journal.trouble
    journal.write([])
    assert path.read_text() == "before\none\ntwo\nthree\nfour\n"
    assert journal.trouble == ""
    journal.close()


def test_lines_that_find_no_room_for_too_long_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded; that something is missing is told from then on."""
    monkeypatch.setattr("daemon.journal._PATIENCE", 10)
    path = tmp_path / "events.jsonl"
    journal = Journal(path)
    with room_for(0):
        journal.write(["12345"])
        journal.write(["12345", "6"])
    journal.write(["end"])
    assert path.read_text() == "12345\nend\n"
    assert journal.trouble == f"{path}; 2 lines are lost, it does not replay"
    journal.close()
