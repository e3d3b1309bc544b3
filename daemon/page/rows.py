"""Rows of JSON for jobs and VMs on the page, made once for all readers.

Texts are masked and printable as in the API's bodies; the page treats them as hostile.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from stoker.characters import escape_surrogates

from conf.util.secret_masking import masked_urls
from daemon.core.cluster_status import PoolStatus, VmStatus
from daemon.core.estimate import Estimate
from daemon.core.status import BudgetStatus, PolicyStatus
from environment.model.messages.records import JobRecord
from environment.model.messages.states import JobState

#: What a job's row has, in this order; times are seconds since the epoch, money is dollars, memory MiB.
JOB = (
    "id", "name", "type", "owner", "queue", "state", "reason", "executors", "cpus", "memory_mib",
    "priority", "deadline", "submitted_at", "started_at", "finished_at", "cost",
)  # fmt: skip
#: What a VM's row has.
VM = (
    "id", "name", "type", "pool", "state", "cpus", "used_cpus", "memory_mib", "used_memory_mib",
    "price_per_hour", "ready_at", "note", "executors",
)  # fmt: skip
#: Characters of a reason; the job's own page has all of it.
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as the page lists it: its row, and the values that decide its readers and its place."""

    id: str
    owner: str
    state: JobState
    #: Dollars, without what is due.
    cost: float
    text: str


def job_row(record: JobRecord) -> JobRow:
    """The row of a job."""
    job, reason = record.job, _said(record.reason)[:_LONGEST]
    values = (
        job.id, _said(job.name or job.id), _said(job.type), _said(job.owner), _said(job.queue), record.state,
        reason, job.executors, job.cpus, job.memory_mib, job.priority, job.deadline,
        job.submitted_at, record.started_at, record.finished_at, round(record.cost, 6),
    )  # fmt: skip
    return JobRow(job.id, job.owner, record.state, record.cost, dumped(values))


def vm_row(vm: VmStatus, shown: Callable[[str], bool] | None = None) -> str:
    """The row of a VM; with the tasks of jobs alone that are `shown`."""
    tasks = [task for task in vm.executors if shown is None or shown(task.partition(".")[0])]
    return dumped(
        (
            _said(vm.id), _said(vm.name), _said(vm.type), _said(vm.pool), vm.state, vm.cpus, vm.used_cpus,
            vm.memory_mib, vm.used_memory_mib, vm.price_per_hour, vm.ready_at, _said(vm.note)[:_LONGEST],
            [_said(task) for task in tasks],
        )
    )  # fmt: skip


def policy_part(status: PolicyStatus) -> Mapping[str, Any]:
    """The acting policy, with its statistics."""
    shadow = status.shadow
    return {
        "name": _said(status.name),
        "placed": status.placed,
        "waited": status.waited,
        "faults": status.faults,
        "last_fault": _said(status.last_fault)[:_LONGEST],
        "fallback": None if status.fallback is None else _said(status.fallback),
        "busy": round(status.busy, 1),
        "guarded": status.guarded,
        "shadow": None
        if shadow is None
        else {"name": _said(shadow.name), "compared": shadow.compared, "different": shadow.different},
    }


def pools_part(pools: Sequence[PoolStatus]) -> Sequence[Mapping[str, Any]]:
    """Where VMs could be had."""
    return [
        {
            "name": _said(pool.name),
            "type": _said(pool.type),
            "cpus": pool.cpus,
            "price_per_hour": pool.price_per_hour,
            "open": pool.open,
            "max": pool.max,
            "note": _said(pool.note)[:_LONGEST],
        }
        for pool in pools
    ]


def estimate_part(estimates: Mapping[str, Estimate], line: Sequence[str]) -> Mapping[str, Sequence[float]]:
    """Intervals of these waiting jobs: the start (since the epoch) and the cost, low and high."""
    return {
        job_id: (*map(round, (found.start.low, found.start.high)), found.cost.low, found.cost.high)
        for job_id in line
        if (found := estimates.get(job_id)) is not None
    }


def budget_part(budget: BudgetStatus | None) -> Mapping[str, Any] | None:
    """Today's cost of VMs beside its limit."""
    if budget is None:
        return None
    return {
        "day": budget.day,
        "per_day": budget.per_day,
        "spent": round(budget.spent, 4),
        "hold": budget.hold,
        "limits": [
            {
                "pool": of.pool,
                "per": of.per,
                "dollars": of.dollars,
                "spent": round(of.spent, 4),
                "over": of.over,
            }
            for of in budget.limits
        ],
    }


def dumped(value: object) -> str:
    """The value as JSON in one line; JSON lacks infinity and NaN."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


@lru_cache(maxsize=16_384)
def _said(text: str) -> str:
    return escape_surrogates(masked_urls(text))
