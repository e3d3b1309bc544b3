"""Cost of the best schedule of a workload, exact or as an interval: the reference for policies.

The schedule knows all jobs and their demands, and starts them at any time, so no policy that grants jobs
their full requests costs less. A policy that grants less can: its jobs take fewer core-seconds then, and no
limit holds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agents.bound.configurations import lower_bound
from agents.bound.exact import MOST_JOBS, NODES, solve
from agents.bound.instance import Instance, OfflineSchedule, ScheduleCost, instance_of, play
from agents.bound.offline import aim_for, search
from environment.simulation.options import SimulationOptions
from environment.simulation.results.lower_bound import perfect_packing_bound
from environment.types import Vm
from profiles.workloads.workload import Workload

Told = Callable[[int, int, str], None]

#: Schedules that are searched through by default: no more than this, and fewer of larger workloads, so that
#: it takes about as long. Chosen: a quarter of a minute.
_TRIES, _WORK = 20_000, 2.4e9


@dataclass(frozen=True, slots=True)
class Limit:
    """Limits found for a workload on a cluster; dollars, and mean seconds from submission to end.

    No schedule costs less than `lower`; `schedule` is the best known one for `beta`, and `best` its cost.
    With `proven` no better one exists, and for a beta of 1 `lower` is its cost.
    """

    beta: float
    packing: float
    lower: float
    best: ScheduleCost
    schedule: OfflineSchedule
    proven: bool
    instance: Instance

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        instance, schedule = self.instance, self.schedule
        return {
            "beta": self.beta,
            "packing_bound": self.packing,
            "lower_bound": self.lower,
            "best": {"cost": self.best.cost, "average_completion": self.best.completion},
            "proven": self.proven,
            "schedule": [
                {"job": job.id, "started_at": at, "vms": [instance.vms[vm].name for vm in placement]}
                for job, at, placement in zip(
                    instance.jobs, schedule.starts, schedule.placements, strict=True
                )
            ],
        }


def small(workload: Workload) -> bool:
    """Whether the workload has so few jobs that its optimum can be expected to be found at once."""
    return len(workload) <= MOST_JOBS


def limit_of(
    workload: Workload,
    cluster: Sequence[Vm],
    *,
    beta: float = 1.0,
    tries: int | None = None,
    nodes: int = NODES,
    seed: int = 0,
    options: SimulationOptions | None = None,
    told: Told | None = None,
) -> Limit:
    """Compute the limit of a workload on a cluster for beta x cost + (1 - beta) x completion, each scaled.

    `tries` is the number of schedules searched, `nodes` the number of nodes of a proof. BoundError for inputs
    without a known limit.
    """
    instance = instance_of(workload, cluster, options)
    aim = aim_for(instance, beta)
    schedule, found = search(instance, aim, tries or tries_for(instance), seed, told)
    optimum = solve(instance, aim, schedule, aim.of(found), nodes)
    proven = optimum is not None and optimum.proven
    if optimum is not None:
        schedule = optimum.schedule
    best = play(instance, schedule)
    lower = best.cost if proven and beta == 1.0 else lower_bound(instance, told)
    packing = perfect_packing_bound(instance.jobs, instance.vms)
    return Limit(beta, packing, lower, best, schedule, proven, instance)


def tries_for(instance: Instance) -> int:
    """Default number of schedules to search."""
    return min(max(int(_WORK / (len(instance.jobs) ** 2 * len(instance.vms))), 20), _TRIES)
