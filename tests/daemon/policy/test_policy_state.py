"""Learned state of policies over restarts of the daemon."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agents.oga.ogasched_policy import OgaSched, OgaSchedOptions
from conf.schema import PolicyChoice
from daemon.policy.policy_runner import PolicyRunner
from daemon.policy.policy_state import Memory
from daemon.store.job_store import Store
from environment.types import EndedJob
from tests.builders import make_request, make_view, make_vms

OGASCHED = PolicyChoice(name="ogasched")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    yield store
    store.close()


def deciders(store: Store) -> PolicyRunner:
    """OgaSched in its thread."""
    return PolicyRunner(OGASCHED, PolicyChoice(), 60.0, lambda name: Memory(store, name))


def recalled(store: Store) -> bytes:
    """The state that the next one begins with."""
    policy = OgaSched(OgaSchedOptions())
    Memory(store, "ogasched").recall(policy)
    return policy.state()


def test_learning_goes_on_after_a_restart(store: Store) -> None:
    """Learned state is available to the next daemon; a policy that learns nothing stores nothing."""
    assert recalled(store) == b""
    first, request = deciders(store), make_request(2)
    first.decide(make_view(make_vms(2)), [request])
    first.observe(EndedJob(request.job, ("id-vm-1",) * 2, request.asked, 0.0, 9.0, finished=True))
    first.close()
    kept = recalled(store)
    assert kept
    second = deciders(store)
    second.close()
    assert recalled(store) == kept
    assert store.facts.get("learned ff") is None


def test_a_memory_that_cannot_be_read_is_told_once_and_forgotten(store: Store) -> None:
    """One line of the log says so, and the policy decides as a new one."""
    store.facts.put("learned ogasched", "bm90IGFuIGFyY2hpdmU=")
    with capture_logs() as logs:
        afresh = deciders(store)
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert (line["event"], line["policy"]) == (
        "the policy's memory cannot be read; it starts empty",
        "ogasched",
    )
    event, _ = afresh.decide(make_view(make_vms(2)), [make_request(2)])
    assert len(event.placements) == 1
    afresh.close()
    assert recalled(store)
