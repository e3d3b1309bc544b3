"""The baselines' placements, computed by hand."""

from collections.abc import Sequence

import pytest

from agents.baselines.first_fit import FirstFit
from agents.baselines.random_choice import RandomChoice, RandomOptions
from agents.baselines.round_robin import RoundRobin, RoundRobinConsolidate
from agents.baselines.scored import BestFit, LeastAllocated, MostAllocated, Tetris
from environment.decisions.decision_round import decide_in_turn
from environment.policy import Policy
from environment.types import Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView
from tests.builders import make_job, make_request, make_view, make_vm, make_vms


def placed(policy: Policy, view: ClusterView, request: PlacementRequest) -> list[str]:
    """Names of the VMs chosen, executor by executor."""
    decision = policy.decide(view, [request])
    assert isinstance(decision, Place), decision
    return [view.vms[i].name for i in decision.placement]


def waits(policy: Policy, view: ClusterView, request: PlacementRequest) -> str:
    """The reason to wait."""
    decision = policy.decide(view, [request])
    assert isinstance(decision, Wait), decision
    return decision.reason


def in_turn(policy: Policy, view: ClusterView, requests: Sequence[PlacementRequest]) -> list[list[str]]:
    """The VMs chosen, job by job, in one round."""
    return [
        [view.vms[i].name for i in verdict.decision.placement]
        for verdict in decide_in_turn(policy.decide, view, requests)
        if isinstance(verdict.decision, Place)
    ]


def test_round_robin_gives_each_vm_one_in_turn() -> None:
    """Three executors go to three VMs."""
    assert placed(RoundRobin(), make_view(make_vms(4)), make_request(3)) == ["vm-1", "vm-2", "vm-3"]


def test_round_robin_keeps_its_turn_between_jobs() -> None:
    """The second job begins after the VM that the first one ended on, and goes around the ring."""
    jobs = [make_request(3), make_request(3)]
    assert in_turn(RoundRobin(), make_view(make_vms(4)), jobs)[1] == ["vm-4", "vm-1", "vm-2"]


def test_round_robin_passes_full_vms_over() -> None:
    """A VM without room loses its turn, and the ring is gone around until all are placed."""
    view = make_view(make_vms(3), free_cpus=[2, 0, 1])
    assert placed(RoundRobin(), view, make_request(3)) == ["vm-1", "vm-3", "vm-1"]


def test_round_robin_waits_without_losing_its_turn() -> None:
    """Waiting moves nothing: the next job begins where it would have begun."""
    policy, view = RoundRobin(), make_view(make_vms(3))
    placed(policy, view, make_request(1))
    waits(policy, view, make_request(13))
    assert placed(policy, view, make_request(1)) == ["vm-2"]


@pytest.mark.parametrize(
    ("left", "expected"),
    [("vm-2", "vm-3"), ("vm-3", "vm-4"), ("vm-1", "vm-3"), ("vm-4", "vm-3")],
)
def test_round_robin_knows_vms_by_id(left: str, expected: str) -> None:
    """After vm-2 was used, the turn is vm-3's, or vm-4's when vm-3 left; other departures do not matter."""
    policy, vms = RoundRobin(), make_vms(4)
    placed(policy, make_view(vms), make_request(2))
    stay = [vm for vm in vms if vm.name != left]
    assert placed(policy, make_view(stay), make_request(1)) == [expected]


def test_round_robin_begins_anew_when_all_vms_left() -> None:
    """On VMs that it has never seen it begins with the first."""
    policy = RoundRobin()
    placed(policy, make_view(make_vms(4)), make_request(2))
    assert placed(policy, make_view([make_vm("other-1"), make_vm("other-2")]), make_request(1)) == ["other-1"]


def test_round_robin_meets_a_new_vm_in_its_place() -> None:
    """A VM that joined right after the one used last is next."""
    policy, (one, two, three) = RoundRobin(), make_vms(3)
    placed(policy, make_view([one, three]), make_request(1))
    assert placed(policy, make_view([one, two, three]), make_request(1)) == ["vm-2"]


def test_consolidating_round_robin_stays_on_vms_in_use() -> None:
    """Executors go in turn over the two VMs that run some already, although others are empty."""
    view = make_view(make_vms(4), free_cpus=[4, 2, 4, 3], executors=[0, 2, 0, 1])
    assert placed(RoundRobinConsolidate(), view, make_request(4)) == ["vm-2", "vm-4", "vm-2", "vm-4"]


def test_consolidating_round_robin_opens_one_vm_after_the_other() -> None:
    """Only when those in use are full is the next in the ring opened, and filled before another is."""
    view = make_view(make_vms(4), free_cpus=[4, 4, 1, 4], executors=[0, 0, 3, 0])
    expected = ["vm-3", "vm-4", "vm-4", "vm-4", "vm-4", "vm-1"]
    assert placed(RoundRobinConsolidate(), view, make_request(6)) == expected


def test_consolidating_round_robin_uses_what_it_opened() -> None:
    """The next job of the round goes on with the VM that the first one opened."""
    jobs = [make_request(2), make_request(3)]
    chosen = in_turn(RoundRobinConsolidate(), make_view(make_vms(3)), jobs)
    assert chosen == [["vm-1", "vm-1"], ["vm-1", "vm-1", "vm-2"]]


def test_consolidating_round_robin_opens_only_what_fits() -> None:
    """An empty VM that is too small for the executor stays closed."""
    vms = (make_vm("vm-1", cpus=1), make_vm("vm-2", cpus=4))
    assert placed(RoundRobinConsolidate(), make_view(vms), make_request(2, cpus=2)) == ["vm-2", "vm-2"]


def test_first_fit_fills_the_first_vm_first() -> None:
    """The second VM is used once the first has no room."""
    view = make_view(make_vms(3), free_cpus=[2, 4, 4])
    assert placed(FirstFit(), view, make_request(4)) == ["vm-1", "vm-1", "vm-2", "vm-2"]


def test_memory_counts_as_cpus_do() -> None:
    """A VM with cpus and without memory is passed over."""
    view = make_view(make_vms(2), free_memory_mib=[1023, 2048])
    assert placed(FirstFit(), view, make_request(2)) == ["vm-2", "vm-2"]


EVERYONE = [
    RoundRobin,
    RoundRobinConsolidate,
    FirstFit,
    BestFit,
    LeastAllocated,
    MostAllocated,
    Tetris,
    lambda: RandomChoice(RandomOptions()),
]


@pytest.mark.parametrize("make", EVERYONE)
def test_exact_fit_is_a_fit(make: type[FirstFit]) -> None:
    """The last cpu and the last MiB can be used, on every VM."""
    view = make_view(make_vms(3, cpus=2, memory_mib=2048))
    chosen = placed(make(), view, make_request(6, cpus=1, memory_mib=1024))
    assert sorted(chosen) == ["vm-1", "vm-1", "vm-2", "vm-2", "vm-3", "vm-3"]


@pytest.mark.parametrize("make", EVERYONE)
def test_one_executor_too_many_waits(make: type[FirstFit]) -> None:
    """All or none: room for six is no room for seven, and the reason counts both."""
    view = make_view(make_vms(3, cpus=2, memory_mib=2048))
    reason = waits(make(), view, make_request(7))
    assert reason == "room for 6 of 7 executors of 1 cpu and 1024 MiB"


@pytest.mark.parametrize("make", EVERYONE)
@pytest.mark.parametrize(
    ("cpus", "executors", "vm_cpus"), [(0.1, 3, 0.3), (0.1, 7, 0.7), (0.3, 3, 0.9), (1.1, 3, 3.3)]
)
def test_fractions_of_cpus_add_up(make: type[FirstFit], cpus: float, executors: int, vm_cpus: float) -> None:
    """Three tenths are three times a tenth, despite float rounding; a fourth tenth is refused."""
    view = make_view([make_vm("vm-1", cpus=vm_cpus)])
    assert placed(make(), view, make_request(executors, cpus=cpus)) == ["vm-1"] * executors
    waits(make(), view, make_request(executors + 1, cpus=cpus))


@pytest.mark.parametrize("make", EVERYONE)
def test_fractions_add_up_over_a_round(make: type[FirstFit]) -> None:
    """Ten jobs of a tenth of a cpu fill a cpu one by one; the eleventh waits."""
    requests = [make_request(1, cpus=0.1) for _ in range(11)]
    verdicts = tuple(decide_in_turn(make().decide, make_view([make_vm(cpus=1.0)]), requests))
    assert [type(verdict.decision) for verdict in verdicts] == [Place] * 10 + [Wait]


@pytest.mark.parametrize("make", EVERYONE)
def test_lost_executors_alone_are_placed_again(make: type[FirstFit]) -> None:
    """A request for two of five executors places two."""
    request = PlacementRequest(make_job(executors=5), 2, ("id-vm-1",))
    assert len(placed(make(), make_view(make_vms(3)), request)) == 2


@pytest.mark.parametrize("make", EVERYONE)
def test_reason_names_what_is_short(make: type[FirstFit]) -> None:
    """The reason counts the VMs that lack cpus and those that lack memory."""
    view = make_view(make_vms(4), free_cpus=[1, 1, 4, 4], free_memory_mib=[9999, 512, 512, 4096])
    expected = "room for 2 of 3 executors of 2 cpus and 2048 MiB; of 4 VMs, 2 lack cpus and 2 lack memory"
    assert waits(make(), view, make_request(3, cpus=2, memory_mib=2048)) == expected


@pytest.mark.parametrize("make", EVERYONE)
def test_every_executor_has_its_reason(make: type[FirstFit]) -> None:
    """`why` has one sentence per executor, and it names the VM."""
    view = make_view(make_vms(2))
    decision = make().decide(view, [make_request(6)])
    assert isinstance(decision, Place)
    assert all(view.vms[i].name in why for i, why in zip(decision.placement, decision.why, strict=True))


def test_best_fit_takes_the_tightest_vm() -> None:
    """Of VMs with 4, 2 and 3 cpus free, the one with 2 is filled first, then the one with 3."""
    view = make_view(make_vms(3), free_cpus=[4, 2, 3])
    assert placed(BestFit(), view, make_request(4)) == ["vm-2", "vm-2", "vm-3", "vm-3"]


def test_best_fit_and_most_allocated_differ_on_unequal_vms() -> None:
    """An empty small VM leaves the least free; a large one half full is the more allocated."""
    vms: tuple[Vm, ...] = (make_vm("small", 4, 16384), make_vm("large", 12, 49152))
    view = make_view(vms, free_cpus=[4, 6], free_memory_mib=[16384, 24576])
    assert placed(BestFit(), view, make_request(1)) == ["small"]
    assert placed(MostAllocated(), view, make_request(1)) == ["large"]


def test_least_allocated_levels_the_load() -> None:
    """The emptier VM takes executors until both are level; ties go to the first."""
    view = make_view(make_vms(2), free_cpus=[2, 4], free_memory_mib=[8192, 16384])
    request = make_request(4, cpus=1, memory_mib=4096)
    assert placed(LeastAllocated(), view, request) == ["vm-2", "vm-2", "vm-1", "vm-2"]


def test_tetris_aligns_demand_with_what_is_free() -> None:
    """The largest dot product: memory-bound executors go where memory is free."""
    view = make_view(make_vms(2, cpus=8, memory_mib=8192), free_cpus=[8, 3], free_memory_mib=[3072, 8192])
    assert placed(Tetris(), view, make_request(1, cpus=2, memory_mib=1024)) == ["vm-1"]
    assert placed(Tetris(), view, make_request(1, cpus=1, memory_mib=2048)) == ["vm-2"]
    # Each executor takes what the next one aligns with: 0.5, then 0.375 on the first, 0.434 on the second.
    view = make_view(make_vms(2, cpus=8, memory_mib=8192), free_cpus=[8, 7], free_memory_mib=[8192, 7168])
    assert placed(Tetris(), view, make_request(3, cpus=2, memory_mib=2048)) == ["vm-1", "vm-2", "vm-1"]


def test_scores_are_handed_on() -> None:
    """The chosen VM has the highest score of those with room."""
    for policy in (BestFit(), MostAllocated(), LeastAllocated(), Tetris()):
        decision = policy.decide(make_view(make_vms(3), free_cpus=[4, 2, 3]), [make_request(1)])
        assert isinstance(decision, Place)
        assert decision.scores[decision.placement[0]] == max(decision.scores)


def test_random_follows_its_seed() -> None:
    """One seed gives one row of decisions, another seed another."""

    def row(seed: int) -> list[list[str]]:
        policy = RandomChoice(RandomOptions(seed))
        return in_turn(policy, make_view(make_vms(20)), [make_request(5)] * 4)

    assert row(1) == row(1)
    assert row(1) != row(2)
