"""Bodies of the API about the forecast of the queue."""

import math
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from agents.experiments.paired import PairedDifference
from conf.schema import Cluster, PolicyChoice
from conf.schema.documented_model import DocumentedModel
from conf.schema.fields import Name
from conf.schema.sharing import Order
from daemon.auth.permits import Permit
from daemon.schemas.base import Body, IntervalBody, Said, interval_body
from daemon.what_if.cases import Case, Present, always
from daemon.what_if.promotions import PromotionAnswer
from daemon.what_if.what_if import JobForecast, PolicyAhead
from environment.pools import IdleTimeout
from environment.simulation.durations.prediction_intervals import Interval

_Vms = Annotated[dict[Name, Annotated[int, Field(ge=1, le=10_000)]], Field(max_length=100)]


def _keeps(text: str) -> str:
    IdleTimeout.read(text)
    return text


class CaseSpec(DocumentedModel):
    """Changes to the present setting; all of them together. Empty: none."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    add: _Vms = Field(default={})
    """Number of additional VMs, by type of the cluster."""
    remove: _Vms = Field(default={})
    """Number of idle VMs that are removed, by type."""
    cluster: Cluster | None = None
    """Another cluster, as in a cluster file; it starts empty, and the waiting jobs are simulated alone."""
    order: Order | None = None
    """Order of the jobs, as in `sharing.order`."""
    keep: Annotated[str, Field(max_length=40), AfterValidator(_keeps)] | None = None
    """Idle policy of pools: none, break_even, forecast, planned, timeout:SECONDS."""

    @property
    def case(self) -> Case:
        """As a value."""
        keep = None if self.keep is None else IdleTimeout.read(self.keep)
        return Case(self.add, self.remove, self.cluster, self.order or (), keep)


class WhatIf(DocumentedModel):
    """Request for a forecast of the queue."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    policies: Annotated[list[PolicyChoice], Field(max_length=16)] = Field(default=[])
    """Policies to simulate the queue under, each with its options; without any, the acting one."""
    draws: Annotated[int, Field(ge=1, le=1000)] = 20
    """Number of simulations, each with other durations; fewer when the time limit is reached."""
    seconds: Annotated[float, Field(gt=0, le=120, allow_inf_nan=False)] = 5.0
    """Time limit in seconds; a draw that is unfinished then does not count."""
    cases: Annotated[list[CaseSpec], Field(max_length=16)] = Field(default=[])
    """Changes to the cluster or order; each is simulated under each policy, at most 64 of both together, and
    at most 10,000 VMs that are added or of other clusters in all. Without any, as it is now."""
    since: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Simulate, instead of the queue, the jobs submitted since then (seconds since the epoch), 5,000 at most,
    with their true durations: once, for any `draws`. Only for callers that may see all jobs."""


class PromotionRequest(DocumentedModel):
    """Request to promote a policy."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    policy: PolicyChoice
    """The policy, with its options."""
    since: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Simulate the jobs submitted since then (seconds since the epoch): 5,000 at most, and 20 ended ones at
    least."""
    draws: Annotated[int, Field(ge=12, le=1000)] = 20
    """Number of simulations, each with other durations; fewer when the time limit is reached."""
    seconds: Annotated[float, Field(gt=0, le=120, allow_inf_nan=False)] = 60.0
    """Time limit in seconds; a draw that is unfinished then does not count. Less than 12 decide nothing."""
    dry_run: bool = False
    """Whether only to report, and change nothing."""


class JobAheadBody(Body):
    """Forecast of a waiting job."""

    id: str
    """The job's id."""
    name: Said
    """Its name."""
    start: IntervalBody
    """When it starts, seconds from `at` on."""
    end: IntervalBody
    """When it ends, seconds from `at` on."""
    cost: IntervalBody
    """Its share of the VMs' cost, dollars."""
    late: bool
    """Whether it would end after its deadline in most draws."""


class NeverBody(Body):
    """A job that would not run."""

    id: str
    """The job's id."""
    why: Said
    """Reason."""


class PolicyAheadBody(Body):
    """Forecast of the queue under a policy."""

    case: Said
    """Changes from the present state."""
    name: Said
    """The policy's name."""
    options: dict[str, Any]
    """Its options."""
    fixed: bool
    """Whether all VMs of the case are fixed. Its bill is then the same under every policy, and `dollars`
    is the price of VMs while executors hold them (Islam 2022, eq. 4)."""
    draws: int
    """Number of finished simulations."""
    dollars: IntervalBody | None
    """Cost of VMs until all waiting and running jobs have ended, fixed VMs while they are held; null where
    nothing was simulated, and for users that see only their own jobs."""
    seconds: IntervalBody | None
    """Seconds until the last of these jobs has ended."""
    completion: IntervalBody | None
    """Average seconds until a waiting job has ended, from now on, or from its submission with `since`; null
    where none waits."""
    late: int
    """Number of jobs that would end after their deadline in most draws."""
    jobs: list[JobAheadBody]
    """The waiting jobs that the caller may see, in their order."""
    never: list[NeverBody]
    """Those of the waiting jobs that would never run."""
    fallback_share: float
    """Share of the policy's decisions that failed, 0 to 1."""
    failure: Said
    """Why nothing was simulated; else empty."""


class Ahead(Body):
    """Forecast of the queue."""

    at: float
    """Start of the simulation, seconds since the epoch: now, or `since`."""
    recorded: bool
    """Whether past jobs were simulated instead of the present queue."""
    waiting: int
    """Number of waiting jobs in the simulation; with `since`, of jobs submitted since then."""
    others: int
    """Number of waiting jobs left out: paused, held by a limit, or far behind in the order."""
    policies: list[PolicyAheadBody]
    """Results for each requested policy, in the requested order, case by case."""
    note: Said
    """Cause of waits that neither VMs nor policies change; empty without such waits."""
    assumes: list[Said]
    """The assumptions, in words."""


class PairedBody(Body):
    """Mean relative difference of the candidate to the acting policy over the same draws."""

    mean: float
    """The mean; -0.01 is 1 % less."""
    error: float | None
    """Its standard error; null where it is unknown."""
    pairs: int
    """Number of draws that both finished."""


class Promoted(Body):
    """Comparison of a policy with the acting one, and the judgement."""

    since: float
    """Start of the simulation, seconds since the epoch."""
    jobs: int
    """Number of simulated jobs."""
    ended: int
    """Number of those that have ended."""
    policies: list[PolicyAheadBody]
    """The policy that acted, then the candidate; both without single jobs."""
    cost: PairedBody | None
    """Difference in cost; null where nothing was simulated."""
    completion: PairedBody | None
    """Difference in mean completion."""
    promoted: bool
    """Whether the candidate acts now."""
    why: Said
    """Reason why it may not be promoted; empty where it may."""
    assumes: list[Said]
    """The assumptions, in words."""


def promoted_body(found: PromotionAnswer, permit: Permit) -> Promoted:
    """The answer to a promotion."""
    ahead = ahead_body(found.present, [found.acting, found.candidate], permit)
    return Promoted(
        since=ahead.at,
        jobs=len(found.past.jobs),
        ended=len(found.past.took),
        policies=[each.model_copy(update={"jobs": []}) for each in ahead.policies],
        cost=_paired(found.found.cost),
        completion=_paired(found.found.completion),
        promoted=found.promoted,
        why=found.why,
        assumes=[
            *ahead.assumes,
            "each draw varies the durations by each job's spread, as in another run of the same jobs: the "
            "standard errors are of that alone, and not of other jobs on other days",
        ],
    )


def _paired(found: PairedDifference | None) -> PairedBody | None:
    if found is None:
        return None
    error = found.error if math.isfinite(found.error) else None
    return PairedBody(mean=found.mean, error=error, pairs=found.pairs)


def ahead_body(present: Present, found: list[PolicyAhead], permit: Permit, note: str = "") -> Ahead:
    """The answer, as far as this person sees jobs."""
    names = {request.job.id: request.job.name for request in present.queue if permit.sees(request.job.owner)}
    more = (said for each in found for said in each.case.assumes(present))
    return Ahead(
        at=present.view.at,
        recorded=present.recorded is not None,
        waiting=len({request.job.id for request in present.queue if not request.joins}),
        others=present.others,
        note=note,
        policies=[_policy(each, names, permit) for each in found],
        assumes=list(dict.fromkeys((*always(present), *more))),
    )


def _policy(ahead: PolicyAhead, names: dict[str, str], permit: Permit) -> PolicyAheadBody:
    late = frozenset(ahead.late)
    jobs = [
        _job(job_id, name, ahead.jobs[job_id], late=job_id in late)
        for job_id, name in names.items()
        if job_id in ahead.jobs
    ]
    return PolicyAheadBody(
        case=str(ahead.case),
        name=ahead.name,
        options=dict(ahead.options),
        fixed=ahead.fixed,
        draws=ahead.draws,
        dollars=None if permit.limited else _interval(ahead.dollars),
        seconds=_interval(ahead.seconds),
        completion=_interval(ahead.completion),
        late=len(late),
        jobs=jobs,
        never=[NeverBody(id=job_id, why=why) for job_id, why in ahead.never.items() if job_id in names],
        fallback_share=ahead.fallback_share,
        failure=permit.told(ahead.failure, names),
    )


def _job(job_id: str, name: str, ahead: JobForecast, *, late: bool) -> JobAheadBody:
    return JobAheadBody(
        id=job_id,
        name=name,
        start=interval_body(ahead.start),
        end=interval_body(ahead.end),
        cost=interval_body(ahead.cost),
        late=late,
    )


def _interval(found: Interval | None) -> IntervalBody | None:
    return None if found is None else interval_body(found)
