"""Builds the cluster model's components, wires them together, snapshots and restores them.

The only event here is `Restored`; `cluster_model.py` handles the others.
"""

from collections.abc import Mapping
from copy import copy

from environment.model.jobs.backoff import LaunchBackoff
from environment.model.jobs.dependency_release import Releases
from environment.model.jobs.jvm_limit import JvmRoom
from environment.model.jobs.lifecycle import JobLifecycle
from environment.model.jobs.ordering import OrderStage
from environment.model.jobs.reconciliation import Watch
from environment.model.jobs.retries import Retries
from environment.model.jobs.waiting_queue import WaitingLine
from environment.model.messages import events as ev
from environment.model.messages.event_context import EventContext
from environment.model.messages.options import ModelOptions
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.model.messages.snapshot import ModelSnapshot, QueueState, ReservedJob
from environment.model.preemption import PreemptionState
from environment.model.tasks.decisions import Decisions
from environment.model.tasks.drivers import Drivers
from environment.model.tasks.task_loss import TaskLoss
from environment.model.tasks.tasks import Tasks
from environment.model.vm_events import VmEvents
from environment.model.vms.fleet import Fleet
from environment.model.vms.job_registry import JobRegistry
from environment.model.vms.max_capacity import MaxCapacity
from environment.model.vms.offer_demand import Supply
from environment.model.vms.offers import Offers
from environment.model.vms.pool_slots import Places
from environment.model.vms.reservations import Reservations
from environment.model.vms.usage_ledger import Ledger
from environment.queues.types import Sharing
from environment.resources import NOTHING, Resources, total
from environment.types import Job, Vm


class ModelWiring:
    """All that a cluster model knows."""

    def __init__(self, options: ModelOptions) -> None:
        """Know nothing."""
        self.options = options
        self.turn = EventContext()
        self.roster = JobRegistry()
        self.ledger = Ledger(self._job)
        self.accounts = self.ledger.accounts
        self.setbacks = LaunchBackoff(self.turn)
        self.reservations = Reservations()
        room = JvmRoom(self.roster, self.reservations, options.jvms)
        # What VMs of pools would cost that are opened for it is more than a job gains that runs already.
        self.stage = OrderStage(
            self.turn,
            self.roster,
            self.setbacks,
            room,
            self.reservations,
            self.ledger,
            self._whole,
            lambda request: self.places.asked(request) if self.places else request,
        )
        self._vms: tuple[Vm, ...] | None = None
        self._has = NOTHING
        self.line = WaitingLine(
            self.roster,
            self.setbacks,
            room,
            self.reservations,
            self.stage,
            grows_by_itself=not options.places,
        )
        self.book = Offers(self.ledger, self.reservations)
        self.places = Places(self.turn, self.book, self.accounts, options.places)
        self.fleet = Fleet(self.turn, self.places, self.ledger, self.reservations, options)
        self.joining = self.fleet.joining
        self.supply = Supply(self.turn, self.book, self.places)
        self.watch = Watch(self.turn, self.roster, options)
        self.releases = Releases(self.turn, self.roster)
        retries = Retries(self.turn, self.setbacks)
        self.lives = JobLifecycle(
            self.turn,
            self.roster,
            self.line,
            self.supply,
            self.watch,
            self.setbacks,
            self.releases,
            retries,
            options,
        )
        self.losing = TaskLoss(self.turn, self.roster, self.line, self.setbacks, retries, self.lives)
        self.drivers = Drivers(self.turn, self.roster, self.lives, self.losing, self.watch)
        self.tasks = Tasks(
            self.turn,
            self.roster,
            self.book,
            self.ledger,
            self.supply,
            self.watch,
            self.lives,
            self.losing,
            self.fleet.idling,
            self.drivers,
        )
        self.decisions = Decisions(
            self.turn,
            self.roster,
            self.line,
            self.book,
            self.ledger,
            self.supply,
            self.setbacks,
            self.lives,
            self.fleet,
            self.places,
            self.reservations,
            self.stage,
        )
        self.preempting = PreemptionState(
            self.turn,
            self.roster,
            self.line,
            self.lives,
            self.drivers,
            self.decisions,
            self.reservations,
            self.places,
            self.accounts,
        )
        self.comings = VmEvents(
            self.fleet,
            self.reservations,
            self.decisions,
            self.tasks,
            self.setbacks,
            self.supply,
            self.preempting,
        )

    # ---- what is kept ------------------------------------------------------------------------------

    def snapshot(self) -> ev.Restored:
        """An event after which any model goes on exactly as these parts do."""
        relaunch_at, told, growing = self.line.state()
        moment = ModelSnapshot(
            self.turn.number,
            self.supply.state(),
            self.book.state(),
            self.watch.state(),
            relaunch_at,
            told,
            *self.setbacks.state(),
            growing,
            self.fleet.state(),
            *self.preempting.state(),
            self.stage.state(),
        )
        jobs, tasks = self.roster.records()
        leases, accounts, policy = self.places.leases(), self.accounts.state(), self.accounts.policy
        sharing = self.preempting.sharing
        return ev.Restored(
            self.turn.now, jobs, tasks, self.options, moment, leases, accounts, policy, sharing=sharing
        )

    @classmethod
    def restored(cls, event: ev.Restored) -> "ModelWiring":
        """Restore the state of an earlier daemon, or of an earlier part of a log."""
        parts = cls(event.options)
        parts._restore(event)
        return parts

    def _restore(self, event: ev.Restored) -> None:
        self.turn.begin(event.at)
        for job in map(copy, event.jobs):
            self.roster.add(job)
        for task in map(copy, event.tasks):
            self.roster.add_task(task)
            if not task.ended:
                self.ledger.reopen(task)
        known = event.moment is not None
        self.accounts.resume(event.accounts, event.policy, event.leases, self.turn.now, found=known)
        self.fleet.restore(event.leases, event.pools, event.moment.fleet if event.moment else None)
        if event.moment is None:
            self.reservations.take_up(event.reserved, self._still_waits)
        never = self._hold_again(dict(event.ends))
        for job in self.roster.by_entry():
            waits = job.state == "queued" and job.job.begins_with and not job.held
            if waits and job.job.id not in self.reservations:
                self.line.join(job)
        self.share(event.sharing)
        if event.moment is None:
            self._take_up()
            if self.stage and (event.spent or event.used):
                self.stage.resume(QueueState(event.used, spent=event.spent))
        else:
            self._go_on(event.moment)
        for job, why in never:
            if not job.ended:
                self.lives.end(job, "failed", why)

    def _hold_again(self, ends: Mapping[str, str]) -> list[tuple[JobRecord, str]]:
        """Hold jobs again unless they are free by now; return those that can never start, with the reason."""
        held = [job for job in self.roster.jobs() if job.held]
        for job in self.roster.jobs():
            if not job.held:
                self.releases.going(job)
        return [(job, why) for job in held if (why := self.releases.hold(job, ends))]

    def share(self, sharing: Sharing | None) -> None:
        """The cluster is shared so from now on."""
        self.preempting.sharing = sharing
        self.line.share(sharing)

    def _whole(self) -> Resources:
        """Total resources of all VMs, including closed ones of pools."""
        vms = self.book.vms()
        if vms is not self._vms:
            self._vms = vms
            self._has = total(vm.resources for vm in (self.places.as_places(vms) if self.places else vms))
        return self._has

    def _still_waits(self, reserved: ReservedJob) -> bool:
        """Whether a job that waited for VMs to boot does, and all of these are there or come."""
        job, places = self.roster.job(reserved.job_id), self.places
        come = all(places.is_up(vm_id) or places.at(vm_id) is not None for vm_id in reserved.all_vms)
        return bool(places) and job is not None and not job.ended and come

    def _job(self, job_id: str) -> Job | None:
        record = self.roster.job(job_id)
        return None if record is None else record.job

    def _take_up(self) -> None:
        """Resume with the tasks and jobs that an earlier daemon saved."""
        for task in self.roster.all_open():
            self.book.guess(_vm_of(task))
            if task.state == "unreachable":
                self.watch.lost_sight(task)
        self.lives.take_up()

    def _go_on(self, moment: ModelSnapshot) -> None:
        self.turn.number = moment.number
        self.book.resume(moment.book)
        self.supply.resume(moment.supply)
        self.watch.resume(moment.watch)
        self.line.resume(moment.relaunch_at, moment.told, moment.growing)
        self.setbacks.resume(moment.job_setbacks, moment.vm_setbacks, moment.vms_started)
        self.preempting.resume(moment.takings, moment.sought_at, moment.not_taken)
        if moment.shared is not None:
            self.stage.resume(moment.shared)

    @property
    def keeps(self) -> bool:
        """Whether something is kept for jobs, or may be: VMs come, or jobs give way to others."""
        return bool(self.places or self.preempting)

    # ---- where nothing can be had ------------------------------------------------------------------

    def left_out(self) -> dict[str, str]:
        """The VMs on which nothing is placed now, by id, and why."""
        closed = self.book.closed(self.turn.now, self.options.maintenance_margin)
        return {**self.setbacks.left_out(), **self.places.left_out, **closed}

    def reach(self) -> MaxCapacity:
        """Return the capacity that would be available now if no task held anything."""
        return self.book.reach(self.left_out())


def _vm_of(task: ExecutorRecord) -> Vm:
    return Vm(
        task.vm_id,
        task.vm_name,
        task.vm_type,
        task.resources,
        task.price_per_hour,
        task.address,
    )
