"""The VMs that are known and what of them is offered right now."""

from collections.abc import Iterable
from dataclasses import replace

from environment.events import Offer
from environment.ledger import Ledger
from environment.types import CPU_TOLERANCE, Vm, natural_key

#: More ports than the tasks of one VM can use; a range may hold all that there are.
PORTS_CONSIDERED = 4096


class OfferBook:
    """Held offers by id, and every VM that was ever offered. `since` is when the oldest held offer came."""

    def __init__(self, ledger: Ledger) -> None:
        self.since = 0.0
        self._ledger = ledger
        self._offers: dict[str, Offer] = {}
        self._by_vm: dict[str, dict[str, Offer]] = {}
        self._vms: dict[str, Vm] = {}
        self._gone: set[str] = set()
        self._order: tuple[Vm, ...] | None = ()

    def __len__(self) -> int:
        return len(self._offers)

    def take(self, offers: Iterable[Offer], at: float) -> None:
        """Hold these offers; their VMs are there."""
        if not self._offers:
            self.since = at
        offers = tuple(offers)
        for offer in offers:
            self._offers[offer.id] = offer
            self._by_vm.setdefault(offer.vm.id, {})[offer.id] = offer
        for vm in {offer.vm.id: offer.vm for offer in offers}.values():
            self._gone.discard(vm.id)
            self.learn(vm)

    def learn(self, vm: Vm) -> None:
        """Know the VM; its capacity is the most that was ever seen offered and used at once."""
        cpus, memory_mib = self.free(vm.id)
        cpus, memory_mib = cpus + self._ledger.cpus(vm.id), memory_mib + self._ledger.memory_mib(vm.id)
        if known := self._vms.get(vm.id):
            cpus, memory_mib = max(cpus, known.cpus), max(memory_mib, known.memory_mib)
        self._vms[vm.id] = replace(vm, cpus=round(cpus, 3), memory_mib=memory_mib)
        self._order = None

    def vm(self, vm_id: str) -> Vm:
        """A VM that is known."""
        return self._vms[vm_id]

    def free(self, vm_id: str) -> tuple[float, int]:
        """Cpus and MiB of the VM that are offered now."""
        offers = self._by_vm.get(vm_id, {}).values()
        return sum(offer.cpus for offer in offers), sum(offer.memory_mib for offer in offers)

    def ports(self, vm_id: str) -> list[int]:
        """The first ports offered on the VM."""
        ranges = [ports for offer in self._by_vm.get(vm_id, {}).values() for ports in offer.ports]
        return [p for first, last in ranges for p in range(first, min(last, first + PORTS_CONSIDERED) + 1)]

    def use(self, vm_id: str) -> tuple[Vm, tuple[str, ...]]:
        """Take all offers of the VM out, to be accepted in one call: Mesos allows one agent per call."""
        ids = tuple(self._by_vm.pop(vm_id, {}))
        for offer_id in ids:
            del self._offers[offer_id]
        return self._vms[vm_id], ids

    def drop(self, offer_id: str) -> None:
        """Forget an offer that was taken back."""
        if offer := self._offers.pop(offer_id, None):
            del self._by_vm[offer.vm.id][offer_id]

    def lose(self, vm_id: str) -> None:
        """The VM is not there now."""
        self._gone.add(vm_id)
        self._order = None
        for offer_id in self._by_vm.pop(vm_id, {}):
            del self._offers[offer_id]

    def clear(self) -> tuple[str, ...]:
        """Forget all offers; returns their ids."""
        ids = tuple(self._offers)
        self._offers.clear()
        self._by_vm.clear()
        return ids

    def complete(self) -> bool:
        """Whether all that our tasks do not use is offered, on every VM that is there."""
        return all(
            self.free(vm.id)[0] + self._ledger.cpus(vm.id) >= vm.cpus - CPU_TOLERANCE for vm in self.vms()
        )

    def vms(self) -> tuple[Vm, ...]:
        """The VMs that are there, by name."""
        if self._order is None:
            there = [vm for vm in self._vms.values() if vm.id not in self._gone]
            self._order = tuple(sorted(there, key=lambda vm: natural_key(vm.name)))
        return self._order
