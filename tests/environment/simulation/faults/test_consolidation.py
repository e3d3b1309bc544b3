"""Executors that are moved so that VMs of pools close, as under Karpenter."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agents.registry import create
from environment.pools import Consolidation, IdleTimeout, SpotTerms, Terms
from environment.simulation.durations.beliefs import EXACT
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Vm
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_vm

BOOT = 30.0
TERMS = Terms("pool", BOOT)


def vm(name: str, cpus: float, terms: Terms = TERMS) -> Vm:
    """A VM at a price of 0.06 dollars for a core."""
    return replace(make_vm(name, cpus, int(cpus) * 4096, 0.06 * cpus), type=f"cpus{cpus:g}", terms=terms)


def job(name: str, executors: int, duration: float) -> WorkloadJob:
    """A job of single-core executors, submitted at once."""
    return WorkloadJob(name, 0.0, "wordcount", 1.0, 1024, executors, duration)


def run(rule: str, jobs: Sequence[WorkloadJob], vms: Sequence[Vm], keep: str = "none") -> Result:
    """First fit, by default with idle VMs that close at once."""
    options = SimulationOptions(
        keeping=IdleTimeout.read(keep), consolidation=Consolidation.read(rule), profiles={}, belief=EXACT
    )
    return simulate(create("ff"), Workload(tuple(jobs)), vms, options=options)


def test_a_vm_closes_whose_executors_fit_on_others() -> None:
    """The short job's end leaves room on the first VM, on which the executor on the second goes on."""
    jobs, vms = [job("a", 2, 100.0), job("b", 2, 1000.0), job("c", 1, 1000.0)], [vm("x", 4), vm("y", 4)]
    plain, moved = run("none", jobs, vms), run("underutilized", jobs, vms)
    assert plain.executors_lost == 0
    assert moved.executors_lost == 1
    assert moved.work_lost > 0.0
    assert moved.bill.total < plain.bill.total
    assert moved.bill.openings == 2
    assert max(each.ended_at for each in moved.jobs) == pytest.approx(BOOT + 1000.0 + 100.0 * 0.05)


def test_executors_do_not_move_back_to_the_vm_that_they_left() -> None:
    """It idles at no saving: neither while it is kept nor in the moment in which it closes."""
    jobs, vms = [job("a", 2, 100.0), job("b", 1, 1000.0), job("c", 1, 1000.0)], [vm("x", 3), vm("y", 2)]
    for keep in ("none", "timeout:600"):
        assert run("underutilized", jobs, vms, keep).executors_lost == 1


def test_one_move_is_made_at_a_time() -> None:
    """Two jobs end together; what they leave room for is moved one after the other, after a check of 15 s."""
    jobs = [
        job("a", 2, 100.0),
        job("b", 2, 1000.0),
        job("c", 2, 100.0),
        job("d", 1, 1000.0),
        job("e", 1, 1000.0),
    ]
    vms = [vm("x", 4), vm("y", 3), vm("z", 1)]
    moved = run("underutilized", jobs, vms)
    assert moved.executors_lost == 2
    assert sorted(each.ended_at for each in moved.jobs)[-2:] == pytest.approx(
        [BOOT + 1000 + 5, BOOT + 1000 + 5.75]
    )


def test_a_vm_that_closes_by_one_move_is_opened_by_no_other() -> None:
    """Its own executor ends while its replacement boots; then a third VM could be replaced by it."""
    many = [replace(make_vm(f"z{number}", 1, 65536, 0.06), type="z", terms=TERMS) for number in range(10)]
    jobs = [
        WorkloadJob("z", 0.0, "wordcount", 1.0, 60000, 10, 1000.0),
        job("p", 5, 122.0),
        job("q", 3, 1000.0),
        job("r", 3, 100.0),
        job("s", 1, 120.0),
    ]
    moved = run("underutilized", jobs, [*many, vm("w", 8), vm("x", 4), vm("y", 2)])
    assert moved.executors_lost == 3


def test_a_vm_is_left_alone_for_a_while_after_each_executor_that_came_or_left() -> None:
    """The executor that is left alone moves to a cheaper VM a minute later than with no such wait."""
    jobs, vms = [job("a", 3, 100.0), job("b", 1, 1000.0)], [vm("x", 4), vm("y", 2)]
    moved = run("underutilized:after=60", jobs, vms)
    assert moved.executors_lost == 1
    ended = max(each.ended_at for each in moved.jobs)
    assert ended == pytest.approx(BOOT + 1000.0 + 0.05 * (100.0 + 60.0 + BOOT))


def test_a_cheaper_vm_replaces_one_and_boots_before_executors_move() -> None:
    """The long job's executor is left alone on a large VM, and loses no time but the repeated seconds."""
    jobs, vms = [job("a", 3, 100.0), job("b", 1, 1000.0)], [vm("x", 4), vm("y", 2)]
    moved = run("underutilized", jobs, vms)
    assert (moved.executors_lost, moved.bill.openings) == (1, 2)
    ended = max(each.ended_at for each in moved.jobs)
    assert ended == pytest.approx(BOOT + 1000.0 + 0.05 * (100.0 + BOOT))
    large = (BOOT + 100.0 + BOOT) * 0.24 / 3600
    small = (ended - BOOT - 100.0) * 0.12 / 3600
    assert moved.bill.total == pytest.approx(large + small)


def test_a_replacement_closes_when_nothing_is_left_to_move() -> None:
    """The job ends while the replacement boots."""
    jobs = [job("a", 3, 100.0), job("b", 1, 110.0), job("c", 4, 1000.0)]
    moved = run("underutilized", jobs, [vm("x", 4), vm("z", 4), vm("y", 2)])
    assert (moved.executors_lost, moved.bill.openings) == (0, 3)
    assert moved.bill.total == pytest.approx(((BOOT + 110 + BOOT + 1000) * 0.24 + BOOT * 0.12) / 3600)


def test_spot_vms_are_replaced_by_spot_vms_only_where_that_is_asked_for() -> None:
    """And a single one never, with fewer than fifteen types."""
    spot = replace(TERMS, spot=SpotTerms(1e-9))
    jobs, vms = [job("a", 3, 100.0), job("b", 1, 1000.0)], [vm("x", 4, spot), vm("y", 2, spot)]
    for rule in ("underutilized", "underutilized:spot_to_spot"):
        assert run(rule, jobs, vms).bill.openings == 1


@pytest.mark.parametrize("seed", range(8))
def test_a_spot_vm_that_is_taken_away_while_it_boots_replaces_nothing(seed: int) -> None:
    """The clock goes on, and another replacement is opened later."""
    spot = replace(TERMS, pool="spot", spot=SpotTerms(60.0, 0.0))
    jobs = [job("a", 3, 100.0), job("b", 1, 1000.0)]
    vms = [vm("x", 4), *(vm(f"y{number}", 2, spot) for number in range(3))]
    for rule in ("underutilized", "balanced", "believed"):
        options = SimulationOptions(
            keeping=IdleTimeout.read("none"),
            consolidation=Consolidation.read(rule),
            profiles={},
            belief=EXACT,
            seed=seed,
            most_events=2000,
        )
        assert len(simulate(create("ff"), Workload(tuple(jobs)), vms, options=options).jobs) == 2


@pytest.mark.parametrize(("seconds", "moved"), [(160.0, 0), (170.0, 1)])
def test_believed_moves_only_where_that_pays_until_the_end(seconds: float, moved: int) -> None:
    """A VM of half the price boots for 30 s: 30 s more pay for that and for little repeated work."""
    jobs, vms = [job("a", 3, 100.0), job("b", 1, seconds)], [vm("x", 4), vm("y", 2)]
    assert run("underutilized", jobs, vms).executors_lost == 1
    assert run("believed", jobs, vms).executors_lost == moved


def test_fitting_pays_for_the_time_in_which_a_vm_is_drained() -> None:
    """The executor on the second VM goes on on the first one, and repeats a twentieth of its work."""
    jobs, vms = [job("a", 2, 100.0), job("b", 2, 1000.0), job("c", 1, 1000.0)], [vm("x", 4), vm("y", 4)]
    moved = run("fitting", jobs, vms)
    assert moved.executors_lost == 1
    first, second = BOOT + 1000.0 + 100.0 * 0.05, BOOT + 100.0 + 30.0
    assert moved.bill.total == pytest.approx((first + second) * 0.24 / 3600)


@pytest.mark.parametrize(("seconds", "moved"), [(130.0, 0), (140.0, 1)])
def test_fitting_moves_only_where_that_pays_until_the_end(seconds: float, moved: int) -> None:
    """Draining takes 30 s, and 5 s of work on half of the VM are repeated."""
    jobs, vms = [job("a", 2, 100.0), job("b", 2, 1000.0), job("c", 1, seconds)], [vm("x", 4), vm("y", 2)]
    assert run("fitting", jobs, vms).executors_lost == moved


def test_fitting_opens_no_vm() -> None:
    """A smaller one would be cheaper."""
    jobs, vms = [job("a", 3, 100.0), job("b", 1, 1000.0)], [vm("x", 4), vm("y", 2)]
    assert run("fitting", jobs, vms).executors_lost == 0


def test_fitting_moves_executors_to_vms_that_are_always_there() -> None:
    """They cost the same, used or not."""
    jobs, vms = [job("a", 2, 100.0), job("b", 1, 1000.0)], [replace(vm("x", 2), terms=None), vm("y", 4)]
    assert run("fitting", jobs, vms).executors_lost == 1
    assert run("underutilized", jobs, vms).executors_lost == 0


def test_fitting_leaves_jobs_alone_that_are_not_restartable() -> None:
    """Which Karpenter does not know."""
    stays = replace(job("c", 1, 1000.0), restartable=False)
    jobs, vms = [job("a", 2, 100.0), job("b", 2, 1000.0), stays], [vm("x", 4), vm("y", 2)]
    assert run("fitting", jobs, vms).executors_lost == 0


@pytest.mark.parametrize(("rule", "moved"), [("fitting", 2), ("fitting:per_hour=1", 1)])
def test_fitting_moves_so_many_executors_an_hour(rule: str, moved: int) -> None:
    """Two jobs end together; what they leave room for could be moved."""
    jobs = [job(*each) for each in (("a", 2, 100.0), ("b", 2, 1000.0), ("c", 2, 100.0), ("d", 1, 1000.0))]
    vms = [vm("x", 4), vm("y", 3), vm("z", 1)]
    assert run(rule, [*jobs, job("e", 1, 1000.0)], vms).executors_lost == moved


def test_balanced_moves_only_where_the_saving_is_worth_the_disruption() -> None:
    """Half of the share of what is disturbed, by Karpenter's k of 2."""
    balanced, always = Consolidation("balanced"), Consolidation("underutilized")
    assert balanced.pays(0.1, 0.2)
    assert not balanced.pays(0.09, 0.2)
    assert always.pays(0.01, 0.9)
    assert not always.pays(0.0, 0.1)


@pytest.mark.parametrize(
    "text", ["none", "underutilized", "balanced:after=300:spot_to_spot", "fitting", "fitting:per_hour=60"]
)
def test_rules_are_read_as_they_are_written(text: str) -> None:
    """A rule names itself as users do."""
    assert str(Consolidation.read(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "balance", "balanced:", "balanced:x", "balanced:after=", "balanced:after=-1"),
        *("fitting:after=1", "fitting:spot_to_spot", "fitting:per_hour=0", "fitting:per_hour=half"),
        *("balanced:per_hour=1", "balanced:after=1:after=2"),
    ],
)
def test_wrong_rules_are_rejected(text: str) -> None:
    """With the right ones."""
    with pytest.raises(
        ValueError, match="consolidate: should be none, fitting, underutilized, balanced or believed"
    ):
        Consolidation.read(text)
