"""The places of pools, and what became of the VMs that were asked for there: their leases.

Here is what opens and closes a VM. What is kept on it for jobs is in `reservations.py`, how long a pool is
left alone that refuses in `refusals.py`, and who calls providers outside of the model.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from environment.model import events as ev
from environment.model import timings
from environment.model.leases import Lease
from environment.model.ledger import Ledger
from environment.model.moment import Fleeted, Offer, Reserved
from environment.model.offer_book import OfferBook
from environment.model.refusals import Refusals, pool_of
from environment.model.reservations import Reservations
from environment.model.timings import ModelOptions
from environment.model.turn import Turn
from environment.pools import Openings
from environment.resources import NOTHING
from environment.types import Vm
from environment.words import clock

#: So many VMs that boot are named in a reason.
_NAMED = 3


class Fleet:
    """Places by id, and at most one lease that has not ended at each.

    A place whose VM is not up is a VM of the book that has the place's id; one that is up has its agent's.

    Invariants: no place has two leases that have not ended; what is closing, or is taken away, gets nothing
    new; a lease that ended is handed out as such once, and then forgotten.
    """

    def __init__(
        self,
        turn: Turn,
        book: OfferBook,
        ledger: Ledger,
        reservations: Reservations,
        options: ModelOptions,
    ) -> None:
        self._turn = turn
        self._book = book
        self._ledger = ledger
        self._reservations = reservations
        self._options = options
        self._refusals = Refusals(turn)
        self._places = {vm.id: vm for vm in options.places}
        self._leases: dict[str, Lease] = {}
        #: The lease at each place, and of each agent.
        self._at: dict[str, Lease] = {}
        self._agents: dict[str, Lease] = {}
        self._changed: dict[str, Lease] = {}
        #: Places and agents that get nothing new, and why.
        self._left_out: dict[str, str] = {}
        #: When idle VMs are closed, by lease.
        self._closes: dict[str, float] = {}
        #: When VMs are given up that do not come, by lease.
        self._awaited: dict[str, float] = {}
        #: When the provider last told of a VM, by lease; since when it tells of one that nobody knows.
        self._seen: dict[str, float] = {}
        self._orphans: dict[str, float] = {}
        #: Since when agents are gone whose VMs should be up, by lease.
        self._away: dict[str, float] = {}
        #: The number of the last lease.
        self._number = 0
        #: VMs that will not come, or are gone, and why: what is to run or runs there has to know.
        self._gone: dict[str, str] = {}
        self._touched = reservations.touched
        for vm in self._places.values():
            book.place(vm)

    def __bool__(self) -> bool:
        return bool(self._places or self._leases)

    # ---- what is known -------------------------------------------------------------------------------

    def state(self) -> Fleeted:
        """All but the leases."""
        return Fleeted(
            self._number,
            self._refusals.state(),
            self._reservations.state(),
            tuple(self._seen.items()),
            tuple(self._orphans.items()),
            tuple(self._away.items()),
        )

    def lease(self, lease_id: str) -> Lease | None:
        """One that has not ended."""
        return self._leases.get(lease_id)

    def leases(self) -> tuple[Lease, ...]:
        """Copies of those that have not ended."""
        return tuple(copy(lease) for lease in self._leases.values())

    def take_changes(self) -> tuple[Lease, ...]:
        """Copies of those that changed since the last call."""
        changes = tuple(map(copy, self._changed.values()))
        self._changed.clear()
        return changes

    def restore(self, leases: Iterable[Lease], moment: Fleeted | None) -> None:
        """Take up what an earlier daemon, or an earlier part of a log, left."""
        for lease in map(copy, leases):
            if lease.ended:
                continue
            self._leases[lease.id] = self._at[lease.vm.id] = lease
            self._number = max(self._number, _number_of(lease.id))
            if lease.agent_id:
                self._agents[lease.agent_id] = lease
                self._book.unplace(lease.vm.id)
            else:
                self._book.place(lease.vm)
                self._await(lease)
            if lease.state in ("closing", "draining"):
                self._leave_out(lease)
            self._touched[self._vm_id(lease)] = None
        if moment is None:
            self._take_up()
            return
        self._number = moment.number
        self._seen, self._orphans, self._away = dict(moment.seen), dict(moment.orphans), dict(moment.away)
        self._refusals.resume(moment.pools)
        self._reservations.resume(moment.reserved)
        for lease in self._leases.values():
            if lease.idle_since is not None:
                self._keep(lease, lease.idle_since)
        for pool in {pool.pool for pool in moment.pools}:
            self._show_pool(pool)

    def _take_up(self) -> None:
        """A daemon has started: what was asked for may not have been heard, and nobody has decided yet."""
        for lease in self._leases.values():
            if lease.state == "opening":
                self._turn.command(ev.OpenVm, lease.id)
            elif lease.state == "closing":
                self._turn.command(ev.CloseVm, lease.id, lease.machine_id)
            if lease.agent_id:
                self._away[lease.id] = self._turn.now
            self._seen[lease.id] = self._turn.now
            lease.idle_since = None

    def openings(self, vms: Sequence[Vm]) -> Openings:
        """Which of these VMs are open, and when each could be ready, or is."""
        now = self._turn.now
        is_open, ready_at = np.ones(len(vms), np.bool_), np.zeros(len(vms))
        for index, vm in enumerate(vms):
            place = self._places.get(vm.id) or (self._at[vm.id].vm if vm.id in self._at else None)
            if place is None:
                continue
            lease = self._at.get(vm.id)
            is_open[index] = lease is not None
            ready_at[index] = now + _boot(place) if lease is None else self._ready_at(lease)
        return Openings(is_open, ready_at)

    def _ready_at(self, lease: Lease) -> float:
        """When the VM should be up, as far as that is not over."""
        return max(self._turn.now, lease.asked_at + _boot(lease.vm))

    def left_out(self) -> Mapping[str, str]:
        """The VMs, by id, that get nothing new, and why."""
        return self._left_out

    def why_not(self, vm_id: str) -> str:
        """Why a VM gets nothing new; empty when it may."""
        return self._left_out.get(vm_id, "")

    def vm_id(self, vm_id: str) -> str:
        """What the VM is called now: as its agent, once that is there."""
        lease = self._at.get(vm_id)
        return vm_id if lease is None else self._vm_id(lease)

    def is_up(self, vm_id: str) -> bool:
        """Whether the VM with this id is no place of a pool that has yet to come."""
        return vm_id not in self._places and vm_id not in self._at

    @property
    def boots(self) -> bool:
        """Whether the agent of a VM is waited for."""
        return bool(self._awaited or self._away)

    @property
    def may_open(self) -> bool:
        """Whether a job could be put where no agent is yet, and all that are up have been heard of."""
        return not self._away and any(
            place not in self._left_out and (place not in self._at or not self._at[place].agent_id)
            for place in self._places
        )

    def starts_at(self, reserved: Reserved) -> float:
        """When a job with VMs that boot is believed to start."""
        leases = (self._at[vm_id] for vm_id in {*reserved.all_vms} if vm_id in self._at)
        return max((self._ready_at(lease) for lease in leases), default=self._turn.now)

    def why_waits(self, reserved: Reserved) -> str:
        """Why a job with VMs that boot waits."""
        names = [vm_id for vm_id in dict.fromkeys(reserved.all_vms) if not self.is_up(vm_id)]
        told = names if len(names) <= _NAMED else [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more"]
        return f"waits for {_and(told)} to boot (until {clock(self.starts_at(reserved))})"

    # ---- opening -------------------------------------------------------------------------------------

    def open(self, place_id: str, why: str) -> None:
        """Have the VM of a place opened, unless it is."""
        if place_id in self._at or place_id not in self._places:
            return
        now = self._turn.now
        self._number = max(self._number + 1, int(now))
        lease = Lease(f"{place_id}.{self._number}", self._places[place_id], now, reason=why)
        self._leases[lease.id] = self._at[place_id] = lease
        self._await(lease)
        self._touched[place_id] = None
        self._mark(lease)
        self._turn.command(ev.OpenVm, lease.id)

    def _await(self, lease: Lease) -> None:
        self._awaited[lease.id] = lease.asked_at + _boot(lease.vm) + self._options.boot_timeout

    def opened(self, event: ev.LeaseOpened) -> None:
        """The provider has opened the VM of a lease."""
        lease = self._leases.get(event.lease_id)
        if lease is None:
            self._turn.command(ev.CloseVm, event.lease_id, event.machine_id)  # nobody waits for it
            return
        self._seen[lease.id] = self._turn.now
        lease.machine_id = event.machine_id
        lease.opened_at = event.opened_at if lease.opened_at is None else lease.opened_at
        if event.price_per_hour is not None:
            lease.vm = replace(lease.vm, price_per_hour=event.price_per_hour)
        if lease.state == "opening":
            lease.state = "booting"
        elif lease.state == "closing":
            self._turn.command(ev.CloseVm, lease.id, lease.machine_id)
        self._mark(lease)

    def refused(self, event: ev.LeaseRefused) -> None:
        """The provider does not open the VM of a lease."""
        lease = self._leases.get(event.lease_id)
        if lease is None or lease.state not in ("opening", "closing"):
            return
        if lease.state == "opening":
            self._refusals.refused(lease, event.message, for_good=event.kind == "invalid")
            self._gone[lease.vm.id] = f"{lease.vm.name} was refused: {event.message}"
        self._end(lease, "closed", f"refused: {event.message}")

    # ---- its agent -----------------------------------------------------------------------------------

    def met(self, offers: Iterable[Offer]) -> tuple[Offer, ...]:
        """These offers, with VMs as their leases have them; those of unknown leases are declined."""
        kept, strange = [], []
        for offer in offers:
            if not offer.vm.lease:
                kept.append(offer)
            elif (vm := self._join(offer.vm)) is None:
                strange.append(offer.id)
            else:
                kept.append(replace(offer, vm=vm))
        if strange:
            self._turn.command(ev.Decline, tuple(strange), timings.ORPHAN_GRACE)
        return tuple(kept)

    def measured(self, event: ev.VmsMeasured) -> ev.VmsMeasured:
        """What the master tells of agents, without those of leases that are not known, or over."""
        found = [self._join(vm) if vm.lease else vm for vm in event.vms]
        strange = {vm.id for vm, known in zip(event.vms, found, strict=True) if known is None}
        return replace(
            event,
            vms=tuple(vm for vm in found if vm is not None),
            sizes=tuple(size for size in event.sizes if size.vm_id not in strange),
        )

    def _join(self, agent: Vm) -> Vm | None:
        """The agent as the VM of its lease, which is up from now on; None if it is of none that is known."""
        lease = self._leases.get(agent.lease)
        if lease is None or self._at.get(lease.vm.id) is not lease:
            return None
        if lease.agent_id != agent.id:
            self._come(lease, agent.id)
        self._away.pop(lease.id, None)
        return replace(
            lease.vm,
            id=agent.id,
            resources=agent.resources,
            address=agent.address,
            note=agent.note,
            lease=lease.id,
        )

    def _come(self, lease: Lease, agent_id: str) -> None:
        """The agent on the VM of a lease is there, or another than before."""
        before = self._vm_id(lease)
        if lease.agent_id:
            self._agents.pop(lease.agent_id, None)
            self._book.forget(lease.agent_id)
        else:
            self._book.unplace(lease.vm.id)
        self._left_out.pop(before, None)
        lease.agent_id = agent_id
        self._agents[agent_id] = lease
        self._awaited.pop(lease.id, None)
        if lease.ready_at is None:
            lease.ready_at = self._turn.now
        if lease.state in ("opening", "booting"):
            lease.state = "up"
            self._refusals.came(lease)
        else:
            self._leave_out(lease)
        self._reservations.moved(before, agent_id)
        self._touched[agent_id] = None
        self._mark(lease)

    def lost_sight(self, vm_id: str) -> None:
        """The master says that an agent is gone."""
        if lease := self._agents.get(vm_id):
            self._away.setdefault(lease.id, self._turn.now)

    # ---- closing -------------------------------------------------------------------------------------

    def touch(self, vm_id: str) -> None:
        """Something was put on the VM, or has left it."""
        self._touched[vm_id] = None

    def look(self) -> None:
        """See which VMs are idle now."""
        for vm_id in self._touched:
            lease = self._agents.get(vm_id) or self._at.get(vm_id)
            if lease is None or lease.ended:
                continue
            busy = bool(self._ledger.count(vm_id)) or bool(self._reservations.jobs_on(vm_id))
            if busy and lease.idle_since is not None:
                lease.idle_since = None
                self._closes.pop(lease.id, None)
                self._mark(lease)
            elif not busy and lease.idle_since is None:
                lease.idle_since = self._turn.now
                self._keep(lease, lease.idle_since)
                self._mark(lease)
        self._touched.clear()

    def _keep(self, lease: Lease, since: float) -> None:
        opened_at = lease.asked_at if lease.opened_at is None else lease.opened_at
        closes = self._options.keeping.closes_at(lease.vm.terms, opened_at, since)
        if lease.vm.id not in self._places or lease.state == "draining":
            closes = since  # nothing will ever be placed there
        if lease.state != "closing" and not math.isinf(closes):
            self._closes[lease.id] = closes

    def tend(self, *, pending: bool) -> None:
        """Time went by: open what is always open, close what was idle for long, give up what does not come.

        `pending` tells whether a decision is due that may put something on VMs that are idle.
        """
        now = self._turn.now
        patience = timings.DECISION_PATIENCE if pending else 0.0
        for lease_id in _due(self._closes, now - patience):
            self._close(self._leases[lease_id], "idle")
        for lease_id in _due(self._awaited, now):
            self._give_up(self._leases[lease_id], f"did not boot within {self._patience(lease_id):g} s")
        for lease_id in _due(self._away, now - self._options.boot_timeout):
            self._give_up(self._leases[lease_id], f"its agent is gone for {self._options.boot_timeout:g} s")
        for place_id, vm in self._places.items():
            if vm.terms and vm.terms.always and place_id not in self._at and place_id not in self._left_out:
                self.open(place_id, "always there")

    def _patience(self, lease_id: str) -> float:
        return _boot(self._leases[lease_id].vm) + self._options.boot_timeout

    def _give_up(self, lease: Lease, why: str) -> None:
        self._refusals.refused(lease, f"{lease.vm.name} {why}")
        self._gone[self._vm_id(lease)] = f"{lease.vm.name} {why}"
        self._close(lease, why)

    def _close(self, lease: Lease, why: str) -> None:
        """Have the VM closed; it takes nothing new from now on."""
        self._closes.pop(lease.id, None)
        self._awaited.pop(lease.id, None)
        self._away.pop(lease.id, None)
        lease.state, lease.reason, lease.closing_at = "closing", why, self._turn.now
        if self._at.get(lease.vm.id) is lease:
            self._leave_out(lease)
        self._mark(lease)
        self._turn.command(ev.CloseVm, lease.id, lease.machine_id)

    def closed(self, event: ev.LeaseClosed) -> None:
        """The VM of a lease costs nothing more."""
        lease = self._leases.get(event.lease_id)
        if lease is None:
            return
        lease.charged = event.charged
        self._gone[self._vm_id(lease)] = f"{lease.vm.name} was closed"
        self._end(lease, "closed", lease.reason)

    def _end(self, lease: Lease, state: str, reason: str) -> None:
        """It costs nothing more; its place may be opened again."""
        lease.state = "lost" if state == "lost" else "closed"
        lease.reason, lease.closed_at, lease.idle_since = reason, self._turn.now, None
        for known in (self._closes, self._awaited, self._away, self._seen, self._leases):
            known.pop(lease.id, None)
        self._mark(lease)
        if self._at.get(lease.vm.id) is not lease:
            return  # nobody ever put anything there
        del self._at[lease.vm.id]
        self._left_out.pop(self._vm_id(lease), None)
        if lease.agent_id:
            self._agents.pop(lease.agent_id, None)
            self._book.forget(lease.agent_id)
        else:
            self._book.unplace(lease.vm.id)
        if (place := self._places.get(lease.vm.id)) is not None:
            self._book.place(place)
        self._show_pool(pool_of(lease))

    def noticed(self, event: ev.LeaseNotice) -> None:
        """The provider takes a VM away, or has said that it will not."""
        lease = self._leases.get(event.lease_id)
        if lease is None or lease.state == "closing":
            return
        lease.notice = event.away_at
        if event.away_at is None:
            if lease.state == "draining":
                lease.state, lease.draining_at, lease.reason = "up", None, "its provider leaves it"
                self._left_out.pop(self._vm_id(lease), None)
                if lease.idle_since is not None:
                    self._keep(lease, lease.idle_since)
            self._mark(lease)
            return
        lease.reason = f"its provider takes it away at {clock(event.away_at)}{event.why and f': {event.why}'}"
        if lease.state != "draining":
            lease.state, lease.draining_at = "draining", self._turn.now
            if lease.idle_since is not None:
                self._keep(lease, lease.idle_since)
        self._leave_out(lease)
        self._mark(lease)

    def listed(self, event: ev.MachinesListed) -> None:
        """The provider tells which VMs are open: what is known and not there, and what is there unknown."""
        now, there = self._turn.now, {machine.lease_id: machine for machine in event.machines}
        for lease in tuple(self._leases.values()):
            if machine := there.get(lease.id):
                self._seen[lease.id] = now
                if lease.state == "opening":
                    opened = lease.asked_at if machine.opened_at is None else machine.opened_at
                    price = machine.price_per_hour
                    self.opened(ev.LeaseOpened(now, lease.id, machine.machine_id, opened, price))
            elif lease.state != "opening":
                self._miss(lease, event.asked_at)
        known = {lease.machine_id for lease in self._leases.values()}
        unknown = {m.machine_id: m for m in event.machines if m.machine_id not in known}
        orphans = {i: m for i, m in unknown.items() if m.state != "closing"}
        self._orphans = {i: self._orphans.get(i, event.asked_at) for i in orphans}
        for machine_id, since in tuple(self._orphans.items()):
            if event.asked_at - since >= timings.ORPHAN_GRACE:
                del self._orphans[machine_id]
                self._close_orphan(orphans[machine_id])

    def _miss(self, lease: Lease, asked_at: float) -> None:
        """The provider does not tell of the VM of a lease, which may be a matter of moments."""
        if asked_at - self._seen.setdefault(lease.id, self._turn.now) <= timings.VANISHED_AFTER:
            return
        if lease.state == "closing":
            self._gone[self._vm_id(lease)] = f"{lease.vm.name} was closed"
            self._end(lease, "closed", lease.reason)
        else:
            self._gone[self._vm_id(lease)] = f"{lease.vm.name} is gone, as its provider does not list it"
            self._end(lease, "lost", "its provider does not list it any more")

    def _close_orphan(self, machine: ev.Listed) -> None:
        """Have a VM closed that nobody here waits for; under a lease, as it is paid for."""
        twice = machine.lease_id in self._leases
        place = machine.lease_id.rpartition(".")[0] or machine.lease_id or machine.machine_id
        vm = self._places.get(place) or Vm(place, place, "unknown", NOTHING, 0.0)
        if machine.price_per_hour is not None:
            vm = replace(vm, price_per_hour=machine.price_per_hour)
        opened = self._turn.now if machine.opened_at is None else machine.opened_at
        lease_id = f"{machine.lease_id}/{machine.machine_id}" if twice else machine.lease_id
        lease = Lease(lease_id, vm, opened, machine_id=machine.machine_id, opened_at=opened)
        self._leases[lease.id] = lease
        self._seen[lease.id] = self._turn.now
        self._close(lease, "opened twice" if twice else "nobody knows what for")

    def gone(self) -> Iterator[tuple[str, str]]:
        """The VMs that will not come, or are gone, and why; each is told once."""
        while self._gone:
            vm_id = next(iter(self._gone))
            yield vm_id, self._gone.pop(vm_id)

    # ---- pools ---------------------------------------------------------------------------------------

    def wake(self) -> float | None:
        """When the last pause of a pool ended that was not told yet: its places may be opened again."""
        ended = list(self._refusals.wake())
        for pool, _ in ended:
            self._show_pool(pool)
        return max((at for _, at in ended), default=None)

    def _show_pool(self, pool: str) -> None:
        """Leave out the places of a pool that is refused now, or not any more, where nothing is open."""
        why = self._refusals.why_not(pool)
        for place_id, vm in self._places.items():
            if vm.terms is not None and vm.terms.pool == pool and place_id not in self._at:
                if why:
                    self._left_out[place_id] = why
                else:
                    self._left_out.pop(place_id, None)

    def _leave_out(self, lease: Lease) -> None:
        self._left_out[self._vm_id(lease)] = f"is being closed: {lease.reason}"

    def _vm_id(self, lease: Lease) -> str:
        return lease.agent_id or lease.vm.id

    def _mark(self, lease: Lease) -> None:
        self._changed[lease.id] = lease
        self._ledger.accounts.lease(lease, self._turn.now)


def _due(times: Mapping[str, float], now: float) -> list[str]:
    """Those whose time has come, in order: the same, however they came to be known."""
    return [lease_id for _, lease_id in sorted((at, lease_id) for lease_id, at in times.items() if at <= now)]


def _boot(vm: Vm) -> float:
    return 0.0 if vm.terms is None else vm.terms.boot


def _number_of(lease_id: str) -> int:
    number = lease_id.rpartition(".")[2]
    return int(number) if number.isdecimal() else 0


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
