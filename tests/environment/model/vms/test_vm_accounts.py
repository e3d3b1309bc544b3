"""Costs of VMs by purpose: computed by hand, and by a plain second account on random days."""

import math
from collections import defaultdict
from copy import copy
from dataclasses import replace
from random import Random

import pytest

from environment.model.messages import events as ev
from environment.model.messages.lease import Lease, OpenedFor
from environment.model.messages.records import ExecutorRecord
from environment.model.messages.vm_accounts import Account, Charge
from environment.model.vms.usage_ledger import Ledger
from environment.pools import Terms
from environment.resources import Resources
from environment.types import Job, Vm
from tests.builders import make_job, make_vm, make_vms
from tests.environment.two_worlds.world import World

#: 3.6 dollars an hour, which is a tenth of a cent a second.
VM = make_vm("vm-1", price_per_hour=3.6)
POOLED = replace(make_vm("general-1", price_per_hour=3.6), terms=Terms("general", 60.0, 60.0, 10.0))
DAY = 86_400.0


def job_of(job_id: str) -> Job:
    """A job of ann's, for any id."""
    return replace(make_job(job_id), owner="ann", queue="night")


def task_on(vm_id: str, number: int, at: float, share: float, job_id: str = "job-1") -> ExecutorRecord:
    """An executor that takes so much of a VM."""
    ran = Resources.of(1.0, 512)
    return ExecutorRecord(
        f"{job_id}.{number}", job_id, number, vm_id, "", "", "", 3.6, ran, (), at, share=share
    )


def by(charges: tuple[Charge, ...] | list[Charge], *fields: str) -> dict[tuple[str, ...], float]:
    """Dollars by these fields."""
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    for charge in charges:
        sums[tuple(getattr(charge, field) for field in fields)] += charge.dollars
    return dict(sums)


def test_a_vm_used_for_a_quarter_is_idle_for_three() -> None:
    """One job on a quarter of the only VM, for a minute of two."""
    world = World(make_vms(1))
    world.run(replace(make_job(), owner="ann", queue="night"))
    world.now += 60
    world.driver_ends("job-1")
    world.tell("killed", "job-1.0")
    world.now += 60
    world.send(ev.ChargesDue(world.now))
    charges, minute = world.model.take_changes().charges, 0.24 / 60
    assert by(charges, "kind", "job", "owner", "queue") == {
        ("used", "job-1", "ann", "night"): pytest.approx(minute / 4),
        ("idle", "", "", ""): pytest.approx(minute * 7 / 4),
    }
    assert {(charge.day, charge.vm, charge.pool, charge.type) for charge in charges} == {
        ("1970-01-01", "vm-1", "", "m1.large")
    }
    assert sum(charge.dollars for charge in charges) == pytest.approx(2 * minute, rel=1e-12)


def test_who_takes_more_than_all_together_pays_in_proportion() -> None:
    """One takes three quarters of something, another half of something else: nothing is idle."""
    ledger = Ledger(job_of)
    ledger.accounts.see((VM,), 0.0, known=True)
    for task in (task_on(VM.id, 0, 0.0, 0.75, "job-1"), task_on(VM.id, 1, 0.0, 0.5, "job-2")):
        ledger.open(task)
    ledger.accounts.charge_all(100.0)
    charges, _ = ledger.accounts.take()
    assert by(charges, "job", "kind") == pytest.approx({("job-1", "used"): 0.06, ("job-2", "used"): 0.04})


def test_midnight_divides_what_is_charged() -> None:
    """An hour before it and two after."""
    ledger = Ledger()
    ledger.accounts.see((VM,), DAY - 3600, known=True)
    ledger.accounts.charge_all(DAY + 7200)
    charges, _ = ledger.accounts.take()
    assert by(charges, "day") == pytest.approx({("1970-01-01",): 3.6, ("1970-01-02",): 7.2})


def test_who_decides_is_told_until_another_does() -> None:
    """Earlier costs belong to the earlier policy."""
    world = World(make_vms(1))
    world.subscribe()
    world.send(ev.PolicyChanged(world.now, "ff"))
    world.offer()
    world.wait(10)
    world.send(ev.PolicyChanged(world.now, "greedy"))
    world.wait(30)
    world.send(ev.ChargesDue(world.now))
    charges = world.model.take_changes().charges
    cent = 0.24 / 3600
    assert by(charges, "policy") == pytest.approx({("ff",): 10 * cent, ("greedy",): 30 * cent})


def test_a_vm_that_is_gone_costs_nothing_more() -> None:
    """Once nothing of ours can be there any more; and again, when it is back."""
    world = World(make_vms(1))
    world.run(make_job())
    world.wait(60)
    world.send(ev.VmLost(world.now, "id-vm-1"))
    world.wait(60)
    world.tell("gone", "job-1.0")
    world.wait(600)
    world.send(ev.ChargesDue(world.now))
    changes = world.kept()
    assert sum(charge.dollars for charge in changes.charges) == pytest.approx(2 * 0.24 / 60)
    assert [(account.name, account.closed) for account in changes.accounts] == [("vm-1", True)]
    world.offer()
    world.wait(60)
    world.send(ev.ChargesDue(world.now))
    assert sum(charge.dollars for charge in world.kept().charges) == pytest.approx(0.24 / 60)
    world.send(ev.VmLost(world.now, "id-vm-1"))
    world.wait(600)
    world.send(ev.ChargesDue(world.now))
    assert world.kept().charges == ()


def test_many_vms_are_charged_a_few_at_once() -> None:
    """Those that were charged longest ago come first, none twice, and in the end all are until then."""
    world = World(make_vms(5))
    world.subscribe()
    world.offer()
    world.wait(60)
    asked, parts = world.now, []
    while world.model.ledger.accounts.due(asked):
        world.wait(1)
        world.send(ev.ChargesDue(world.now, asked, 2))
        parts.append({charge.vm: charge.dollars for charge in world.model.take_changes().charges})
    assert [len(part) for part in parts] == [2, 2, 1]
    assert len({vm for part in parts for vm in part}) == 5
    seconds = [dollars * 3600 / 0.24 for part in parts for dollars in part.values()]
    assert seconds == pytest.approx([61, 61, 62, 62, 63])
    world.send(ev.ChargesDue(world.now, asked))
    assert world.model.take_changes().charges == ()


def test_after_a_restart_what_was_there_all_the_time_is_paid_for() -> None:
    """One of two VMs is found again, and is paid for throughout; the other for as long as it was known."""
    here, gone = make_vms(2)
    world = World((here, gone))
    world.subscribe()
    world.offer()
    world.wait(60)
    world.send(ev.ChargesDue(world.now))
    kept = world.kept()
    assert sum(charge.dollars for charge in kept.charges) == pytest.approx(2 * 0.24 / 60)
    world.now += 600
    world.send(ev.Restored(world.now, (), (), world.model.options, accounts=kept.accounts))
    world.send(ev.ChargesDue(world.now))
    assert world.kept().charges == (), "nobody has told yet which are there"
    world.subscribe()
    world.send(ev.VmsMeasured(world.now, (), (here,)))
    world.send(ev.ChargesDue(world.now))
    changes = world.kept()
    assert by(changes.charges, "vm") == pytest.approx({("vm-1",): 10 * 0.24 / 60})
    assert {account.name: account.closed for account in changes.accounts} == {"vm-1": False, "vm-2": True}


def test_a_lease_from_opened_to_closed() -> None:
    """A minute to boot, a minute idle, half used, drained, and closed after 225 seconds in units of ten."""
    ledger = Ledger(job_of)
    lease = Lease("general-1.1", POOLED, asked_at=0.0)
    ledger.accounts.lease(lease, 0.0)
    ledger.accounts.charge_all(5.0)
    assert ledger.accounts.take() == ((), ()), "it was only asked for"
    lease.opened_at, lease.state = 10.0, "booting"
    ledger.accounts.lease(lease, 12.0)
    lease.ready_at, lease.state, lease.agent_id = 70.0, "up", "agent-7"
    ledger.accounts.lease(lease, 70.0)
    task = task_on("agent-7", 0, 130.0, 0.5)
    ledger.open(task)
    lease.draining_at, lease.state = 170.0, "draining"
    ledger.accounts.lease(lease, 170.0)
    ledger.close(task, 190.0)
    lease.closed_at, lease.state, lease.charged = 235.0, "closed", 0.231
    ledger.accounts.lease(lease, 235.0)
    charges, accounts = ledger.accounts.take()
    assert by(charges, "kind", "job") == pytest.approx(
        {
            ("booting", ""): 0.060,
            ("idle", ""): 0.060 + 0.020,
            ("used", "job-1"): 0.020 + 0.010,
            ("draining", ""): 0.010 + 0.045,
            ("rounding", ""): 0.005,
            ("difference", ""): 0.001,
        }
    )
    assert {(charge.vm, charge.pool) for charge in charges} == {("general-1.1", "general")}
    assert [account.closed for account in accounts] == [True]
    assert accounts[0].dollars == pytest.approx(0.23)
    assert ledger.accounts.state() == ()


def test_what_a_provider_has_charged_so_far_is_held_against_what_it_costs_by_now() -> None:
    """It charges whole minutes, as its pool says, and a tenth of a cent more; in the end half of that."""
    terms = Terms("general", boot=60.0, granularity=60.0)
    lease = Lease("general-1.1", replace(POOLED, terms=terms), asked_at=0.0, opened_at=0.0)
    ledger = Ledger()
    ledger.accounts.lease(lease, 0.0)
    for at, charged in ((30.0, 0.061), (90.0, 0.121)):
        ledger.accounts.told(lease, charged, at)
        charges, _ = ledger.accounts.take()
        expected = 0.001 if at == 30.0 else 0.0
        assert by(charges, "kind").get(("difference",), 0.0) == pytest.approx(expected, abs=1e-12)
    (account,) = ledger.accounts.state()
    assert account.difference == pytest.approx(0.001)
    lease.closed_at, lease.state, lease.charged = 150.0, "closed", 0.1805
    ledger.accounts.lease(lease, 150.0)
    charges, _ = ledger.accounts.take()
    assert by(charges, "kind")["difference",] == pytest.approx(-0.0005)


def test_one_that_ended_before_it_was_known_is_not_paid_for_longer() -> None:
    """It was taken away at 100 seconds, and charged as idle until 160 by then; the least is a minute."""
    ledger, lease = Ledger(), Lease("general-1.1", POOLED, asked_at=0.0, opened_at=0.0)
    for ready in (None, 60.0):
        lease.ready_at = ready
        ledger.accounts.lease(lease, ready or 0.0)
    ledger.accounts.charge_all(160.0)
    lease.state, lease.closed_at = "lost", 100.0
    ledger.accounts.lease(lease, 165.0)
    charges, _ = ledger.accounts.take()
    assert by(charges, "kind") == pytest.approx({("booting",): 0.06, ("idle",): 0.04})


def test_a_lease_whose_account_could_not_be_read_is_not_paid_for_twice() -> None:
    """Opened at 0, taken up at 600 and closed at 650: 50 seconds are charged then."""
    ledger, lease = Ledger(), Lease("general-1.1", POOLED, asked_at=0.0, opened_at=0.0, ready_at=60.0)
    ledger.accounts.resume((), "ff", (lease,), 600.0, found=False)
    lease.state, lease.closed_at = "closed", 650.0
    ledger.accounts.lease(lease, 650.0)
    charges, _ = ledger.accounts.take()
    assert by(charges, "kind") == pytest.approx({("idle",): 0.05})


def test_a_clock_that_is_set_forward_is_not_paid_for() -> None:
    """A day that did not go by: neither a fixed VM nor the least that is charged of a lease knows of it."""
    world, lease = World(make_vms(1)), Lease("general-1.1", POOLED, asked_at=0.0, opened_at=0.0)
    world.run(make_job())
    accounts, begin = world.model.ledger.accounts, world.now
    lease.opened_at = begin
    accounts.lease(lease, begin)
    for moved in (0.0, DAY):
        world.now += 10.0 + moved
        world.send(ev.ClockMoved(world.now, moved))
    world.now += 10.0
    lease.state, lease.closed_at = "closed", world.now
    accounts.lease(lease, world.now)
    world.send(ev.ChargesDue(world.now))
    assert by(world.model.take_changes().charges, "pool") == {
        ("",): pytest.approx(30 * 0.24 / 3600),
        ("general",): pytest.approx(60 * 3.6 / 3600),
    }


def test_a_vm_that_never_came_up_is_charged_for_its_boot_and_the_least() -> None:
    """Given up after 25 seconds."""
    ledger, lease = Ledger(), Lease("general-1.1", POOLED, asked_at=0.0, opened_at=0.0)
    ledger.accounts.lease(lease, 0.0)
    lease.state, lease.closed_at = "closed", 25.0
    ledger.accounts.lease(lease, 25.0)
    charges, _ = ledger.accounts.take()
    assert by(charges, "kind") == pytest.approx({("booting",): 0.025, ("rounding",): 0.035})


def test_an_agent_that_is_there_before_the_provider_answers_ends_the_boot() -> None:
    """Opened at 0, up at 40 seconds, told of at 50: ten seconds are idle."""
    ledger, lease = Ledger(), Lease("general-1.1", POOLED, asked_at=0.0, ready_at=40.0, agent_id="agent-7")
    ledger.accounts.lease(lease, 40.0)
    lease.opened_at = 0.0
    ledger.accounts.lease(lease, 50.0)
    charges, _ = ledger.accounts.take()
    assert by(charges, "kind") == pytest.approx({("booting",): 0.04, ("idle",): 0.01})


class Day:
    """Fixed VMs that come and go with tasks on them; a daemon that is killed between any two commits."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311  # no secret hangs on it
        self.vms = tuple(make_vm(f"vm-{number}", price_per_hour=0.5 + number) for number in range(4))
        self.ledger = Ledger(job_of)
        self.now = DAY - 3000.0
        self.there: tuple[Vm, ...] = ()
        self.tasks: dict[str, ExecutorRecord] = {}
        self.number = 0
        self.stored: dict[tuple[str, ...], float] = defaultdict(float)
        self.accounts: dict[str, Account] = {}
        self.kept: dict[str, ExecutorRecord] = {}
        #: The second account: dollars by day and job, by whoever is there.
        self.plain: dict[tuple[str, str], float] = defaultdict(float)

    def step(self) -> None:
        """Time goes by in steps that midnight does not divide; then something happens, and is stored."""
        for _ in range(self.random.randrange(40)):
            self.second_account()
            self.now += 5.0
        self.random.choice((self.come_and_go, self.begin, self.begin, self.end, self.crash, self.charge))()
        self.store()

    def second_account(self) -> None:
        """Five seconds, as anybody would count them."""
        held = {task.vm_id for task in self.tasks.values()}
        for vm in self.vms:
            if vm not in self.there and vm.id not in held:
                continue
            dollars, left = vm.price_per_hour * 5 / 3600, 1.0
            mine = [task for task in self.tasks.values() if task.vm_id == vm.id]
            whole = max(sum(task.share for task in mine), 1.0)
            day = "1970-01-01" if self.now < DAY else "1970-01-02"
            for task in mine:
                self.plain[day, task.job_id] += dollars * task.share / whole
                left -= task.share / whole
            self.plain[day, ""] += dollars * left

    def come_and_go(self) -> None:
        """Any VMs are there."""
        self.there = tuple(vm for vm in self.vms if self.random.random() < 0.7)
        self.ledger.accounts.see(self.there, self.now, known=True)

    def begin(self) -> None:
        """A task on a VM that is there."""
        if self.there:
            self.number += 1
            vm, share = self.random.choice(self.there), self.random.choice((0.1, 0.3, 0.8))
            task = task_on(vm.id, self.number, self.now, share, f"job-{self.number % 5}")
            self.tasks[task.task_id] = task
            self.ledger.open(task)

    def end(self) -> None:
        """Any task."""
        if self.tasks:
            task = self.tasks.pop(self.random.choice(sorted(self.tasks)))
            self.ledger.close(task, self.now)

    def charge(self) -> None:
        """It is time."""
        self.ledger.accounts.charge_all(self.now)

    def crash(self) -> None:
        """Lose the unstored state: another daemon goes on, and the master reports the present tasks."""
        self.ledger.accounts.charge_all(self.now)  # in vain
        self.ledger = Ledger(job_of)
        self.ledger.accounts.resume(self.accounts.values(), "", (), self.now, found=False)
        self.tasks = {task_id: copy(task) for task_id, task in self.kept.items()}
        for task in self.tasks.values():
            self.ledger.reopen(task)
        self.ledger.accounts.see(self.there, self.now, known=True)

    def store(self) -> None:
        """In one transaction."""
        charges, accounts = self.ledger.accounts.take()
        for charge in charges:
            self.stored[charge.day, charge.job] += charge.dollars
        for account in accounts:
            self.accounts[account.id] = account
            if account.closed:
                del self.accounts[account.id]
        self.kept = {task_id: copy(task) for task_id, task in self.tasks.items()}


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_or_charged_twice(seed: int) -> None:
    """On random days, whenever a daemon is killed: by day and job as a second account has it."""
    day = Day(seed)
    for _ in range(60):
        day.step()
    day.charge()
    day.store()
    assert {day for day, _ in day.stored} == {"1970-01-01", "1970-01-02"}
    assert dict(day.stored) == pytest.approx({key: d for key, d in day.plain.items() if d}, abs=1e-9)
    assert math.isclose(sum(day.stored.values()), sum(day.plain.values()), rel_tol=1e-12)


def test_a_vm_that_nothing_runs_on_is_the_jobs_that_it_was_opened_for() -> None:
    """Until something does: a user does not have VMs opened at others' cost, and ends each job before."""
    lease = Lease("general-1.1", POOLED, 0.0, opened_at=0.0, opened_for=OpenedFor.of(job_of("job-9")))
    spent: list[tuple[str, str, str, float]] = []
    for runs in (False, True):
        ledger, own = Ledger(job_of), replace(lease)
        ledger.accounts.spends = lambda *charged: spent.append(charged)
        ledger.accounts.lease(own, 0.0)
        own.ready_at, own.state, own.agent_id = 60.0, "up", "agent-7"
        ledger.accounts.lease(own, 60.0)
        if runs:
            task = task_on("agent-7", 0, 100.0, 1.0)
            ledger.open(task)
            ledger.close(task, 110.0)
        # As a daemon that starts again has it.
        again = Ledger(job_of)
        _, kept = ledger.accounts.take()[0], ledger.accounts.state()
        again.accounts.spends = ledger.accounts.spends
        again.accounts.resume(kept, "ff", (own,), 110.0, found=False)
        own.state, own.closed_at = "closed", 155.0
        again.accounts.lease(own, 155.0)
        charges, _ = again.accounts.take()
        owner = ("", "") if runs else ("ann", "job-9")
        rest = 0.045 if runs else 0.155 - 0.060
        assert by(charges, "owner", "job") == pytest.approx({owner: rest + 0.005})
        assert sum(dollars for *_, dollars in spent) == pytest.approx(0.110 if runs else 0.160)
        assert {of[:2] for of in spent} == {("night", "ann")}
        spent.clear()


def test_a_vm_that_is_always_open_is_nobodys() -> None:
    """And so is one with an account that could not be read: something may have run there."""
    ledger = Ledger(job_of)
    lease = Lease("general-1.1", POOLED, 0.0, opened_at=0.0)
    ledger.accounts.lease(lease, 0.0)
    other = replace(lease, id="general-2.1", opened_for=OpenedFor.of(job_of("job-9")))
    ledger.accounts.resume((), "ff", (other,), 0.0, found=False)
    ledger.accounts.charge_all(10.0)
    assert by(ledger.accounts.take()[0], "owner") == pytest.approx({("",): 0.02})
