"""The forms that a placement may have, compiled: the best of them where there is so much room.

What is asked of placements, and the arrays that say it, is here as well; when a job is placed best is in
`pricing.py`.
"""

from typing import NamedTuple

import numpy as np

from environment.kernel.compiled import njit
from environment.kernel.durations import is_good
from environment.kernel.state import ANYWHERE, BoolArray
from environment.types import FloatArray, IntArray

#: Rows of placements: the best of all, the best now and later of one job, and the one that is tried.
CHOSEN, NOW, LATER, TRIED = 0, 1, 2, 3
#: Forms of a placement: executors on as few VMs as are cheapest, each on another VM, all on one.
_PACKED, _APART, _TOGETHER = 0, 1, 2
#: What is lost of dollars when they are computed, at most, as a share.
_ROUNDED = 1e-9


class PricingScene(NamedTuple):
    """The VMs. What is free of them changes while waiting jobs are told where they will go."""

    free: IntArray  # [2, N] milli cpus and MiB
    capacity: FloatArray  # [2, N] the same
    held: FloatArray  # [N] for how long each is paid for anyway
    boots: FloatArray  # [N] in how many seconds each would be up; 0 if it is
    closed: BoolArray  # [N]
    idle: FloatArray  # [N] for how many seconds each is kept that nobody holds
    #: [N] a number for each, equal of those that have and cost the same; [0] where nobody says so.
    kind: IntArray
    #: [S] VMs, ascending: all that have room now for one of the jobs, and matter. What the others have free,
    #: and for how long they are held, is said only of those on which an executor ends.
    near: IntArray


class Jobs(NamedTuple):
    """The waiting jobs, in order."""

    executors: IntArray  # [M] how many
    size: IntArray  # [2, M] milli cpus and MiB of one
    prefers: IntArray  # [M]
    duration: FloatArray  # [M] seconds when placed well
    patience: FloatArray  # [M] for how many seconds from now it may be held back
    like: IntArray  # [M] the first job that is like it in all of this; itself, if none before it is
    price: FloatArray  # [M, N] dollars per second of each VM to the job; [1, N] where it is the same to all
    cheapest: FloatArray  # [M or 1, 2] the least of it for a milli cpu, and for a MiB, of a VM that is full
    most: IntArray  # [M, N] executors by what else they take; [0, N] where nobody takes anything else


class Aim(NamedTuple):
    """What counts for how much."""

    #: Of cost and of time, each as a multiple of what is usual for the job.
    cost_weight: float
    time_weight: float
    #: Dollars per second of a core, on average.
    price_per_core: float
    #: How many times longer a job takes where it is badly placed.
    penalty: float
    #: Which share of a VM that is held longer others will use, of what the job leaves.
    shared: float
    #: What room on a VM that is held anyway is worth, as a share of its price.
    room: float


class Work(NamedTuple):
    """Arrays to work in, and what was found: the VMs of placements and how many executors on each."""

    free: IntArray  # [2, N]
    room: IntArray  # [N]
    left: IntArray  # [N]
    open: IntArray  # [N] VMs with room, ascending
    some: IntArray  # [N] those of them that are looked at
    each: FloatArray  # [N] dollars that an executor adds on the VM, where as many take it as the next says
    takes: IntArray  # [N]
    full: FloatArray  # [2, N] the same where as many take it as can; where the job is badly placed, or well
    alone: FloatArray  # [2, N] the same where one does
    vms: IntArray  # [4, E]: the chosen one, the best now, the best later, the one that is tried
    taken: IntArray  # [4, E]
    used: IntArray  # [4] how many VMs
    until: FloatArray  # [4] when the job would end
    dollars: FloatArray  # [4] what it adds to the bill
    begins: FloatArray  # [M] when each job would begin that waits
    fits: BoolArray  # [M] whether each could be placed now
    waits: BoolArray  # [M] whether each had better wait though it fits
    wanted: FloatArray  # [N] when the last of them would begin on each VM; 0 if none does
    listed: IntArray  # [2, K] by kind of VMs how many were listed that nobody holds, and what room these have
    turn: IntArray  # [2] the job whose turn it is, and which is the best placed of those before it
    #: [4] what that one's placement adds, what the best placement now of the one whose turn it is adds (NaN
    #: while that is not known), for how many seconds it takes to know which executors end, and how many
    #: dollars an executor of the one whose turn it is adds at least on the VMs that have room now.
    values: FloatArray


def blank_work(vms: int, executors: int, jobs: int, kinds: int) -> Work:
    """To choose one of so many jobs, of at most so many executors, on so many VMs of so many known kinds."""
    return Work(
        free=np.zeros((2, vms), np.int64),
        room=np.zeros(vms, np.int64),
        left=np.zeros(vms, np.int64),
        open=np.zeros(vms, np.int64),
        some=np.zeros(vms, np.int64),
        each=np.zeros(vms),
        takes=np.zeros(vms, np.int64),
        full=np.zeros((2, vms)),
        alone=np.zeros((2, vms)),
        vms=np.zeros((4, executors), np.int64),
        taken=np.zeros((4, executors), np.int64),
        used=np.zeros(4, np.int64),
        until=np.zeros(4),
        dollars=np.zeros(4),
        begins=np.full(jobs, np.inf),
        fits=np.zeros(jobs, np.bool_),
        waits=np.zeros(jobs, np.bool_),
        wanted=np.zeros(vms),
        listed=np.zeros((2, kinds), np.int64),
        turn=np.array((0, -1)),
        values=np.array((np.inf, np.nan, 0.0, 0.0)),
    )


@njit()
def copy_row(work: Work, row: int, to: int) -> None:
    """Remember a placement."""
    used = work.used[row]
    work.used[to], work.until[to], work.dollars[to] = used, work.until[row], work.dollars[row]
    for i in range(used):
        work.vms[to, i], work.taken[to, i] = work.vms[row, i], work.taken[row, i]


@njit()
def best_form(
    scene: PricingScene,
    jobs: Jobs,
    aim: Aim,
    work: Work,
    job: int,
    size: int,
    time: float,
    best: float,
    row: int,
) -> float:
    """The best form of a placement on `work.room` of the first `size` of `work.open`; its value.

    In that row if it is better than `best`.
    """
    prefers, count = jobs.prefers[job], jobs.executors[job]
    # Well or badly placed: which is known when it is, and how long VMs are taken depends on it.
    begin = 1 if prefers == ANYWHERE or count == 1 else 0
    listed, boots = _list(scene, work, count, size, time)
    least = _price(scene, jobs, aim, work, job, listed, time, boots, begin)
    if row == NOW:
        work.values[3] = least if boots <= 0.0 else 0.0
    for form in range(1 if count == 1 else 3):
        for well in range(begin, 2):
            if form == _PACKED:
                found = _pack(scene, jobs, aim, work, job, listed, time, boots, well)
            elif form == _APART:
                found = _part(work, count, listed, well)
            else:
                found = _put_together(work, count, listed, well)
            if not found:
                break
            value = _value(scene, jobs, aim, work, job, time)
            if value < best:
                best = value
                copy_row(work, TRIED, row)
                if row == LATER:
                    work.begins[job] = time
    return best


@njit()
def _list(scene: PricingScene, work: Work, count: int, size: int, time: float) -> tuple[int, float]:
    """How many VMs are now in `work.some`, and in how many seconds they are up.

    Of those that nobody holds then, and that are alike, as many will do as there are executors.
    """
    boots, listed, alike = 0.0, 0, len(scene.kind) > 0
    work.listed[:] = 0
    for vm in work.open[:size]:
        room = work.room[vm]
        if room <= 0:
            continue
        if alike and scene.held[vm] <= time and scene.boots[vm] <= 0.0 and not scene.closed[vm]:
            kind = scene.kind[vm]
            if work.listed[0, kind] == 0:
                work.listed[1, kind] = room
            if work.listed[1, kind] == room:
                if work.listed[0, kind] >= count:
                    continue
                work.listed[0, kind] += 1
        work.some[listed] = vm
        listed += 1
        if time == 0.0:
            boots = max(boots, scene.boots[vm])
    return listed, boots


@njit()
def _share(scene: PricingScene, jobs: Jobs, job: int, vm: int, executors: int) -> float:
    """Which share of the VM so many executors take."""
    cpus = executors * jobs.size[0, job] / scene.capacity[0, vm]
    memory = executors * jobs.size[1, job] / scene.capacity[1, vm]
    return float(min(max(cpus, memory), 1.0))


@njit()
def _added(
    scene: PricingScene, jobs: Jobs, aim: Aim, job: int, vm: int, share: float, time: float, end: float
) -> float:
    """Dollars that executors that take such a share of the VM add, from `time` on for `end` seconds."""
    held = min(max(scene.held[vm] - time, 0.0), end)
    seconds = held * share * aim.room + (end - held) * (1.0 - aim.shared * (1.0 - share))
    if scene.closed[vm]:
        seconds += scene.idle[vm]
    return float(seconds * jobs.price[job if len(jobs.price) > 1 else 0, vm])


@njit()
def _lasts(jobs: Jobs, aim: Aim, job: int, well: int) -> float:
    """For how many seconds VMs are taken."""
    return float(jobs.duration[job] * (1.0 if well else aim.penalty))


@njit()
def _price(
    scene: PricingScene,
    jobs: Jobs,
    aim: Aim,
    work: Work,
    job: int,
    listed: int,
    time: float,
    boots: float,
    begin: int,
) -> float:
    """What an executor adds on each of the first `listed` of `work.some`, with as many as can, and alone.

    Returned is the least, which is where as many as can.
    """
    count, least = jobs.executors[job], np.inf
    for vm in work.some[:listed]:
        takes = min(work.room[vm], count)
        full, alone = _share(scene, jobs, job, vm, takes), 0.0
        if takes > 1:
            alone = _share(scene, jobs, job, vm, 1)
        for well in range(begin, 2):
            end = boots + _lasts(jobs, aim, job, well)
            each = _added(scene, jobs, aim, job, vm, full, time, end) / takes
            work.full[well, vm] = work.alone[well, vm] = each
            if takes > 1:
                work.alone[well, vm] = _added(scene, jobs, aim, job, vm, alone, time, end)
        least = min(least, work.full[1, vm])
    return least


@njit()
def least_there(
    scene: PricingScene, jobs: Jobs, aim: Aim, work: Work, job: int, vm: int, time: float
) -> float:
    """Dollars that an executor of the job adds at least on that VM, which has room, from `time` on."""
    takes = min(work.room[vm], jobs.executors[job])
    share = _share(scene, jobs, job, vm, takes)
    return float(_added(scene, jobs, aim, job, vm, share, time, jobs.duration[job]) / takes)


@njit()
def _pack(
    scene: PricingScene,
    jobs: Jobs,
    aim: Aim,
    work: Work,
    job: int,
    listed: int,
    time: float,
    boots: float,
    well: int,
) -> bool:
    """As many executors as can on the VM where one is cheapest, and so on, in row TRIED; False: no room."""
    count, placed, used, end = jobs.executors[job], 0, 0, boots + _lasts(jobs, aim, job, well)
    for vm in work.some[:listed]:
        work.left[vm] = work.room[vm]
        work.takes[vm], work.each[vm] = min(work.room[vm], count), work.full[well, vm]
    while placed < count:
        best, best_each, best_takes = -1, np.inf, 0
        for vm in work.some[:listed]:
            takes = min(work.left[vm], count - placed)
            if takes <= 0:
                continue
            if work.takes[vm] != takes:  # mostly it is as when the last VM was chosen
                share = _share(scene, jobs, job, vm, takes)
                work.takes[vm] = takes
                work.each[vm] = _added(scene, jobs, aim, job, vm, share, time, end) / takes
            if work.each[vm] < best_each:
                best, best_each, best_takes = vm, work.each[vm], takes
        if best < 0:
            return False
        work.vms[TRIED, used], work.taken[TRIED, used] = best, best_takes
        work.left[best] = 0
        placed += best_takes
        used += 1
    work.used[TRIED] = used
    return True


@njit()
def _part(work: Work, count: int, listed: int, well: int) -> bool:
    """Each executor on another VM, the cheapest first, in row TRIED; False: there are not so many."""
    used = 0
    if listed < count:
        return False
    for vm in work.some[:listed]:
        each = work.alone[well, vm]
        if used == count and each >= work.each[work.vms[TRIED, used - 1]]:
            continue
        work.each[vm] = each
        at = min(used, count - 1)
        while at > 0 and each < work.each[work.vms[TRIED, at - 1]]:
            work.vms[TRIED, at] = work.vms[TRIED, at - 1]
            at -= 1
        work.vms[TRIED, at], work.taken[TRIED, at] = vm, 1
        used = min(used + 1, count)
    work.taken[TRIED, :count] = 1
    work.used[TRIED] = count
    return True


@njit()
def _put_together(work: Work, count: int, listed: int, well: int) -> bool:
    """All executors on the VM where they are cheapest, in row TRIED; False: none has so much room."""
    best, least = -1, np.inf
    for vm in work.some[:listed]:
        if work.room[vm] >= count and work.full[well, vm] < least:
            best, least = vm, work.full[well, vm]
    if best < 0:
        return False
    work.vms[TRIED, 0], work.taken[TRIED, 0], work.used[TRIED] = best, count, 1
    return True


@njit()
def _value(scene: PricingScene, jobs: Jobs, aim: Aim, work: Work, job: int, time: float) -> float:
    """What the placement in row `TRIED` adds, weighed."""
    boots, used, count, duration = 0.0, work.used[TRIED], jobs.executors[job], jobs.duration[job]
    if time == 0.0:
        for i in range(used):
            boots = max(boots, scene.boots[work.vms[TRIED, i]])
    seconds = duration * (1.0 if is_good(jobs.prefers[job], count, used) else aim.penalty)
    dollars = 0.0
    for i in range(used):
        vm = work.vms[TRIED, i]
        share = _share(scene, jobs, job, vm, work.taken[TRIED, i])
        dollars += _added(scene, jobs, aim, job, vm, share, time, boots + seconds)
    work.until[TRIED], work.dollars[TRIED] = time + boots + seconds, dollars
    usual = usual_dollars(jobs, aim, job)
    return float(aim.cost_weight * dollars / usual + aim.time_weight * (time + boots + seconds) / duration)


@njit()
def usual_dollars(jobs: Jobs, aim: Aim, job: int) -> float:
    """What a job like that costs, on average."""
    return float(jobs.duration[job] * jobs.executors[job] * jobs.size[0, job] / 1000.0 * aim.price_per_core)


@njit()
def least_value(jobs: Jobs, aim: Aim, job: int, each: float, time: float) -> float:
    """No placement at that time adds less, weighed, if an executor adds so many dollars at least."""
    dollars = each * jobs.executors[job] * (1.0 - _ROUNDED)
    duration = jobs.duration[job]
    return float(
        aim.cost_weight * dollars / usual_dollars(jobs, aim, job)
        + aim.time_weight * (time + duration) / duration
    )


@njit()
def least_anywhere(jobs: Jobs, aim: Aim, job: int) -> float:
    """Dollars that an executor adds at least: on VMs that are held for as long as it lasts."""
    row = job if len(jobs.cheapest) > 1 else 0
    price = max(jobs.size[0, job] * jobs.cheapest[row, 0], jobs.size[1, job] * jobs.cheapest[row, 1])
    return float(jobs.duration[job] * price * min(aim.room, 1.0))
