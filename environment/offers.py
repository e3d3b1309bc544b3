"""The VMs that are known and what of them is offered right now."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from math import isnan, nan

import numpy as np

from environment import amounts
from environment.amounts import NOTHING, Amounts
from environment.events import Booked, Offer, VmSize
from environment.ledger import Ledger
from environment.types import CPU_TOLERANCE, ClusterView, FloatArray, RunningJob, Vm, natural_key


class OfferBook:
    """Held offers by id, and every VM that was ever offered. `since` is when the oldest held offer came.

    Sums are kept by VM, and the set of VMs of which something is still missing, so that no event costs more
    than the VMs that it is about.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.since = 0.0
        self._ledger = ledger
        self._offers: dict[str, Offer] = {}
        self._by_vm: dict[str, dict[str, Offer]] = {}
        self._free: dict[str, tuple[float, int]] = {}
        self._free_resources: dict[str, Amounts] = {}
        self._vms: dict[str, Vm] = {}
        #: VMs whose capacity was seen while no task of ours was there.
        self._measured: set[str] = set()
        #: Sizes of VMs as the master told them, by VM: better than what can be learned from offers.
        self._told: dict[str, VmSize] = {}
        self._gone: set[str] = set()
        self._incomplete: set[str] = set()
        self._order: tuple[Vm, ...] | None = ()

    def __len__(self) -> int:
        return len(self._offers)

    def state(self) -> Booked:
        """All that is known and held."""
        return Booked(
            self.since,
            tuple(self._offers.values()),
            tuple(self._vms.values()),
            tuple(sorted(self._measured)),
            tuple(sorted(self._gone)),
            tuple(self._told.values()),
        )

    def resume(self, state: Booked) -> None:
        """Go on from there."""
        self._vms = {vm.id: vm for vm in state.vms}
        self._measured, self._gone = set(state.measured), set(state.gone)
        self._told = {size.vm_id: size for size in state.told}
        self._order = None
        for offer in state.offers:
            self._offers[offer.id] = offer
            self._by_vm.setdefault(offer.vm.id, {})[offer.id] = offer
        self.since = state.since
        for vm_id in self._vms:
            self.changed(vm_id)

    def measure(self, sizes: Iterable[VmSize]) -> None:
        """Know from the master how large these VMs are: also those that it will offer later only."""
        for size in sizes:
            self._told[size.vm_id] = size
            if size.vm_id in self._vms:
                self.learn(self._vms[size.vm_id])

    def take(self, offers: Iterable[Offer], at: float) -> None:
        """Hold these offers; their VMs are there."""
        if not self._offers:
            self.since = at
        vms = {}
        for offer in offers:
            self._offers[offer.id] = offer
            self._by_vm.setdefault(offer.vm.id, {})[offer.id] = offer
            vms[offer.vm.id] = offer.vm
        for vm in vms.values():
            self.found(vm.id)
            self.changed(vm.id)
            self.learn(vm)

    def learn(self, vm: Vm) -> None:
        """Know the VM and its capacity: what the master told, or else what its offers show."""
        _, cpus, memory_mib, resources = self._told.get(vm.id) or self._shown(vm.id)
        vm = replace(vm, cpus=round(cpus, 3), memory_mib=memory_mib, resources=resources)
        if vm != self._vms.get(vm.id):
            self._vms[vm.id] = vm
            self._order = None
        self.changed(vm.id)

    def _shown(self, vm_id: str) -> VmSize:
        """The most of the VM that was offered and used at once.

        Once the VM was seen without tasks of ours, what tasks use is no longer added, since resources
        can be offered again before the end of the task that had them is known here.
        """
        (cpus, memory_mib), resources = self.free(vm_id), self.free_resources(vm_id)
        known, used = self._vms.get(vm_id), self._ledger
        if not self._ledger.count(vm_id):
            known = known if vm_id in self._measured else None
            self._measured.add(vm_id)
        elif vm_id not in self._measured:
            cpus, memory_mib = cpus + used.cpus(vm_id), memory_mib + used.memory_mib(vm_id)
            resources = amounts.total((resources, used.resources(vm_id)))
        if known:
            cpus, memory_mib = max(cpus, known.cpus), max(memory_mib, known.memory_mib)
            resources = amounts.most(resources, known.resources)
        return VmSize(vm_id, cpus, memory_mib, resources)

    def vm(self, vm_id: str) -> Vm:
        """A VM that is known."""
        return self._vms[vm_id]

    def free(self, vm_id: str) -> tuple[float, int]:
        """Cpus and MiB of the VM that are offered now."""
        return self._free.get(vm_id, (0.0, 0))

    def free_resources(self, vm_id: str) -> Amounts:
        """What of the VM is offered now beside cpus and memory."""
        return self._free_resources.get(vm_id, NOTHING)

    def ports(self, vm_id: str) -> Iterator[int]:
        """The ports offered on the VM, in order."""
        for offer in self._by_vm.get(vm_id, {}).values():
            for first, last in offer.ports:
                yield from range(first, last + 1)

    def use(self, vm_id: str) -> tuple[Vm, tuple[str, ...]]:
        """Take all offers of the VM out, to be accepted in one call: Mesos allows one agent per call."""
        ids = tuple(self._by_vm.pop(vm_id, {}))
        for offer_id in ids:
            del self._offers[offer_id]
        self.changed(vm_id)
        return self._vms[vm_id], ids

    def drop(self, offer_id: str) -> None:
        """Forget an offer that was taken back."""
        if offer := self._offers.pop(offer_id, None):
            del self._by_vm[offer.vm.id][offer_id]
            self.changed(offer.vm.id)

    def lose(self, vm_id: str) -> None:
        """The VM is not there now."""
        if vm_id in self._vms:
            self._gone.add(vm_id)
            self._order = None
            self.use(vm_id)

    def found(self, vm_id: str) -> None:
        """The VM is there (again)."""
        if vm_id in self._gone:
            self._gone.discard(vm_id)
            self._order = None
            self.changed(vm_id)

    def clear(self) -> tuple[str, ...]:
        """Forget all offers; returns their ids."""
        ids, vms = tuple(self._offers), tuple(self._by_vm)
        self._offers.clear()
        self._by_vm.clear()
        for vm_id in vms:
            self.changed(vm_id)
        return ids

    def changed(self, vm_id: str) -> None:
        """What is offered of the VM, or what our tasks hold of it, is not what it was."""
        offers = self._by_vm.get(vm_id)
        if offers:
            held = offers.values()
            self._free[vm_id] = (sum(o.cpus for o in held), sum(o.memory_mib for o in held))
            self._free_resources[vm_id] = amounts.total(o.resources for o in held if o.resources)
        else:
            self._free.pop(vm_id, None)
            self._free_resources.pop(vm_id, None)
        vm = self._vms.get(vm_id)
        if vm and vm_id not in self._gone and self._missing(vm):
            self._incomplete.add(vm_id)
        else:
            self._incomplete.discard(vm_id)

    def complete(self) -> bool:
        """Whether all that our tasks do not use is offered, on every VM that is there."""
        return not self._incomplete

    def vms(self) -> tuple[Vm, ...]:
        """The VMs that are there, by name."""
        if self._order is None:
            there = [vm for vm in self._vms.values() if vm.id not in self._gone]
            self._order = tuple(sorted(there, key=lambda vm: natural_key(vm.name)))
        return self._order

    def view(self, at: float, running: tuple[RunningJob, ...], asked: Collection[str] = ()) -> ClusterView:
        """The cluster as a policy may see it: what is free is what is offered.

        `asked` names what is shown beside cpus and memory.
        """
        vms = self.vms()
        free = np.array([self.free(vm.id) for vm in vms], dtype=np.float64).reshape(-1, 2)
        executors = [self._ledger.count(vm.id) for vm in vms]
        ends = _ends(at, running)
        until = [ends.get(vm.id, nan) if count else at for vm, count in zip(vms, executors, strict=True)]
        return ClusterView(
            at,
            vms,
            free[:, 0].copy(),
            free[:, 1].copy(),
            np.array(executors, dtype=np.int64),
            np.array(until, dtype=np.float64),
            running,
            {name: self._free_of(name, vms) for name in asked},
        )

    def _free_of(self, name: str, vms: Iterable[Vm]) -> FloatArray:
        return np.array([self.free_resources(vm.id).get(name, 0.0) for vm in vms], dtype=np.float64)

    def _missing(self, vm: Vm) -> bool:
        return self.free(vm.id)[0] + self._ledger.cpus(vm.id) < vm.cpus - CPU_TOLERANCE


def _ends(at: float, running: Iterable[RunningJob]) -> dict[str, float]:
    """Until when the jobs hold their VMs, by VM; NaN when that is not known of one of a VM's jobs."""
    ends: dict[str, float] = {}
    for job in running:
        end = nan if job.expected_end is None else max(job.expected_end, at)
        for vm_id in job.vm_ids:
            other = ends.get(vm_id, end)
            ends[vm_id] = other if isnan(other) or other > end else end
    return ends
