"""Places of pools: existing and possible VMs, the lease of each place, and VMs that accept nothing new.

`fleet.py` decides when leases begin and end. A place without an agent is a VM of the book with the place's
id, and all its resources may be used; a VM that is up has its agent's id.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from environment.clusters.dollar_limits import HourLimits
from environment.model.messages.event_context import EventContext
from environment.model.messages.lease import Lease
from environment.model.messages.snapshot import ReservedJob
from environment.model.messages.vm_accounts import Accounts
from environment.model.vms.offers import Offers
from environment.number_format import clock
from environment.pools import Openings
from environment.resources import Resources
from environment.types import EndedJob, FloatArray, PlacementRequest, Vm
from environment.view import ClusterView, RunningJob

#: Number of booting VMs that a reason names.
_NAMED = 3


class _SlotVms(NamedTuple):
    """VMs as the book has them and as policies see them; where each is, and how long it boots, if it does."""

    vms: tuple[Vm, ...]
    shown: tuple[Vm, ...]
    at: Mapping[str, int]
    boots: FloatArray


class Places:
    """Places by id, and leases that have not ended by theirs.

    Invariants: a place has one lease at most; a lease that ended is among the changes once, and then
    forgotten; every left-out id is that of a place, or of an agent that has one.
    """

    def __init__(
        self,
        turn: EventContext,
        book: Offers,
        accounts: Accounts,
        places: Iterable[Vm],
        per_hour: Iterable[tuple[str, float]] = (),
    ) -> None:
        """`per_hour` are the limits of `ModelOptions`."""
        self._turn = turn
        self._book = book
        self._accounts = accounts
        self._places = {vm.id: vm for vm in places}
        #: The names of all pools, in order.
        self._pools = tuple(dict.fromkeys(vm.terms.pool for vm in self._places.values() if vm.terms))
        #: VMs that are to be open at all times.
        self.always = [vm.id for vm in self._places.values() if vm.terms and vm.terms.always]
        self._leases: dict[str, Lease] = {}
        self._at: dict[str, Lease] = {}
        self._agents: dict[str, Lease] = {}
        self._changed: dict[str, Lease] = {}
        self._left_out: dict[str, str] = {}
        #: Pools with spent limits, and why their VMs get nothing new; an empty name means all pools.
        self.held: dict[str, str] = {}
        self._hours = HourLimits(dict(per_hour), self._costs)
        #: Results of `dear`, as long as they hold.
        self._dear: dict[str | None, Mapping[str, str]] = {}
        #: The VMs of places as the book knows them, and of these those where a job could be put.
        self._shown: dict[str, Vm] = {}
        self._to_come: dict[str, None] = {}
        #: Leases whose agents an earlier daemon knew, and which have not reported to this one.
        self._unheard: set[str] = set()
        #: VMs as the book has them, and as policies see them.
        self._seen = _SlotVms((), (), {}, np.zeros(0))
        #: Real sizes of VMs of pools, as far as the master reported one.
        self._sizes: dict[str, Resources] = {}
        #: Current prices of VMs of pools where their provider stated them, and the prices of the places
        #: before that.
        self._prices: dict[str, float] = {}
        self._first_prices = {vm.id: vm.price_per_hour for vm in self._places.values()}
        for vm in self._places.values():
            self._look_at(vm.id)

    def __bool__(self) -> bool:
        return bool(self._places or self._leases)

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._leases.values())

    def sizes(self) -> tuple[tuple[str, Resources], ...]:
        """True sizes of VMs, by pool."""
        return tuple(self._sizes.items())

    # ---- leases --------------------------------------------------------------------------------------

    def place(self, place_id: str) -> Vm | None:
        """A place of a pool."""
        return self._places.get(place_id)

    def all(self) -> tuple[Vm, ...]:
        """All places, at the price of a VM opened now."""
        return tuple(self._places.values())

    def lease(self, lease_id: str) -> Lease | None:
        """A lease that has not ended."""
        return self._leases.get(lease_id)

    def with_machine(self, machine_id: str) -> Lease | None:
        """The lease of a VM, by its provider's name."""
        return next((lease for lease in self if lease.machine_id == machine_id), None)

    def at(self, vm_id: str) -> Lease | None:
        """The lease of a place, or of an agent."""
        return self._agents.get(vm_id) or self._at.get(vm_id)

    def has(self, lease: Lease) -> bool:
        """Whether jobs may know of the lease's VM: not of one that was never requested here."""
        return self._at.get(lease.vm.id) is lease

    def leases(self) -> tuple[Lease, ...]:
        """Copies of those that have not ended."""
        return tuple(map(copy, self._leases.values()))

    def take_changes(self) -> tuple[Lease, ...]:
        """Copies of those that changed since the last call."""
        changes = tuple(map(copy, self._changed.values()))
        self._changed.clear()
        return changes

    def mark(self, lease: Lease) -> None:
        """Mark the lease as changed; call it after the change."""
        self._changed[lease.id] = lease
        self._accounts.lease(lease, self._turn.now)

    def told(self, lease: Lease, charged: float) -> None:
        """Record the provider's charge for the VM until now, dollars."""
        self._accounts.told(lease, charged, self._turn.now)

    def add(self, lease: Lease) -> None:
        """A lease of a place that has none."""
        self._leases[lease.id] = self._at[lease.vm.id] = lease
        self._look_at(lease.vm.id)

    def add_orphan(self, lease: Lease) -> None:
        """A lease of a VM that is to be closed only; its place is taken until then, if it was free."""
        self._leases[lease.id], self._dear = lease, {}
        if lease.vm.id in self._places:
            self._take_place(lease)

    def _take_place(self, lease: Lease) -> None:
        if lease.vm.id not in self._at:
            self._at[lease.vm.id] = lease
            if lease.agent_id:
                self._agents[lease.agent_id] = lease
                self._unheard.add(lease.id)
            self._look_at(lease.vm.id)

    def restore(self, leases: Sequence[Lease]) -> None:
        """The leases that an earlier daemon, or an earlier part of a log, knew."""
        self._leases |= {lease.id: lease for lease in leases}
        for lease in sorted(leases, key=lambda lease: lease.state == "closing"):
            if lease.vm.id in self._places or lease.state != "closing" or lease.agent_id:
                self._take_place(lease)

    def come(self, lease: Lease, agent_id: str) -> str:
        """Register the agent, new or changed, of a lease; return the previous id of its VM."""
        before = self.vm_id(lease.vm.id)
        self._agents.pop(lease.agent_id, None)
        if lease.agent_id:
            self._book.forget(lease.agent_id)
        lease.agent_id = agent_id
        self._agents[agent_id] = lease
        if why := self._left_out.pop(before, ""):
            self._left_out[agent_id] = why
        self._look_at(lease.vm.id)
        return before

    def heard(self, lease: Lease) -> None:
        """Record a sign of life of the lease's agent."""
        self._unheard.discard(lease.id)

    def end(self, lease: Lease, why_not: str = "") -> None:
        """The lease has ended: its place may be used again, if there is no reason why not."""
        del self._leases[lease.id]
        self._dear = {}
        self._unheard.discard(lease.id)
        if not self.has(lease):
            return
        del self._at[lease.vm.id]
        self._left_out.pop(lease.vm_id, None)
        if lease.agent_id:
            del self._agents[lease.agent_id]
            self._book.forget(lease.agent_id)
        self._say(lease.vm.id, why_not)
        self._look_at(lease.vm.id)
        if len(self._leases) > len(self._at):  # another lease may have been there
            for other in [other for other in self._leases.values() if other.vm.id == lease.vm.id][:1]:
                self._take_place(other)

    def _look_at(self, place_id: str) -> None:
        """Update the VM of a place in the book, as long as it has no agent."""
        self._dear = {}
        lease = self._at.get(place_id)
        vm = self._places.get(place_id) if lease is None else lease.vm
        if vm is None or (lease is not None and lease.agent_id):
            self._shown.pop(place_id, None)
            self._to_come.pop(place_id, None)
            self._book.unplace(place_id)
            return
        size = None if vm.terms is None else self._sizes.get(vm.terms.pool)
        vm = vm if size is None or size == vm.resources else replace(vm, resources=size)
        if vm != self._shown.get(place_id):
            self._shown[place_id] = vm
            self._book.place(vm)
        if place_id in self._left_out:
            self._to_come.pop(place_id, None)
        else:
            self._to_come[place_id] = None

    def learn(self, pool: str, size: Resources) -> None:
        """VMs of the pool have that."""
        if self._sizes.get(pool) == size:
            return
        self._sizes[pool] = size
        for vm in tuple(self._places.values()):
            if vm.terms is not None and vm.terms.pool == pool:
                self._look_at(vm.id)

    def prices(self) -> tuple[tuple[str, float], ...]:
        """Prices last passed to `cost`."""
        return tuple(self._prices.items())

    def cost(self, prices: Iterable[tuple[str, float]]) -> None:
        """Set prices, by pool, of VMs opened from now on, dollars per hour; others get their first price.

        Open VMs keep the price of their lease.
        """
        self._prices = dict(prices)
        for vm in tuple(self._places.values()):
            first = self._first_prices[vm.id]
            price = first if vm.terms is None else self._prices.get(vm.terms.pool, first)
            if price != vm.price_per_hour:
                self._places[vm.id] = replace(vm, price_per_hour=price)
                self._look_at(vm.id)

    # ---- closed places --------------------------------------------------------------------------------

    @property
    def left_out(self) -> Mapping[str, str]:
        """The VMs, by id, that get nothing new, and why."""
        if not (self.held or self._hours):
            return self._left_out
        return {**dict(self._hours.beyond(self._closed())), **dict(self._beyond_limits()), **self._left_out}

    def _beyond_limits(self) -> Iterator[tuple[str, str]]:
        """VMs of pools with a spent limit: open ones too."""
        for vm in self._places.values() if self.held else ():
            if vm.terms is not None and (why := self.held.get("") or self.held.get(vm.terms.pool)):
                yield self.vm_id(vm.id), why

    def dear(self, tries: int) -> Mapping[str, str]:
        """Closed VMs without which all others may be opened together, of any pools; by id, and why.

        For jobs whose placement on several pools would cost too much by the hour: nobody else has to do
        without them. Pools have equal rights the first time; after `tries`, one has all the room that it
        needs before the others have any, another each time, so that a job finds VMs at last.
        """
        first = (None, *self._pools)[tries % (len(self._pools) + 1)]
        if first not in self._dear:
            self._dear[first] = dict(self._hours.beyond(self._closed(), together=True, first=first))
        return self._dear[first]

    def _closed(self) -> Iterator[Vm]:
        """Closed VMs that may be opened but for limits."""
        return (vm for i, vm in self._places.items() if i not in self._at and i not in self._left_out)

    def over_hour(self, vm_ids: Iterable[str]) -> str:
        """Which limit per hour would be crossed if the closed ones of these VMs were opened; or empty."""
        closed = (vm for i in dict.fromkeys(vm_ids) if i not in self._at and (vm := self._places.get(i)))
        if why := self._hours.over(closed):
            self._dear = {}  # the cost of fixed VMs may have changed
        return why

    def _costs(self, pool: str) -> float:
        """The cost of a pool's open VMs per hour; of all VMs where the name is empty."""
        leases = (lease.vm for lease in self._leases.values())
        prices = (vm.price_per_hour for vm in leases if not pool or (vm.terms and vm.terms.pool == pool))
        return math.fsum(prices) + (0.0 if pool else self._accounts.fixed_per_hour)

    def why_not_open(self, place_id: str) -> str:
        """Why the VM of a place is not opened now; empty when it may."""
        return self.why_not(place_id) or self.over_hour((place_id,))

    def leave_out(self, lease: Lease, why: str) -> None:
        """The VM of a lease gets nothing new; empty, it may again."""
        if self.has(lease):
            self._say(lease.vm_id, why)
            self._look_at(lease.vm.id)

    def pools(self) -> set[str]:
        """The names of all pools."""
        return set(self._pools)

    def closed_of(self, pool: str) -> Vm | None:
        """A closed VM of the pool, one that is to be open at all times first; None where none is closed."""
        closed = [
            vm for vm in self._places.values() if vm.terms and vm.terms.pool == pool and vm.id not in self._at
        ]
        return min(closed, key=lambda vm: vm.id not in self.always, default=None)

    def leave_pool_out(self, pool: str, why: str) -> None:
        """No other VM of the pool is opened now; empty, one may be."""
        for place_id, vm in self._places.items():
            if vm.terms is not None and vm.terms.pool == pool and place_id not in self._at:
                self._say(place_id, why)
                self._look_at(place_id)

    def _say(self, vm_id: str, why: str) -> None:
        if why:
            self._left_out[vm_id] = why
        else:
            self._left_out.pop(vm_id, None)

    def why_not(self, vm_id: str) -> str:
        """Why a VM gets nothing new; empty when it may."""
        if vm_id in self._left_out or not self.held:
            return self._left_out.get(vm_id, "")
        return dict(self._beyond_limits()).get(vm_id, "")

    # ---- present and coming VMs -----------------------------------------------------------------------

    def vm_id(self, vm_id: str) -> str:
        """Present id of a place's VM: its agent's, once that is there."""
        lease = self._at.get(vm_id)
        return vm_id if lease is None else lease.vm_id

    def is_up(self, vm_id: str) -> bool:
        """Whether the VM with this id is no place of a pool that has yet to come."""
        return vm_id not in self._places and vm_id not in self._at

    @property
    def may_open(self) -> bool:
        """Whether a job could be put where no agent is yet."""
        if not (self.held or self._hours):
            return bool(self._to_come)
        return not self._to_come.keys() <= self.left_out.keys()

    @property
    def all_heard(self) -> bool:
        """Whether all agents that were there are known to be there, or not."""
        return not self._unheard

    def shown(self, view: ClusterView) -> ClusterView:
        """The view with all VMs of pools under the ids of their places, and which of them are open.

        So a policy knows a VM again that was closed in between, or came up since.
        """
        vms = self.as_places(view.vms)
        return view.changed(
            vms=vms,
            running=tuple(map(self._runs_on_places, view.running)),
            left_out={self.place_id(vm_id): why for vm_id, why in view.left_out.items()},
            leaves_at={self.place_id(vm_id): at for vm_id, at in view.leaves_at.items()},
            openings=self._openings(),
        )

    def asked(self, request: PlacementRequest) -> PlacementRequest:
        """The request in the same words."""
        if not (request.present_on or request.avoided):
            return request
        present, avoided = (map(self.place_id, ids) for ids in (request.present_on, request.avoided))
        return replace(request, present_on=tuple(present), avoided=tuple(avoided))

    def over(self, ended: EndedJob) -> EndedJob:
        """A job that is over, in the same words, as long as it is handed out before the changes of leases."""
        gone = {lease.agent_id: lease.vm.id for lease in self._changed.values() if lease.ended}
        return replace(ended, vm_ids=tuple(gone.get(i) or self.place_id(i) for i in ended.vm_ids))

    def place_id(self, vm_id: str) -> str:
        """Id of a VM for policies: its place's, where it has one."""
        return self._agents[vm_id].vm.id if vm_id in self._agents else vm_id

    def as_places(self, vms: tuple[Vm, ...]) -> tuple[Vm, ...]:
        """Agents as the places where they are; the same tuple as long as these are the same."""
        seen = self._seen
        if vms is not seen.vms:
            shown = tuple([self._as_place(vm) if vm.id in self._agents else vm for vm in vms])
            if shown != seen.shown:
                boots = [math.nan if self.is_up(vm.id) else boot_of(vm) for vm in shown]
                index = {vm.id: number for number, vm in enumerate(shown)}
                seen = _SlotVms(vms, shown, index, np.array(boots))
            self._seen = seen._replace(vms=vms)
        return self._seen.shown

    def _as_place(self, vm: Vm) -> Vm:
        """An agent as the place where it is: the same value, where that can be, as while it is not there."""
        lease = self._agents[vm.id]
        place = self._places.get(lease.vm.id, lease.vm)
        if (place.resources, place.price_per_hour) == (vm.resources, lease.vm.price_per_hour):
            return place
        return replace(lease.vm, resources=vm.resources)

    def _runs_on_places(self, job: RunningJob) -> RunningJob:
        if not any(vm_id in self._agents for vm_id in job.vm_ids):
            return job
        return replace(job, vm_ids=tuple(map(self.place_id, job.vm_ids)))

    def _openings(self) -> Openings:
        """Which of the VMs that are shown are open, and when each could be ready, or is."""
        seen, now = self._seen, self._turn.now
        is_open = np.isnan(seen.boots)
        ready_at = np.where(is_open, 0.0, now + seen.boots)
        for place_id, lease in self._at.items():
            if (index := seen.at.get(place_id)) is not None:
                is_open[index] = True
                ready_at[index] = now if lease.agent_id else self._ready_at(lease)
        return Openings(is_open, ready_at)

    def _ready_at(self, lease: Lease) -> float:
        """When the VM should be up, or is."""
        return self._turn.now if lease.agent_id else max(self._turn.now, _due_at(lease))

    def starts_at(self, reserved: ReservedJob) -> float:
        """When a job with VMs that boot is believed to start."""
        leases = (self._at[vm_id] for vm_id in {*reserved.all_vms} if vm_id in self._at)
        return max((self._ready_at(lease) for lease in leases), default=self._turn.now)

    def why_waits(self, reserved: ReservedJob) -> str:
        """Why a job with VMs that boot waits."""
        names = [vm_id for vm_id in dict.fromkeys(reserved.all_vms) if not self.is_up(vm_id)]
        told = names if len(names) <= _NAMED else [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more"]
        told = [*told[:-2], " and ".join(told[-2:])]
        due_at = max((_due_at(self._at[i]) for i in names if i in self._at), default=self._turn.now)
        return f"waits for {', '.join(told)} to boot (due at {clock(due_at)})"


def _due_at(lease: Lease) -> float:
    """Time at which the VM should be up, according to its pool."""
    return lease.asked_at + boot_of(lease.vm)


def boot_of(vm: Vm) -> float:
    """Seconds that it takes to boot."""
    return 0.0 if vm.terms is None else vm.terms.boot
