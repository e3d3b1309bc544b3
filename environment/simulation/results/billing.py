"""Charges for the VMs of a simulated cluster: each moment by its VM state and its price."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from conf.units import SECONDS_PER_HOUR
from environment.clusters.commitments import Commitment
from environment.clusters.price_history import PriceHistory
from environment.kernel import leases
from environment.kernel.state import Batch
from environment.simulation.results.commitment_meter import CommitmentMeter
from environment.simulation.results.results import SimulatedBill
from environment.types import FloatArray, IntArray, Vm


class Meter:
    """Prices over time, and payments at past prices; the kernel counts seconds."""

    def __init__(
        self,
        batch: Batch,
        vms: Sequence[Vm],
        histories: Mapping[str, PriceHistory],
        commitments: Sequence[Commitment] = (),
    ) -> None:
        self._batch, self._count = batch, len(vms)
        self.covered = CommitmentMeter(commitments, batch, vms)
        of = (histories.get(vm.terms.pool) if vm.spot and vm.terms else None for vm in vms)
        #: By number of the VM: its price over time, where that changes.
        self._histories = {number: history for number, history in enumerate(of) if history is not None}
        self._settled = np.zeros((6, self._count))
        self._paid = np.zeros(6)
        #: Which VMs were drained, from when until when.
        self._drained: list[tuple[int, float, float]] = []

    def next_change(self, now: float) -> float:
        """Time of the next price change; infinity when none follows."""
        each = {history.next_after(now) for history in {*self._histories.values()}}
        return min(each, default=math.inf)

    def prices(self, now: float) -> dict[int, float]:
        """Present prices of VMs with changing prices, by their numbers."""
        return {number: history.at(now) for number, history in self._histories.items()}

    def change(self, now: float) -> None:
        """Apply the present prices from now on; earlier time is settled at the earlier prices."""
        self._settle(now)
        for number, price in self.prices(now).items():
            self._batch.machines.price_per_hour[0, number] = price

    def drain(self, vm: int) -> None:
        """Drain a VM, by number: its lease ends when its executors are elsewhere."""
        lease = self._batch.machines.leases[0, vm]
        lease[leases.CLOSES] = lease[leases.TAKEN] + lease[leases.DRAIN]
        # One that is drained while it boots costs its boot until it is up.
        self._drained.append((vm, max(lease[leases.TAKEN], lease[leases.READY]), lease[leases.CLOSES]))

    def bill(self) -> tuple[float, SimulatedBill]:
        """Total cost at the end, dollars: by equation 4, and the cloud's bill."""
        self._settle(math.inf)
        held, used, booting, idle, draining, rounding = self._paid.tolist()
        openings = 0
        if self._batch.machines.leases.shape[1]:
            openings = int(self._batch.machines.leases[0, : self._count, leases.OPENINGS].sum())
        return held, SimulatedBill(used, booting, idle, draining, rounding, openings, self.covered.uses())

    def price_seconds(self, vm: IntArray, at: FloatArray) -> FloatArray:
        """Cost of VMs until these times, in seconds at the kernel's price of each; shaped like both."""
        found = at.copy()
        for number, history in self._histories.items():
            price = self._batch.machines.price_per_hour[0, number]
            if price > 0:
                of = vm == number
                found[of] = history.dollars(at[of]) * SECONDS_PER_HOUR / price
        return found

    def _settle(self, latest: float) -> None:
        seconds = self._seconds(latest)
        price = self._batch.machines.price_per_hour[0, : self._count] / SECONDS_PER_HOUR
        self._paid += (seconds - self._settled) @ price
        self._settled = seconds

    def _seconds(self, latest: float) -> FloatArray:
        """Held seconds, and their parts: used, booting, idle, draining, rounding; [6, N]."""
        batch, count = self._batch, self._count
        state, clock = batch.state, float(batch.state.clock[0])
        now = np.where(state.held[0, :count] > 0, clock - state.since[0, :count], 0.0)
        held = state.used[0, :count] + now
        if not batch.machines.leases.shape[1]:
            none = np.zeros(count)
            return np.stack((held, held, none, clock - held, none, none))
        each = np.array([leases.seconds_of(batch, 0, vm, latest) for vm in range(count)]).reshape(count, 3)
        stood, booted, charged = each.T
        drained = np.zeros(count)
        for vm, begin, end in self._drained:
            drained[vm] += max(min(end, latest) - begin, 0.0)
        # A VM goes on to boot when its executors have left it, or were lost.
        used = np.maximum(held - booted, 0.0)
        idle = stood - used - booted - drained
        return np.stack((held, used, booted, idle, drained, charged - stood))
