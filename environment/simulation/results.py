"""What came of a simulated run: job by job, VM by VM, decision by decision, and in sum. All are values."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from conf.assumptions import DEFAULT_QUEUE
from conf.units import SECONDS_PER_HOUR
from environment.resources import Resources
from environment.types import (
    Decision,
    FloatArray,
    IntArray,
    Vm,
    Wait,
)

#: Of sums of shares; what is below is dust of adding and taking away. No share is so small.
_DIGITS = 9


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """A job that ran. Times in seconds; `placement` has the index of each executor's VM.

    `cost` is its share in what its VMs cost: at every moment a VM's price is shared by the executors on it,
    in proportion to the largest fraction of anything that the VM has that each takes. The shares of all jobs
    add up to the whole cost.
    """

    name: str
    type: str
    size: Resources
    executors: int
    submitted_at: float
    started_at: float
    ended_at: float
    placement: tuple[int, ...]
    #: Whether it is placed as its type prefers; a single executor, or a type without preference, always is.
    good: bool
    cost: float
    #: What each executor in `placement` took, when that is not what the job asks for all of them.
    sizes: tuple[Resources, ...] = ()
    owner: str = ""
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    #: By when it should have been over.
    deadline: float | None = None

    @property
    def wait(self) -> float:
        """Seconds from submission to start."""
        return self.started_at - self.submitted_at

    @property
    def cpus(self) -> float:
        """Cpus that it asked for each executor."""
        return self.size.cpus

    @property
    def memory_mib(self) -> int:
        """Memory that it asked for each executor, MiB."""
        return self.size.memory_mib

    @property
    def duration(self) -> float:
        """Seconds from start to end."""
        return self.ended_at - self.started_at

    @property
    def completion(self) -> float:
        """Seconds from submission to end."""
        return self.ended_at - self.submitted_at

    @property
    def taken(self) -> tuple[Resources, ...]:
        """What each executor in `placement` took."""
        return self.sizes or (self.size,) * self.executors


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """What executors held, [E]: the number of the job and of the VM, from when to when, and how much.

    An executor that was placed again stands there once for every place; one that was missing, on the VM
    behind the last. `kind` is its size, by number in `kinds`.
    """

    job: IntArray
    vm: IntArray
    start: FloatArray
    end: FloatArray
    kind: IntArray
    kinds: tuple[Resources, ...]


@dataclass(frozen=True, slots=True)
class Traced:
    """A decision as it was executed, when, how many jobs were waiting, and what had been wrong before it."""

    at: float
    job: str
    queue: int
    decision: Decision
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bill:
    """What a cloud charges for the VMs, from opened to closed, in dollars, and for what.

    A VM that is always there is charged from the beginning to the last end. An idle one of a pool is charged
    until it closes, though that be after the last end.
    """

    #: While executors held them and they were up, whatever part of them (a daemon's bill tells that apart).
    used: float
    #: While they booted.
    booting: float
    #: While nobody held them.
    idle: float
    #: While what ran on a spot VM that is taken away was moved.
    draining: float
    #: For whole units, and the least that is charged.
    rounding: float
    #: How often a VM of a pool was opened.
    openings: int

    @property
    def total(self) -> float:
        """All of it."""
        return self.used + self.booting + self.idle + self.draining + self.rounding


@dataclass(frozen=True)
class Result:
    """A run of a policy over a workload on a cluster."""

    #: In order of arrival.
    jobs: tuple[JobOutcome, ...]
    vms: tuple[Vm, ...]
    #: For how long each VM held an executor, seconds.
    vm_seconds: tuple[float, ...]
    #: Dollars (Islam 2022, eq. 4).
    cost: float
    #: What the cloud charges for the same.
    bill: Bill
    #: Dollars below which no schedule can stay.
    bound: float
    decisions: tuple[Traced, ...] = field(repr=False)
    #: Who held what, by number in `jobs`.
    held: Held = field(compare=False, repr=False)
    #: Jobs that could not run even on the empty cluster, and why; they are in nothing else.
    refused: Mapping[str, str]
    #: Jobs that waited to the end, as they fit no more when VMs were lost, and why; they are in nothing else.
    aside: Mapping[str, str]
    #: How long each decision took, seconds, in order.
    decision_seconds: FloatArray = field(compare=False, repr=False)
    #: Where the durations came from that jobs really had: profile, fitted or drawn.
    truth: str
    #: What policies could expect of them: exact, spread, a number or constant.
    belief: str
    #: The same of spot VMs: exact, or a number.
    spot_belief: str
    #: How often a spot VM was taken away while executors were there, how many of them, and how much of their
    #: work was done again, core-hours.
    interruptions: int = 0
    executors_lost: int = 0
    work_lost: float = 0.0
    #: Executors that jobs gave to others, jobs that were stopped for others, dollars of work lost with that.
    executors_given: int = 0
    jobs_stopped: int = 0
    work_given: float = 0.0
    #: How many decisions a safety stop cut short; where there are any, the machine's speed decided too.
    cut_short: int = 0
    #: How many decisions a guard took in place of a learned policy.
    guarded: int = 0

    @property
    def cost_over_bound(self) -> float | None:
        """How many times the bound it cost; None when the bound is 0."""
        return self.cost / self.bound if self.bound > 0 else None

    @cached_property
    def average_duration(self) -> float:
        """Mean seconds from start to end: the paper's job duration."""
        return _mean([job.duration for job in self.jobs])

    @cached_property
    def average_completion(self) -> float:
        """Mean seconds from submission to end."""
        return _mean([job.completion for job in self.jobs])

    @cached_property
    def p95_completion(self) -> float:
        """Seconds from submission to end that 95 of 100 jobs stay below."""
        return _percentile([job.completion for job in self.jobs], 95)

    @property
    def longest_wait(self) -> float:
        """Seconds from submission to start of the job that waited longest."""
        return max((job.wait for job in self.jobs), default=0.0)

    @property
    def makespan(self) -> float:
        """Seconds from the first submission to the last end."""
        if not self.jobs:
            return 0.0
        return max(job.ended_at for job in self.jobs) - self.jobs[0].submitted_at

    @property
    def good_placements(self) -> int:
        """How many jobs are placed as their type prefers."""
        return sum(job.good for job in self.jobs)

    @property
    def waits(self) -> int:
        """How often the decision was to wait."""
        return sum(isinstance(traced.decision, Wait) for traced in self.decisions)

    @property
    def violations(self) -> int:
        """How many of the policy's own decisions could not be executed."""
        return sum(bool(traced.faults) for traced in self.decisions)

    @property
    def vm_hours(self) -> dict[str, float]:
        """Hours in use, by VM type."""
        hours = dict.fromkeys((vm.type for vm in self.vms), 0.0)
        for vm, seconds in zip(self.vms, self.vm_seconds, strict=True):
            hours[vm.type] += seconds / SECONDS_PER_HOUR
        return hours

    @property
    def utilisation(self) -> float:
        """Which share of the cores that were paid for had an executor; 0 when nothing ran."""
        paid = sum(vm.cpus * seconds for vm, seconds in zip(self.vms, self.vm_seconds, strict=True))
        used = sum(sum(size.cpus for size in job.taken) * job.duration for job in self.jobs)
        return used / paid if paid > 0 else 0.0

    def summary(self) -> dict[str, float | None]:
        """The numbers of the run by name, for tables."""
        micros = self.decision_seconds * 1e6
        return {
            "cost": self.cost,
            "bill": self.bill.total,
            "openings": self.bill.openings,
            "interruptions": self.interruptions,
            "executors_lost": self.executors_lost,
            "work_lost": self.work_lost,
            "cost_over_bound": self.cost_over_bound,
            "average_duration": self.average_duration,
            "average_completion": self.average_completion,
            "p95_completion": self.p95_completion,
            "longest_wait": self.longest_wait,
            "makespan": self.makespan,
            "waits": self.waits,
            "good_placements": self.good_placements,
            "utilisation": self.utilisation,
            "violations": self.violations,
            "decision_p50_us": _percentile(micros, 50),
            "decision_p99_us": _percentile(micros, 99),
        }

    def to_json(self) -> dict[str, Any]:
        """All of it but the latencies of single decisions, as plain values."""
        return {
            "truth": self.truth,
            "belief": self.belief,
            "spot_belief": self.spot_belief,
            **self.summary(),
            "bound": self.bound,
            "bill_for": asdict(self.bill),
            "vm_hours": self.vm_hours,
            "refused": dict(self.refused),
            "aside": dict(self.aside),
            "executors_given": self.executors_given,
            "jobs_stopped": self.jobs_stopped,
            "work_given": self.work_given,
            "cut_short": self.cut_short,
            "guarded": self.guarded,
            "vms": [
                {"name": vm.name, "type": vm.type, "seconds": seconds}
                for vm, seconds in zip(self.vms, self.vm_seconds, strict=True)
            ],
            "jobs": [
                {**asdict(job), "duration": job.duration, "completion": job.completion} for job in self.jobs
            ],
            "decisions": trace_to_json(self.decisions),
        }


def trace_to_json(decisions: Sequence[Traced]) -> list[dict[str, Any]]:
    """Decisions as plain values, of which nothing but `details` is lost."""
    return [
        {"at": traced.at, "job": traced.job, "queue": traced.queue, "faults": list(traced.faults)}
        | _decision_to_json(traced.decision)
        for traced in decisions
    ]


def _decision_to_json(decision: Decision) -> dict[str, Any]:
    if isinstance(decision, Wait):
        return {"wait": decision.reason} | ({"keeps": list(decision.keeps)} if decision.keeps else {})
    shown: dict[str, Any] = {"placement": list(decision.placement), "why": list(decision.why)}
    if decision.sizes:
        shown["sizes"] = [size.amounts for size in decision.sizes]
    return {**shown, "scores": list(decision.scores)} if decision.scores else shown


def cost_shares(
    job: IntArray, vm: IntArray, start: FloatArray, end: FloatArray, share: FloatArray, price: FloatArray
) -> FloatArray:
    """Dollars of each job: at every moment a VM's price is shared by its executors, by their shares of it.

    The first five are per executor, [E]: its job's number, its VM, from when to when, and its dominant share
    (the largest fraction of anything that the VM has that it takes). `price` is per hour, [N]. Returns [M].
    For each VM the price of all of what is taken is summed up over time; an executor pays by its share what
    that sum grew by while it ran.
    """
    vms, times = np.concatenate((vm, vm)), np.concatenate((start, end))
    order = np.lexsort((times, vms))
    # What is taken of a VM is back when its last executor ends, so one running sum serves all of them.
    taken = np.cumsum(np.concatenate((share, -share))[order]).round(_DIGITS)
    seconds = np.diff(times[order], append=0.0)
    for_all = np.divide(price[vms[order]] * seconds, taken, out=np.zeros(len(order)), where=taken > 0)
    paid: FloatArray = np.empty(len(order))
    paid[order] = np.cumsum(for_all) - for_all
    shares = share * (paid[len(vm) :] - paid[: len(vm)]) / SECONDS_PER_HOUR
    by_job: FloatArray = np.bincount(job, weights=shares).astype(np.float64)
    return by_job


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def _percentile(values: Sequence[float] | FloatArray, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0
