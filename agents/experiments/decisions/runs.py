"""A comparison on untuned ground: shifted cases, the policies, and rules that should hold.

`report.py` reports it; `shifted_cases.py` defines the cases; the simulator makes each run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.bound.limits import limit_of
from agents.experiments.comparison import Contender
from agents.experiments.decisions.shifted_cases import case, few_gangs
from agents.experiments.paired import PairedDifference, Statistic, difference
from agents.experiments.partners import PARTNERS, cheapest
from agents.experiments.runner import RunCall
from agents.experiments.seeded_workload import Draw, made_by
from agents.registry import create
from environment.decisions.sizing import Sizes
from environment.simulation.durations.beliefs import EXACT, Belief
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate

BELIEFS = (EXACT, Belief("sigma", 0.2))
JUDGED = (
    Contender("greedy"),
    *(Contender(name, {"beta": beta}) for name in ("lookahead", "reinforce", "dqn") for beta in (0.5, 1.0)),
    Contender("ogasched"),
)
POLICIES = (*PARTNERS, *JUDGED)
#: Judged on a few cases only, since it is more work.
DRAWING = tuple(Contender("lookahead", {"beta": beta, "draws": 32}) for beta in (0.5, 1.0))
#: The share by which a policy of `JUDGED` may be dearer than the cheapest partner, and how many times as long
#: its longest wait may be as that of `ff`.
DEARER, LONGER = 0.05, 2.0
#: Sizes that are left open where they are free.
FREE = Sizes(floor=0.5)
#: About how many times as long a case on hundreds of VMs takes.
_LARGE = 20
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


#: Results of a task, and its limit where it is wanted.
Played = tuple[list[PolicyRun], CaseLimit | None]


@dataclass(frozen=True, slots=True)
class CaseNumbers:
    """Numbers by seed of a policy in a case."""

    cost: Statistic
    completion: Statistic
    longest_wait: Statistic
    duration: Statistic


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """Rules for a policy in a case, against the cheapest of all partners there.

    `dearer` and `later` are differences to the cheapest partner in cost and completion; `longer` is that of
    the longest wait to the permitted one, `LONGER` times that of `ff` plus one mean duration.
    """

    partner: str
    dearer: PairedDifference
    later: PairedDifference
    longer: PairedDifference

    @property
    def rules(self) -> dict[str, bool | None]:
        """Whether each rule holds, by the text for where it does not; None where that is open."""
        return {
            "both": not_worse_in_both(self.dearer, self.later),
            f"{self.dearer}": self.dearer.at_most(DEARER),
            f"wait x {LONGER * (1 + self.longer.mean):.1f}": self.longer.at_most(0.0),
        }

    @property
    def broken(self) -> tuple[str, ...]:
        """Rules that are clearly broken."""
        return tuple(said for said, holds in self.rules.items() if holds is False)

    @property
    def open(self) -> bool:
        """Whether no rule is broken, but not all clearly hold."""
        return not self.broken and None in self.rules.values()


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


def numbers(runs: Iterable[PolicyRun]) -> dict[str, dict[str, CaseNumbers]]:
    """Numbers by seed of each policy in each case, in order of appearance."""
    grouped: dict[str, dict[str, list[PolicyRun]]] = {}
    for run in runs:
        grouped.setdefault(run.case, {}).setdefault(run.policy, []).append(run)
    return {
        name: {
            policy: CaseNumbers(
                Statistic({run.seed: run.cost for run in of}),
                Statistic({run.seed: run.completion for run in of}),
                Statistic({run.seed: run.longest_wait for run in of}),
                Statistic({run.seed: run.duration for run in of}),
            )
            for policy, of in policies.items()
        }
        for name, policies in grouped.items()
    }


def not_worse_in_both(cost: PairedDifference, completion: PairedDifference) -> bool | None:
    """Whether one of both is clearly no more; False where both are clearly more; None where that is open."""
    if cost.higher and completion.higher:
        return False
    return True if cost.at_most(0.0) or completion.at_most(0.0) else None


def verdicts(of: Mapping[str, CaseNumbers], policies: Sequence[Contender] = JUDGED) -> dict[str, RuleVerdict]:
    """Judgements of the rules in one case, by policy."""
    first, partner = of["ff"], cheapest({label: each.cost for label, each in of.items()})
    permitted = Statistic(
        {
            seed: LONGER * wait + first.duration.values[seed]
            for seed, wait in first.longest_wait.values.items()
        }
    )
    return {
        contender.label: RuleVerdict(
            partner,
            difference(of[contender.label].cost, of[partner].cost),
            difference(of[contender.label].completion, of[partner].completion),
            difference(of[contender.label].longest_wait, permitted),
        )
        for contender in policies
    }


def calls_of(tasks: Sequence[Task]) -> list[RunCall[Played]]:
    """Runs of all policies, and limits, of each task."""
    return [
        RunCall(
            play_one, (task,), f"{task.case}, belief {task.belief}, seed {task.seed}",
            _LARGE if case(task.case).large else 1,
        )
        for task in tasks
    ]  # fmt: skip


def play_one(task: Task) -> Played:
    """All policies of one task, and the limit where it is wanted."""
    there = case(task.case)
    workload, vms = there.workload(task.seed, task.jobs), there.cluster()
    options = there.options(task.belief, task.seed, FREE if task.sizes else Sizes())
    runs = []
    for contender in (*POLICIES, *(DRAWING if task.drawing else ())):
        result = simulate(create(contender.name, contender.options), workload, vms, options=options)
        runs.append(_run(task, contender, result))
    if not task.limit:
        return runs, None
    limit = limit_of(workload, vms, tries=20 if there.large else _TRIES, seed=task.seed, options=options)
    return runs, CaseLimit(task.case, task.seed, limit.lower, limit.best.cost, limit.proven)


def few_tasks(seeds: Iterable[int]) -> list[Task]:
    """Small instances of a few gangs with exact beliefs, as they come and all at once."""
    numbers_of = tuple(seeds)
    return [Task(few_case(seed, at_once=way), EXACT, seed) for way in (False, True) for seed in numbers_of]


def few_calls_of(tasks: Sequence[Task]) -> list[RunCall[Played]]:
    """Runs of all policies, and limits, of small instances."""
    return [RunCall(play_few, (task,), task.case) for task in tasks]


def draws(tasks: Sequence[Task], small: Sequence[Task]) -> Iterator[Draw]:
    """Draws of all tasks."""
    for task in tasks:
        yield from case(task.case).workload.draws(task.seed, task.jobs)
    for task in small:
        yield made_by("few_gangs", task.seed)


def few_case(seed: int, *, at_once: bool) -> str:
    """The name of the case of a few gangs."""
    return f"few gangs {'at once ' if at_once else ''}{seed}"


def play_few(task: Task) -> Played:
    """All policies on a few gangs, and their limit."""
    workload, vms = few_gangs(task.seed, at_once=task.case == few_case(task.seed, at_once=True))
    limit = limit_of(workload, vms)
    runs = []
    for contender in POLICIES:
        options = SimulationOptions(belief=EXACT)
        result = simulate(create(contender.name, contender.options), workload, vms, options=options)
        runs.append(_run(task, contender, result))
    return runs, CaseLimit(task.case, task.seed, limit.lower, limit.best.cost, limit.proven)


def _run(task: Task, contender: Contender, result: Result) -> PolicyRun:
    waits = [job.started_at - job.submitted_at for job in result.jobs]
    return PolicyRun(
        task.case,
        str(task.belief),
        contender.label,
        task.seed,
        result.cost,
        result.average_completion,
        max(waits, default=0.0),
        result.average_duration,
    )
