"""Processes end with the work that they are for."""

import time
from multiprocessing import active_children
from pathlib import Path

import pytest

from conf.util.process_pool import process_pool


def note(path: Path) -> None:
    """Work that takes long; a file tells that it has begun."""
    path.write_text("begun")
    time.sleep(60)


def test_work_that_is_broken_off_is_not_waited_for(tmp_path: Path) -> None:
    """Ctrl-C in the middle: neither what has begun nor what has not."""
    began = 0.0

    def work() -> None:
        nonlocal began
        with process_pool(2) as pool:
            for number in range(4):
                pool.submit(note, tmp_path / str(number))
            while len(list(tmp_path.iterdir())) < 2:
                time.sleep(0.05)
            began = time.monotonic()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert time.monotonic() - began < 10
    assert not active_children()
    assert len(list(tmp_path.iterdir())) == 2


def test_each_process_begins_as_told() -> None:
    """With arguments."""
    with process_pool(1, time.sleep, 0.0) as pool:
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
