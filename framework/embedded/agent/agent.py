"""An agent: runs tasks as process groups, reports to its master, and can be killed, stopped and restarted.

All agents live in the master's process; method calls between them and the master stand for messages, and are
lost or wait as messages would.
"""

import asyncio
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from framework.embedded.agent.executor_run import CustomExecutor, DefaultExecutor
from framework.embedded.agent.processes import Processes
from framework.embedded.agent.status_updates import Updates
from framework.embedded.agent.task_run import Owner, TaskRun
from framework.embedded.isolation import Cell
from framework.embedded.master.state import Framework
from framework.embedded.messages import TERMINAL, Json, StatusUpdate, TaskReport
from framework.embedded.settings import AgentSpec, MasterOptions

if TYPE_CHECKING:
    from framework.embedded.cluster import EmbeddedCluster

Key = tuple[str, str]
"""Framework id and task or executor id."""
#: Seconds until processes that started others while they were killed are killed again.
_CLEAR_AGAIN = 0.05
#: Seconds between two looks at containers whether memory ran out. Chosen: less than a driver takes to end.
_LOOK_AGAIN = 0.2


class Condition(Enum):
    """Whether an agent's process runs, is stopped (SIGSTOP), or is gone."""

    UP = "up"
    STOPPED = "stopped"
    DOWN = "down"


class Agent:
    """One agent."""

    def __init__(
        self,
        spec: AgentSpec,
        folder: Path,
        processes: Processes,
        cell: Cell,
        options: MasterOptions,
        master: "EmbeddedCluster",
    ) -> None:
        self.spec = spec
        self.folder = folder
        self.processes = processes
        self.cell = cell
        self.options = options
        self.loop = asyncio.get_running_loop()
        #: The agent's id as the master gave it; empty before the first registration.
        self.id = ""
        #: Only an agent that is up does anything.
        self.condition = Condition.DOWN
        self._master = master
        #: Events that happened while the agent was not up, applied when it is.
        self._deferred: list[Callable[[], None]] = []
        #: Tasks with a command, until their end is acknowledged.
        self._runs: dict[Key, TaskRun] = {}
        self._defaults: dict[Key, DefaultExecutor] = {}
        self._customs: dict[Key, CustomExecutor] = {}
        self._updates = Updates(options, self.loop, self._send_update, self._task_acknowledged)
        #: Whether its containers are looked at.
        self._watched = False

    # the life of the agent's process

    def start(self) -> None:
        """Start the process; a known agent comes back with the tasks that outlived it."""
        if self.condition is Condition.DOWN:
            self.condition = Condition.UP
            self._see_deferred()
            self.loop.call_later(self.options.agent_recovery_delay, self._register)

    def kill(self) -> None:
        """Kill the process: tasks of frameworks with checkpointing live on, the others end unseen."""
        if self.condition is Condition.DOWN:
            return
        self.condition = Condition.DOWN
        self._updates.pause()
        for framework_id in {run.owner.id for run in self._runs.values() if not run.owner.checkpoint}:
            self._abandon(framework_id)
        for key in [key for key, executor in self._customs.items() if not executor.owner.checkpoint]:
            self._customs.pop(key).destroy()
        self._master.disconnected(self.id)

    def stop(self) -> None:
        """Stop the process as SIGSTOP does; its tasks go on."""
        if self.condition is Condition.UP:
            self.condition = Condition.STOPPED
            self._updates.pause()

    def go_on(self) -> None:
        """Continue a stopped process."""
        if self.condition is Condition.STOPPED:
            self.condition = Condition.UP
            self._see_deferred()
            if not self._master.knows(self.id):
                self._register()
            self._updates.resend()

    def shutdown(self) -> None:
        """Shut down properly: kill tasks and unregister; the next start is that of a new agent."""
        if self.condition is not Condition.DOWN:
            self.terminate()

    def terminate(self) -> None:
        """Lose the VM, with all its processes, in any state of the agent; notify the master."""
        self.condition = Condition.DOWN
        for framework_id in {key[0] for key in (*self._runs, *self._customs)}:
            self._abandon(framework_id)
        for executor in self._customs.values():
            executor.destroy()
        self._defaults.clear()
        self._customs.clear()
        self._deferred.clear()
        agent_id, self.id = self.id, ""
        self._master.unregister(agent_id)

    def master_returned(self) -> None:
        """Register with a new master."""
        if self.condition is Condition.UP:
            self._register()

    # messages of the master

    def ping(self) -> bool:
        """Whether the agent answers."""
        return self.condition is Condition.UP

    def launch(self, framework: Framework, task: Json, role: str) -> None:
        """Start a task."""
        self._on_message(lambda: self._launch(_owner(framework), task, role))

    def launch_group(self, framework: Framework, executor: Json, tasks: list[Json], role: str) -> None:
        """Start a task group under its default executor."""
        self._on_message(lambda: self._launch_group(_owner(framework), executor, tasks, role))

    def kill_task(self, framework_id: str, task_id: str, grace: float | None) -> None:
        """End a task."""
        self._on_message(lambda: self._kill(framework_id, task_id, grace))

    def acknowledge(self, framework_id: str, task_id: str, update_uuid: str) -> None:
        """Take an update as delivered."""
        self._on_message(lambda: self._updates.acknowledge((framework_id, task_id), update_uuid))

    def resend(self, framework_id: str) -> None:
        """Send pending updates again."""
        self._on_message(lambda: self._updates.resend(framework_id))

    def shutdown_framework(self, framework_id: str) -> None:
        """End everything of a framework, with the executors' grace, and send no more updates of it."""
        self._on_message(lambda: self._shutdown_framework(framework_id))

    def shutdown_executor(self, framework_id: str, executor_id: str) -> None:
        """End one executor."""
        self._on_message(lambda: self._shutdown_executor((framework_id, executor_id)))

    # for tasks

    def when_up(self, action: Callable[[], None]) -> None:
        """Do something now, or when the agent is up again."""
        if self.condition is Condition.UP:
            action()
        else:
            self._deferred.append(action)

    def watch(self) -> None:
        """End containers that run out of memory, from now on until none is left."""
        if not self._watched:
            self._end_starved()

    def leave(self, container: str) -> str | None:
        """Take a container down, with all that it left behind; return a message if memory ran out."""
        message = self.cell.leave(container)
        self._clear()
        return message

    def report(self, run: TaskRun, task_status: Json) -> None:
        """Queue a status of a task for the master."""
        if run.key not in self._runs or self._runs[run.key] is not run:
            return
        self._updates.add(run.key, task_status)
        if task_status["state"] in TERMINAL and not run.own_executor:
            executor = self._defaults.get((run.owner.id, run.executor_id))
            if executor is not None:
                executor.task_ended(run)

    # for misbehaviour on request

    def kill_executor(self, task_id: str) -> bool:
        """Kill the executor of a running command task, as if its process had crashed."""
        for run in self._runs.values():
            if run.task_id == task_id and run.running:
                run.destroy(("TASK_FAILED", "Executor terminated", "REASON_EXECUTOR_TERMINATED"))
                return True
        return False

    # inside

    def _end_starved(self) -> None:
        self._watched = self.cell.end_starved()
        if self._watched:
            self.loop.call_later(_LOOK_AGAIN, self._end_starved)

    def _clear(self) -> None:
        if not self.cell.clear():
            self.loop.call_later(_CLEAR_AGAIN, self._clear)

    def _register(self) -> None:
        if self.condition is not Condition.UP:
            return
        if not self.id:
            self.id = self._master.register(self) or ""
            return
        reports = [_report(run) for run in self._runs.values()]
        executors = {key: executor.resources for key, executor in self._defaults.items()}
        executors |= {key: executor.resources for key, executor in self._customs.items()}
        self._master.reregister(self, self.id, reports, executors)
        self._updates.resend()

    def _on_message(self, action: Callable[[], None]) -> None:
        if self.condition is not Condition.DOWN:
            self.when_up(action)

    def _see_deferred(self) -> None:
        deferred, self._deferred = self._deferred, []
        for action in deferred:
            action()

    def _launch(self, owner: Owner, task: Json, role: str) -> None:
        if "executor" in task:
            self._launch_custom(owner, task, role)
            return
        run = TaskRun(self, owner, task, role)
        self._runs[run.key] = run
        self._start_soon(run)

    def _launch_custom(self, owner: Owner, task: Json, role: str) -> None:
        info = task["executor"]
        key = (owner.id, info["executor_id"]["value"])
        executor = self._customs.get(key)
        if executor is not None:
            executor.add(task)
            return
        executor = CustomExecutor(self, owner, info, role, lambda status: self._executor_ended(key, status))
        self._customs[key] = executor
        executor.add(task)
        executor.start(lambda task_id, status: self._updates.add((owner.id, task_id), status))

    def _launch_group(self, owner: Owner, info: Json, tasks: list[Json], role: str) -> None:
        key = (owner.id, info["executor_id"]["value"])
        executor = self._defaults.get(key)
        if executor is None:
            executor = DefaultExecutor(self, owner, info, lambda status: self._executor_ended(key, status))
            self._defaults[key] = executor
        for run in executor.add(tasks, role):
            self._runs[run.key] = run
            self._start_soon(run)

    def _start_soon(self, run: TaskRun) -> None:
        """Start a task in a turn of the loop of its own, so that many launches do not hold up everything."""

        def start() -> None:
            if self._runs.get(run.key) is run and run.state == "TASK_STAGING":
                run.start()

        self.loop.call_later(self.options.launch_delay, self.when_up, start)

    def _kill(self, framework_id: str, task_id: str, grace: float | None) -> None:
        run = self._runs.get((framework_id, task_id))
        if run is None:
            for executor in self._customs.values():
                if executor.owner.id == framework_id and executor.kill(task_id):
                    return
        elif run.state == "TASK_STAGING" or run.running:
            run.kill(grace)

    def _shutdown_framework(self, framework_id: str) -> None:
        self._updates.forget(framework_id)
        grace = self.options.executor_shutdown_grace
        for key in [key for key in self._runs if key[0] == framework_id]:
            run = self._runs.pop(key)
            if run.running:
                run.kill(grace)
        for key in [key for key in self._customs if key[0] == framework_id]:
            self._customs.pop(key).destroy()
        for key in [key for key in self._defaults if key[0] == framework_id]:
            del self._defaults[key]

    def _shutdown_executor(self, key: Key) -> None:
        if key in self._customs:
            self._customs[key].shutdown()
        elif key in self._defaults:
            self._defaults[key].shutdown()
        elif key in self._runs and self._runs[key].running:
            self._runs[key].kill()

    def _abandon(self, framework_id: str) -> None:
        """Kill every task of a framework without updates."""
        self._updates.forget(framework_id)
        for key in [key for key in self._runs if key[0] == framework_id]:
            self._runs.pop(key).destroy(None)
        for key in [key for key in self._defaults if key[0] == framework_id]:
            del self._defaults[key]

    def _executor_ended(self, key: Key, wait_status: int) -> None:
        self._defaults.pop(key, None)
        self._customs.pop(key, None)
        self._master.executor_exited(self.id, *key, wait_status)

    def _send_update(self, update: StatusUpdate) -> None:
        if self.condition is Condition.UP:
            self._master.update(self.id, update)

    def _task_acknowledged(self, key: Key) -> None:
        run = self._runs.pop(key, None)
        if run is not None and not run.own_executor:
            executor = self._defaults.get((run.owner.id, run.executor_id))
            if executor is not None:
                executor.acknowledged(run)


def _owner(framework: Framework) -> Owner:
    info = framework.info
    killing = "TASK_KILLING_STATE" in info.capabilities
    return Owner(framework.id, info.user, info.checkpoint, framework.partition_aware, killing)


def _report(run: TaskRun) -> TaskReport:
    executor_id = "" if run.own_executor else run.executor_id
    return TaskReport(run.owner.id, run.info, run.state, executor_id, run.container_status)
