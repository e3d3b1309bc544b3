"""Limits of the costs of VMs per day or month, in a simulation: its first day is 1 January 1970 (UTC)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from conf.units import SECONDS_PER_HOUR
from conf.util.utc_days import day_of, month_of, next_day, next_month
from environment.kernel.leases import count_charged
from environment.kernel.state import Batch
from environment.types import Vm


class SpentLimit(NamedTuple):
    """A limit of a pool (empty: all VMs) that is reached, until a time; dollars."""

    pool: str
    per: Literal["day", "month"]
    limit: float
    spent: float
    until: float


class SimulatedPeriodLimits:
    """What VMs of row 0 of a batch have cost in the present day and month, and which get nothing new."""

    def __init__(
        self, per_day: Mapping[str, float], per_month: Mapping[str, float], batch: Batch, vms: Sequence[Vm]
    ) -> None:
        """Limits in dollars by pool; an empty name means all VMs.

        Call `count` after each step, none of which passes `next_day`.
        """
        self._per_day, self._per_month, self._batch, self._vms = per_day, per_month, batch, vms
        pools = ["" if vm.terms is None else vm.terms.pool for vm in vms]
        limited = {*per_day, *per_month}
        self._of = {name: np.array([name in ("", pool) for pool in pools]) for name in limited}
        #: Seconds for which each VM was charged, at the end of the last step.
        self._charged = np.zeros(len(vms))
        self._at = 0.0
        #: Dollars by pool and day or month.
        self._dollars: dict[tuple[str, str], float] = {}

    def __bool__(self) -> bool:
        return bool(self._of) and self._batch.machines.leases.shape[1] > 0

    @property
    def next_day(self) -> float:
        """Time at which the next day begins; infinity without limits."""
        return next_day(day_of(self._now)) if self else math.inf

    def count(self) -> None:
        """Add the cost of the step that ends now; what is rounded up is charged when a VM closes."""
        if not self:
            return
        charged, day = np.empty(len(self._vms)), day_of(self._at)
        count_charged(self._batch, 0, charged)
        price = self._batch.machines.price_per_hour[0, : len(self._vms)] / SECONDS_PER_HOUR
        dollars = (charged - self._charged) * price
        self._charged, self._at = charged, self._now
        for pool, of in self._of.items():
            for period in (day, month_of(day)):
                spent = self._dollars.get((pool, period), 0.0)
                self._dollars[pool, period] = spent + float(dollars[of].sum())

    def left_out(self) -> dict[str, str]:
        """Reasons why VMs of pools get nothing new now, by id."""
        found = dict[str, str]()
        for each in self._reached():
            whose, has = (f"pool {each.pool}", "has") if each.pool else ("all VMs", "have")
            may = f"{whose} may cost ${each.limit:.10g} per {each.per}, and {has} cost ${each.spent:.4g}"
            vms = (self._vms[vm] for vm in np.flatnonzero(self._of[each.pool]).tolist())
            found |= {vm.id: f"is not used: {may}" for vm in vms if vm.terms is not None}
        return found

    def next_change(self) -> float:
        """Time at which VMs are used again; infinity where none is left out."""
        return min((each.until for each in self._reached()), default=math.inf)

    def _reached(self) -> Iterator[SpentLimit]:
        if not self:
            return
        day = day_of(self._now)
        for pool, limit in self._per_day.items():
            if (spent := self._dollars.get((pool, day), 0.0)) >= limit:
                yield SpentLimit(pool, "day", limit, spent, next_day(day))
        for pool, limit in self._per_month.items():
            if (spent := self._dollars.get((pool, month_of(day)), 0.0)) >= limit:
                yield SpentLimit(pool, "month", limit, spent, next_month(month_of(day)))

    @property
    def _now(self) -> float:
        return float(self._batch.state.clock[0])
