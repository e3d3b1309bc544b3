"""A workload on a cluster as numbers, a schedule as a value, and a schedule's cost by the kernel's rules.

The rules are those of the simulator: a job starts when all its executors are placed, stays where it is, and
takes longer by a factor where its placement is not the one its type prefers; a VM costs its price while it
holds an executor (Islam 2022, eq. 4). `configurations`, `exact` and `offline` compute the limits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conf.units import SECONDS_PER_HOUR
from environment.kernel import rules
from environment.kernel.arrays import checked_vms, episode_of, jobs_of, refusals
from environment.kernel.durations import is_good
from environment.kernel.rule_options import DurationOptions, RewardOptions
from environment.kernel.rule_options import rules as numbers_of
from environment.kernel.state import PREFERENCES, make_batch
from environment.resource_arrays import ResourceArrays
from environment.simulation.options import SimulationOptions
from environment.types import FloatArray, IntArray, Job, Vm
from profiles.workloads.workload import Workload

#: Seconds by which sums of times may be off.
CLOSE = 1e-6
_SHRINK = "jobs that get less than they ask for take fewer core-seconds, so no limit is known"


class BoundError(ValueError):
    """An input without a known limit; the text names it."""


@dataclass(frozen=True, slots=True)
class Instance:
    """Jobs in order of arrival with their demands, and VMs, as arrays; make one with `instance_of`.

    Amounts are thousandths of each of the R resources that any job requests, durations and arrivals are
    seconds, prices are dollars per second.
    """

    jobs: tuple[Job, ...]
    vms: tuple[Vm, ...]
    resources: tuple[str, ...]
    size: IntArray  # [M, R] of one executor
    capacity: IntArray  # [N, R]
    executors: IntArray  # [M]
    arrival: FloatArray  # [M]
    duration: FloatArray  # [M] when placed well
    prefers: IntArray  # [M] ANYWHERE, SPREAD or CONSOLIDATE
    price: FloatArray  # [N]
    penalty: float
    #: Of how many executors of a job there is room on each empty VM, [M, N], no more than it has.
    room: IntArray

    def good(self, job: int, vms: int) -> bool:
        """Whether the job's executors on `vms` different VMs are placed as it prefers."""
        return bool(is_good(int(self.prefers[job]), int(self.executors[job]), vms))

    def seconds(self, job: int, vms: int) -> float:
        """Duration of the job there."""
        return float(self.duration[job]) * (1.0 if self.good(job, vms) else self.penalty)

    def shortest(self, job: int) -> float:
        """The least that it can take on this cluster: longer, where no VMs are as it prefers."""
        most = int(self.room[job].max())
        executors = int(self.executors[job])
        spread = int((self.room[job] > 0).sum()) >= executors
        return min(
            self.seconds(job, vms)
            for vms, possible in ((1, most >= executors), (executors, spread), (0, True))
            if possible
        )


@dataclass(frozen=True, slots=True)
class OfflineSchedule:
    """Start of each job of an instance, seconds, and the VM of each of its executors, by index."""

    starts: tuple[float, ...]
    placements: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class ScheduleCost:
    """Cost of a schedule in dollars (eq. 4), and mean seconds from submission to end of its jobs."""

    cost: float
    completion: float


def instance_of(
    workload: Workload, cluster: Sequence[Vm], options: SimulationOptions | None = None
) -> Instance:
    """Build the instance of a workload on a cluster, as it would be simulated.

    BoundError for pools and for jobs that may run on fewer executors, since other rules determine their
    costs.
    """
    options = options or SimulationOptions()
    if any(job.auto for job in workload.jobs):
        raise BoundError("sizes that are left to Stoker (auto) depend on the policy; no limit is known")
    vms, jobs = checked_vms(cluster), jobs_of(workload, options.profiles)
    if options.fitted is not None:
        raise BoundError(
            "durations of a fitted model depend on the jobs that share a VM; no limit is known for them"
        )
    if any(vm.terms is not None for vm in vms):
        raise BoundError("the cluster has pools, whose VMs are billed while they are open; no limit is known")
    if options.sizes.floor < 1.0:
        raise BoundError(f"{_SHRINK} (sizes: floor {options.sizes.floor:g})")
    for job in jobs:
        if job.min_cpus is not None and job.min_cpus < job.cpus:
            raise BoundError(f"{job.id} leaves its cpus open; {_SHRINK}")
        if job.min_executors is not None and job.min_executors < job.executors:
            raise BoundError(f"{job.id} may run on fewer executors; a limit holds only for gangs")
    refused = refusals(jobs, vms)
    jobs = tuple(job for job in jobs if job.id not in refused)
    if not jobs:
        raise BoundError("no job of the workload fits the cluster")
    names = tuple(sorted({name for job in jobs for name in job.size.thousandths}))
    size = np.array([[job.size.get(name) for name in names] for job in jobs], np.int64)
    capacity = np.array([[vm.resources.get(name) for name in names] for vm in vms], np.int64)
    executors = np.array([job.executors for job in jobs], np.int64)
    empty = ResourceArrays.of([vm.resources for vm in vms], names)
    room = np.array([np.minimum(empty.room(job.size), job.executors) for job in jobs], np.int64)
    return Instance(
        jobs=jobs,
        vms=vms,
        resources=names,
        size=size,
        capacity=capacity,
        executors=executors,
        arrival=np.array([job.submitted_at for job in jobs]),
        duration=np.array([job.expected_duration for job in jobs], np.float64),
        prefers=np.array([PREFERENCES[job.prefers] for job in jobs], np.int64),
        price=np.array([vm.price_per_hour for vm in vms]) / SECONDS_PER_HOUR,
        penalty=options.durations.penalty if options.durations.model == "paper" else 1.0,
        room=room,
    )


def play(instance: Instance, schedule: OfflineSchedule) -> ScheduleCost:
    """Compute the cost of a schedule by the kernel's rules; BoundError where it breaks one.

    Jobs start at the schedule's times, independent of events; in a policy's schedule they start at events.
    """
    order = sorted(range(len(instance.jobs)), key=lambda job: schedule.starts[job])
    batch = make_batch(
        [episode_of([instance.jobs[job] for job in order], instance.vms)],
        numbers_of(RewardOptions(), DurationOptions(penalty=instance.penalty)),
    )
    rules.reset(batch, 0)
    free = instance.capacity.astype(np.int64).copy()
    running: list[tuple[float, int]] = []
    for number, job in enumerate(order):
        start, placement = schedule.starts[job], schedule.placements[job]
        if start < instance.arrival[job] - CLOSE or len(placement) != instance.executors[job]:
            raise BoundError(f"{instance.jobs[job].id}: starts before it is there, or not with all executors")
        for end, other in [each for each in running if each[0] <= start + CLOSE]:
            np.add.at(free, list(schedule.placements[other]), instance.size[other])
            running.remove((end, other))
        np.add.at(free, list(placement), -instance.size[job])
        if (free < 0).any():
            raise BoundError(f"{instance.jobs[job].id}: has no room at {start:g} s")
        rules.advance(batch, 0, start)
        rules.place_job(batch, 0, np.array(placement, np.int32))
        running.append((float(batch.state.end[0, number]), job))
    rules.finish(batch, 0)
    cost = float(batch.state.used[0, : len(instance.vms)] @ instance.price)
    ends = batch.state.end[0, : len(order)]
    return ScheduleCost(cost, float((ends - instance.arrival[order]).mean()))
