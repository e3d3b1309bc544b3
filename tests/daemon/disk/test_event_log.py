"""The event log on disk: whole lines, in order, through every disk error."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from daemon.disk.event_log import EventLog


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
    """A full disk leaves no half line.

    The error is reported, and waiting lines are written in order once there is room.
    """
    path = tmp_path / "events.jsonl"
    path.write_text("before\n")
    journal = EventLog(path, size=1 << 20, earlier=2)
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
    monkeypatch.setattr("daemon.disk.event_log._PATIENCE", 10)
    path = tmp_path / "events.jsonl"
    journal = EventLog(path, size=1 << 20, earlier=2)
    with room_for(0):
        journal.write(["12345"])
        journal.write(["12345", "6"])
    journal.write(["end"])
    assert path.read_text() == "12345\nend\n"
    assert journal.trouble == f"{path}; 2 lines lost, it does not replay"
    journal.close()


def test_a_log_that_was_removed_to_make_room_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone removes it on a full disk: that ends no daemon, and nothing is written where nobody looks."""
    path = tmp_path / "events.jsonl"
    journal = EventLog(path, size=1 << 20, earlier=1)
    journal.write(["one"])
    path.unlink()
    with room_for(6):
        journal.write(["two", "three"])  # a part of it would be written
    assert is_full(journal)
    monkeypatch.setattr(journal, "_open", lambda: os.open(tmp_path / "none" / "x", os.O_WRONLY))
    assert not journal.turn("no room for a file")
    assert "cannot be turned" in journal.trouble
    assert not is_full(journal), "not again at once"
    monkeypatch.undo()
    assert journal.turn("all that a model knows")
    journal.write(["four"])
    assert path.read_text() == "all that a model knows\nfour\n"
    path.rename(tmp_path / "moved")
    assert is_full(journal)
    journal.close()


@pytest.mark.parametrize("half", ['{"type":', "x" * 200_000])
@pytest.mark.parametrize("before", ["", "one\n", "y" * 70_000 + "\n"])
def test_a_line_that_a_killed_daemon_began_is_removed(tmp_path: Path, before: str, half: str) -> None:
    """The next daemon's first line, from which all can be replayed, would be its end."""
    path = tmp_path / "events.jsonl"
    path.write_text(before + half)
    journal = EventLog(path, size=1 << 20, earlier=1)
    journal.begin("all that a model knows")
    journal.close()
    assert path.read_text() == before + "all that a model knows\n"


def is_full(journal: EventLog) -> bool:
    """Return `journal.full`, read anew, as writes between two reads change it."""
    return journal.full


def test_a_full_log_is_turned_and_a_few_files_are_kept(tmp_path: Path) -> None:
    """The latest before is number 1; a first line as long as a file does not make it full."""
    path = tmp_path / "events.jsonl"
    journal = EventLog(path, size=5, earlier=2)
    for name in "abcd":
        assert not is_full(journal)
        journal.write([f"{name}-12345"])
        assert is_full(journal)
        journal.turn(f"after {name}, and so on")
    journal.write(["end"])
    assert not is_full(journal)
    journal.close()
    assert {file.name: file.read_text().splitlines() for file in tmp_path.iterdir()} == {
        "events.2.jsonl": ["after b, and so on", "c-12345"],
        "events.1.jsonl": ["after c, and so on", "d-12345"],
        "events.jsonl": ["after d, and so on", "end"],
    }


def test_what_all_can_be_replayed_from_begins_a_file_where_there_is_no_room(tmp_path: Path) -> None:
    """It is written once: in the same file, in a new one, or in the same where there can be no other."""
    path = tmp_path / "events.jsonl"
    for first in ("longer than a file", "also", "as long as a file"):
        journal = EventLog(path, size=10, earlier=1)
        journal.begin(first)
        assert not is_full(journal)
        journal.write(["more"] if first == "also" else [])
        journal.close()
    assert (tmp_path / "events.1.jsonl").read_text() == "also\nmore\n"
    assert path.read_text() == "as long as a file\n"
    (tmp_path / "events.1.jsonl").unlink()
    (tmp_path / "events.1.jsonl").mkdir()
    (tmp_path / "events.1.jsonl" / "something").touch()
    journal = EventLog(path, size=10, earlier=1)
    journal.begin("another")
    journal.close()
    assert path.read_text() == "as long as a file\nanother\n"


def test_a_log_that_cannot_be_turned_goes_on(tmp_path: Path) -> None:
    """The trouble is told, nothing is lost, and it is not tried again with every line."""
    path = tmp_path / "events.jsonl"
    (tmp_path / "events.1.jsonl").mkdir()
    (tmp_path / "events.1.jsonl" / "something").touch()
    journal = EventLog(path, size=5, earlier=1)
    journal.write(["123456"])
    journal.turn("first")
    assert "cannot be turned: Is a directory" in journal.trouble
    assert not is_full(journal)
    journal.write(["more"])
    assert path.read_text() == "123456\nmore\n"
    journal.close()


def test_a_log_that_lacks_lines_is_turned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next file begins with the model's full state, so a replay misses nothing there."""
    monkeypatch.setattr("daemon.disk.event_log._PATIENCE", 10)
    path = tmp_path / "events.jsonl"
    journal = EventLog(path, size=1 << 20, earlier=1)
    with room_for(0):
        journal.write(["12345"])
        journal.write(["12345", "6"])
        assert not is_full(journal), "there is no room for another file either"
    journal.write([])
    assert is_full(journal)
    journal.turn("first")
    assert (path.read_text(), journal.trouble) == ("first\n", "")
    journal.close()


def test_a_long_first_line_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model's state may be longer than the limit of waiting lines.

    A log without it would be rotated for ever.
    """
    monkeypatch.setattr("daemon.disk.event_log._PATIENCE", 10)
    path = tmp_path / "events.jsonl"
    journal = EventLog(path, size=5, earlier=1)
    journal.write(["123456"])
    journal.turn("all that a model knows")
    assert (path.read_text(), journal.trouble) == ("all that a model knows\n", "")
    assert not is_full(journal)
    with room_for(0):
        journal.write(["a line that waits for the disk"])
        journal.write(["another"])
    journal.write([])
    assert path.read_text() == "all that a model knows\na line that waits for the disk\n"
    assert journal.trouble == f"{path}; 1 line lost, it does not replay"
    journal.close()
