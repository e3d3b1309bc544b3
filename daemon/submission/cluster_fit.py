"""Whether a job fits a cluster of the VMs that are there, or were of late, and the limits of its queue."""

from collections.abc import Callable, Mapping

from conf.schema import JobSpec
from daemon.core.errors import RejectedError
from daemon.launch.launcher import Launcher
from daemon.queues import queue_admission
from daemon.submission.new_job import expected_duration, rework_of, size_of
from environment.barred_vms import barred
from environment.decisions.feasibility import nowhere, whole_cluster_shortfall
from environment.decisions.sizing import smallest
from environment.model.vms.max_capacity import ONLY_SPOT, MaxCapacity, over_quota
from environment.queues.job_limits import all_queues, never, too_dear
from environment.queues.types import Most, Queues
from environment.resources import Resources, total
from environment.simulation.durations.endless_jobs import spot_terms, unending_on
from environment.types import Vm
from profiles.job_profile import JobProfile

#: For so many seconds a VM that is gone is taken for one that reboots: a job that fits only there may wait.
OF_LATE = 3600.0


class ClusterFit:
    """Checks jobs against the VMs that were noted last; `note` is for the scheduling loop."""

    def __init__(
        self,
        launcher: Launcher,
        profiles: Mapping[str, JobProfile],
        queues: Callable[[], Queues],
        over_all: Callable[[], Most],
        now: Callable[[], float],
    ) -> None:
        """`profiles` are those of job types; `queues` are those that there are now.

        `over_all` has the limits of each user over all of them.
        """
        self._launcher, self._profiles, self._queues, self._now = launcher, profiles, queues, now
        self._over_all = over_all
        #: The VMs that are there.
        self.there: tuple[Vm, ...] = ()
        #: Terms of those that their cloud may take away.
        self._spot = spot_terms(())
        #: The most that we may have in all, by Mesos' names of resources.
        self._quota = MaxCapacity().quota
        #: VMs that are not there any more, and when they were noted last, by name: they may be back soon.
        self._late: dict[str, tuple[Vm, float]] = {}

    def note(self, reach: MaxCapacity) -> None:
        """So much may be had."""
        self._quota, vms = reach.quota, reach.vms
        if vms is not self.there:
            self._note_late(vms)
            self.there, self._spot = vms, spot_terms(vms)

    def _note_late(self, vms: tuple[Vm, ...]) -> None:
        now, there = self._now(), {vm.name for vm in vms}
        late = {**self._late, **{vm.name: (vm, now) for vm in self.there}}
        self._late = {
            name: (vm, at) for name, (vm, at) in late.items() if name not in there and now - at < OF_LATE
        }

    @property
    def known_vms(self) -> tuple[Vm, ...]:
        """The VMs that are there, or were of late."""
        return (*self.there, *(vm for vm, _ in self._late.values()))

    def unending_on(self, spec: JobSpec) -> tuple[str, ...]:
        """The spot pools, by name, on which the job is believed never to end."""
        profile = self._profiles.get(spec.type)
        duration, rework = expected_duration(profile, spec), rework_of(profile)
        return unending_on(self._spot, duration, rework, spec.most_executors)

    def misfit(self, spec: JobSpec) -> RejectedError | None:
        """Why there is no cluster for the job, as far as is known; None when there may be."""
        queues, parts = self._queues(), self._needs(spec)
        needs = total(size * count for size, count in parts)
        line = (all_queues(self._over_all()), *(queues.line(spec.queue) if queues else ()))
        if over := never(line, needs):
            return RejectedError(422, "The job is over its queue's limits", over)
        if (over_all := over_quota(self._quota, needs)) is not None:
            return RejectedError(422, "The job is over the quota", over_all)
        if (shortfall := self._shortfall(spec)) is not None:
            return RejectedError(422, "The job fits no cluster of this size", shortfall)
        if over := too_dear(line, parts, self.known_vms):
            return RejectedError(422, "The job is over its queue's limits", over)
        return None

    def _needs(self, spec: JobSpec) -> list[tuple[Resources, int]]:
        """Least resources of the job: size and number of the executors; its driver if on the cluster."""
        executors = (smallest(size_of(spec), spec.fewest_cpus), spec.fewest_executors or spec.most_executors)
        driver = self._launcher.driver_size(spec)
        return [executors] if driver is None else [executors, (driver, 1)]

    def _shortfall(self, spec: JobSpec) -> str | None:
        """Why the job fits no cluster of the VMs that are or were there; None when it does."""
        vms, use = self.known_vms, queue_admission.spot_of(self._queues(), spec)
        size, unending = size_of(spec), self.unending_on(spec)

        def why(vm: Vm) -> str:
            return barred(vm.terms, "the job", use, unending, size)

        there = [vm for vm in vms if not why(vm)]
        if vms and not there:
            return nowhere(use, vms, why)
        least = smallest(size, spec.fewest_cpus)
        shortfall = whole_cluster_shortfall(there, least, spec.most_executors, spec.fewest_executors)
        driver = self._launcher.driver_size(spec)
        if shortfall is None and driver is not None:
            there = [vm for vm in vms if self._launcher.spot_driver(spec) or not vm.spot]
            shortfall = whole_cluster_shortfall(there, driver, 1) if there or not vms else ONLY_SPOT
        return shortfall
