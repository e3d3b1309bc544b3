"""Settings of an embedded Mesos at its start: its agents and its timings. Nothing here runs."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

#: File of its work folder by which it shows that its loop runs.
BEATS = "beats"
#: Agents in each /24 of loopback, 1 to 254.
_HOSTS_PER_NET = 254
_LAST_NET = 0xFFFF


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One agent, that is: one VM of the cluster file."""

    name: str
    """Hostname of the agent in Mesos, such as `m1.large-1`; unique."""
    type: str
    """VM type; the attribute `vm` (TEXT) of every offer."""
    cpus: float
    memory_mib: int
    price_per_hour: float
    """Dollars; the attribute `price` (SCALAR) of every offer."""
    address: str
    """IP that the agent advertises, such as `127.0.1.1`; empty: one that no other master here uses."""
    ports: tuple[int, int]
    """Inclusive range of offered ports; disjoint between agents."""
    resources: Mapping[str, float] = field(default_factory=lambda: {"disk": 10_000.0})
    """Resources that it offers beside cpus and memory, by name; disk is in MiB."""
    pool: str = ""
    """Its pool: the agent exists only while a VM is open as it; empty: it always exists."""
    boot: float = 0.0
    """Seconds from the opening of such a VM until its agent starts."""
    lease: str = ""
    """The lease under which the VM was opened; the attribute `lease` (TEXT), unless it is empty."""


@dataclass(frozen=True, slots=True)
class MasterOptions:
    """Timings of master and agents, seconds; the defaults are those of Mesos. And whether root runs tasks."""

    allocation_interval: float = 1.0
    """Between two runs of the allocator; REVIVE and SUBSCRIBE also start one."""
    heartbeat_interval: float = 15.0
    agent_ping_timeout: float = 15.0
    max_agent_ping_timeouts: int = 5
    """Number of unanswered pings after which an agent is unreachable."""
    offer_timeout: float | None = None
    """Time after which an unused offer is rescinded; None: never."""
    default_refuse: float = 5.0
    """Time for which a refused offer is not offered again when the framework states none."""
    kill_grace: float = 3.0
    """Between SIGTERM and SIGKILL when no kill policy says otherwise."""
    executor_shutdown_grace: float = 5.0
    """Time between the request to end and SIGKILL, for an executor."""
    executor_registration_timeout: float = 60.0
    update_retry: float = 10.0
    """Before an unacknowledged update is sent again; doubles each time."""
    update_retry_max: float = 600.0
    launch_delay: float = 0.0
    """Before a task's process starts; a real agent takes about 0.2 s to start an executor."""
    agent_recovery_delay: float = 0.0
    """Between an agent's start and its registration."""
    root: bool = True
    """Whether root's agents run tasks as root; else these are refused like those of an unknown user."""


def with_addresses(agents: Sequence[AgentSpec], port: int) -> list[AgentSpec]:
    """The agents, those without an address at one of loopback's that follows from their master's port.

    No two masters of a machine have one port. Were all their agents at the same addresses, tasks of one would
    find the ports taken that the other offers to its own.
    """
    return [
        agent if agent.address else replace(agent, address=_address(port, number))
        for number, agent in enumerate(agents)
    ]


def _address(port: int, number: int) -> str:
    net = 1 + (port - 1 + number // _HOSTS_PER_NET) % _LAST_NET  # 127.0.0.0/24 is for all
    return f"127.{net >> 8}.{net & 0xFF}.{1 + number % _HOSTS_PER_NET}"


def check_agents(agents: Sequence[AgentSpec]) -> None:
    """Raise ValueError when two agents share a name or a port, or an agent has an empty port range."""
    names = [agent.name for agent in agents]
    if len(set(names)) != len(names):
        raise ValueError(f"agent names must be unique, got {sorted(names)}")
    by_port = sorted(agents, key=lambda agent: agent.ports)
    for agent in by_port:
        if agent.ports[0] > agent.ports[1]:
            raise ValueError(f"agent {agent.name}: port range {agent.ports} is empty; give (first, last)")
    for low, high in itertools.pairwise(by_port):
        if low.ports[1] >= high.ports[0]:
            raise ValueError(f"agents {low.name} and {high.name} share ports: {low.ports} and {high.ports}")
