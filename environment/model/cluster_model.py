"""The cluster as a pure state machine: events in, commands out.

Here is what each event means for whom. The steps of a job's life are in `life.py`, the records in
`roster.py`, the queue in `waiting.py`, offers in `offer_book.py` and `supply.py`, what is told of tasks in
`tasks.py`, by drivers in `drivers.py`, doubts about tasks in `doubts.py`, decisions in `decisions.py`,
launches in `launches.py`, those that never ran in `setbacks.py`, VMs of pools in `fleet.py`. The model
never asks the clock, draws a random number or opens a socket, so the same events always give the same
commands. Who places a job is not decided here: a decision enters as the event `Decided`.
"""

from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

from environment.check import shortage
from environment.model import commands as cmd
from environment.model import events as ev
from environment.model import timings
from environment.model.comings import Comings
from environment.model.decisions import Decisions
from environment.model.doubts import Watch
from environment.model.drivers import Drivers
from environment.model.fleet import Fleet
from environment.model.leases import Lease
from environment.model.ledger import Ledger
from environment.model.life import JobLives
from environment.model.moment import Moment, Reserved
from environment.model.offer_book import OfferBook
from environment.model.places import Places
from environment.model.reach import Reach
from environment.model.records import ExecutorRecord, JobRecord
from environment.model.reservations import Reservations, with_reserved
from environment.model.room import Room
from environment.model.roster import Changes, Roster
from environment.model.setbacks import Setbacks
from environment.model.supply import Supply
from environment.model.tasks import Tasks
from environment.model.timings import ModelOptions
from environment.model.turn import Turn
from environment.model.waiting import WaitingLine
from environment.types import Job, PlacementRequest, Vm
from environment.view import ClusterView

__all__ = ["Changes", "ClusterModel", "ModelOptions"]


class ClusterModel:
    """The state of cluster and queue; see the module's text.

    Invariants: a VM's open tasks never take more than its capacity as offered; every job that is not over
    is in the queue, or has open tasks, or waits for its driver; every queued job has a reason.
    """

    def __init__(self, options: ModelOptions | None = None) -> None:
        self._begin(options or ModelOptions())
        self._handlers: dict[type[ev.Event], Callable[[Any], None]] = {
            ev.Restored: self._on_restored,
            ev.JobSubmitted: self._on_submitted,
            ev.KillRequested: self._on_kill_requested,
            ev.Subscribed: self._on_subscribed,
            ev.Disconnected: self._on_disconnected,
            ev.OffersReceived: self._on_offers,
            ev.OfferRescinded: lambda event: self._book.drop(event.offer_id),
            ev.VmsMeasured: self._on_measured,
            ev.InverseOffersReceived: self._on_inverse_offers,
            ev.VmLost: self._on_vm_lost,
            ev.Decided: lambda event: self._decisions.take(event),
            ev.PolicyChanged: self._on_policy_changed,
            ev.ChargesDue: lambda event: self._accounts.charge_all(self.now, event.before, event.most),
            ev.ClockMoved: lambda event: self._accounts.skip(event.seconds),
            ev.TaskChanged: self._on_task_changed,
            ev.DriverStarted: lambda event: self._drivers.started(event),
            ev.DriverDelayed: lambda event: self._drivers.delayed(event),
            ev.DriverEnded: lambda event: self._drivers.ended(event),
            ev.ExecutorsAsked: lambda event: self._drivers.asked(event),
            ev.ExecutorsReleased: lambda event: self._drivers.released(event),
            ev.DecommissionAsked: lambda event: self._drivers.decommission(event),
            ev.LeaseOpened: lambda event: self._fleet.opened(event),
            ev.LeaseRefused: lambda event: self._fleet.refused(event),
            ev.LeaseClosed: lambda event: self._fleet.closed(event),
            ev.LeaseNotice: lambda event: self._fleet.noticed(event),
            ev.OpeningsHeld: self._on_openings_held,
            ev.PoolPrices: lambda event: self._places.cost(event.prices),
            ev.MachinesListed: lambda event: self._fleet.listed(event),
            ev.Tick: self._on_tick,
        }

    def _begin(self, options: ModelOptions) -> None:
        """Know nothing."""
        self.options = options
        self._turn = Turn()
        self._roster = Roster()
        self.ledger = Ledger(self._job)
        self._accounts = self.ledger.accounts
        self._setbacks = Setbacks(self._turn)
        self._reservations = Reservations()
        room = Room(self._roster, self._reservations, options.jvms)
        # What VMs of pools would cost that are opened for it is more than a job gains that runs already.
        self._line = WaitingLine(
            self._roster, self._setbacks, room, self._reservations, grows_by_itself=not options.places
        )
        self._book = OfferBook(self.ledger, self._reservations)
        self._places = Places(self._turn, self._book, self._accounts, options.places)
        self._fleet = Fleet(self._turn, self._places, self.ledger, self._reservations, options)
        self._supply = Supply(self._turn, self._book, self._places)
        self._watch = Watch(self._turn, self._roster, options)
        self._lives = JobLives(
            self._turn, self._roster, self._line, self._supply, self._watch, self._setbacks, options
        )
        self._drivers = Drivers(self._turn, self._roster, self._lives, self._watch)
        self._tasks = Tasks(
            self._turn,
            self._roster,
            self._book,
            self.ledger,
            self._supply,
            self._watch,
            self._lives,
            self._fleet.idling,
            self._drivers,
        )
        self._decisions = Decisions(
            self._turn,
            self._roster,
            self._line,
            self._book,
            self.ledger,
            self._supply,
            self._setbacks,
            self._lives,
            self._fleet,
            self._places,
            self._reservations,
        )
        self._comings = Comings(
            self._fleet, self._reservations, self._decisions, self._tasks, self._setbacks, self._supply
        )

    # ---- what others ask ------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The time of the last event, seconds."""
        return self._turn.now

    @property
    def subscribed(self) -> bool:
        """Whether the master has accepted the framework and the connection holds."""
        return self._supply.subscribed

    def handle(self, event: ev.Event) -> list[cmd.Command]:
        """Take one event in and return what is to be done about it, in order.

        A tick that leads to nothing is not counted, so that a log may leave it out and replays the same.
        """
        self._turn.begin(event.at)
        woken = self._setbacks.wake() if self._setbacks else None
        if woken is not None:
            self._supply.reconsider(woken)
        if self._places:
            self._comings.wake()
        self._handlers[type(event)](event)
        if self._places:
            self._comings.settle()
        reach = self.reach()
        self._accounts.see(self._book.vms(), self.now, known=reach.known)
        self._line.look(reach, again=woken is not None)
        if not isinstance(event, ev.Restored):
            soon, due = self._line.due(self.now + timings.RELAUNCH_GRACE), self._line.due(self.now)
            later, launches_due = self._line.wants_vms, False
            if self._places:
                later, launches_due = later or self._fleet.boots, self._decisions.launches_due
            self._supply.balance(anyone=soon or launches_due, due=due or launches_due, later=later)
        return self._turn.end(counted=not isinstance(event, ev.Tick))

    def snapshot(self) -> ev.Restored:
        """An event after which any model goes on exactly as this one does."""
        relaunch_at, told, growing = self._line.state()
        moment = Moment(
            self._turn.number,
            self._supply.state(),
            self._book.state(),
            self._watch.state(),
            relaunch_at,
            told,
            *self._setbacks.state(),
            growing,
            self._fleet.state(),
        )
        jobs, tasks = self._roster.records()
        leases, accounts, policy = self._places.leases(), self._accounts.state(), self._accounts.policy
        return ev.Restored(self.now, jobs, tasks, self.options, moment, leases, accounts, policy)

    def view(self) -> ClusterView:
        """The cluster as a policy may see it now: what is free, and what of it is offered."""
        running, asked = tuple(self._roster.running()), sorted(self._roster.resources)
        if not self._places:
            return self._book.view(self.now, running, asked, self._left_out())
        running = with_reserved(running, self._reservations, self._roster, self._places.starts_at)
        view = self._book.view(self.now, running, asked, self._left_out())
        return self._places.shown(view)

    def _left_out(self) -> dict[str, str]:
        closed = self._book.closed(self.now, self.options.maintenance_margin)
        return {**self._setbacks.left_out(), **self._places.left_out, **closed}

    def reach(self) -> Reach:
        """What could be had now if nobody held anything."""
        return self._book.reach(self._left_out())

    def notes(self) -> dict[str, str]:
        """What is to be said of VMs, by id: why nothing is placed there, what their agents tell wrongly."""
        wrong = {vm.id: vm.note for vm in self._book.vms() if vm.note}
        return {**wrong, **self._left_out()}

    def requests(self) -> tuple[PlacementRequest, ...]:
        """What waits for a placement, first come first served; lost executors come before new jobs."""
        requests = self._line.requests(self.now)
        return tuple(map(self._places.asked, requests)) if self._places else requests

    def head(self) -> str:
        """The first of the jobs that wait as a whole and are neither paused nor aside; empty without any."""
        return self._line.head(self.now)

    def paused(self) -> Mapping[str, float]:
        """The jobs that are to be placed later, since their launches never ran, and when, seconds."""
        return self._setbacks.paused()

    def aside(self) -> Collection[str]:
        """The jobs that wait as a whole and could not run now even alone; they keep their places."""
        return self._line.aside

    @property
    def waiting(self) -> int:
        """How many jobs wait for a placement, of all their executors or of lost ones."""
        return len(self._line)

    @property
    def idle(self) -> bool:
        """Whether no job is there that is not over, and none of which tasks are open."""
        return not any(True for _ in self._roster.jobs())

    def ready_to_decide(self) -> bool:
        """Whether a decision is due: something waits, offers are there, and no more of them are expected."""
        return self._supply.ready() and self._line.due(self.now)

    def vms(self) -> tuple[Vm, ...]:
        """All VMs that are there, in the order in which policies see them."""
        return self._book.vms()

    def places(self) -> tuple[Vm, ...]:
        """Where VMs of pools are or could be, with what they cost when they are opened now."""
        return self._places.all()

    def job(self, job_id: str) -> JobRecord | None:
        """The record of a job that is not over or has open tasks; None when it is not known."""
        return self._roster.job(job_id)

    def retries_left(self, job_id: str) -> int:
        """How often a job's driver would be started again."""
        job = self._roster.job(job_id)
        return 0 if job is None else max(job.job.retries - job.retried, 0)

    def tasks(self, job_id: str) -> tuple[ExecutorRecord, ...]:
        """All tasks of a job that is held in memory."""
        return self._roster.tasks(job_id)

    def lease(self, lease_id: str) -> Lease | None:
        """A VM of a pool that has not ended, for reading; None when it is not known."""
        return self._places.lease(lease_id)

    def leases(self) -> tuple[Lease, ...]:
        """Copies of all of these."""
        return self._places.leases()

    def open_tasks(self) -> tuple[ExecutorRecord, ...]:
        """All tasks that have not ended."""
        return tuple(self._roster.all_open())

    def task(self, task_id: str) -> ExecutorRecord | None:
        """One task that is held in memory."""
        return self._roster.task(task_id)

    def due(self, at: float) -> dict[str, dict[str, float]]:
        """What open tasks owe at that time beyond their records, in dollars by job id and task id."""
        due: dict[str, dict[str, float]] = {}
        for task, cost in self.ledger.due(at):
            due.setdefault(task.job_id, {})[task.task_id] = cost
        return due

    def take_changes(self) -> Changes:
        """Hand out copies of what changed since the last call, and forget jobs that are over and done."""
        charges, accounts = self._accounts.take()
        changes = self._roster.take_changes()
        ended = tuple(map(self._places.over, changes.ended)) if self._places else changes.ended
        leases = self._places.take_changes()
        reserved, setbacks = self._reservations.take_changes(), self._fleet.take_setbacks()
        return replace(
            changes,
            ended=ended,
            leases=leases,
            charges=charges,
            accounts=accounts,
            reserved=reserved,
            setbacks=setbacks,
        )

    # ---- jobs ------------------------------------------------------------------------------------

    def _on_restored(self, event: ev.Restored) -> None:
        self._begin(event.options)
        self._turn.begin(event.at)
        for job in map(copy, event.jobs):
            self._roster.add(job)
        for task in map(copy, event.tasks):
            self._roster.add_task(task)
            if not task.ended:
                self.ledger.reopen(task)
        known = event.moment is not None
        self._accounts.resume(event.accounts, event.policy, event.leases, self.now, found=known)
        self._fleet.restore(event.leases, event.pools, event.moment.fleet if event.moment else None)
        if event.moment is None:
            self._reservations.take_up(event.reserved, self._still_waits)
        for job in self._roster.jobs():
            if job.state == "queued" and job.job.begins_with and job.job.id not in self._reservations:
                self._line.join(job)
        if event.moment is None:
            self._take_up()
        else:
            self._go_on(event.moment)

    def _still_waits(self, reserved: Reserved) -> bool:
        """Whether a job that waited for VMs to boot does, and all of these are there or come."""
        job, places = self._roster.job(reserved.job_id), self._places
        come = all(places.is_up(vm_id) or places.at(vm_id) is not None for vm_id in reserved.all_vms)
        return bool(places) and job is not None and not job.ended and come

    def _job(self, job_id: str) -> Job | None:
        record = self._roster.job(job_id)
        return None if record is None else record.job

    def _take_up(self) -> None:
        """A daemon has started with what an earlier one kept."""
        for task in self._roster.all_open():
            self._book.guess(_vm_of(task))
            if task.state == "unreachable":
                self._watch.lost_sight(task)
        self._lives.take_up()

    def _go_on(self, moment: Moment) -> None:
        self._turn.number = moment.number
        self._book.resume(moment.book)
        self._supply.resume(moment.supply)
        self._watch.resume(moment.watch)
        self._line.resume(moment.relaunch_at, moment.told, moment.growing)
        self._setbacks.resume(moment.job_setbacks, moment.vm_setbacks, moment.vms_started)

    def _on_submitted(self, event: ev.JobSubmitted) -> None:
        if self._roster.job(event.job.id) is not None:
            return
        job = JobRecord(event.job)
        self._roster.add(job)  # as it is stored: nothing has changed
        if job.job.begins_with:
            self._line.join(job)
        else:
            self._lives.begin(job)
        self._supply.want()  # a policy may place it at once, whoever waits before it

    def _on_kill_requested(self, event: ev.KillRequested) -> None:
        job = self._roster.job(event.job_id)
        if job is not None and not job.ended:
            self._lives.stop_driver(job)
            self._lives.end(job, "killed", "killed on request")

    # ---- master and time -------------------------------------------------------------------------

    def _on_subscribed(self, _: ev.Subscribed) -> None:
        self._supply.connect()
        self._fleet.connected(self.now)
        self._watch.reconnected()

    def _on_disconnected(self, event: ev.Disconnected) -> None:
        self._supply.disconnect(event.why)
        self._fleet.connected(None)

    def _on_task_changed(self, event: ev.TaskChanged) -> None:
        self._tasks.changed(event)
        task = self._roster.task(event.task_id)
        if task is not None and event.state in ("starting", "running"):
            self._fleet.heard(task.vm_id)

    def _on_offers(self, event: ev.OffersReceived) -> None:
        self._supply.take(self._fleet.met(event.offers) if self._places else event.offers)

    def _on_vm_lost(self, event: ev.VmLost) -> None:
        self._book.lose(event.vm_id)
        self._fleet.lost_sight(event.vm_id)

    def _on_measured(self, event: ev.VmsMeasured) -> None:
        if self._book.measure(self._fleet.measured(event) if self._places else event):
            self._supply.want()  # what was not known before may be a place

    def _on_inverse_offers(self, event: ev.InverseOffersReceived) -> None:
        """The master wants VMs back: it may have those on which nothing of ours runs, others later."""
        answers: dict[bool, list[str]] = {}
        for offer in event.offers:
            if offer.vm_id:
                self._book.window(offer.vm_id, offer.unavailable)
            idle = bool(offer.vm_id) and not self.ledger.count(offer.vm_id)
            answers.setdefault(idle, []).append(offer.id)
        for idle, ids in answers.items():
            self._turn.command(cmd.AnswerInverse, tuple(ids), idle)

    def _on_policy_changed(self, event: ev.PolicyChanged) -> None:
        if event.policy:
            self._accounts.charge_all(self.now)
            self._accounts.policy = event.policy
        self._supply.reconsider()

    def _on_openings_held(self, event: ev.OpeningsHeld) -> None:
        self._fleet.hold(event.why)
        self._supply.reconsider()

    def _on_tick(self, _: ev.Tick) -> None:
        self._lives.end_overdue()
        if self._places:
            self._fleet.tend(pending=self._supply.undecided and self._line.due(self.now))
        if not self.subscribed:
            self._line.tell(None)
            why = f": {self._supply.why}" if self._supply.why else ""
            self._line.explain_silence(lambda _: f"the Mesos master is not connected{why}", self.now)
            return
        self._tasks.give_up()
        self._watch.chase()
        if self._supply.dry():
            self._line.explain_silence(self._dry, self.now)
        self._line.explain_room(self.now)

    def _dry(self, head: PlacementRequest) -> str:
        """Why it waits when the master had the time to offer something and did not."""
        return f"the master offers no resources now; {shortage(self.view(), self._places.asked(head))}"


def _vm_of(task: ExecutorRecord) -> Vm:
    return Vm(
        task.vm_id,
        task.vm_name,
        task.vm_type,
        task.resources,
        task.price_per_hour,
        task.address,
    )
