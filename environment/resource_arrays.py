"""Amounts of resources of many VMs at once, as policies count with them: [N] of each resource, by name.

One such holds what is free of all VMs, or offered, or what they have. What one amount is, is in `resources`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from environment.resources import BASIC, CPUS, MEMORY, THOUSANDTHS, Resources

_FloatArray = NDArray[np.float64]
_IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ResourceArrays:
    """Thousandths of each resource, int64 [N] by name, read-only; of what is not named no VM has anything."""

    thousandths: Mapping[str, _IntArray]

    def __post_init__(self) -> None:
        for array in self.thousandths.values():
            array.flags.writeable = False

    @classmethod
    def of(cls, amounts: Sequence[Resources], names: Iterable[str] = ()) -> "ResourceArrays":
        """Of VMs with these amounts, as far as it is cpus, memory or one of `names`."""
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
        """Of cpus in thousandths and whole MiB, [N] each, as the kernel counts; others as they are."""
        return cls({CPUS: milli_cpus.copy(), MEMORY: memory_mib * np.int64(THOUSANDTHS), **others})

    @classmethod
    def taken(cls, size: int, vms: _IntArray, amounts: Sequence[Resources]) -> "ResourceArrays":
        """What executors of these amounts take in all of each of `size` VMs; `vms` [E] has the VM of each."""
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
        """What is left of each when the other's is taken away; what only the other has stays away."""
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
        """What there is of one VM."""
        return Resources(
            {name: amount for name, had in self.thousandths.items() if (amount := int(had[index]))}
        )

    def of_vms(self, vms: _IntArray) -> "ResourceArrays":
        """The same of the VMs with these indices alone."""
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
        """How much there is of one resource, float64 [N]."""
        found: _FloatArray = self.get(name) / THOUSANDTHS
        found.flags.writeable = False
        return found

    def room(self, each: Resources) -> _IntArray:
        """How many executors of so much each, which is something, fit on every VM; int64 [N]."""
        room: _IntArray | None = None
        for name, amount in each.thousandths.items():
            fitting = self.get(name) // amount
            room = fitting if room is None else np.minimum(room, fitting, out=room)
        if room is None:
            raise ValueError("an executor takes something")
        return np.maximum(room, 0, out=room)

    def rooms(self, sizes: Sequence[Resources]) -> _IntArray:
        """For how many executors of each of these sizes there is room in all; int64 [S]."""
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
            fitting[amounts == 0] = np.iinfo(np.int64).max  # who takes nothing of it is not limited by it
            room = fitting[kind] if room is None else np.minimum(room, fitting[kind], out=room)
        if room is None:
            raise ValueError("an executor takes something")
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
