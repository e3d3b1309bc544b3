"""VMs of pools on the embedded Mesos, by the provider that daemons use: opened, booted, closed, taken."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from environment.resources import Resources
from environment.types import Vm
from framework.embedded import AgentSpec
from framework.mesos.bounded_http import NOBODY, Credentials
from framework.providers.embedded import EmbeddedMesosProvider
from framework.providers.interface import ProviderError, VmRequest
from tests.framework.embedded.running import Mesos, Subscription, framework_info, running, task
from tests.waiting import until

BOOT = 0.3
FIXED = AgentSpec("fixed-1", "m1.large", 4, 16384, 0.24, "127.0.11.1", (21_000, 21_099))
POOL = [
    AgentSpec(
        f"general-{n}", "m1.large", 4, 16384, 0.24, f"127.0.11.{n + 1}", (21_000 + 100 * n, 21_099 + 100 * n),
        pool="general", boot=BOOT,
    )
    for n in (1, 2)
]  # fmt: skip


def wanted(number: int, lease: str) -> VmRequest:
    """The VM of that place in the pool."""
    name = f"general-{number}"
    return VmRequest(lease, Vm(name, name, "m1.large", Resources.of(4, 16384), 0.24))


@pytest.fixture
def mesos(tmp_path: Path) -> Iterator[Mesos]:
    """One VM that is always there, and two that could be."""
    quick: dict[str, Any] = {"agent_ping_timeout": 0.05, "allocation_interval": 0.05}
    with running(tmp_path, [FIXED, *POOL], **quick) as mesos:
        yield mesos


@pytest.fixture
def provider(mesos: Mesos) -> EmbeddedMesosProvider:
    """Of its VMs."""
    return EmbeddedMesosProvider(mesos.address, NOBODY)


def agents(mesos: Mesos) -> dict[str, Any]:
    """The master's records of agents, by name."""
    return {agent["hostname"]: agent for agent in mesos.get("/slaves")["slaves"]}


def test_a_vm_is_opened_once_boots_and_is_closed(mesos: Mesos, provider: EmbeddedMesosProvider) -> None:
    """Its agent comes after the boot and not before, names its lease, and goes when the VM is closed."""
    assert (list(agents(mesos)), provider.list()) == (["fixed-1"], [])
    began = time.time()
    opened = provider.open(wanted(1, "general-1.1"))
    assert (opened.lease, opened.pool, opened.state) == ("general-1.1", "general", "booting")
    assert provider.open(wanted(1, "general-1.1")) == opened
    assert provider.list() == [opened]
    until(lambda: "general-1" in agents(mesos), "its agent registers")
    assert time.time() - began >= BOOT
    assert agents(mesos)["general-1"]["attributes"] == {
        "vm": "m1.large", "price": 0.24, "lease": "general-1.1"
    }  # fmt: skip
    assert agents(mesos)["fixed-1"]["attributes"] == {"vm": "m1.large", "price": 0.24}
    assert provider.list() == [replace(opened, state="running")]
    with Subscription(mesos, framework_info()) as scheduler:
        offers = {offer["hostname"]: offer for offer in scheduler.offers()}
        assert sorted(offers) == ["fixed-1", "general-1"]
        told = {attribute["name"]: attribute for attribute in offers["general-1"]["attributes"]}
        assert told["lease"]["text"] == {"value": "general-1.1"}
    provider.close(opened.id)
    assert (list(agents(mesos)), provider.list()) == (["fixed-1"], [])
    provider.close(opened.id)  # it is gone already
    with pytest.raises(ProviderError, match=r"the VM of the lease general-1\.1 was closed"):
        provider.open(wanted(1, "general-1.1"))
    again = provider.open(wanted(1, "general-1.2"))
    assert again.id != opened.id


def test_what_runs_on_a_vm_ends_with_it(mesos: Mesos, provider: EmbeddedMesosProvider) -> None:
    """Tasks end as on a terminated VM, for any earlier fate of its agent; the framework is told."""
    info = framework_info(failover_timeout=60.0, checkpoint=True)
    with Subscription(mesos, info) as scheduler:
        for number, before in enumerate(("", "kill_agent", "stop_agent")):
            machine, long = provider.open(wanted(1, f"general-1.{number}")), f"long-{number}"
            offer: Any = None
            while offer is None or offer["hostname"] != "general-1":
                offer = scheduler.offers()[0]
            scheduler.launch(offer, task(long, "echo $$ > pid; exec sleep 600"))
            scheduler.update(long, "TASK_RUNNING")
            file = mesos.sandbox(long) / "pid"
            until(partial(_has_text, file), "it says which process it is")
            pid = file.read_text().strip()
            if before:
                mesos.fault(before, agent="general-1")
            provider.close(machine.id)
            assert scheduler.update(long, "TASK_LOST")
            until(partial(_gone, pid), "its process is gone")
    assert list(agents(mesos)) == ["fixed-1"]


def test_one_that_boots_is_closed_before_it_comes(mesos: Mesos, provider: EmbeddedMesosProvider) -> None:
    """Its agent never registers."""
    provider.close(provider.open(wanted(1, "general-1.1")).id)
    assert provider.list() == []
    provider.open(wanted(2, "general-2.2"))
    until(lambda: "general-2" in agents(mesos), "one that was opened later is up")
    assert sorted(agents(mesos)) == ["fixed-1", "general-2"]


def test_what_cannot_be_opened_is_refused_in_words(mesos: Mesos, provider: EmbeddedMesosProvider) -> None:
    """Each refusal has the kind by which a daemon decides its reaction."""
    refusals = {
        "no pool has a VM fixed-1": VmRequest("l", replace(wanted(1, "").vm, name="fixed-1")),
        "general-1 has cpus 4 here, and not 8.0": VmRequest(
            "l", replace(wanted(1, "").vm, resources=Resources.of(8, 16384))
        ),
    }
    for text, asked in refusals.items():
        with pytest.raises(ProviderError, match=text) as refused:
            provider.open(asked)
        assert refused.value.kind == "invalid"
    provider.open(wanted(1, "general-1.1"))
    with pytest.raises(ProviderError, match="general-1 is open under another lease") as refused:
        provider.open(wanted(1, "general-1.2"))
    assert refused.value.kind == "capacity"
    mesos.fault("refuse_vms", kind="quota")
    with pytest.raises(ProviderError, match="refused on request") as refused:
        provider.open(wanted(2, "general-2.3"))
    assert refused.value.kind == "quota"
    assert provider.open(wanted(2, "general-2.3")).lease == "general-2.3"
    nameless = {"open": {"lease": "", "name": "general-2"}}
    wrong: tuple[Any, ...] = ({}, {"open": {}}, {"close": {"id": 7}}, nameless)
    for nonsense in wrong:
        assert mesos.request("POST", "/stoker/vms", nonsense)[0] == 400
    assert mesos.request("DELETE", "/stoker/vms")[0] == 405


def test_a_vm_is_taken_away_after_its_notice(mesos: Mesos, provider: EmbeddedMesosProvider) -> None:
    """First all that ask receive the notice, then the VM is gone."""
    provider.open(wanted(1, "general-1.1"))
    assert provider.notices() == []
    before = time.time()
    mesos.fault("interrupt_vm", agent="general-1", seconds=0.3)
    (notice,) = provider.notices()
    assert notice.lease == "general-1.1"
    assert before + 0.3 <= notice.at <= time.time() + 0.3
    until(lambda: not provider.list(), "it is taken away")
    assert provider.notices() == []


def test_a_master_that_restarts_keeps_the_vms(mesos: Mesos, provider: EmbeddedMesosProvider) -> None:
    """They are the cloud's and not its own; when the whole process is another one, they are gone."""
    opened = provider.open(wanted(1, "general-1.1"))
    mesos.fault("restart_master", away_seconds=0.1)
    until(lambda: _lists(provider) == 1 and "general-1" in agents(mesos), "the agent is back")
    assert provider.list()[0].id == opened.id
    mesos.kill()
    with pytest.raises(ProviderError, match="does not answer") as refused:
        provider.list()
    assert refused.value.kind == "unavailable"
    mesos.start_again()
    assert provider.list() == []


def _has_text(file: Path) -> bool:
    return file.exists() and file.read_text().endswith("\n")


def _gone(pid: str) -> bool:
    return not Path("/proc", pid).exists()


def _lists(provider: EmbeddedMesosProvider) -> int:
    try:
        return len(provider.list())
    except ProviderError:
        return -1


def test_nobody_opens_vms_without_the_secret(tmp_path: Path) -> None:
    """Nor lists or closes them."""
    with running(tmp_path, [FIXED, *POOL], credentials={"stoker": "right"}, may_fail=False) as mesos:
        for method, body in (("GET", None), ("POST", {"open": {"lease": "l", "name": "general-1"}})):
            assert mesos.request(method, "/stoker/vms", body)[0] == 401
        with pytest.raises(ProviderError, match="401"):
            EmbeddedMesosProvider(mesos.address, Credentials("stoker", "wrong")).list()
        right = EmbeddedMesosProvider(mesos.address, Credentials("stoker", "right"))
        assert right.open(wanted(1, "general-1.1")).lease == "general-1.1"
