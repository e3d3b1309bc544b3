"""Spot pools with a recorded availability: VMs that are interrupted together, and VMs that cannot be opened.

A pool has at most as many open VMs as its record has at that time. When that number falls, those opened last
are interrupted at once. A policy learns it only as from a provider: by a VM that is refused. Then its pool is
left out for a while, by the rules of the daemon (`OpenBackoff`).
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from environment.clusters.spot_availability import SpotTrace
from environment.kernel.leases import CLOSES, OPENED, RATE, TAKEN
from environment.kernel.rules import leave_vm, take_vm
from environment.kernel.state import Batch
from environment.model.messages.lease import Lease
from environment.model.vms.open_backoff import OpenBackoff
from environment.types import Vm

_REFUSED = "no spot VM of the pool is available"


class SpotSupply:
    """Pools of row 0 of a batch; VMs by their numbers in the kernel."""

    def __init__(self, traces: Mapping[str, SpotTrace], seed: int, batch: Batch, vms: Sequence[Vm]) -> None:
        """`traces` by pool, begun by the seed. They replace the rate of interruptions."""
        self._batch, self._vms = batch, vms
        self._pools: dict[str, list[int]] = {}
        for number, vm in enumerate(vms):
            if vm.spot and vm.terms is not None and vm.terms.pool in traces:
                self._pools.setdefault(vm.terms.pool, []).append(number)
                batch.machines.leases[0, number, RATE] = 0.0
        self._traces = {pool: traces[pool].begun(seed) for pool in self._pools}
        self._backoff = OpenBackoff(self, self)
        #: Number of VMs that could not be opened.
        self.refused = 0

    @property
    def now(self) -> float:
        """The clock, seconds."""
        return float(self._batch.state.clock[0])

    def pools(self) -> set[str]:
        """The names of the pools."""
        return set(self._pools)

    def leave_pool_out(self, pool: str, why: str) -> None:
        """Do nothing: each view asks again (`left_out`)."""

    def left_out(self) -> dict[str, str]:
        """Reasons why closed VMs cannot be opened now, by id."""
        reasons = ((of, self._backoff.why_not(pool)) for pool, of in self._pools.items())
        return {self._vms[vm].id: why for of, why in reasons if why for vm in self._closed(of)}

    def next_retry(self) -> float:
        """Time at which a pool that refused, and has VMs at some time, may be tried again; else infinity."""
        pools = (pool for pool in self._backoff.state() if not self._traces[pool.pool].is_empty)
        return min((pool.until for pool in pools if pool.until > self.now), default=math.inf)

    def next_fall(self) -> float:
        """Time at which the next pool with open VMs may have fewer; else infinity."""
        falls = (
            self._traces[pool].next_fall(self.now) for pool, of in self._pools.items() if self._open(of).any()
        )
        return min(falls, default=math.inf)

    def fall(self) -> None:
        """Interrupt the VMs opened last of pools that have fewer now: held ones are due from now on."""
        lease = self._batch.machines.leases[0]
        for pool, of in self._pools.items():
            is_open = np.array(of)[self._open(of)].tolist()
            over = len(is_open) - self._traces[pool].at(self.now)
            last = sorted(is_open, key=lambda vm: (-lease[vm, OPENED], -vm))
            for vm in last[: max(over, 0)]:
                lease[vm, TAKEN] = self.now
                if not self._batch.state.held[0, vm]:
                    lease[vm, CLOSES] = self.now

    def open(self, vms: Sequence[int]) -> bool:
        """Open the closed VMs among these, and return whether all are open.

        Otherwise their job is not launched, those that could be opened are idle, and pools are left out.
        """
        closed = self._closed(dict.fromkeys(vms))
        refused = dict[int, str]()
        for pool, of in self._pools.items():
            wanted = [vm for vm in closed if vm in of]
            room = max(self._traces[pool].at(self.now) - int(np.count_nonzero(self._open(of))), 0)
            refused |= dict.fromkeys(wanted[room:], pool)
        for vm in closed:
            if vm in refused:
                self._backoff.refused(self._lease(vm, self.now), _REFUSED)
            else:
                take_vm(self._batch, 0, vm)
                if self._batch.machines.leases[0, vm, RATE] == 0.0:
                    self._batch.machines.leases[0, vm, TAKEN] = math.inf
                leave_vm(self._batch, 0, vm, self.now)
        self.refused += len(refused)
        if not refused:
            for vm in vms:
                self._backoff.used(self._lease(vm, float(self._batch.machines.leases[0, vm, OPENED])))
        return not refused

    def _lease(self, vm: int, asked_at: float) -> Lease:
        return Lease(self._vms[vm].id, self._vms[vm], asked_at)

    def _open(self, vms: Sequence[int]) -> NDArray[np.bool_]:
        """VMs among these that are open; bool, of the same length."""
        lease = self._batch.machines.leases[0, list(vms)]
        return np.asarray((lease[:, CLOSES] >= self.now) & (lease[:, TAKEN] > self.now))

    def _closed(self, vms: Sequence[int] | Mapping[int, None]) -> list[int]:
        return [vm for vm, is_open in zip(vms, self._open([*vms]), strict=True) if not is_open]
