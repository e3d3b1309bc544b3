"""A random walk around a cluster model with pools, and a provider that has bad days, too.

It books like a provider (which machine is open under which lease) and asserts that nothing is
opened twice or forgotten; daemons die on the way, and others go on with the stored state.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from environment.model.cluster_model import ClusterModel, ModelOptions
from environment.model.event_log import decode, encode
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.lease import Lease
from environment.model.messages.records import ExecutorRecord
from environment.pools import Consolidation, IdleTimeout
from environment.resources import total
from environment.types import Vm
from tests.environment.model.walks.random_walks import ACTIONS, Chaos

#: What happens besides, with weights.
ELASTIC_ACTIONS = {
    "answer": 5, "answer_badly": 1, "boot": 5, "listing": 2, "notice": 1, "reclaim": 1, "restart": 1,
    "resume": 1, "patience": 1, "move": 2,
}  # fmt: skip
#: How a provider fails to answer: it refuses, opens without saying so, or says so twice.
_BADLY: tuple[Literal["capacity", "quota", "invalid", "unavailable", "twice"], ...] = (
    "capacity", "quota", "invalid", "unavailable", "twice",
)  # fmt: skip


@dataclass
class Machine:
    """A VM as its provider has it."""

    id: str
    lease: str
    opened_at: float
    agent: Vm | None = None


class ElasticChaos(Chaos):
    """The walk: VMs of pools, and some that are always there."""

    def __init__(
        self, fixed: Sequence[Vm], pools: Sequence[Vm], seed: int, policy: str, keeping: IdleTimeout
    ):
        super().__init__(tuple(fixed), seed, policy)
        self.fixed = {vm.id for vm in fixed}
        self.places = {vm.id: vm for vm in pools}
        self.options = ModelOptions(
            places=tuple(pools), keeping=keeping, moves=Consolidation("fitting"), boot_timeout=60.0
        )
        self.model = ClusterModel(self.options)
        self.actions = ACTIONS | ELASTIC_ACTIONS
        self.machines: dict[str, Machine] = {}
        #: Calls of the provider that have no answer yet, and when those to open were made.
        self.calls: list[cmd.OpenVm | cmd.CloseVm] = []
        #: Leases that were asked for, and under which something was opened, ever.
        self.asked: set[str] = set()
        self.opened: set[str] = set()
        #: Another daemon goes on just now.
        self.taking_up = False
        self.open_now: dict[str, Lease] = {}
        self.snapshots: list[tuple[int, str]] = []
        self.send(ev.Restored(self.now, (), (), self.options))

    def step(self) -> None:
        """One action at random."""
        self.pass_time(self.random.choice((0.0, 0.1, 0.5, 2.0, 7.0)))
        (action,) = self.random.choices(list(self.actions), list(self.actions.values()))
        getattr(self, action)()

    def pass_time(self, seconds: float) -> None:
        """VMs that hold tasks cost their price."""
        held = [vm for vm in self.vms.values() if self.model.ledger.count(vm.id)]
        self.bill += sum(vm.price_per_hour for vm in held) * seconds / 3600
        self.now += seconds

    def vm_lost(self) -> None:
        """Only VMs that are there can be lost."""
        if self.vms:
            super().vm_lost()

    def patience(self) -> None:
        """Time goes by, in which idle VMs are closed."""
        for _ in range(3):
            self.pass_time(20.0)
            self.tick()

    def move(self) -> None:
        """VMs are emptied where that pays."""
        self.send(ev.MovesSought(self.now))

    # ---- the provider --------------------------------------------------------------------------------

    def execute(self, command: cmd.Command) -> None:
        """Calls of the provider are answered some time."""
        if isinstance(command, cmd.OpenVm):
            assert self.taking_up or command.lease_id not in self.asked, "a lease was asked for twice"
            self.asked.add(command.lease_id)
            self.calls.append(command)
        elif isinstance(command, cmd.CloseVm):
            self.calls.append(command)
        else:
            super().execute(command)

    def take_call(self) -> cmd.OpenVm | cmd.CloseVm | None:
        """Any call without an answer."""
        return self.calls.pop(self.random.randrange(len(self.calls))) if self.calls else None

    def answer(self) -> None:
        """The provider does as it was told."""
        call = self.take_call()
        if isinstance(call, cmd.OpenVm):
            if machine := self.open(call.lease_id):
                self.send(ev.LeaseOpened(self.now, call.lease_id, machine.id, machine.opened_at))
        elif call is not None:
            self.close(call)

    def open(self, lease_id: str) -> Machine | None:
        """Open a machine under the lease, unless one is open; None if the lease was given up before."""
        if any(isinstance(call, cmd.CloseVm) and call.lease_id == lease_id for call in self.calls):
            return None
        known = [machine for machine in self.machines.values() if machine.lease == lease_id]
        if known:
            return known[0]
        lease = self.model.lease(lease_id)
        if lease is None or lease.state == "closing":
            return None
        if lease_id in self.opened:
            return None  # what was opened under it is gone since
        self.opened.add(lease_id)
        self.numbers += 1
        machine = Machine(f"machine-{self.numbers}", lease_id, self.now)
        self.machines[machine.id] = machine
        return machine

    def close(self, call: cmd.CloseVm) -> None:
        """Close the machine by its own name, or by the lease under which it is open."""
        ids = (
            [call.machine_id]
            if call.machine_id
            else [m.id for m in self.machines.values() if m.lease == call.lease_id]
        )
        for machine_id in ids:
            if machine := self.machines.pop(machine_id, None):
                self.leave(machine)
        self.send(ev.LeaseClosed(self.now, call.lease_id, self.random.choice((None, 0.01))))

    def leave(self, machine: Machine) -> None:
        """Remove the machine's agent and the tasks that ran there."""
        if machine.agent is None:
            return
        vm_id = machine.agent.id
        for offer_id in [i for i, offer in self.offers.items() if offer.vm.id == vm_id]:
            del self.offers[offer_id]
            self.send(ev.OfferRescinded(self.now, offer_id))
        if self.random.random() < 0.5:
            self.send(ev.VmLost(self.now, vm_id))
        for task_id in [i for i, (at, _) in self.tasks.items() if at == vm_id]:
            self.end(task_id, "gone")
        del self.vms[vm_id]

    def answer_badly(self) -> None:
        """It refuses, or opens without saying so, or answers twice."""
        call = self.take_call()
        if isinstance(call, cmd.CloseVm):
            self.calls.append(call)
        elif call is not None:
            how = self.random.choice(_BADLY)
            if how == "unavailable" and self.open(call.lease_id):
                self.send(ev.LeaseRefused(self.now, call.lease_id, "unavailable", "no answer"))
            elif how == "twice" and (machine := self.open(call.lease_id)):
                for _ in range(2):
                    self.send(ev.LeaseOpened(self.now, call.lease_id, machine.id, machine.opened_at))
            elif how == "capacity" or how == "quota" or how == "invalid":
                self.send(ev.LeaseRefused(self.now, call.lease_id, how, "none left"))

    def boot(self) -> None:
        """The agent of an open VM comes."""
        booting = [machine for machine in self.machines.values() if machine.agent is None]
        if booting:
            self.boot_one(self.random.choice(booting))

    def boot_one(self, machine: Machine) -> None:
        """It is there from now on."""
        place = self.places[machine.lease.rpartition(".")[0]]
        self.numbers += 1
        machine.agent = replace(
            place, id=f"agent-{self.numbers}", terms=None, lease=machine.lease, address="10.0.0.1"
        )
        self.vms[machine.agent.id] = machine.agent

    def listing(self) -> None:
        """Report the open machines to the model."""
        at = self.now
        self.pass_time(self.random.choice((0.0, 1.0)))
        listed = tuple(
            ev.Listed(m.lease, m.id, "booting" if m.agent is None else "running", m.opened_at)
            for m in self.machines.values()
        )
        self.send(ev.MachinesListed(self.now, at, listed))

    def notice(self) -> None:
        """A VM is going to be taken away, or is not."""
        lease_ids = [*(machine.lease for machine in self.machines.values()), "nobody.7"]
        away_at = self.random.choice((self.now + 120.0, None))
        self.send(ev.LeaseNotice(self.now, self.random.choice(lease_ids), away_at, "spot"))

    def reclaim(self) -> None:
        """A VM is gone without a word."""
        if self.machines:
            self.leave(self.machines.pop(self.random.choice(sorted(self.machines))))

    # ---- daemons die -----------------------------------------------------------------------------------

    def restart(self) -> None:
        """Kill the daemon; another goes on with the stored state, and the provider with the calls it got."""
        kept = self.model.snapshot()
        self.calls = [call for call in self.calls if self.random.random() < 0.5]
        self.model = ClusterModel()
        self.offers.clear()
        self.suppressed = False
        self.taking_up = True
        self.send(replace(kept, at=self.now, moment=None))
        self.taking_up = False
        self.reconnect()

    def resume(self) -> None:
        """A model that is made of a moment goes on as if nothing had happened."""
        line = encode(self.model.snapshot())
        self.snapshots.append((len(self.log), line))
        moment = decode(line)
        assert isinstance(moment, ev.Restored)
        assert self.model.take_changes().leases == ()
        before, self.model = self.model, ClusterModel()
        assert self.model.handle(moment) == []
        assert self.model.snapshot() == before.snapshot()

    # ---- what must always hold -------------------------------------------------------------------------

    def launch(self, vm: Vm, offer_ids: tuple[str, ...], tasks: tuple[ExecutorRecord, ...]) -> None:
        """Launch tasks, and assert that their VM is up."""
        if vm.id not in self.fixed:
            lease = self.model.lease(self.vms[vm.id].lease)
            assert lease is not None
            assert lease.state == "up"
        super().launch(vm, offer_ids, tasks)

    def check(self) -> None:
        """Everything that is true after every event."""
        changes = self.model.take_changes()
        for job in changes.jobs:
            assert job.reason
            self.job_costs[job.job.id] = job.cost
            if job.ended:
                assert self.ended.setdefault(job.job.id, job.state) == job.state
        for task in changes.executors:
            self.task_costs[task.task_id] = task.cost
        for lease in changes.leases:
            if lease.ended:
                self.open_now.pop(lease.id, None)
            else:
                self.open_now[lease.id] = lease
        waiting = [request.job.id for request in self.model.requests()]
        assert max(Counter(waiting).values(), default=1) == 1
        self.moment = self.kept_moment()
        for job_id in (f"job-{number}" for number in range(self.jobs)):
            self.check_job(job_id, waiting)
        assert all(len(tasks) == 1 for tasks in self.drivers_ran.values())
        self.check_leases()
        self.check_view()
        self.check_costs()

    def reserved(self) -> dict[str, tuple[str, ...]]:
        """The VMs on which something is kept, by job."""
        return {reserved.job_id: reserved.all_vms for reserved in self.moment.fleet.reserved}

    def check_leases(self) -> None:
        """Stored leases match the machines; a place has one lease, and leases marked idle are idle."""
        leases = self.model.leases()
        assert {lease.id: lease for lease in leases} == self.open_now
        asked_for = [lease.vm.id for lease in leases if lease.reason not in _ORPHANS]
        assert max(Counter(asked_for).values(), default=1) == 1
        kept = {vm_id for vms in self.reserved().values() for vm_id in vms}
        for lease in leases:
            vm_id = lease.agent_id or lease.vm.id
            if lease.state in ("opening", "booting", "up", "draining"):
                busy = bool(self.model.ledger.count(vm_id)) or vm_id in kept
                assert (lease.idle_since is None) == busy, lease

    def check_job(self, job_id: str, waiting: list[str]) -> None:
        """One that waits for VMs to boot waits for nothing else, and says so."""
        job = self.model.job(job_id)
        if job_id not in self.reserved():
            super().check_job(job_id, waiting)
            return
        assert job is not None
        assert not job.ended
        assert job_id not in waiting
        assert job_id not in self.model.aside()
        if job.state == "queued":
            assert not any(not task.ended for task in self.model.tasks(job_id))

    def check_view(self) -> None:
        """The view shows no more than there is: offered resources of present VMs, all resources of others."""
        view, moment = self.model.view(), self.moment
        assert view.openings is not None
        names = [vm.name for vm in view.vms]
        assert len(set(names)) == len(names)
        open_now = {lease.vm.id for lease in self.model.leases()}
        agents = {lease.vm.id: lease.agent_id for lease in self.model.leases() if lease.agent_id}
        for i, vm in enumerate(view.vms):
            vm_id = agents.get(vm.id, vm.id)
            held = [
                size
                for reserved in moment.fleet.reserved
                for at, size in zip(reserved.vm_ids, reserved.sizes, strict=True)
                if at == vm_id
            ]
            held += [r.driver for r in moment.fleet.reserved if r.driver_vm_id == vm_id]
            if vm_id in self.places:
                assert self.places[vm_id].resources == total(held) + view.free.at(i)
                assert view.openings.open[i] == (vm_id in open_now)
                continue
            offers = [offer for offer in self.offers.values() if offer.vm.id == vm_id]
            offered = total(offer.resources for offer in offers)
            assert offered.contains(view.usable.at(i))
            assert view.openings.open[i]
            if vm_id in self.vms:
                has = self.vms[vm_id].resources
                assert has.contains(self.model.ledger.held(vm_id) + total(held))

    # ---- a calm end --------------------------------------------------------------------------------------

    def drain(self) -> None:
        """No more trouble and no more jobs: all comes to its end, and nothing stays open."""
        self.reconnect()
        for _ in range(600):
            self.calm()
            if len(self.ended) == self.jobs and not self.tasks and self.all_closed():
                return
        raise AssertionError(f"not drained: {self.reasons()}, {self.machines}, {self.model.leases()}")

    def calm(self) -> None:
        """Let all parts finish their work."""
        self.pass_time(1.0)
        while self.calls:
            self.answer()
        for machine in list(self.machines.values()):
            if machine.agent is None and self.random.random() < 0.3:
                self.boot_one(machine)
        self.tick()
        self.offer_all()
        self.decide()
        for task_id in list(self.tasks):
            if task_id in self.tasks:
                self.tell(task_id, "running")
        for job_id in sorted(self.drivers | self.clients):
            self.drivers.discard(job_id)
            self.clients.discard(job_id)
            self.send(ev.DriverEnded(self.now, job_id, 0))
        for task_id in [i for i in self.tasks if ".driver-" in i]:
            self.end(task_id, "finished")
        if self.random.random() < 0.2:
            self.listing()
            self.pass_time(10.0)

    def all_closed(self) -> bool:
        """Whether only the permanent VMs are open."""
        places = {machine.lease.rpartition(".")[0] for machine in self.machines.values()}
        always = {vm.id for vm in self.places.values() if vm.terms is not None and vm.terms.always}
        return places == always and len(self.machines) == len(always)

    def reasons(self) -> dict[str, str]:
        """States and reasons of jobs that are not over, by job id."""
        jobs = (self.model.job(f"job-{number}") for number in range(self.jobs))
        return {job.job.id: f"{job.state}: {job.reason}" for job in jobs if job is not None and not job.ended}

    def check_end(self) -> None:
        """All jobs are over, and the log replays, from any of its moments."""
        assert len(self.ended) == self.jobs
        self.replay(ClusterModel(), self.log)
        for begin, line in self.snapshots[:2]:
            model, moment = ClusterModel(), decode(line)
            assert isinstance(moment, ev.Restored)
            model.handle(moment)
            self.replay(model, self.log[begin:])

    @staticmethod
    def replay(model: ClusterModel, log: Sequence[tuple[ev.Event, list[cmd.Command]]]) -> None:
        """A model that is given the same events gives the same commands.

        Ticks without commands are left out, but for those that told waiting jobs that there is no master.
        """
        there = True
        for event, told in log:
            there = not isinstance(event, ev.Disconnected) and (there or isinstance(event, ev.Subscribed))
            if there and isinstance(event, ev.Tick) and not told:
                continue
            assert model.handle(event) == told
            model.take_changes()


_ORPHANS = ("opened twice", "no job waits for it")
