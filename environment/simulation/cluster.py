"""The VMs of a simulated cluster as policies see them: existence, openness, free resources and prices.

The kernel counts the cpus and memory that they hold, the world the jobs there, the meter the charges.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from environment.kernel.leases import BOOT, CLOSES, KEEP, OPENED, OPENINGS, READY, TAKEN
from environment.kernel.state import Batch, SmallIntArray
from environment.model.vms.max_capacity import MaxCapacity
from environment.pools import Openings
from environment.resource_arrays import ResourceArrays
from environment.resources import BASIC, MEMORY, NOTHING, THOUSANDTHS, Resources
from environment.simulation.faults.spot_supply import SpotSupply
from environment.simulation.hour_limits import SimulatedHourLimits
from environment.simulation.options import SimulationOptions
from environment.simulation.period_limits import SimulatedPeriodLimits
from environment.simulation.results.billing import Meter
from environment.types import FloatArray, IntArray, Job, PlacementRequest, Vm
from environment.view import ClusterView, RunningJob


class SimulatedCluster:
    """The VMs of row 0 of a batch, numbered as in the kernel; a view numbers only the existing ones."""

    def __init__(
        self,
        batch: Batch,
        vms: Sequence[Vm],
        jobs: Sequence[Job],
        meter: Meter,
        options: SimulationOptions,
    ) -> None:
        """`vms` with the beliefs about them; `jobs` are all that may run there.

        Of the `options` it takes the availability of spot pools, which is played from a time that the seed
        draws, and the limits of what VMs cost. Call `reprice` before the first view.
        """
        self._batch, self._vms, self._meter = batch, vms, meter
        self.ids = [vm.id for vm in vms]
        self._index = {vm.id: number for number, vm in enumerate(vms)}
        #: Numbers in the kernel: the present VMs, and one behind them for lost resources, if any.
        self._there: IntArray = np.arange(len(vms))
        #: The rows of the kernel's that are shown: as a slice, which is quicker, as long as none is lost.
        self._shown: IntArray | slice = slice(len(vms))
        #: Maximum capacity of the VMs that are left; None as long as none is lost.
        self._reach: MaxCapacity | None = None
        #: Free resources beside cpus and memory, which the kernel does not know: thousandths, [N] by name.
        others = sorted({name for job in jobs for name in job.size.thousandths} - {*BASIC})
        self._others = {name: np.array([vm.resources.get(name) for vm in vms], np.int64) for name in others}
        self._empty = _empty(vms, others)
        #: Why nothing is placed on some VMs now, by id.
        self.left_out: dict[str, str] = {}
        #: Spot pools with a recorded availability; None without any.
        self.supply = (
            SpotSupply(options.availability, options.seed, batch, vms) if options.availability else None
        )
        #: Limits per hour of what open VMs cost.
        self.hours = SimulatedHourLimits(options.per_hour, batch, vms)
        #: Limits per day and month.
        self.periods = SimulatedPeriodLimits(options.per_day, options.per_month, batch, vms)
        #: When prices change next, seconds.
        self.price_changes = 0.0

    def __contains__(self, vm_id: str) -> bool:
        return vm_id in self._index

    @property
    def elastic(self) -> bool:
        """Whether some of its VMs come and go."""
        return self._batch.machines.leases.shape[1] > 0

    @property
    def special(self) -> bool:
        """Whether jobs ask for more than the kernel knows of, or VMs have parts of a MiB."""
        return bool(self._others) or any(vm.resources.get(MEMORY) % THOUSANDTHS for vm in self._vms)

    @property
    def extras(self) -> bool:
        """Whether VMs come and go and some have resources that only some jobs request."""
        return self.elastic and bool(self._empty.extras)

    def view(self, running: Collection[RunningJob]) -> ClusterView:
        """View of the cluster for policies, with these running jobs."""
        state, shown = self._batch.state, self._shown
        left_out = self.not_opened() | self.left_out
        return self._empty.changed(
            at=self._now,
            free=ResourceArrays.basic(
                state.free_milli_cpus[0, shown],
                state.free_memory_mib[0, shown],
                {name: free[shown].copy() for name, free in self._others.items()},
            ),
            executors=state.held[0, shown].copy(),
            running=tuple(running),
            left_out=left_out,
            openings=self._openings(),
            covered=self._covered(left_out),
        )

    def _covered(self, left_out: Mapping[str, str]) -> FloatArray | None:
        """Share of each VM shown that commitments cover."""
        covered = self._meter.covered
        return covered.shares([self._index[vm_id] for vm_id in left_out])[self._shown] if covered else None

    def not_opened(self) -> dict[str, str]:
        """Reasons why closed VMs are not opened now, and open ones of a spent limit not used, by id."""
        by_cost = self.hours.left_out() | self.periods.left_out()
        return by_cost | ({} if self.supply is None else self.supply.left_out())

    def opens(self, vms: Sequence[int]) -> bool:
        """Whether a job may be placed on these VMs, by number, where closed ones are opened for it."""
        return not self.hours.over(vms) and (self.supply is None or self.supply.open(vms))

    def closed(self, vms: SmallIntArray) -> tuple[str, ...]:
        """The closed ones of these VMs, by number: their ids."""
        if (openings := self._openings()) is None:
            return ()
        is_open = dict(zip(self._there.tolist(), openings.open.tolist(), strict=True))
        return tuple(self.ids[vm] for vm in dict.fromkeys(vms.tolist()) if not is_open[vm])

    def next_opening(self) -> float:
        """Time at which VMs that are not opened now may be; infinity when there are none."""
        retry = math.inf if self.supply is None else self.supply.next_retry()
        return min(retry, self.hours.next_change(), self.periods.next_change())

    def _openings(self) -> Openings | None:
        """Open VMs; None where all are, always."""
        if not self.elastic:
            return None
        lease = self._batch.machines.leases[0, self._there]
        is_open = (lease[:, CLOSES] >= self._now) & (lease[:, TAKEN] > self._now)
        return Openings(is_open, np.where(is_open, lease[:, READY], self._now + lease[:, BOOT]))

    @property
    def there(self) -> IntArray:
        """The kernel's numbers of the VMs that are not lost."""
        return self._there

    def numbers(self, placement: Sequence[int]) -> SmallIntArray:
        """The kernel's numbers of VMs by their numbers in the view."""
        return self._there[list(placement)].astype(np.int32)

    def take(self, vm_ids: Sequence[str], sizes: Sequence[Resources], times: int = 1) -> None:
        """Subtract executors' resources beside cpus and memory from their VMs; times -1 adds them back."""
        for name, free in self._others.items():
            taken = [times * size.get(name) for size in sizes]
            np.subtract.at(free, [self._index[vm_id] for vm_id in vm_ids], taken)

    @property
    def lossy(self) -> bool:
        """Whether a VM was lost, so that some requests may exceed the remaining VMs."""
        return self._reach is not None

    def beyond(self, request: PlacementRequest) -> str:
        """Reason why the remaining VMs would not suffice even when empty; empty text when they would."""
        if self._reach is None:
            return ""
        return self._reach.beyond_vms(request) if self._reach.vms else "no VM is left"

    def open_as(self, view: ClusterView) -> None:
        """VMs of pools that are open in a view of now are so at the beginning, or boot until they are."""
        if view.openings is None or not self.elastic:
            return
        lease = self._batch.machines.leases[0]
        for vm in np.flatnonzero(view.openings.open).tolist():
            if lease[vm, OPENINGS] or math.isinf(lease[vm, KEEP]):
                continue
            lease[vm, OPENED], lease[vm, OPENINGS] = 0.0, 1.0
            lease[vm, READY] = max(float(view.openings.ready_at[vm]) - view.at, 0.0)
            lease[vm, CLOSES] = lease[vm, READY] + lease[vm, KEEP]

    def lose(self, vm_id: str) -> int:
        """A VM is gone; its number."""
        gone = self._index[vm_id]
        self._meter.covered.lose(gone)
        self._there = self._shown = self._there[self._there != gone]
        there = tuple(self._vms[vm] for vm in self._there)
        self._empty, self._reach = _empty(there, self._others), MaxCapacity(there, known=True)
        self.reprice()
        return gone

    def reprice(self) -> None:
        """Apply the prices of now to VMs from now on."""
        self._meter.change(self._now)
        self.price_changes = self._meter.next_change(self._now)
        if changed := self._meter.prices(self._now):
            vms = list(self._vms)
            for number, price in changed.items():
                vms[number] = replace(vms[number], price_per_hour=price)
            self._empty = _empty(tuple(vms[vm] for vm in self._there), self._others)

    @property
    def _now(self) -> float:
        return float(self._batch.state.clock[0])


def _empty(vms: Sequence[Vm], others: Collection[str]) -> ClusterView:
    """These VMs with nothing free, from which all views are made."""
    view = ClusterView(
        0.0, tuple(vms), ResourceArrays.of((NOTHING,) * len(vms), others), np.zeros(len(vms), np.int64)
    )
    _ = view.capacity, view.index, view.list_prices_per_hour  # computed here once, and kept by all views
    return view
