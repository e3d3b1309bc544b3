"""Files of ours are opened for writing where nobody has put anything else in their place."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from conf.util.regular_file import open_own


def test_it_is_made_or_opened_as_it_is(tmp_path: Path) -> None:
    """Private, and never emptied."""
    for _ in range(2):
        opened = open_own(tmp_path / "own")
        os.write(opened, b"kept")
        os.close(opened)
    assert (tmp_path / "own").read_bytes() == b"kept"
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
def test_no_link_is_opened(tmp_path: Path, make: Callable[[Path, Path], None]) -> None:
    """It may lead to any file of anybody."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    make(tmp_path / "own", victim)
    with pytest.raises(ValueError, match="a link or no regular file"):
        open_own(tmp_path / "own")
    assert victim.read_text() == "precious"


def test_no_file_is_made_where_a_link_leads(tmp_path: Path) -> None:
    """A link that leads nowhere is one all the same."""
    (tmp_path / "own").symlink_to(tmp_path / "made")
    with pytest.raises(ValueError, match="a link or no regular file"):
        open_own(tmp_path / "own")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("flags", [os.O_RDWR, os.O_WRONLY])
def test_a_fifo_is_not_waited_for(tmp_path: Path, flags: int) -> None:
    """Nobody reads it, and nobody ever will."""
    os.mkfifo(tmp_path / "own")
    with pytest.raises(ValueError, match="a link or no regular file"):
        open_own(tmp_path / "own", flags)
