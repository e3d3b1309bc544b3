"""Losses in a simulation: VMs and executors that are lost, and spot VMs that their cloud interrupts.

The losses are given (`losses`); `missing_executors` places the executors again, at a cost. VMs may also close
because their executors are moved: `consolidation`.
"""

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from environment.kernel.leases import TAKEN
from environment.kernel.state import Batch
from environment.pools import Consolidation
from environment.simulation.cluster import SimulatedCluster
from environment.simulation.faults.consolidation import SimulatedConsolidation
from environment.simulation.faults.losses import Loss
from environment.simulation.faults.missing_executors import MissingExecutors
from environment.simulation.results.billing import Meter
from environment.types import Job, Vm
from environment.view import RunningJob


class ExecutorLosses:
    """Pending losses in one episode."""

    def __init__(
        self,
        losses: Iterable[Loss],
        batch: Batch,
        vms: tuple[Vm, ...],
        cluster: SimulatedCluster,
        meter: Meter,
        missing: MissingExecutors,
        truth: Mapping[str, Job],
        running: Mapping[int, RunningJob],
        hold: Callable[[int], None],
        consolidation: Consolidation,
    ) -> None:
        """Call `hold` with the number of each job that lost something."""
        self._losses = sorted(losses, key=lambda loss: loss.at)
        self._batch, self._vms, self._cluster, self._meter = batch, vms, cluster, meter
        self._missing, self._truth, self._running, self._hold = missing, truth, running, hold
        self._spot = any(vm.spot for vm in vms)
        #: Moves executors so that VMs close; None where nothing does.
        self._consolidating: SimulatedConsolidation | None = None
        if consolidation and cluster.elastic:
            self._consolidating = SimulatedConsolidation(
                consolidation, batch, vms, cluster, missing, running, hold
            )

    def next_at(self) -> float:
        """Time of the next loss, move, or interruption of an occupied VM; else infinity."""
        lost = self._losses[0].at if self._losses else math.inf
        if self._consolidating is not None:
            lost = min(lost, self._consolidating.next_at())
        if not self._spot:
            return lost
        if self._cluster.supply is not None:
            lost = min(lost, self._cluster.supply.next_fall())
        count = len(self._vms)
        taken = self._batch.machines.leases[0, :count, TAKEN]
        return float(np.min(taken, initial=lost, where=self._batch.state.held[0, :count] > 0))

    def lose_until(self, at: float) -> None:
        """Apply the losses due until then."""
        while self._losses and self._losses[0].at <= at:
            self._lose(self._losses.pop(0))

    def consolidate(self, until: float, *, waiting: bool) -> float:
        """Begin or make moves of executors if none of the jobs is `waiting`; `until`, or an earlier move."""
        if self._consolidating is None:
            return until
        self._consolidating.look(waiting=waiting)
        return min(until, self._consolidating.next_at())

    def move_until(self, at: float) -> None:
        """Move executors to the replacements of their VMs that are up by then."""
        if self._consolidating is not None:
            self._consolidating.finish(at)

    def take_away_until(self, at: float) -> None:
        """Interrupt the occupied spot VMs that are due by then."""
        if not self._spot:
            return
        if self._cluster.supply is not None:
            self._cluster.supply.fall()
        count = len(self._vms)
        due = self._batch.machines.leases[0, :count, TAKEN] <= at
        for vm in np.flatnonzero(due & (self._batch.state.held[0, :count] > 0)).tolist():
            self._take_away(vm)

    def _lose(self, loss: Loss) -> None:
        """The VM, or the executor, is gone."""
        if loss.vm in self._cluster:
            gone = self._cluster.lose(loss.vm)
            for number, executors in self._missing.by_vm().get(gone, ()):
                self._missing.lose(number, executors)
                self._hold(number)
        for number, running in list(self._running.items()):
            if running.job.id == loss.job and loss.executor < len(self._missing.present(number)):
                self._missing.lose(number, [self._missing.present(number)[loss.executor]])
                self._hold(number)

    def _take_away(self, vm: int) -> None:
        """Interrupt the spot VM: drain its executors if the notice allows it."""
        terms = self._vms[vm].terms
        notice = terms.spot.notice if terms and terms.spot else 0.0
        self._missing.interruptions.vms += 1
        for number, executors in self._missing.by_vm().get(vm, ()):
            share = self._truth[self._running[number].job.id].rework.after(notice)
            self._missing.interrupt(number, executors, notice, share)
            self._hold(number)
        self._meter.drain(vm)
