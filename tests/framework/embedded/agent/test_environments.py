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
