"""True and believed durations of a job in a simulation, on its placement.

The kernel defines its start and end; `beliefs` defines the belief before its placement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from environment.kernel.durations import is_good
from environment.kernel.state import PAPER, Batch, SmallIntArray
from environment.resources import Resources
from environment.simulation.durations.fitted_model import Pace
from environment.simulation.options import SimulationOptions
from environment.types import Job
from environment.view import RunningJob


class JobTimes:
    """Seconds of the jobs of one episode."""

    def __init__(
        self,
        batch: Batch,
        truth: Mapping[str, Job],
        running: Mapping[int, RunningJob],
        options: SimulationOptions,
        pace: Pace | None,
    ) -> None:
        """`truth` has the jobs by id with their true durations; `running` is read only, by number."""
        self._batch, self._truth, self._running = batch, truth, running
        self._options, self._pace = options, pace

    def mean(self, job: Job, sizes: Sequence[Resources], placement: SmallIntArray) -> float | None:
        """Mean seconds of a job about to be placed, with the VMs' present load; None without a pace."""
        if self._pace is None:
            return None
        used = np.unique(placement)
        free = self._batch.state.free_milli_cpus[0, used] / self._batch.machines.milli_cpus[0, used]
        return self._pace.seconds(job, sizes, len(used), float(np.mean(1.0 - free)))

    def real(self, job: Job, sizes: tuple[Resources, ...], mean: float | None, whole: float | None) -> float:
        """Seconds that it really takes: its mean and luck; without a mean `whole`, else by its sizes."""
        if mean is not None and self._pace is not None:
            return mean * self._pace.luck(job)
        return seconds_on(job, sizes, self._options) if whole is None else whole

    def placed(self, number: int, seconds: float, mean: float | None, placement: SmallIntArray) -> float:
        """The seconds with the penalty for a bad placement, where the kernel does not add it itself."""
        rules, prefers = self._batch.rules, int(self._batch.jobs.prefers[0, number])
        known = mean is not None or rules.duration_model != PAPER
        good = known or is_good(prefers, len(placement), len(np.unique(placement)))
        return seconds if good else seconds * float(rules.penalty)

    def alone(self, number: int, sizes: Sequence[Resources], vm_ids: Sequence[str]) -> float:
        """Seconds that a running job really takes alone on executors of these sizes, well placed."""
        job = self._truth[self._running[number].job.id]
        if self._pace is not None:
            return self._pace.seconds(job, sizes, len(set(vm_ids)), 0.0)
        return seconds_on(job, tuple(sizes), self._options)

    def expected(
        self, job: Job, number: int, sizes: tuple[Resources, ...], vms: int, mean: float | None
    ) -> float | None:
        """Believed seconds of a job that has just started, on its placement.

        By the daemon's rule, from the belief about the job, regardless of the true cost of bad placements; by
        a fitted model where that predicts the effect of placement and company.
        """
        if self._options.belief.exact:
            return float(self._batch.state.end[0, number] - self._batch.state.start[0, number])
        if mean is None or self._pace is None or self._options.as_daemon or job.expected_duration is None:
            return job.expected_on(sizes, vms)
        # Without luck, which would show in the last bits; there is none where no mean is known.
        best = self._pace.mean(job) or self._truth[job.id].expected_duration
        return mean * job.expected_duration / best if best else job.expected_on(sizes, vms)


def seconds_on(job: Job, sizes: tuple[Resources, ...], options: SimulationOptions) -> float:
    """Seconds that a job takes on executors of these sizes, if it has its expected duration on its own."""
    profile = options.profiles.get(job.type)
    if profile is None or options.durations.partial == "proportional" or job.expected_duration is None:
        return replace(job, curve=None).duration_on(sizes) or 0.0
    cpus, memory_mib = [size.cpus for size in sizes], sum(size.memory_mib for size in sizes)
    asked = profile.duration(job.cpus, job.memory_mib, job.executors)
    return job.expected_duration * profile.duration_on(sum(cpus), memory_mib, min(cpus)) / asked
