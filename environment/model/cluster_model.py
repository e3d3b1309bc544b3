"""The cluster as a pure state machine: events in, commands out.

This file dispatches each event to the components. `model/jobs/lifecycle.py` has the steps of a job's life,
`model/vms/job_registry.py` the records, `waiting_queue.py` the queue, `model/vms/offers.py` and
`model/vms/offer_demand.py` offers, `tasks.py` reports on tasks, `drivers.py` reports of drivers,
`model/jobs/reconciliation.py` tasks in doubt, `decisions.py` decisions, `launches.py` launches,
`model/jobs/backoff.py` launches that never ran, `fleet.py` VMs of pools; `wiring.py` builds, snapshots and
restores these. The model never asks the clock, draws a random number or opens a socket, so the same
events always give the same commands. Placements are not decided here: a decision enters as the event
`Decided`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from environment.decisions.feasibility import shortage
from environment.model.jobs.reconciliation import OutOfReach
from environment.model.jobs.retries import left
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages import options as timings
from environment.model.messages.lease import Lease
from environment.model.messages.options import ModelOptions
from environment.model.messages.records import ExecutorRecord, Fault, JobRecord, MemoryCounts
from environment.model.vms.job_registry import Changes
from environment.model.vms.max_capacity import MaxCapacity
from environment.model.vms.reservations import with_reserved
from environment.model.vms.revive_check import completes, fits_with
from environment.model.vms.usage_ledger import Ledger
from environment.model.wiring import ModelWiring
from environment.queues.shares import Standings
from environment.queues.types import Sharing
from environment.types import Job, PlacementRequest, Vm
from environment.view import ClusterView

__all__ = ["Changes", "ClusterModel", "ModelOptions"]


class ClusterModel:
    """The state of cluster and queue; see the module's text.

    Invariants: a VM's open tasks never take more than its capacity as offered; every job that is not over
    is in the queue, or has open tasks, or waits for its driver; every queued job has a reason.
    """

    def __init__(self, options: ModelOptions | None = None) -> None:
        self._parts = ModelWiring(options or ModelOptions())
        self._handlers: dict[type[ev.Event], Callable[[Any], None]] = {
            ev.Restored: self._on_restored,
            ev.JobSubmitted: self._on_submitted,
            ev.KillRequested: self._on_kill_requested,
            ev.Subscribed: self._on_subscribed,
            ev.Disconnected: self._on_disconnected,
            ev.OffersReceived: self._on_offers,
            ev.OfferRescinded: lambda event: self._parts.vms.book.drop(event.offer_id),
            ev.VmsMeasured: self._on_measured,
            ev.InverseOffersReceived: self._on_inverse_offers,
            ev.VmLost: self._on_vm_lost,
            ev.Decided: lambda event: self._parts.tasks.decisions.take(event),
            ev.PolicyChanged: self._on_policy_changed,
            ev.SharingChanged: self._on_sharing_changed,
            ev.RoomSought: lambda _: self._parts.preempting.seek(self.view()),
            ev.MovesSought: lambda _: self._parts.moving.seek(self.view()),
            ev.ChargesDue: lambda event: self._parts.vms.accounts.charge_all(
                self.now, event.before, event.most
            ),
            ev.ClockMoved: lambda event: self._parts.vms.accounts.skip(event.seconds),
            ev.TaskChanged: self._on_task_changed,
            ev.DriverStarted: lambda event: self._parts.tasks.drivers.started(event),
            ev.DriverDelayed: lambda event: self._parts.tasks.drivers.delayed(event),
            ev.DriverEnded: lambda event: self._parts.tasks.drivers.ended(event),
            ev.ExecutorsAsked: lambda event: self._parts.tasks.drivers.asked(event),
            ev.ExecutorsReleased: lambda event: self._parts.tasks.drivers.released(event),
            ev.DecommissionAsked: lambda event: self._parts.tasks.drivers.decommission(event),
            ev.LeaseOpened: lambda event: self._parts.vms.fleet.opened(event),
            ev.LeaseRefused: lambda event: self._parts.vms.fleet.refused(event),
            ev.LeaseClosed: lambda event: self._parts.vms.fleet.closed(event),
            ev.LeaseNotice: lambda event: self._parts.vms.fleet.noticed(event),
            ev.OpeningsHeld: self._on_openings_held,
            ev.PoolPrices: lambda event: self._parts.vms.places.cost(event.prices),
            ev.MachinesListed: lambda event: self._parts.vms.fleet.listed(event),
            ev.Tick: self._on_tick,
        }

    # ---- queries ----------------------------------------------------------------------------------

    @property
    def options(self) -> ModelOptions:
        """Options from the daemon's config and its host."""
        return self._parts.options

    @property
    def now(self) -> float:
        """The time of the last event, seconds."""
        return self._parts.vms.turn.now

    @property
    def ledger(self) -> Ledger:
        """Ledger of the resources that tasks hold on each VM and of their cost; read-only."""
        return self._parts.vms.ledger

    @property
    def subscribed(self) -> bool:
        """Whether the master has accepted the framework and the connection holds."""
        return self._parts.vms.supply.subscribed

    @property
    def matters(self) -> bool:
        """Whether a log needs the last event: a replay without it could decide otherwise."""
        return self._parts.vms.turn.matters

    def handle(self, event: ev.Event) -> list[cmd.Command]:
        """Process one event and return the commands that follow from it, in order.

        A tick without effect is not counted, so that a log may omit it and still replays the same.
        """
        parts = self._parts
        vms, jobs = parts.vms, parts.jobs
        vms.turn.begin(event.at)
        woken = jobs.setbacks.wake() if jobs.setbacks else None
        if woken is not None:
            vms.supply.reconsider(woken)
        jobs.lives.wake()
        if parts.keeps:
            parts.comings.wake()
        self._handlers[type(event)](event)
        parts = self._parts  # others, when it was `Restored`
        vms, jobs = parts.vms, parts.jobs
        line = jobs.line
        if parts.keeps:
            parts.comings.settle()
        reach = parts.reach()
        vms.accounts.see(vms.book.vms(), self.now, known=reach.known)
        line.look(reach, again=woken is not None)
        jobs.stage.settle()
        if not isinstance(event, ev.Restored):
            soon, due = line.due(self.now + timings.RELAUNCH_GRACE), line.due(self.now)
            later, launches_due = line.wants_vms, False
            if parts.keeps:
                later, launches_due = later or bool(vms.joining), parts.tasks.decisions.launches_due
            vms.supply.balance(
                anyone=soon or launches_due,
                due=due or launches_due,
                later=later,
                fits=lambda away: fits_with(self.view(), self.requests(), away),
                completes=lambda away: completes(self.view(), self.requests(), away),
            )
        return vms.turn.end(counted=not isinstance(event, ev.Tick))

    def view(self) -> ClusterView:
        """Snapshot of the cluster for a policy: free resources, and the part of them that is offered."""
        parts, vms = self._parts, self._parts.vms
        running, asked = tuple(vms.roster.running()), sorted(vms.roster.resources)
        if not parts.keeps:
            return vms.with_covered(vms.book.view(self.now, running, asked, parts.left_out()))
        running = with_reserved(running, vms.reservations, vms.roster, vms.places.starts_at)
        view = vms.book.view(self.now, running, asked, parts.left_out())
        return vms.with_covered(vms.places.shown(view) if vms.places else view)

    def reach(self) -> MaxCapacity:
        """Return the capacity that would be available now if no task held anything."""
        return self._parts.reach()

    def notes(self) -> dict[str, str]:
        """Notes on VMs, by id: why no task is placed there, and wrong reports of their agents."""
        wrong = {vm.id: vm.note for vm in self._parts.vms.book.vms() if vm.note}
        return {**wrong, **self._parts.left_out()}

    def out_of_reach(self) -> list[tuple[Vm, OutOfReach]]:
        """The VMs that hold tasks of ours and cannot be reached, whether the master knows of them or not."""
        book = self._parts.vms.book
        return [(book.vm(vm_id), out) for vm_id, out in self._parts.jobs.watch.out_of_reach().items()]

    def requests(self, *, gated: bool = True) -> Sequence[PlacementRequest]:
        """Placement requests for a round, in order; lost executors come first.

        Without a `Sharing` the order is the order of arrival. Jobs beyond the machine's JVM limit are
        included unless `gated`.
        """
        requests = self._parts.jobs.line.requests(self.now, gated=gated)
        if self._parts.jobs.stage or not self._parts.vms.places:
            return requests
        return tuple(map(self._parts.vms.asked, requests))

    @property
    def sharing(self) -> Sharing | None:
        """How the cluster is shared; None where jobs go as they come."""
        return self._parts.preempting.sharing

    def place_of(self, job_id: str) -> int | None:
        """How many jobs are before a new one in the order; None without a `Sharing`, and for others.

        See `environment.queues.ordering.Ordering.place_of`.
        """
        return self._parts.jobs.stage.place_of(job_id)

    def why_waits(self, job_id: str) -> str:
        """Why a new job is not the first in the order, in words; empty for the first, and without one."""
        return self._parts.jobs.stage.why_waits(job_id)

    def standings(self) -> Standings | None:
        """Present and past usage of queues and users, immutable; None without a `Sharing`."""
        return self._parts.jobs.stage.standings()

    def anyone(self) -> bool:
        """Whether a job waits as a whole that may be placed; quicker to tell than which is first."""
        return self._parts.jobs.line.anyone(self.now)

    def head(self) -> str:
        """The first of the jobs that wait as a whole and are neither paused nor aside; empty without any."""
        return self._parts.jobs.line.head(self.now)

    def beyond_room(self) -> str:
        """The first job for which the machine under an embedded cluster has no room; empty: there is none."""
        return self._parts.jobs.line.beyond_room

    def paused(self) -> Mapping[str, float]:
        """The jobs that are to be placed later, since their launches never ran, and when, seconds."""
        return self._parts.jobs.setbacks.paused()

    def aside(self) -> Collection[str]:
        """The jobs that wait as a whole and could not run now even alone; they keep their places."""
        return self._parts.jobs.line.aside

    @property
    def waiting(self) -> int:
        """How many jobs wait for a placement, of all their executors or of lost ones."""
        return len(self._parts.jobs.line)

    def held(self) -> Collection[str]:
        """The jobs that do not wait for their turn yet, by id: for other jobs, or for their time."""
        return self._parts.jobs.releases

    def unknown(self, job: Job) -> list[str]:
        """The jobs that this one comes after, by id, of which nothing is known here: they have ended."""
        of = (job_id for after in job.after if not after.ended for job_id in after.jobs)
        return [job_id for job_id in of if self._parts.vms.roster.job(job_id) is None]

    @property
    def idle(self) -> bool:
        """Whether no job is there that is not over, and none of which tasks are open."""
        return not any(True for _ in self._parts.vms.roster.jobs())

    def ready_to_decide(self) -> bool:
        """Whether a decision is due: something waits, offers are there, and no more of them are expected."""
        return self._parts.vms.supply.ready() and self._parts.jobs.line.due(self.now)

    def seeks_room(self, now: float) -> bool:
        """Whether it is time for `RoomSought`."""
        return self.subscribed and self._parts.preempting.due(now)

    def seeks_moves(self, now: float) -> bool:
        """Whether it is time for `MovesSought`."""
        return self.subscribed and self._parts.moving.due(now)

    def vms(self) -> tuple[Vm, ...]:
        """All VMs that are there, in the order in which policies see them."""
        return self._parts.vms.book.vms()

    def places(self) -> tuple[Vm, ...]:
        """Existing and possible VMs of pools, at the price of a VM opened now."""
        return self._parts.vms.places.all()

    def job(self, job_id: str) -> JobRecord | None:
        """The record of a job that is not over or has open tasks; None when it is not known."""
        return self._parts.vms.roster.job(job_id)

    def retries_left(self, job_id: str, fault: Fault = "user") -> int:
        """How many more times a job's driver would be restarted after failures of this kind."""
        job = self._parts.vms.roster.job(job_id)
        return 0 if job is None else left(job, fault)

    @property
    def memory_counts(self) -> MemoryCounts:
        """Failures of jobs for memory, and restarts with more, since this model began."""
        return self._parts.jobs.memory.counts

    def tasks(self, job_id: str) -> tuple[ExecutorRecord, ...]:
        """All tasks of a job that is held in memory."""
        return self._parts.vms.roster.tasks(job_id)

    def lease(self, lease_id: str) -> Lease | None:
        """A VM of a pool that has not ended, for reading; None when it is not known."""
        return self._parts.vms.places.lease(lease_id)

    def leases(self) -> tuple[Lease, ...]:
        """Copies of all of these."""
        return self._parts.vms.places.leases()

    def open_tasks(self) -> tuple[ExecutorRecord, ...]:
        """All tasks that have not ended."""
        return tuple(self._parts.vms.roster.all_open())

    def task(self, task_id: str) -> ExecutorRecord | None:
        """A task in memory, by id."""
        return self._parts.vms.roster.task(task_id)

    def due(self, at: float) -> dict[str, dict[str, float]]:
        """Cost of open tasks up to that time beyond their records, in dollars by job id and task id."""
        due: dict[str, dict[str, float]] = {}
        for task, cost in self._parts.vms.ledger.due(at):
            due.setdefault(task.job_id, {})[task.task_id] = cost
        return due

    def take_changes(self) -> Changes:
        """Return copies of all changes since the last call, and forget jobs that have ended completely."""
        vms = self._parts.vms
        charges, accounts = vms.accounts.take()
        changes = vms.roster.take_changes()
        ended = tuple(map(vms.places.over, changes.ended)) if vms.places else changes.ended
        leases = vms.places.take_changes()
        reserved, setbacks = vms.reservations.take_changes(), vms.fleet.take_setbacks()
        return replace(
            changes,
            ended=ended,
            leases=leases,
            charges=charges,
            accounts=accounts,
            reserved=reserved,
            setbacks=setbacks,
        )

    def snapshot(self) -> ev.Restored:
        """An event after which any model goes on exactly as this one does."""
        return self._parts.snapshot()

    # ---- jobs ------------------------------------------------------------------------------------

    def _on_restored(self, event: ev.Restored) -> None:
        self._parts = ModelWiring.restored(event)

    def _on_submitted(self, event: ev.JobSubmitted) -> None:
        if self._parts.vms.roster.job(event.job.id) is not None:
            return
        job = JobRecord(event.job)
        self._parts.vms.roster.add(job)  # as it is stored: nothing has changed
        self._parts.jobs.lives.arrive(job, dict(event.ends))

    def _on_kill_requested(self, event: ev.KillRequested) -> None:
        job = self._parts.vms.roster.job(event.job_id)
        if job is not None and not job.ended:
            self._parts.jobs.lives.stop_driver(job)
            self._parts.jobs.lives.end(job, "killed", "killed on request")

    # ---- master and time -------------------------------------------------------------------------

    def _on_subscribed(self, _: ev.Subscribed) -> None:
        self._parts.vms.supply.connect()
        self._parts.vms.joining.connected(self.now)
        self._parts.jobs.watch.reconnected()

    def _on_disconnected(self, event: ev.Disconnected) -> None:
        self._parts.vms.supply.disconnect(event.why)
        self._parts.vms.joining.connected(None)

    def _on_task_changed(self, event: ev.TaskChanged) -> None:
        self._parts.tasks.reports.changed(event)
        task = self._parts.vms.roster.task(event.task_id)
        if task is not None and event.state in ("starting", "running"):
            self._parts.vms.joining.heard(task.vm_id)

    def _on_offers(self, event: ev.OffersReceived) -> None:
        self._parts.vms.supply.take(
            self._parts.vms.joining.met(event.offers) if self._parts.vms.places else event.offers
        )

    def _on_vm_lost(self, event: ev.VmLost) -> None:
        self._parts.vms.book.lose(event.vm_id)
        self._parts.vms.joining.lost_sight(event.vm_id)

    def _on_measured(self, event: ev.VmsMeasured) -> None:
        if self._parts.vms.book.measure(
            self._parts.vms.joining.measured(event) if self._parts.vms.places else event
        ):
            self._parts.vms.supply.want()  # a VM that was not known before may be a place

    def _on_inverse_offers(self, event: ev.InverseOffersReceived) -> None:
        """The master wants VMs back: it may have those on which nothing of ours runs, others later."""
        answers: dict[bool, list[str]] = {}
        for offer in event.offers:
            if offer.vm_id:
                self._parts.vms.book.window(offer.vm_id, offer.unavailable)
            idle = bool(offer.vm_id) and not self._parts.vms.ledger.count(offer.vm_id)
            answers.setdefault(idle, []).append(offer.id)
        for idle, ids in answers.items():
            self._parts.vms.turn.command(cmd.AnswerInverse, tuple(ids), idle)

    def _on_policy_changed(self, event: ev.PolicyChanged) -> None:
        if event.policy:
            self._parts.vms.accounts.charge_all(self.now)
            self._parts.vms.accounts.policy = event.policy
        self._parts.vms.supply.reconsider()

    def _on_sharing_changed(self, event: ev.SharingChanged) -> None:
        self._parts.share(event.sharing)
        self._parts.vms.supply.reconsider()

    def _on_openings_held(self, event: ev.OpeningsHeld) -> None:
        self._parts.vms.fleet.hold(event.why, event.pools)
        self._parts.vms.supply.reconsider()

    def _on_tick(self, _: ev.Tick) -> None:
        vms, line = self._parts.vms, self._parts.jobs.line
        self._parts.jobs.limits.tend()
        if vms.places:
            vms.fleet.tend(pending=vms.supply.undecided and line.due(self.now), wanted=len(line) > 0)
        if not self.subscribed:
            line.tell(None)
            why = f": {vms.supply.why}" if vms.supply.why else ""
            line.explain_silence(lambda _: f"the Mesos master is not connected{why}", self.now)
            return
        self._parts.tasks.reports.give_up()
        self._parts.jobs.watch.chase()
        if vms.supply.dry():
            line.explain_silence(self._dry, self.now)
        line.explain_room(self.now)
        if self._parts.jobs.stage:
            line.explain_limits()

    def _dry(self, head: PlacementRequest) -> str:
        """Why it waits when the master had the time to offer something and did not."""
        return (
            f"the master offers no resources now; {shortage(self.view(), self._parts.vms.places.asked(head))}"
        )
