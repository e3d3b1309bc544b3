"""The forms that a placement may have, compiled: the best of them for the available room.

`asked.py` defines the inputs; `pricing.py` chooses the best moment for a job.
"""

import math

import numpy as np

from agents.greedy.asked import Aim, Jobs, PricingScene, Work
from environment.kernel.compiled import njit
from environment.kernel.durations import is_good
from environment.kernel.state import ANYWHERE

#: Rows of placements: the best of all, the best now and later of one job, and the one that is tried.
CHOSEN, NOW, LATER, TRIED = 0, 1, 2, 3
#: Forms of a placement: executors on as few VMs as are cheapest, each on another VM, all on one.
_PACKED, _APART, _TOGETHER = 0, 1, 2
#: Relative rounding error of computed dollars, at most.
_ROUNDED = 1e-9


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
    if boots > 0.0:  # not all VMs are taken for so long
        least = 0.0
    elif row == NOW:
        work.least[:count] = np.inf
        for vm in work.some[:listed]:
            note_least(work, count, min(work.room[vm], count), work.full[1, vm])
    for form in range(1 if count == 1 else 3):
        if form != _PACKED:
            good = is_good(prefers, count, count if form == _APART else 1)
            if least_value(jobs, aim, job, least * count, time, 1.0 if good else aim.penalty) >= best:
                continue
        for well in range(begin, 2):
            if form == _PACKED:
                found = _pack(scene, jobs, aim, work, job, listed, time, boots, well)
            elif form == _APART:
                found = _part(scene, jobs, aim, work, job, listed, time, boots, well)
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
    """Fill `work.some` with VMs; return their number, and the seconds until they are up.

    Of alike VMs that are idle then, at most as many are listed as there are executors.
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
    """Share of the VM that `executors` executors take."""
    cpus = executors * jobs.size[0, job] / scene.capacity[0, vm]
    memory = executors * jobs.size[1, job] / scene.capacity[1, vm]
    return float(min(max(cpus, memory), 1.0))


@njit(entry=True)
def shared_seconds(tail: float, held: float, seconds: float) -> float:
    """Of the expected `seconds` of use those that lie within the `held` ones: E[min(X, held)].

    X is log-normal with that mean, where the duration is not known: a job may outlast the others by far,
    and then holds the VM alone.
    """
    if tail <= 0.0 or held <= 0.0 or held == np.inf:
        return min(held, seconds)
    z = math.log(held / seconds) / tail + tail / 2.0
    early = 0.5 * math.erfc((tail - z) / math.sqrt(2.0))
    return float(min(seconds * early + held * 0.5 * math.erfc(z / math.sqrt(2.0)), seconds))


@njit()
def _added(
    scene: PricingScene, jobs: Jobs, aim: Aim, job: int, vm: int, share: float, time: float, end: float
) -> float:
    """Dollars that executors that take such a share of the VM add, from `time` on for `end` seconds."""
    held = shared_seconds(jobs.tail[job], max(scene.held[vm] - time, 0.0), end)
    seconds = held * share * aim.room + (end - held) * (1.0 - aim.shared * (1.0 - share))
    if scene.closed[vm]:
        seconds += scene.idle[vm]
    return float(seconds * jobs.price[job if len(jobs.price) > 1 else 0, vm])


@njit()
def _lasts(jobs: Jobs, aim: Aim, job: int, well: int) -> float:
    """Seconds for which VMs are taken."""
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
    """Price per executor on each of the first `listed` of `work.some`, each VM filled as far as possible.

    Returns the least price for a good placement: no smaller number of executors adds less.
    """
    count, least = jobs.executors[job], np.inf
    for vm in work.some[:listed]:
        takes = min(work.room[vm], count)
        share = _share(scene, jobs, job, vm, takes)
        for well in range(begin, 2):
            end = boots + _lasts(jobs, aim, job, well)
            work.full[well, vm] = _added(scene, jobs, aim, job, vm, share, time, end) / takes
        least = min(least, work.full[1, vm])
    return least


@njit()
def note_least(work: Work, count: int, takes: int, each: float) -> None:
    """Note a VM with room for `takes` of `count` executors, each of which adds at least `each` dollars."""
    last = count - 1
    while takes > 0 and each < work.least[last]:
        at = last
        while at > 0 and each < work.least[at - 1]:
            work.least[at] = work.least[at - 1]
            at -= 1
        work.least[at] = each
        takes -= 1


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
    """Fill the VM where an executor is cheapest, and so on, in row TRIED; False: no room."""
    count, placed, used, end = jobs.executors[job], 0, 0, boots + _lasts(jobs, aim, job, well)
    while placed < count:
        best, best_each, best_takes = -1, np.inf, 0
        if used == 0:
            for vm in work.some[:listed]:
                if work.full[well, vm] < best_each:
                    best, best_each, best_takes = vm, work.full[well, vm], min(work.room[vm], count)
            if 0 < best_takes < count:  # only then others are looked at
                for vm in work.some[:listed]:
                    work.left[vm] = work.room[vm]
                    work.takes[vm], work.each[vm] = min(work.room[vm], count), work.full[well, vm]
        else:
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
def _part(
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
    """Place each executor on another VM, the cheapest first, in row TRIED; False: too few VMs."""
    count, used, end = jobs.executors[job], 0, boots + _lasts(jobs, aim, job, well)
    if listed < count:
        return False
    for vm in work.some[:listed]:
        each = work.full[well, vm]
        if work.room[vm] > 1 and count > 1:
            each = _added(scene, jobs, aim, job, vm, _share(scene, jobs, job, vm, 1), time, end)
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
    """Place all executors on the VM where they are cheapest, in row TRIED; False: no VM has room for all."""
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
    """Weighed value added by the placement in row `TRIED`."""
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
    """Average cost of a job like that."""
    return float(jobs.duration[job] * jobs.executors[job] * jobs.size[0, job] / 1000.0 * aim.price_per_core)


@njit()
def least_value(jobs: Jobs, aim: Aim, job: int, dollars: float, time: float, longer: float = 1.0) -> float:
    """Lower bound on the weighed value of placements at that time, given a lower bound on their dollars.

    The job takes `longer` times its duration when placed well.
    """
    duration = jobs.duration[job]
    return float(
        aim.cost_weight * dollars * (1.0 - _ROUNDED) / usual_dollars(jobs, aim, job)
        + aim.time_weight * (time + duration * longer) / duration
    )


@njit()
def least_anywhere(jobs: Jobs, aim: Aim, job: int) -> float:
    """Dollars that the job adds at least: on VMs that are held for as long as it lasts."""
    row = job if len(jobs.cheapest) > 1 else 0
    price = max(jobs.size[0, job] * jobs.cheapest[row, 0], jobs.size[1, job] * jobs.cheapest[row, 1])
    return float(jobs.executors[job] * jobs.duration[job] * price * min(aim.room, 1.0))
