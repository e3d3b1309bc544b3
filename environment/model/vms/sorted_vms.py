"""VMs in the order of their names, as policies see them: kept so, since thousands may come and go."""

from bisect import bisect_left, insort
from dataclasses import replace

from environment.number_format import natural_key
from environment.types import Vm

_Key = tuple[tuple[tuple[int, int | str], ...], str]


class ByName:
    """The VMs that are there; of those with one name, by their ids.

    Agents may share a hostname: then each is shown with the end of its id.
    """

    def __init__(self) -> None:
        self._vms: dict[str, Vm] = {}
        self._keys: dict[str, _Key] = {}
        self._sorted: list[_Key] = []
        #: The ids of all that have a name.
        self._named: dict[str, set[str]] = {}
        self._all: tuple[Vm, ...] | None = ()

    def put(self, vm: Vm) -> None:
        """The VM is there, as it is now."""
        known = self._vms.get(vm.id)
        if known is None or known.name != vm.name:
            self.take(vm.id)
            key = self._keys[vm.id] = natural_key(vm.name), vm.id
            insort(self._sorted, key)
            self._named.setdefault(vm.name, set()).add(vm.id)
        self._vms[vm.id] = vm
        self._all = None

    def take(self, vm_id: str) -> None:
        """The VM is not there, if it was."""
        if (vm := self._vms.pop(vm_id, None)) is not None:
            del self._sorted[bisect_left(self._sorted, self._keys.pop(vm_id))]
            self._named[vm.name].discard(vm_id)
            if not self._named[vm.name]:
                del self._named[vm.name]
            self._all = None

    def all(self) -> tuple[Vm, ...]:
        """All of them; the same tuple as long as nothing has changed."""
        if self._all is None:
            self._all = tuple([self.shown(self._vms[vm_id]) for _, vm_id in self._sorted])
        return self._all

    def shown(self, vm: Vm) -> Vm:
        """The VM under a name that no other one has."""
        alike = self._named.get(vm.name, ())
        if len(alike) < 2:
            return vm
        ends = [vm_id.rpartition("-")[2] for vm_id in alike]
        own = vm.id.rpartition("-")[2]
        return replace(vm, name=f"{vm.name} ({own if ends.count(own) < 2 else vm.id})")
