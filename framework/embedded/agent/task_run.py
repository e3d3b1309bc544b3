"""One task on an agent, from its sandbox to its last status; the agent handles the consequences."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.embedded.agent.health_checks import Checker, CheckSchedule, TaskHealth
from framework.embedded.agent.processes import (
    ProcessGroup,
    appended,
    describe_exit,
    hand_over,
    switched_user,
)
from framework.embedded.agent.sandbox import Context, SandboxError, environment, fetching, run_folder
from framework.embedded.isolation import Entry
from framework.embedded.messages import Json, new_uuid, status
from framework.embedded.resource_messages import parse

if TYPE_CHECKING:
    from framework.embedded.agent.agent import Agent

_NANO = 1e9
#: Seconds from SIGKILL until all of a task's processes are killed, where its end is not seen.
_KILL_AGAIN = 1.0
# Mesos reports a program that is not there as one that ran and exited with 1.
_NO_SUCH_PROGRAM: Json = {"value": "exit 1", "shell": True}


@dataclass(frozen=True, slots=True)
class Owner:
    """The framework of a task, as far as its agent needs to know it."""

    id: str
    user: str
    checkpoint: bool
    partition_aware: bool
    told_of_killing: bool
    """Whether it wants TASK_KILLING."""


@dataclass(frozen=True, slots=True)
class _Launch:
    """Folder, environment and user of a task's commands."""

    folder: Path
    environment: dict[str, str]
    user: str | None


class TaskRun:
    """A task with a command: `start` it, `kill` it; its statuses go to the host."""

    def __init__(
        self,
        host: "Agent",
        owner: Owner,
        info: Json,
        role: str,
        executor_id: str | None = None,
        parent_container: str | None = None,
    ) -> None:
        self.host = host
        self.owner = owner
        self.info = info
        self.task_id: str = info["task_id"]["value"]
        self.own_executor = executor_id is None
        self.executor_id = executor_id if executor_id is not None else self.task_id
        #: The newest state; TASK_STAGING until the process was started.
        self.state = "TASK_STAGING"
        #: The container's status as in the last status of the task; None before the start.
        self.container_status: Json | None = None
        self._extra: Json = {}
        """Fields that checks add to the statuses: `healthy`, `check_status`."""
        self._role = role
        self._container_id = str(uuid.uuid4())
        self._size = parse(info["resources"]).scalars
        self._parent_container = parent_container
        self._group: ProcessGroup | None = None
        self._fetcher: ProcessGroup | None = None
        self._killed = False
        self._final: tuple[str, str | None, str | None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._checkers: list[Checker] = []
        self._launch: _Launch | None = None
        self._user: str | None = None
        """The user that its commands run as; None for the agent's own user."""

    @property
    def key(self) -> tuple[str, str]:
        """Framework id and task id."""
        return self.owner.id, self.task_id

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._group is not None

    def context(self) -> Context:
        """Owner of this sandbox."""
        folder = run_folder(self.host.folder, self.owner.id, self.executor_id, self._container_id)
        return Context(
            agent_id=self.host.id,
            agent_address=self.host.spec.address,
            framework_id=self.owner.id,
            executor_id=self.executor_id,
            container_id=self._container_id,
            role=self._role,
            checkpoint=self.owner.checkpoint,
            folder=folder,
        )

    def start(self) -> None:
        """Start the task once its URIs are fetched; a failure is reported as its end."""
        command = self.info["command"]
        uris = command.get("uris", [])
        refusal = _container_refusal(self.info.get("container"))
        context = self.context()
        try:
            self._user = switched_user(command.get("user", self.owner.user), root=self.host.options.root)
            context.folder.mkdir(parents=True)
            hand_over(context.folder, self._user)
        except KeyError:
            self._refuse_user(context, command)
            return
        except OSError as error:
            refusal = f"Failed to create executor directory: {error}", "REASON_CONTAINER_LAUNCH_FAILED"
        if refusal is not None:
            self._refuse("TASK_FAILED", *refusal)
        elif not uris:
            self._spawn(context)
        else:
            self._fetch(context, uris)

    def kill(self, grace: float | None = None) -> None:
        """End the task; `grace` (seconds) overrides its kill policy."""
        if self._group is None:
            self._end_fetching()
            self._final = ("TASK_KILLED", None, None)
            told = "Killed before delivery to the executor"
            self._refuse("TASK_KILLED", told, "REASON_TASK_KILLED_DURING_LAUNCH")
            return
        policy = self.info.get("kill_policy", {}).get("grace_period")
        own = self.host.options.kill_grace if policy is None else policy["nanoseconds"] / _NANO
        if self.owner.told_of_killing and not self._killed:
            self.report("TASK_KILLING")
        self._killed = True
        self._terminate(self._group, own if grace is None else grace)

    def destroy(self, outcome: tuple[str, str | None, str | None] | None) -> None:
        """Kill at once; the end is reported as `outcome` (state, message, reason), None: not at all."""
        self._final = outcome
        if outcome is None:
            self.state = "TASK_KILLED"
        self._end_fetching()
        if self._group is not None:
            self._group.signal(9)
            self.host.loop.call_later(_KILL_AGAIN, self._kill_the_rest)

    def report(self, state: str, message: str | None = None, **fields: Any) -> None:
        """Send a status as the executor would."""
        self.state = state
        fields = self._extra | fields | {"container_status": self.container_status}
        self._send(state, "SOURCE_EXECUTOR", message, **fields)

    def signal(self, number: int) -> None:
        """Send a signal to the process group."""
        if self._group is not None:
            self._group.signal(number)

    # inside

    def _terminate(self, group: ProcessGroup, grace: float) -> None:
        group.terminate(grace)
        self.host.loop.call_later(grace + _KILL_AGAIN, self._kill_the_rest)

    def _kill_the_rest(self) -> None:
        """Kill processes that left the group of a task, until its end is seen: one may trace it (ptrace)."""
        if self._group is not None:
            self._group.signal(9)
            self.host.processes.closed(self._container_id)
            self.host.loop.call_later(_KILL_AGAIN, self._kill_the_rest)

    def _fetch(self, context: Context, uris: list[Json]) -> None:
        try:
            self._fetcher = self.host.processes.spawn(
                fetching(uris, self._user),
                folder=context.folder,
                owner=self._user,
                on_exit=lambda wait_status: self.host.when_up(lambda: self._fetched(context, wait_status)),
            )
        except (OSError, KeyError) as error:  # KeyError: its user is gone
            told = f"Failed to launch container: {error}"
            self._refuse("TASK_FAILED", told, "REASON_CONTAINER_LAUNCH_FAILED")

    def _fetched(self, context: Context, wait_status: int) -> None:
        self._fetcher = None
        if self.state != "TASK_STAGING":
            return
        if wait_status == 0:
            self._spawn(context)
            return
        told = f"Failed to fetch all URIs for container '{self._container_id}': exited with status 1"
        reason = "REASON_CONTAINER_LAUNCH_FAILED"
        self._refuse("TASK_FAILED", f"Failed to launch container: {told}", reason)

    def _end_fetching(self) -> None:
        if self._fetcher is not None:
            self._fetcher.signal(9)

    def _spawn(self, context: Context) -> None:
        command = self.info["command"]
        try:
            # A command's own executor has the task's id; Mesos names the task only where one has several.
            variables = environment(command, context, None if self.own_executor else self.task_id)
        except (SandboxError, OSError) as error:
            told = f"Failed to launch container: {error}"
            self._refuse("TASK_FAILED", told, "REASON_CONTAINER_LAUNCH_FAILED")
            return
        if self._user is not None:
            variables["HOME"] = str(context.folder)  # ours is not for others
        self._launch = _Launch(context.folder, variables, self._user)
        self.host.processes.opened(self._container_id)
        self._group = self._execute(command, self._exited) or self._execute(_NO_SUCH_PROGRAM, self._exited)
        if self._group is None:
            self.host.processes.closed(self._container_id)
            told = "Failed to launch container: no process can be started with this environment"
            self._refuse("TASK_FAILED", told, "REASON_CONTAINER_LAUNCH_FAILED")
            return
        self.container_status = self._container(self._group.pid)
        self._watch_deadline()
        self._start_checks()
        self.report("TASK_STARTING")
        self.report("TASK_RUNNING")

    def _execute(self, command: Json, on_exit: Callable[[int], None]) -> ProcessGroup | None:
        """Start a command in the sandbox; a failure to start is written to the task's stderr."""
        assert self._launch is not None  # noqa: S101 (set before the first command)
        folder = self._launch.folder
        try:
            entry = Entry(*command_line(command), self._launch.user, self._launch.environment)
            group = self.host.processes.spawn(
                self.host.cell.wrap(entry, self._container_id, self._size.cpus, self._size.memory_mib),
                folder=folder,
                owner=self._launch.user,
                on_exit=lambda wait_status: self.host.when_up(lambda: on_exit(wait_status)),
            )
            self.host.watch()
            return group
        except (OSError, ValueError, KeyError) as error:  # KeyError: its user is gone
            with (
                contextlib.suppress(OSError, KeyError),
                appended(folder / "stderr", self._launch.user) as err,
            ):
                err.write(f"Failed to execute command: {error}\n".encode())
            return None

    def _exited(self, wait_status: int) -> None:
        self._group = None
        if self._deadline is not None:
            self._deadline.cancel()
        for checker in self._checkers:
            checker.stop()
        self.host.processes.closed(self._container_id)
        memory_story = self.host.leave(self._container_id)
        if self.state == "TASK_KILLED":
            return
        if self._final is not None and self._final[2] == "REASON_EXECUTOR_TERMINATED":
            self._refuse(self._final[0], *self._final[1:])
            return
        if memory_story is not None and wait_status != 0 and self._final is None and not self._killed:
            self._refuse("TASK_FAILED", memory_story, "REASON_CONTAINER_LIMITATION_MEMORY")
            return
        if self._final is not None:
            state, _, reason = self._final
        elif self._killed:
            state, reason = "TASK_KILLED", None
        else:
            state, reason = "TASK_FINISHED" if wait_status == 0 else "TASK_FAILED", None
        if self._extra.get("healthy"):
            del self._extra["healthy"]
        if "check_status" in self._extra:
            self._extra["check_status"] = _unknown_check()
        self.report(state, describe_exit(wait_status), reason=reason)

    def _refuse(self, state: str, message: str | None, reason: str | None) -> None:
        """Report the end as the agent would, without an executor."""
        self.state = state
        self._send(state, "SOURCE_AGENT", message, reason=reason)

    def _refuse_user(self, context: Context, command: Json) -> None:
        user = command.get("user", self.owner.user)
        told = (
            f"Failed to create executor directory '{context.folder}': Failed to chown directory to '{user}'"
        )
        state = "TASK_DROPPED" if self.owner.partition_aware else "TASK_LOST"
        self._refuse(state, f"{told}: No such user '{user}'", "REASON_EXECUTOR_TERMINATED")

    def _send(self, state: str, source: str, message: str | None, **fields: Any) -> None:
        task_status = status(
            self.task_id,
            state,
            source=source,
            message=message,
            reason=fields.pop("reason", None),
            agent_id=self.host.id,
            executor_id=self.executor_id,
            uuid=new_uuid(),
            **fields,
        )
        self.host.report(self, task_status)

    def _container(self, pid: int) -> Json:
        identity: Json = {"value": self._container_id}
        if self._parent_container is not None:
            identity["parent"] = {"value": self._parent_container}
        address = {"protocol": "IPv4", "ip_address": self.host.spec.address}
        networks = [{"ip_addresses": [address]}]
        return {"container_id": identity, "network_infos": networks, "executor_pid": pid}

    def _watch_deadline(self) -> None:
        allowed = self.info.get("max_completion_time")
        if allowed is not None:
            self._deadline = self.host.loop.call_later(allowed["nanoseconds"] / _NANO, self._out_of_time)

    def _start_checks(self) -> None:
        health, check = self.info.get("health_check"), self.info.get("check")
        loop = self.host.loop
        if health is not None and "command" in health:
            judge = TaskHealth(health, loop.time(), self._health_changed)
            self._add_checker(health["command"], health, lambda code: judge.result(code, loop.time()))
        if check is not None and "command" in check:
            self._extra["check_status"] = _unknown_check()
            self._add_checker(check["command"]["command"], check, self._checked)

    def _add_checker(self, command: Json, message: Json, on_result: Callable[[int | None], None]) -> None:
        schedule = CheckSchedule.of(message)
        self._checkers.append(Checker(command, schedule, self._execute, on_result, self.host.loop))

    def _health_changed(self, healthy: bool, kill: bool) -> None:
        self._extra["healthy"] = healthy
        self.report("TASK_RUNNING", reason="REASON_TASK_HEALTH_CHECK_STATUS_UPDATED")
        if kill and not self._killed:
            self.kill()

    def _checked(self, exit_code: int | None) -> None:
        result = _unknown_check() if exit_code is None else _unknown_check(exit_code=exit_code)
        if result != self._extra["check_status"]:
            self._extra["check_status"] = result
            self.report("TASK_RUNNING", reason="REASON_TASK_CHECK_STATUS_UPDATED")

    def _out_of_time(self) -> None:
        self._final = ("TASK_FAILED", None, "REASON_MAX_COMPLETION_TIME_REACHED")
        if self._group is not None:
            self._terminate(self._group, self.host.options.kill_grace)


def _unknown_check(**result: int) -> Json:
    return {"type": "COMMAND", "command": result}


def command_line(command: Json) -> tuple[list[str], str | None]:
    """The argv and executable of a command; the executable is None where argv names it."""
    value = command.get("value", "")
    if command.get("shell", True):
        return ["/bin/sh", "-c", value], None
    return command.get("arguments") or [value], value


def _container_refusal(container: Json | None) -> tuple[str, str] | None:
    """Message and reason for a container that an agent without containers cannot provide."""
    if container is None:
        return None
    if container["type"] == "DOCKER":
        return "Abnormal executor termination: unknown container", "REASON_EXECUTOR_TERMINATED"
    reason = "REASON_CONTAINER_LAUNCH_FAILED"
    image = container.get("mesos", {}).get("image")
    if image is not None:
        told = f"Unsupported container image type: {image.get('type')}"
        return f"Failed to launch container: {told}", reason
    if container.get("volumes"):
        return "Failed to launch container: Volumes in ContainerInfo is not supported", reason
    return None
