"""Commitments: VMs, or dollars per hour, that are paid whether they are used or not.

They cover the VMs that have been open longest, a reservation so many at its own price, a plan so many dollars
per hour at a discount. `environment.model.messages.vm_accounts` charges what is covered; the bill compares it
with what was committed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from conf.schema.daemon import CommitmentSpec
from conf.units import SECONDS_PER_HOUR
from conf.util.copy_fields import carried
from conf.util.utc_days import day_of, midnight, next_day

#: Shares of a VM that are none: errors of rounding.
_DUST = 1e-9


class _CoverableVm(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def pool(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def price_per_hour(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Commitment:
    """A reservation of `vms` at a price per hour each, or a plan of `dollars_per_hour` at a discount.

    It covers VMs of a pool, or of a type, from the day `since` to the day `until` (UTC, both included).
    """

    name: str
    since: str
    until: str
    pool: str = ""
    type: str = ""
    vms: int = 0
    price_per_hour: float = 0.0
    dollars_per_hour: float = 0.0
    discount: float = 0.0

    @property
    def per_hour(self) -> float:
        """The price that is paid in any case, dollars per hour."""
        return self.vms * self.price_per_hour if self.vms else self.dollars_per_hour

    @property
    def covers(self) -> str:
        """Covered VMs, in words."""
        return f"pool {self.pool}" if self.pool else f"type {self.type}"

    def active(self, day: str) -> bool:
        """Whether it is paid on that day."""
        return self.since <= day <= self.until

    def used(self, dollars: float, hours: float) -> float:
        """Its dollars for covered VMs of so many hours and dollars at their own prices."""
        return hours * self.price_per_hour if self.vms else dollars * (1.0 - self.discount)

    def committed(self, begin: float, end: float) -> float:
        """The price paid in any case between two times, seconds since the epoch; dollars."""
        begin = max(begin, midnight(self.since))
        end = min(end, next_day(self.until))
        return self.per_hour * max(end - begin, 0.0) / SECONDS_PER_HOUR

    def room(self) -> float:
        """How much it covers at once: VMs, or its own dollars per hour."""
        return float(self.vms) if self.vms else self.dollars_per_hour

    def takes(self, price: float) -> float:
        """How much of that a VM of this price takes."""
        return 1.0 if self.vms else price * (1.0 - self.discount)


def commitments_of(specs: Mapping[str, CommitmentSpec]) -> tuple[Commitment, ...]:
    """Commitments as a config names them."""
    return tuple(carried(Commitment, spec, name=name) for name, spec in specs.items())


def active_at(at: float, commitments: Iterable[Commitment]) -> tuple[Commitment, ...]:
    """Those that are paid at that time, seconds since the epoch."""
    return tuple(each for each in commitments if each.active(day_of(at)))


#: Covered shares of a VM, by commitment.
Cover = tuple[tuple[str, float], ...]


def cover(vms: Iterable[_CoverableVm], commitments: Sequence[Commitment]) -> dict[str, Cover]:
    """Shares of VMs that are covered, by VM: in the order of the VMs, and of the commitments."""
    left = {each.name: room for each in commitments if (room := each.room()) > _DUST}
    found: dict[str, Cover] = {}
    for vm in vms:
        if not left:
            break
        bare, parts = 1.0, list[tuple[str, float]]()
        for each in commitments:
            room, takes = left.get(each.name, 0.0), each.takes(vm.price_per_hour)
            if bare <= _DUST or room <= _DUST or takes <= 0.0 or (each.pool or vm.pool) != vm.pool:
                continue
            if each.type and each.type != vm.type:
                continue
            share = min(bare, room / takes)
            left[each.name], bare = room - share * takes, bare - share
            if left[each.name] <= _DUST:
                del left[each.name]
            parts.append((each.name, share))
        if parts:
            found[vm.id] = tuple(parts)
    return found
