"""The master: takes calls of frameworks and messages of agents, and changes its state accordingly.

It knows no sockets: calls come parsed, events leave through streams, agents are reached through links.
"""

import asyncio
from collections.abc import Callable

from framework.embedded.master.agent_registry import Agents
from framework.embedded.master.calls import Call
from framework.embedded.master.frameworks import Frameworks
from framework.embedded.master.offers import MasterOffers
from framework.embedded.master.state import AgentRecord, Framework, MasterState, SubscriptionStream
from framework.embedded.master.tasks import EmbeddedTasks
from framework.embedded.messages import StatusUpdate
from framework.embedded.settings import MasterOptions


class RefusalError(Exception):
    """A call that is answered with an error; `status` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Master:
    """One leading master."""

    def __init__(self, options: MasterOptions, loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
        #: The master's agents, frameworks and tasks, read by the views.
        self.state = MasterState(options, loop, host, port)
        #: All offers, read by the views.
        self.offers = MasterOffers(self.state)
        self._tasks = EmbeddedTasks(self.state, self.offers)
        #: For the agents' messages and the operator's wishes.
        self.agents = Agents(self.state, self.offers, self._tasks)
        #: For the operator's wishes.
        self.frameworks = Frameworks(self.state, self.offers, self._tasks)
        self._timers: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the allocator's and the pings' clocks."""
        options = self.state.options
        for interval, action in (
            (options.allocation_interval, self.offers.allocate),
            (options.agent_ping_timeout, self.agents.ping_all),
        ):
            self._timers.append(self.state.loop.create_task(_every(interval, action)))

    def stop(self) -> None:
        """Stop the clocks and cut every stream, as a killed master would."""
        for timer in self._timers:
            timer.cancel()
        for framework in self.state.frameworks.values():
            stream, framework.stream = framework.stream, None
            if stream is not None:
                stream.cut()
            for handle in (framework.heartbeat, framework.failover):
                if handle is not None:
                    handle.cancel()

    def subscribe(self, call: Call, stream: SubscriptionStream, principal: str | None) -> Framework | None:
        """Handle SUBSCRIBE on a stream just opened; None when it was refused with an ERROR event."""
        return self.frameworks.subscribe(call, stream, principal)

    def find(self, call: Call, stream_id: str | None) -> Framework:
        """The framework that may make this call; RefusalError when there is none."""
        framework = self.state.frameworks.get(call.framework_id or "")
        if framework is None:
            raise RefusalError(400, "Framework cannot be found")
        if not stream_id:
            raise RefusalError(400, "All non-subscribe calls should include the 'Mesos-Stream-Id' header")
        if framework.stream is None:
            raise RefusalError(403, "Framework is not subscribed")
        if framework.stream.id != stream_id:
            raise RefusalError(
                400,
                f"The stream ID '{stream_id}' included in this request didn't match "
                f"the stream ID currently associated with framework ID {framework.id}",
            )
        return framework

    def receive(self, framework: Framework, call: Call) -> None:
        """Handle a call other than SUBSCRIBE; calls for unsupported features do nothing."""
        self.state.count(f"master/messages_{call.type.lower()}")
        body = call.body
        match call.type:
            case "ACCEPT":
                self._tasks.accept(framework, body)
            case "DECLINE":
                ids = [entry["value"] for entry in body.get("offer_ids", [])]
                self.offers.decline(framework, ids, body.get("filters", {}))
            case "SUPPRESS":
                self.frameworks.suppress(framework, body.get("roles", []))
            case "REVIVE":
                self.frameworks.revive(framework, body.get("roles", []))
            case "KILL":
                self._tasks.kill(framework, body)
            case "ACKNOWLEDGE":
                self._tasks.acknowledge(framework, body)
            case "RECONCILE":
                self._tasks.reconcile(framework, body)
            case "TEARDOWN":
                self.frameworks.remove(framework)
            case "SHUTDOWN":
                agent = self._reachable(body["agent_id"]["value"])
                if agent is not None:
                    agent.link.shutdown_executor(framework.id, body["executor_id"]["value"])
            case "UPDATE_FRAMEWORK":
                problem = self.frameworks.update(framework, body)
                if problem is not None:
                    raise RefusalError(400, problem)

    def update(self, agent_id: str, update: StatusUpdate) -> None:
        """Take a status update of an agent."""
        self._tasks.update(agent_id, update)

    def _reachable(self, agent_id: str) -> AgentRecord | None:
        agent = self.state.agents.get(agent_id)
        return agent if agent is not None and agent.connected else None


async def _every(interval: float, action: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(interval)
        action()
