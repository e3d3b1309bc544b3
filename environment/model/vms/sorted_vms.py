"""VMs in the order of their names, as policies see them: kept so, since thousands may come and go."""

from bisect import bisect_left, insort
from collections import Counter
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
        #: By name: how many of that name have each end of an id.
        self._ends: dict[str, Counter[str]] = {}
        self._all: tuple[Vm, ...] | None = ()

    def put(self, vm: Vm) -> None:
        """The VM is there, as it is now."""
        known = self._vms.get(vm.id)
        if known is None or known.name != vm.name:
            self.take(vm.id)
            key = self._keys[vm.id] = natural_key(vm.name), vm.id
            insort(self._sorted, key)
            self._ends.setdefault(vm.name, Counter())[_end(vm.id)] += 1
        self._vms[vm.id] = vm
        self._all = None

    def take(self, vm_id: str) -> None:
        """The VM is not there, if it was."""
        if (vm := self._vms.pop(vm_id, None)) is not None:
            del self._sorted[bisect_left(self._sorted, self._keys.pop(vm_id))]
            ends = self._ends[vm.name]
            ends[_end(vm_id)] -= 1
            if not ends[_end(vm_id)]:
                del ends[_end(vm_id)]
            if not ends:
                del self._ends[vm.name]
            self._all = None

    def all(self) -> tuple[Vm, ...]:
        """All of them; the same tuple as long as nothing has changed."""
        if self._all is None:
            self._all = tuple([self.shown(self._vms[vm_id]) for _, vm_id in self._sorted])
        return self._all

    def shown(self, vm: Vm) -> Vm:
        """The VM under a name that no other one has."""
        own, ends = _end(vm.id), self._ends.get(vm.name, Counter())
        if len(ends) < 2 and ends[own] < 2:
            return vm
        return replace(vm, name=f"{vm.name} ({own if ends[own] < 2 else vm.id})")


def _end(vm_id: str) -> str:
    return vm_id.rpartition("-")[2]
