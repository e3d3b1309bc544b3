"""The embedded Mesos as the daemon starts, finds and ends it: a real process each time."""

import contextlib
import json
import os
import signal
import socket
import threading
import time
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest

from conf.loader import SHIPPED, ConfigError, load, parse
from conf.schema import Cluster
from daemon.substrate.embedded_mesos import (
    EmbeddedError,
    EmbeddedMesos,
    agent_specs,
    find_embedded,
    start_embedded,
)
from environment.clusters.cluster_files import vms_of
from framework.embedded.isolation import IsolationOptions
from framework.embedded.settings import check_agents, with_addresses
from framework.host.process_tree import below, children
from framework.mesos.bounded_http import Credentials
from framework.providers.embedded import EmbeddedMesosProvider
from framework.providers.interface import VmRequest
from tests.waiting import until

PAPER = SHIPPED / "clusters" / "paper.yaml"
SMALL = "vms: [{type: small, cpus: 1, memory: 1g, price_per_hour: 0.1}]"


def cluster_of(*groups: str) -> Cluster:
    """A cluster of these groups, given as YAML."""
    return parse("vms:\n" + "".join(f"  - {{cpus: 1, memory: 1g, {g}}}\n" for g in groups), Cluster, "test")


def test_agents_are_the_vms_of_the_cluster_file() -> None:
    """Names are counted over all groups of a type, a single named VM keeps its name; prices are kept."""
    named = "type: b, name: big, price_per_hour: 2.0, resources: {gpus: 2}"
    groups = ["type: a, count: 2, price_per_hour: 1.0", named]
    specs = agent_specs(cluster_of(*groups, "type: a, price_per_hour: 3.0"))
    assert [spec.name for spec in specs] == ["a-1", "a-2", "a-3", "big"]
    assert [spec.price_per_hour for spec in specs] == [1.0, 1.0, 3.0, 2.0]
    assert specs[1].ports == (21_000, 21_999)
    assert [spec.resources for spec in specs[2:]] == [{"disk": 10_000.0}, {"disk": 10_000.0, "gpus": 2.0}]


def test_vms_of_pools_have_agents_for_when_they_are_opened() -> None:
    """With the boot of their pool, and ports and names of their own beside those of VMs that are there."""
    pool = "name: p, type: b, cpus: 2, memory: 2g, price_per_hour: 1, max: 2, boot: 5s"
    vms = "vms: [{type: a, cpus: 1, memory: 1g, price_per_hour: 1}]"
    specs = agent_specs(parse(f"{vms}\npools: [{{{pool}}}]", Cluster, "test"))
    assert [(spec.name, spec.type, spec.pool, spec.boot) for spec in specs] == [
        ("a-1", "a", "", 0.0), ("p-1", "b", "p", 5.0), ("p-2", "b", "p", 5.0)
    ]  # fmt: skip
    check_agents(specs)


def test_many_agents_share_ports_and_networks() -> None:
    """With many VMs addresses go on in the next network, and no port is offered twice."""
    specs = with_addresses(agent_specs(cluster_of("type: a, count: 2000, price_per_hour: 1.0")), 5050)
    check_agents(specs)
    assert specs[253].address == "127.19.186.254"
    assert specs[254].address == "127.19.187.1"
    assert len({spec.address for spec in specs}) == 2000
    assert all(20_000 <= spec.ports[0] <= spec.ports[1] < 60_000 for spec in specs)


def test_agents_of_two_masters_have_no_address_in_common() -> None:
    """Or tasks of one cluster would find ports taken that the other's offer; given ones stay as they are."""
    specs = agent_specs(cluster_of("type: a, count: 200, price_per_hour: 1.0"))
    ports = (1, 255, 256, 5050, 5051, 65_535)
    addresses = [spec.address for port in ports for spec in with_addresses(specs, port)]
    assert len(set(addresses)) == len(ports) * 200
    assert all(ip_address(one).is_loopback for one in addresses)
    assert not any(one.startswith("127.0.0.") for one in addresses)
    given = [replace(spec, address="10.0.0.1") for spec in specs]
    assert with_addresses(given, 5050) == given


def test_too_many_agents_or_one_name_twice_are_refused() -> None:
    """A cluster that one machine cannot run, or with equal VM names, is refused in words."""
    with pytest.raises(ConfigError, match="can have 5,000 VMs at most, this cluster has 6,000"):
        agent_specs(cluster_of("type: a, count: 6000, price_per_hour: 1.0"))
    with pytest.raises(ConfigError, match="two VMs of the cluster are called a-1"):
        agent_specs(cluster_of("type: a, price_per_hour: 1", "type: b, name: a-1, price_per_hour: 1"))


def test_one_process_is_started_found_again_and_ended(tmp_path: Path) -> None:
    """A second start on the same folder takes the first one over; after the end nothing is found any more."""
    first = start_embedded(PAPER, 0, tmp_path)
    try:
        assert httpx.get(f"http://{first.address}/health").status_code == 200
        assert not first.taken_over
        second = start_embedded(PAPER, 0, tmp_path)
        second.leave()
        assert (second.pid, second.address, second.taken_over) == (first.pid, first.address, True)
        assert second.alive()
        for embedded in (first, second):
            known = (embedded.principal, embedded.secret)
            assert httpx.get(f"http://{embedded.address}/slaves", auth=known).status_code == 200
        assert httpx.get(f"http://{first.address}/slaves").status_code == 401
        assert httpx.get(f"http://{first.address}/stoker/faults", auth=known).status_code == 404
        assert first.secret not in f"{first} {Path(f'/proc/{first.pid}/cmdline').read_text()}"

        other = tmp_path / "other.yaml"
        other.write_text(SMALL)
        with pytest.raises(EmbeddedError, match="has other VMs than"):
            start_embedded(other, 0, tmp_path)
    finally:
        first.stop()
    assert not second.alive()
    assert find_embedded(tmp_path) is None


def stop_worker(embedded: EmbeddedMesos) -> int:
    """Stop the serving process, a child of its supervisor; return its pid."""
    (worker,) = children(embedded.pid)
    os.kill(worker, signal.SIGSTOP)
    return worker


def test_one_that_is_stopped_is_ended_all_the_same(tmp_path: Path) -> None:
    """It is let go on, and ends in order: soon, and nothing of it is left."""
    embedded = start_embedded(PAPER, 0, tmp_path)
    worker = stop_worker(embedded)
    until(lambda: not embedded.answers())  # its last beat was a moment ago
    begun = time.monotonic()
    embedded.stop(600.0)
    print(f"ended after {time.monotonic() - begun:.1f} s")
    assert embedded._process is not None
    assert embedded._process.returncode == 0
    assert not Path(f"/proc/{worker}").exists()


def test_one_whose_port_is_full_of_strangers_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would otherwise be ended, with the tasks of everybody; one that stands still does not beat."""
    embedded = start_embedded(PAPER, 0, tmp_path)
    try:
        monkeypatch.setattr("daemon.substrate.embedded_mesos._answers", lambda _: False)
        assert embedded.answers()
        stop_worker(embedded)
        until(lambda: not embedded.answers())
    finally:
        embedded.stop()


def test_one_that_does_not_end_is_killed_with_all_it_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Mesos that does not end is killed with its processes, however it handles signals.

    Here its supervisor is stopped repeatedly.
    """
    monkeypatch.setattr("daemon.substrate.embedded_mesos._KILL_SECONDS", 1.0)
    embedded = start_embedded(PAPER, 0, tmp_path)
    worker = stop_worker(embedded)
    ended = threading.Event()

    def stop() -> None:
        while not ended.wait(0.001):
            with contextlib.suppress(ProcessLookupError):
                os.kill(embedded.pid, signal.SIGSTOP)

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        embedded.stop(0.2)
    finally:
        ended.set()
        thread.join()
    assert not embedded.alive()
    until(lambda: worker not in below(1) + below(os.getpid()))


def test_one_that_hangs_when_a_daemon_starts_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier daemon left it: nobody has to end it by hand."""
    monkeypatch.setattr("daemon.substrate.embedded_mesos._TAKE_OVER_SECONDS", 0.1)
    left = start_embedded(PAPER, 0, tmp_path)
    worker = stop_worker(left)
    embedded = start_embedded(PAPER, 0, tmp_path)
    try:
        assert (embedded.taken_over, embedded.pid != left.pid, embedded.answers()) == (False, True, True)
        assert not Path(f"/proc/{worker}").exists()
    finally:
        embedded.stop()
        left.leave()
        left.alive()


def test_one_that_is_ending_when_a_daemon_starts_is_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its daemon ended a moment before; another Mesos is started as soon as it is gone."""
    monkeypatch.setattr("daemon.substrate.embedded_mesos._TAKE_OVER_SECONDS", 600.0)
    left = start_embedded(PAPER, 0, tmp_path)
    assert left._process is not None
    (tmp_path / "mesos/address").write_text("127.0.0.1:1")  # it does not answer
    ending = threading.Timer(0.5, left._process.terminate)
    ending.start()
    embedded = start_embedded(PAPER, 0, tmp_path)
    try:
        assert (embedded.taken_over, embedded.answers()) == (False, True)
    finally:
        embedded.stop()
        left.stop()


def test_isolated_vms_are_told_from_others(tmp_path: Path) -> None:
    """With isolation tasks see this machine at another address, which outlives the daemon as the VMs do."""
    cluster = tmp_path / "small.yaml"
    pool = "{name: p, type: small, cpus: 1, memory: 1g, price_per_hour: 0.1, max: 1, boot: 0s}"
    cluster.write_text(f"{SMALL}\npools: [{pool}]")
    first = start_embedded(cluster, 0, tmp_path, IsolationOptions(0.1))
    try:
        if first.isolation.startswith("off"):
            pytest.skip(f"VMs cannot be isolated here: {first.isolation}")
        assert first.isolation == "on: 0.1 cores a cpu, 4 Mbit/s between VMs"
        assert first.host.startswith("10.")
        second = start_embedded(cluster, 0, tmp_path, IsolationOptions(0.1))
        second.leave()
        assert (second.host, second.isolation, second.taken_over) == (first.host, first.isolation, True)
        with pytest.raises(EmbeddedError, match="or another isolation; end it with"):
            start_embedded(cluster, 0, tmp_path)
        answer = httpx.get(f"http://{first.address}/slaves", auth=(first.principal, first.secret))
        (agent,) = answer.json()["slaves"]
        net = f"slave(1)@{first.host.rpartition('.')[0]}."
        assert agent["pid"].startswith(net)
        provider = EmbeddedMesosProvider(first.address, Credentials(first.principal, first.secret))
        (place,) = (vm for vm in vms_of(load(cluster, Cluster)) if vm.terms)
        opened = provider.open(VmRequest("p-1.1", place))  # one that comes later is isolated, too
        assert f"slave(1)@{opened.address}".startswith(net)
        until(lambda: provider.list()[0].state == "running")
    finally:
        first.stop()


def test_a_pid_that_was_given_out_again_is_no_mesos(tmp_path: Path) -> None:
    """A pid file that names another process's start is passed over, and that process left alone."""
    (tmp_path / "mesos").mkdir()
    (tmp_path / "mesos" / "pid").write_text(json.dumps({"pid": 1, "start": 1, "boot": "another"}))
    (tmp_path / "mesos" / "address").write_text("127.0.0.1:1")
    assert find_embedded(tmp_path) is None


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    """When another program has the port, the error names it and the remedy."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            EmbeddedError,
            match=rf"mesos\.port: port {port} of 127\.0\.0\.1 is taken: .* or 0 for any free one",
        ):
            start_embedded(PAPER, port, tmp_path)


def test_a_mesos_that_dies_at_its_start_is_quoted(tmp_path: Path) -> None:
    """The error holds the last line of its log."""
    (tmp_path / "mesos").mkdir()
    (tmp_path / "mesos" / "work").write_text("a file where a folder should be")
    with pytest.raises(
        EmbeddedError, match=r"ended at its start with exit code 2: stoker: .*/mesos/work: File exists"
    ):
        start_embedded(PAPER, 0, tmp_path)
    assert find_embedded(tmp_path) is None
