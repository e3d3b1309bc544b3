"""Components of a term's scheduler, and the three ways in which the loop serves them all alike."""

from dataclasses import dataclass
from typing import Protocol

from daemon.launch.launching import Launching
from daemon.policy.active_policies import PolicySwitch
from daemon.queues.queues import DaemonQueues
from daemon.scheduler.command_executor import CommandExecutor
from daemon.scheduler.foundation import Foundation
from daemon.scheduler.readiness import Readiness
from daemon.scheduler.saving import Saver
from daemon.scheduler.stage_timings import Stages
from daemon.scheduler.timers import Timers
from daemon.submission.submissions import JobSubmissions
from daemon.vms.vms import Vms
from daemon.what_if.forecasts import Forecasts
from environment.model.vms.job_registry import Changes
from framework.substrate import Substrate


class Ticks(Protocol):
    """Works a little at every tick of the loop."""

    def tick(self) -> None:
        """Do the work that is due; never waits."""
        ...


class Observes(Protocol):
    """Follows stored changes."""

    def observe(self, changes: Changes) -> None:
        """These records were stored just now."""
        ...


class Closes(Protocol):
    """Has threads, processes or files that end with the term."""

    def close(self) -> None:
        """End them; jobs go on."""
        ...


@dataclass(frozen=True, slots=True)
class Components:
    """Everything that the loop drives and the service reads; `daemon.scheduler.build` makes it."""

    base: Foundation
    substrate: Substrate
    policies: PolicySwitch
    launching: Launching
    vms: Vms
    queues: DaemonQueues
    submissions: JobSubmissions
    forecasts: Forecasts
    saver: Saver
    stages: Stages
    commands: CommandExecutor
    timers: Timers
    readiness: Readiness

    @property
    def ticking(self) -> tuple[Ticks, ...]:
        """In the order in which they are served."""
        return self.launching, self.submissions, self.vms

    @property
    def observing(self) -> tuple[Observes, ...]:
        """In the order in which they are told."""
        return (
            self.stages,
            self.saver.budget,
            self.queues,
            self.launching,
            self.submissions,
            self.policies,
            self.forecasts,
        )

    @property
    def closing(self) -> tuple[Closes, ...]:
        """In the order in which they end."""
        return self.vms, self.launching, self.forecasts, self.policies, self.saver
