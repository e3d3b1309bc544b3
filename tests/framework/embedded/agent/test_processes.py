"""The reaping of processes that jobs start and end without end."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from framework.embedded.agent import processes
from framework.embedded.agent.processes import Processes
from framework.host.cgroups import processes_for_jobs

_MANY = 300_000


@pytest.fixture(autouse=True)
def _harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither adopt others' processes here nor limit those of later tests."""
    monkeypatch.setattr(processes, "adopt_orphans", lambda: None)
    monkeypatch.setattr(processes, "limit_processes", lambda _: None)


def test_ends_without_end_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job's orphans end faster than they are reaped, and the master has its turn all the same."""
    left = _MANY

    def zombie() -> int | None:
        nonlocal left
        left -= 1
        return 1 << 30 if left > 0 else None

    async def others() -> int:
        loop = asyncio.get_running_loop()
        Processes(loop)
        os.kill(os.getpid(), signal.SIGCHLD)
        while left == _MANY:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        loop.remove_signal_handler(signal.SIGCHLD)
        return left

    monkeypatch.setattr(processes, "_next_zombie", zombie)
    monkeypatch.setattr("os.waitpid", lambda pid, _: (pid, 0))
    assert asyncio.run(others()) > 0


def test_of_thousands_of_ends_few_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each signal is work for the loop: after an orphan there is none until its next look."""
    zombies = iter([1 << 30, None])
    looks = list[int]()

    def zombie() -> int | None:
        looks.append(1)
        return next(zombies, None)

    async def ends() -> int:
        loop = asyncio.get_running_loop()
        Processes(loop)
        os.kill(os.getpid(), signal.SIGCHLD)
        while len(looks) < 2:
            await asyncio.sleep(0)
        quiet = signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
        while len(looks) < 3:
            await asyncio.sleep(0)
        heard = signal.getsignal(signal.SIGCHLD) != signal.SIG_DFL
        loop.remove_signal_handler(signal.SIGCHLD)
        return quiet and heard

    monkeypatch.setattr(processes, "_next_zombie", zombie)
    monkeypatch.setattr("os.waitpid", lambda pid, _: (pid, 0))
    assert asyncio.run(ends())


def test_an_end_that_cannot_be_handled_is_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ends of other tasks are reported."""
    told = list[int]()

    async def ends() -> None:
        loop = asyncio.get_running_loop()
        own = Processes(loop)
        for pid in (1, 2):
            own._groups[1 << 30 | pid] = processes.ProcessGroup(1 << 30 | pid, loop, told.append)
        own._groups[1 << 30 | 1].on_exit = lambda _: print(1 // 0)
        own._reap()
        loop.remove_signal_handler(signal.SIGCHLD)

    zombies = iter([1 << 30 | 1, 1 << 30 | 2, None])
    monkeypatch.setattr(processes, "_next_zombie", lambda: next(zombies))
    monkeypatch.setattr("os.waitpid", lambda pid, _: (pid, 0))
    asyncio.run(ends())
    assert told == [0]


@pytest.mark.parametrize(
    ("limits", "expected"), [({"": "9000", "a": "max"}, 7875), ({"a": "2000", "a/b": "3000"}, 1488), ({}, 0)]
)
def test_jobs_do_not_get_all_processes(tmp_path: Path, limits: dict[str, str], expected: int) -> None:
    """The smallest limit counts, of this process's group and those above it; a part of it is left."""
    (tmp_path / "a/b").mkdir(parents=True)
    for name, limit in limits.items():
        (tmp_path / name / "pids.max").write_text(limit)
    found = processes_for_jobs(f"1 0 0:1 / {tmp_path} rw - cgroup2 none rw", "0::/a/b")
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    assert found == expected if expected else most // 2 <= found < most
