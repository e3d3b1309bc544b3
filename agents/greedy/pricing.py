"""The waiting job that is best placed now, compiled: by the addition of its best placement, now or later.

A job may be placed on VMs that are up, on those that are closed, or when running jobs are believed to end.
`forms.py` computes the forms of a placement and their additions; `greedy_policy.py` calls this module and
converts a view to arrays.
"""

import math
from typing import NamedTuple

import numpy as np

from agents.greedy.asked import Aim, Jobs, PricingScene, Work
from agents.greedy.forms import (
    CHOSEN,
    LATER,
    NOW,
    best_form,
    copy_row,
    least_anywhere,
    least_there,
    least_value,
    note_least,
)
from environment.kernel.compiled import njit
from environment.types import FloatArray, IntArray

#: No job is placed now; the job placed now is unknown without ends that were not given.
NOBODY, UNTOLD = -1, -2
#: Number of moments that are checked for a job that may wait. Chosen: fewer than all lose nothing.
_MOMENTS = 4


class Ends(NamedTuple):
    """Executors that run, by when they are believed to end."""

    at: FloatArray  # [X] seconds, ascending
    vm: IntArray  # [X]
    size: IntArray  # [X, 2] milli cpus and MiB
    told: float  # after so many seconds others may end that are not told of


@njit(entry=True)
def choose(scene: PricingScene, ends: Ends, jobs: Jobs, aim: Aim, work: Work) -> int:
    """Return the job that is best placed now, its VMs in the first row of `work`; NOBODY if there is none.

    The best job adds least relative to its usual cost, among the jobs that should not rather wait. For a job
    that fits but should rather wait, its future room is reserved. For the first job, if it does not fit, the
    begin of its placement is computed.

    UNTOLD when the choice needs more ends than `ends` has: those within the seconds in the last of
    `work.values`. Called again with these, and the same `work`, it resumes.
    """
    for job in range(work.turn[0], len(jobs.executors)):
        work.turn[0] = job
        like = jobs.like[job]
        if like < job and not work.waits[like]:
            work.fits[job] = work.fits[like]
            continue  # its best placement is no better than that of the other
        if math.isnan(work.values[1]):
            work.values[1] = _best_now(scene, jobs, aim, work, job)
        now, later = work.values[1], np.inf
        work.fits[job] = now < np.inf
        if (work.fits[job] and jobs.patience[job] > 0.0) or (job == 0 and not work.fits[job]):
            later = _best_later(scene, ends, jobs, aim, work, job, now)
            if math.isnan(later):
                return UNTOLD
        work.values[1] = np.nan
        if now <= later:
            if now < work.values[0]:
                work.values[0], work.turn[1] = now, job
                copy_row(work, NOW, CHOSEN)
        else:
            work.waits[job] = work.fits[job]
            _keep_room(scene, jobs, work, job)
    return int(work.turn[1])


@njit()
def _best_now(scene: PricingScene, jobs: Jobs, aim: Aim, work: Work, job: int) -> float:
    """The best placement of the job as things are, in row `NOW`; infinite when there is no room."""
    up, closed, size = 0, 0, 0
    work.least[: jobs.executors[job]] = 0.0
    for vm in scene.near:
        room = _room(scene.free[0, vm], scene.free[1, vm], jobs, job, vm)
        if room > 0:
            work.room[vm], work.open[size] = room, vm
            size += 1
            if scene.boots[vm] <= 0.0:
                up += room
            else:
                closed += room
    best, count = np.inf, jobs.executors[job]
    # Later, VMs that are closed or boot do not count: the cheapest placement on the others is noted.
    if closed > 0 and up + closed >= count:
        best = best_form(scene, jobs, aim, work, job, size, 0.0, best, NOW)
    if up >= count:
        if closed > 0:
            for vm in work.open[:size]:
                if scene.boots[vm] > 0.0:
                    work.room[vm] = 0
        best = best_form(scene, jobs, aim, work, job, size, 0.0, best, NOW)
    return best


@njit()
def _best_later(
    scene: PricingScene, ends: Ends, jobs: Jobs, aim: Aim, work: Work, job: int, now: float
) -> float:
    """The best placement when running executors have ended, in row `LATER`, if it is better than `now`.

    NaN where ends matter that `ends` lacks.
    """
    count, best = jobs.executors[job], now
    total, size, begun = 0, 0, False
    at, looked, found = 0, 0, np.inf
    anywhere = least_anywhere(jobs, aim, job)
    while looked < _MOMENTS:
        told = at < len(ends.at)
        time, changed = ends.at[at] if told else ends.told, False
        if now < np.inf and time > jobs.patience[job]:
            break
        if least_value(jobs, aim, job, anywhere, time) >= best:
            break  # however cheap it were then, the wait counts for more
        if not told:
            if time == np.inf:
                break
            more = best - least_value(jobs, aim, job, anywhere, 0.0)
            seconds = more / aim.time_weight * jobs.duration[job]
            work.values[2] = min(seconds, jobs.patience[job]) if now < np.inf else seconds
            return np.nan
        if not begun:
            total, size = _begin_with(scene, ends, jobs, work, job)
            begun = True
        while at < len(ends.at) and ends.at[at] <= time:
            vm = ends.vm[at]
            work.free[0, vm] += ends.size[at, 0]
            work.free[1, vm] += ends.size[at, 1]
            if scene.boots[vm] <= time:
                room = _room(work.free[0, vm], work.free[1, vm], jobs, job, vm)
                if room != work.room[vm]:
                    if work.room[vm] == 0:
                        _insert(work.open, size, vm)
                        size += 1
                    changed = True
                    total += room - work.room[vm]
                    work.room[vm] = room
                    each = least_there(scene, jobs, aim, work, job, vm, time)
                    note_least(work, count, min(room, count), each)
            at += 1
        if changed and total >= count:
            looked += 1
            # The longer one waits, the less others hold VMs: where nothing ends it only becomes dearer.
            if least_value(jobs, aim, job, work.least[:count].sum(), time) >= best:
                continue
            value = best_form(scene, jobs, aim, work, job, size, time, best, LATER)
            if value < best:
                best = found = value
    return found


@njit()
def _begin_with(scene: PricingScene, ends: Ends, jobs: Jobs, work: Work, job: int) -> tuple[int, int]:
    """Numbers of executors that fit before the first end, and of VMs for them: `work.open`."""
    for vm in ends.vm:
        work.free[0, vm], work.free[1, vm], work.room[vm] = scene.free[0, vm], scene.free[1, vm], 0
    total, size = 0, 0
    for vm in scene.near:
        work.free[0, vm], work.free[1, vm], work.room[vm] = scene.free[0, vm], scene.free[1, vm], 0
        if not scene.closed[vm] and scene.boots[vm] <= 0.0:
            room = _room(scene.free[0, vm], scene.free[1, vm], jobs, job, vm)
            if room > 0:
                work.room[vm], work.open[size] = room, vm
                size += 1
                total += room
    return total, size


@njit()
def _insert(ascending: IntArray, size: int, vm: int) -> None:
    """Insert the VM into the `size` sorted ones."""
    at = size
    while at > 0 and ascending[at - 1] > vm:
        ascending[at] = ascending[at - 1]
        at -= 1
    ascending[at] = vm


@njit()
def _room(cpus: int, memory: int, jobs: Jobs, job: int, vm: int) -> int:
    """Number of executors of the job that fit into these resources."""
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
def _keep_room(scene: PricingScene, jobs: Jobs, work: Work, job: int) -> None:
    """Plan a waiting job as in row `LATER`; if it fits now, reserve that room against later jobs."""
    for i in range(work.used[LATER]):
        vm, taken = work.vms[LATER, i], work.taken[LATER, i]
        work.wanted[vm] = max(work.wanted[vm], work.begins[job])
        if work.fits[job]:
            scene.held[vm] = max(scene.held[vm], work.until[LATER])
            for kind in range(2):
                scene.free[kind, vm] -= taken * jobs.size[kind, job]
