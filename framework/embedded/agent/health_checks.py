"""Checks and health checks of running tasks, by command; those by HTTP or TCP are not embedded."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from framework.embedded.agent.processes import ProcessGroup

Json = dict[str, Any]
Spawn = Callable[[Json, Callable[[int], None]], ProcessGroup | None]
"""Starts a command in a task's sandbox and calls back with its wait status; None when it cannot start."""

_SIGKILL = 9
_NOT_STARTED = 127 << 8


@dataclass(frozen=True, slots=True)
class CheckSchedule:
    """Schedule of a check, seconds."""

    delay: float
    interval: float
    timeout: float

    @classmethod
    def of(cls, message: Json) -> "CheckSchedule":
        """The schedule of a check, with Mesos' defaults."""
        return cls(
            delay=max(0.0, message.get("delay_seconds", 15.0)),
            interval=max(0.01, message.get("interval_seconds", 10.0)),
            timeout=message.get("timeout_seconds", 20.0) or float("inf"),
        )


class Checker:
    """Runs one command again and again; `on_result` gets its exit code, None when it ran out of time."""

    def __init__(
        self,
        command: Json,
        schedule: CheckSchedule,
        spawn: Spawn,
        on_result: Callable[[int | None], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._command = command
        self._schedule = schedule
        self._spawn = spawn
        self._on_result = on_result
        self._loop = loop
        self._group: ProcessGroup | None = None
        self._expired = False
        self._ended = False
        self._timer = loop.call_later(schedule.delay, self._run)
        self._limit: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        """End the checks; a running one is killed and its result dropped."""
        self._ended = True
        self._timer.cancel()
        if self._group is not None:
            self._group.signal(_SIGKILL)

    def _run(self) -> None:
        self._expired = False
        if self._schedule.timeout != float("inf"):
            self._limit = self._loop.call_later(self._schedule.timeout, self._expire)
        self._group = self._spawn(self._command, self._exited)
        if self._group is None:
            self._exited(_NOT_STARTED)

    def _expire(self) -> None:
        self._expired = True
        if self._group is not None:
            self._group.signal(_SIGKILL)

    def _exited(self, wait_status: int) -> None:
        self._group = None
        if self._limit is not None:
            self._limit.cancel()
        if self._ended:
            return
        self._timer = self._loop.call_later(self._schedule.interval, self._run)
        self._on_result(None if self._expired else os.waitstatus_to_exitcode(wait_status))


class TaskHealth:
    """Turns the results of a health check into reports of its task.

    `on_change` receives whether the task is healthy, and whether it must be killed as unhealthy.
    """

    def __init__(self, message: Json, now: float, on_change: Callable[[bool, bool], None]) -> None:
        self._limit = message.get("consecutive_failures", 3)
        self._grace_until = now + message.get("grace_period_seconds", 10.0)
        self._on_change = on_change
        self._failures = 0
        self._known = False

    def result(self, exit_code: int | None, now: float) -> None:
        """Take one result."""
        if exit_code == 0:
            if not self._known or self._failures:
                self._on_change(True, False)
            self._known, self._failures = True, 0
        elif self._known or now >= self._grace_until:
            self._known, self._failures = True, self._failures + 1
            self._on_change(False, self._failures >= self._limit)
