"""Amounts of resources of many VMs at once, as policies count with them: [N] of each resource, by name.

One such object has the free, the offered or the total resources of all VMs. `resources` defines one amount.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from conf.util.fixed_mapping import fixed
from environment.resources import BASIC, CPUS, MEMORY, THOUSANDTHS, Resources

_FloatArray = NDArray[np.float64]
_IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ResourceArrays:
    """Thousandths of each resource, int64 [N] by name, read-only; a resource not named is 0 on every VM."""

    thousandths: Mapping[str, _IntArray]

    def __post_init__(self) -> None:
        object.__setattr__(self, "thousandths", fixed(self.thousandths))
        for array in self.thousandths.values():
            array.flags.writeable = False

    @classmethod
    def of(cls, amounts: Sequence[Resources], names: Iterable[str] = ()) -> "ResourceArrays":
        """Build arrays from VMs with these amounts: cpus, memory and those in `names`."""
        count, each = len(amounts), [amount.thousandths for amount in amounts]
        return cls(
            {
                name: np.fromiter((had.get(name, 0) for had in each), np.int64, count)
                for name in dict.fromkeys((*BASIC, *names))
            }
        )

    @classmethod
    def basic(
        cls, milli_cpus: _IntArray, memory_mib: _IntArray, others: Mapping[str, _IntArray]
    ) -> "ResourceArrays":
        """Build arrays from milli-cpus and whole MiB, [N] each, as the kernel counts; others unchanged."""
        return cls({CPUS: milli_cpus.copy(), MEMORY: memory_mib * np.int64(THOUSANDTHS), **others})

    @classmethod
    def taken(cls, size: int, vms: _IntArray, amounts: Sequence[Resources]) -> "ResourceArrays":
        """Sum the amounts of executors on each of `size` VMs; `vms` [E] names the VM of each executor."""
        first = amounts[0] if amounts else Resources()
        if all(amount is first for amount in amounts):
            counts = np.bincount(vms, minlength=size)
            return cls({name: counts * amount for name, amount in first.thousandths.items()})
        found = {name: np.zeros(size, np.int64) for amount in amounts for name in amount.thousandths}
        for name, array in found.items():
            np.add.at(array, vms, [amount.get(name) for amount in amounts])
        return cls(found)

    def __len__(self) -> int:
        return len(self.thousandths[CPUS])

    def __sub__(self, other: "ResourceArrays") -> "ResourceArrays":
        """Subtract the other's amounts from each; names that only the other has are ignored."""
        gone = other.thousandths
        return ResourceArrays(
            {name: had - gone[name] if name in gone else had for name, had in self.thousandths.items()}
        )

    def __and__(self, other: "ResourceArrays") -> "ResourceArrays":
        """The smaller of each."""
        others = other.thousandths
        return ResourceArrays(
            {name: np.minimum(had, others[name]) for name, had in self.thousandths.items() if name in others}
        )

    def at(self, index: int) -> Resources:
        """Resources of one VM."""
        return Resources(
            {name: amount for name, had in self.thousandths.items() if (amount := int(had[index]))}
        )

    def of_vms(self, vms: _IntArray) -> "ResourceArrays":
        """Resources of the VMs with these indices alone."""
        return ResourceArrays({name: had[vms] for name, had in self.thousandths.items()})

    def get(self, name: str) -> _IntArray:
        """Thousandths of one resource, int64 [N]."""
        found = self.thousandths.get(name)
        return np.zeros(len(self), np.int64) if found is None else found

    def total(self) -> Resources:
        """The sum over all VMs."""
        sums = ((name, int(had.sum())) for name, had in self.thousandths.items())
        return Resources({name: amount for name, amount in sums if amount})

    def amounts(self, name: str) -> _FloatArray:
        """Amounts of one resource, float64 [N]."""
        found: _FloatArray = self.get(name) / THOUSANDTHS
        found.flags.writeable = False
        return found

    def room(self, each: Resources) -> _IntArray:
        """Number of executors of `each`, which is not empty, that fit on every VM; int64 [N]."""
        room: _IntArray | None = None
        for name, amount in each.thousandths.items():
            fitting = self.get(name) // amount
            room = fitting if room is None else np.minimum(room, fitting, out=room)
        if room is None:
            raise ValueError("an executor needs at least one resource")
        return np.maximum(room, 0, out=room)

    def rooms(self, sizes: Sequence[Resources]) -> _IntArray:
        """Number of executors of each of these sizes that fit in all; int64 [S]."""
        known: dict[int, tuple[Resources, int]] = self.__dict__.setdefault("_rooms", {})
        # Most jobs have the very size that another one has, and views are looked at more than once.
        new = {id(size): size for size in sizes if id(size) not in known}
        if new:
            rooms = self._rooms_of([*new.values()]).tolist()
            known.update(zip(new, zip(new.values(), rooms, strict=True), strict=True))
        return np.array([known[id(size)][1] for size in sizes], np.int64)

    def _rooms_of(self, sizes: Sequence[Resources]) -> _IntArray:
        room: _IntArray | None = None
        for name in {name for size in sizes for name in size.thousandths}:
            amounts, kind = np.unique([size.thousandths.get(name, 0) for size in sizes], return_inverse=True)
            fitting = self.get(name) // amounts.clip(1)[:, None]
            fitting[amounts == 0] = np.iinfo(np.int64).max  # a request of zero is not limited by it
            room = fitting[kind] if room is None else np.minimum(room, fitting[kind], out=room)
        if room is None:
            raise ValueError("an executor needs at least one resource")
        found: _IntArray = np.maximum(room, 0, out=room).sum(axis=1)
        return found

    def holds(self, index: int, each: Resources, times: int = 1) -> bool:
        """Whether so many times so much fits on one VM: `contains` of it."""
        for name, amount in each.thousandths.items():
            had = self.thousandths.get(name)
            if (0 if had is None else had.item(index)) < amount * times:
                return False
        return True

    def contains(self, each: Resources) -> "NDArray[np.bool_]":
        """On which VMs so much fits, bool [N]: `Resources.contains` of each."""
        fits = np.ones(len(self), np.bool_)
        for name, amount in each.thousandths.items():
            fits &= self.get(name) >= amount
        return fits

    @cached_property
    def cpus(self) -> _FloatArray:
        """Cpus, float64 [N]."""
        return self.amounts(CPUS)

    @cached_property
    def memory_mib(self) -> _FloatArray:
        """Memory, MiB, float64 [N]."""
        return self.amounts(MEMORY)
