"""Admission of a workload's jobs to a simulated cluster: those that could never run are refused up front."""

from collections.abc import Sequence

from conf.loader import ConfigError
from conf.util.counted import counted
from conf.util.gc_pause import uncollected
from environment.clusters.dollar_limits import affordable, known_pools
from environment.kernel.arrays import checked_vms, jobs_of, refusals
from environment.simulation.auto_jobs import AutoJobs
from environment.simulation.durations.endless_jobs import kept_off
from environment.simulation.durations.fitted_model import Pace
from environment.simulation.dynamic.stage_times import check_dynamic
from environment.simulation.episode import SimulatedEpisode
from environment.simulation.options import SimulationOptions, believed
from environment.simulation.world import World
from environment.types import Vm
from profiles.workloads.workload import Workload


@uncollected()
def admitted(
    workload: Workload, cluster: Sequence[Vm], options: SimulationOptions
) -> tuple[World, dict[str, str]]:
    """The world of the jobs that fit the empty cluster, and why which others do not.

    AutoSizeError where a size is left to Stoker that has no effect in the simulator, ConfigError for a limit
    per hour under which no VM is ever opened, a limit of a pool that does not exist, or jobs with dynamic
    allocation that cannot be simulated.
    """
    vms, jobs = checked_vms(cluster), jobs_of(workload, options.profiles, options.sharing, auto=True)
    pace = Pace(options.fitted, workload) if options.fitted else None
    if pace is not None:
        jobs = pace.best(jobs, len(vms))
    try:
        known_pools((*options.per_day, *options.per_month), vms)
        rooms = affordable(options.per_hour, vms)
    except ValueError as error:
        raise ConfigError(f"budget: {error}") from error
    jobs = tuple(map(options.allocated, jobs))
    check_dynamic(jobs, vms, options)
    auto = AutoJobs(workload, jobs, rooms, options, pace)
    jobs = tuple(job if job.id in auto else options.sizes.opened(job) for job in auto.jobs)
    jobs = kept_off(jobs, vms)
    fixed = [job for job in jobs if job.id not in auto]
    refused, *others = (refusals(fixed, room) for room in rooms)
    refused = {job_id: why for job_id, why in refused.items() if all(job_id in of for of in others)}
    if refused and len(rooms[0]) < len(vms):
        few = f" (with the {counted(len(rooms[0]), 'VM')} that may be open at once by dollars_per_hour)"
        refused = {job_id: why + few for job_id, why in refused.items()}
    refused |= auto.refused
    if any(vm.spot for vm in vms):
        told, _ = options.spot_belief.of(believed(jobs, options, pace), vms, options.seed)
        waits = refusals([job for job in told if job.id not in auto], vms)
        refused = {job_id: f"as it is believed, {why}" for job_id, why in waits.items()} | refused
    for job in jobs:
        if bad := [after.job for after in job.after if after.job in refused]:
            refused.setdefault(job.id, f"it comes after {bad[0]}, which is refused")
    jobs = tuple(job for job in jobs if job.id not in refused)
    return World(SimulatedEpisode(jobs, vms, options, pace, auto=auto)), refused
