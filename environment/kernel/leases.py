"""VMs of pools in the kernel: opened when they are placed on, closed when they have been idle for long.

What the terms and the states of a VM are is in `environment.pools`; here they are columns of arrays, so that
a batch of fixed clusters carries one empty array and nothing more. Nobody closes a VM: one that is idle
is open until the time at which it closes, which was known when its last executor left it.
"""

import math

from environment.kernel.compiled import njit
from environment.kernel.state import LEASE_COLUMNS as COLUMNS
from environment.kernel.state import Batch

#: Columns of `Machines.leases`, seconds. The terms: to boot, how long an idle VM is kept, the least and the
#: unit that is charged; and 1 if it is kept besides for as long as is charged anyway. One that is kept for
#: ever was there from the beginning, and is there at the end.
BOOT, KEEP, MINIMUM, GRANULARITY, AS_CHARGED = range(5)
#: What changes: when it was opened last, when it was or is up, when it closes or closed, for how long it was
#: open before, what of that was charged, and how often it was opened (a number).
OPENED, READY, CLOSES, STOOD, CHARGED, OPENINGS = range(5, COLUMNS)

_SECONDS_PER_HOUR = 3600.0
#: Part of a unit that is not charged as a whole one more: what rounding adds.
_DUST = 1e-9


@njit()
def reset_leases(batch: Batch, b: int) -> None:
    """Nothing of any pool is open; what is kept for ever is."""
    leases = batch.machines.leases
    for vm in range(leases.shape[1]):
        leases[b, vm, OPENED:] = 0.0
        leases[b, vm, CLOSES] = math.inf if math.isinf(leases[b, vm, KEEP]) else -1.0


@njit()
def open_lease(batch: Batch, b: int, vm: int) -> None:
    """An idle VM is about to be used: it boots first if it is closed."""
    leases, clock = batch.machines.leases, batch.state.clock[b]
    if clock > leases[b, vm, CLOSES]:
        leases[b, vm, STOOD] = stood(batch, b, vm)
        leases[b, vm, CHARGED] = charged(batch, b, vm)
        leases[b, vm, OPENED] = clock
        leases[b, vm, READY] = clock + leases[b, vm, BOOT]
        leases[b, vm, OPENINGS] += 1.0
    leases[b, vm, CLOSES] = math.inf


@njit()
def leave_idle(batch: Batch, b: int, vm: int, at: float) -> None:
    """Its last executor has left the VM."""
    leases = batch.machines.leases
    closes = at + leases[b, vm, KEEP]
    if leases[b, vm, AS_CHARGED] > 0.0 and not math.isinf(closes):
        closes = max(closes, leases[b, vm, OPENED] + _charge(batch, b, vm, closes))
    leases[b, vm, CLOSES] = closes


@njit()
def ready_at(batch: Batch, b: int, job: int) -> float:
    """When all VMs are up on which the executors of a wholly placed job are; the clock if they are now."""
    state, jobs = batch.state, batch.jobs
    ready = float(state.clock[b])
    for at in range(jobs.first[b, job], jobs.first[b, job] + jobs.executors[b, job]):
        ready = max(ready, batch.machines.leases[b, state.placement[b, at], READY])
    return ready


@njit()
def charged(batch: Batch, b: int, vm: int) -> float:
    """Seconds that are charged for the VM: of an idle one until it closes, of one that is used until now."""
    return float(batch.machines.leases[b, vm, CHARGED] + _charge(batch, b, vm, _until(batch, b, vm)))


@njit()
def stood(batch: Batch, b: int, vm: int) -> float:
    """Seconds for which the VM was open, until then."""
    leases = batch.machines.leases
    return float(leases[b, vm, STOOD] + max(_until(batch, b, vm) - leases[b, vm, OPENED], 0.0))


@njit()
def _until(batch: Batch, b: int, vm: int) -> float:
    closes = batch.machines.leases[b, vm, CLOSES]
    return float(batch.state.clock[b] if math.isinf(closes) else closes)


@njit()
def bill(batch: Batch, b: int) -> float:
    """Dollars for all VMs from opened to closed; of a fixed cluster, from 0 to the clock."""
    machines, total = batch.machines, 0.0
    elastic = machines.leases.shape[1] > 0
    for vm in range(machines.milli_cpus.shape[1]):
        seconds = charged(batch, b, vm) if elastic else batch.state.clock[b]
        total += machines.price_per_hour[b, vm] * seconds
    return total / _SECONDS_PER_HOUR


@njit()
def _charge(batch: Batch, b: int, vm: int, until: float) -> float:
    """Seconds that are charged for the last lease, if it ends then."""
    leases = batch.machines.leases
    seconds = until - batch.machines.leases[b, vm, OPENED]
    if seconds < 0.0:
        return 0.0
    unit = leases[b, vm, GRANULARITY]
    if unit > 0.0:
        seconds = math.ceil(seconds / unit - _DUST) * unit
    return float(max(seconds, leases[b, vm, MINIMUM]))
