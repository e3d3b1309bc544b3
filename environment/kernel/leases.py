"""VMs of pools in the kernel: opened when they are placed on, closed when they have been idle for long.

`environment.pools` defines the terms and the states of a VM; here they are columns of arrays, so that a
batch of fixed clusters carries one empty array and nothing more. No event closes a VM: one that is idle is
open until the time at which it closes, which was known when its last executor left it.
"""

import math

from conf.units import SECONDS_PER_HOUR
from environment.kernel.compiled import njit
from environment.kernel.hash_random import uniform
from environment.kernel.state import LEASE_COLUMNS as COLUMNS
from environment.kernel.state import Batch
from environment.types import FloatArray

#: Columns of `MachineArrays.leases`, seconds. The terms: to boot, how long an idle VM is kept, the least and
#: the unit that is charged; and 1 if it is kept besides for as long as is charged anyway. A VM that is kept
#: for ever exists from the beginning to the end. How often a second a spot VM is taken away, the number of
#: the stream that draws it, the share of the executors' work there that is done again then, and for how long
#: it is drained, which is charged.
BOOT, KEEP, MINIMUM, GRANULARITY, AS_CHARGED, RATE, STREAM, REWORK, DRAIN = range(9)
#: The changing columns: when it was opened last, when it was or is up, when it closes or closed, when its
#: cloud takes it away; and before that: for how long it was open, for how long it booted, the charged
#: seconds, and how often it was opened (a number).
OPENED, READY, CLOSES, TAKEN, STOOD, BOOTED, CHARGED, OPENINGS = range(9, COLUMNS)

#: Part of a unit that is not charged as one whole unit more: the rounding error.
_DUST = 1e-9


@njit()
def reset_leases(batch: Batch, b: int) -> None:
    """Close all VMs of pools, except those that stay open for ever."""
    leases = batch.machines.leases
    batch.state.taken[b] = math.inf
    for vm in range(leases.shape[1]):
        leases[b, vm, OPENED:] = 0.0
        leases[b, vm, CLOSES] = math.inf if math.isinf(leases[b, vm, KEEP]) else -1.0
        leases[b, vm, TAKEN] = math.inf


@njit()
def open_lease(batch: Batch, b: int, vm: int) -> None:
    """An idle VM is about to be used: it boots first if it is closed."""
    leases, clock = batch.machines.leases, batch.state.clock[b]
    if clock > leases[b, vm, CLOSES] or clock >= leases[b, vm, TAKEN]:
        begin_lease(batch, b, vm)
    leases[b, vm, CLOSES] = math.inf


@njit()
def begin_lease(batch: Batch, b: int, vm: int) -> None:
    """The last lease of the VM is over, and another one begins now."""
    leases, clock = batch.machines.leases, batch.state.clock[b]
    stood, booted, charged = seconds_of(batch, b, vm, math.inf)
    leases[b, vm, STOOD], leases[b, vm, BOOTED], leases[b, vm, CHARGED] = stood, booted, charged
    leases[b, vm, OPENED] = clock
    leases[b, vm, READY] = clock + leases[b, vm, BOOT]
    leases[b, vm, OPENINGS] += 1.0
    rate = leases[b, vm, RATE]
    if rate > 0.0:
        # By the lease's own number, so that nothing else that is decided changes when it is taken.
        chance = uniform(int(leases[b, vm, STREAM]), int(leases[b, vm, OPENINGS]))
        leases[b, vm, TAKEN] = clock - math.log(1.0 - chance) / rate
        batch.state.taken[b] = min(batch.state.taken[b], leases[b, vm, TAKEN])


@njit(entry=True)
def leave_idle(batch: Batch, b: int, vm: int, at: float) -> None:
    """Its last executor has left the VM."""
    leases = batch.machines.leases
    closes = at + leases[b, vm, KEEP]
    if leases[b, vm, AS_CHARGED] > 0.0 and not math.isinf(closes):
        closes = max(closes, leases[b, vm, OPENED] + _charge(batch, b, vm, closes))
    leases[b, vm, CLOSES] = min(closes, leases[b, vm, TAKEN])


@njit()
def ready_at(batch: Batch, b: int, job: int) -> float:
    """Time at which all VMs of a wholly placed job's executors are up; the clock if they are now."""
    state, jobs = batch.state, batch.jobs
    ready = float(state.clock[b])
    for at in range(jobs.first[b, job], jobs.first[b, job] + jobs.executors[b, job]):
        ready = max(ready, batch.machines.leases[b, state.placement[b, at], READY])
    return ready


@njit(entry=True)
def seconds_of(batch: Batch, b: int, vm: int, latest: float) -> tuple[float, float, float]:
    """Seconds for which the VM was open, booted, and is charged, up to `latest`.

    An idle one counts until it closes, one that is used until now.
    """
    leases = batch.machines.leases
    closes = leases[b, vm, CLOSES]
    until = min(batch.state.clock[b] if math.isinf(closes) else closes, latest)
    stood = max(until - leases[b, vm, OPENED], 0.0)
    booted = max(min(until, leases[b, vm, READY]) - leases[b, vm, OPENED], 0.0)
    return (
        leases[b, vm, STOOD] + stood,
        leases[b, vm, BOOTED] + booted,
        leases[b, vm, CHARGED] + _charge(batch, b, vm, until),
    )


@njit(entry=True)
def count_charged(batch: Batch, b: int, seconds: FloatArray) -> None:
    """Set the seconds for which each of the first VMs is charged until now; float64 [number of VMs].

    What is rounded up is charged when a VM has closed.
    """
    leases, clock = batch.machines.leases, batch.state.clock[b]
    for vm in range(len(seconds)):
        stood, _, charged = seconds_of(batch, b, vm, clock)
        so_far = leases[b, vm, CHARGED] + stood - leases[b, vm, STOOD]
        seconds[vm] = charged if leases[b, vm, CLOSES] < clock else so_far


@njit(entry=True)
def bill(batch: Batch, b: int) -> float:
    """Dollars for all VMs from opened to closed; of a fixed cluster, from 0 to the clock."""
    machines, total = batch.machines, 0.0
    elastic = machines.leases.shape[1] > 0
    for vm in range(machines.milli_cpus.shape[1]):
        seconds = seconds_of(batch, b, vm, math.inf)[2] if elastic else batch.state.clock[b]
        total += machines.price_per_hour[b, vm] * seconds
    return total / SECONDS_PER_HOUR


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
