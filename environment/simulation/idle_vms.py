"""Idle pool VMs in a simulation with an idle policy that uses a forecast or a plan beside the clock.

The kernel's lease has a closing time for an idle VM, from the policy's seconds alone; this module postpones
it. `environment.pools` defines the idle policies.
"""

from collections.abc import Sequence

import numpy as np

from environment.kernel.leases import CLOSES, TAKEN
from environment.kernel.state import Batch
from environment.pools import IdleTimeout
from environment.spot_forecast import Forecast
from environment.types import Vm


class IdleVms:
    """Watches which VMs of row 0 are held, and puts off when idle ones close."""

    def __init__(self, batch: Batch, vms: Sequence[Vm], keeping: IdleTimeout) -> None:
        self._batch = batch
        self._terms = [vm.terms for vm in vms]
        self._keeping = keeping
        self._forecast = Forecast()
        self._held = np.zeros(len(vms), np.bool_)
        elastic = any(terms is not None for terms in self._terms)
        #: Whether it makes a difference when it looks.
        self.watches = elastic and keeping.name == "forecast"
        self._plans = elastic and keeping.name == "planned"

    def look(self) -> None:
        """Something was placed, or has ended."""
        if not self.watches:
            return
        now, lease = float(self._batch.state.clock[0]), self._batch.machines.leases[0]
        held = self._batch.state.held[0, : len(self._held)] > 0
        changed, self._held = np.flatnonzero(held != self._held), held
        for vm in changed.tolist():
            terms = self._terms[vm]
            if terms is None or terms.always:
                continue
            if held[vm]:
                self._forecast.taken(terms.pool, now)
                continue
            # The first VMs are used first, by most policies.
            idle = sum(
                other is not None and other.pool == terms.pool and not held[at] and lease[at, CLOSES] >= now
                for at, other in enumerate(self._terms[: vm + 1])
            )
            needed = self._keeping.foresees(self._forecast, terms, now, idle)
            self._put_off(vm, now + self._keeping.seconds_for(terms, needed=needed))

    def plan(self, keeps: Sequence[tuple[int, float]]) -> None:
        """The policy would use these VMs, by number, until then; those that are closed stay so."""
        if self._plans:
            now = float(self._batch.state.clock[0])
            for vm, until in keeps:
                if self._batch.machines.leases[0, vm, CLOSES] >= now:
                    self._put_off(vm, until)

    def _put_off(self, vm: int, until: float) -> None:
        lease = self._batch.machines.leases[0]
        lease[vm, CLOSES] = max(lease[vm, CLOSES], min(until, lease[vm, TAKEN]))
