"""Single changes that save, of an application's settings or of the cluster, each with its error."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from audit.applications import Executor
from audit.prices import Prices
from audit.savings.commitment import PlanSaving, best_plan
from audit.savings.job_runs import JobRun
from audit.savings.plays import NINETY, DollarRange, Played
from audit.savings.scenarios import Scenario
from audit.savings.shapes import BetterShape, better_shapes
from audit.savings.types import JobType
from conf.util.counted import counted
from profiles.shapes.choice import TENTH

Kind = Literal[
    "dynamic allocation", "fewer executors", "less memory", "another shape", "skew", "cluster", "commitment"
]
#: Number of changes that are shown first.
MOST = 10
#: Chosen: memory beyond the most that was used, and steps of the setting, MiB.
_SPARE, _STEP = 1.3, 256
#: Spark's own part beside the heap, as in audit.executor_memory.
_OVERHEAD, _LEAST_OVERHEAD = 0.10, 384
#: Numbers of executors that are tried, as shares of the present one, the first of equal ones counts: of two
#: executors a quarter and a half are both one. How much longer it may take.
_SHARES = (0.75, 0.5, 0.25)
_LONGEST = 1.5
#: Error of durations at other sizes than those that ran, which no log shows: as in docs/results/fidelity.md.
_OTHER_SIZE = 0.079
#: A task of that many times its stage's mean is skewed; it is taken to come down to twice the mean.
_SKEWED, _EVEN = 4.0, 2.0
#: A change that saves less of its application's cost is none; or that of all, for a cluster.
_WORTH = 0.02


@dataclass(frozen=True, slots=True)
class Change:
    """A change, and what it saves on the logged applications."""

    kind: Kind
    #: The application, or the scenario.
    subject: str
    #: Dollars, and the interval that should hold 90 of 100 values.
    saving: DollarRange
    #: Share of the present cost that it changes.
    share: float
    #: Median held-out error of the durations that it rests on; None: a single run, not checked.
    error: float | None
    #: Number of runs that it changes.
    runs: int
    #: Requirements in words, and the commands to type.
    needs: str
    command: str
    #: How many times longer an application takes then.
    slower: float = 1.0

    @property
    def title(self) -> str:
        """The change in few words."""
        return self.subject if self.kind in ("cluster", "commitment") else f"{self.subject}: {self.kind}"


@dataclass(frozen=True, slots=True)
class _Saved:
    """What one change saves on one run: dollars, and bounds of what the log leaves open."""

    dollars: float
    least: float
    most: float


def changes(
    types: Mapping[str, JobType], played: Sequence[Played], prices: Prices, error: float | None
) -> list[Change]:
    """All changes worth having, the largest first. They exclude or overlap each other: no sum is meant.

    `error` is the median held-out error of all types, shown beside changes of the cluster.
    """
    found = [change for each in types.values() for change in _of_type(each, prices)]
    for name, better in better_shapes(types, prices).items():
        change = _another_shape(types[name], better)
        if change.saving.middle > _WORTH * types[name].dollars:
            found.append(change)
    cost = sum(each.dollars for each in types.values())
    share = prices.table.commitment_share
    runs = (run for each in types.values() for run in each.runs)
    plan = None if share is None else best_plan(runs, share, prices.is_on_demand)
    if plan is not None and plan.saving.middle > _WORTH * cost:
        found.append(_commitment(plan, cost, sum(len(of.runs) for of in types.values())))
    for each in played:
        if not each.failed and not each.refused and cost and each.saving.middle > _WORTH * cost:
            found.append(_of_cluster(each, cost, error, sum(len(of.runs) for of in types.values())))
    return sorted(found, key=lambda change: (-change.saving.middle, change.subject, change.kind))


def _commitment(plan: PlanSaving, cost: float, runs: int) -> Change:
    paid, price = f"{plan.dollars_per_hour:.2f}", f"{plan.share:.0%} of the price"
    return Change(
        "commitment",
        "a savings plan",
        plan.saving,
        plan.saving.middle / cost,
        plan.error,
        runs,
        f"${paid} an hour for VMs at {price} on demand, used or not, and a load that goes on like in these "
        f"{counted(plan.days, 'day')}; other changes make it smaller",
        f"in a daemon's config: commitments: {{plan: {{type: TYPE, dollars_per_hour: {paid}, discount: "
        f"{1 - plan.share:.2f}, since: YYYY-MM-DD, until: YYYY-MM-DD}}}}",
    )


def _of_cluster(played: Played, cost: float, error: float | None, runs: int) -> Change:
    scenario = played.scenario
    options = f"--policy {scenario.policy} --keep {scenario.keep}"
    options += f" --sizes {scenario.sizes}" if scenario.sizes else ""
    return Change(
        "cluster",
        scenario.name,
        played.saving,
        played.saving.middle / cost,
        error,
        runs,
        f"{scenario.needs} ({_configured(scenario)})",
        "stoker audit LOGS --write-workload jobs.csv --write-profiles types.yaml --write-cluster vms.yaml "
        f"--scenario '{scenario.name}' && stoker simulate --workload jobs.csv --profiles types.yaml "
        f"--cluster {scenario.cluster_name or 'vms.yaml'} {options}",
        played.slower,
    )


def _configured(scenario: Scenario) -> str:
    """What a daemon's config has for it."""
    name, _, seconds = scenario.keep.partition(":")
    keep = f"keep: {{name: {name}{f', seconds: {seconds}' if seconds else ''}}}"
    sizes = f", sizes: {{{scenario.sizes.replace('=', ': ')}}}" if scenario.sizes else ""
    return f"in a daemon's config: policy: {scenario.policy}, {keep}{sizes}, profiles: types.yaml"


def _of_type(of: JobType, prices: Prices) -> Iterable[Change]:
    for change in (_dynamic(of), _fewer(of), _less_memory(of, prices), _less_skew(of)):
        if change is not None and change.saving.middle > _WORTH * of.dollars:
            yield change


def _change(
    kind: Kind, of: JobType, saved: Sequence[_Saved], needs: str, command: str, slower: float = 1.0
) -> Change:
    """The change of a type: bounds of its runs' logs, widened by the type's error."""
    middle = sum(each.dollars for each in saved)
    wide = math.exp(NINETY * of.sigma)
    low, high = sum(each.least for each in saved) / wide, sum(each.most for each in saved) * wide
    return Change(
        kind,
        of.name,
        DollarRange(middle, min(low, middle), min(max(high, middle), of.dollars)),
        middle / of.dollars if of.dollars else 0.0,
        of.error,
        len(saved),
        needs,
        command,
        slower,
    )


def _rates(run: JobRun) -> list[float]:
    """Dollars a second of each executor."""
    pairs = zip(run.cost.executors, run.application.executors, strict=True)
    return [dollars / executor.seconds if executor.seconds else 0.0 for dollars, executor in pairs]


def _dynamic(of: JobType) -> Change | None:
    """Executors that are idle for a minute go, and come again, which takes a start each time.

    At least what is idle after an executor's last task is saved: others may hold shuffle data.
    """
    runs = [run for run in of.runs if not run.application.dynamic and not _local(run)]
    saved = []
    for run in runs:
        all_of_it = least = most = 0.0
        for rate, executor in zip(_rates(run), run.application.executors, strict=True):
            idle = executor.idle
            start = executor.use.start / executor.cores if executor.cores else 0.0
            again = min(idle.between, idle.times * start)
            all_of_it += rate * (idle.after + idle.between - again)
            least += rate * idle.after
            most += rate * (idle.after + idle.between)
        saved.append(_Saved(all_of_it, min(least, all_of_it), most))
    if not saved:
        return None
    return _change(
        "dynamic allocation",
        of,
        saved,
        "executors that are idle for 60 s are released, and requested again when tasks wait",
        "--conf spark.dynamicAllocation.enabled=true "
        "--conf spark.dynamicAllocation.shuffleTracking.enabled=true "
        "--conf spark.dynamicAllocation.executorIdleTimeout=60s",
    )


def _fewer(of: JobType) -> Change | None:
    """The cheapest share of its executors with which it takes at most half as long again."""
    found = [change for share in _SHARES if (change := fewer_executors(of, share)) is not None]
    return max(
        (change for change in found if change.slower <= _LONGEST),
        key=lambda change: change.saving.middle,
        default=None,
    )


def fewer_executors(of: JobType, share: float) -> Change | None:
    """The change to this share of its executors, at least one, worthwhile or not.

    None where no run has two executors.
    """
    runs = [run for run in of.runs if run.executors > 1]
    if not runs:
        return None
    saved, counts, after = [], [], 0.0
    wide = math.exp(NINETY * math.hypot(of.sigma, _OTHER_SIZE))
    for run in runs:
        count = max(1, round(run.executors * share))
        seconds, cost = run.seconds_on(count * run.cpus), run.cost.total
        then = cost * count * (run.ahead + seconds) / (run.executors * (run.ahead + run.seconds))
        saved.append(_Saved(cost - then, cost - then * wide, cost - then / wide))
        counts.append(count)
        after += seconds
    slower = after / sum(run.seconds for run in runs)
    usual = sorted(counts)[len(counts) // 2]
    # Both settings: the first counts without dynamic allocation, the second with it.
    command = f"--conf spark.executor.instances={usual} --conf spark.dynamicAllocation.maxExecutors={usual}"
    needs = f"{share:.0%} of its executors: it takes {slower:.2f} times as long"
    change = _change("fewer executors", of, saved, needs, command, slower)
    low, high = sum(each.least for each in saved), sum(each.most for each in saved)
    return replace(change, saving=DollarRange(change.saving.middle, low, high))


def _less_memory(of: JobType, prices: Prices) -> Change | None:
    """Memory of the most that any of its executors used, with a reserve, where that makes them cheaper."""
    runs = [run for run in of.runs if not _local(run)]
    peaks = [e.peak.total_mib for run in runs for e in run.application.executors if e.peak is not None]
    tasked = sum(1 for run in runs for e in run.application.executors if e.use.work > 0)
    if not peaks or len(peaks) < tasked:
        return None
    heap = math.ceil(max(peaks) * _SPARE / _STEP) * _STEP
    memory = heap + max(math.ceil(heap * _OVERHEAD), _LEAST_OVERHEAD)
    saved = [_Saved(dollars, dollars, dollars) for run in runs if (dollars := _cheaper(run, memory, prices))]
    if not saved:
        return None
    return _change(
        "less memory",
        of,
        saved,
        f"executors of {heap} MiB, more of them on a VM: none used more than {max(peaks):.0f} MiB",
        f"--conf spark.executor.memory={heap}m",
    )


def _cheaper(run: JobRun, memory: int, prices: Prices) -> float:
    """Dollars by which its executors are cheaper with so many MiB."""

    def rate(executor: Executor) -> float:
        less = prices.per_hour_with_memory(run.application, executor, min(memory, executor.memory_mib))
        return prices.per_hour(run.application, executor) - less

    return sum(rate(executor) * executor.seconds / 3600 for executor in run.application.executors)


def _another_shape(of: JobType, better: BetterShape) -> Change:
    """One shape for all runs that kept their executors, by the model's interval of seconds."""
    # From the ends of an interval of 80 % to those of one of 90 %.
    wide = better.factor ** (NINETY / TENTH)
    saved = [
        _Saved(
            run.cost.total * (1 - ratio),
            run.cost.total * (1 - ratio * wide),
            run.cost.total * (1 - ratio / wide),
        )
        for run, ratio in zip(better.runs, better.ratios, strict=True)
    ]
    shape, middle = better.ranked.shape, sum(each.dollars for each in saved)
    memory = round(shape.memory_gib * 1024)
    heap = math.floor(min(memory / (1 + _OVERHEAD), memory - _LEAST_OVERHEAD))
    size = f"{counted(shape.cores, 'core')} and {shape.memory_gib:g} GiB on VMs of {shape.vm}"
    return Change(
        "another shape",
        of.name,
        DollarRange(middle, sum(each.least for each in saved), sum(each.most for each in saved)),
        middle / of.dollars if of.dollars else 0.0,
        better.error,
        len(saved),
        f"{counted(shape.executors, 'executor')} of {size}: it takes {better.slower:.2f} times as long",
        f"--conf spark.executor.instances={shape.executors} --conf spark.executor.cores={shape.cores:g} "
        f"--conf spark.executor.memory={heap}m",
        better.slower,
    )


def _less_skew(of: JobType) -> Change | None:
    """Stages whose executors wait for one task, if that took twice the stage's mean."""
    saved, worst, where = [], 0.0, ""
    for run in of.runs:
        groups = run.groups
        even = np.where(groups.longest > _SKEWED * groups.mean, _EVEN * groups.mean, groups.longest)
        bound = np.maximum(groups.least(groups.cores), 1e-9)
        shorter = groups.seconds * (1 - groups.least(groups.cores, even) / bound)
        total = min(float(shorter.sum()), run.seconds)
        dollars = run.cost.total * total / run.seconds
        saved.append(_Saved(dollars, 0.0, dollars))
        if len(shorter) and float(shorter.max()) > worst:
            at = int(shorter.argmax())
            worst, stage = float(shorter.max()), run.application.stages[int(groups.stage[at])]
            where = (
                f"stage {stage.stage} ({stage.name}): its longest task took {stage.longest_task:.0f} s, "
                f"the mean {stage.task_seconds / stage.tasks:.1f} s of {stage.tasks}"
            )
    if not where:
        return None
    return _change(
        "skew",
        of,
        saved,
        f"an even division of the data, by hand or by Spark SQL; executors wait for one task of {where}",
        "--conf spark.sql.adaptive.enabled=true --conf spark.sql.adaptive.skewJoin.enabled=true",
    )


def _local(run: JobRun) -> bool:
    """Whether it ran in its driver, which has no executors to change."""
    return all(executor.id == "driver" for executor in run.application.executors)
