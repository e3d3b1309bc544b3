"""Builds the parts of the cluster model that know jobs: queue, order, and the steps of their lives."""

from collections.abc import Mapping

from environment.model.jobs.backoff import LaunchBackoff
from environment.model.jobs.dependency_release import Releases
from environment.model.jobs.jvm_limit import JvmRoom
from environment.model.jobs.lifecycle import JobLifecycle
from environment.model.jobs.memory_retry import MemoryRetries
from environment.model.jobs.ordering import OrderStage
from environment.model.jobs.reconciliation import Watch
from environment.model.jobs.retries import Retries
from environment.model.jobs.user_limits import UserLimits
from environment.model.jobs.waiting_queue import WaitingLine
from environment.model.messages.options import ModelOptions
from environment.model.messages.records import JobRecord
from environment.model.vms.vm_parts import VmParts


class JobParts:
    """Queue, order, retries and life of jobs, on top of the knowledge of VMs."""

    def __init__(self, vms: VmParts, options: ModelOptions) -> None:
        turn, roster = vms.turn, vms.roster
        self.setbacks = LaunchBackoff(turn, vms.places.dear)
        room = JvmRoom(roster, vms.reservations, options.jvms)
        self.stage = OrderStage(vms, self.setbacks, room)
        # What VMs of pools would cost that are opened for it is more than a job gains that runs already.
        grows_by_itself = not options.places
        self.line = WaitingLine(
            roster, self.setbacks, room, vms.reservations, self.stage, grows_by_itself=grows_by_itself
        )
        self.watch = Watch(turn, roster, options)
        self.releases = Releases(turn, roster)
        self.memory = MemoryRetries(turn, roster, self.line, vms.accounts)
        self.retries = Retries(turn, self.setbacks, self.memory)
        self.lives = JobLifecycle(
            turn,
            roster,
            self.line,
            vms.supply,
            self.watch,
            self.setbacks,
            self.releases,
            self.retries,
            options,
        )
        self.limits = UserLimits(turn, roster, self.line, self.lives, vms.ledger)
        self._roster = roster

    def hold_again(self, ends: Mapping[str, str]) -> list[tuple[JobRecord, str]]:
        """Hold jobs again unless they are free by now; return those that can never start, with the reason."""
        held = [job for job in self._roster.jobs() if job.held]
        for job in self._roster.jobs():
            if not job.held:
                self.releases.going(job)
        return [(job, why) for job in held if (why := self.releases.hold(job, ends))]
