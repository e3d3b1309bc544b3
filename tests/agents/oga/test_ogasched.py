"""OgaSched as a policy: executors cut from an allocation, by hand; learning, state and reasons."""

from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest

from agents.oga.cutting import cut, floor_of, uncut, whole
from agents.oga.ogasched_policy import OgaSched, OgaSchedOptions
from agents.registry import create
from environment.decisions.feasibility import check
from environment.policy import Keeper, Observer
from environment.resources import LEAST, Resources
from environment.types import EndedJob, Place, PlacementRequest, Wait
from tests.builders import make_job, make_view, make_vm, make_vms

GIB = 1024


def ask(
    executors: int = 2, cpus: float = 2.0, kind: str = "sort", fewest: int | None = None, name: str = "job-1"
) -> PlacementRequest:
    """A job with 2 GiB for each executor, expected to take 100 s."""
    job = make_job(name, executors, cpus, 2 * GIB, expected_duration=100.0)
    return PlacementRequest(replace(job, type=kind, min_executors=fewest), executors)


@pytest.mark.parametrize(
    ("request_", "cpus", "gib", "found"),
    [
        (ask(), [4.0, 0.0], [4, 0], [(0, 2.0, 2048), (0, 2.0, 2048)]),
        (ask(), [3.0, 0.0], [4, 0], [(0, 1.5, 2048), (0, 1.5, 2048)]),
        (ask(), [1.9, 1.25], [2, 3], [(0, 1.9, 2048), (1, 1.25, 2048)]),
        (ask(), [1.9, 0.9], [2, 2], None),  # what is below the floor is no executor, and a gang needs two
        (ask(fewest=1), [1.9, 0.9], [2, 2], [(0, 1.9, 2048)]),
        (ask(3), [2.0, 4.0], [2, 3], [(1, 2.0, 1536), (1, 2.0, 1536), (0, 2.0, 2048)]),
        (
            ask(4),
            [3.0, 3.0, 2.0],
            [8, 8, 8],
            [(0, 1.5, 2048), (0, 1.5, 2048), (1, 2.0, 2048), (2, 2.0, 2048)],
        ),
        (ask(2, 0.3), [0.3, 0.2], [2, 2], [(0, 0.3, 2048), (1, 0.2, 2048)]),
        (ask(), [], [], None),
    ],
)
def test_cutting_by_hand(
    request_: PlacementRequest,
    cpus: list[float],
    gib: list[float],
    found: list[tuple[int, float, int]] | None,
) -> None:
    """At a floor of a half: each executor where it adds most, none above the request, as many as needed."""
    had = {"cpus": np.array(cpus), "mem": np.array(gib, np.float64) * GIB}
    made = cut(request_, had, floor_of(request_, 0.5))
    assert (
        None if made is None else [(vm, s.cpus, s.memory_mib) for vm, s in zip(*made, strict=True)]
    ) == found


@pytest.mark.parametrize(("cpus", "memory_mib"), [(1.0, 490.9998), (0.5, 491.0), (3.999998, 4096.0)])
def test_what_rounding_takes_is_not_taken_from_the_floor(cpus: float, memory_mib: float) -> None:
    """An allocation that falls short by no more than arithmetic makes executors of the floor's size."""
    request = PlacementRequest(make_job("job-1", 1, 4.0 if cpus > 1 else cpus, round(memory_mib)), 1)
    made = cut(request, {"cpus": np.array([cpus]), "mem": np.array([memory_mib])}, floor_of(request, 1.0))
    assert made == ((0,), (request.asked[0],))


def test_a_floor_is_no_less_than_what_runs_and_no_more_than_is_asked() -> None:
    """A share of the request; 0.1 cpus and 896 MiB at least; but a request below that is its own floor."""
    assert floor_of(ask(), 0.5) == Resources.of(1.0, 1024)
    assert floor_of(ask(), 0.01) == Resources.of(0.1, 896)
    assert floor_of(PlacementRequest(make_job("job-1", 1, 0.05, 100), 1), 0.5) == Resources.of(0.05, 100)


def test_whole_executors_stay_near_the_allocation() -> None:
    """As many as an allocation makes on its VMs, the rest where most of it is; none without room."""
    view = make_view(make_vms(3), free_cpus=[4.0, 4.0, 1.0])
    assert whole(view, ask(3), np.array([0.4, 2.1, 4.0])) == (1, 1, 0)
    assert whole(view, ask(5), np.array([0.0, 0.0, 0.0])) is None


def slot(policy: OgaSched, queue: list[PlacementRequest], at: float = 0.0, vms: int = 3) -> None:
    """The policy is asked on an empty cluster, and its decision is checked."""
    view = make_view(make_vms(vms), at=at)
    decision = policy.decide(view, queue)
    assert isinstance(decision, Place)
    assert check(view, queue[0], decision) == ()


def test_y_gradient_and_projection_are_told() -> None:
    """One number for each VM: two ports that ask the same have the same, and log utilities fall with y."""
    policy = OgaSched(OgaSchedOptions())
    view = make_view(make_vms(2))
    decision = policy.decide(view, [ask(), ask(kind="pagerank", name="job-2")])
    assert isinstance(decision, Place)
    assert {name: len(values) for name, values in decision.details.items()} == {
        f"{what} {unit}": 2 for what in ("y", "gradient", "projected") for unit in ("cpus", "GiB")
    }
    assert decision.details["y cpus"] == (2.0, 2.0)  # 4 cpus asked, in proportion to what two VMs have
    # 1.2 / (y + 1), less the overhead's 0.4 for the resource of which the job has most.
    assert decision.details["gradient cpus"] == pytest.approx((0.0, 0.0))
    assert decision.details["gradient GiB"] == pytest.approx((1.2 / 1.5,) * 2)
    assert decision.why[0].startswith("sort's allocation has ")


def test_without_contention_jobs_get_what_they_ask() -> None:
    """In the conserving variant nothing is withheld that nobody else wants."""
    policy = OgaSched(OgaSchedOptions())
    decision = policy.decide(make_view(make_vms(3)), [ask(3, 2.0)])
    assert isinstance(decision, Place)
    assert (len(decision.placement), decision.sizes) == (3, ())


@pytest.mark.parametrize("variant", ["oga", "oga-reactive", "oga-conserving"])
def test_what_is_taken_caps_the_allocation(variant: str) -> None:
    """Little is free: executors shrink to it, and wait when even their floor is not there."""
    policy = create("ogasched", {"variant": variant, "wait_limit": 0})
    assert isinstance(policy, OgaSched)
    vms = make_vms(2)
    view = make_view(vms, free_cpus=[1.5, 1.0], executors=[1, 1])
    found = [policy.decide(replace(view, at=float(at)), [ask(2, 2.0)]) for at in range(2)]
    decision = found[-1]
    assert isinstance(decision, Place)
    assert sorted(size.cpus for size in decision.sizes) == [1.0, 1.5]
    full = make_view(vms, free_cpus=[0.9, 0.9], executors=[1, 1], at=5.0)
    decision = policy.decide(full, [ask(2, 2.0)])
    assert isinstance(decision, Wait)
    assert "the allocation of sort is" in decision.reason


def test_lost_executors_come_back_as_they_were() -> None:
    """A lost executor of half a cpu is placed with half a cpu, wherever there is room."""
    lost = PlacementRequest(ask(2).job, 1, ("id-vm-1",), True, 2, (Resources.of(0.5, 1000),))
    decision = OgaSched(OgaSchedOptions()).decide(make_view(make_vms(2), free_cpus=[0.4, 0.6]), [lost])
    assert isinstance(decision, Place)
    assert (decision.placement, lost.granted(decision)) == ((1,), (Resources.of(0.5, 1000),))


def test_no_job_is_overtaken_for_ever() -> None:
    """Small jobs of another type go past one that finds no room, but not more often than is allowed."""
    policy = OgaSched(OgaSchedOptions(overtaken_at_most=2))
    view = make_view(make_vms(1), free_cpus=[1.0], executors=[1])
    decisions = [
        policy.decide(replace(view, at=float(n)), [ask(4), ask(1, 1.0, "pagerank", name=f"job-{n + 2}")])
        for n in range(3)
    ]
    assert [type(decision) for decision in decisions] == [Place, Place, Wait]


def gain(policy: OgaSched) -> float:
    """Present gain of the only type."""
    learner = policy._slots.learner
    assert learner is not None
    return float(learner.gains[0])


@pytest.mark.parametrize(("seconds", "expected"), [(100.0, 1.0), (50.0, 1.2), (200.0, 0.9)])
def test_what_jobs_achieved_is_learned(seconds: float, expected: float) -> None:
    """Expected to take 100 s: at twice the speed the type is worth twice as much, a fifth of that at once."""
    policy = OgaSched(OgaSchedOptions(gain_rate=0.2))
    assert isinstance(policy, Observer)
    slot(policy, [ask()])
    job, size = ask().job, Resources.of(2.0, 2048)
    policy.observe(EndedJob(job, ("id-vm-1",) * 2, (size,) * 2, 0.0, seconds, finished=True))
    policy.observe(EndedJob(job, ("id-vm-1",) * 2, (size,) * 2, 0.0, 1.0, finished=False))  # nobody's merit
    assert gain(policy) == pytest.approx(expected)


def same(one: OgaSched, other: OgaSched) -> bool:
    """Whether two have learned the same, up to a projection's tolerance."""
    files = [np.load(BytesIO(policy.state())) for policy in (one, other)]
    assert files[0].files == files[1].files
    texts = ("ports", "instances", "resources", "types")
    return all(
        np.array_equal(files[0][name], files[1][name])
        if name in texts
        else np.allclose(files[0][name], files[1][name], rtol=1e-4, atol=1e-4)
        for name in files[0].files
    )


def test_what_it_learned_outlives_it() -> None:
    """Another one goes on where it was, also when a VM and a type have come or gone meanwhile."""
    policy, heir = OgaSched(OgaSchedOptions()), OgaSched(OgaSchedOptions())
    assert isinstance(policy, Keeper)
    for at in range(5):
        slot(policy, [ask(), ask(kind="pagerank", name="job-2")], at)
    policy.observe(EndedJob(ask().job, ("id-vm-1",), (Resources.of(2.0, 2048),), 0.0, 400.0, finished=True))
    heir.restore(policy.state())
    assert same(heir, policy)
    for each in (heir, policy):
        slot(each, [ask(), ask(kind="pagerank", name="job-2")], 9.0)
    assert same(heir, policy)
    slot(heir, [ask(), ask(kind="kmeans", name="job-3")], 10.0, vms=4)
    slot(policy, [ask(), ask(kind="kmeans", name="job-3")], 10.0, vms=4)
    assert same(heir, policy)


def test_a_state_that_is_none_is_told() -> None:
    """Anything but a state is a ValueError, and leaves the policy as it was."""
    policy, fresh = OgaSched(OgaSchedOptions()), OgaSched(OgaSchedOptions())
    slot(policy, [ask()])
    state = policy.state()
    for broken in (b"no archive", state[: len(state) // 2], state[:60] + b"\0" * 40 + state[100:]):
        with pytest.raises(ValueError, match=r"."):
            fresh.restore(broken)
    assert fresh.state() == b""
    fresh.restore(b"")
    slot(fresh, [ask()])


def test_vms_with_one_name_are_told_apart() -> None:
    """Names may repeat on a real cluster; ids do not."""
    twins = (make_vm("vm"), replace(make_vm("vm"), id="other"))
    decision = OgaSched(OgaSchedOptions()).decide(make_view(twins), [ask(4)])
    assert isinstance(decision, Place)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"floor": 0.0}, "floor: should be more than 0 and at most 1, found 0"),
        ({"eta": -1.0}, "eta: should be a number above 0, found -1"),
        ({"wait_limit": -1}, "wait_limit: should be 0 or more, found -1"),
        ({"patience": 8}, "patience: unknown option; wait_limit is the number of waits"),
        ({"overhead": 2.0}, "overhead: should be between 0 and 1, found 2"),
        ({"decay": 1.5}, "decay: should be more than 0 and at most 1, found 1.5"),
    ],
)
def test_bad_options_are_told(options: dict[str, object], complaint: str) -> None:
    """The option, the valid values, and the value found."""
    with pytest.raises(ValueError, match=complaint):
        create("ogasched", options)


def with_gpus(request_: PlacementRequest, gpus: float) -> PlacementRequest:
    """The same, with so many gpus for each executor."""
    return replace(
        request_, job=replace(request_.job, size=request_.job.size + Resources.named({"gpus": gpus}))
    )


def test_what_is_not_cut_is_rounded_to_whole_executors() -> None:
    """An allocation of 1.6, 0.4 and 3 gpus makes two, none and three executors, of which two and two fit."""
    view = make_view([make_vm(f"vm-{n}", gpus=2) for n in range(3)])
    wanted = {"gpus": np.array([1.6, 0.4, 3.0])}
    for gpus, executors in ((1, [2, 0, 2]), (2, [1, 0, 1])):
        made = uncut(view, with_gpus(ask(), gpus), wanted)
        assert made is not None
        assert made.tolist() == executors
    assert uncut(view, ask(), wanted) is None


def shared_out(policy: OgaSched) -> tuple[str, ...]:
    """The resources of which ports get shares."""
    return policy._slots.resources


def test_a_third_resource_is_cut_once_it_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two executors share one's network request, as with cpus; a gpu is never cut."""
    least = LEAST + Resources.named({"network_mbps": 10})
    for module in ("environment.decisions.feasibility", "agents.oga.cutting"):
        monkeypatch.setattr(f"{module}.LEAST", least)
    vm = make_vm("vm-1", cpus=2.0, network_mbps=400, gpus=2)
    request = PlacementRequest(make_job("job-1", 2, 2.0, 2048, network_mbps=400, gpus=1), 2)
    view, floor = make_view([vm]), floor_of(request, 0.5)
    assert floor == Resources.of(1.0, 1024, {"network_mbps": 200, "gpus": 1})
    made = cut(request, {name: view.usable.amounts(name) for name in least}, floor, uncut(view, request, {}))
    half = Resources.of(1.0, 2048, {"network_mbps": 200, "gpus": 1})
    assert made == ((0, 0), (half, half))
    assert check(view, request, Place("job-1", *made[:1], sizes=made[1])) == ()
    assert check(view, request, Place("job-1", (0, 0)))


@pytest.mark.parametrize("variant", ["oga", "oga-reactive", "oga-conserving"])
def test_gpus_are_a_resource_once_a_job_asks_for_them(variant: str) -> None:
    """Ports that ask for them share them; executors get them whole, though less cpus than they ask for."""
    policy = create("ogasched", {"variant": variant, "wait_limit": 0})
    assert isinstance(policy, OgaSched)
    vms = (make_vm("vm-1"), make_vm("vm-2", gpus=2), make_vm("vm-3", gpus=2))
    plain = ask(kind="pagerank", name="job-2")
    policy.decide(make_view(vms, free_resources={}), [plain])
    assert shared_out(policy) == ("cpus", "mem")
    train, tune = with_gpus(ask(4), 1), with_gpus(ask(4, kind="kmeans", name="job-3"), 1)
    free = make_view(vms, free_cpus=[4.0, 2.4, 2.4], executors=[1, 1, 1], at=1.0)
    found = [policy.decide(replace(free, at=float(at)), [train, tune, plain]) for at in range(1, 4)]
    assert shared_out(policy) == ("cpus", "mem", "gpus")
    decision = found[-1]
    assert isinstance(decision, Place)
    assert check(free, train if decision.job_id == "job-1" else tune, decision) == ()
    assert set(decision.placement) <= {1, 2}
    y = decision.details["y gpus"]
    assert y[0] == 0.0
    assert 1.5 < sum(y) <= 4.0, "of four, about half"
    assert all("gpus of vm-" in why and why.endswith(" and 1 gpu") for why in decision.why)
    heir = OgaSched(OgaSchedOptions())
    heir.restore(policy.state())
    assert shared_out(heir) == ("cpus", "mem", "gpus")
    assert same(heir, policy)
