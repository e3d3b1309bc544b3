"""Orders of jobs with policies: workloads of users, clusters, and the results of each run.

`report.py` reports them; the simulator makes each run, and `fairness` measures its fairness.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.experiments.comparison import Contender
from agents.experiments.paired import LEAST_PAIRS, LEAST_WINDOWS
from agents.experiments.runner import RunCall, Runner
from agents.experiments.seed_register import SeedRange, refuse_used
from agents.experiments.seeded_workload import SeededWorkload
from agents.registry import create
from conf.schema.sharing import QueueSpec
from conf.schema.workload import Deadlines, Facebook, Mix, Poisson, User, WorkloadSpec
from environment.clusters.cluster_files import load_cluster
from environment.queues.types import Queues, Sharing, queues_of
from environment.simulation.options import SimulationOptions
from environment.simulation.results.fairness import fairness
from environment.simulation.simulator import simulate

#: About how many times as long a run takes as one of the paper's densities.
_HEAVY = {"crowd": 20, "Facebook day": 20}
ORDERS: Mapping[str, Sharing | None] = {
    "none": None,
    "fair": Sharing(("fair",)),
    "fair, overtaking free": Sharing(("fair",), overtaken_at_most=128),
    "deadline": Sharing(("deadline",)),
    "shortest": Sharing(("shortest",)),
    "priority, fair": Sharing(("priority", "fair")),
}
POLICIES = tuple(Contender(name) for name in ("ff", "aep", "greedy", "reinforce", "lookahead"))


@dataclass(frozen=True, slots=True)
class SharingScene:
    """Users' jobs on a cluster; `queues` defines their weights, `seeds` the largest number of seeds."""

    name: str
    cluster: str
    workload: SeededWorkload
    queues: Queues
    orders: tuple[str, ...] = tuple(ORDERS)
    policies: tuple[str, ...] = tuple(contender.name for contender in POLICIES)
    seeds: int = 100
    #: How many of the deadlines are to be met here in their order, in per cent; None: nothing is aimed at.
    aim: float | None = None

    @property
    def least(self) -> int:
        """How many pairs of runs judge a difference here."""
        return min(LEAST_PAIRS, self.seeds)


@dataclass(frozen=True, slots=True)
class SharingRun:
    """Results of one run: numbers by name, seconds and dollars."""

    scene: str
    order: str
    policy: str
    seed: int
    numbers: Mapping[str, float]


_WEIGHTS = {"ann": 4.0, "bob": 2.0, "cleo": 1.0, "dan": 1.0}
_TEAMS = queues_of({name: QueueSpec(weight=weight) for name, weight in _WEIGHTS.items()})
_DUE = Deadlines(slack=(2.0, 8.0))
#: Deadlines of jobs whose results are needed soon, and of others.
_TIGHT, _LOOSE = (1.5, 3.0), (10.0, 30.0)


def _users(**of: User) -> dict[str, User]:
    """Users with queues of their names."""
    return {name: user.model_copy(update={"queue": name}) for name, user in of.items()}


def scenes() -> tuple[SharingScene, ...]:
    """All that are compared."""
    mix = Mix(deadlines=_DUE, priorities={0: 4.0, 10: 1.0})
    small = Mix(cpus=(1, 4), executors=(1, 4), deadlines=_DUE, priorities={0: 4.0, 10: 1.0})
    # The user with the least weight submits most: without an order that user has most of the cluster.
    unequal = _users(ann=User(share=1.0), bob=User(share=1.0), cleo=User(share=1.0), dan=User(share=3.0))
    loaded = _users(
        **{name: User(cores=cores) for name, cores in zip(_WEIGHTS, (19, 19, 19, 20), strict=True)}
    )
    crowd = _users(
        **{name: User(cores=300.0, mix=small) for name in ("ann", "bob", "cleo")},
        dan=User(at_once=400, mix=small),
    )
    tight, loose = (small.model_copy(update={"deadlines": Deadlines(slack=s)}) for s in (_TIGHT, _LOOSE))
    crowds = _users(
        ann=User(cores=14.0, mix=tight),
        bob=User(cores=14.0, mix=tight),
        cleo=User(cores=12.0, mix=loose),
        dan=User(cores=9.0, mix=loose),
    ) | {f"dan-{after}": User(queue="dan", at_once=40, after=after, mix=loose) for after in (900, 4500)}
    normal = WorkloadSpec(jobs=50, arrivals=Poisson(kind="poisson", jobs_per_hour=50), mix=mix, users=unequal)
    burst = WorkloadSpec(
        jobs=100, arrivals=Poisson(kind="poisson", jobs_per_hour=600), mix=mix, users=unequal
    )
    day = WorkloadSpec(jobs=5892, arrivals=Facebook(kind="facebook", window="day"), mix=mix, users=unequal)
    quick = ("ff", "aep", "greedy")
    return (
        SharingScene("normal", "paper", SeededWorkload(normal), _TEAMS),
        SharingScene("burst", "paper", SeededWorkload(burst), _TEAMS),
        SharingScene(
            "80 % load", "paper", SeededWorkload(WorkloadSpec(jobs=150, mix=small, users=loaded)), _TEAMS,
            ("none", "deadline", "shortest", "fair"), aim=95.0,
        ),
        SharingScene(
            "80 % load, crowds", "paper", SeededWorkload(WorkloadSpec(jobs=240, mix=small, users=crowds)),
            _TEAMS,
            ("none", "deadline", "shortest", "fair"), aim=95.0,
        ),
        SharingScene(
            "crowd", "hundred", SeededWorkload(WorkloadSpec(jobs=1000, mix=small, users=crowd)), _TEAMS,
            ("none", "fair", "fair, overtaking free"), quick,
        ),
        SharingScene(
            "Facebook day", "hundred", SeededWorkload(day), _TEAMS, ("none", "fair"), quick[::2],
            LEAST_WINDOWS,
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Task:
    scene: str
    order: str
    policy: str
    seed: int
    jobs: int | None


def play(seeds: SeedRange, runner: Runner, jobs: int | None = None) -> list[SharingRun]:
    """Every order with every policy in every scene, on the same seeds."""
    places = scenes()
    refuse_used(
        draw
        for scene in places
        for seed in seeds.at_most(scene.seeds)
        for draw in scene.workload.draws(seed, jobs)
    )
    tasks = [
        _Task(scene.name, order, policy, seed, jobs)
        for scene in places
        for order in scene.orders
        for policy in scene.policies
        for seed in seeds.at_most(scene.seeds)
    ]
    return runner.run(
        [
            RunCall(
                play_one,
                (task,),
                f"{task.scene}, {task.order}, {task.policy}, seed {task.seed}",
                _HEAVY.get(task.scene, 1),
            )
            for task in tasks
        ]
    )


def play_one(task: _Task) -> SharingRun:
    """One order with one policy in one scene on one seed."""
    scene = next(scene for scene in scenes() if scene.name == task.scene)
    order = ORDERS[task.order]
    sharing = None if order is None else _with(order, scene.queues)
    workload = scene.workload(task.seed, task.jobs)
    options = SimulationOptions(seed=task.seed, sharing=sharing)
    result = simulate(create(task.policy), workload, load_cluster(scene.cluster), options=options)
    until = workload.jobs[-1].submitted_at
    found = fairness(result, scene.queues, between=(0.0, until or result.makespan))
    due = found.in_time + found.late
    numbers = {
        "jain": found.jain,
        "furthest": found.furthest,
        "slowdown": _mean([job.completion / job.duration for job in result.jobs]),
        "worst": max(party.slowdown for party in found.parties),
        "completion": result.average_completion,
        "wait": result.longest_wait,
        "met": 100.0 * found.in_time / due if due else 100.0,
        "cost": result.cost,
    }
    return SharingRun(task.scene, task.order, task.policy, task.seed, numbers)


def _with(order: Sharing, queues: Queues) -> Sharing:
    return Sharing(order.order, overtaken_at_most=order.overtaken_at_most, queues=queues)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
