"""A cluster model as the daemon drives it, with a master that does everything at once, in virtual time.

All free resources are offered at every instant, tasks run as soon as they are launched, and drivers end when
the caller, which knows the truth, ends them. Nothing is asked of a real clock.
"""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from unittest.mock import patch

from conf.util.backoff import Backoff
from environment.decisions.decision_round import decide_in_turn
from environment.decisions.sizing import Sizes, sizing_for
from environment.decisions.vain_waits import watched
from environment.model.cluster_model import ClusterModel
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages import options
from environment.model.messages.lease import Lease
from environment.model.messages.options import RELAUNCH_GRACE
from environment.model.messages.records import JobRecord
from environment.model.messages.snapshot import VmSize
from environment.model.messages.vm_accounts import Charge
from environment.model.tasks.launches import decided
from environment.policy import Observer, Policy
from environment.resources import Resources, total
from environment.simulation.faults.losses import Loss
from environment.types import Job, Place, Vm
from tests.builders import make_offer

#: What happens first at one instant, as in a simulation: jobs end, something is lost, jobs arrive.
_ENDS, _LOSES, _ARRIVES, _DUE = range(4)


@dataclass
class PerfectMaster:
    """`end` says when a job ends that starts now: of its id, now, its executors' sizes, and how many VMs."""

    policy: Policy
    vms: Sequence[Vm]
    end: Callable[[str, float, tuple[Resources, ...], int], float]
    model: ClusterModel = field(default_factory=ClusterModel)
    done: dict[str, JobRecord] = field(default_factory=dict)
    #: How many executors each loss took, in their order.
    lost: list[int] = field(default_factory=list)
    #: All leases of VMs of pools, as they were last told.
    leases: dict[str, Lease] = field(default_factory=dict)
    #: What was charged.
    charges: list[Charge] = field(default_factory=list)
    sizes: Sizes = field(default_factory=Sizes)
    fallback: Policy | None = None

    def __post_init__(self) -> None:
        self._events: list[tuple[float, int, int, object]] = []
        self._there = list(self.vms)
        self._sizing, self._held = sizing_for(self.policy, self.sizes), watched(self.policy)
        self._offered: dict[str, tuple[Vm, Resources]] = {}
        self._offers = self._pushed = 0
        self._now = 0.0

    def run(self, jobs: Sequence[Job], losses: Sequence[Loss] = ()) -> dict[str, JobRecord]:
        """Play until nothing is left to happen; the jobs' records."""
        with patch.object(options, "REVIVE", Backoff(first=0.0)):
            return self._play(jobs, losses)

    def _play(self, jobs: Sequence[Job], losses: Sequence[Loss]) -> dict[str, JobRecord]:
        for job in jobs:
            self._push(job.submitted_at, _ARRIVES, job)
            if job.start_at is not None:
                self._push(job.start_at, _DUE, None)
        for loss in losses:
            self._push(loss.at, _LOSES, loss)
        self._now = self._events[0][0]
        self._send(ev.Subscribed(self._now))
        sizes = tuple(VmSize(vm.id, vm.resources) for vm in self.vms)
        self._send(ev.VmsMeasured(self._now, sizes, tuple(self.vms)))
        self._begin()
        while self._events:
            self._now = self._events[0][0]
            kinds = set()
            while self._events and self._events[0][0] == self._now:
                _, kind, _, what = heapq.heappop(self._events)
                kinds.add(kind)
                self._happen(kind, what)
            self._let_decide(kinds)
        return self.done

    def _begin(self) -> None:
        """All is there, and nothing has happened."""

    def _let_decide(self, _: set[int]) -> None:
        """Decide, once all events of these kinds at this instant have happened."""
        self._decide()

    def _push(self, at: float, kind: int, what: object) -> None:
        self._pushed += 1
        heapq.heappush(self._events, (at, kind, self._pushed, what))

    def _happen(self, kind: int, what: object) -> None:
        if kind == _ENDS:
            self._send(ev.DriverEnded(self._now, str(what), 0))
        elif isinstance(what, Job):
            self._send(ev.JobSubmitted(self._now, what))
        elif isinstance(what, Loss):
            self._lose(what)
        else:
            self._send(ev.Tick(self._now))

    def _lose(self, loss: Loss) -> None:
        tasks = [task for task in self.model.open_tasks() if task.vm_id == loss.vm]
        if loss.vm:
            self._there = [vm for vm in self._there if vm.id != loss.vm]
            self._offered = {i: offer for i, offer in self._offered.items() if offer[0].id != loss.vm}
            placed = [running.job.id for running in self.model.view().running]
            tasks.sort(key=lambda task: placed.index(task.job_id))
            self._send(ev.VmLost(self._now, loss.vm))
        else:
            ordered = [task for task in self.model.tasks(loss.job) if not task.ended]
            tasks = ordered[loss.executor : loss.executor + 1]
        self.lost.append(len(tasks))
        if not tasks:
            self._send(ev.Tick(self._now))
        for task in tasks:
            job = self.model.job(task.job_id)
            if job is not None and job.state != "relaunching":
                self._push(self._now + RELAUNCH_GRACE, _DUE, None)
            self._send(ev.TaskChanged(self._now, task.task_id, "lost", task.vm_id))

    def _decide(self) -> None:
        self._offer()
        while self.model.ready_to_decide() and (requests := self.model.requests()):
            fallback = None if self.fallback is None else self.fallback.decide
            turns = decide_in_turn(
                self.policy.decide,
                self.model.view(),
                requests,
                fallback=fallback,
                sizing=self._sizing,
                held=self._held,
            )
            verdicts = [*turns]
            self._send(decided(verdicts, self._now))
            self._offer()
            if not isinstance(verdicts[-1].decision, Place):
                if self._held is not None and self._held.due_at < math.inf:
                    self._push(self._held.due_at, _DUE, None)  # a daemon asks every few seconds
                return

    def _offer(self) -> None:
        """Offer all that is free and not offered yet."""
        offers = []
        for vm in self._there:
            outstanding = [offer for offer in self._offered.values() if offer[0].id == vm.id]
            free = vm.resources - self.model.ledger.held(vm.id) - total(o[1] for o in outstanding)
            if free:
                self._offers += 1
                offers.append(replace(make_offer(f"offer-{self._offers}", vm), resources=free))
                self._offered[offers[-1].id] = (vm, free)
        if offers:
            self._send(ev.OffersReceived(self._now, tuple(offers)))

    def _send(self, event: ev.Event) -> None:
        commands = self.model.handle(event)
        changes = self.model.take_changes()
        self.done |= {record.job.id: record for record in changes.jobs}
        self.leases |= {lease.id: lease for lease in changes.leases}
        self.charges += changes.charges
        for ended in changes.ended:
            if isinstance(self.policy, Observer):
                self.policy.observe(ended)
        for command in commands:
            self._obey(command)

    def _obey(self, command: cmd.Command) -> None:
        if isinstance(command, cmd.Launch | cmd.Decline):
            for offer_id in command.offer_ids:
                self._offered.pop(offer_id, None)
        if isinstance(command, cmd.Launch):
            for task_id in command.task_ids:
                self._send(ev.TaskChanged(self._now, task_id, "running", command.vm.id))
        elif isinstance(command, cmd.KillTask):
            self._send(ev.TaskChanged(self._now, command.task_id, "killed", command.vm_id))
        elif isinstance(command, cmd.StartDriver):
            self._send(ev.DriverStarted(self._now, command.job_id))
            tasks = [task for task in self.model.tasks(command.job_id) if not task.ended]
            sizes = tuple(task.resources for task in tasks)
            end = self.end(command.job_id, self._now, sizes, len({task.vm_id for task in tasks}))
            self._push(end, _ENDS, command.job_id)
