"""One master and its agents in one process: the messages between them, their shutdowns and starts."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from framework.embedded.agent.agent import Agent, Key
from framework.embedded.agent.processes import Processes
from framework.embedded.isolation import Cell, NoIsolation
from framework.embedded.master.master import Master
from framework.embedded.messages import StatusUpdate, TaskReport
from framework.embedded.pool_vms import PoolVms
from framework.embedded.resource_messages import Amount
from framework.embedded.settings import AgentSpec, MasterOptions


class EmbeddedCluster:
    """The master, if it is not away, and the agents.

    Messages between them go through here; those to a master or an agent that is away are lost.
    """

    def __init__(
        self,
        specs: Sequence[AgentSpec],
        *,
        options: MasterOptions,
        work_dir: Path,
        host: str,
        port: int,
        cells: Mapping[str, Cell],
    ) -> None:
        self.options = options
        self._loop = asyncio.get_running_loop()
        self._host, self._port = host, port
        self._processes = Processes(self._loop)
        #: None while it is away.
        self.master: Master | None = None

        def agent(spec: AgentSpec) -> Agent:
            folder, cell = work_dir / "agents" / spec.name, cells.get(spec.name, NoIsolation())
            return Agent(spec, folder, self._processes, cell, options, self)

        #: The agents that are there, by name; those of pools while their VMs are open.
        self.agents = {spec.name: agent(spec) for spec in specs if not spec.pool}
        #: The VMs that come and go.
        self.pools = PoolVms([spec for spec in specs if spec.pool], self.agents, agent)

    def start(self) -> None:
        """Start the master and every agent."""
        self.start_master()
        for agent in self.agents.values():
            agent.start()

    async def close(self) -> None:
        """Stop the master, and kill every process of every task."""
        self.stop_master()
        await self._processes.close()

    def stop_master(self) -> None:
        """Kill the master, if there is one."""
        master, self.master = self.master, None
        if master is not None:
            master.stop()

    def start_master(self) -> None:
        """Start a master that knows nothing."""
        self.master = Master(self.options, self._loop, self._host, self._port)
        self.master.start()

    def agents_return(self) -> None:
        """Let every agent register with the present master."""
        for agent in self.agents.values():
            agent.master_returned()

    # messages of agents

    def register(self, link: Agent) -> str | None:
        """Pass a registration on."""
        return None if self.master is None else self.master.agents.register(link)

    def reregister(
        self, link: Agent, agent_id: str, reports: list[TaskReport], executors: dict[Key, Amount]
    ) -> None:
        """Pass a return on."""
        if self.master is not None:
            self.master.agents.reregister(link, agent_id, reports, executors)

    def unregister(self, agent_id: str) -> None:
        """Pass a goodbye on."""
        if self.master is not None:
            self.master.agents.unregister(agent_id)

    def disconnected(self, agent_id: str) -> None:
        """Let the master see a broken connection."""
        if self.master is not None:
            self.master.agents.disconnected(agent_id)

    def knows(self, agent_id: str) -> bool:
        """Whether an agent is registered; with no master there is nothing to register with."""
        return self.master is None or agent_id in self.master.state.agents

    def update(self, agent_id: str, update: StatusUpdate) -> None:
        """Pass an update on."""
        if self.master is not None:
            self.master.update(agent_id, update)

    def executor_exited(self, agent_id: str, framework_id: str, executor_id: str, wait_status: int) -> None:
        """Pass an executor's end on."""
        if self.master is not None:
            self.master.agents.executor_exited(agent_id, framework_id, executor_id, wait_status)
