"""Converts workloads and clusters to the kernel's input: jobs with their profiles, and arrays of both."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import numpy as np

from conf.defaults import DRAIN_SECONDS, MEASURED_SPREAD, UNKNOWN_DURATION
from conf.units import SECONDS_PER_HOUR
from conf.util.copy_fields import carrier
from environment.decisions.feasibility import nowhere, whole_cluster_shortfall
from environment.decisions.sizing import smallest
from environment.dependencies import After
from environment.kernel.hash_random import mix
from environment.kernel.leases import (
    AS_CHARGED,
    BOOT,
    DRAIN,
    GRANULARITY,
    KEEP,
    MINIMUM,
    RATE,
    REWORK,
    STREAM,
)
from environment.kernel.state import LEASE_COLUMNS, PREFERENCES, Episode, JobArrays, MachineArrays
from environment.pools import BREAK_EVEN, IdleTimeout
from environment.queues.types import Sharing
from environment.resources import BASIC, CPUS, MEMORY, THOUSANDTHS, Resources
from environment.types import MEASURED_REWORK, USUAL_PAUSES, Dynamic, FloatArray, Job, Preference, Rework, Vm
from profiles.curve import Curve
from profiles.job_profile import JobProfile
from profiles.workloads.workload import Workload

#: Number of bits that are left out of a number, so that a float holds it exactly.
_STREAM_BITS = 11


def jobs_of(
    workload: Workload,
    profiles: Mapping[str, JobProfile],
    sharing: Sharing | None = None,
    *,
    auto: bool = False,
) -> tuple[Job, ...]:
    """The workload's jobs as policies see them; a type without a profile prefers no placement.

    A job without a priority has that of its queue, where there is a `sharing`. With `auto` sizes may be left
    to Stoker, and are the workload's; without, AutoSizeError names a job that leaves one.
    """
    if not auto:
        workload.check_sized()
    # Most jobs ask for as much as another one.
    sizes = {each: Resources.of(*each) for each in {(job.cpus, job.memory_mib) for job in workload.jobs}}
    known = {
        name: (
            profile.prefers,
            profile.spread,
            Rework(profile.rework.lost, profile.rework.drained),
            profile.curve,
        )
        for name, profile in profiles.items()
    }
    make = {
        name: _carrier(*known.get(name, (None, MEASURED_SPREAD, MEASURED_REWORK, None)))
        for name in {job.type for job in workload.jobs}
    }
    return tuple(
        make[job.type](
            job,
            id=job.name,
            size=Resources.of(job.cpus, job.memory_mib, job.resources)
            if job.resources
            else sizes[job.cpus, job.memory_mib],
            expected_duration=job.duration,
            dynamic=None
            if job.dynamic_min is None
            else Dynamic(job.dynamic_min, job.dynamic_initial or job.dynamic_min),
            after=tuple(map(After, job.after)),
            priority=sharing.priority_of(job.priority, job.queue) if sharing else job.priority or 0,
            deadline=None if job.deadline is None else job.submitted_at + job.deadline,
        )
        for job in workload.jobs
    )


def _carrier(
    prefers: Preference | None, spread: float, rework: Rework, curve: Curve | None
) -> Callable[..., Job]:
    """Factory for jobs of a workload's type, with defaults for fields that a workload does not set."""
    return carrier(
        Job,
        prefers=prefers,
        spread=spread,
        rework=rework,
        curve=curve,
        driver=None,
        spark="",
        client_driver="",
        unix_user="",
        max_runtime=None,
        max_cost=None,
        at_max_cost="keep",
        retries=0,
        pauses=USUAL_PAUSES,
        group="",
        array="",
        index=None,
        count=None,
        at_most=None,
        labels=(),
        spot_driver=False,
        unending_on=(),
        shape=None,
        memory_retry=False,
    )


def checked_vms(vms: Sequence[Vm]) -> tuple[Vm, ...]:
    """The VMs of a cluster; ValueError if there is none, or two have one name."""
    if not vms:
        raise ValueError("a cluster should have at least one VM")
    if len({vm.id for vm in vms}) < len(vms):
        raise ValueError("two VMs of the cluster have the same id")
    return tuple(vms)


def refusals(jobs: Sequence[Job], vms: Sequence[Vm]) -> dict[str, str]:
    """Jobs (by id) that could not run even on the empty cluster, with the reasons."""
    kinds: dict[tuple[object, ...], tuple[int, Job]] = {}  # most jobs ask for as much as another one
    of = np.array([kinds.setdefault(_asked(job), (len(kinds), job))[0] for job in jobs], np.int64)
    firsts = [job for _, job in kinds.values()]
    least = [smallest(job.size, job.min_cpus) for job in firsts]
    asked = {
        name: np.array([size.get(name) for size in least], np.int64)
        for name in {CPUS, *(name for job in firsts for name in job.size.thousandths)}
    }
    room = np.zeros(len(firsts), np.int64)
    of_kind = {vm.bars: vm for vm in vms}
    may = {key: np.array([not job.barred(vm) for job in firsts], np.int64) for key, vm in of_kind.items()}
    # Most VMs have as much as another one, too.
    for (had, key), count in Counter((vm.resources, vm.bars) for vm in vms).items():
        fits = (
            np.where(each > 0, had.get(name) // np.maximum(each, 1), np.iinfo(np.int64).max)
            for name, each in asked.items()
        )
        room += count * may[key] * reduce(np.minimum, fits)
    short = room < [job.fewest if job.dynamic is None else job.begins_with for job in firsts]
    found = {}
    for number in np.flatnonzero(short[of]).tolist():
        job = jobs[number]
        there = [vm for vm in vms if not job.barred(vm)]
        fewest = job.min_executors if job.dynamic is None else job.begins_with
        why = whole_cluster_shortfall(there, least[of[number]], job.executors, fewest)
        found[job.id] = why or nowhere(job.spot, vms, job.barred)
    return found


def _asked(job: Job) -> tuple[object, ...]:
    """Equal of jobs that fit the same clusters."""
    return id(job.size), job.min_cpus, job.uses, job.fewest, job.dynamic


def plain(jobs: Sequence[Job]) -> bool:
    """Whether these are gangs that run anywhere, of which the kernel, which counts whole MiB, knows all."""
    gangs = all(job.min_executors is None and job.min_cpus is None and job.dynamic is None for job in jobs)
    anywhere = all(job.driver is None and job.spot == "allowed" for job in jobs)
    sizes = {id(job.size): job.size for job in jobs}
    return gangs and anywhere and all(map(_whole, sizes.values()))


def _whole(size: Resources) -> bool:
    return size.thousandths.keys() == {*BASIC} and size.get(MEMORY) % THOUSANDTHS == 0


def episode_of(
    jobs: Sequence[Job],
    vms: Sequence[Vm],
    types: Sequence[str] = (),
    believed: Sequence[Job] | None = None,
    unknown: float = UNKNOWN_DURATION,
    keeping: IdleTimeout = BREAK_EVEN,
    seed: int = 0,
) -> Episode:
    """Jobs, in order of arrival and with the durations that they will have, and VMs as arrays.

    All fit the empty cluster: `refusals` names those that do not. `types` are the job types that
    observations tell apart. `believed` are the same jobs with an agent's beliefs about them; without it the
    truth. One of unknown duration is assumed to last for `unknown` seconds. `keeping` is the idle policy of
    pool VMs; by `seed` the times at which spot VMs are taken away are drawn.
    """
    numbers = {name: number for number, name in enumerate(types, 1)}
    machines = MachineArrays(
        milli_cpus=np.array([vm.resources.get(CPUS) for vm in vms], np.int64),
        memory_mib=np.array([vm.memory_mib for vm in vms], np.int64),
        price_per_hour=np.array([vm.price_per_hour for vm in vms], np.float64),
        leases=_leases(jobs, vms, keeping, seed),
    )
    executors = np.array([job.executors for job in jobs], np.int64)
    arrays = JobArrays(
        jobs=np.array(len(jobs), np.int64),
        believed=np.array(believed is not None, np.int64),
        unit_dollars=np.array(1.0),
        unit_seconds=np.array(1.0),
        arrival=np.array([job.submitted_at for job in jobs], np.float64),
        duration=np.array([_duration(job) for job in jobs], np.float64),
        expected=np.array([_expected(job, unknown) for job in believed or jobs], np.float64),
        spread=np.array([job.spread if believed else 0.0 for job in believed or jobs], np.float64),
        milli_cpus=np.array([job.size.get(CPUS) for job in jobs], np.int64),
        memory_mib=np.array([job.memory_mib for job in jobs], np.int64),
        executors=executors,
        prefers=np.array([PREFERENCES[job.prefers] for job in jobs], np.int64),
        type=np.array([numbers.get(job.type, 0) for job in jobs], np.int64),
        first=np.cumsum(executors) - executors,
    )
    return Episode(machines, arrays)


def _leases(jobs: Sequence[Job], vms: Sequence[Vm], keeping: IdleTimeout, seed: int) -> FloatArray:
    """The terms of pools, [N, L]; empty where there is none.

    The cost of an interruption is the mean of these jobs: the kernel does not tell them apart.
    """
    if all(vm.terms is None for vm in vms):
        return np.zeros((0, LEASE_COLUMNS))
    rows = np.zeros((len(vms), LEASE_COLUMNS))
    for number, (row, vm) in enumerate(zip(rows, vms, strict=True)):
        row[KEEP] = keeping.seconds_for(vm.terms)
        row[AS_CHARGED] = keeping.as_charged
        if vm.terms is not None:
            row[[BOOT, MINIMUM, GRANULARITY]] = vm.terms.boot, vm.terms.minimum, vm.terms.granularity
            if (spot := vm.terms.spot) is not None:
                row[RATE] = spot.interruptions_per_hour / SECONDS_PER_HOUR
                row[STREAM] = mix(mix(seed) + number) >> _STREAM_BITS
                row[DRAIN] = min(spot.notice, DRAIN_SECONDS)
                row[REWORK] = sum(job.rework.after(spot.notice) for job in jobs) / max(len(jobs), 1)
    return rows


def _expected(job: Job, unknown: float) -> float:
    return unknown if job.expected_duration is None else job.expected_duration


def _duration(job: Job) -> float:
    if job.expected_duration is None:
        raise ValueError(f"{job.id}: its duration is not known")
    return job.expected_duration
