"""What placements add to bill and time, compiled: the best of a few for each waiting job, now or later.

A job may be placed on VMs that are up, on those that are closed, or when jobs that run are believed to end.
Who asks, and what a view is as arrays, is in `greedy_policy.py`. Seconds count from the view's own time.
"""

import math
from typing import NamedTuple

import numpy as np

from environment.kernel.compiled import njit
from environment.kernel.durations import is_good
from environment.kernel.state import ANYWHERE, BoolArray
from environment.types import FloatArray, IntArray

#: Nobody is placed now; it is not known who is, without ends that were not told of.
NOBODY, UNTOLD = -1, -2
#: So many moments are looked at for a job that may wait. Chosen: nothing is lost by fewer than all.
_MOMENTS = 4
#: Rows of placements: the best of all, the best now and later of one job, and the one that is tried.
_CHOSEN, _NOW, _LATER, _TRIED = 0, 1, 2, 3
#: Forms of a placement: executors on as few VMs as are cheapest, each on another VM, all on one.
_PACKED, _APART, _TOGETHER = 0, 1, 2


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


class Ends(NamedTuple):
    """Executors that run, by when they are believed to end."""

    at: FloatArray  # [X] seconds, ascending
    vm: IntArray  # [X]
    size: IntArray  # [2, X] milli cpus and MiB
    told: float  # after so many seconds others may end that are not told of


class Jobs(NamedTuple):
    """The waiting jobs, in order."""

    executors: IntArray  # [M] how many
    size: IntArray  # [2, M] milli cpus and MiB of one
    prefers: IntArray  # [M]
    duration: FloatArray  # [M] seconds when placed well
    patience: FloatArray  # [M] for how many seconds from now it may be held back
    like: IntArray  # [M] the first job that is like it in all of this; itself, if none before it is
    price: FloatArray  # [M, N] dollars per second of each VM to the job; [1, N] where it is the same to all
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
    some: IntArray  # [N] VMs with room
    each: FloatArray  # [N] dollars that an executor adds on the VM, where as many take it as the next says
    takes: IntArray  # [N]; 0 where that is not known
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


@njit()
def choose(scene: PricingScene, ends: Ends, jobs: Jobs, aim: Aim, work: Work) -> int:
    """The job that is best placed now, and where (the first row of `work`); NOBODY if there is none.

    UNTOLD if that takes more ends than are told of.

    That is the one whose placement adds least for what is usual for the job, of those that had better not
    wait. Who fits and had better wait has its place kept. Of the first job that does not fit is found when
    it will.
    """
    best, chosen = np.inf, NOBODY
    for job in range(len(jobs.executors)):
        like = jobs.like[job]
        if like < job and not work.waits[like]:
            work.fits[job] = work.fits[like]
            continue  # its best placement is no better than that of the other
        now, later = _best_now(scene, jobs, aim, work, job), np.inf
        work.fits[job] = now < np.inf
        if (work.fits[job] and jobs.patience[job] > 0.0) or (job == 0 and not work.fits[job]):
            later = _best_later(scene, ends, jobs, aim, work, job, now)
            if math.isnan(later):
                return UNTOLD
        if now <= later:
            if now < best:
                best, chosen = now, job
                _copy_row(work, _NOW, _CHOSEN)
        else:
            work.waits[job] = work.fits[job]
            _keep_room(scene, jobs, work, job)
    return chosen


@njit(inline=True)
def _copy_row(work: Work, row: int, to: int) -> None:
    """Remember a placement."""
    used = work.used[row]
    work.used[to], work.until[to], work.dollars[to] = used, work.until[row], work.dollars[row]
    for i in range(used):
        work.vms[to, i], work.taken[to, i] = work.vms[row, i], work.taken[row, i]


@njit()
def _best_now(scene: PricingScene, jobs: Jobs, aim: Aim, work: Work, job: int) -> float:
    """The best placement of the job as things are, in row `_NOW`; infinite when there is no room."""
    up, closed = 0, 0
    for vm in range(len(scene.boots)):
        room = _room(scene.free[0, vm], scene.free[1, vm], jobs, job, vm)
        work.room[vm] = room
        if scene.boots[vm] <= 0.0:
            up += room
        else:
            closed += room
    best, count = np.inf, jobs.executors[job]
    if closed > 0 and up + closed >= count:
        best = _best_form(scene, jobs, aim, work, job, 0.0, best, _NOW)
    if up >= count:
        for vm in range(len(scene.boots)):
            if scene.boots[vm] > 0.0:
                work.room[vm] = 0
        best = _best_form(scene, jobs, aim, work, job, 0.0, best, _NOW)
    return best


@njit()
def _best_later(
    scene: PricingScene, ends: Ends, jobs: Jobs, aim: Aim, work: Work, job: int, now: float
) -> float:
    """The best placement when executors that run have ended, in row `_LATER`, if it is better than `now`.

    NaN where ends matter that are not told of.
    """
    count, total, best = jobs.executors[job], 0, now
    for vm in range(len(scene.boots)):
        work.free[0, vm], work.free[1, vm] = scene.free[0, vm], scene.free[1, vm]
        work.room[vm] = 0
        if not scene.closed[vm]:
            if scene.boots[vm] <= 0.0:
                work.room[vm] = _room(scene.free[0, vm], scene.free[1, vm], jobs, job, vm)
            total += work.room[vm]
    at, looked, found = 0, 0, np.inf
    while looked < _MOMENTS:
        told = at < len(ends.at)
        time, changed = ends.at[at] if told else ends.told, False
        if now < np.inf and time > jobs.patience[job]:
            break
        if aim.time_weight * (1.0 + time / jobs.duration[job]) >= best:
            break  # the wait alone counts for more
        if not told:
            if time < np.inf:
                return np.nan
            break
        while at < len(ends.at) and ends.at[at] <= time:
            vm = ends.vm[at]
            work.free[0, vm] += ends.size[0, at]
            work.free[1, vm] += ends.size[1, at]
            if scene.boots[vm] <= time:
                room = _room(work.free[0, vm], work.free[1, vm], jobs, job, vm)
                changed |= room != work.room[vm]
                total += room - work.room[vm]
                work.room[vm] = room
            at += 1
        if changed and total >= count:
            looked += 1
            value = _best_form(scene, jobs, aim, work, job, time, best, _LATER)
            if value < best:
                best = found = value
    return found


@njit(inline=True)
def _room(cpus: int, memory: int, jobs: Jobs, job: int, vm: int) -> int:
    """How many executors of the job fit into so much."""
    most = jobs.executors[job]
    if len(jobs.most) > 0:
        most = min(most, jobs.most[job, vm])
    room = 0
    # Faster than to divide: most VMs have room for few executors, or none.
    while room < most and cpus >= jobs.size[0, job] and memory >= jobs.size[1, job]:
        cpus -= jobs.size[0, job]
        memory -= jobs.size[1, job]
        room += 1
    return room


@njit()
def _best_form(
    scene: PricingScene, jobs: Jobs, aim: Aim, work: Work, job: int, time: float, best: float, row: int
) -> float:
    """The best form of a placement on `work.room`, in that row if it is better than `best`; its value."""
    prefers, count = jobs.prefers[job], jobs.executors[job]
    boots, size = 0.0, 0
    alike = len(scene.kind) > 0
    work.listed[:] = 0
    for vm in range(len(scene.boots)):
        if work.room[vm] > 0:
            if alike and scene.held[vm] <= time and scene.boots[vm] <= 0.0 and not scene.closed[vm]:
                # Of those that nobody holds then, and that are alike, as many will do as there are executors.
                kind = scene.kind[vm]
                if work.listed[0, kind] == 0:
                    work.listed[1, kind] = work.room[vm]
                if work.listed[1, kind] == work.room[vm]:
                    if work.listed[0, kind] >= count:
                        continue
                    work.listed[0, kind] += 1
            work.some[size] = vm
            size += 1
            if time == 0.0:
                boots = max(boots, scene.boots[vm])
    for form in range(1 if count == 1 else 3):
        for well in range(2):
            if well == 0 and (prefers == ANYWHERE or count == 1):
                continue
            longest = jobs.duration[job] * (1.0 if well else aim.penalty)
            if not _take(scene, jobs, aim, work, job, size, form, time, boots + longest):
                break
            value = _value(scene, jobs, aim, work, job, time)
            if value < best:
                best = value
                _copy_row(work, _TRIED, row)
                if row == _LATER:
                    work.begins[job] = time
    return best


@njit(inline=True)
def _added(
    scene: PricingScene, jobs: Jobs, aim: Aim, job: int, vm: int, executors: int, time: float, end: float
) -> float:
    """Dollars that so many executors on the VM add, from `time` on for `end` seconds."""
    cpus = executors * jobs.size[0, job] / scene.capacity[0, vm]
    memory = executors * jobs.size[1, job] / scene.capacity[1, vm]
    share = min(max(cpus, memory), 1.0)
    held = min(max(scene.held[vm] - time, 0.0), end)
    seconds = held * share * aim.room + (end - held) * (1.0 - aim.shared * (1.0 - share))
    if scene.closed[vm]:
        seconds += scene.idle[vm]
    return float(seconds * jobs.price[job if len(jobs.price) > 1 else 0, vm])


@njit()
def _take(
    scene: PricingScene,
    jobs: Jobs,
    aim: Aim,
    work: Work,
    job: int,
    size: int,
    form: int,
    time: float,
    end: float,
) -> bool:
    """A placement of that form on the first `size` of `work.some` into row `_TRIED`; False: there is none."""
    count, placed, used = jobs.executors[job], 0, 0
    if form == _APART:
        return _take_apart(scene, jobs, aim, work, job, size, time, end)
    for vm in work.some[:size]:
        work.left[vm], work.takes[vm] = work.room[vm], 0
    while placed < count:
        best, best_each, best_takes = -1, np.inf, 0
        for vm in work.some[:size]:
            takes = min(work.left[vm], count - placed)
            if takes <= 0 or (form == _TOGETHER and takes < count):
                continue
            if work.takes[vm] != takes:  # mostly it is as when the last VM was chosen
                work.takes[vm] = takes
                work.each[vm] = _added(scene, jobs, aim, job, vm, takes, time, end) / takes
            if work.each[vm] < best_each:
                best, best_each, best_takes = vm, work.each[vm], takes
        if best < 0:
            return False
        work.vms[_TRIED, used], work.taken[_TRIED, used] = best, best_takes
        work.left[best] = 0
        placed += best_takes
        used += 1
    work.used[_TRIED] = used
    return True


@njit()
def _take_apart(
    scene: PricingScene, jobs: Jobs, aim: Aim, work: Work, job: int, size: int, time: float, end: float
) -> bool:
    """Each executor on another VM, the cheapest first, found in one go; `_take`."""
    count, used = jobs.executors[job], 0
    if size < count:
        return False
    for vm in work.some[:size]:
        each = _added(scene, jobs, aim, job, vm, 1, time, end)
        if used == count and each >= work.each[work.vms[_TRIED, used - 1]]:
            continue
        work.each[vm] = each
        at = min(used, count - 1)
        while at > 0 and each < work.each[work.vms[_TRIED, at - 1]]:
            work.vms[_TRIED, at] = work.vms[_TRIED, at - 1]
            at -= 1
        work.vms[_TRIED, at], work.taken[_TRIED, at] = vm, 1
        used = min(used + 1, count)
    work.taken[_TRIED, :count] = 1
    work.used[_TRIED] = count
    return True


@njit()
def _value(scene: PricingScene, jobs: Jobs, aim: Aim, work: Work, job: int, time: float) -> float:
    """What the placement in row `_TRIED` adds, weighed."""
    boots, used, count, duration = 0.0, work.used[_TRIED], jobs.executors[job], jobs.duration[job]
    if time == 0.0:
        for i in range(used):
            boots = max(boots, scene.boots[work.vms[_TRIED, i]])
    seconds = duration * (1.0 if is_good(jobs.prefers[job], count, used) else aim.penalty)
    dollars = 0.0
    for i in range(used):
        vm, taken = work.vms[_TRIED, i], work.taken[_TRIED, i]
        dollars += _added(scene, jobs, aim, job, vm, taken, time, boots + seconds)
    work.until[_TRIED], work.dollars[_TRIED] = time + boots + seconds, dollars
    usual = duration * count * jobs.size[0, job] / 1000.0 * aim.price_per_core
    return float(aim.cost_weight * dollars / usual + aim.time_weight * (time + boots + seconds) / duration)


@njit()
def _keep_room(scene: PricingScene, jobs: Jobs, work: Work, job: int) -> None:
    """Who waits is to be placed as in row `_LATER`; if it could be placed now, those after it do without."""
    for i in range(work.used[_LATER]):
        vm, taken = work.vms[_LATER, i], work.taken[_LATER, i]
        work.wanted[vm] = max(work.wanted[vm], work.begins[job])
        if work.fits[job]:
            scene.held[vm] = max(scene.held[vm], work.until[_LATER])
            for kind in range(2):
                scene.free[kind, vm] -= taken * jobs.size[kind, job]
