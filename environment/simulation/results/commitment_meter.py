"""Time of VMs that commitments cover in a simulation, as `environment.model.messages.vm_accounts` charges it.

The kernel has no event for a VM that closes: times of closing are known after each step of the simulation.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from conf.units import SECONDS_PER_HOUR
from environment.clusters.commitments import Commitment
from environment.clusters.covered_prices import CoveredShares, cover_of
from environment.kernel.leases import CLOSES, OPENED, TAKEN
from environment.kernel.state import Batch
from environment.simulation.results.results import CommitmentUse
from environment.types import FloatArray, Vm


class CommitmentMeter:
    """Covered VMs of row 0 of a batch, and how much of each commitment they use."""

    def __init__(self, commitments: Sequence[Commitment], batch: Batch, vms: Sequence[Vm]) -> None:
        self._commitments, self._batch, self._vms = commitments, batch, tuple(vms)
        self._shares = CoveredShares()
        self._matters = bool(cover_of(self._vms, range(len(vms)), commitments))
        #: Until when time is counted: in the end, until the last VM closes.
        self._until = 0.0
        #: When VMs were lost; infinity for others.
        self._lost = np.full(len(vms), math.inf)
        #: Dollars at the VMs' own prices, and hours, by commitment.
        self._used: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def __bool__(self) -> bool:
        """Whether there are VMs that any of them may cover."""
        return self._matters

    def shares(self, left_out: Sequence[int] = ()) -> FloatArray:
        """Share of each VM that is covered now, or would be; float64 [N].

        Of closed ones those `left_out`, by number, come last.
        """
        opened, ends = self._lease()
        closed = (ends < self._now) | (self._lost <= self._now)
        opened[closed] = math.inf
        opened[[vm for vm in left_out if closed[vm]]] = math.nan
        return self._shares.of(self._vms, opened, self._commitments)

    def lose(self, vm: int) -> None:
        """A VM is gone, by number."""
        self._lost[vm] = self._now

    def count(self, until: float = math.inf) -> None:
        """Count the time from the last call until then, in which no VM was opened twice.

        Without `until`, idle VMs are counted until they close, as after the last job's end.
        """
        if not self:
            return
        opened, ends = self._lease()
        ends = np.minimum(np.where(np.isinf(ends), self._now, ends), until)
        changes = {*opened.tolist(), *ends.tolist(), self._until}
        for begin, end in pairwise(sorted(at for at in changes if at >= self._until)):
            is_open = (opened <= begin) & (ends > begin)
            by_age = [vm for vm in np.argsort(opened, kind="stable").tolist() if is_open[vm]]
            self._add(by_age, (end - begin) / SECONDS_PER_HOUR)
        self._until = max(self._now, float(ends.max(initial=0.0)))

    def uses(self) -> tuple[CommitmentUse, ...]:
        """Dollars paid anyway until all VMs are closed, and the part that VMs used, by commitment."""
        hours, found = max(self._now, self._until) / SECONDS_PER_HOUR, []
        for each in self._commitments:
            covered, of = self._used[each.name]
            found.append(CommitmentUse(each.name, each.per_hour * hours, each.used(covered, of), covered))
        return tuple(found)

    def _add(self, by_age: Sequence[int], hours: float) -> None:
        prices = self._batch.machines.price_per_hour[0]
        for vm, parts in cover_of(self._vms, by_age, self._commitments).items():
            for name, share in parts:
                self._used[name][0] += share * hours * float(prices[vm])
                self._used[name][1] += share * hours

    def _lease(self) -> tuple[FloatArray, FloatArray]:
        """When each VM was opened last, and when it closes or closed; infinity while it is used; [N]."""
        count = len(self._vms)
        if not self._batch.machines.leases.shape[1]:
            return np.zeros(count), self._lost.copy()
        lease = self._batch.machines.leases[0, :count]
        return lease[:, OPENED].copy(), np.minimum(np.minimum(lease[:, CLOSES], lease[:, TAKEN]), self._lost)

    @property
    def _now(self) -> float:
        return float(self._batch.state.clock[0])
