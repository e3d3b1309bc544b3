"""Judges by paired plays whether a policy may replace the acting one, and whether it is taken back.

Both policies play the same recorded jobs on the same draws of their durations. Data in, data out:
`daemon/what_if/promotions.py` requests the plays and acts on the judgements.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.experiments.paired import PairedDifference, Statistic, difference
from conf.schema import PolicyChoice
from conf.util.counted import counted

#: Number of ended jobs below which a period is not judged.
LEAST_JOBS = 20
#: Seconds between a promotion and its first verdict, and between two verdicts.
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class PolicyRuns:
    """Plays of recorded jobs under one policy: dollars, and mean completion in seconds, by draw.

    `fallback_share` is the share of its decisions that failed; `never` has the ids of jobs that would not
    run, `failure` the reason why there are no plays.
    """

    dollars: Mapping[int, float] = field(default_factory=dict)
    completion: Mapping[int, float] = field(default_factory=dict)
    fallback_share: float = 0.0
    never: Collection[str] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True)
class PairedRuns:
    """By which shares one policy is above another in cost and completion; `trouble` where that is unknown."""

    cost: PairedDifference | None = None
    completion: PairedDifference | None = None
    trouble: str = ""


def paired(one: PolicyRuns, other: PolicyRuns) -> PairedRuns:
    """Differences of `one` to `other` over the draws that both finished."""
    if failure := one.failure or other.failure:
        return PairedRuns(trouble=failure)
    draws = sorted(one.dollars.keys() & other.dollars.keys())
    if not draws:
        return PairedRuns(trouble="no draw was finished under both policies")

    def over(first: Mapping[int, float], second: Mapping[int, float]) -> PairedDifference:
        one, other = (Statistic({draw: each[draw] for draw in draws}) for each in (first, second))
        return difference(one, other)

    return PairedRuns(over(one.dollars, other.dollars), over(one.completion, other.completion))


def why_not(candidate: PolicyRuns, acting: PolicyRuns) -> str:
    """Reason why the candidate may not replace the acting policy; empty where it may.

    It may when it is clearly cheaper, its mean completion is not clearly later, it failed no decision, and
    every job runs that would run under the acting policy.
    """
    found = paired(candidate, acting)
    if found.cost is None or found.completion is None:
        return f"not simulated: {found.trouble}"
    if candidate.fallback_share:
        share = max(100.0 * candidate.fallback_share, 0.1)
        return f"it failed {share:.1f} % of its decisions; see fallback in docs/policies.md"
    if stuck := sorted({*candidate.never} - {*acting.never}):
        return f"{counted(len(stuck), 'job')} would never run under it: {stuck[0]}"
    if not found.cost.enough:
        return f"not judged: {counted(found.cost.pairs, 'draw')} finished, {found.cost.least} needed"
    if not found.cost.lower:
        return f"not {'clearly ' if found.cost.mean < 0 else ''}cheaper: {shares(found.cost)}"
    return f"later: mean completion {shares(found.completion)}" if found.completion.higher else ""


def shares(found: PairedDifference) -> str:
    """A difference in percent with its standard error, without a mark."""
    return str(found).removesuffix("*")


@dataclass(frozen=True, slots=True)
class Promotion:
    """A promoted policy that is watched: `judged_at` is the time of the last verdict, or of the promotion.

    `seen` is the latest comparison in words. Times are seconds since the epoch.
    """

    promoted: PolicyChoice
    earlier: PolicyChoice
    at: float
    judged_at: float
    seen: str = ""
    taken_back: bool = False

    def since(self, now: float) -> float:
        """Start of the period that is compared: the last day, since the promotion."""
        return max(self.at, now - DAY)

    def due(self, now: float) -> bool:
        """Whether a comparison made now is a verdict."""
        return now >= self.judged_at + DAY

    def plain(self) -> dict[str, Any]:
        """As values of JSON, for `of`."""
        choices = {"promoted": self.promoted, "earlier": self.earlier}
        return {
            **{key: choice.model_dump(mode="json") for key, choice in choices.items()},
            "at": self.at,
            "judged_at": self.judged_at,
            "seen": self.seen,
            "taken_back": self.taken_back,
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Promotion":
        """Read the values of `plain`."""
        choices = {key: PolicyChoice(**plain[key]) for key in ("promoted", "earlier")}
        return cls(**{**plain, **choices})


def is_worse(promoted: PolicyRuns, earlier: PolicyRuns) -> bool:
    """Whether the promoted policy is clearly dearer than the earlier one."""
    cost = paired(promoted, earlier).cost
    return cost is not None and cost.higher
