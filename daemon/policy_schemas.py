"""The bodies of the HTTP API's answers about who decides, and how they are made.

Bodies about jobs and the cluster are in `schemas`. Times are seconds since the epoch, money is dollars.
"""

import json
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from agents.registry import PolicyInfo
from daemon.comparison import Priced, Report
from daemon.contract import PolicyStatus, ShadowStatus
from daemon.schemas import Body, Query, Said, fields_of


class OptionBody(Body):
    """An option of a policy; `default` is null when it must be given."""

    name: str
    type: str
    default: str | None


class PolicyInfoBody(Body):
    """A policy that there is."""

    name: str
    summary: str
    options: list[OptionBody]


class PolicyList(Body):
    """The policies that come with Stoker."""

    policies: list[PolicyInfoBody]


class ShadowBody(Body):
    """A policy that looks on, and since it was set: decisions compared, missed (it was busy) and faulty."""

    name: Said
    options: dict[str, Any]
    compared: int
    different: int
    missed: int
    faults: int
    last_fault: Said


class PolicyBody(Body):
    """Who decides, and since the start: decisions, and how many had to be replaced by the fallback's.

    `busy`: seconds for which the policy has been at a decision that was taken from it, as it took too long.
    """

    name: Said
    options: dict[str, Any]
    placed: int
    waited: int
    faults: int
    last_fault: Said
    fallback: Said | None
    busy: float
    shadow: ShadowBody | None


class ComparisonQuery(Query):
    """How many differences to list, the latest first."""

    limit: Annotated[int, Field(ge=0, le=1000)] = 20


class OutcomeBody(Body):
    """What a policy decided: executors by VM, null when it waits (for that reason).

    `price_per_hour` is that of the VMs that held nothing before; `cost` is that for as long as the job ran.
    """

    policy: Said
    vms: dict[str, int] | None
    reason: Said
    price_per_hour: float
    cost: float | None


class DifferenceBody(Body):
    """A decision that two policies took otherwise; `duration` is known from the job's run, or its profile."""

    at: float
    job: str
    duration: float | None
    known_from: Literal["run", "profile", "nothing"]
    acting: OutcomeBody
    shadow: OutcomeBody


class TotalsBody(Body):
    """Sums over the decisions that two policies took; costs over the `priced` ones that both placed."""

    acting: Said
    shadow: Said
    compared: int
    different: int
    only_acting_placed: int
    only_shadow_placed: int
    priced: int
    acting_cost: float
    shadow_cost: float


class ComparisonBody(Body):
    """How shadow policies would have decided, over the latest decisions.

    A cost is an estimate for one decision by itself: the price of the VMs that it takes into use, for as long
    as the job ran under the acting policy.
    """

    totals: list[TotalsBody]
    differences: list[DifferenceBody]


def policy_body(status: PolicyStatus) -> PolicyBody:
    """Who decides. Options that JSON does not know are shown as texts."""
    shadow = None if status.shadow is None else _shadow_body(status.shadow)
    options = _options(status.options)
    return PolicyBody(**fields_of(status, PolicyBody, options=options, shadow=shadow))


def policy_list(policies: Collection[PolicyInfo]) -> PolicyList:
    """The policies that there are."""
    return PolicyList(
        policies=[
            PolicyInfoBody(
                name=info.name,
                summary=info.summary,
                options=[OptionBody(**fields_of(option, OptionBody)) for option in info.options],
            )
            for info in policies
        ]
    )


def comparison_body(found: Report) -> ComparisonBody:
    """Where policies differ."""
    return ComparisonBody(
        totals=[TotalsBody(**fields_of(totals, TotalsBody)) for totals in found.totals],
        differences=[_difference_body(priced) for priced in found.differences],
    )


def _shadow_body(status: ShadowStatus) -> ShadowBody:
    return ShadowBody(**fields_of(status, ShadowBody, options=_options(status.options)))


def _difference_body(priced: Priced) -> DifferenceBody:
    comparison = priced.comparison
    return DifferenceBody(
        at=comparison.at,
        job=comparison.job_id,
        duration=priced.duration,
        known_from=priced.known_from,
        acting=OutcomeBody(**fields_of(comparison.acting, OutcomeBody, cost=priced.acting_cost)),
        shadow=OutcomeBody(**fields_of(comparison.shadow, OutcomeBody, cost=priced.shadow_cost)),
    )


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(dict(options), default=str), parse_constant=str)
    return plain
