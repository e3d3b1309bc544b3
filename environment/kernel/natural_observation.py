"""The observation in natural units: of the queue, of the running jobs and of the cluster itself.

Times are in units of the head's own duration and of the usual one, prices and sizes in units of the cluster's
mean core and VM. So when all times are scaled by a power of two, or all prices, or all sizes, every number
stays the same to the bit, and with it every decision. A number x without bound is shown as x / (1 + x).
"""

import numpy as np

from environment.kernel.compiled import njit
from environment.kernel.scene import Scene, room_on, share_of
from environment.kernel.state import CONSOLIDATE, SPREAD, Float32Array

#: Columns of the VMs, and numbers behind them.
NATURAL_VM_FEATURES, NATURAL_FEATURES = 23, 28

#: The share of a VM that other jobs are believed to use, of the rest that a job leaves on a VM held longer
#: for it; and the worth of room on a VM that is held anyway, as a share of its price: the values of
#: `agents.greedy`.
_SHARED, _ROOM = 0.9, 0.9
#: Numbers of executors and of waiting jobs that map to one half, as numbers without bound map to 0..1.
_EXECUTORS, _JOBS = 4.0, 8.0


@njit(inline=True)
def write_natural(scene: Scene, beta: float, out: Float32Array) -> None:
    """The whole known state, in natural units; float32 [23 N + 28].

    For each VM: the share of the head's executors that it takes, whether it takes any, free cpus and memory,
    the same when it has taken them, the price of a core, its size, the largest part of it that an executor
    is, whether it is held, and for how long (in three scales), the amount that executors there would add to
    the bill, alone and where others use the rest, how many of the head's it has, whether the head can be
    placed as it prefers with one there, how long it boots, whether it is closed, and the least addition
    anywhere in parts of the addition there (two numbers); and the addition of a single executor there, in
    both ways.

    Then of the head: its preference (two numbers), executors left and in all, its duration, how long it
    waits (in two scales); jobs waiting (in three scales) and their work, jobs running per VM, free cpus and
    memory of the cluster, how long until a job ends (in two scales), the head's part of the free resources,
    VMs held, whether it could be placed on one VM and on as many as it has executors, the least that an
    executor adds to the bill (two numbers), beta, the head's part of the cluster, and how much memory it
    asks for; its duration as a part of the longest of those that wait, for how long the VM that is held
    longest is held, and the longest duration of those that wait. Without a head all about it is 0.
    """
    vms, there, held = len(scene.held), 0, 0
    cpus, memory, price, free_cpus, free_memory = 0.0, 0.0, 0.0, 0.0, 0.0
    for vm in range(vms):
        if scene.milli_cpus[vm] > 0:
            there += 1
            held += scene.held[vm] > 0
            cpus += scene.milli_cpus[vm]
            memory += scene.memory_mib[vm]
            price += scene.price_per_hour[vm]
            free_cpus += scene.free_milli_cpus[vm]
            free_memory += scene.free_memory_mib[vm]
    per_core = price / cpus if price > 0.0 else 1.0
    usual = scene.usual_seconds if scene.usual_seconds > 0.0 else 1.0
    mine = scene.seconds if scene.seconds > 0.0 else usual
    on_one, rooms, least, least_shared, least_one = False, 0, np.inf, np.inf, np.inf
    longest_hold = 0.0
    for i in range(NATURAL_VM_FEATURES * vms):
        out[i] = 0.0
    for i in range(len(scene.placed)):
        out[NATURAL_VM_FEATURES * scene.placed[i] + 14] += 1.0 / scene.executors
    for vm in range(vms):
        at = NATURAL_VM_FEATURES * vm
        if scene.milli_cpus[vm] == 0:
            continue
        room = room_on(scene, vm)
        takes = min(room, scene.left)
        on_one = on_one or (room >= scene.left > 0)
        rooms += room > 0
        hold = max(scene.busy_until[vm] - scene.clock, 0.0) if scene.held[vm] > 0 else 0.0
        longest_hold = max(longest_hold, hold)
        boot = max(scene.ready_at[vm] - scene.clock, 0.0) if len(scene.ready_at) > 0 else 0.0
        closed = len(scene.is_open) > 0 and scene.is_open[vm] == 0
        has_cpus, has_memory = float(scene.milli_cpus[vm]), float(max(scene.memory_mib[vm], 1))
        part_cpus, part_memory = scene.job_milli_cpus / has_cpus, scene.job_memory_mib / has_memory
        out[at] = takes / scene.left if scene.left > 0 else 0.0
        out[at + 1] = 1.0 if room > 0 else 0.0
        out[at + 2] = scene.free_milli_cpus[vm] / has_cpus
        out[at + 3] = scene.free_memory_mib[vm] / has_memory
        out[at + 4] = (scene.free_milli_cpus[vm] - takes * scene.job_milli_cpus) / has_cpus
        out[at + 5] = (scene.free_memory_mib[vm] - takes * scene.job_memory_mib) / has_memory
        dearness = scene.price_per_hour[vm] / has_cpus / per_core if price > 0.0 else 1.0
        out[at + 6] = share_of(dearness, 1.0)
        out[at + 7] = share_of(has_cpus * there / cpus, 1.0)
        out[at + 8] = min(max(part_cpus, part_memory), 1.0)
        out[at + 9] = 1.0 if scene.held[vm] > 0 else 0.0
        out[at + 10] = share_of(hold / mine, 1.0)
        out[at + 11] = min(hold / mine, 1.0)
        out[at + 12] = share_of(hold / usual, 1.0)
        added, shared, one = np.inf, np.inf, np.inf
        if takes > 0:
            # In units of the average cost of as many cores for as long as the head takes.
            worth = dearness / (takes * part_cpus)
            longer, covered = max(boot + mine - hold, 0.0) / mine, min(hold, boot + mine) / mine
            used = min(takes * max(part_cpus, part_memory), 1.0)
            added = longer * worth
            shared = (covered * used * _ROOM + longer * (1.0 - _SHARED * (1.0 - used))) * worth
            one = longer * dearness / part_cpus
            least, least_shared, least_one = min(least, added), min(least_shared, shared), min(least_one, one)
        out[at + 13], out[at + 15], out[at + 21] = added, shared, one
        alone = out[at + 14] == 0.0
        if scene.executors == 1 or (scene.prefers != SPREAD and scene.prefers != CONSOLIDATE):
            well = True
        elif scene.prefers == SPREAD:
            well = alone
        else:
            well = room >= scene.left and (len(scene.placed) == 0 or not alone)
        out[at + 16] = 1.0 if well else 0.0
        out[at + 17] = share_of(boot / mine, 1.0)
        out[at + 18] = 1.0 if closed else 0.0
    for vm in range(vms):
        at = NATURAL_VM_FEATURES * vm
        if scene.milli_cpus[vm] > 0:
            out[at + 19], out[at + 13] = _ratio(least, out[at + 13]), _bounded(out[at + 13])
            out[at + 20], out[at + 15] = _ratio(least_shared, out[at + 15]), _bounded(out[at + 15])
            out[at + 22], out[at + 21] = _ratio(least_one, out[at + 21]), _bounded(out[at + 21])
    known = scene.left > 0
    at = NATURAL_VM_FEATURES * vms
    for i in range(at, at + NATURAL_FEATURES):
        out[i] = 0.0
    whole = float(scene.executors) * scene.job_milli_cpus
    if known:
        out[at] = 1.0 if scene.prefers == SPREAD and scene.executors > 1 else 0.0
        out[at + 1] = 1.0 if scene.prefers == CONSOLIDATE and scene.executors > 1 else 0.0
        out[at + 2] = scene.left / scene.executors
        out[at + 3] = share_of(float(scene.executors), _EXECUTORS)
        out[at + 4] = share_of(mine / usual, 1.0)
        out[at + 5] = share_of((scene.clock - scene.arrival) / mine, 1.0)
        out[at + 6] = share_of((scene.clock - scene.arrival) / usual, 1.0)
        out[at + 16] = min(scene.left * scene.job_milli_cpus / free_cpus, 1.0) if free_cpus > 0.0 else 1.0
        out[at + 18] = 1.0 if on_one else 0.0
        out[at + 19] = min(rooms / scene.left, 1.0) if scene.left > 0 else 0.0
        out[at + 20] = _bounded(least)
        out[at + 21] = _bounded(least_shared)
        out[at + 23] = share_of(4.0 * whole / cpus, 1.0) if cpus > 0.0 else 0.0
        shape = scene.job_memory_mib / float(scene.job_milli_cpus) * (cpus / max(memory, 1.0))
        out[at + 24] = share_of(shape, 1.0)
        out[at + 25] = min(mine / scene.longest_seconds, 1.0) if scene.longest_seconds > 0.0 else 1.0
        out[at + 26] = share_of(longest_hold / mine, 1.0)
    out[at + 27] = share_of(scene.longest_seconds / usual, 1.0)
    out[at + 7] = share_of(float(scene.waiting), 1.0)
    out[at + 8] = share_of(float(scene.waiting), _JOBS)
    out[at + 9] = share_of(float(scene.waiting), float(there))
    out[at + 10] = share_of(scene.waiting_work / usual / cpus, 1.0) if cpus > 0.0 else 0.0
    out[at + 11] = share_of(float(scene.running), float(there))
    out[at + 12] = free_cpus / cpus if cpus > 0.0 else 0.0
    out[at + 13] = free_memory / memory if memory > 0.0 else 0.0
    out[at + 14] = share_of((scene.next_end - scene.clock) / mine, 1.0)
    out[at + 15] = share_of((scene.next_end - scene.clock) / usual, 1.0)
    out[at + 17] = held / there if there > 0 else 0.0
    out[at + 22] = beta


@njit(inline=True)
def _bounded(value: float) -> float:
    """Map an unbounded number to 0 to 1; infinity becomes 1."""
    return 1.0 if value == np.inf else share_of(value, 1.0)


@njit(inline=True)
def _ratio(least: float, value: float) -> float:
    """The least in parts of the value; 1 where it is the least, even 0, and 0 where there is none."""
    if value == np.inf:
        return 0.0
    return min(least / value, 1.0) if value > 0.0 else 1.0
