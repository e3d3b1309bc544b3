"""Results of a simulated run: job by job, VM by VM, decision by decision, and in sum. All are values."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from conf.units import SECONDS_PER_HOUR
from environment.resources import Resources
from environment.simulation.results.decision_trace import TracedDecisions, trace_to_json
from environment.simulation.results.job_outcomes import JobOutcomes
from environment.types import FloatArray, IntArray, Place, Vm

#: Of sums of shares; smaller ones are dust of adding and taking away. No share is so small.
_DIGITS = 9


@dataclass(frozen=True, slots=True, eq=False)
class HeldArrays:
    """Holdings of executors, [E]: the number of the job and of the VM, start, end, and amount.

    An executor that was placed again has one entry for every place; a missing one is on the VM behind the
    last. `kind` is its size, by number in `kinds`.
    """

    job: IntArray
    vm: IntArray
    start: FloatArray
    end: FloatArray
    kind: IntArray
    kinds: tuple[Resources, ...]


class CommitmentUse(NamedTuple):
    """Dollars of a commitment: paid in any case, the part used, and the list price of covered VMs."""

    name: str
    committed: float
    used: float
    list_cost: float


@dataclass(frozen=True, slots=True)
class SimulatedBill:
    """Cloud charges for the VMs, from opened to closed, in dollars, by cause.

    A VM that is always there is charged from the beginning to the last end. An idle one of a pool is charged
    until it closes, even after the last end.
    """

    #: While executors held any part of them and they were up (a daemon's bill tells the part apart).
    used: float
    #: While they booted.
    booting: float
    #: While they were not held.
    idle: float
    #: While executors of a spot VM that is taken away were moved.
    draining: float
    #: For whole units, and the least that is charged.
    rounding: float
    #: How often a VM of a pool was opened.
    openings: int
    #: What is paid in any case, if anything; the parts above are at the VMs' prices.
    commitments: tuple[CommitmentUse, ...] = ()

    @property
    def total(self) -> float:
        """Dollars in all, at the VMs' prices."""
        return self.used + self.booting + self.idle + self.draining + self.rounding

    @property
    def with_commitments(self) -> float:
        """Dollars in all, where commitments are paid and the VMs that they cover are not."""
        return self.total + sum(each.committed - each.list_cost for each in self.commitments)

    def parts(self) -> dict[str, Any]:
        """Its parts by name, at the VMs' prices, and the number of openings."""
        return {name: part for name, part in asdict(self).items() if name != "commitments"}


@dataclass(frozen=True)
class Result:
    """A run of a policy over a workload on a cluster."""

    #: In order of arrival.
    jobs: JobOutcomes
    vms: tuple[Vm, ...]
    #: For how long each VM held an executor, seconds.
    vm_seconds: tuple[float, ...]
    #: Dollars (Islam 2022, eq. 4).
    cost: float
    #: The cloud's charges for the same.
    bill: SimulatedBill
    #: Dollars below which no schedule can stay.
    bound: float
    decisions: TracedDecisions = field(repr=False)
    #: Holdings of jobs, by number in `jobs`.
    held: HeldArrays = field(compare=False, repr=False)
    #: Jobs that could not run even on the empty cluster, and why; they are in nothing else.
    refused: Mapping[str, str]
    #: Jobs that waited to the end, as they fit no more when VMs were lost, and why; they are in nothing else.
    aside: Mapping[str, str]
    #: Jobs that never end on their spot VMs and were given up, and why; they end then.
    given_up: Mapping[str, str]
    #: Jobs that policies believed never to end on spot VMs, so that they were placed on others alone.
    kept_off_spot: tuple[str, ...]
    #: How long each decision took, seconds, in order; of those that were taken in one go, their mean.
    decision_seconds: FloatArray = field(compare=False, repr=False)
    #: Where the durations came from that jobs really had: profile, fitted or drawn.
    truth: str
    #: Beliefs of policies about them: exact, spread, a number or constant.
    belief: str
    #: The same of spot VMs: exact, or a number.
    spot_belief: str
    #: How often a spot VM was taken away while executors were there, how many of them, and how much of their
    #: work was done again, core-hours.
    interruptions: int = 0
    executors_lost: int = 0
    work_lost: float = 0.0
    #: Number of spot VMs that could not be opened when a policy used them, by recorded availability.
    opens_refused: int = 0
    #: Executors that jobs gave to others, jobs that were stopped for others, dollars of work lost with that.
    executors_given: int = 0
    jobs_stopped: int = 0
    work_given: float = 0.0
    #: How many decisions a safety stop cut short; where there are any, the machine's speed decided too.
    cut_short: int = 0
    #: How many decisions a guard took in place of a learned policy.
    guarded: int = 0

    @property
    def core_hours(self) -> float:
        """Work of all jobs: cores of their executors as requested, for as long as they ran."""
        seconds = (job.size.cpus * job.executors * (job.ended_at - job.started_at) for job in self.jobs)
        return math.fsum(seconds) / SECONDS_PER_HOUR

    @property
    def cost_over_bound(self) -> float | None:
        """Cost divided by the bound; None when the bound is 0."""
        return self.cost / self.bound if self.bound > 0 else None

    @cached_property
    def average_duration(self) -> float:
        """Mean seconds from start to end: the paper's job duration."""
        return _mean(self.jobs.durations)

    @cached_property
    def average_completion(self) -> float:
        """Mean seconds from submission to end."""
        return _mean(self.jobs.completions)

    @cached_property
    def p95_completion(self) -> float:
        """Seconds from submission to end that 95 of 100 jobs stay below."""
        return _percentile(self.jobs.completions, 95)

    @property
    def longest_wait(self) -> float:
        """Seconds from submission to start of the job that waited longest."""
        return float(self.jobs.waits.max()) if self.jobs else 0.0

    @property
    def makespan(self) -> float:
        """Seconds from the first submission to the last end."""
        if not self.jobs:
            return 0.0
        return float(self.jobs.columns.end.max() - self.jobs.submitted_at[0])

    @property
    def good_placements(self) -> int:
        """Number of jobs placed as their type prefers."""
        return int(self.jobs.good.sum())

    @property
    def waits(self) -> int:
        """Number of decisions to wait."""
        return self.decisions.waits

    @property
    def violations(self) -> int:
        """Number of the policy's own decisions that could not be executed."""
        return len(self.decisions.faulty)

    @property
    def fallback_share(self) -> float:
        """Share of the decisions, or of the placements if it is more, that the fallback took.

        A policy that fails whenever it would place a job has the fallback's numbers, however often it waits.
        """
        placed = len(self.decisions) - self.waits
        of_placements = self.replaced / placed if placed else 0.0
        return max(of_placements, self.violations / len(self.decisions) if len(self.decisions) else 0.0)

    @property
    def replaced(self) -> int:
        """Number of placements by the fallback, as the policy failed."""
        return sum(isinstance(made.decision, Place) for made in self.decisions.faulty)

    @property
    def vm_hours(self) -> dict[str, float]:
        """Hours in use, by VM type."""
        hours = dict.fromkeys((vm.type for vm in self.vms), 0.0)
        for vm, seconds in zip(self.vms, self.vm_seconds, strict=True):
            hours[vm.type] += seconds / SECONDS_PER_HOUR
        return hours

    @property
    def utilisation(self) -> float:
        """Share of the paid cores that had an executor; 0 when nothing ran."""
        paid = sum(vm.cpus * seconds for vm, seconds in zip(self.vms, self.vm_seconds, strict=True))
        return self.jobs.core_seconds / paid if paid > 0 else 0.0

    def summary(self) -> dict[str, float | None]:
        """The numbers of the run by name, for tables."""
        micros = self.decision_seconds * 1e6
        return {
            "cost": self.cost,
            "bill": self.bill.total,
            "with_commitments": self.bill.with_commitments,
            "openings": self.bill.openings,
            "interruptions": self.interruptions,
            "opens_refused": self.opens_refused,
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
            "fallback_share": self.fallback_share,
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
            "bill_for": self.bill.parts(),
            "commitments": [each._asdict() for each in self.bill.commitments],
            "vm_hours": self.vm_hours,
            "refused": dict(self.refused),
            "aside": dict(self.aside),
            "given_up": dict(self.given_up),
            "kept_off_spot": list(self.kept_off_spot),
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


def cost_shares(
    job: IntArray, vm: IntArray, start: FloatArray, end: FloatArray, share: FloatArray, price: FloatArray
) -> FloatArray:
    """Dollars of each job: at every moment a VM's price is shared by its executors, by their shares of it.

    The first five are per executor, [E]: its job's number, its VM, start, end, and its dominant share (the
    largest fraction of any of the VM's resources that it takes). `price` is per hour, [N]. Returns [M]. For
    each VM the price divided by the sum of all shares is integrated over time; an executor pays its share
    times the growth of that integral while it ran.
    """
    vms, times = np.concatenate((vm, vm)), np.concatenate((start, end))
    order = np.lexsort((times, vms))
    # The share of a VM is back when its last executor ends, so one running sum serves all of them.
    taken = np.cumsum(np.concatenate((share, -share))[order]).round(_DIGITS)
    seconds = np.diff(times[order], append=0.0)
    for_all = np.divide(price[vms[order]] * seconds, taken, out=np.zeros(len(order)), where=taken > 0)
    paid: FloatArray = np.empty(len(order))
    paid[order] = np.cumsum(for_all) - for_all
    shares = share * (paid[len(vm) :] - paid[: len(vm)]) / SECONDS_PER_HOUR
    by_job: FloatArray = np.bincount(job, weights=shares).astype(np.float64)
    return by_job


def _mean(values: FloatArray) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def _percentile(values: FloatArray, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0
