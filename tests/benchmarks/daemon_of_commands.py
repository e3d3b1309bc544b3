"""A real `stoker up` with a plain command as executor instead of Spark, for benchmarks of the rest.

    python -m tests.benchmarks.daemon_of_commands CONFIG COMMAND...

Only the launcher is replaced: executors are the command, drivers are nothing and end well as soon as they
are polled when the command is `true`, and never otherwise.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

from conf.loader import load
from conf.schema import Config, JobSpec
from daemon import server, wiring
from daemon.core.identity import NOBODY, Submitter
from daemon.launch.launcher import Launcher
from environment.model.messages.records import ExecutorRecord
from environment.types import Job
from framework.spark import DriverStatus, ProcessSpec


class CommandLauncher(Launcher):
    """Launches the command that the program was called with."""

    command: tuple[str, ...] = ("true",)

    def check(
        self, spec: JobSpec, submitter: Submitter = NOBODY, sends: Mapping[str, int] | None = None
    ) -> None:
        """Everything can be launched."""

    def describe(
        self, task: ExecutorRecord, job: Job, spec: JobSpec, tasks: Sequence[ExecutorRecord]
    ) -> tuple[ProcessSpec, str]:
        """The command."""
        return ProcessSpec(self.command, {}, {}), task.task_id

    def start_driver(
        self,
        job: Job,
        spec: JobSpec,
        tasks: Sequence[ExecutorRecord],
        before: Callable[[], float] = lambda: 0.0,
    ) -> DriverStatus:
        """Nothing."""
        return DriverStatus("running")

    def driver_status(self, job_id: str) -> DriverStatus:
        """Over at once, or never."""
        return DriverStatus("ended", 0) if self.command == ("true",) else DriverStatus("running")

    def stop_driver(self, job_id: str) -> None:
        """Nothing."""


def main() -> int:
    """Serve until SIGTERM."""
    path = Path(sys.argv[1])
    CommandLauncher.command = tuple(sys.argv[2:])
    with patch.object(wiring, "Launcher", CommandLauncher):  # the one that a daemon makes
        return server.run(load(path, Config), path.parent, "warning")


if __name__ == "__main__":
    sys.exit(main())
