"""The master's state: frameworks, agents, offers, tasks. State only; other modules change it."""

import asyncio
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from framework.embedded.master.calls import FrameworkInfo
from framework.embedded.resource_messages import EMPTY, Amount
from framework.embedded.settings import AgentSpec, MasterOptions

if TYPE_CHECKING:
    from framework.embedded.agent.agent import Agent

Json = dict[str, Any]

VERSION = "1.12.0"


class SubscriptionStream(Protocol):
    """Receiver of the events of one subscription."""

    @property
    def id(self) -> str:
        """The Mesos-Stream-Id."""

    def send(self, event: Mapping[str, Any]) -> None:
        """Send one event; nothing happens after the end."""

    def end(self) -> None:
        """End the stream properly."""

    def cut(self) -> None:
        """Break the connection."""


@dataclass(slots=True, eq=False)
class TaskState:
    """A task as the master knows it."""

    id: str
    framework_id: str
    agent_id: str
    executor_id: str
    """Empty for a command task."""
    role: str
    info: Json
    resources: Amount
    state: str = "TASK_STAGING"
    """The newest state that the master received."""
    update_state: str | None = None
    """State of the last update that was forwarded."""
    update_uuid: str | None = None
    statuses: list[Json] = field(default_factory=list)
    released: bool = False
    """Whether its resources were returned to the agent."""
    unreachable_time: float | None = None


@dataclass(slots=True)
class OutstandingOffer:
    """An outstanding offer."""

    id: str
    framework_id: str
    agent_id: str
    role: str
    resources: Amount
    timer: asyncio.TimerHandle | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """A refusal: until `until` (loop time) nothing within `resources` of the agent is offered to the role."""

    role: str
    agent_id: str
    resources: Amount
    until: float


@dataclass(slots=True)
class Framework:
    """A framework that has subscribed; `stream` is None while it is disconnected."""

    id: str
    info: FrameworkInfo
    stream: SubscriptionStream | None = None
    principal: str | None = None
    suppressed: set[str] = field(default_factory=set)
    filters: list[Filter] = field(default_factory=list)
    offers: dict[str, OutstandingOffer] = field(default_factory=dict)
    tasks: dict[str, TaskState] = field(default_factory=dict)
    unreachable_tasks: dict[str, TaskState] = field(default_factory=dict)
    completed_tasks: deque[TaskState] = field(default_factory=lambda: deque(maxlen=1000))
    registered_at: float = field(default_factory=time.time)
    reregistered_at: float = field(default_factory=time.time)
    unregistered_at: float = 0.0
    heartbeat: asyncio.TimerHandle | None = None
    failover: asyncio.TimerHandle | None = None

    @property
    def partition_aware(self) -> bool:
        """Whether it receives unreachable, dropped and gone tasks as such."""
        return "PARTITION_AWARE" in self.info.capabilities

    @property
    def multi_role(self) -> bool:
        """Whether its offers carry an allocation role."""
        return "MULTI_ROLE" in self.info.capabilities

    def send(self, event: Mapping[str, Any]) -> None:
        """Send an event, if the framework is connected."""
        if self.stream is not None:
            self.stream.send(event)


@dataclass(slots=True)
class AgentRecord:
    """An agent as the master knows it."""

    id: str
    link: "Agent"
    total: Amount
    allocated: Amount = EMPTY
    """Sum of its offers, tasks and executors; never more than `total`."""
    connected: bool = True
    deactivated: bool = False
    executors: dict[tuple[str, str], Amount] = field(default_factory=dict)
    """By framework and executor id; those of command tasks are not counted."""
    registered_at: float = field(default_factory=time.time)
    reregistered_at: float | None = None
    missed_pings: int = 0
    offer_period: float = 0.0
    """Seconds between two offers of this agent, unless a framework revives offers; 0: offered whenever
    possible."""
    next_offer: float = 0.0
    """Time of its next offer (loop time), if it has such a period."""

    @property
    def spec(self) -> AgentSpec:
        """The agent's specification."""
        return self.link.spec

    @property
    def offerable(self) -> bool:
        """Whether its resources may be offered."""
        return self.connected and not self.deactivated

    @property
    def available(self) -> Amount:
        """Resources that are neither offered nor used."""
        return self.total - self.allocated


@dataclass(slots=True)
class MasterState:
    """Everything that one master knows."""

    options: MasterOptions
    loop: asyncio.AbstractEventLoop
    host: str
    """IPv4 address on which the master listens."""
    port: int
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    frameworks: dict[str, Framework] = field(default_factory=dict)
    completed: OrderedDict[str, Framework] = field(default_factory=OrderedDict)
    removed_ids: set[str] = field(default_factory=set)
    agents: dict[str, AgentRecord] = field(default_factory=dict)
    unreachable: dict[str, float] = field(default_factory=dict)
    """Times (epoch) since which agents are unreachable, by id."""
    gone: set[str] = field(default_factory=set)
    offers: dict[str, OutstandingOffer] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    started_at: float = field(default_factory=time.time)
    _serial: dict[str, int] = field(default_factory=dict)

    @property
    def hostname(self) -> str:
        """The master's name: `localhost` on loopback, else its address."""
        return "localhost" if self.host.startswith("127.") else self.host

    def next_id(self, kind: str) -> str:
        """The next id of a kind: `-O12` for offers, `-S3` for agents, `-0007` for frameworks."""
        number = self._serial.get(kind, 0)
        self._serial[kind] = number + 1
        return f"{self.id}-{number:04}" if kind == "" else f"{self.id}-{kind}{number}"

    def count(self, name: str) -> None:
        """Add one to a counter of `/metrics/snapshot`."""
        self.counters[name] = self.counters.get(name, 0) + 1

    def tasks_of(self, agent_id: str) -> Iterator[tuple[Framework, TaskState]]:
        """Yield the tasks on an agent; safe against removal on the way."""
        for framework in list(self.frameworks.values()):
            for task in list(framework.tasks.values()):
                if task.agent_id == agent_id:
                    yield framework, task
