"""A master with VMs, tasks and bad days, as a random walk around a cluster model.

It books like Mesos (offers, and tasks by VM) and asserts that the model's commands fit its books; after
each event it checks the model's invariants.
"""

import math
import re
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from agents.registry import create
from environment.decisions.decision_round import decide_in_turn
from environment.model.cluster_model import ClusterModel
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages import task_states
from environment.model.messages.records import ExecutorRecord, ExecutorRequest, JobRecord
from environment.model.messages.snapshot import ModelSnapshot, Offer
from environment.model.messages.states import ENDED_JOB
from environment.model.messages.vm_accounts import Charge
from environment.model.tasks.launches import decided
from environment.resources import Resources, total
from environment.types import Dynamic, Vm
from tests.builders import make_job, make_offer
from tests.environment.two_worlds.world import costs

#: Actions of the walk with their weights.
ACTIONS = {
    "submit": 2, "kill": 1, "offer": 3, "decide": 2, "decide_late": 1, "rescind": 1, "progress": 4, "fail": 1,
    "driver": 2, "tick": 2, "reconnect": 1, "vm_lost": 1, "unreach": 1,
    "change_policy": 1, "charge": 1, "ask": 3, "release": 1, "decommission": 1, "client": 1,
}  # fmt: skip


class Chaos:
    """The walk: `step` for one random action, `drain` for a calm end."""

    def __init__(self, vms: tuple[Vm, ...], seed: int, policy: str) -> None:
        self.random = Random(seed)  # noqa: S311  # no secret hangs on it
        self.vms = {vm.id: vm for vm in vms}
        self.policy = create(policy)
        self.model = ClusterModel()
        self.now = 0.0
        self.log: list[tuple[ev.Event, list[cmd.Command]]] = []
        self.offers: dict[str, Offer] = {}
        self.tasks: dict[str, tuple[str, ExecutorRecord]] = {}
        self.states: dict[str, task_states.TaskState] = {}
        self.drivers: set[str] = set()
        #: Jobs whose drivers are processes of their users.
        self.clients: set[str] = set()
        #: Tasks by job that ran its driver on the cluster.
        self.drivers_ran: dict[str, set[str]] = {}
        self.suppressed = False
        self.launched: set[str] = set()
        self.ended: dict[str, str] = {}
        self.job_costs: dict[str, float] = {}
        self.task_costs: dict[str, float] = {}
        self.bill = 0.0
        #: Dollars of what jobs used, and of what nobody did.
        self.uses: dict[str, float] = {}
        self.idle = 0.0
        self.charges: list[Charge] = []
        self.jobs = 0
        self.numbers = 0

    # ---- the walk ----------------------------------------------------------------------------------

    def step(self) -> None:
        """One action at random."""
        self.pass_time(self.random.choice((0.0, 0.1, 0.5, 2.0, 7.0)))
        (action,) = self.random.choices(list(ACTIONS), list(ACTIONS.values()))
        getattr(self, action)()

    def drain(self) -> None:
        """No more trouble and no more jobs: all must come to their end."""
        self.reconnect()
        for _ in range(400):
            self.pass_time(1.0)
            self.tick()
            self.offer_all()
            self.decide()
            for task_id in list(self.tasks):
                self.tell(task_id, "running")
            for job_id in sorted(self.drivers):
                self.drivers.discard(job_id)
                self.send(ev.DriverEnded(self.now, job_id, 0))
            for job_id in sorted(self.clients):
                self.clients.discard(job_id)
                self.send(ev.DriverEnded(self.now, job_id, 0))
            for task_id in [i for i in self.tasks if ".driver-" in i]:
                self.end(task_id, "finished")
            if len(self.ended) == self.jobs and not self.tasks:
                return
        stuck = [(request.job.id, request.count) for request in self.model.requests()]
        raise AssertionError(f"not drained: {stuck}, {len(self.ended)} of {self.jobs}, {self.states}")

    # ---- actions -----------------------------------------------------------------------------------

    def submit(self) -> None:
        """A job that fits the empty cluster."""
        pick = self.random.choice
        driver = Resources.of(1.0, 1024) if self.random.random() < 0.2 else None
        job = make_job(f"job-{self.jobs}", pick((1, 1, 2, 3, 5)), pick((0.1, 0.5, 1.0, 2.0)), 512, self.now)
        self.jobs += 1
        job = make_job(job.id, job.executors, job.cpus, 512, self.now, 60.0, driver)
        if self.random.random() < 0.5:
            least = self.random.randint(0, job.executors)
            initial = self.random.randint(least, job.executors)
            job = replace(job, min_executors=max(least, 1), dynamic=Dynamic(least, initial))
        if driver is None and self.random.random() < 0.3:
            self.clients.add(job.id)
            job = replace(job, client_driver="127.0.0.1")
        self.send(ev.JobSubmitted(self.now, job))

    def ask(self) -> None:
        """Any job's driver asks for executors: of its own kind, of another, and of one that fits no VM."""
        job = self.model.job(f"job-{self.random.randrange(self.jobs + 1)}")
        most = 2 if job is None else job.job.executors + 2
        others = (
            ExecutorRequest(1, Resources.of(1.5, 700), self.random.randint(0, 3)),
            ExecutorRequest(2, Resources.of(99, 1), 1),
        )
        of_its_own = ExecutorRequest(0, Resources.of(0.25, 512), self.random.randint(0, most))
        chosen = (of_its_own, *self.random.sample(others, self.random.choice((0, 0, 1, 2))))
        self.send(ev.ExecutorsAsked(self.now, "job-x" if job is None else job.job.id, chosen))

    def release(self) -> None:
        """Any job's driver gives executors back, some of which are not there."""
        self.send(ev.ExecutorsReleased(self.now, *self.some_executors()))

    def decommission(self) -> None:
        """Executors are to be given up."""
        self.send(ev.DecommissionAsked(self.now, *self.some_executors(), "for a test"))

    def some_executors(self) -> tuple[str, tuple[int, ...]]:
        """A job, and numbers of executors that it may have or not."""
        job_id = f"job-{self.random.randrange(self.jobs + 1)}"
        there = [t.number for t in self.model.tasks(job_id) if t.number is not None and not t.ended]
        return job_id, (*self.random.sample(there, self.random.randint(0, len(there))), 99)

    def client(self) -> None:
        """A driver that is its user's ends."""
        if self.clients:
            job_id = self.random.choice(sorted(self.clients))
            self.clients.discard(job_id)
            self.send(ev.DriverEnded(self.now, job_id, self.random.choice((0, 1, None))))

    def kill(self) -> None:
        """Any job, over or not."""
        self.send(ev.KillRequested(self.now, f"job-{self.random.randrange(self.jobs + 1)}"))

    def offer(self) -> None:
        """Offer part of the free resources of some VMs."""
        if self.model.subscribed and not self.suppressed:
            some = [vm for vm in self.vms.values() if self.random.random() < 0.6]
            offers = [self.new_offer(vm, self.random.choice((1.0, 1.0, 0.5))) for vm in some]
            self.send(ev.OffersReceived(self.now, tuple(offer for offer in offers if offer)))

    def offer_all(self) -> None:
        """Everything that is free."""
        if self.model.subscribed and not self.suppressed:
            offers = [self.new_offer(vm, 1.0) for vm in self.vms.values()]
            if any(offers):
                self.send(ev.OffersReceived(self.now, tuple(offer for offer in offers if offer)))

    def new_offer(self, vm: Vm, share: float) -> Offer | None:
        """An offer of a share of the resources that are neither used nor offered."""
        cpus, memory_mib = vm.cpus, vm.memory_mib
        for vm_id, task in self.tasks.values():
            if vm_id == vm.id:
                cpus, memory_mib = cpus - task.resources.cpus, memory_mib - task.resources.memory_mib
        for offer in self.offers.values():
            if offer.vm.id == vm.id:
                cpus, memory_mib = cpus - offer.resources.cpus, memory_mib - offer.resources.memory_mib
        assert round(cpus, 3) >= 0
        assert memory_mib >= 0
        cpus, memory_mib = round(cpus * share, 3), int(memory_mib * share)
        if cpus < 0.001 or not memory_mib:
            return None
        self.numbers += 1
        offer = make_offer(f"offer-{self.numbers}", vm, cpus, memory_mib)
        self.offers[offer.id] = offer
        return offer

    def decide(self) -> None:
        """A round of decisions when it is time."""
        if self.model.ready_to_decide():
            verdicts = tuple(decide_in_turn(self.policy.decide, self.model.view(), self.model.requests()))
            self.send(decided(verdicts, self.now))

    def decide_late(self) -> None:
        """A round on a view that is old when it ends."""
        if self.model.ready_to_decide():
            verdicts = tuple(decide_in_turn(self.policy.decide, self.model.view(), self.model.requests()))
            for _ in range(self.random.randrange(4)):
                self.pass_time(0.5)
                getattr(self, self.random.choice([action for action in ACTIONS if action != "decide_late"]))()
            self.send(decided(verdicts, self.now))

    def rescind(self) -> None:
        """The master takes an offer back."""
        if self.offers:
            offer_id = self.random.choice(sorted(self.offers))
            del self.offers[offer_id]
            self.send(ev.OfferRescinded(self.now, offer_id))

    def progress(self) -> None:
        """A task comes a step further, as far as the end when it was killed."""
        if self.tasks:
            task_id = self.random.choice(sorted(self.tasks))
            state = self.states[task_id]
            if state == "killing":
                self.end(task_id, "killed")
            elif state == "running" and ".driver-" in task_id and self.random.random() < 0.3:
                self.end(task_id, "finished")
            else:
                self.tell(task_id, "running" if state in ("starting", "running") else "starting")

    def fail(self) -> None:
        """A task ends badly, or well."""
        if self.tasks:
            task_id = self.random.choice(sorted(self.tasks))
            started = self.states[task_id] in ("running", "killing")
            ends: tuple[task_states.TaskState, ...] = (
                ("failed", "lost", "finished") if started else ("dropped", "error")
            )
            self.end(task_id, self.random.choice(ends))

    def driver(self) -> None:
        """A driver on the host ends."""
        if self.drivers:
            job_id = self.random.choice(sorted(self.drivers))
            self.drivers.discard(job_id)
            self.send(ev.DriverEnded(self.now, job_id, self.random.choice((0, 0, 0, 1, None))))

    def tick(self) -> None:
        """Time is told."""
        self.send(ev.Tick(self.now))

    def change_policy(self) -> None:
        """Another policy decides, as it happens the same."""
        self.send(ev.PolicyChanged(self.now))

    def reconnect(self) -> None:
        """The connection breaks, and comes back."""
        self.offers.clear()
        self.suppressed = False
        self.send(ev.Disconnected(self.now))
        self.pass_time(self.random.choice((0.1, 5.0)))
        self.tick()
        self.send(ev.Subscribed(self.now))

    def vm_lost(self) -> None:
        """A VM goes with its offers and, told one by one, its tasks."""
        vm_id = self.random.choice(sorted(self.vms))
        for offer_id in [i for i, offer in self.offers.items() if offer.vm.id == vm_id]:
            del self.offers[offer_id]
            self.send(ev.OfferRescinded(self.now, offer_id))
        self.send(ev.VmLost(self.now, vm_id))
        for task_id in [i for i, (at, _) in self.tasks.items() if at == vm_id]:
            self.end(task_id, "gone")

    def unreach(self) -> None:
        """A task cannot be reached; it may come back."""
        if self.tasks:
            task_id = self.random.choice(sorted(self.tasks))
            self.send(ev.TaskChanged(self.now, task_id, self.random.choice(("unreachable", "unknown"))))

    # ---- what the commands do -----------------------------------------------------------------------

    def send(self, event: ev.Event) -> None:
        """Send an event to the model, check it, and execute its commands."""
        commands = list(self.model.handle(event))
        self.log.append((event, commands))
        self.check()
        for command in commands:
            self.execute(command)

    def execute(self, command: cmd.Command) -> None:
        """Do as the master and the daemon's host would."""
        match command:
            case cmd.Launch(vm=vm, offer_ids=offer_ids, task_ids=task_ids):
                records = map(self.model.task, task_ids)
                self.launch(vm, offer_ids, tuple(task for task in records if task is not None))
            case cmd.Decline(offer_ids=offer_ids):
                for offer_id in offer_ids:
                    del self.offers[offer_id]
            case cmd.Suppress():
                self.suppressed = True
            case cmd.Revive():
                self.suppressed = False
            case cmd.KillTask(task_id=task_id) if task_id in self.tasks and self.random.random() < 0.9:
                self.states[task_id] = "killing"
            case cmd.Reconcile(tasks=tasks):
                for task_id in [task_id for task_id, _ in tasks] or list(self.tasks):
                    known = self.states.get(task_id, "gone")
                    self.send(ev.TaskChanged(self.now, task_id, known))
            case cmd.StartDriver(job_id=job_id):
                assert job_id not in self.drivers
                assert job_id not in self.clients
                self.drivers.add(job_id)
            case cmd.KillDriver(job_id=job_id):
                self.drivers.discard(job_id)

    def launch(self, vm: Vm, offer_ids: tuple[str, ...], tasks: tuple[ExecutorRecord, ...]) -> None:
        """Accept offers that are held, and start tasks that fit them and were never launched before."""
        assert offer_ids
        assert tasks
        used = [self.offers.pop(offer_id) for offer_id in offer_ids]
        assert {offer.vm.id for offer in used} == {vm.id}
        assert total(o.resources for o in used).contains(total(t.resources for t in tasks))
        for task in tasks:
            assert task.task_id not in self.launched
            assert task.share == min(1.0, dominant(task.resources, vm))
            self.launched.add(task.task_id)
            self.tasks[task.task_id] = (vm.id, task)
            self.states[task.task_id] = "staging"
            self.check_wanted(task)

    def tell(self, task_id: str, state: task_states.TaskState) -> None:
        """A task that was not killed goes into a state."""
        if self.states[task_id] != "killing":
            if state == "running" and ".driver-" in task_id:
                self.drivers_ran.setdefault(task_id.partition(".")[0], set()).add(task_id)
            self.states[task_id] = state
            self.send(ev.TaskChanged(self.now, task_id, state))
        else:
            self.end(task_id, "killed")

    def end(self, task_id: str, state: task_states.TaskState) -> None:
        """A task is over."""
        if task_id in self.tasks:
            del self.tasks[task_id], self.states[task_id]
            self.send(ev.TaskChanged(self.now, task_id, state, message="told by the master"))

    # ---- what must always hold ------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        """Charge the price of VMs that hold tasks, and of all present VMs where those are paid."""
        held = [vm for vm in self.vms.values() if self.model.ledger.count(vm.id)]
        self.bill += sum(vm.price_per_hour for vm in held) * seconds / 3600
        tasks = self.model.open_tasks()
        for vm in {vm.id: vm for vm in (*held, *self.model.vms())}.values():
            dollars = self.vms[vm.id].price_per_hour * seconds / 3600
            parts = [(task, task.share) for task in tasks if task.vm_id == vm.id]
            whole = max(1.0, sum(share for _, share in parts))
            for task, share in parts:
                self.uses[task.job_id] = self.uses.get(task.job_id, 0.0) + dollars * share / whole
            self.idle += dollars * (1 - sum(share for _, share in parts) / whole)
        self.now += seconds

    def check(self) -> None:
        """Everything that is true after every event."""
        changes = self.model.take_changes()
        self.charges += changes.charges
        for job in changes.jobs:
            assert job.reason
            self.job_costs[job.job.id] = job.cost
            if job.ended:
                assert self.ended.setdefault(job.job.id, job.state) == job.state
        for task in changes.executors:
            self.task_costs[task.task_id] = task.cost
        requests = self.model.requests()
        waiting = [request.job.id for request in requests]
        assert max(Counter(waiting).values(), default=1) == 1
        self.moment = self.kept_moment()
        for job_id in (f"job-{number}" for number in range(self.jobs)):
            self.check_job(job_id, waiting)
        for vm in self.model.vms():
            assert self.vms[vm.id].resources.contains(self.model.ledger.held(vm.id))
            assert vm.cpus <= self.vms[vm.id].cpus
        assert all(len(tasks) == 1 for tasks in self.drivers_ran.values())
        self.check_view()
        self.check_costs()

    def kept_moment(self) -> ModelSnapshot:
        """State that a snapshot stores; taken once for all checks after an event, as it copies records."""
        moment = self.model.snapshot().moment
        assert moment is not None
        return moment

    def check_job(self, job_id: str, waiting: list[str]) -> None:
        """A job that is not over is in the queue, or its executors are there or on their way."""
        job = self.model.job(job_id)
        if job is None or job.ended:
            assert job_id not in waiting
            return
        tasks = [task for task in self.model.tasks(job_id) if task.number is not None]
        assert len({task.number for task in tasks}) == len(tasks)
        present = [task for task in tasks if not task.ended]
        if job.job.dynamic is not None:
            self.check_dynamic(job, waiting)
        elif job.state == "queued":
            assert (job_id in waiting) != (job_id in {*self.model.paused(), *self.model.aside()})
            assert not present
        elif not job.aborting and job.started_at is None and job.job.driver is None:
            assert len(present) + sum(task.released for task in tasks) >= job.job.executors
            assert len(present) <= job.job.executors
        elif not job.aborting:
            lost = [task for task in tasks if task.gone and not task.replaced]
            assert sum(not task.gone for task in present) + len(lost) <= job.job.executors
            assert not lost or job.state == "relaunching"

    def check_wanted(self, task: ExecutorRecord) -> None:
        """No executor is launched that a dynamic job does not begin with, nor its driver has asked for."""
        job = self.model.job(task.job_id)
        if job is None or job.job.dynamic is None or task.number is None:
            return
        present = [other for other in self.executors(task.job_id) if other.profile == task.profile]
        begins = (ExecutorRequest(0, job.job.size, job.job.begins_with),)
        wants = (*begins, *job.wanted) if job.state == "placing" else job.wanted or begins
        assert any(len(present) <= most for profile, _, most in wants if profile == task.profile)

    def executors(self, job_id: str) -> list[ExecutorRecord]:
        """A job's executors that have not ended, and are not to."""
        return [t for t in self.model.tasks(job_id) if t.number is not None and not t.gone]

    def check_dynamic(self, job: JobRecord, waiting: list[str]) -> None:
        """It never has more executors than it may; if it has fewer than it asks for, it waits; it says so."""
        job_id, present = job.job.id, self.executors(job.job.id)
        counts = Counter(task.profile for task in present)
        assert all(count <= job.job.executors for count in counts.values())
        wants = job.wanted or (ExecutorRequest(0, job.job.size, job.job.begins_with),)
        assert all(asked.total <= job.job.executors for asked in wants)
        stands = not job.aborting and (
            job.started_at is not None or (job.job.driver is not None and job.placed_at is not None)
        )
        lacks = stands and any(counts[profile] < most for profile, _, most in wants)
        grows = job_id in {growth.job_id for growth in self.moment.growing}
        assert grows == lacks
        if job.state == "queued":
            assert job.job.begins_with
            assert (job_id in waiting) != (job_id in {*self.model.paused(), *self.model.aside()})
            assert not present
        elif not stands and not job.aborting:
            given_back = sum(task.released or task.gone for task in self.model.tasks(job_id))
            assert min(job.job.fewest, job.job.begins_with) <= len(present) + given_back
            assert job_id not in waiting
        assert grows or not job.reason.startswith("asks for more")
        if found := re.match(r"runs on (\d+) executors?", job.reason):
            assert int(found[1]) == len(present)

    def check_view(self) -> None:
        """A policy may use only offered resources; free resources are at most those that no task holds."""
        view = self.model.view()
        for i, vm in enumerate(view.vms):
            offers = [offer for offer in self.offers.values() if offer.vm.id == vm.id]
            offered = total(offer.resources for offer in offers)
            assert offered.contains(view.usable.at(i))
            held = self.model.ledger.held(vm.id)
            assert ((self.vms[vm.id].resources - held).positive | offered).contains(view.free.at(i))
            assert view.offered is not None
            assert not view.offered.there[i] or offers

    def check_costs(self) -> None:
        """At every moment, the jobs' costs so far add up to the VMs' cost."""
        live = costs(self.model, self.now)
        over = sum(cost for job_id, cost in self.job_costs.items() if job_id not in live)
        assert math.isclose(over + sum(live.values()), self.bill, abs_tol=1e-9)

    def charge(self) -> None:
        """Charges are the jobs' use and the unused rest; together they are the bill."""
        self.send(ev.ChargesDue(self.now))
        used: dict[str, float] = {}
        for charge in self.charges:
            used[charge.job] = used.get(charge.job, 0.0) + charge.dollars
            assert (charge.kind == "used") == bool(charge.job)
            assert charge.dollars > 0
        idle = used.pop("", 0.0)
        assert math.isclose(idle, self.idle, abs_tol=1e-9)
        assert used == pytest.approx(
            {job: dollars for job, dollars in self.uses.items() if dollars}, abs=1e-9
        )

    def check_end(self) -> None:
        """All jobs are over, all tasks gone, and the charges add up to the bill."""
        self.charge()
        assert len(self.ended) == self.jobs
        assert set(self.ended.values()) <= ENDED_JOB
        assert not self.model.requests()
        assert self.suppressed
        assert math.isclose(sum(self.job_costs.values()), self.bill, abs_tol=1e-9)
        assert math.isclose(sum(self.task_costs.values()), self.bill, abs_tol=1e-9)


def dominant(taken: Resources, vm: Vm) -> float:
    """The largest fraction of anything that a VM has."""
    return max(taken.get(name) / vm.resources.get(name) for name in taken)
