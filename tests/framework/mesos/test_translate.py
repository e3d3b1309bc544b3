"""Mesos JSON to events and back, on a real master's messages and on hand-made offers."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from environment.model.messages.records import ExecutorRecord
from environment.resource_arrays import ResourceArrays
from environment.resources import Resources
from framework.mesos.translate import (
    OfferAllocator,
    agent_url,
    offer_from_json,
    role_of,
    task_changed_from_json,
    task_to_json,
)
from framework.spark import ProcessSpec, Uri

Json = dict[str, Any]

WIRE = Path(__file__).parents[4] / "shared" / "mesos-wire"


def scalar(name: str, value: float, **more: Any) -> Json:
    """A scalar resource."""
    return {"name": name, "type": "SCALAR", "scalar": {"value": value}, **more}


def offer(*resources: Json, **more: Any) -> Json:
    """An offer of these resources."""
    return {
        "id": {"value": "o1"},
        "agent_id": {"value": "S0"},
        "hostname": "host1.example",
        "resources": list(resources),
        **more,
    }


@pytest.fixture(scope="module")
def recorded_events() -> list[Json]:
    """Every event that the recorded master sent."""
    if not WIRE.is_dir():
        pytest.skip("the transcripts of a real master (../shared/mesos-wire) are not here")
    steps = [step for path in sorted(WIRE.glob("*.json")) for step in json.loads(path.read_text())]
    return [step["event"] for step in steps if isinstance(step, dict) and isinstance(step.get("event"), dict)]


def test_every_recorded_offer_is_read(recorded_events: list[Json]) -> None:
    """Each offer of a real master becomes one with a VM of known type, price, address and ports."""
    offers = [o for e in recorded_events if e.get("type") == "OFFERS" for o in e["offers"].get("offers", ())]
    assert len(offers) > 100
    for recorded in offers:
        read = offer_from_json(recorded)
        assert read.vm.type in {"m1.large", "m1.xlarge", "c1.xlarge"}
        assert read.vm.price_per_hour in {0.24, 0.48, 0.58}
        assert read.vm.address == "127.0.0.1"
        assert read.resources == read.resources.positive
        assert set(read.resources) <= {"cpus", "mem", "disk"}


def test_every_recorded_update_is_read(recorded_events: list[Json]) -> None:
    """Each status update of a real master has a state that the model knows, and its reason and message."""
    updates = [e["update"]["status"] for e in recorded_events if e.get("type") == "UPDATE"]
    assert len(updates) > 100
    states = {task_changed_from_json(status, 1.0).state for status in updates}
    assert {"starting", "running", "finished", "failed", "killed", "lost", "dropped", "unreachable"} <= states
    dropped = next(s for s in updates if s["state"] == "TASK_DROPPED")
    assert task_changed_from_json(dropped, 1.0).reason == "invalid_offers"


def test_resources_of_an_offer_are_summed() -> None:
    """Reserved and unreserved cpus of one offer count together; ports are ranges."""
    read = offer_from_json(
        offer(
            scalar("cpus", 1.5, role="*"),
            scalar("cpus", 2.25, role="stoker"),
            scalar("mem", 1024.0, role="*"),
            {"name": "ports", "type": "RANGES", "ranges": {"range": [{"begin": 31000, "end": 31009}]}},
        )
    )
    assert (read.resources, read.ports) == (Resources.of(3.75, 1024), ((31000, 31009),))


@pytest.mark.parametrize("value", [1e16, 1e300, 1.7e308])
def test_no_amount_is_more_than_can_be_counted_with(value: float) -> None:
    """Sums of thousandths fit 64 bits, and what such an offer pays is what was asked for."""
    offered = offer(
        scalar("cpus", value), scalar("cpus", value), scalar("mem", 1024.0), scalar("mem", -value)
    )
    read = offer_from_json(offered)
    assert read.resources == Resources.of(1e9)
    assert int(ResourceArrays.of([read.resources] * 1000).get("cpus").sum()) == 10**15
    assert OfferAllocator([offered]).pay(Resources.of(2.0), ()) == [scalar("cpus", 2.0)]


@pytest.mark.parametrize("value", ["1e308", "1000001", "inf"])
def test_a_price_that_cannot_be_is_none(value: str) -> None:
    """A sum of such prices would be no number; the note says so."""
    attributes = [{"name": "price", "type": "TEXT", "text": {"value": value}}]
    vm = offer_from_json(offer(attributes=attributes)).vm
    assert vm.price_per_hour == 0.0
    assert "not a number of dollars per hour, such as price:0.48" in vm.note


@pytest.mark.parametrize(
    ("offered", "left"),
    [
        ([(31000, 70000)], ((31000, 65535),)),
        ([(65536, 70000), (0, 80), (2**40, 2**41)], ((1, 80),)),
        ([(0, 0)], ()),
    ],
)
def test_ports_that_there_are_not_are_ignored(
    offered: list[tuple[int, int]], left: tuple[tuple[int, int], ...]
) -> None:
    """An operator may write any range into an agent's resources: no task can listen above 65535."""
    ranges = [{"begin": begin, "end": end} for begin, end in offered]
    assert (
        offer_from_json(offer({"name": "ports", "type": "RANGES", "ranges": {"range": ranges}})).ports == left
    )


def test_an_agent_without_attributes_is_a_vm_all_the_same() -> None:
    """No type, no price, no URL: unknown type, free of charge, reached under its host name."""
    read = offer_from_json(offer(scalar("cpus", 1.0)))
    assert (read.vm.type, read.vm.price_per_hour, read.vm.address) == ("unknown", 0.0, "host1.example")
    assert agent_url(offer()) == ("S0", "")
    assert role_of(offer()) == ""


@pytest.mark.parametrize(("text", "price"), [("0.24", 0.24), ("cheap", 0.0), ("-1", 0.0)])
def test_a_price_may_be_a_text_attribute(text: str, price: float) -> None:
    """A number written as text is a price; other text, or a negative number, is none."""
    attributes = [{"name": "price", "type": "TEXT", "text": {"value": text}}]
    assert offer_from_json(offer(attributes=attributes)).vm.price_per_hour == price


def test_an_update_of_an_unknown_state_counts_as_unknown() -> None:
    """A master newer than us may have states that we do not know."""
    status = {"task_id": {"value": "job-1.0"}, "state": "TASK_ON_HOLIDAY"}
    assert task_changed_from_json(status, 1.0).state == "unknown"


def test_a_purse_pays_reserved_resources_first_and_as_they_came() -> None:
    """Allocated resources retain their role and reservations, and leave the allocator."""
    reserved = scalar("cpus", 1.0, role="stoker", allocation_info={"role": "stoker"})
    purse = OfferAllocator([offer(scalar("cpus", 4.0, role="*"), reserved, scalar("mem", 1000.0, role="*"))])
    first = purse.pay(Resources.of(1.5, 400), ())
    assert first == [reserved, scalar("cpus", 0.5, role="*"), scalar("mem", 400.0, role="*")]
    assert purse.pay(Resources.of(3.5, 600), ()) == [
        scalar("cpus", 3.5, role="*"),
        scalar("mem", 600.0, role="*"),
    ]


def test_a_purse_pays_over_several_offers_and_thirds_of_a_cpu() -> None:
    """Three times 0.1 cpu fit 0.3 cpu; offers of one agent are one purse."""
    purse = OfferAllocator([offer(scalar("cpus", 0.2)), offer(scalar("cpus", 0.1), scalar("mem", 30.0))])
    for _ in range(3):
        purse.pay(Resources.of(0.1, 10), ())
    with pytest.raises(ValueError, match="lack"):
        purse.pay(Resources.of(0.1, 0), ())


def test_a_purse_hands_out_single_ports_and_refuses_others() -> None:
    """A port of an offered range becomes a range of one."""
    ranges = {"range": [{"begin": 31000, "end": 31002}]}
    purse = OfferAllocator([offer({"name": "ports", "type": "RANGES", "ranges": ranges, "role": "*"})])
    (port,) = purse.pay(Resources.of(0.0, 0), (31001,))
    assert port["ranges"] == {"range": [{"begin": 31001, "end": 31001}]}
    with pytest.raises(ValueError, match="31003"):
        purse.pay(Resources.of(0.0, 0), (31003,))


def test_a_task_carries_its_secrets_as_secrets() -> None:
    """Secrets travel as SECRET variables, base64 as Mesos wants bytes, and not as plain ones."""
    process = ProcessSpec(
        ("bash", "-c", "true"), {"A": "1"}, {"S": "hush"}, (Uri("file:///x.tgz", True),), "spark:3.5"
    )
    task = ExecutorRecord(
        "job-1.0", "job-1", 0, "S0", "vm-1", "", "", 0.0, Resources.of(1.0, 1024), (31000,), 0.0
    )
    info = task_to_json(task, process, "wordcount: executor 0", [], user="spark")
    plain, secret = info["command"]["environment"]["variables"]
    assert plain == {"name": "A", "type": "VALUE", "value": "1"}
    assert secret["type"] == "SECRET"
    assert base64.b64decode(secret["secret"]["value"]["data"]) == b"hush"
    assert "hush" not in json.dumps(info)
    assert info["command"]["arguments"] == ["bash", "-c", "true"]
    assert info["command"]["uris"] == [{"value": "file:///x.tgz", "extract": True}]
    assert info["command"]["user"] == "spark"
    assert info["container"]["mesos"]["image"]["docker"]["name"] == "spark:3.5"


def test_other_scalars_are_read_and_paid_like_cpus() -> None:
    """Over roles, reserved ones first; of a volume nothing is, as no part of it can be taken."""
    volume = scalar("disk", 64.0, role="stoker", disk={"persistence": {"id": "v"}})
    gpus = scalar("gpus", 1.0, role="*"), scalar("gpus", 2.0, role="stoker")
    given = offer(scalar("cpus", 2.0, role="*"), *gpus, volume, scalar("disk", 100.0, role="*"))
    read = offer_from_json(given)
    assert (read.resources, read.vm.resources) == (Resources.of(2.0, 0, {"gpus": 3.0, "disk": 100.0}),) * 2
    paid = OfferAllocator([given]).pay(Resources.of(1.0, 0, {"gpus": 3.0, "disk": 100.0}), ())
    assert paid == [scalar("cpus", 1.0, role="*"), scalar("disk", 100.0, role="*"), gpus[1], gpus[0]]
    with pytest.raises(ValueError, match="lack 36 of 136 disk"):
        OfferAllocator([given]).pay(Resources.of(1.0, 0, {"disk": 136.0}), ())


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("Command exited with status 0", 0),
        ("Command exited with status 3", 3),
        ("Container exited with status 137", 137),
        ("Command terminated with signal Killed", 137),
        ("Command terminated with signal Terminated", 143),
        ("Command terminated with signal Segmentation fault (core dumped)", 139),
        ("Command terminated with signal Nonsense", None),
        ("Executor terminated", None),
        ("it said: Command exited with status 3", None),
        ("", None),
    ],
)
def test_exit_codes_are_read_from_what_executors_say(message: str, code: int | None) -> None:
    """Mesos tells them in words alone; 128 + N for signal N, as shells count."""
    status = {"task_id": {"value": "a.driver-1"}, "state": "TASK_FAILED", "message": message}
    assert task_changed_from_json(status, 1.0).exit_code == code


@pytest.mark.parametrize(
    ("reason", "message", "told"),
    [
        (
            "REASON_AGENT_DRAINING",
            "Command terminated with signal Terminated",
            "its agent is being drained: Command terminated with signal Terminated",
        ),
        ("REASON_MAX_COMPLETION_TIME_REACHED", "", "it ran for longer than its limit"),
        (
            "REASON_CONTAINER_PREEMPTED",
            "Container exited with status 1",
            "container preempted: Container exited with status 1",
        ),
        ("REASON_AGENT_REMOVED", "health check timed out", "health check timed out"),
        ("", "Command exited with status 3", "Command exited with status 3"),
    ],
)
def test_why_a_task_ended_is_told_where_its_message_says_only_how(
    reason: str, message: str, told: str
) -> None:
    """An executor on a drained agent was not killed by chance; its exit code is read all the same."""
    status = {"task_id": {"value": "a.0"}, "state": "TASK_KILLED", "reason": reason, "message": message}
    read = task_changed_from_json(status, 1.0)
    assert read.message == told
    assert (read.exit_code == 143) == message.endswith("Terminated")
