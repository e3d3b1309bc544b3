"""Cost of each VM since it was opened, by purpose: accounts by VM, charges by day and key.

A cloud charges a VM while it exists, held or not. Each moment of it is divided: every task on it uses
its dominant share (divided by the sum of all where that is over 1), the rest is idle, or booting, or
draining. So the usage of jobs and unused time add up to the bill. `usage_ledger.py` has eq. 4's cost of
jobs, which divides the whole price of a VM among the jobs that hold it; opening and closing VMs of pools
is not part of this module.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from heapq import nsmallest
from math import fsum
from typing import Literal, NamedTuple

from conf.units import SECONDS_PER_DAY, SECONDS_PER_HOUR
from conf.util.utc_days import day_of
from environment.clusters.commitments import Commitment, Cover, active_at, cover
from environment.model.messages.lease import Lease, OpenedFor
from environment.model.messages.records import ExecutorRecord
from environment.types import Job, Vm

#: Purposes that a VM is paid for: `used` by a job; `idle`, `booting` and `draining` are the parts that no job
#: used meanwhile; `rounding` is for whole units, and the least that is charged. No part of the bill is the
#: `difference`: the cost by its provider's own account beyond all of these, negative where it is less. Nor
#: are the parts of `used` that were in vain: `lost` to preemption, and by attempts that failed for `memory`;
#: nor `covered`: the part of them that commitments cover, at the VMs' own prices.
Kind = Literal["used", "idle", "booting", "draining", "rounding", "difference", "lost", "memory", "covered"]
Vain = Literal["lost", "memory"]
#: Kinds that count in limits of queues and users, as far as they are a job's: its usage, and VMs that were
#: opened for it until something ran there.
SPENT: tuple[Kind, ...] = ("used", "idle", "booting", "draining", "rounding")
_NO_JOB = OpenedFor("", "", "", "")


class Charge(NamedTuple):
    """Dollars of a day (UTC, 2026-11-22) for one purpose.

    `vm` is a fixed VM's name, or a lease; `pool` is empty for fixed ones, `job`, `owner` and `queue` for
    unused time. `policy` is the one that acted when it was charged; of `covered` time, the commitment.
    """

    day: str
    vm: str
    pool: str
    type: str
    job: str
    owner: str
    queue: str
    policy: str
    kind: Kind
    dollars: float
    #: The group of the job, or its array.
    group: str = ""
    #: Whether its cloud may take the VM away.
    spot: bool = False
    #: Hours of the VM that these dollars paid for: of a job that uses a quarter of it, a quarter of the time.
    hours: float = 0.0


@dataclass(slots=True)
class Account:
    """A VM that is paid for. Times are seconds since the epoch."""

    #: The lease, or the Mesos id of a fixed VM.
    id: str
    #: As which the bill has it.
    name: str
    type: str
    price_per_hour: float
    opened_at: float
    #: Until when it is charged.
    until: float
    #: The Mesos id of its agent; empty while it boots.
    vm_id: str = ""
    pool: str = ""
    phase: Literal["idle", "booting", "draining"] = "idle"
    #: Dollars until then.
    dollars: float = 0.0
    #: Whether its VM, if it is of no pool, was seen since a daemon took the account up.
    found: bool = True
    #: It costs nothing more.
    closed: bool = False
    #: How much more its provider says that it has cost, dollars, as told last.
    difference: float = 0.0
    #: Whether its cloud may take it away.
    spot: bool = False
    #: Shares of it that commitments cover.
    covered: Cover = ()
    #: The job that it was opened for, until something runs there: so much of its cost is that job's.
    opened_for: OpenedFor | None = None


class Accounts:
    """Open accounts, and charges since the last `take`; `holders` returns a VM's open tasks."""

    def __init__(
        self, holders: Callable[[str], Collection[ExecutorRecord]], job: Callable[[str], Job | None]
    ) -> None:
        self._holders = holders
        self._job = job
        self._open: dict[str, Account] = {}
        #: The accounts' ids by their VMs' Mesos ids.
        self._of: dict[str, str] = {}
        #: The fixed VMs that are there.
        self._there: set[str] = set()
        self._vms: tuple[Vm, ...] | None = None
        self._known = False
        self._changed: dict[str, Account] = {}
        #: Dollars and hours by their purpose, as charges of nothing.
        self._charges: dict[Charge, tuple[float, float]] = {}
        #: The acting policy.
        self.policy = ""
        #: What is paid in any case, and the day for which it was last spread over VMs.
        self.commitments: Sequence[Commitment] = ()
        self._covered_on = ""
        #: Since when other VMs are there, over which it has not been spread yet.
        self._moved_at: float | None = None
        #: Called with the usage of jobs: queue, owner, day, dollars.
        self.spends: Callable[[str, str, str, float], None] | None = None

    def state(self) -> tuple[Account, ...]:
        """Copies of those that are open."""
        self._spread()
        return tuple(map(copy, self._open.values()))

    def resume(
        self, accounts: Iterable[Account], policy: str, leases: Iterable[Lease], at: float, *, found: bool
    ) -> None:
        """Restore these accounts; unless they are `found`, fixed VMs may not be there any more.

        A lease that is open and has no account had one that could not be read: its cost until now was
        charged, but for the last minute. To be called before `lease` is.
        """
        self.policy = policy
        for account in map(copy, accounts):
            account.found = account.found and (found or bool(account.pool))
            self._add(account)
        for lease in leases:
            if not found and lease.opened_at is not None and not lease.ended and lease.id not in self._open:
                self._begin(lease, lease.opened_at, max(lease.opened_at, at)).opened_for = None
                self.lease(lease, at)

    def opened_at(self, vm_id: str) -> float:
        """When the VM with this Mesos id was opened, or first seen; infinity for one that is not paid for."""
        account = self._open.get(self._of.get(vm_id, ""))
        return math.inf if account is None else account.opened_at

    @property
    def fixed_per_hour(self) -> float:
        """The cost of fixed VMs, dollars per hour."""
        return fsum(account.price_per_hour for account in self._open.values() if not account.pool)

    def take(self) -> tuple[tuple[Charge, ...], tuple[Account, ...]]:
        """Return the charges since the last call, and the changed accounts."""
        self._spread()
        charges = tuple(
            key._replace(dollars=dollars, hours=hours) for key, (dollars, hours) in self._charges.items()
        )
        accounts = tuple(map(copy, self._changed.values()))
        self._charges.clear()
        self._changed.clear()
        return charges, accounts

    # ---- events of VMs -------------------------------------------------------------------------------

    def see(self, vms: tuple[Vm, ...], at: float, *, known: bool) -> None:
        """Record the present VMs; all of them, if that is `known`. Those of pools have leases."""
        if vms is self._vms and known == self._known:
            return
        self._vms, self._known = vms, known
        leased = {vm_id for vm_id, of in self._of.items() if of != vm_id}
        there = {vm.id: vm for vm in vms if not vm.terms and not vm.lease and vm.id not in leased}
        self._there = set(there)
        for vm in there.values():
            self._fixed(vm, at)
        for account in [a for a in self._open.values() if not a.pool and a.id not in there]:
            self._leave(account, at)

    def _leave(self, account: Account, at: float) -> None:
        """Charge a missing fixed VM only as long as a task of ours may be there.

        One that was not seen since an earlier daemon knew it may yet come; if not, it has gone with that.
        """
        if not self._holders(account.vm_id) and (account.found or self._known):
            self._close(account, at if account.found else account.until)

    def _fixed(self, vm: Vm, at: float) -> None:
        account = self._open.get(vm.id)
        if account is None:
            self._add(Account(vm.id, vm.name, vm.type, vm.price_per_hour, at, at, vm.id))
            self._changed[vm.id] = self._open[vm.id]
            self._moved(at)
            return
        if not account.found:
            account.found = True
            self._changed[account.id] = account
        if (account.name, account.type, account.price_per_hour) != (vm.name, vm.type, vm.price_per_hour):
            self._charge(account, at)
            account.name, account.type, account.price_per_hour = vm.name, vm.type, vm.price_per_hour
            self._moved(at)

    def released(self, vm_id: str, at: float) -> None:
        """A task has left the VM: one that is gone is paid for no longer than it is held."""
        account = self._open.get(self._of.get(vm_id, ""))
        if account is not None and not account.pool and vm_id not in self._there:
            self._leave(account, at)

    def used(self, vm_id: str) -> None:
        """Something runs on the VM from now on: time without is nobody's then."""
        if account := self._open.get(self._of.get(vm_id, "")):
            account.opened_for = None

    def lease(self, lease: Lease, at: float) -> None:
        """A VM of a pool is not as it was."""
        account = self._open.get(lease.id)
        if account is None:
            if lease.ended or lease.opened_at is None:
                return
            account = self._begin(lease, lease.opened_at, lease.opened_at)
        if account.phase == "booting" and lease.ready_at is not None:
            self._charge(
                account, min(lease.ready_at, at)
            )  # its agent may be here before the provider answers
            account.phase = "idle"
        if lease.ended:
            self._end(account, lease, at)
            return
        self._charge(account, at)
        if account.price_per_hour != lease.vm.price_per_hour:
            account.price_per_hour = lease.vm.price_per_hour
            self._moved(at)
        account.spot = lease.vm.spot
        if lease.agent_id != account.vm_id:
            self._of.pop(account.vm_id, None)
            account.vm_id = lease.agent_id
            self._of[lease.agent_id] = account.id
        if lease.draining_at is not None or lease.closing_at is not None:
            account.phase = "draining"
        else:
            account.phase = "booting" if lease.ready_at is None else "idle"

    def told(self, lease: Lease, charged: float, at: float) -> None:
        """Compare the provider's charge for a VM with the computed one as if the VM ended now."""
        if account := self._open.get(lease.id):
            self._charge(account, at)
            rounding = account.price_per_hour * _rounded(account, lease, at)
            self._differ(account, charged - account.dollars - rounding, at)

    def _differ(self, account: Account, difference: float, at: float) -> None:
        self._add_charge(account, "difference", difference - account.difference, at)
        account.difference = difference
        self._changed[account.id] = account

    def lose(self, vm_id: str, job_id: str, dollars: float, at: float, kind: Vain = "lost") -> float:
        """Record the cost of a job's work that was in vain, as a kind of its own; the dollars recorded.

        None are of a VM that has gone: its account is closed.
        """
        account = self._open.get(self._of.get(vm_id, ""))
        if account is None:
            return 0.0
        self._add_charge(account, kind, dollars, at, job_id)
        return dollars

    def _begin(self, lease: Lease, opened_at: float, until: float) -> Account:
        vm = lease.vm
        pool = "unknown" if vm.terms is None else vm.terms.pool
        account = Account(lease.id, lease.id, vm.type, vm.price_per_hour, opened_at, until, pool=pool)
        account.phase, account.spot, account.opened_for = "booting", vm.spot, lease.opened_for
        self._add(account)
        self._changed[account.id] = account
        self._moved(opened_at)
        return account

    def _end(self, account: Account, lease: Lease, at: float) -> None:
        """Close the account: add rounding to units and the minimum charge, and the provider's difference."""
        end = at if lease.closed_at is None else max(min(lease.closed_at, at), account.opened_at)
        if end >= account.until:
            self._charge(account, end)
        else:  # it ended before it was known
            self._put(account, account.phase, (end - account.until) / SECONDS_PER_HOUR, end)
            account.until = end
        self._put(account, "rounding", _rounded(account, lease, end), end)
        if lease.charged is not None:
            self._differ(account, lease.charged - account.dollars, end)
        self._close(account, end)

    # ---- their costs ---------------------------------------------------------------------------------

    def charge(self, vm_id: str, at: float) -> None:
        """Charge a VM until then to the tasks that hold it now, as since the last charge."""
        if account := self._open.get(self._of.get(vm_id, "")):
            self._charge(account, at)

    def charge_all(self, at: float, before: float | None = None, most: int | None = None) -> None:
        """All VMs are charged until then; not those of which it is not certain that they are there.

        With `before` only those that were not charged since then; of all, `most`, the longest ago first.
        """
        if day_of(at) != self._covered_on:
            self._moved(at)
            self._spread()
        due = self._due(at if before is None else min(before, at))
        for account in due if most is None else nsmallest(most, due, key=lambda a: (a.until, a.id)):
            self._charge(account, at)

    def due(self, before: float) -> int:
        """Number of VMs not charged since then that are to be charged."""
        return sum(1 for _ in self._due(before))

    def _due(self, before: float) -> Iterator[Account]:
        for account in self._open.values():
            if account.until <= before and (account.pool or account.found or self._holders(account.vm_id)):
                yield account

    def skip(self, seconds: float) -> None:
        """Time was set forward by so much, which no VM is charged for: none was there for longer by it."""
        for account in self._open.values():
            account.opened_at += seconds
            account.until += seconds
            self._changed[account.id] = account

    def _charge(self, account: Account, at: float) -> None:
        if at <= account.until:
            return
        if self._moved_at is not None and self._moved_at < at:
            self._spread()
        tasks = self._holders(account.vm_id) if account.vm_id else ()
        shares = fsum(task.share for task in tasks)
        for begin, end in _days(account.until, at):
            hours = (end - begin) / SECONDS_PER_HOUR
            for task in tasks:
                self._put(account, "used", hours * task.share / max(shares, 1.0), begin, task.job_id)
            if shares < 1:
                self._put(account, account.phase, hours * (1 - shares), begin)
        account.until = at
        self._changed[account.id] = account

    def _put(self, account: Account, kind: Kind, hours: float, at: float, job_id: str = "") -> None:
        dollars = account.price_per_hour * hours
        account.dollars += dollars
        self._add_charge(account, kind, dollars, at, job_id, hours)
        for name, share in account.covered:
            of = (day_of(at), "", account.pool, account.type, "", "", "", name)
            key = Charge(*of, "covered", 0.0, spot=account.spot)
            before, hours_before = self._charges.get(key, (0.0, 0.0))
            self._charges[key] = before + share * dollars, hours_before + share * hours

    def _moved(self, at: float) -> None:
        """Other VMs are there from then on; for all that come and go at once, commitments are spread once."""
        if self._moved_at is not None and self._moved_at != at:
            self._spread()
        self._moved_at = at

    def _spread(self) -> None:
        """Spread commitments over the VMs that have been open longest, since others are there."""
        at, self._moved_at = self._moved_at, None
        if at is None:
            return
        self._covered_on = day_of(at)
        if not self.commitments:
            return
        there = (a for a in self._open.values() if (a.pool or a.found) and not a.spot)
        vms = sorted(there, key=lambda account: (account.opened_at, account.id))
        found = cover(vms, active_at(at, self.commitments))
        for account in vms:
            if (covered := found.get(account.id, ())) != account.covered:
                self._charge(account, at)
                account.covered = covered
                self._changed[account.id] = account

    def _add_charge(
        self, account: Account, kind: Kind, dollars: float, at: float, job_id: str = "", hours: float = 0.0
    ) -> None:
        if not dollars:
            return
        job = self._job(job_id) if job_id else None
        of = _NO_JOB._replace(job=job_id) if job is None else OpenedFor.of(job)
        if not job_id and account.opened_for is not None and kind != "difference":
            of = account.opened_for
        of_vm = (account.name, account.pool, account.type)
        of_job = (of.job, of.owner, of.queue)
        key = Charge(day_of(at), *of_vm, *of_job, self.policy, kind, 0.0, of.group, spot=account.spot)
        dollars_before, hours_before = self._charges.get(key, (0.0, 0.0))
        self._charges[key] = dollars_before + dollars, hours_before + hours
        if self.spends is not None and of.queue and kind in SPENT:
            self.spends(of.queue, of.owner, key.day, dollars)

    def _add(self, account: Account) -> None:
        self._open[account.id] = account
        if account.vm_id:
            self._of[account.vm_id] = account.id

    def _close(self, account: Account, at: float) -> None:
        self._charge(account, at)
        account.closed = True
        self._changed[account.id] = account
        self._of.pop(account.vm_id, None)
        del self._open[account.id]
        self._moved(at)


def _rounded(account: Account, lease: Lease, at: float) -> float:
    """Hours that whole units, and the least that is charged, add if its VM ends then."""
    stood = at - account.opened_at
    charged = stood if lease.vm.terms is None else lease.vm.terms.charged(stood)
    return (charged - stood) / SECONDS_PER_HOUR


def _days(begin: float, end: float) -> Iterator[tuple[float, float]]:
    """The time between two moments, cut at midnight (UTC)."""
    while begin < end:
        midnight = (begin // SECONDS_PER_DAY + 1) * SECONDS_PER_DAY
        yield begin, min(midnight, end)
        begin = midnight
