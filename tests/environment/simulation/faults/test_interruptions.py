"""Interrupted spot VMs in a simulation: when, at which cost, and that no job is lost by it."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.registry import create
from conf.defaults import DRAIN_SECONDS, SPOT_ERROR
from environment.clusters.price_history import PriceHistory
from environment.kernel.arrays import episode_of, jobs_of
from environment.kernel.hash_random import uniform
from environment.kernel.leases import STREAM, TAKEN, bill
from environment.kernel.rule_options import DurationOptions, RewardOptions, rules
from environment.kernel.rules import reset, step_episode
from environment.kernel.state import FINISHED, make_batch
from environment.model.messages.options import RELAUNCH_GRACE
from environment.pools import IdleTimeout, SpotTerms, Terms
from environment.simulation.durations.beliefs import EXACT
from environment.simulation.durations.spot_beliefs import SpotBelief
from environment.simulation.episode import SimulatedEpisode
from environment.simulation.faults import losses
from environment.simulation.faults.progress import Progress
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.simulation.world import World
from environment.types import MEASURED_REWORK, Place, Vm
from profiles.workloads.generators import load_workload
from profiles.workloads.workload import Workload, WorkloadJob
from tests.environment.simulation.test_pools import PRICE, pooled, work

NONE = IdleTimeout("none")


def spot(per_hour: float, notice: float = 120.0, boot: float = 30.0, minimum: float = 0.0) -> Terms:
    """Terms of a spot pool."""
    return Terms("pool", boot, minimum, spot=SpotTerms(per_hour, notice))


def run(
    policy: str, jobs: Sequence[WorkloadJob], vms: Sequence[Vm], keeping: IdleTimeout = NONE, seed: int = 0
) -> Result:
    """A simulation of these jobs."""
    options = SimulationOptions(keeping=keeping, seed=seed)
    return simulate(create(policy), Workload(tuple(jobs)), vms, options=options)


def lives(vms: Sequence[Vm], seed: int, openings: int) -> list[list[float]]:
    """For how many seconds each VM is open each time until its cloud takes it away."""
    job = jobs_of(Workload((work("a", 0.0, 1, 1.0),)), {})
    streams = episode_of(job, vms, seed=seed).machines.leases[:, STREAM]
    rates = [vm.terms.spot.interruptions_per_hour / 3600 for vm in vms if vm.terms and vm.terms.spot]
    return [
        [-math.log(1.0 - uniform(int(stream), n)) / rate for n in range(1, openings + 1)]
        for stream, rate in zip(streams, rates, strict=True)
    ]


@pytest.mark.parametrize("notice", [0.0, DRAIN_SECONDS])
def test_an_executor_goes_on_in_another_vm_and_does_part_of_its_work_again(notice: float) -> None:
    """Drained it is placed at once, and does little again; lost without notice, a moment later, and more."""
    terms = spot(4.0, notice)
    (life, *_), vms = lives(pooled(1, terms), 0, 2)[0], pooled(1, terms)
    assert life > 40.0
    result = run("ff", [work("a", 0.0, 1, life)], vms)
    worked = life - terms.boot
    share = MEASURED_REWORK.drained if notice else MEASURED_REWORK.lost
    pause = 0.0 if notice else RELAUNCH_GRACE
    (job,) = result.jobs
    assert job.started_at == terms.boot
    back = life + pause + terms.boot
    assert job.ended_at == pytest.approx(back + life - worked + share * worked)
    assert (result.interruptions, result.executors_lost, result.bill.openings) == (1, 1, 2)
    assert result.work_lost * 3600 == pytest.approx(share * worked)
    assert result.bill.draining == pytest.approx(notice)
    assert result.bill.total == pytest.approx(life + notice + job.ended_at - life - pause)
    assert result.bill.booting == pytest.approx(2 * terms.boot)


def test_interruptions_are_drawn_by_seed_place_and_opening_alone() -> None:
    """Neither the policy nor its other decisions change an interruption."""
    vms = pooled(3, spot(10.0))
    assert lives(vms, 0, 3) == lives(vms, 0, 3) != lives(vms, 1, 3)
    mean = sum(sum(each) for each in lives(pooled(40, spot(10.0)), 5, 50)) / 2000
    assert mean == pytest.approx(360.0, rel=0.1)


def test_a_job_goes_on_without_those_that_it_misses() -> None:
    """Half of the executors do half of the work, and all share the loss."""
    progress = Progress(2, 10.0, 100.0)
    assert progress.end() == 110.0
    assert progress.lose(60.0, {0: 20.0}) == 10.0
    assert progress.end() == 60.0 + (50.0 + 10.0) * 2
    progress.replace(70.0, 0, 100.0)  # until then 20 of 60 are done
    assert progress.end() == 100.0 + 40.0
    progress.lose(110.0, {0: 0.0, 1: 0.0})
    assert progress.end() == math.inf
    progress.replace(120.0, 0, 120.0)
    progress.replace(120.0, 1, 120.0)
    assert progress.end() == 120.0 + 30.0


def replayed(result: Result, terms: Terms, keeping: IdleTimeout, seed: int) -> tuple[float, int, int]:
    """The bill, openings and interruptions by a plain account: VM by VM, event by event, nothing lazy."""
    vms, drawn = result.vms, lives(result.vms, seed, 400)
    opened, idle = [-1.0] * len(vms), [-1.0] * len(vms)
    users: list[Counter[str]] = [Counter() for _ in vms]
    openings, charged, interruptions = [0] * len(vms), 0.0, 0

    def taken(vm: int) -> float:
        return opened[vm] + drawn[vm][openings[vm] - 1]

    def closes(vm: int) -> float:
        kept = {"none": 0.0, "timeout": keeping.seconds, "break_even": terms.boot}[keeping.name]
        at = idle[vm] + kept
        if keeping.name == "break_even":
            at = max(at, opened[vm] + max(at - opened[vm], terms.minimum))
        return min(at, taken(vm))

    def close(vm: int, at: float) -> None:
        nonlocal charged
        charged += max(at - opened[vm], terms.minimum)
        opened[vm] = -1.0

    def pass_time(until: float) -> None:
        """VMs that somebody holds are taken away; jobs end before that at the same time."""
        nonlocal interruptions
        while ends or any(users):
            job, end = min(ends.items(), key=lambda item: item[1], default=("", math.inf))
            vm = min((vm for vm in range(len(vms)) if users[vm]), key=taken, default=0)
            gone = taken(vm) if users[vm] else math.inf
            if min(end, gone) > until:
                return
            if end <= gone:
                del ends[job]
                for each in range(len(vms)):
                    if users[each].pop(job, 0) and not users[each]:
                        idle[each] = end
            else:
                interruptions += 1
                users[vm].clear()
                close(vm, gone + min(terms.spot.notice if terms.spot else 0.0, DRAIN_SECONDS))

    ends: dict[str, float] = {}
    outcomes = {job.name: job.ended_at for job in result.jobs}
    for traced in result.decisions:
        pass_time(traced.at)
        if not isinstance(traced.decision, Place):
            continue
        ends[traced.job] = outcomes[traced.job]
        for vm in traced.decision.placement:
            if opened[vm] >= 0 and not users[vm] and (traced.at > closes(vm) or traced.at >= taken(vm)):
                close(vm, closes(vm))
            if opened[vm] < 0:
                opened[vm], openings[vm] = traced.at, openings[vm] + 1
            users[vm][traced.job] += 1
    pass_time(math.inf)
    for vm in range(len(vms)):
        if opened[vm] >= 0:
            close(vm, closes(vm))
    return charged, sum(openings), interruptions


@settings(max_examples=50, deadline=None)
@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 4), st.sampled_from([5.0, 60.0, 400.5])),
        min_size=1,
        max_size=10,
    ),
    per_hour=st.sampled_from([1.0, 10.0, 60.0]),
    notice=st.sampled_from([0.0, 120.0]),
    boot=st.sampled_from([0.0, 7.0, 30.0]),
    minimum=st.sampled_from([0.0, 60.0]),
    keeping=st.sampled_from([NONE, IdleTimeout("break_even"), IdleTimeout("timeout", 25.0)]),
    policy=st.sampled_from(["ff", "rr", "karpenter", "best_fit"]),
    seed=st.integers(0, 5),
)
def test_the_bill_is_that_of_a_plain_account(
    jobs: list[tuple[int, int, float]],
    per_hour: float,
    notice: float,
    boot: float,
    minimum: float,
    keeping: IdleTimeout,
    policy: str,
    seed: int,
) -> None:
    """The plain account finds the same dollars and interruptions from placements, times and jobs' ends."""
    terms = spot(per_hour, notice, boot, minimum)
    workload = [work(f"j{n}", float(at), count, d) for n, (at, count, d) in enumerate(sorted(jobs))]
    result = run(policy, workload, pooled(3, terms), keeping, seed)
    assert len(result.jobs) == len(workload)
    assert not result.violations
    charged, openings, interruptions = replayed(result, terms, keeping, seed)
    assert (result.bill.openings, result.interruptions) == (openings, interruptions)
    assert result.bill.total == pytest.approx(charged, rel=1e-9)
    assert sum(job.cost for job in result.jobs) <= result.cost * (1 + 1e-9)
    for job in result.jobs:
        assert job.duration >= job_seconds(workload, job.name) * (1 - 1e-9)


def job_seconds(jobs: Sequence[WorkloadJob], name: str) -> float:
    """Undisturbed duration of the job, in seconds."""
    return next(job.duration for job in jobs if job.name == name)


@pytest.mark.parametrize("seed", range(6))
def test_the_kernel_plays_what_the_simulator_does(seed: int) -> None:
    """Where there is one place there is one way to go on: the same ends, bills and interruptions."""
    jobs = [work(f"j{n}", 400.0 * n, 1, 300.0) for n in range(6)]
    vms = pooled(1, spot(12.0, boot=7.0), cpus=1.0)
    options = SimulationOptions(keeping=NONE, seed=seed, belief=EXACT)
    result = simulate(create("ff"), Workload(tuple(jobs)), vms, options=options)
    episode = episode_of(jobs_of(Workload(tuple(jobs)), {}), vms, keeping=NONE, seed=seed)
    batch = make_batch([episode], rules(RewardOptions(), DurationOptions()))
    reset(batch, 0)
    while batch.state.over[0] == 0:
        step_episode(batch, 0, 1 if batch.state.held[0, 0] == 0 else 0)
    assert batch.state.over[0] == FINISHED
    assert batch.state.end[0].tolist() == pytest.approx([job.ended_at for job in result.jobs])
    assert bill(batch, 0) == pytest.approx(result.bill.total)
    assert result.interruptions > 0
    assert batch.machines.leases[0, 0, TAKEN] > batch.state.end[0, -1]


@pytest.mark.parametrize(
    "policy", ["rr", "rrc", "aep", "least_allocated", "greedy", "lookahead", "ilp", "drf"]
)
def test_no_job_is_lost(policy: str) -> None:
    """Though every VM is taken away every few minutes."""
    workload = load_workload("burst", 1, 12)
    vms = pooled(6, spot(12.0), cpus=12.0)
    result = simulate(create(policy), workload, vms)
    assert len(result.jobs) == 12
    assert result.interruptions > 0
    assert not result.violations


@pytest.mark.parametrize(("per_hour", "chosen"), [(0.2, "spot"), (180.0, "demand")])
def test_greedy_weighs_the_price_against_the_work_that_is_lost(per_hour: float, chosen: str) -> None:
    """At a third of the price, unless VMs are taken away three times a minute."""
    (on_demand,) = pooled(1, Terms("pool", 30.0))
    on_spot = replace(
        on_demand, id="spot", name="spot", price_per_hour=PRICE / 3, terms=spot(per_hour, notice=0.0)
    )
    on_demand = replace(on_demand, id="demand", name="demand")
    result = run("greedy", [work("a", 0.0, 1, 600.0)], [on_demand, on_spot])
    assert result.vms[result.jobs[0].placement[0]].name == chosen


def test_a_price_that_changes_is_paid_as_it_is_and_known_when_it_comes() -> None:
    """Two prices: each second costs the price of its time, to the cloud and to the jobs."""
    vms = pooled(2, spot(0.0, boot=10.0))
    history = PriceHistory((0.0, 50.0), (3600.0, 7200.0))
    seen = []

    class Watching:
        """First fit, which keeps the prices that it was shown."""

        def decide(self, view, queue):  # type: ignore[no-untyped-def]  # as policies of others
            seen.append((view.at, view.prices_per_hour.tolist()))
            return create("ff").decide(view, queue)

    jobs = (work("a", 0.0, 2, 90.0), work("b", 20.0, 2, 30.0), work("c", 20.0, 2, 30.0))
    options = SimulationOptions(keeping=IdleTimeout("timeout", 10.0), prices={"pool": history})
    result = simulate(Watching(), Workload(jobs), vms, options=options)
    assert [job.ended_at for job in result.jobs] == [100.0, 60.0, 90.0]
    assert seen[0] == (0.0, [3600.0, 3600.0])
    assert seen[-1] == (60.0, [7200.0, 7200.0])
    # The first VM is open from 0 to 110, the second from 20 to 100.
    assert result.bill.total == pytest.approx((50 + 2 * 60) + (30 + 2 * 50))
    assert result.bill.booting == pytest.approx(10.0 + 10.0)
    # Equation 4: held from 0 to 100 and from 20 to 90; jobs share what was used since they began.
    assert result.cost == pytest.approx((50 + 2 * 50) + (30 + 2 * 40))
    assert sum(job.cost for job in result.jobs) == pytest.approx(result.cost - 20.0)


def test_policies_believe_what_an_operator_would_of_spot_vms() -> None:
    """The believed rate of a pool and rework of a type err, by seed; the true ones do not."""
    vms = (*pooled(2, spot(4.0)), *pooled(1, replace(spot(4.0), pool="other")))
    vms = tuple(replace(vm, id=f"vm-{n}", name=f"vm-{n}") for n, vm in enumerate(vms))
    workload = Workload((work("a", 0.0, 1, 50.0), work("b", 1.0, 1, 50.0)))
    shown: dict[float, list[list[float]]] = {}
    for sigma in (0.0, SPOT_ERROR):
        for seed in range(3):
            options = SimulationOptions(spot_belief=SpotBelief(sigma), seed=seed)
            world = World(SimulatedEpisode(jobs_of(workload, {}), vms, options))
            spots = [vm.terms.spot for vm in world.view().vms if vm.terms]
            told = [of.interruptions_per_hour for of in spots if of]
            told += [share for job in world.jobs for share in job.rework]
            assert {job.rework for job in world.episode.truth.values()} == {MEASURED_REWORK}
            assert world.vms == vms
            shown.setdefault(sigma, []).append(told)
    assert shown[0.0] == [[4.0] * 3 + [*MEASURED_REWORK] * 2] * 3
    erring = shown[SPOT_ERROR]
    assert all(told[0] == told[1] != told[2] for told in erring)
    assert len({tuple(told) for told in erring}) == 3
    assert all(0 < value != true for told in erring for value, true in zip(told, shown[0.0][0], strict=True))


def test_what_is_believed_of_spot_changes_nothing_of_what_happens() -> None:
    """Policies that ignore the belief have the same results."""
    jobs = [work(f"j{n}", 60.0 * n, 2, 600.0) for n in range(6)]
    found = [
        simulate(
            create("ff"),
            Workload(tuple(jobs)),
            pooled(4, spot(10.0)),
            options=SimulationOptions(spot_belief=SpotBelief(sigma)),
        )
        for sigma in (0.0, 1.0)
    ]
    assert found[0].bill == found[1].bill
    assert found[0].work_lost == found[1].work_lost > 0


@pytest.mark.parametrize("text", ["2.5", "-1", "spread", "nan"])
def test_a_belief_of_spot_that_makes_no_sense_is_refused(text: str) -> None:
    """The error includes the valid beliefs."""
    with pytest.raises(ValueError, match="should be exact, or a number"):
        SpotBelief.read(text)
    assert [str(SpotBelief.read(good)) for good in ("exact", "0", "0.3")] == ["exact", "exact", "0.3"]


def test_nothing_is_compiled_anew_for_each_executor_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is passed to compiled code is of one kind: it is looked for behind a lock for each other one."""
    asked = []
    for name in ("leave_vm", "take_vm"):
        compiled = getattr(losses, name)
        look = compiled._compile_for_args

        def counting(*given: object, look: Callable[..., object] = look, **named: object) -> object:
            asked.append(given)
            return look(*given, **named)

        monkeypatch.setattr(compiled, "_compile_for_args", counting)
    result = run("ff", [work("a", 0.0, 1, 600.0)], pooled(1, spot(60.0, 0.0, 1.0)))
    assert result.executors_lost > 5
    assert len(asked) <= 2


@pytest.mark.parametrize("notice", [0.0, 30.0, 120.0])
@pytest.mark.parametrize("boot", [10.0, 200.0])
@pytest.mark.parametrize("keeping", [NONE, IdleTimeout("timeout", 300.0)])
def test_no_part_of_a_bill_is_negative(notice: float, boot: float, keeping: IdleTimeout) -> None:
    """Also for VMs that are taken away while they boot, or that their job leaves meanwhile."""
    jobs = [work(f"j{n}", 70.0 * n, 1 + n % 3, 20.0 + 15 * (n % 7)) for n in range(12)]
    for seed in range(8):
        bill = run("ff", jobs, pooled(3, spot(30.0, notice, boot, 60.0), cpus=2.0), keeping, seed).bill
        parts = (bill.used, bill.booting, bill.idle, bill.draining, bill.rounding)
        assert min(parts) >= -1e-9, parts
