"""Seconds of a job's stages on a number of cores, by their shapes. Pure arithmetic."""

from collections.abc import Sequence

from conf.loader import ConfigError
from environment.simulation.options import SimulationOptions
from environment.types import Job, Vm
from profiles.job_profile import JobProfile, StageShape

#: Of a core: a stage with tasks has at least so much to run them on.
_LEAST_CORES = 1e-3
#: Of a duration: so much of it is at least that of the stages.
_LEAST_BUSY = 0.05


def check_dynamic(jobs: Sequence[Job], vms: Sequence[Vm], options: SimulationOptions) -> None:
    """Raise ConfigError where a job with dynamic allocation cannot be simulated."""
    dynamic = [job for job in jobs if job.dynamic is not None]
    if not dynamic:
        return
    for job in {job.type: job for job in reversed(dynamic)}.values():  # the first one of each type
        profile = options.profiles.get(job.type)
        if profile is None or seconds_on(profile.stages, 1.0) <= 0:
            raise ConfigError(
                f"{job.id}: dynamic_min: the profile of its type {job.type} has no stages; "
                "`stoker audit LOGS --write-profiles FILE` writes them"
            )
    beside = {
        "durations of a fitted model": options.fitted is not None,
        "spot VMs": any(vm.spot for vm in vms),
        "losses": bool(options.losses),
        "executors that are moved": bool(options.consolidation),
        "preemption": options.sharing is not None and bool(options.sharing.preemption.by),
    }
    if bad := [name for name, there in beside.items() if there]:
        raise ConfigError(f"{dynamic[0].id}: dynamic_min: goes without {' and '.join(bad)} in a simulation")


def seconds_on(stages: Sequence[StageShape], cores: float) -> float:
    """Seconds of all stages, one after the other, on so many cores that are there all the time."""
    return sum(stage.pause + _busy_seconds(stage, cores) for stage in stages)


def _busy_seconds(stage: StageShape, cores: float) -> float:
    at_once = max(min(cores, stage.width), _LEAST_CORES)
    return max(stage.longest, stage.warming + stage.work / at_once)


def first_start(profile: JobProfile) -> float:
    """Seconds from the start of a job until its first executors can run tasks.

    With a fixed number of executors the driver waits for them before its first stage, with dynamic
    allocation that waits.
    """
    return max(profile.startup - profile.stages[0].pause, 0.0)


def stages_of(job: Job, profile: JobProfile) -> tuple[StageShape, ...]:
    """The stages of its type, in proportion to its duration.

    On all its executors they take that, together with the start of these.
    """
    factor = _longer(job, profile)
    return tuple(
        stage.model_copy(
            update={
                "pause": factor * stage.pause,
                "work": factor * stage.work,
                "warming": factor * stage.warming,
                "longest": factor * stage.longest,
            }
        )
        for stage in profile.stages
    )


def core_seconds_of(job: Job, profile: JobProfile) -> float:
    """Core-seconds of the tasks of its stages, on any number of executors."""
    return _longer(job, profile) * sum(stage.work for stage in profile.stages)


def _longer(job: Job, profile: JobProfile) -> float:
    """Factor of its times on those of its type's stages."""
    duration = job.expected_duration or 0.0
    busy = max(duration - first_start(profile), _LEAST_BUSY * duration)
    return busy / seconds_on(profile.stages, job.executors * job.cpus)
