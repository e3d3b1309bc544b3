"""Executors other than the command executor: the default one of task groups, and frameworks' own."""

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from framework.embedded.agent.processes import ProcessGroup, hand_over, switched_user
from framework.embedded.agent.sandbox import Context, SandboxError, environment, run_folder
from framework.embedded.agent.task_run import Owner, TaskRun, command_line
from framework.embedded.isolation import Entry
from framework.embedded.messages import Json, new_uuid, status
from framework.embedded.resource_messages import Amount, parse

if TYPE_CHECKING:
    from framework.embedded.agent.agent import Agent

_SIGKILL = 9


class DefaultExecutor:
    """Runs the tasks of groups; ends when the last of them has ended and that was acknowledged.

    When one task of a group fails, the others of that group are killed.
    """

    def __init__(self, host: "Agent", owner: Owner, info: Json, on_end: Callable[[int], None]) -> None:
        self.id: str = info["executor_id"]["value"]
        self.owner = owner
        self.resources: Amount = parse(info.get("resources", []))
        self._host = host
        self._on_end = on_end
        self._container_id = str(uuid.uuid4())
        self._groups: list[list[TaskRun]] = []

    def add(self, tasks: list[Json], role: str) -> list[TaskRun]:
        """Take a group in and return its tasks, not yet started."""
        runs = [TaskRun(self._host, self.owner, task, role, self.id, self._container_id) for task in tasks]
        self._groups.append(runs)
        return runs

    def task_ended(self, run: TaskRun) -> None:
        """Kill the others of a group when one of its tasks did not finish well."""
        for group in self._groups:
            if run in group and run.state != "TASK_FINISHED":
                for other in group:
                    if other.running:
                        other.kill()

    def acknowledged(self, run: TaskRun) -> None:
        """Drop a task after the acknowledgement of its end, and end with the last one."""
        self._groups = [[other for other in group if other is not run] for group in self._groups]
        if not any(self._groups):
            self._on_end(0)

    def shutdown(self) -> None:
        """Kill every task; the end follows."""
        for group in self._groups:
            for run in group:
                if run.state == "TASK_STAGING" or run.running:
                    run.kill()


class CustomExecutor:
    """A framework's own executor: its process is started, its tasks wait until it registers.

    Nothing can register with an embedded agent, so tasks end when the process does, or when the time to
    register is over.
    """

    def __init__(
        self, host: "Agent", owner: Owner, info: Json, role: str, on_end: Callable[[int], None]
    ) -> None:
        self.id: str = info["executor_id"]["value"]
        self.owner = owner
        self.resources: Amount = parse(info.get("resources", []))
        self._host = host
        self._info = info
        self._role = role
        self._on_end = on_end
        self._waiting: dict[str, Json] = {}
        self._group: ProcessGroup | None = None
        self._report: Callable[[str, Json], None] = lambda _task_id, _status: None

    def start(self, report: Callable[[str, Json], None]) -> None:
        """Start the process; `report` takes statuses of waiting tasks by their id."""
        self._report = report
        context = self._context()
        command = self._info["command"]
        try:
            user = switched_user(command.get("user", self.owner.user), root=self._host.options.root)
            context.folder.mkdir(parents=True)
            hand_over(context.folder, user)
            self._host.processes.opened(context.container_id)
            entry = Entry(*command_line(command), user, environment(command, context, None))
            self._group = self._host.processes.spawn(
                # No memory of its own: it runs its tasks, which have theirs beside the executor's.
                self._host.cell.wrap(entry, context.container_id, self.resources.scalars.cpus, 0.0),
                folder=context.folder,
                owner=user,
                on_exit=lambda status: self._host.when_up(lambda: self._exited(status, context.container_id)),
            )
        except (OSError, ValueError, KeyError, SandboxError):
            self._exited(1 << 8, context.container_id)
            return
        limit = self._host.options.executor_registration_timeout
        self._host.loop.call_later(limit, self._group.signal, _SIGKILL)

    def add(self, task: Json) -> None:
        """Let a task wait for the executor."""
        self._waiting[task["task_id"]["value"]] = task

    def kill(self, task_id: str) -> bool:
        """Kill a waiting task; False when it does not wait here."""
        if self._waiting.pop(task_id, None) is None:
            return False
        told = "Killed before delivery to the executor"
        self._end_task(task_id, "TASK_KILLED", told, "REASON_TASK_KILLED_DURING_LAUNCH")
        return True

    def shutdown(self) -> None:
        """Kill the process when its time to end by itself is over."""
        if self._group is not None:
            grace = self._host.options.executor_shutdown_grace
            self._host.loop.call_later(grace, self._group.signal, _SIGKILL)

    def destroy(self) -> None:
        """Kill at once, without a report."""
        self._waiting.clear()
        self._on_end = _ignore
        if self._group is not None:
            self._group.signal(_SIGKILL)

    def _exited(self, wait_status: int, container: str) -> None:
        self._host.processes.closed(container)
        self._host.leave(container)
        self._on_end(wait_status)
        for task_id in list(self._waiting):
            del self._waiting[task_id]
            self._end_task(task_id, "TASK_FAILED", "Executor terminated", "REASON_EXECUTOR_TERMINATED")

    def _end_task(self, task_id: str, state: str, message: str, reason: str) -> None:
        fields = {"message": message, "reason": reason, "uuid": new_uuid()}
        agent_id, executor_id = self._host.id, self.id
        answer = status(
            task_id, state, source="SOURCE_AGENT", agent_id=agent_id, executor_id=executor_id, **fields
        )
        self._report(task_id, answer)

    def _context(self) -> Context:
        container_id = str(uuid.uuid4())
        return Context(
            agent_id=self._host.id,
            agent_address=self._host.spec.address,
            framework_id=self.owner.id,
            executor_id=self.id,
            container_id=container_id,
            role=self._role,
            checkpoint=self.owner.checkpoint,
            folder=run_folder(self._host.folder, self.owner.id, self.id, container_id),
        )


def _ignore(_wait_status: int) -> None:
    return None
