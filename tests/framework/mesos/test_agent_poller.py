"""The master is asked which agents it has: again and again, and at once when offers show something else."""

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from environment.model.messages.events import VmsMeasured
from environment.model.messages.snapshot import VmSize
from environment.resources import Resources
from framework.mesos.agent_poller import AgentPoller
from tests.builders import make_offer, make_vm
from tests.waiting import PATIENCE, until

VM = make_vm("vm-1", cpus=8)


class Master:
    """A fake master that a census reads, with its answers."""

    def __init__(self, cpus: float) -> None:
        self.asked = 0
        self.cpus = cpus
        self.told: queue.Queue[VmsMeasured] = queue.Queue()

    def read(self) -> VmsMeasured:
        """Tell of one agent."""
        self.asked += 1
        return VmsMeasured(0.0, (VmSize(VM.id, Resources.of(self.cpus, VM.memory_mib)),), (VM,))


@contextmanager
def asking(master: Master) -> Iterator[AgentPoller]:
    """A census of it, after its first answer."""
    census = AgentPoller(master.read, master.told.put)
    census.start()
    try:
        master.told.get(timeout=PATIENCE)
        yield census
    finally:
        census.stop()


@pytest.fixture(autouse=True)
def rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not time to ask again while a test runs."""
    monkeypatch.setattr("framework.mesos.agent_poller.PERIOD", 10 * PATIENCE)


def test_offers_of_more_than_was_told_have_the_master_asked_at_once() -> None:
    """An operator has unreserved something: once, though the master goes on telling otherwise."""
    master = Master(cpus=2)
    with asking(master) as census:
        census.hint([replace(make_offer("small", VM), resources=Resources.of(2, VM.memory_mib))])
        assert master.asked == 1
        master.cpus = 8
        census.hint([make_offer("large", VM)])
        assert dict(master.told.get(timeout=PATIENCE).sizes)[VM.id].cpus == 8
        master.cpus = 2
        asked = master.asked
        census.hint([make_offer("large", VM)])
        assert census.ask(PATIENCE)
        assert master.asked == asked + 1, "it was asked once, by the last line"
        census.hint([make_offer("large", VM)])
        assert master.asked == asked + 1


def test_a_moment_without_threads_is_not_the_last_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job may leave none for the limit on an answer's time; the master is asked again."""
    monkeypatch.setattr("framework.mesos.agent_poller.PERIOD", 0.01)
    master, lacking, read = Master(cpus=2), [1], Master.read

    def failing(asked: Master) -> VmsMeasured:
        if lacking:
            raise RuntimeError(f"can't start new thread {lacking.pop()}")
        return read(asked)

    monkeypatch.setattr(Master, "read", failing)
    with asking(master):
        assert not lacking


def test_offers_of_an_agent_that_is_not_known_have_the_master_asked_at_once() -> None:
    """It has come since."""
    master = Master(cpus=8)
    with asking(master) as census:
        census.hint([make_offer("other", make_vm("vm-2"))])
        until(lambda: master.asked == 2, "it is asked again")
