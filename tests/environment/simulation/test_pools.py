"""VMs that come and go in a simulation: starts of jobs, charges, and eq. 4 as a special case."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.registry import POLICIES, create
from environment.pools import IdleTimeout, SpotTerms, Terms
from environment.resources import Resources
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Place, Vm
from profiles.workloads.generators import load_workload
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_vm

#: One that decides fast for each family; all of them see what is open through the same view.
DECIDERS = ("rr", "rrc", "ff", "aep", "best_fit", "least_allocated", "greedy", "karpenter", "lookahead")
FREE = Terms("pool")
PRICE = 3600.0


def work(name: str, at: float, executors: int, duration: float) -> WorkloadJob:
    """Executors of one cpu of a job that is as good anywhere."""
    return WorkloadJob(name, at, "other", 1.0, 1024, executors, duration)


def pooled(count: int, terms: Terms, cpus: float = 2.0) -> tuple[Vm, ...]:
    """VMs that cost a dollar a second, so that dollars are seconds."""
    return tuple(
        replace(make_vm(f"vm-{n}", cpus=cpus, memory_mib=65536), price_per_hour=PRICE, terms=terms)
        for n in range(count)
    )


def run(policy: str, jobs: Sequence[WorkloadJob], vms: Sequence[Vm], keeping: IdleTimeout) -> Result:
    """A simulation of these jobs."""
    options = SimulationOptions(keeping=keeping)
    return simulate(create(policy), Workload(tuple(jobs)), vms, options=options)


def test_a_job_waits_for_its_boot_and_is_charged_for_it() -> None:
    """60 s of boot, 100 s of work, kept for 10 s: 170 s, of which whole minutes are charged."""
    terms = Terms("pool", boot=60.0, minimum=60.0, granularity=60.0)
    result = run("ff", [work("a", 5.0, 1, 100.0)], pooled(1, terms), IdleTimeout("timeout", 10.0))
    (job,) = result.jobs
    assert (job.started_at, job.ended_at) == (65.0, 165.0)
    assert (result.bill.booting, result.bill.used, result.bill.idle) == (60.0, 100.0, 10.0)
    assert (result.bill.rounding, result.bill.total, result.bill.openings) == (10.0, 180.0, 1)


def test_an_idle_vm_is_used_again_until_it_closes() -> None:
    """The second job comes while the VM is kept, the third after it was closed, which costs another boot."""
    terms = Terms("pool", boot=60.0)
    jobs = [work("a", 0.0, 1, 40.0), work("b", 120.0, 1, 40.0), work("c", 300.0, 1, 40.0)]
    result = run("ff", jobs, pooled(1, terms), IdleTimeout("timeout", 30.0))
    assert [job.started_at for job in result.jobs] == [60.0, 120.0, 360.0]
    assert result.bill.openings == 2
    assert result.bill.total == (160.0 - 0.0 + 30.0) + (400.0 - 300.0 + 30.0)


def test_break_even_keeps_as_long_as_a_boot_takes_and_as_is_charged_anyway() -> None:
    """A VM is never closed within time that is charged anyway."""
    keeping = IdleTimeout("break_even")
    short = run("ff", [work("a", 0.0, 1, 10.0)], pooled(1, Terms("pool", boot=5.0, minimum=60.0)), keeping)
    assert (short.bill.idle, short.bill.rounding, short.bill.total) == (45.0, 0.0, 60.0)
    long = run("ff", [work("a", 0.0, 1, 100.0)], pooled(1, Terms("pool", boot=5.0, minimum=60.0)), keeping)
    assert (long.bill.idle, long.bill.total) == (5.0, 110.0)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 200)), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_break_even_wastes_at_most_twice_what_it_would_in_hindsight(uses: list[tuple[int, int]]) -> None:
    """On one VM, by durations and the pauses behind them: each pause is bridged, or costs a boot."""
    boot = 30.5  # no pause is as long
    jobs, arrives, delay = list[WorkloadJob](), 0.0, boot
    for number, (duration, pause) in enumerate(uses):
        jobs.append(work(f"job-{number}", arrives, 1, float(duration)))
        arrives += delay + duration + pause
        delay = boot if pause > boot else 0.0
    bill = run("ff", jobs, pooled(1, Terms("pool", boot=boot)), IdleTimeout("break_even")).bill
    hindsight = boot + sum(min(pause, boot) for _, pause in uses[:-1])
    assert bill.total - bill.used <= 2 * hindsight * (1 + 1e-9)


def test_a_forecast_keeps_what_is_taken_again_and_again() -> None:
    """Jobs come so often that one VM is kept for the next, once that was seen, and not before."""
    terms, jobs = Terms("pool", boot=60.0), [work(f"j{n}", 40.0 * n, 1, 10.0) for n in range(40)]
    result = run("ff", jobs, pooled(1, terms), IdleTimeout("forecast"))
    at_once = run("ff", jobs, pooled(1, terms), IdleTimeout("none"))
    assert at_once.bill.openings == 20
    assert result.bill.openings < 15
    assert result.average_completion < at_once.average_completion
    always = run("ff", jobs, pooled(1, terms), IdleTimeout("timeout", 60.0))
    assert result.bill.idle < always.bill.idle


def test_a_plan_keeps_the_vms_that_it_uses() -> None:
    """The job needs both VMs, one is idle and the other is free soon: the idle one is kept for it."""
    terms = Terms("pool", boot=60.0)
    jobs = [work("a", 0.0, 2, 30.0), work("b", 0.0, 2, 42.0), work("c", 89.0, 4, 500.0)]
    planned, closed = (
        run("greedy", jobs, pooled(2, terms), IdleTimeout(name)) for name in ("planned", "none")
    )
    assert [job.started_at for job in planned.jobs] == [60.0, 60.0, 102.0]
    assert planned.bill.openings == 2
    assert closed.jobs[2].started_at > 102.0
    assert closed.bill.openings > 2


def test_vms_that_are_always_there_are_charged_from_beginning_to_end() -> None:
    """Those of a pool's minimum, those that are of no pool beside one, and a cluster without pools."""
    jobs = [work("a", 50.0, 1, 100.0)]
    always = pooled(2, replace(FREE, always=True))
    fixed = tuple(replace(vm, terms=None) for vm in always)
    for vms in (always, fixed, (fixed[0], always[1])):
        result = run("ff", jobs, vms, IdleTimeout("none"))
        assert (result.bill.total, result.bill.openings, result.cost) == (300.0, 0, 100.0)
        assert result.jobs[0].started_at == 50.0


@pytest.mark.parametrize("policy", DECIDERS)
def test_without_boots_units_and_keeping_the_bill_is_eq_4(policy: str) -> None:
    """The same decisions as on VMs that are always there, where a policy sees no more, and the same cost."""
    workload = load_workload("burst", 3, 40)
    fixed = tuple(make_vm(f"vm-{n}", cpus=8.0, memory_mib=32768) for n in range(6))
    free = tuple(replace(vm, terms=FREE) for vm in fixed)
    options = SimulationOptions(keeping=IdleTimeout("none"))
    on_pools = simulate(create(policy), workload, free, options=options)
    assert on_pools.bill.total == pytest.approx(on_pools.cost, rel=1e-12)
    assert on_pools.bill.booting == on_pools.bill.rounding == 0.0
    assert on_pools.bill.idle == pytest.approx(0.0, abs=1e-9)
    if policy in ("rr", "lookahead"):  # which do not care for what is open
        on_fixed = simulate(create(policy), workload, fixed, options=options)
        # Of VMs that are alike lookahead takes those first that are open.
        runs = [
            [(job.name, job.started_at, job.ended_at, job.good) for job in run.jobs]
            for run in (on_fixed, on_pools)
        ]
        assert runs[0] == runs[1]


@dataclass
class Ledger:
    """Charges of one VM, from every use in order: plain Python, nothing lazy."""

    terms: Terms
    keeping: IdleTimeout
    opened: float = -1.0
    idle_at: float = -1.0
    open: bool = False
    charged: float = 0.0
    openings: int = 0
    until: list[float] = field(default_factory=list)

    def closes(self) -> float:
        """When it closes if nobody comes."""
        keep = {"none": 0.0, "timeout": self.keeping.seconds, "break_even": self.terms.boot}[
            self.keeping.name
        ]
        at = self.idle_at + keep
        if self.keeping.name == "break_even":
            at = max(at, self.opened + self.charge(at - self.opened))
        return at

    def charge(self, seconds: float) -> float:
        """Charged seconds for so many seconds of use."""
        unit = self.terms.granularity
        whole = math.ceil(seconds / unit - 1e-9) * unit if unit else seconds
        return max(whole, self.terms.minimum)

    def use(self, at: float) -> float:
        """An executor comes; when the VM is ready for it."""
        self.until = [end for end in self.until if end > at]
        if self.open and not self.until and at > self.closes():
            self.close()
        if not self.open:
            self.open, self.opened, self.openings = True, at, self.openings + 1
        return max(at, self.opened + self.terms.boot)

    def hold(self, until: float) -> None:
        """That executor stays until then."""
        self.until.append(until)
        self.idle_at = max(self.idle_at, until)

    def close(self) -> None:
        """It is charged for."""
        self.charged += self.charge(self.closes() - self.opened)
        self.open = False


times = st.sampled_from([0.0, 1.0, 7.0, 30.0, 60.0])


@settings(max_examples=60, deadline=None)
@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 4), st.sampled_from([1.0, 20.0, 90.5])),
        min_size=1,
        max_size=12,
    ),
    boot=times,
    minimum=times,
    granularity=times,
    keeping=st.sampled_from([IdleTimeout("none"), IdleTimeout("break_even"), IdleTimeout("timeout", 25.0)]),
    policy=st.sampled_from(["ff", "rr", "greedy", "karpenter"]),
)
def test_bill_and_starts_are_those_of_a_plain_ledger(
    jobs: list[tuple[int, int, float]],
    boot: float,
    minimum: float,
    granularity: float,
    keeping: IdleTimeout,
    policy: str,
) -> None:
    """The ledger finds the same starts, openings and dollars from jobs' VMs and times in order."""
    terms = Terms("pool", boot, minimum, granularity)
    workload = [work(f"j{n}", float(at), count, d) for n, (at, count, d) in enumerate(sorted(jobs))]
    vms = pooled(3, terms)
    result = run(policy, workload, vms, keeping)
    outcomes = {job.name: job for job in result.jobs}
    ledgers = [Ledger(terms, keeping) for _ in vms]
    for traced in result.decisions:
        if isinstance(traced.decision, Place):
            job = outcomes[traced.job]
            used = sorted(set(traced.decision.placement))
            assert job.started_at == max(ledgers[vm].use(traced.at) for vm in used)
            for vm in used:
                ledgers[vm].hold(job.ended_at)
    for ledger in ledgers:
        if ledger.open:
            ledger.close()
    assert sum(ledger.openings for ledger in ledgers) == result.bill.openings
    assert sum(ledger.charged for ledger in ledgers) == pytest.approx(result.bill.total, rel=1e-9)
    bill = result.bill
    assert min(bill.used, bill.booting) >= 0.0
    assert min(bill.idle, bill.rounding) >= -1e-6


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_finishes_all_jobs_on_pools(policy: str) -> None:
    """Policies with and without knowledge of pools finish all jobs."""
    workload = load_workload("burst", 1, 12)
    vms = pooled(4, Terms("pool", 30.0, 60.0, 1.0), cpus=12.0)
    result = simulate(create(policy), workload, vms)
    assert len(result.jobs) == 12
    assert not result.violations


@pytest.mark.parametrize("policy", ["ff", "rrc", "best_fit", "least_allocated", "aep", "greedy", "karpenter"])
def test_a_closed_vm_is_the_last_resort(policy: str) -> None:
    """The second job goes where the first was, though another VM comes first."""
    jobs = [work("a", 0.0, 1, 50.0), work("b", 120.0, 1, 50.0)]
    result = run(policy, jobs, pooled(3, Terms("pool", 60.0)), IdleTimeout("timeout", 60.0))
    assert result.bill.openings == 1
    assert result.jobs[0].placement == result.jobs[1].placement


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("none", IdleTimeout("none")),
        ("timeout:90", IdleTimeout("timeout", 90.0)),
        ("break_even", IdleTimeout("break_even")),
    ],
)
def test_keeping_reads_what_it_says(text: str, found: IdleTimeout) -> None:
    """As it is written."""
    assert IdleTimeout.read(text) == found
    assert str(found) == text


@pytest.mark.parametrize("text", ["ever", "timeout:", "timeout:-1", "timeout:inf", "timeout:soon", "none:3"])
def test_keeping_says_what_is_wrong(text: str) -> None:
    """Each in words."""
    with pytest.raises(ValueError, match=r"keep|seconds"):
        IdleTimeout.read(text)


@pytest.mark.parametrize(
    "terms", [Terms("large", spot=SpotTerms(0.001)), Terms("large", reserved_for=("gpus",))]
)
@pytest.mark.parametrize("policy", ["ff", "greedy", "aep"])
def test_a_job_that_larger_vms_bar_has_the_size_that_fits_the_others(terms: Terms, policy: str) -> None:
    """It was shown with the size for the larger ones alone, and waited for ever before all others."""
    large = make_vm("large", 16.0, 65536, 1.0)
    large = replace(large, terms=terms, resources=Resources.of(16.0, 65536, {"gpus": 2.0}))
    small = make_vm("small", 4.0, 16384, 0.1)
    wide = WorkloadJob("wide", 0.0, "sort", 8.0, 4096, 1, 100.0, min_cpus=2.0, spot="never")
    result = simulate(create(policy), Workload((wide, work("next", 1.0, 1, 50.0))), (large, small))
    assert {job.name: job.taken[0].cpus for job in result.jobs}["wide"] == 4.0
    assert len(result.jobs) == 2
