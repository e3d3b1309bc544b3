"""Predicted savings of fewer executors beside real ones: the audit sees only the runs before the change."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agents.experiments.paired import standard_error
from audit.costs import costs_of
from audit.names import type_of
from audit.prices import Prices
from audit.savings.changes import changes, fewer_executors
from audit.savings.job_runs import job_runs
from audit.savings.plays import DollarRange
from audit.savings.real_runs import AuditedRun
from audit.savings.types import job_types, median_error


@dataclass(frozen=True, slots=True)
class SavingCase:
    """A type of jobs with fewer executors, predicted and run; dollars are those of one run, on average."""

    type: str
    #: Executors before and after the change.
    executors: int
    fewer: int
    rounds: int
    #: Dollars before the change.
    cost: float
    predicted: DollarRange
    #: Median held-out error of durations; None: not checked.
    error: float | None
    #: Mean over rounds of the difference of two runs, and its standard error; infinite for one round.
    saving: float
    saving_error: float
    #: How many times longer the type takes: predicted, and really.
    slower: float
    real_slower: float
    #: Share of the task seconds that remain, as fewer executors warm up: predicted, and really.
    work: float
    real_work: float
    #: Whether the audit lists the change among those worth having.
    listed: bool

    @property
    def inside(self) -> bool:
        """Whether the real saving lies in the predicted interval."""
        return self.predicted.low <= self.saving <= self.predicted.high


@dataclass(frozen=True, slots=True)
class RealSavings:
    """All cases, and the types without one, each with the reason."""

    cases: tuple[SavingCase, ...]
    left_out: tuple[str, ...]

    @property
    def inside(self) -> int:
        """Number of cases with a real saving in the predicted interval."""
        return sum(case.inside for case in self.cases)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values; an error that is not known is null."""
        listed = []
        for case in self.cases:
            known = case.saving_error if case.rounds > 1 else None
            listed.append({**asdict(case), "saving_error": known, "inside": case.inside})
        return {"inside": self.inside, "cases": listed, "left_out": list(self.left_out)}


def real_savings(runs: Sequence[AuditedRun], prices: Prices) -> RealSavings:
    """Predict each changed size from the logs of all runs before the change, and compare.

    PriceError for an executor without a price.
    """
    before = [run for run in runs if run.before]
    logged = job_runs(costs_of([run.application for run in before], prices).each, prices)
    types = job_types(logged)
    listed = changes(types, (), prices, median_error(types))
    cases, left_out = list[SavingCase](), list[str]()
    for name, share in dict.fromkeys((run.type, run.share) for run in runs if not run.before):
        own = {run.round: run for run in before if run.type == name}
        changed = {run.round: run for run in runs if (run.type, run.share) == (name, share)}
        rounds = sorted(own.keys() & changed.keys())
        of = types.get(type_of(own[rounds[0]].application.name)) if rounds else None
        change = None if of is None else fewer_executors(of, share)
        if change is None:
            why = "its runs had one executor most of the time" if rounds else "no round has both sizes"
            left_out.append(f"{name}: {why}")
            continue
        pairs = [(own[number], changed[number]) for number in rounds]
        costs = [(cost_of(one, prices), cost_of(other, prices)) for one, other in pairs]
        saved = [cost - less for cost, less in costs]
        predicted = change.saving
        cases.append(
            SavingCase(
                type=name,
                executors=pairs[0][0].executors,
                fewer=pairs[0][1].executors,
                rounds=len(pairs),
                cost=statistics.fmean(cost for cost, _ in costs),
                predicted=DollarRange(
                    *(each / change.runs for each in (predicted.middle, predicted.low, predicted.high))
                ),
                error=change.error,
                saving=statistics.fmean(saved),
                saving_error=standard_error(saved),
                slower=change.slower,
                real_slower=sum(other.application.seconds for _, other in pairs)
                / sum(one.application.seconds for one, _ in pairs),
                work=1.0
                - (1.0 - share) * _stages(pairs, 0, "warming_seconds") / _stages(pairs, 0, "task_seconds"),
                real_work=_stages(pairs, 1, "task_seconds") / _stages(pairs, 0, "task_seconds"),
                listed=change in listed,
            )
        )
    return RealSavings(tuple(cases), tuple(left_out))


def _stages(pairs: Sequence[tuple[AuditedRun, AuditedRun]], side: int, name: str) -> float:
    """The sum of an amount over all stages of one side."""
    found: float = sum(getattr(stage, name) for pair in pairs for stage in pair[side].application.stages)
    return found


def cost_of(run: AuditedRun, prices: Prices) -> float:
    """Dollars of a run, by the audit of its log."""
    return costs_of([run.application], prices).total.total
