"""Amounts add up exactly, and the allocator shares them fairly and never twice."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from environment.resources import NOTHING, Resources
from framework.embedded.master.allocator import allocate
from framework.embedded.master.calls import framework_info
from framework.embedded.master.state import AgentRecord, Filter, Framework, OutstandingOffer
from framework.embedded.resource_messages import EMPTY, Amount, Json, make, milli, parse, to_json, total
from framework.embedded.settings import AgentSpec

AMOUNTS = st.builds(
    lambda cpus, mem, first, size: Amount(
        Resources({name: value for name, value in {"cpus": cpus, "mem": mem}.items() if value}),
        ((first, first + size),) if size else (),
    ),
    st.integers(0, 10**7),
    st.integers(0, 10**9),
    st.integers(1, 1000),
    st.integers(0, 50),
)


@given(AMOUNTS, AMOUNTS)
def test_what_is_taken_and_given_back_is_the_same(left: Amount, right: Amount) -> None:
    """Subtraction undoes addition where the ports do not overlap."""
    apart = Amount(right.scalars, tuple((begin + 5000, end + 5000) for begin, end in right.ports))
    assert (left + apart) - apart == left
    assert (left + apart).contains(left)
    assert (left + apart).contains(apart)


@given(AMOUNTS)
def test_json_keeps_an_amount(amount: Amount) -> None:
    """Three decimals survive the way to a framework and back."""
    assert parse(to_json(amount)) == amount
    assert amount - amount == EMPTY


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(0, 10)), max_size=10))
def test_ports_are_a_set(ranges: list[tuple[int, int]]) -> None:
    """Adding ranges gives their union, taking them away leaves nothing of them."""
    amount = total(Amount(NOTHING, ((begin, begin + size),)) for begin, size in ranges)
    ports = {port for begin, size in ranges for port in range(begin, begin + size + 1)}
    assert {port for begin, end in amount.ports for port in range(begin, end + 1)} == ports
    assert list(amount.ports) == sorted(amount.ports)


class Link:
    """An agent that nothing is sent to."""

    def __init__(self, name: str, cpus: float) -> None:
        self.spec = AgentSpec(name, "t", cpus, 1024, 0.1, "127.0.0.1", (1, 2))


class Silent:
    """A stream that nobody reads."""

    id = "s"

    def send(self, event: Any) -> None:
        """Drop it."""

    def end(self) -> None:
        """Nothing to end."""

    def cut(self) -> None:
        """Nothing to cut."""


def agent(name: str, cpus: float = 4.0) -> AgentRecord:
    """A free agent."""
    whole = make(cpus, 1024, {}, (1, 2))
    return AgentRecord(name, Link(name, cpus), whole)  # type: ignore[arg-type]  # the allocator sends nothing


def framework(name: str, *roles: str) -> Framework:
    """A connected framework."""
    message = {"user": "u", "name": name, "roles": list(roles), "capabilities": [{"type": "MULTI_ROLE"}]}
    return Framework(name, framework_info(message), Silent())


def test_frameworks_share_by_dominant_resource() -> None:
    """Of four equal agents each of two frameworks gets two."""
    grants = allocate([framework("a", "x"), framework("b", "y")], [agent(f"s{i}") for i in range(4)], 0.0)
    assert sorted(grant.framework_id for grant in grants) == ["a", "a", "b", "b"]


def test_what_is_held_counts() -> None:
    """A framework that holds much comes after one that holds nothing."""
    rich, poor = framework("a", "x"), framework("b", "y")
    held = make(4, 1024, {}, (1, 2))
    rich.offers["o"] = OutstandingOffer("o", "a", "s0", "x", held)
    (grant,) = allocate([rich, poor], [agent("s1")], 0.0)
    assert grant.framework_id == "b"


def test_refusals_suppression_and_absence_are_respected() -> None:
    """Nothing goes to a role that refused, suppressed, or to a framework that is away, until that is over."""
    one = framework("a", "x")
    free = agent("s")
    one.filters = [Filter("x", "s", free.total, until=10.0)]
    assert allocate([one], [free], 9.0) == []
    assert len(allocate([one], [free], 10.0)) == 1
    one.filters = [Filter("x", "s", Amount(Resources({"cpus": milli(1)})), until=10.0)]
    assert len(allocate([one], [free], 9.0)) == 1
    one.suppressed = {"x"}
    assert allocate([one], [free], 11.0) == []
    one.suppressed, one.stream = set(), None
    assert allocate([one], [free], 11.0) == []


def test_crumbs_and_absent_agents_are_not_offered() -> None:
    """Less than 0.01 cpus and 32 MiB, and agents that are away or deactivated, are nobody's."""
    crumbs, away, idle = agent("a"), agent("b"), agent("c")
    crumbs.allocated = crumbs.total - Amount(Resources({"cpus": 9, "mem": milli(31)}))
    away.connected = False
    idle.deactivated = True
    assert allocate([framework("a", "x")], [crumbs, away, idle], 0.0) == []


def test_agents_with_gpus_are_for_those_who_know_of_gpus() -> None:
    """Mesos' default filter makes no offer without GPU_RESOURCES, even of other free resources."""
    with_gpus = AgentRecord("s", Link("s", 4), make(4, 1024, {"gpus": 2}, (1, 2)))  # type: ignore[arg-type]
    message: Json = {"user": "u", "name": "b", "roles": ["y"]}
    message |= {"capabilities": [{"type": "MULTI_ROLE"}, {"type": "GPU_RESOURCES"}]}
    knows = Framework("b", framework_info(message), Silent())
    assert allocate([framework("a", "x")], [with_gpus], 0.0) == []
    (grant,) = allocate([framework("a", "x"), knows], [with_gpus], 0.0)
    assert (grant.framework_id, grant.resources.scalars.get("gpus")) == ("b", milli(2))
