"""Reading answers of masters and agents: bounded for any sender; and their use."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.snapshot import VmSize
from environment.resources import NOTHING, Resources
from environment.types import Vm
from framework.mesos.agent_sizes import measured, quota_in_all, quotas
from framework.mesos.bounded_http import NOBODY, Credentials, RefusedAnswerError, read_into, read_json
from framework.mesos.translate import price_of
from tests.framework.mesos.test_master_link import mesos_and_framework
from tests.waiting import until


@contextlib.contextmanager
def answering(*parts: bytes, pause: float = 0.0) -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers each request with these parts, and the requests it received."""
    asked: list[bytes] = []
    ending = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    # A request that is read in part only would end the connection with a reset.
                    request = part = connection.recv(65536)
                    while part and b"\r\n\r\n" not in request:
                        request += (part := connection.recv(65536))
                    asked.append(request)
                    for piece in parts:
                        connection.sendall(piece)
                        ending.wait(pause)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        finally:
            ending.set()
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_credentials_are_sent() -> None:
    """Basic authentication, as masters and agents of Mesos have it."""
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as (url, asked):
        assert read_json(f"{url}/x?y=1", Credentials("me", "hush"), seconds=5, most=99) == {}
        assert read_json(f"{url}/x", NOBODY, seconds=5, most=99) == {}
    assert asked[0].startswith(b"GET /x?y=1 HTTP/1.1\r\n")
    assert b"Authorization: Basic bWU6aHVzaA==\r\n" in asked[0]
    assert b"Authorization" not in asked[1]
    assert "hush" not in repr(Credentials("me", "hush"))


def test_a_refusal_is_told_and_no_redirect_followed() -> None:
    """A redirect would carry the credentials to any host it names."""
    with answering(b"HTTP/1.1 307 Elsewhere\r\nLocation: http://localhost/\r\n\r\n") as (url, asked):
        with pytest.raises(RefusedAnswerError, match="answers 307") as refused:
            read_json(url, NOBODY, seconds=5, most=99)
        assert (refused.value.status, len(asked)) == (307, 1)


def test_an_answer_without_end_is_cut_off(tmp_path: Path) -> None:
    """By its size, and by the time that all of it takes, however steadily it drips."""
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    with answering(head, b"1" * 200) as (url, _), pytest.raises(ValueError, match="more than"):
        read_json(url, NOBODY, seconds=5, most=99)
    for first in (head, b"HTTP/1.1 200 OK\r\nX: "):
        with answering(first, *[b"1"] * 10_000, pause=0.05) as (url, _):
            with pytest.raises(TimeoutError, match=r"has not answered in full within 0\.3 s"):
                read_json(url, NOBODY, seconds=0.3, most=99_999)
            with pytest.raises(TimeoutError, match="not answered"), (tmp_path / "part").open("wb") as to:
                read_into(to.fileno(), url, NOBODY, seconds=0.3, most=99_999)


AGENT: dict[str, Any] = {
    "id": "S1",
    "hostname": "host1",
    "pid": "slave(1)@10.0.0.1:5051",
    "attributes": {"vm": "m1", "price": "$0.48"},
    "reserved_resources": {},
    "unreserved_resources": {"cpus": 4.0, "mem": 1024.0},
    "active": True,
    "deactivated": False,
}


def test_agents_are_read_as_offers_would_show_them() -> None:
    """Those that are there and ours, with all that is known; drained and disconnected ones are closed."""
    gpu = {"id": "S2", "unreserved_resources": {"cpus": 4.0, "mem": 1024.0, "gpus": 1.0}}
    drained = {"id": "S3", "active": False, "deactivated": True, "drain_info": {"state": "DRAINED"}}
    others = {"id": "S4", "unreserved_resources": {"cpus": 0.0, "mem": 0.0}}
    away = {"id": "S5", "active": False}
    pooled = {"id": "S6", "active": False, "attributes": {"lease": "general-1.7"}}
    changes = (gpu, drained, others, away, pooled)
    slaves = {"slaves": [AGENT, *({**AGENT, **change} for change in changes)]}
    found = measured(slaves, ("stoker",), gpus=False)
    assert [vm.id for vm in found.vms] == ["S1", "S3", "S5"]
    assert found.vms[0] == Vm("S1", "host1", "m1", Resources.of(4.0, 1024), 0.48, "10.0.0.1")
    assert found.closed == (
        ("S3", "accepts no new tasks: it was drained by an operator"),
        ("S5", "accepts no new tasks: its agent has lost its connection to the master"),
    )
    assert [vm.id for vm in measured(slaves, (), gpus=True).vms] == ["S1", "S2", "S3", "S5"]


def test_what_tasks_of_all_frameworks_hold_is_read() -> None:
    """Not where others have resources reserved, since these may be what is used, nor where it is not told."""
    busy = {"used_resources": {"cpus": 1.5, "mem": 512.0, "gpus": 0.0, "ports": "[31000-31001]"}}
    idle = {"id": "S2", "used_resources": {"cpus": 0.0, "mem": 0.0}, "reserved_resources": {"stoker": {}}}
    others = {"id": "S3", **busy, "reserved_resources": {"other": {"cpus": 1.0, "mem": 512.0}}}
    slaves = {"slaves": [{**AGENT, **busy}, {**AGENT, **idle}, {**AGENT, **others}, {**AGENT, "id": "S4"}]}
    found = measured(slaves, ("stoker",), gpus=False)
    assert found.used == (VmSize("S1", Resources.of(1.5, 512)), VmSize("S2", NOTHING))


@pytest.mark.parametrize(
    "told", [[], {}, {"slaves": 5}, {"slaves": [{}]}, {"slaves": [{**AGENT, "unreserved_resources": [1]}]}]
)
def test_what_is_no_answer_of_a_master_is_a_value_error(told: Any) -> None:
    """Any such answer raises ValueError."""
    with pytest.raises(ValueError, match="not the answer of a Mesos master"):
        measured(told, ("stoker",), gpus=True)


def test_no_amount_of_an_agent_or_a_quota_is_more_than_can_be_counted_with() -> None:
    """A limit beyond that is none; a number that Python cannot hold is an unexpected answer."""
    huge = {
        "unreserved_resources": {"cpus": 1e300, "mem": 1.7e308},
        "used_resources": {"cpus": 1e300, "mem": -1e300},
    }
    found = measured({"slaves": [{**AGENT, **huge}]}, ("stoker",), gpus=True)
    assert found.sizes == (VmSize("S1", Resources.of(1e9, 10**9)),)
    assert found.used == (VmSize("S1", Resources.of(1e9)),)
    quota = {"limit": {"cpus": 1.7e308, "mem": 2048.0}, "consumed": {}}
    assert quota_in_all({"roles": [{"name": "stoker", "quota": quota}]}, ("stoker",)) == {"mem": 2048.0}
    quota = {"limit": {"cpus": 10**400}, "consumed": {}}
    with pytest.raises(ValueError, match="not the answer of a Mesos master"):
        quota_in_all({"roles": [{"name": "stoker", "quota": quota}]}, ("stoker",))


def test_quotas_of_our_roles_are_told() -> None:
    """Each part with a limit has its consumed amount."""
    quota = {"limit": {"cpus": 4.0, "mem": 2048.0}, "consumed": {"cpus": 3.5}}
    roles = {"roles": [{"name": "stoker", "quota": quota}, {"name": "other", "quota": quota}, {"name": "a"}]}
    assert quotas(roles, ("stoker", "a")) == (
        "the master's quota grants role stoker 4 cpus and 2048 mem, of which 3.5 cpus and 0 mem are used",
    )
    with pytest.raises(ValueError, match="not the answer of a Mesos master"):
        quotas({"roles": [[]]}, ())


def test_the_most_that_our_roles_may_have_is_told() -> None:
    """All roles together, and all below a role at most its limit; parts unlimited for one are left out."""

    def role(name: str, **limit: float) -> dict[str, Any]:
        return {"name": name, "quota": {"limit": limit, "consumed": {}}}

    told = {"roles": [role("a", cpus=4, mem=100), role("b", cpus=2), role("c/d", cpus=9), role("c", cpus=3)]}
    assert quota_in_all(told, ("a",)) == {"cpus": 4.0, "mem": 100.0}
    assert quota_in_all(told, ("a", "b")) == {"cpus": 6.0}
    assert quota_in_all(told, ("a", "free")) == {}
    assert quota_in_all(told, ("c/d", "c/e")) == {"cpus": 3.0}, "what is below c is c's"
    assert quota_in_all(told, ("c", "c/d")) == {"cpus": 3.0}
    assert quota_in_all(told, ("a", "c/d", "c/e/f")) == {"cpus": 7.0}
    within = {"roles": [role("c", cpus=9), role("c/d", cpus=2), role("c/e", cpus=3), role("c/f/g", mem=5)]}
    assert quota_in_all(within, ("c/d", "c/e")) == {"cpus": 5.0}
    assert quota_in_all(within, ("c/d", "c/f/g")) == {"cpus": 9.0}, "g may have any number, so c's is theirs"
    assert quota_in_all(within, ("c/f/g",)) == {"cpus": 9.0, "mem": 5.0}
    assert "grants role c 3 cpus" in " ".join(quotas(told, ("c/e",)))
    assert quota_in_all({"roles": [{"name": "a"}]}, ("a",)) == {}


@pytest.mark.parametrize(
    ("text", "price", "noted"),
    [
        ("0.48", 0.48, False),
        ("$0.48", 0.48, False),
        (0.48, 0.48, False),
        (None, 0.0, False),
        ("cheap", 0.0, True),
        ("-1", 0.0, True),
        ("inf", 0.0, True),
        ("nan", 0.0, True),
    ],
)
def test_a_price_that_is_none_is_told(text: object, price: float, noted: bool) -> None:
    """The note states the fault, the correct form, and the price used instead."""
    found, note = price_of(text)
    assert found == price
    assert note == (
        f"its attribute price is {text!r}, not a number of dollars per hour, such as price:0.48; "
        "it counts as 0"
        if noted
        else ""
    )


def test_an_agent_that_joins_while_nothing_is_wanted_is_found(tmp_path: Path) -> None:
    """Offers are suppressed, so no offer tells of it; asked, the master does, and of one that is drained."""
    with mesos_and_framework(tmp_path) as (mesos, framework):
        framework.wait(ev.OffersReceived)
        mesos.fault("shutdown_agent", agent="host3.example")
        framework.wait(ev.VmLost)
        until(lambda: framework.link.measure(30.0) and len(framework.measured.vms) == 2, "it is gone")
        framework.link.execute(cmd.Suppress(1), lambda task: (_ for _ in ()).throw(AssertionError(task)))
        mesos.fault("start_agent", agent="host3.example")
        until(lambda: len(mesos.get("/slaves")["slaves"]) == 3, "it registers")
        assert framework.link.measure(30.0)
        joined = framework.measured
        assert {vm.name: vm.cpus for vm in joined.vms}["host3.example"] == 12.0
        call = {"type": "DEACTIVATE_AGENT", "deactivate_agent": {"agent_id": {"value": joined.vms[0].id}}}
        assert mesos.request("POST", "/api/v1", call)[0] == 200
        assert framework.link.measure(30.0)
        ((vm_id, why),) = framework.measured.closed
        assert (vm_id, why) == (joined.vms[0].id, "accepts no new tasks: it was deactivated by an operator")
