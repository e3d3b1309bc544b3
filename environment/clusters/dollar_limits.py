"""Limits of the cost of open VMs per hour, of pools and of all VMs; the same rule in both worlds."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from environment.types import Vm

#: Dollars per hour that are none: an error of rounding.
_DUST = 1e-9


class HourLimits:
    """The most that open VMs may cost per hour, by pool; an empty name means all VMs."""

    def __init__(self, per_hour: Mapping[str, float], costs: Callable[[str], float]) -> None:
        """`costs` gives the cost of a pool's open VMs per hour now; of an empty name, all VMs."""
        self._per_hour, self._costs = per_hour, costs

    def __bool__(self) -> bool:
        return bool(self._per_hour)

    def beyond(
        self, closed: Iterable[Vm], *, together: bool = False, first: str | None = None
    ) -> Iterator[tuple[str, str]]:
        """VMs of pools among these, by id, that would be too dear with those of their pool before them; why.

        Those of all pools are added up in turns where they are to be opened `together`, after all those of
        the `first` pool.
        """
        rooms = {pool: limit - self._costs(pool) for pool, limit in self._per_hour.items()}
        pools: dict[str, list[Vm]] = {}
        for vm in closed if rooms else ():
            if vm.terms is not None:
                pools.setdefault(vm.terms.pool, []).append(vm)
        before = pools.pop(first, []) if first is not None else []
        turns = (vm for turn in zip_longest(*pools.values()) for vm in turn if vm is not None)
        sums: dict[str, float] = {}
        for vm in (*before, *turns):
            pool = "" if vm.terms is None else vm.terms.pool
            adds = {pool: pool, "": "" if together else pool}
            beyond = [name for name, of in adds.items() if _beyond(rooms, name, _more(sums, of, vm))]
            if beyond:
                yield vm.id, self._too_dear(beyond[0])
                continue
            sums.update({of: _more(sums, of, vm) for of in {"", pool}})

    def over(self, closed: Iterable[Vm]) -> str:
        """Which limit would be crossed if all these VMs were opened, in words; empty when none would."""
        vms = [*closed]
        for pool, limit in self._per_hour.items() if vms else ():
            adds = [vm for vm in vms if _counts(vm, pool)]
            costs = self._costs(pool)
            if adds and costs + math.fsum(vm.price_per_hour for vm in adds) > limit + _DUST:
                return self._too_dear(pool)
        return ""

    def _too_dear(self, pool: str) -> str:
        whose, costs = (f"pool {pool}", "costs") if pool else ("all VMs", "cost")
        has = f"{costs} ${self._costs(pool):.4g}"
        return f"is not opened: {whose} may cost ${self._per_hour[pool]:.10g} per hour, and {has}"


def _beyond(rooms: Mapping[str, float], name: str, dollars: float) -> bool:
    return name in rooms and dollars > rooms[name] + _DUST


def _more(sums: Mapping[str, float], of: str, vm: Vm) -> float:
    return sums.get(of, 0.0) + vm.price_per_hour


def _counts(vm: Vm, pool: str) -> bool:
    """Whether the VM is of the pool; all VMs are of the empty name."""
    return not pool or (vm.terms is not None and vm.terms.pool == pool)


def known_pools(limited: Iterable[str], vms: Sequence[Vm]) -> list[str]:
    """Pools of the VMs; ValueError names one of the `limited` that does not exist (empty: all VMs)."""
    pools = list(dict.fromkeys(vm.terms.pool for vm in vms if vm.terms is not None))
    for pool in limited:
        if pool and pool not in pools:
            known = ", ".join(sorted(pools)) or "none"
            raise ValueError(f"pools.{pool}: there is no such pool; the cluster has {known}")
    return pools


def affordable(per_hour: Mapping[str, float], vms: Sequence[Vm]) -> list[tuple[Vm, ...]]:
    """VMs that may be open together by limits per hour, for each pool with as many of it as may be.

    ValueError names a limit under which none is ever opened, or a limit of a pool that does not exist.
    """
    pools = known_pools(per_hour, vms)
    always = [vm for vm in vms if vm.terms is None or vm.terms.always]
    closed = [vm for vm in vms if vm.terms is not None and not vm.terms.always]

    def costs(pool: str) -> float:
        return math.fsum(
            vm.price_per_hour for vm in always if not pool or (vm.terms and vm.terms.pool == pool)
        )

    limits = HourLimits(per_hour, costs)
    for pool, limit in per_hour.items():
        of = [vm for vm in closed if not pool or (vm.terms is not None and vm.terms.pool == pool)]
        least = min((vm.price_per_hour for vm in of), default=0.0)
        if of and costs(pool) + least > limit + _DUST:
            beside = f", beside ${costs(pool):.4g} of VMs that are always open" if costs(pool) else ""
            raise ValueError(
                f"{f'pools.{pool}.' if pool else ''}dollars_per_hour: {limit:g} is less than the cheapest VM "
                f"costs, ${least:.4g}{beside}"
            )
    beyond = [dict(limits.beyond(closed, together=True, first=pool)) for pool in pools if per_hour]
    return [tuple(vm for vm in vms if vm.id not in of) for of in beyond or [{}]]
