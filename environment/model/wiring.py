"""Snapshots and restores the cluster model's components, which three builders in the folders make.

These are `vms/vm_parts.py`, `jobs/job_parts.py` and `tasks/task_parts.py`, each on top of the one before.

The only event here is `Restored`; `cluster_model.py` handles the others.
"""

from copy import copy

from environment.model.jobs.job_parts import JobParts
from environment.model.messages import events as ev
from environment.model.messages.options import ModelOptions
from environment.model.messages.records import ExecutorRecord
from environment.model.messages.snapshot import ModelSnapshot, QueueState
from environment.model.preemption import PreemptionState
from environment.model.tasks.task_parts import TaskParts
from environment.model.vm_events import VmEvents
from environment.model.vm_moves import VmMoves
from environment.model.vms.max_capacity import MaxCapacity
from environment.model.vms.vm_parts import VmParts
from environment.queues.types import Sharing
from environment.types import Vm


class ModelWiring:
    """All that a cluster model knows."""

    def __init__(self, options: ModelOptions) -> None:
        """Know nothing."""
        self.options = options
        self.vms = VmParts(options)
        self.jobs = JobParts(self.vms, options)
        self.tasks = TaskParts(self.vms, self.jobs)
        self.preempting = PreemptionState(self.vms, self.jobs, self.tasks)
        self.moving = VmMoves(options, self.vms, self.jobs, self.tasks)
        self.comings = VmEvents(self.vms, self.jobs, self.tasks, self.preempting)

    # ---- what is kept ------------------------------------------------------------------------------

    def snapshot(self) -> ev.Restored:
        """An event after which any model goes on exactly as these parts do."""
        vms, jobs = self.vms, self.jobs
        relaunch_at, told, growing = jobs.line.state()
        moment = ModelSnapshot(
            vms.turn.number,
            vms.supply.state(),
            vms.book.state(),
            jobs.watch.state(),
            relaunch_at,
            told,
            *jobs.setbacks.state(),
            growing,
            vms.fleet.state(),
            *self.preempting.state(),
            jobs.stage.state(),
            self.moving.state(),
        )
        leases, accounts, policy = vms.places.leases(), vms.accounts.state(), vms.accounts.policy
        records, sharing = vms.roster.records(), self.preempting.sharing
        return ev.Restored(
            vms.turn.now, *records, self.options, moment, leases, accounts, policy, sharing=sharing
        )

    @classmethod
    def restored(cls, event: ev.Restored) -> "ModelWiring":
        """Restore the state of an earlier daemon, or of an earlier part of a log."""
        parts = cls(event.options)
        parts._restore(event)
        return parts

    def _restore(self, event: ev.Restored) -> None:
        vms, jobs = self.vms, self.jobs
        vms.turn.begin(event.at)
        for job in map(copy, event.jobs):
            vms.roster.add(job)
        for task in map(copy, event.tasks):
            vms.roster.add_task(task)
            if not task.ended:
                vms.ledger.reopen(task)
        known = event.moment is not None
        vms.accounts.resume(event.accounts, event.policy, event.leases, vms.turn.now, found=known)
        fleet = event.moment.fleet if event.moment else None
        vms.fleet.restore(event.leases, event.pools, event.paid, fleet)
        if event.moment is None:
            vms.reservations.take_up(event.reserved, vms.still_waits)
        never = jobs.hold_again(dict(event.ends))
        for job in vms.roster.by_entry():
            waits = job.state == "queued" and job.job.begins_with and not job.held
            if waits and job.job.id not in vms.reservations:
                jobs.line.join(job)
        self.share(event.sharing)
        if event.moment is None:
            self._take_up()
            if jobs.stage and (event.spent or event.used):
                jobs.stage.resume(QueueState(event.used, spent=event.spent))
        else:
            self._go_on(event.moment)
        for job, why in never:
            if not job.ended:
                jobs.lives.end(job, "failed", why)

    def share(self, sharing: Sharing | None) -> None:
        """The cluster is shared so from now on."""
        self.preempting.sharing = sharing
        self.jobs.line.share(sharing)

    def _take_up(self) -> None:
        """Resume with the tasks and jobs that an earlier daemon saved."""
        for task in self.vms.roster.all_open():
            self.vms.book.guess(_vm_of(task))
            if task.state == "unreachable":
                self.jobs.watch.lost_sight(task)
        self.jobs.lives.take_up()

    def _go_on(self, moment: ModelSnapshot) -> None:
        vms, jobs = self.vms, self.jobs
        vms.turn.number = moment.number
        vms.book.resume(moment.book)
        vms.supply.resume(moment.supply)
        jobs.watch.resume(moment.watch)
        jobs.line.resume(moment.relaunch_at, moment.told, moment.growing)
        jobs.setbacks.resume(moment.job_setbacks, moment.vm_setbacks, moment.vms_started)
        self.preempting.resume(moment.takings, moment.sought_at, moment.not_taken)
        self.moving.resume(moment.moves)
        if moment.shared is not None:
            jobs.stage.resume(moment.shared)

    @property
    def keeps(self) -> bool:
        """Whether something is kept for jobs, or may be: VMs come, or jobs give way to others."""
        return bool(self.vms.places or self.preempting)

    # ---- where nothing can be had ------------------------------------------------------------------

    def left_out(self) -> dict[str, str]:
        """The VMs on which nothing is placed now, by id, and why."""
        vms = self.vms
        closed = vms.book.closed(vms.turn.now, self.options.maintenance_margin)
        return {**self.jobs.setbacks.left_out(), **vms.places.left_out, **closed}

    def reach(self) -> MaxCapacity:
        """Return the capacity that would be available now if no task held anything."""
        return self.vms.book.reach(self.left_out())


def _vm_of(task: ExecutorRecord) -> Vm:
    return Vm(
        task.vm_id,
        task.vm_name,
        task.vm_type,
        task.resources,
        task.price_per_hour,
        task.address,
    )
