"""Two policies on the same decision: the difference, and the cost of each choice by itself.

The estimate is a narrow one. A decision occupies VMs that were empty before; it costs their price for as long
as the job ran (or is expected to). The shadow's choice is priced on the cluster that the acting policy made,
and as if the job had run there just as long; the shadow's results on a cluster of its own are a question for
the simulator.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from conf.units import SECONDS_PER_HOUR
from environment.decisions.decision_round import Verdict
from environment.model.messages.records import JobRecord
from environment.types import Place


@dataclass(frozen=True, slots=True)
class Outcome:
    """A policy's decision: executors by VM, or None when it waits, with the reason.

    `price_per_hour` (dollars) is that of the VMs that held no executor before.
    """

    policy: str
    vms: Mapping[str, int] | None
    reason: str
    price_per_hour: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One decision (seconds since the epoch) as two policies took it."""

    at: float
    job_id: str
    acting: Outcome
    shadow: Outcome

    @property
    def differs(self) -> bool:
        """Whether an executor would be elsewhere. Executors of a job are alike, so only numbers count."""
        return self.acting.vms != self.shadow.vms


@dataclass(frozen=True, slots=True)
class PricedComparison:
    """A comparison with the dollars of each side; None for one that waits, or while no duration is known.

    `duration` (seconds) is the job's own once it has finished, else the one that its profile expects.
    """

    comparison: Comparison
    duration: float | None
    known_from: Literal["run", "profile", "nothing"]
    acting_cost: float | None
    shadow_cost: float | None


@dataclass(slots=True)
class ComparisonTotals:
    """Sums over decisions that two policies took on the same views; dollars over those with two prices."""

    acting: str
    shadow: str
    compared: int = 0
    different: int = 0
    only_acting_placed: int = 0
    only_shadow_placed: int = 0
    priced: int = 0
    acting_cost: float = 0.0
    shadow_cost: float = 0.0


@dataclass(slots=True)
class ComparisonReport:
    """Everything that is kept: totals for each pair of policies, and the latest differences, newest first."""

    totals: list[ComparisonTotals] = field(default_factory=list)
    differences: list[PricedComparison] = field(default_factory=list)


def outcome_of(verdict: Verdict, policy: str) -> Outcome:
    """Convert the policy's verdict to an outcome."""
    decision, view = verdict.decision, verdict.view
    if not isinstance(decision, Place):
        return Outcome(policy, None, decision.reason, 0.0)
    vms: dict[str, int] = {}
    for index in sorted(decision.placement):
        vms[view.vms[index].name] = vms.get(view.vms[index].name, 0) + 1
    opened = [index for index in set(decision.placement) if not view.executors[index]]
    price = sum(view.vms[index].price_per_hour for index in opened)
    return Outcome(policy, vms, "", price)


def report(found: Iterable[tuple[Comparison, JobRecord]], limit: int) -> ComparisonReport:
    """Sum up comparisons, which come newest first, and list the first `limit` that differ."""
    made, pairs = ComparisonReport(), dict[tuple[str, str], ComparisonTotals]()
    for comparison, job in found:
        priced = _price(comparison, job)
        pair = comparison.acting.policy, comparison.shadow.policy
        _add(pairs.setdefault(pair, ComparisonTotals(*pair)), priced)
        if comparison.differs and len(made.differences) < limit:
            made.differences.append(priced)
    made.totals = list(pairs.values())
    return made


def _price(comparison: Comparison, job: JobRecord) -> PricedComparison:
    duration, known_from = _duration(job)

    def cost(outcome: Outcome) -> float | None:
        if outcome.vms is None or duration is None:
            return None
        return outcome.price_per_hour * duration / SECONDS_PER_HOUR

    return PricedComparison(
        comparison, duration, known_from, cost(comparison.acting), cost(comparison.shadow)
    )


def _duration(job: JobRecord) -> tuple[float | None, Literal["run", "profile", "nothing"]]:
    if job.state == "finished" and job.started_at is not None and job.finished_at is not None:
        return job.finished_at - job.started_at, "run"
    expected = job.job.expected_duration
    return (None, "nothing") if expected is None else (expected, "profile")


def _add(totals: ComparisonTotals, priced: PricedComparison) -> None:
    comparison = priced.comparison
    totals.compared += 1
    totals.different += comparison.differs
    acts, shadows = comparison.acting.vms is not None, comparison.shadow.vms is not None
    totals.only_acting_placed += acts and not shadows
    totals.only_shadow_placed += shadows and not acts
    if priced.acting_cost is not None and priced.shadow_cost is not None:
        totals.priced += 1
        totals.acting_cost += priced.acting_cost
        totals.shadow_cost += priced.shadow_cost
