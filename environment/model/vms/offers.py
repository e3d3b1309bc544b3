"""Known VMs, their free resources, and the part of these that is offered right now.

Resources are free if neither our tasks nor others hold them. Offers show the holdings of others: an offer
with less than our sum means that others hold the rest, until another offer shows otherwise.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import starmap
from types import MappingProxyType

import numpy as np

from environment.model.messages import options
from environment.model.messages.events import VmsMeasured
from environment.model.messages.snapshot import Offer, OfferSnapshot, Quota, VmSize
from environment.model.vms.max_capacity import MaxCapacity
from environment.model.vms.reservations import Reservations
from environment.model.vms.sorted_vms import ByName
from environment.model.vms.usage_ledger import Ledger
from environment.number_format import clock
from environment.offered import OfferedResources
from environment.resource_arrays import ResourceArrays
from environment.resources import CPUS, NOTHING, Resources, total
from environment.types import Vm
from environment.view import ClusterView, RunningJob

#: Chosen: more than the tasks of a VM need.
_ANY_PORTS = ((1, 10_000),)


class Offers:
    """Held offers by id, and every VM that was ever offered. `since` is when the oldest held offer came.

    Sums are kept by VM, and the set of VMs of which something is still missing, so that no event costs more
    than the VMs that it is about.
    """

    def __init__(self, ledger: Ledger, reservations: Reservations) -> None:
        self.since = 0.0
        #: Since when offers are wanted.
        self.wanted_since = 0.0
        #: When each VM was last offered.
        self._offered_at: dict[str, float] = {}
        self._ledger = ledger
        self._reservations = reservations
        #: Places of pools where no VM is up: the resources of a VM there are as good as offered.
        self._places: dict[str, Vm] = {}
        self._offers: dict[str, Offer] = {}
        self._by_vm: dict[str, dict[str, Offer]] = {}
        self._offered: dict[str, Resources] = {}
        self._ports: dict[str, int] = {}
        self._free: dict[str, Resources] = {}
        #: Resources of VMs that others than us hold, as far as offers showed it.
        self._others: dict[str, Resources] = {}
        #: VMs of which nothing came in time when it was last waited for.
        self._awaited: set[str] = set()
        self._vms: dict[str, Vm] = {}
        #: VMs whose capacity was seen while no task of ours was there.
        self._measured: set[str] = set()
        #: Sizes of VMs as the master reported them, by VM: better than sizes learned from offers.
        self._told: dict[str, Resources] = {}
        #: The master has told which VMs there are beside those of pools, if only that there are none.
        self._counted = False
        #: VMs of which only tasks of ours are known yet, and so not their free resources.
        self._guessed: set[str] = set()
        self._gone: set[str] = set()
        #: VMs of which the master offers nothing, and why.
        self._closed: dict[str, str] = {}
        #: When planned maintenance of VMs begins, and for how long, as last told.
        self._windows: dict[str, tuple[float, float | None]] = {}
        #: Other limits of the master on our offers.
        self._limits: tuple[str, ...] = ()
        self._quota: Quota = {}
        self._incomplete: set[str] = set()
        #: VMs that are present.
        self._there = ByName()

    def __len__(self) -> int:
        return len(self._offers)

    def state(self) -> OfferSnapshot:
        """All that is known and held."""
        return OfferSnapshot(
            self.since,
            tuple(self._offers.values()),
            tuple(vm for vm in self._vms.values() if vm.id not in self._places),
            tuple(sorted(self._measured)),
            tuple(sorted(self._gone)),
            tuple(starmap(VmSize, self._told.items())),
            tuple(starmap(VmSize, self._others.items())),
            tuple(sorted(self._awaited)),
            tuple(sorted(self._guessed)),
            tuple(self._closed.items()),
            tuple((vm_id, *window) for vm_id, window in self._windows.items()),
            self._limits,
            self._quota,
            self._counted,
            self.wanted_since,
            tuple(self._offered_at.items()),
        )

    def resume(self, state: OfferSnapshot) -> None:
        """Restore the state."""
        self._vms |= {vm.id: vm for vm in state.vms}
        self._measured, self._gone = set(state.measured), set(state.gone)
        self._told, self._counted = dict(state.told), state.counted
        self._others = dict(state.others)
        self._awaited, self._guessed = set(state.awaited), set(state.guessed)
        self._closed, self._limits, self._quota = dict(state.closed), state.limits, state.quota
        self._windows = {vm_id: (start, duration) for vm_id, start, duration in state.windows}
        for vm in state.vms:
            if vm.id not in self._gone:
                self._there.put(vm)
        for offer in state.offers:
            self._offers[offer.id] = offer
            self._by_vm.setdefault(offer.vm.id, {})[offer.id] = offer
        self.since, self.wanted_since = state.since, state.wanted_since
        self._offered_at = dict(state.offered_at)
        for vm_id in self._vms:
            self.changed(vm_id)

    def measure(self, told: VmsMeasured) -> bool:
        """Know from the master which VMs there are, and how large: also those that it will offer later only.

        Returns whether there are others than before, or we may have more of them or less.
        """
        self._counted = bool(self._places)
        known, before, quota = len(self._vms), self._closed, self._quota
        resized = any(vm_id in self._told and self._told[vm_id] != size for vm_id, size in told.sizes)
        self._closed, self._limits, self._quota = dict(told.closed), told.limits, told.quota
        for vm_id in before.keys() ^ self._closed.keys():
            self.changed(vm_id)
        for vm in told.vms:
            if vm.id not in self._vms:
                self._told[vm.id] = vm.resources
                self.learn(vm)
        for vm_id, resources in told.sizes:
            self._told[vm_id] = resources
            if vm_id in self._vms:
                self._guessed.discard(vm_id)
                self.learn(self._vms[vm_id])
                self._look(vm_id)
        for vm_id, used in told.used:
            # Offers know better, and the usage where tasks of ours begin and end is known too late.
            if vm_id in self._vms and not self._by_vm.get(vm_id) and not self._ledger.count(vm_id):
                self._others[vm_id] = used
                self.changed(vm_id)
        return resized or len(self._vms) > known or before != self._closed or quota != self._quota

    def take(self, offers: Iterable[Offer], at: float) -> None:
        """Hold these offers; mark their VMs as present."""
        if not self._offers:
            self.since = at
        vms = {}
        for offer in offers:
            self.drop(offer.id)  # a master that gives an id to two agents means the later one
            self._offers[offer.id] = offer
            self._by_vm.setdefault(offer.vm.id, {})[offer.id] = offer
            vms[offer.vm.id] = offer.vm
        for vm in vms.values():
            self._offered_at[vm.id] = at
            self.found(vm.id)
            self._awaited.discard(vm.id)
            self._guessed.discard(vm.id)
            self.changed(vm.id)
            if vm.id in self._told:  # offered resources exist, whenever the master was last asked
                self._told[vm.id] |= self.offered(vm.id)
            self.learn(vm)
            self._look(vm.id)
            self.window(vm.id, next((o.unavailable for o in self._by_vm[vm.id].values()), None))

    def window(self, vm_id: str, window: tuple[float, float | None] | None) -> None:
        """Know when the VM goes into maintenance, and for how long; None when that is not planned."""
        if window is None:
            self._windows.pop(vm_id, None)
        else:
            self._windows[vm_id] = window

    def closed(self, at: float, margin: float) -> dict[str, str]:
        """VMs, by id, that accept no new tasks, and why.

        They are those of which the master offers nothing, and those with maintenance within the margin (s).
        """
        closed = dict(self._closed)
        for vm_id, (start, duration) in self._windows.items():
            if start - margin <= at and (duration is None or at < start + duration):
                closed[vm_id] = f"accepts no new tasks: its maintenance begins at {clock(start)}"
        return closed

    def _look(self, vm_id: str) -> None:
        """Derive the holdings of others from the VM's offers; does nothing without offers."""
        if vm_id not in self._by_vm or not self._by_vm[vm_id]:
            return
        held = self._ledger.held(vm_id) + self._offered[vm_id]
        self._others[vm_id] = (self._vms[vm_id].resources - held).positive
        self.changed(vm_id)

    def settled(self) -> None:
        """Record that the wait was long enough: resources not offered by now are not waited for again."""
        self._awaited |= self._incomplete

    def learn(self, vm: Vm) -> None:
        """Store the VM with its capacity as the master reported it, or else as its offers show."""
        told = self._told.get(vm.id)
        vm = replace(vm, resources=self._shown(vm.id) if told is None else told)
        if vm != self._vms.get(vm.id):
            self._vms[vm.id] = vm
            if vm.id not in self._gone:
                self._there.put(vm)
        self.changed(vm.id)

    def guess(self, vm: Vm) -> None:
        """Store the VM, known only from our tasks there; the rest of its resources is unknown yet."""
        if vm.id not in self._told:
            self._guessed.add(vm.id)
        self.learn(vm)

    def _shown(self, vm_id: str) -> Resources:
        """The most of the VM that was offered and used at once.

        Once the VM was seen without tasks of ours, resources used by tasks are no longer added, since they
        can be offered again before the end of the task that had them is known here.
        """
        shown, known = self.offered(vm_id), self._vms.get(vm_id)
        if not self._ledger.count(vm_id):
            known = known if vm_id in self._measured else None
            self._measured.add(vm_id)
        elif vm_id not in self._measured:
            shown += self._ledger.held(vm_id)
        return shown | known.resources if known else shown

    def vm(self, vm_id: str) -> Vm:
        """A VM that is known."""
        return self._there.shown(self._vms[vm_id])

    def name(self, vm_id: str) -> str:
        """Name of a VM; its id if it is not known."""
        return self.vm(vm_id).name if vm_id in self._vms else vm_id

    def free(self, vm_id: str) -> Resources:
        """Resources of the VM that no task holds, offered or not."""
        return self._free.get(vm_id, NOTHING)

    def offered(self, vm_id: str) -> Resources:
        """Resources of the VM that are offered now."""
        return self._offered.get(vm_id, NOTHING)

    def ports_offered(self, vm_id: str) -> int:
        """How many ports of the VM are offered now."""
        return self._ports.get(vm_id, 0)

    def ports(self, vm_id: str) -> Iterator[int]:
        """The ports offered on the VM, in order."""
        for offer in self._by_vm.get(vm_id, {}).values():
            for first, last in offer.ports:
                yield from range(first, last + 1)

    def use(self, vm_id: str) -> tuple[Vm, tuple[str, ...]]:
        """Remove and return all offers of the VM, to accept in one call: Mesos allows one agent per call."""
        ids = tuple(self._by_vm.pop(vm_id, {}))
        for offer_id in ids:
            del self._offers[offer_id]
        self.changed(vm_id)
        return self.vm(vm_id), ids

    def drop(self, offer_id: str) -> None:
        """Forget an offer that was taken back."""
        if offer := self._offers.pop(offer_id, None):
            del self._by_vm[offer.vm.id][offer_id]
            self.changed(offer.vm.id)

    def lose(self, vm_id: str) -> None:
        """The VM is not there now."""
        if vm_id in self._vms and vm_id not in self._places:
            self._gone.add(vm_id)
            self._others.pop(vm_id, None)
            self._there.take(vm_id)
            self.use(vm_id)

    def found(self, vm_id: str) -> None:
        """The VM is there (again)."""
        if vm_id in self._gone:
            self._gone.discard(vm_id)
            if vm_id in self._vms:
                self._there.put(self._vms[vm_id])
            self.changed(vm_id)

    def clear(self) -> tuple[Offer, ...]:
        """Forget all offers, and return them."""
        held = tuple(self._offers.values())
        self._offers.clear()
        for vm_id in dict.fromkeys(offer.vm.id for offer in held):
            del self._by_vm[vm_id]
            self.changed(vm_id)
        return held

    def place(self, vm: Vm) -> None:
        """A VM could be there, or is about to be: all of it may be used."""
        self._places[vm.id] = self._vms[vm.id] = vm
        self._by_vm[vm.id] = {"": Offer("", vm, vm.resources, _ANY_PORTS)}
        self._there.put(vm)
        self.changed(vm.id)

    def unplace(self, vm_id: str) -> None:
        """Remove the VM of a place that is there as an agent, or cannot be there any more."""
        if self._places.pop(vm_id, None) is not None:
            self.forget(vm_id)

    def forget(self, vm_id: str) -> None:
        """The VM will never be there again."""
        for offer_id in self._by_vm.pop(vm_id, {}):
            self._offers.pop(offer_id, None)
        amounts = (self._offered, self._ports, self._free, self._others, self._told)
        for known in (self._vms, *amounts, self._windows, self._offered_at):
            known.pop(vm_id, None)
        for some in (self._awaited, self._measured, self._guessed, self._gone, self._incomplete):
            some.discard(vm_id)
        self._there.take(vm_id)

    def expect(self) -> None:
        """Wait again for every VM, as the master may have changed the recipients of its offers."""
        self._awaited.clear()

    def changed(self, vm_id: str) -> None:
        """Update the sums of the VM after a change of its offers or of our tasks' holdings."""
        held = self._by_vm.get(vm_id, {}).values()
        if held:
            self._offered[vm_id] = total(o.resources for o in held)
            self._ports[vm_id] = sum(last - first + 1 for o in held for first, last in o.ports)
        else:
            self._offered.pop(vm_id, None)
            self._ports.pop(vm_id, None)
        vm = self._vms.get(vm_id)
        if vm is not None:
            self._free[vm_id] = self._left(vm)
        if vm and vm_id not in self._gone and vm_id not in self._closed and self._missing(vm):
            self._incomplete.add(vm_id)
        else:
            self._incomplete.discard(vm_id)
            self._awaited.discard(vm_id)

    def released(self, vm_id: str) -> None:
        """Record that a task of ours on the VM has ended: its resources will be offered."""
        self._awaited.discard(vm_id)
        self.changed(vm_id)

    def _left(self, vm: Vm) -> Resources:
        """Resources that neither we nor others hold; at least the offered ones, as the master knows best."""
        left = vm.resources - self._ledger.held(vm.id) - self._others.get(vm.id, NOTHING)
        return left.positive | self.offered(vm.id)

    def complete(self) -> bool:
        """Whether all is offered that is free, on every VM that is there."""
        return not self._incomplete

    def lacks(self, vm_id: str) -> bool:
        """Whether something of the VM is free and not offered."""
        return vm_id in self._incomplete

    @property
    def lacking(self) -> Collection[str]:
        """The VMs of which something is free and not offered, by id."""
        return self._incomplete

    def came(self) -> bool:
        """Whether all that can be expected is offered: all that is free, but on VMs that were waited for."""
        return self._incomplete <= self._awaited

    def vms(self) -> tuple[Vm, ...]:
        """The VMs that are there, by name."""
        return self._there.all()

    def reach(self, closed: Mapping[str, str]) -> MaxCapacity:
        """Capacity if no task held anything; `closed` says why some VMs accept nothing now.

        The set of VMs is known once the master has reported it: before, others may yet be offered.
        """
        told = bool(self._told) or self._counted
        return MaxCapacity(self.vms(), closed, self._quota, known=told and not self._guessed)

    def view(
        self,
        at: float,
        running: tuple[RunningJob, ...],
        asked: Collection[str] = (),
        left_out: Mapping[str, str] = MappingProxyType({}),
    ) -> ClusterView:
        """Snapshot of the cluster for a policy: free resources, and the part of them that is offered.

        `asked` names the resources shown beside cpus and memory. VMs without known resources are not
        shown; `left_out` says why nothing is placed on others now.
        """
        vms = self.vms()
        if self._guessed:
            vms = tuple(vm for vm in vms if vm.id not in self._guessed)
        free, offered = [self.free(vm.id) for vm in vms], [self.offered(vm.id) for vm in vms]
        executors = [self._ledger.count(vm.id) for vm in vms]
        ports = np.array([self.ports_offered(vm.id) for vm in vms], dtype=np.int64)
        if self._reservations:
            self._reservations.take_out(vms, free, offered, executors, ports)
        there = np.array([vm.id in self._offered for vm in vms], dtype=np.bool_)
        return ClusterView(
            at,
            vms,
            ResourceArrays.of(free, asked),
            np.array(executors, dtype=np.int64),
            running,
            OfferedResources(there, ResourceArrays.of(offered, asked), ports),
            left_out,
            {vm_id: start for vm_id, (start, _) in self._windows.items() if start > at},
            (*self._limits, *self._withheld(at)),
        )

    def _withheld(self, at: float) -> Iterator[str]:
        """The remedy for VMs that were not offered for long although they are believed to be unused."""
        latest = at - options.WITHHELD
        if self.wanted_since > latest:
            return
        long = [vm for vm in self._incomplete if self._offered_at.get(vm, 0.0) <= latest]
        if names := sorted(self.name(vm_id) for vm_id in long if vm_id not in self._offered):
            more = f" (and {len(names) - 1} more)" if names[1:] else ""
            yield (
                f"{names[0]}{more} was not offered for more than {options.WITHHELD:g} s: if another framework"
                " holds the offer, the master's --offer_timeout or a larger weight of our role ends that"
            )

    def _missing(self, vm: Vm) -> bool:
        return self.offered(vm.id).get(CPUS) < self._free[vm.id].get(CPUS)
