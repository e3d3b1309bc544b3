"""Bodies of the HTTP API about policies, and the functions that make them.

Times are seconds since the epoch, money is dollars.
"""

import json
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from agents.registry import PolicyInfo
from conf.schema import PolicyChoice
from conf.util.copy_fields import carried
from daemon.core.estimate import Coverage
from daemon.core.shadow_comparison import ComparisonReport, ComparisonTotals, PricedComparison
from daemon.core.status import PolicyStatus, ShadowStatus
from daemon.schemas.base import Body, Said
from daemon.schemas.queries import Query


class OptionBody(Body):
    """An option of a policy."""

    name: str
    """Its key."""
    type: str
    """Type of its values, in Python's notation."""
    default: str | None
    """Default, in Python's notation; null when it is required."""


class PolicyInfoBody(Body):
    """A policy."""

    name: str
    """Its name, by which it is chosen."""
    summary: str
    """A description in a sentence."""
    options: list[OptionBody]
    """Its options."""


class PolicyList(Body):
    """Stoker's own policies."""

    policies: list[PolicyInfoBody]
    """A policy for each name."""


class ShadowBody(Body):
    """The shadow policy, with its statistics since it was set."""

    name: Said
    """Name of the policy."""
    options: dict[str, Any]
    """Its options."""
    compared: int
    """Its decisions beside the acting policy, since it was set."""
    different: int
    """Decisions that differ from the acting policy's."""
    missed: int
    """Decisions that it missed because it was busy."""
    faults: int
    """Decisions that failed, or could not be executed."""
    last_fault: Said
    """The error of the last one."""


class PromotionStatusBody(Body):
    """The last promotion, until a policy is set or the config names another one."""

    promoted: Said
    """The promoted policy."""
    earlier: Said
    """The policy that acted before."""
    at: float
    """Time of the promotion, seconds since the epoch."""
    seen: Said
    """Latest comparison of the two, in words; empty before the first."""
    taken_back: bool
    """Whether the earlier one acts again, as the promoted one was dearer over a day."""


class HeldBody(Body):
    """Number of times that the first 90 % interval for a job held the outcome."""

    within: int
    """Number of true values within the interval."""
    before: int
    """Number of true values below it."""
    after: int
    """Number of true values above it."""


class CoverageBody(Body):
    """Accuracy of the estimates of waiting jobs since the daemon's start."""

    start: HeldBody
    """Counts of starts."""
    end: HeldBody
    """Counts of ends."""
    cost: HeldBody
    """Counts of costs."""


class PolicyBody(Body):
    """The acting policy, and its statistics since the daemon's start."""

    name: Said
    """Name of the policy."""
    options: dict[str, Any]
    """Its options."""
    placed: int
    """Jobs placed since the daemon's start."""
    waited: int
    """Decisions to wait since then."""
    faults: int
    """Decisions since then that the fallback took instead."""
    last_fault: Said
    """The error of the last one."""
    fallback: Said | None
    """The fallback policy."""
    busy: float
    """Seconds since the start of a decision that timed out and still runs."""
    cut_short: int
    """Decisions since the daemon's start that the policy's own time limit cut short."""
    guarded: int
    """Decisions since then by the guard, for fitting jobs that had waited too long."""
    estimates: CoverageBody
    """Accuracy of the estimates of waiting jobs since then."""
    shadow: ShadowBody | None
    """The shadow policy, which decides without effect."""
    promotion: PromotionStatusBody | None
    """The last promotion; null without one."""


class ComparisonQuery(Query):
    """How much to list."""

    limit: Annotated[int, Field(ge=0, le=1000)] = 20
    """Maximum number of differences, latest first."""


class OutcomeBody(Body):
    """A policy's decision."""

    policy: Said
    """The deciding policy."""
    vms: dict[str, int] | None
    """Executors, by the name of the VM; null when it waits."""
    reason: Said
    """The decision in words."""
    price_per_hour: float
    """Price of the VMs that were empty before, dollars per hour."""
    cost: float | None
    """That price for the job's duration, dollars; null where the duration is unknown."""


class DifferenceBody(Body):
    """A decision on which two policies differ."""

    at: float
    """Time of the decision, seconds since the epoch."""
    job: str
    """The job's id."""
    duration: float | None
    """Seconds for which the job ran, or is expected to."""
    known_from: Literal["run", "profile", "nothing"]
    """Source of the duration."""
    acting: OutcomeBody
    """The acting policy's decision."""
    shadow: OutcomeBody
    """The shadow policy's decision."""


class TotalsBody(Body):
    """Sums over the decisions of two policies."""

    acting: Said
    """The acting policy."""
    shadow: Said
    """The shadow policy."""
    compared: int
    """Decisions taken by both."""
    different: int
    """Decisions that differ."""
    only_acting_placed: int
    """Decisions in which only the acting policy placed a job."""
    only_shadow_placed: int
    """Decisions in which only the shadow policy placed a job."""
    priced: int
    """Decisions in which both placed a job with a known duration."""
    acting_cost: float
    """Cost of the VMs newly used by the acting policy in the `priced` decisions, dollars."""
    shadow_cost: float
    """Cost of the VMs that the shadow policy would have newly used in the `priced` decisions, dollars."""
    acting_fallback_share: float | None
    """Share of failed decisions of the acting policy since it acts; null where another policy acts now.

    The fallback took them, and they count under the fallback's name, so its rows show the share as well.
    """
    shadow_fallback_share: float | None
    """The same share for the shadow policy; null where another policy is the shadow now."""


class ComparisonBody(Body):
    """Decisions of shadow policies, over the latest decisions.

    A cost is an estimate for one decision by itself: the price of the VMs that it takes into use, for as long
    as the job ran under the acting policy.
    """

    totals: list[TotalsBody]
    """Totals for each pair of policies."""
    differences: list[DifferenceBody]
    """Latest first."""


def policy_body(status: PolicyStatus, coverage: Coverage) -> PolicyBody:
    """The acting policy, with the accuracy of estimates. Options that JSON does not know appear as texts."""
    shadow = None if status.shadow is None else _shadow_body(status.shadow)
    promotion = None if status.promotion is None else carried(PromotionStatusBody, status.promotion)
    options = _options(status.options)
    held = {name: carried(HeldBody, getattr(coverage, name)) for name in ("start", "end", "cost")}
    return carried(
        PolicyBody,
        status,
        options=options,
        shadow=shadow,
        promotion=promotion,
        estimates=CoverageBody(**held),
    )


def policy_list(policies: Collection[PolicyInfo]) -> PolicyList:
    """The policies that there are."""
    return PolicyList(
        policies=[
            PolicyInfoBody(
                name=info.name,
                summary=info.summary,
                options=[carried(OptionBody, option) for option in info.options],
            )
            for info in policies
        ]
    )


def comparison_body(found: ComparisonReport, status: PolicyStatus) -> ComparisonBody:
    """Differences between policies; `status` has the present ones with their shares of faults."""
    return ComparisonBody(
        totals=[_totals_body(totals, status) for totals in found.totals],
        differences=[_difference_body(priced) for priced in found.differences],
    )


def _shadow_body(status: ShadowStatus) -> ShadowBody:
    return carried(ShadowBody, status, options=_options(status.options))


def _totals_body(totals: ComparisonTotals, status: PolicyStatus) -> TotalsBody:
    acts, shadow = totals.acting in (status.name, status.fallback), status.shadow
    looks_on = shadow is not None and _label(shadow) == totals.shadow
    return carried(
        TotalsBody,
        totals,
        acting_fallback_share=status.fallback_share if acts else None,
        shadow_fallback_share=shadow.fallback_share if shadow is not None and looks_on else None,
    )


def _label(shadow: ShadowStatus) -> str:
    return PolicyChoice.model_validate({**shadow.options, "name": shadow.name}).label


def _difference_body(priced: PricedComparison) -> DifferenceBody:
    comparison = priced.comparison
    return DifferenceBody(
        at=comparison.at,
        job=comparison.job_id,
        duration=priced.duration,
        known_from=priced.known_from,
        acting=carried(OutcomeBody, comparison.acting, cost=priced.acting_cost),
        shadow=carried(OutcomeBody, comparison.shadow, cost=priced.shadow_cost),
    )


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(dict(options), default=str), parse_constant=str)
    return plain
