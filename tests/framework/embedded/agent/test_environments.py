"""Environments of adopted processes, one of which lets its readers wait."""

import asyncio
import signal
import subprocess
import threading

import pytest

from framework.embedded.agent import environments
from framework.embedded.agent.environments import ContainerReader


def test_who_reads_an_environment_that_hangs_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop serves the master and all agents; the process is killed, which ends the wait."""
    killed = threading.Event()
    monkeypatch.setattr(environments, "_PATIENCE", 0.1)
    monkeypatch.setattr(environments, "_AT_ONCE", 1)
    with subprocess.Popen(["sleep", "600"]) as hostile:

        def container_of(pid: int) -> str | None:
            if pid == hostile.pid:
                assert killed.wait(60.0)
            return f"container of {pid}"

        async def others() -> list[tuple[int, str | None, bool]]:
            loop, found = asyncio.get_running_loop(), []
            second = asyncio.Event()

            def note(pid: int, container: str | None, ended: bool) -> None:  # as it is called
                found.append((pid, container, ended))
                second.set()

            reader = ContainerReader(loop, note)
            reader.read(hostile.pid, ended=False)
            reader.read(1, ended=False)
            reader.read(1, ended=True)
            await asyncio.wait_for(second.wait(), 60.0)
            reader.reaped(hostile.pid)
            assert await asyncio.to_thread(hostile.wait, 60.0) == -signal.SIGKILL
            killed.set()
            return found

        monkeypatch.setattr(environments, "_container_of", container_of)
        try:
            assert asyncio.run(others()) == [(1, "container of 1", True)]
        finally:
            killed.set()
            hostile.kill()


def test_a_machine_without_room_for_a_thread_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that starts all processes that there can be could otherwise lose the ends of others' tasks."""
    monkeypatch.setattr(environments, "_RETRY", 0.01)
    monkeypatch.setattr(environments, "_container_of", lambda pid: f"container of {pid}")
    refused = iter(range(3))
    start = threading.Thread.start

    def full(self: threading.Thread) -> None:
        if self.name == "environment" and next(refused, None) is not None:
            raise RuntimeError("can't start new thread")
        start(self)

    async def found() -> list[int]:
        pids, done = list[int](), asyncio.Event()

        def note(pid: int, _container: str | None, _ended: bool) -> None:
            pids.append(pid)
            if len(pids) == 2:
                done.set()

        reader = ContainerReader(asyncio.get_running_loop(), note)
        reader.read(1, ended=False)
        reader.read(2, ended=True)
        await asyncio.wait_for(done.wait(), 60.0)
        return sorted(pids)

    monkeypatch.setattr(threading.Thread, "start", full)
    assert asyncio.run(found()) == [1, 2]
