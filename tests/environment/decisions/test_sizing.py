"""Sizes that are chosen for jobs that leave them open, before any policy sees them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agents.registry import create
from environment.clusters.cluster_files import load_cluster
from environment.decisions.decision_round import decide_in_turn, decide_once
from environment.decisions.explain import explain
from environment.decisions.sizing import Sizes, Sizing, sizing_for
from environment.kernel.arrays import refusals
from environment.model.vms.max_capacity import MaxCapacity
from environment.resources import Resources
from environment.simulation.durations.beliefs import Belief
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import simulate
from environment.types import Decision, Job, Place, PlacementRequest, Wait
from environment.view import ClusterView
from profiles.curve import Curve
from profiles.workloads.generators import load_workload
from tests.builders import make_job, make_view, make_vms

#: A tenth of the work is serial: on eight cores it takes 10 + 21.25 s x 4, on one of them 10 + 100 s.
CURVE = Curve(startup=10.0, work=100.0, serial=0.1)


def open_job(name: str = "job-1", executors: int = 4, cpus: float = 2.0, **fields: object) -> Job:
    """A job of at most so many executors and cpus each, and at least one of either."""
    job = make_job(name, executors, cpus, 1024, expected_duration=100.0)
    return replace(job, **{"min_executors": 1, "min_cpus": 1.0, "curve": CURVE, **fields})  # type: ignore[arg-type]


def queue_of(*jobs: Job) -> list[PlacementRequest]:
    """All of them wait as a whole."""
    return [PlacementRequest(job, job.executors) for job in jobs]


def first(view: ClusterView, queue: Sequence[PlacementRequest], sizes: Sizes | None = None) -> Place:
    """First fit's placement for the queue, with sizes chosen."""
    decision = decide_once(create("ff").decide, view, queue, sizing=Sizing(sizes or Sizes())).decision
    assert isinstance(decision, Place)
    return decision


def cores(place: Place, job: Job) -> float:
    """Cpus of all executors of a placement."""
    return sum(size.cpus for size in place.sizes or job.asked[: len(place.placement)])


def test_alone_it_gets_what_pays_and_with_others_less() -> None:
    """Chosen sizes follow the number of waiting jobs."""
    view, job = make_view(make_vms(4)), open_job()
    alone = cores(first(view, queue_of(job), Sizes(beta=0.0)), job)
    crowd = [cores(first(view, queue_of(*(open_job(f"job-{n}") for n in range(many))))  , job)
             for many in (4, 20, 200)]  # fmt: skip
    assert alone == 8.0
    assert 1.0 <= crowd[2] <= crowd[1] <= crowd[0] <= 8.0
    assert crowd[2] < crowd[0]


def test_it_is_the_least_of_all_sizes_by_the_curve() -> None:
    """The marginal rule, computed apart from the stage."""
    view, job, waiting = make_view(make_vms(2)), open_job(), 40
    queue = queue_of(job, *(open_job(f"job-{n}") for n in range(2, waiting + 2)))
    free, asked = 8.0, 8.0 * (waiting + 1)

    def adds(executors: int, cpus: int) -> float:
        seconds = 100.0 * CURVE.seconds_on(executors * cpus, 1.0, cpus) / CURVE.seconds_on(8.0, 1.0, 2.0)
        share = max(executors * cpus / 8.0, executors * 1024 / (2 * 16384))
        return seconds * (1 + 2 * waiting * (1 - free / asked) * share + share / 1.0)

    best = min(((n, c) for n in (4, 3, 2, 1) for c in (2, 1)), key=lambda size: adds(*size))
    place = first(view, queue)
    assert (len(place.placement), place.sizes[0].cpus) == best


def test_executors_go_before_cpus_where_each_has_to_warm_up() -> None:
    """However many cores a job gets, it gets them in the fewest executors: each does 40 s for itself."""
    view, warming = make_view(make_vms(2)), CURVE._replace(warming=40.0)
    found = set()
    for many in (2, 3, 4, 6, 10, 40):
        jobs = [open_job(f"job-{n}", curve=warming) for n in range(many)]
        place = first(view, queue_of(*jobs))
        given = cores(place, jobs[0])
        found.add(given)
        assert len(place.placement) == -(-given // 2.0)
    assert len(found) > 2


def test_nothing_is_cut_below_the_bounds_and_memory_not_at_all() -> None:
    """A round of many keeps to all bounds."""
    jobs = [open_job(f"job-{n}", 6, 5.0, min_executors=3, min_cpus=2.0) for n in range(60)]
    view = make_view(make_vms(4))
    verdicts = list(decide_in_turn(create("ff").decide, view, queue_of(*jobs), sizing=Sizing(Sizes())))
    placed = [verdict.decision for verdict in verdicts if isinstance(verdict.decision, Place)]
    assert placed
    assert not any(verdict.faults for verdict in verdicts)
    for place in placed:
        assert 3 <= len(place.placement) <= 6
        assert all(size.cpus >= 2.0 and size.memory_mib == 1024 for size in place.sizes)


@pytest.mark.parametrize(
    "fields",
    [
        {"min_executors": None, "min_cpus": None},  # it leaves nothing open
        {"expected_duration": None},  # nobody knows what less would do
        {"curve": None},  # twice the cores take half as long: less saves nothing
    ],
)
def test_others_get_what_they_ask_for(fields: dict[str, object]) -> None:
    """Jobs that leave nothing open, or of which nothing is known."""
    jobs = [replace(open_job(f"job-{n}"), **fields) for n in range(50)]  # type: ignore[arg-type]
    place = first(make_view(make_vms(4)), queue_of(*jobs))
    assert len(place.placement) == 4
    assert place.sizes in ((), jobs[0].asked)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("known", [True, False])
def test_what_no_vm_has_is_not_chosen(known: bool) -> None:
    """A job may have sizes that fit no VM: it is shown with one that does, and is not refused for them."""
    vms = make_vms(3)
    job = open_job(cpus=16.0, executors=9, min_cpus=2.0, min_executors=2)
    job = job if known else replace(job, expected_duration=None)
    place = first(make_view(vms), queue_of(job), Sizes(beta=0.0))
    most = max(vm.cpus for vm in vms)
    assert {size.cpus for size in place.sizes} <= {2.0, 3.0, most}
    if not known:
        assert cores(place, job) == 12.0
    assert not refusals([job], vms)
    assert refusals([replace(job, min_cpus=None)], vms)
    reach = MaxCapacity(tuple(vms), known=True)
    assert not reach.beyond_vms(queue_of(job)[0])
    assert reach.beyond_vms(queue_of(replace(job, min_cpus=most + 1))[0])


def test_without_a_vm_it_asks_for_all() -> None:
    """As long as none is known, there is no share of a cluster to choose by."""
    job = replace(make_job(cpus=4.0), min_cpus=1.0, expected_duration=9.0)
    first_fit = create("ff").decide
    verdict = decide_once(first_fit, make_view(()), [PlacementRequest(job, 1)], sizing=Sizing(Sizes()))
    assert isinstance(verdict.decision, Wait)
    assert not verdict.faults


def test_a_floor_opens_jobs_that_set_no_bounds() -> None:
    """The config opens those jobs alone that say nothing themselves."""
    rigid = open_job(executors=5, cpus=3.0, min_executors=None, min_cpus=None)
    opened = Sizes(floor=0.5).opened(rigid)
    assert (opened.min_executors, opened.min_cpus) == (3, 2.0)
    assert Sizes().opened(rigid) is rigid
    own = replace(rigid, min_executors=2)
    assert Sizes(floor=0.5).opened(own) is own
    assert Sizes(floor=0.5).opened(replace(rigid, size=Resources.of(0.5, 1024))).min_cpus == 0.5
    assert Sizes(floor=0.1).opened(rigid).min_cpus == 1.0  # Spark runs no task on a part of a cpu


def test_the_plain_rule_halves_cpus_while_more_than_one_waits() -> None:
    """The rule to compare with."""
    view, sizes = make_view(make_vms(1)), Sizes(rule="half")
    job = open_job(executors=1, cpus=4.0)
    assert first(view, queue_of(job), sizes).sizes == ()
    three = queue_of(job, *(open_job(f"job-{n}", executors=1, cpus=4.0) for n in (2, 3, 4)))
    assert [size.cpus for size in first(view, three, sizes).sizes] == [2.0]


def test_it_is_told_what_the_size_costs_and_saves() -> None:
    """Explanations have the estimates of the curve, where it is smaller."""
    jobs = [open_job(f"job-{n}") for n in range(100)]
    verdict = decide_once(
        create("ff").decide, make_view(make_vms(1)), queue_of(*jobs), sizing=Sizing(Sizes())
    )
    place = verdict.decision
    assert isinstance(place, Place)
    reason = explain(verdict, "ff").reason
    longer = jobs[0].duration_on(place.sizes)
    assert f"expected to take {longer:.0f} s instead of 100 s" in reason
    assert f"{len(place.placement)} of 4 executors with" in reason
    alone = decide_once(create("ff").decide, make_view(make_vms(4)), queue_of(jobs[0]))
    assert "instead of" not in explain(alone, "ff").reason


def test_a_policy_that_sizes_itself_sees_all_that_is_asked() -> None:
    """The stage is not before OgaSched."""
    assert sizing_for(create("ogasched"), Sizes()) is None
    assert sizing_for(create("ff"), Sizes()) is not None
    seen: list[PlacementRequest] = []

    def look(_: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        seen.extend(queue)
        return Wait("it only looks")

    jobs = queue_of(*(open_job(f"job-{n}") for n in range(50)))
    decide_once(look, make_view(make_vms(4)), jobs, sizing=Sizing(Sizes()))
    assert all(request.job.executors < 4 for request in seen)
    assert [request.job.id for request in seen] == [request.job.id for request in jobs]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0.5", "should be as in"), ("floor", "should be as in"), ("floor=x", "floor: should be a number"),
        ("floor=0", "more than 0"), ("floor=2", "at most 1"), ("floor=0.5,beta=1", "beta: should be"),
        ("floor=0.5,rule=least", "rule: should be"), ("floor=nan", "floor: should be"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(text: str, found: str) -> None:
    """Texts that are no choice of sizes."""
    with pytest.raises(ValueError, match=found):
        Sizes.read(text)
    assert Sizes.read("floor=0.5, beta=0.3") == Sizes(0.5, 0.3)


def test_in_a_burst_it_is_cheaper_and_sooner_for_any_policy() -> None:
    """Sizing lowers cost and completion time in a burst, for any policy."""
    vms, workload = load_cluster("paper"), load_workload("burst", 700, 60)
    for name in ("ff", "aep"):
        options = SimulationOptions(belief=Belief("sigma", 0.2))
        whole = simulate(create(name), workload, vms, options=options)
        free = simulate(create(name), workload, vms, options=replace(options, sizes=Sizes(floor=0.5)))
        assert not free.violations
        assert free.cost < 0.85 * whole.cost
        assert free.average_completion < 0.85 * whole.average_completion
        assert any(job.sizes for job in free.jobs)
