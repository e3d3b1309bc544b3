"""Files that are written in one step."""

import resource
from pathlib import Path

import pytest

from conf.util.whole_file import write_whole


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """Text or bytes, with the mode that was asked for."""
    path = tmp_path / "file"
    write_whole(path, "žluť", 0o644)
    assert path.read_text(encoding="utf-8") == "žluť"
    assert path.stat().st_mode & 0o777 == 0o644
    write_whole(path, b"\xff")
    assert path.read_bytes() == b"\xff"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    """The old content stays, and no draft is left that would take the space."""
    path = tmp_path / "file"
    write_whole(path, "before")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            write_whole(path, b"x" * (1 << 17))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
