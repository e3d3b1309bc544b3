"""Files that are written in one step."""

import os
import resource
from pathlib import Path

import pytest

from conf.util.whole_file import replacing, write_whole


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


def test_a_command_that_is_ended_leaves_no_half_file(tmp_path: Path) -> None:
    """The file before stays, with its mode; a link stays one, and a device is written to."""
    path, link = tmp_path / "jobs.csv", tmp_path / "link.csv"
    with replacing(path) as draft:
        draft.write_text("first")
        assert not path.exists()
        assert draft.suffix == ".csv"
    mask = os.umask(0o022)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    path.chmod(0o640)
    link.symlink_to(path)

    def ended() -> None:
        with replacing(link) as draft:
            draft.write_text("sec")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ended()
    assert path.read_text() == "first"
    with replacing(link) as draft:
        draft.write_text("second")
    assert (path.read_text(), link.is_symlink(), path.stat().st_mode & 0o777) == ("second", True, 0o640)
    with replacing(Path("/dev/null")) as draft:
        draft.write_text("nothing")
    assert sorted(tmp_path.iterdir()) == [path, link]
