"""Lower bound on the cost of any schedule of a workload on a cluster."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from conf.units import SECONDS_PER_HOUR
from environment.types import Job, Vm


def perfect_packing_bound(
    jobs: Sequence[Job], vms: Sequence[Vm], partial: Mapping[str, float] = MappingProxyType({})
) -> float:
    """Dollars below which no schedule can stay: every used core at the lowest price.

    Sum over jobs of cpus x executors x shortest duration x the lowest price per core. On fewer cores a job
    wastes less of them during its serial part: `partial` has the core-seconds, by id, of jobs that were
    given less than they ask for, and the lesser of the two counts.
    """
    core_seconds = 0.0
    for job in jobs:
        asked = job.cpus * job.executors * (job.expected_duration or 0.0)
        core_seconds += min(asked, partial.get(job.id, asked))
    return core_seconds * min(vm.price_per_hour / vm.cpus for vm in vms) / SECONDS_PER_HOUR
