"""Limits of the cost of open VMs per hour in a simulation: closed ones beyond them are not opened."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from environment.clusters.dollar_limits import HourLimits
from environment.kernel.leases import CLOSES, TAKEN
from environment.kernel.state import Batch
from environment.types import Vm

#: Seconds for which closed VMs of several pools are shown so that all may be opened together, after a
#: placement on some would have crossed a limit; another pool comes first each time, so that each job finds
#: VMs at last. In the daemon only that job does without the others.
_TOGETHER = 300.0


class SimulatedHourLimits:
    """Which closed VMs of row 0 of a batch may be opened, by their prices and those of open ones."""

    def __init__(self, per_hour: Mapping[str, float], batch: Batch, vms: Sequence[Vm]) -> None:
        """`per_hour` has dollars by pool; an empty name means all VMs."""
        self._batch, self._vms = batch, vms
        self._limits = HourLimits(per_hour, self._costs)
        self._together_until, self._first = -math.inf, -1
        self._pools = list(dict.fromkeys(vm.terms.pool for vm in vms if vm.terms is not None))

    def __bool__(self) -> bool:
        return bool(self._limits) and self._batch.machines.leases.shape[1] > 0

    def left_out(self) -> dict[str, str]:
        """Reasons why closed VMs are not opened now, by id."""
        if not self:
            return {}
        closed = [self._vm(number) for number in np.flatnonzero(~self._open()).tolist()]
        if self._now >= self._together_until:
            return dict(self._limits.beyond(closed))
        return dict(self._limits.beyond(closed, together=True, first=self._pools[self._first]))

    def over(self, vms: Sequence[int]) -> bool:
        """Whether a limit would be crossed if the closed VMs among these were opened."""
        if not self:
            return False
        is_open = self._open()
        over = bool(self._limits.over(self._vm(vm) for vm in dict.fromkeys(vms) if not is_open[vm]))
        if over:
            self._together_until = self._now + _TOGETHER
            self._first = (self._first + 1) % len(self._pools)
        return over

    def next_change(self) -> float:
        """Time at which an idle VM closes, or others are shown again; infinity where none is left out."""
        if not self.left_out():
            return math.inf
        closes = self._batch.machines.leases[0, : len(self._vms), CLOSES][self._open()]
        first = float(np.nextafter(closes.min(initial=math.inf), math.inf))
        return min(first, self._together_until if self._together_until > self._now else math.inf)

    @property
    def _now(self) -> float:
        return float(self._batch.state.clock[0])

    def _open(self) -> NDArray[np.bool_]:
        lease = self._batch.machines.leases[0, : len(self._vms)]
        return np.asarray((lease[:, CLOSES] >= self._now) & (lease[:, TAKEN] > self._now))

    def _vm(self, number: int) -> Vm:
        """A VM with its present price."""
        vm, price = self._vms[number], float(self._batch.machines.price_per_hour[0, number])
        return vm if vm.price_per_hour == price else replace(vm, price_per_hour=price)

    def _costs(self, pool: str) -> float:
        vms = (self._vm(number) for number in np.flatnonzero(self._open()).tolist())
        return math.fsum(vm.price_per_hour for vm in vms if not pool or (vm.terms and vm.terms.pool == pool))
