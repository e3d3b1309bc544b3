"""A comparison on untuned ground: shifted cases, the policies, and rules that should hold.

`report.py` reports it; `shifted_cases.py` defines the cases; the simulator makes each run.
"""

import multiprocessing
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from statistics import fmean

from agents.bound.limits import limit_of
from agents.experiments.comparison import Contender, Progress
from agents.experiments.decisions.shifted_cases import case, few_gangs
from agents.registry import create
from environment.decisions.sizing import Sizes
from environment.simulation.durations.beliefs import EXACT, Belief
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate

#: Policies were chosen and trained on seeds below.
FIRST_SEED = 200
BELIEFS = (EXACT, Belief("sigma", 0.2))
#: First come, first served; then with jobs that may overtake, under the same window and bound as the others.
FIRST_COME = (Contender("ff"), Contender("aep"), Contender("ilp"))
PARTNERS = (
    *(Contender(name, {"overtake": "easy"}) for name in ("ff", "aep", "ilp")),
    *(Contender(name, {"overtake": "best"}) for name in ("ff", "aep")),
)
JUDGED = (
    Contender("greedy"),
    *(Contender(name, {"beta": beta}) for name in ("lookahead", "reinforce", "dqn") for beta in (0.5, 1.0)),
    Contender("ogasched"),
)
POLICIES = (*FIRST_COME, *PARTNERS, *JUDGED)
#: Judged on a few cases only, since it is eight times the work.
DRAWING = tuple(Contender("lookahead", {"beta": beta, "draws": 32}) for beta in (0.5, 1.0))
#: What a policy of `JUDGED` may cost more than the cheapest of `FIRST_COME`, and wait more than `ff`.
DEARER, LONGER = 1.05, 2.0
#: Sizes that are left open where they are free.
FREE = Sizes(floor=0.5)
#: Schedules searched through for the limit of a case.
_TRIES = 1000


@dataclass(frozen=True, slots=True)
class PolicyRun:
    """Results of one policy in a case: dollars, and seconds on average, at the longest and of one job."""

    case: str
    belief: str
    policy: str
    seed: int
    cost: float
    completion: float
    longest_wait: float
    duration: float


@dataclass(frozen=True, slots=True)
class CaseLimit:
    """Dollars that no schedule costs less than, those of the best known one, and whether that is proven."""

    case: str
    seed: int
    lower: float
    best: float
    proven: bool


@dataclass(frozen=True, slots=True)
class Mean:
    """Means over seeds of a policy in a case."""

    cost: float
    completion: float
    longest_wait: float
    duration: float


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """Rules that a policy breaks in a case, all against the policies that serve first come, first served.

    `dearer` and `later` are ratios to the cheapest of them, `longer` is the ratio of the longest wait to the
    permitted wait: twice that of `ff` plus one mean duration.
    """

    dearer: float
    later: float
    longer: float

    @property
    def worse_in_both(self) -> bool:
        """Whether it is worse in both cost and completion."""
        return self.dearer > 1.0 and self.later > 1.0

    @property
    def broken(self) -> tuple[str, ...]:
        """The rules that are broken, in short; empty when all hold."""
        found = ["both"] if self.worse_in_both else []
        found += [f"{100 * (self.dearer - 1):+.0f} %"] if self.dearer > DEARER else []
        return (*found, *([f"wait x {LONGER * self.longer:.1f}"] if self.longer > 1.0 else []))


@dataclass(frozen=True, slots=True)
class Task:
    """All policies in a case on a seed under a belief; `sizes` are free there, or not.

    Those of `DRAWING` take part if `drawing` is true.
    """

    case: str
    belief: Belief
    seed: int
    jobs: int | None = None
    sizes: bool = False
    limit: bool = False
    drawing: bool = False


def means(runs: Iterable[PolicyRun]) -> dict[str, dict[str, Mean]]:
    """Means by case and policy, in order of appearance."""
    grouped: dict[str, dict[str, list[PolicyRun]]] = {}
    for run in runs:
        grouped.setdefault(run.case, {}).setdefault(run.policy, []).append(run)
    return {
        name: {
            policy: Mean(
                fmean(run.cost for run in of),
                fmean(run.completion for run in of),
                fmean(run.longest_wait for run in of),
                fmean(run.duration for run in of),
            )
            for policy, of in policies.items()
        }
        for name, policies in grouped.items()
    }


def verdicts(of: "dict[str, Mean]", policies: Sequence[Contender] = JUDGED) -> dict[str, RuleVerdict]:
    """Whether the rules hold in one case, by policy."""
    first = of["ff"]
    cheapest = min((of[who.label] for who in FIRST_COME), key=lambda mean: mean.cost)
    longest = LONGER * first.longest_wait + first.duration
    return {
        who.label: RuleVerdict(
            of[who.label].cost / cheapest.cost,
            of[who.label].completion / cheapest.completion,
            of[who.label].longest_wait / longest,
        )
        for who in policies
    }


def play(
    tasks: Sequence[Task], progress: Progress | None = None, workers: int | None = None
) -> tuple[list[PolicyRun], list[CaseLimit]]:
    """Run them, in a process for each core; the order is that of the tasks."""
    context, runs, limits = multiprocessing.get_context("spawn"), [], []
    with ProcessPoolExecutor(workers or os.cpu_count() or 1, mp_context=context) as pool:
        # The largest first, so that nobody waits for one of them in the end.
        order = sorted(tasks, key=lambda task: not case(task.case).large)
        futures = {pool.submit(play_one, task): task for task in order}
        for done, future in enumerate(as_completed(futures), 1):
            task = futures[future]
            future.result()
            if progress is not None:
                progress(done, len(tasks), f"{task.case}, belief {task.belief}, seed {task.seed}")
        found = {task: future.result() for future, task in futures.items()}
    for task in tasks:
        runs += found[task][0]
        limits += found[task][1]
    return runs, limits


def play_one(task: Task) -> tuple[list[PolicyRun], list[CaseLimit]]:
    """All policies of one task, and the limit where it is wanted."""
    there = case(task.case)
    workload, vms = there.workload(task.seed, task.jobs), there.cluster()
    sizes = FREE if task.sizes else Sizes()
    options = SimulationOptions(belief=task.belief, seed=task.seed, sizes=sizes)
    runs = []
    for who in (*POLICIES, *(DRAWING if task.drawing else ())):
        result = simulate(create(who.name, who.options), workload, vms, options=options)
        runs.append(_run(task, who, result))
    limits = []
    if task.limit:
        limit = limit_of(workload, vms, tries=20 if there.large else _TRIES, seed=task.seed)
        limits.append(CaseLimit(task.case, task.seed, limit.lower, limit.best.cost, limit.proven))
    return runs, limits


def play_small(
    count: int, progress: Progress | None = None, workers: int | None = None
) -> tuple[list[PolicyRun], list[CaseLimit]]:
    """Small instances of a few gangs with exact beliefs, as they come and all at once, and their limits."""
    context = multiprocessing.get_context("spawn")
    runs: list[PolicyRun] = []
    limits: list[CaseLimit] = []
    with ProcessPoolExecutor(workers or os.cpu_count() or 1, mp_context=context) as pool:
        tasks = [
            Task(few_case(seed, at_once=way), EXACT, seed) for way in (False, True) for seed in range(count)
        ]
        for done, (found, limit) in enumerate(pool.map(play_few, tasks), 1):
            runs += found
            limits.append(limit)
            if progress is not None:
                progress(done, len(tasks), limit.case)
    return runs, limits


def few_case(seed: int, *, at_once: bool) -> str:
    """The name of the case of a few gangs."""
    return f"few gangs {'at once ' if at_once else ''}{seed}"


def play_few(task: Task) -> tuple[list[PolicyRun], CaseLimit]:
    """All policies on a few gangs, and their limit."""
    workload, vms = few_gangs(task.seed, at_once=task.case == few_case(task.seed, at_once=True))
    limit = limit_of(workload, vms)
    runs = []
    for who in POLICIES:
        options = SimulationOptions(belief=EXACT)
        result = simulate(create(who.name, who.options), workload, vms, options=options)
        runs.append(_run(task, who, result))
    return runs, CaseLimit(task.case, task.seed, limit.lower, limit.best.cost, limit.proven)


def _run(task: Task, who: Contender, result: Result) -> PolicyRun:
    waits = [job.started_at - job.submitted_at for job in result.jobs]
    return PolicyRun(
        task.case,
        str(task.belief),
        who.label,
        task.seed,
        result.cost,
        result.average_completion,
        max(waits, default=0.0),
        result.average_duration,
    )
