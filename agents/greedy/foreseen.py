"""Beliefs about running jobs, in compiled code, cached from one decision of a simulation to the next.

The believed ends of most jobs stay the same while the jobs are young, and few VMs matter to a decision: so
an end is computed on request, and not for all jobs at each decision. The beliefs are those of
`environment.kernel.expected_end`, and `greedy_policy.py` defines their use by greedy; this module computes
the same, to the last bit, from the kernel's arrays.
"""

import math
from typing import NamedTuple

import numpy as np

from agents.greedy.pricing import Ends
from conf.defaults import MEASURED_SPREAD
from environment.kernel.compiled import njit
from environment.kernel.durations import believed_end
from environment.kernel.expected_end import EARLY
from environment.kernel.resized_jobs import SparedResources
from environment.kernel.state import Batch
from environment.types import FloatArray, IntArray

#: Least number of seconds until an executor ends; number of the next ending jobs that are given at first.
LEAST, SOON = 0.001, 24
#: Number of bits that `agents.estimates.rounded` keeps of times.
_TIME_BITS = 20
#: Relative rounding error of computed times, at most.
_ROUNDED = 1e-9
#: Number of standard deviations behind the median up to which the expected duration is at most a fixed
#: multiple of the first expectation.
_UP_TO = 2.0


#: Columns of `Foreseen.jobs`: when it started; when it is believed to end, as of the last query, and when
#: that was; until when that is as when it started; its assumed duration; how many seconds after its start it
#: is believed to end at most, and until when that holds; its spread.
_START, _END, _ASKED, _YOUNG, _SECONDS, _MOST, _MIDDLE, _SPREAD = range(8)


#: Of `Foreseen.counts`: how many jobs have been taken in, and how many stand in `due`.
_BEGUN, _DUE = range(2)


class Foreseen(NamedTuple):
    """Beliefs by the kernel's number of a job, [M], by executor as in `State.placement`, [E], and by VM."""

    expects: FloatArray  # [M] seconds that each was expected to take when it started; NaN: unknown
    jobs: FloatArray  # [M, 8] see above: one job's values stand together
    job: IntArray  # [E] the job of each
    below: IntArray  # [E] the one that came before it to its VM; -1 if none did
    top: IntArray  # [N] the last that came to each VM; -1 if none did
    counts: IntArray  # [2] see below
    due: FloatArray  # [M] when jobs were to end when they started, ascending; some of them may be over
    waited: IntArray  # [M] the jobs of these
    some: IntArray  # [M] to work in
    left: FloatArray  # [M]
    ends: Ends  # of all executors, of which some are given


def blank_foreseen(expects: FloatArray, executors: int, vms: int) -> Foreseen:
    """Empty beliefs on jobs with expected durations `expects`, `executors` executors in all, on `vms` VMs."""
    return Foreseen(
        expects=expects,
        jobs=np.full((len(expects), 8), np.nan),
        job=np.zeros(executors, np.int64),
        below=np.full(executors, -1),
        top=np.full(vms, -1),
        counts=np.zeros(2, np.int64),
        due=np.zeros(len(expects)),
        waited=np.zeros(len(expects), np.int64),
        some=np.zeros(len(expects), np.int64),
        left=np.zeros(len(expects)),
        ends=Ends(
            np.zeros(executors), np.zeros(executors, np.int64), np.zeros((executors, 2), np.int64), 0.0
        ),
    )


@njit()
def foresee(batch: Batch, foreseen: Foreseen, unknown: float, spread: FloatArray, order: IntArray) -> None:
    """Add the jobs that have started since the last time; `spread` is by arrival, via `order`."""
    state, jobs = batch.state, batch.jobs
    for job in range(foreseen.counts[_BEGUN], state.head[0]):
        seconds, start, known = foreseen.expects[job], state.start[0, job], foreseen.jobs[job]
        if math.isnan(seconds):
            seconds = unknown
        known[_START], known[_SECONDS], known[_SPREAD] = start, seconds, spread[order[job]]
        sigma = known[_SPREAD] if known[_SPREAD] > 0.0 else MEASURED_SPREAD
        young = math.exp((EARLY - sigma / 2.0) * sigma) if known[_SPREAD] > 0.0 else 1.0
        known[_END], known[_YOUNG] = start + seconds, start + max(seconds, 0.0) * young * (1.0 - _ROUNDED)
        # Of a log-normal X with that mean, for z in standard deviations behind the median, E[X | X > x] is
        # the mean times Q(z - sigma) / Q(z), and the hazard of the normal is below z + 1.
        known[_MOST] = seconds * math.exp((_UP_TO + 1.0) * sigma) * (1.0 + _ROUNDED)
        known[_MIDDLE] = start + seconds * math.exp((_UP_TO - sigma / 2.0) * sigma) * (1.0 - _ROUNDED)
        first = jobs.first[0, job]
        for at in range(first, first + jobs.executors[0, job]):
            vm = state.placement[0, at]
            foreseen.job[at], foreseen.below[at], foreseen.top[vm] = job, foreseen.top[vm], at
        _insert(foreseen.due, foreseen.waited, foreseen.counts[_DUE], start + seconds, job, 1)
        foreseen.counts[_DUE] += 1
    foreseen.counts[_BEGUN] = state.head[0]


@njit()
def time_step(batch: Batch, foreseen: Foreseen) -> float:
    """Step in seconds for hold times of VMs, by the VM held longest; 0 if none is held."""
    state, now, longest, left = batch.state, batch.state.clock[0], 0.0, 0
    for job in state.heap[0, : state.running[0]]:
        if now <= foreseen.jobs[job, _YOUNG] or foreseen.jobs[job, _ASKED] == now:
            longest = max(longest, foreseen.jobs[job, _END] - now)
        else:
            foreseen.some[left] = job
            left += 1
    bound = 2.0 ** math.frexp(longest)[1] if longest > 0.0 else 0.0
    for job in foreseen.some[:left]:
        most = foreseen.jobs[job, _MOST] - (now - foreseen.jobs[job, _START])
        if now > foreseen.jobs[job, _MIDDLE] or most >= bound:
            longest = max(longest, _end_of(foreseen, job, now) - now)
            bound = 2.0 ** math.frexp(longest)[1] if longest > 0.0 else 0.0
    return float(2.0 ** (math.frexp(longest)[1] - _TIME_BITS)) if longest > 0.0 else 0.0


@njit()
def held_for(batch: Batch, foreseen: Foreseen, vm: int, step: float) -> float:
    """Seconds for which the VM is held, in such steps, as in `agents.estimates`."""
    state, now = batch.state, batch.state.clock[0]
    last, above, at = now, -1, foreseen.top[vm]
    while at >= 0:
        job, below = foreseen.job[at], foreseen.below[at]
        if state.end[0, job] <= now:  # it is over, and need not be looked at again
            if above < 0:
                foreseen.top[vm] = below
            else:
                foreseen.below[above] = below
        else:
            last = max(last, _end_of(foreseen, job, now))
            above = at
        at = below
    return float(np.rint((last - now) / step) * step) if last > now else 0.0


@njit()
def ends_within(
    batch: Batch, spared: SparedResources, foreseen: Foreseen, seconds: float, beyond: float, most: int
) -> Ends:
    """Executors of jobs that are believed to end within `seconds`, in order of that end.

    At most `most` jobs, if any others end later. Other executors may end after `beyond` seconds.
    """
    state, now = batch.state, batch.state.clock[0]
    last, told, count, some, left = now + seconds, beyond, 0, foreseen.some, foreseen.left
    due, waited, kept, at = foreseen.due, foreseen.waited, 0, 0
    # Nobody is believed to end before the end that was believed in when he started.
    while at < foreseen.counts[_DUE] and due[at] - _ROUNDED * (due[at] - now) <= last:
        job = waited[at]
        due[kept], waited[kept] = due[at], job
        at += 1
        if state.end[0, job] <= now:
            continue  # it is over, and need not be looked at again
        kept += 1
        end = _end_of(foreseen, job, now)
        if end > last:
            continue
        soon = max(end - now, LEAST)
        if count <= SOON:
            _insert(left, some, count, soon, job, 1)
        else:
            left[count], some[count] = soon, job
        count += 1
        if count > most:  # one more than are given, which is left out, as are others that end with it
            told, last = left[most], now + left[most] * (1.0 + _ROUNDED)
            count = most
    if kept < at:
        while at < foreseen.counts[_DUE]:
            due[kept], waited[kept] = due[at], waited[at]
            kept, at = kept + 1, at + 1
        foreseen.counts[_DUE] = kept
    if count > SOON:
        step = count // 2
        while step > 0:  # Shell 1959
            for at in range(step, count):
                _insert(left, some, at, left[at], some[at], step)
            step //= 2
    while count > 0 and left[count - 1] >= told:
        count -= 1
    return _executors_of(batch, spared, foreseen, count, told)


@njit()
def _insert(ends: FloatArray, some: IntArray, count: int, end: float, job: int, step: int) -> None:
    """Insert a job by its end into the `count` first ones, where every `step`-th is sorted."""
    at = count
    while at >= step and ends[at - step] > end:
        ends[at], some[at] = ends[at - step], some[at - step]
        at -= step
    ends[at], some[at] = end, job


@njit()
def _executors_of(batch: Batch, spared: SparedResources, foreseen: Foreseen, count: int, told: float) -> Ends:
    """The executors of the first `count` jobs in `foreseen.some`."""
    state, jobs, number = batch.state, batch.jobs, 0
    at, vm, size, _ = foreseen.ends
    for i in range(count):
        job = foreseen.some[i]
        first = jobs.first[0, job]
        for place in range(first, first + jobs.executors[0, job]):
            at[number], vm[number] = foreseen.left[i], state.placement[0, place]
            size[number, 0] = jobs.milli_cpus[0, job] - spared.milli_cpus[place]
            size[number, 1] = jobs.memory_mib[0, job] - spared.memory_mib[place]
            number += 1
    return Ends(at[:number], vm[:number], size[:number], told)


@njit()
def _end_of(foreseen: Foreseen, job: int, now: float) -> float:
    """Believed end of the running job: `environment.kernel.expected_end.expected_end`."""
    known = foreseen.jobs[job]
    if now > known[_YOUNG] and known[_ASKED] != now:
        known[_ASKED] = now
        known[_END] = believed_end(now, known[_START], known[_SECONDS], known[_SPREAD])
    return float(known[_END])
