"""Processes end with the work that they are for."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children
from pathlib import Path

import pytest

from conf.util.process_pool import process_pool
from framework.host.process_tree import identity
from tests.waiting import until


def note(path: Path) -> None:
    """Work that takes long; a file tells that it has begun."""
    path.write_text("begun")
    time.sleep(600)


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
    assert time.monotonic() - began < 300
    assert not active_children()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_processes_end_with_the_one_that_they_work_for(tmp_path: Path, how: signal.Signals) -> None:
    """Also where that is killed: nobody would take their results."""
    code = "import sys; from tests.conf.util.test_process_pool import hold; hold(sys.argv[1])"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "pid")]) as holder:
        while not (tmp_path / "pid").exists():
            time.sleep(0.05)
        worker = int((tmp_path / "pid").read_text())
        holder.send_signal(how)
    until(lambda: identity(worker) is None, "the process ends")


def hold(path: str) -> None:
    """Work that takes long, in another process."""
    with process_pool(1) as pool:
        pool.submit(_tell, path).result()


def _tell(path: str) -> None:
    Path(f"{path}.new").write_text(str(os.getpid()))
    Path(f"{path}.new").rename(path)
    time.sleep(1200)


def test_each_process_begins_as_told() -> None:
    """With arguments."""
    with process_pool(1, time.sleep, 0.0) as pool:
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
