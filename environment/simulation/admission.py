"""Admission of a workload's jobs to a simulated cluster: those that could never run are refused up front."""

from collections.abc import Sequence

from conf.util.gc_pause import uncollected
from environment.kernel.arrays import checked_vms, jobs_of, refusals
from environment.simulation.auto_jobs import AutoJobs
from environment.simulation.durations.endless_jobs import kept_off
from environment.simulation.durations.fitted_model import Pace
from environment.simulation.options import SimulationOptions
from environment.simulation.world import World
from environment.types import Vm
from profiles.workloads.workload import Workload


@uncollected()
def admitted(
    workload: Workload, cluster: Sequence[Vm], options: SimulationOptions
) -> tuple[World, dict[str, str]]:
    """The world of the jobs that fit the empty cluster, and why which others do not.

    AutoSizeError where a size is left to Stoker that the simulator knows no effect of.
    """
    vms, jobs = checked_vms(cluster), jobs_of(workload, options.profiles, options.sharing, auto=True)
    pace = Pace(options.fitted, workload) if options.fitted else None
    if pace is not None:
        jobs = pace.best(jobs, len(vms))
    auto = AutoJobs(workload, jobs, vms, options, pace)
    jobs = tuple(job if job.id in auto else options.sizes.opened(job) for job in auto.jobs)
    jobs = kept_off(jobs, vms)
    refused = refusals([job for job in jobs if job.id not in auto], vms) | auto.refused
    for job in jobs:
        if bad := [after.job for after in job.after if after.job in refused]:
            refused.setdefault(job.id, f"it comes after {bad[0]}, which is refused")
    jobs = tuple(job for job in jobs if job.id not in refused)
    return World(jobs, vms, options, pace, auto=auto), refused
