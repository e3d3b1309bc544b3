"""Overtaking: jobs that go before the head of the queue, jobs they delay, and the reasons."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.overtaking.overtaking_policy import Overtaking
from agents.overtaking.placement_value import Worth
from agents.overtaking.reservation import Reservation
from agents.registry import POLICIES, PolicyError, create
from environment.clusters.cluster_files import load_cluster
from environment.decisions.decision_round import QueueOnView, has_room
from environment.resources import Resources
from environment.simulation.durations.beliefs import EXACT
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Place, PlacementRequest, Wait
from environment.view import ClusterView
from profiles.workloads.workload import Workload, WorkloadJob
from tests.agents.test_documented import SCENES
from tests.agents.test_documented import scene as random_scene
from tests.builders import make_job, make_view, make_vms

HEAD_ALONE = [name for name, listed in POLICIES.items() if listed.head_alone]
WAYS = ("easy", "first_fit", "best", "shortest")


def asks(name: str, executors: int, seconds: float | None = 100.0, **more: Any) -> PlacementRequest:
    """A request for executors of one cpu."""
    job = replace(make_job(name, executors, expected_duration=seconds), spread=0.0, **more)
    return PlacementRequest(job, executors)


def scene(*ends: float, vms: int = 2) -> ClusterView:
    """VMs of four cpus; for each of these ends a job that holds three of one of them until then."""
    view = make_view(make_vms(vms, cpus=4))
    for vm, end in enumerate(ends):
        view = view.with_placement(asks(f"runs-{vm}", 3, end), [vm] * 3)
    return view


def decide(view: ClusterView, queue: Sequence[PlacementRequest], **options: Any) -> Place | Wait:
    """First fit's decision with these options."""
    return create("ff", options).decide(view, queue)


def test_by_default_nobody_overtakes() -> None:
    """As in the paper."""
    assert isinstance(decide(scene(50.0, 90.0), [asks("wide", 6), asks("small", 1)]), Wait)


def test_who_ends_before_the_head_starts_delays_nobody() -> None:
    """The head starts when both jobs have ended; a longer job would delay it."""
    view, wide = scene(50.0, 90.0), asks("wide", 6)
    place = decide(view, [wide, asks("short", 1, 90.0)], overtake="easy")
    assert isinstance(place, Place)
    assert place.job_id == "short"
    assert place.why[0].endswith(
        "it overtakes wide (the oldest is overtaken 128 times at most), "
        "and wide is still expected to start by 90 s"
    )
    # Of eight cpus six are for the head: one long executor is no harm, three are.
    assert isinstance(decide(view, [wide, asks("long", 1, 500.0)], overtake="easy"), Place)
    eight = asks("eight", 8)
    wait = decide(view, [eight, asks("long", 1, 500.0), asks("longer", 2, 600.0)], overtake="easy")
    assert isinstance(wait, Wait)
    assert wait.reason.endswith(
        "; it is expected to start by 90 s, and 2 jobs behind it that fit would delay it"
    )
    assert isinstance(decide(view, [eight, asks("short", 2, 80.0)], overtake="easy"), Place)


def test_what_is_not_known_is_not_said() -> None:
    """If ending jobs make no room for the head, no job goes before it, and no time is given."""
    wait = decide(scene(50.0), [asks("huge", 9), asks("short", 1)], overtake="easy")
    assert isinstance(wait, Wait)
    assert wait.reason.endswith("its start is unknown, so no job overtakes it")


def test_first_fit_takes_whoever_fits() -> None:
    """Though it delays the head, which goes first where it fits."""
    view, long = scene(50.0, 90.0), asks("long", 2, 900.0)
    place = decide(view, [asks("eight", 8), asks("wide", 6), long], overtake="first_fit")
    assert isinstance(place, Place)
    assert place.job_id == "long"
    assert "it overtakes 2 older jobs" in place.why[0]
    head = decide(view, [asks("one", 1), asks("two", 2)], overtake="first_fit")
    assert isinstance(head, Place)
    assert (head.job_id, "overtakes" in head.why[0]) == ("one", False)


def test_best_takes_the_best_of_all_that_fit() -> None:
    """The one with a VM that is held for its time anyway, though the head fits too."""
    view = scene(300.0)
    place = decide(view, [asks("two", 2, 900.0), asks("one", 1, 300.0)], overtake="best", beta=0.9)
    assert isinstance(place, Place)
    assert (place.job_id, place.placement) == ("one", (0,))
    assert "; of 2 jobs that fit it is the best (beta 0.9); it overtakes two" in place.why[0]


@pytest.mark.parametrize("name", ["ff", "aep", "ilp", "rr", "random"])
@pytest.mark.parametrize("seed", SCENES)
def test_best_is_no_worse_than_any(name: str, seed: int) -> None:
    """Of the placements that the policy would make of each job of the window."""
    view, queue, _ = random_scene(seed)
    alone = [create(name).decide(view, [request]) for request in queue]
    values = [
        Worth(view, request, place, 240.0).of(request.job, 0.5)
        for request, place in zip(queue, alone, strict=True)
        if isinstance(place, Place)
    ]
    decision = create(name, {"overtake": "best"} | ({"beta": 0.5} if name == "ilp" else {})).decide(
        view, queue
    )
    assert isinstance(decision, Place) == bool(values)
    if isinstance(decision, Place):
        chosen = next(request for request in queue if request.job.id == decision.job_id)
        assert Worth(view, chosen, decision, 240.0).of(chosen.job, 0.5) == min(values)


def test_shortest_takes_the_one_that_is_expected_to_take_least() -> None:
    """Of all that fit, the oldest of several; one of unknown duration counts as long."""
    queue = [asks("wide", 6, 1.0), asks("long", 1, 300.0), asks("unknown", 1, None), asks("short", 1, 90.0)]
    place = decide(scene(50.0, 90.0), [*queue, asks("as-short", 1, 90.0)], overtake="shortest")
    assert isinstance(place, Place)
    assert place.job_id == "short"
    assert place.why[0].endswith(
        "; of 4 jobs that fit it is the shortest; it overtakes 3 older jobs "
        "(the oldest is overtaken 128 times at most)"
    )


def test_no_job_is_overtaken_for_ever() -> None:
    """After so many the head is next."""
    view, policy = scene(50.0, 90.0), create("ff", {"overtake": "first_fit", "overtaken_at_most": 2})
    told = [policy.decide(view, [asks("wide", 6), asks(f"small-{number}", 1)]) for number in range(3)]
    assert [type(decision) for decision in told] == [Place, Place, Wait]


def test_lost_executors_are_not_overtaken() -> None:
    """Their job runs already, and is slow or stands still without them."""
    view, lost = scene(50.0, 90.0), replace(asks("wide", 6), again=True)
    for way in WAYS:
        assert isinstance(decide(view, [lost, asks("small", 1)], overtake=way), Wait)


def test_only_the_window_is_looked_at() -> None:
    """The head counts."""
    view, queue = scene(50.0, 90.0), [asks("wide", 6), asks("wider", 7), asks("small", 1)]
    assert isinstance(decide(view, queue, overtake="first_fit", window=2), Wait)
    assert isinstance(decide(view, queue, overtake="first_fit", window=3), Place)


def test_who_has_no_room_for_its_driver_holds_up_nobody() -> None:
    """Neither as the head, nor behind it."""
    driver = Resources.of(4.0, 1024)
    head, other = asks("wide", 2, driver=driver), asks("other", 1, driver=driver)
    place = decide(scene(50.0, 90.0), [head, other, asks("small", 1)], overtake="easy")
    assert isinstance(place, Place)
    assert place.job_id == "small"


def test_a_driver_delays_the_head_as_executors_do() -> None:
    """The head needs all but one cpu from 90 on: an executor has room beside it, its driver has not."""
    head, view = asks("wide", 7), scene(50.0, 90.0)
    assert isinstance(decide(view, [head, asks("alone", 1, 500.0)], overtake="easy"), Place)
    beside = asks("beside", 1, 500.0, driver=Resources.of(1.0, 1024))
    assert isinstance(decide(view, [head, beside], overtake="easy"), Wait)


def test_the_turn_moves_on_for_who_is_placed_alone() -> None:
    """Trying a job does not move the turn: the next decision is as if no other job had been tried."""
    view = make_view(make_vms(4, cpus=4))
    for name in ("rr", "rrc", "random"):
        policy = create(name, {"overtake": "best"})
        assert isinstance(policy, Overtaking)
        alone = create(name)
        for number in range(6):
            queue = [asks(f"{number}-{n}", 1 + n) for n in range(3)]
            decision = policy.decide(view, queue)
            assert isinstance(decision, Place)
            chosen = next(request for request in queue if request.job.id == decision.job_id)
            expected = alone.decide(view, [chosen])
            assert isinstance(expected, Place)
            assert decision.placement == expected.placement


def test_elastic_jobs_start_on_what_there_is() -> None:
    """The head has its place kept for its fewest executors."""
    elastic = asks("wide", 8, min_executors=4)
    queue = QueueOnView(scene(50.0, 90.0), [elastic, asks("small", 1, 500.0)])
    decision = decide(scene(50.0, 90.0), queue, overtake="easy")
    assert isinstance(decision, Place)
    assert decision.why[0].endswith("wide is still expected to start by 50 s")


@given(
    ends=st.lists(st.floats(1.0, 500.0), min_size=2, max_size=4),
    head=st.integers(1, 16),
    others=st.lists(st.tuples(st.integers(1, 6), st.floats(1.0, 500.0)), max_size=6),
)
@settings(max_examples=150, deadline=None)
def test_easy_delays_the_head_by_nothing(
    ends: list[float], head: int, others: list[tuple[int, float]]
) -> None:
    """The head's believed start is no later with the jobs that went before it than without."""
    view, first = scene(*ends, vms=4), asks("head", head)
    before = Reservation(view, first, 240.0).starts
    queue = [first, *(asks(f"job-{n}", count, seconds) for n, (count, seconds) in enumerate(others))]
    policy = create("ff", {"overtake": "easy"})
    while isinstance(decision := policy.decide(view, queue), Place) and decision.job_id != "head":
        request = next(request for request in queue if request.job.id == decision.job_id)
        view = view.with_placement(request, decision.placement)
        queue.remove(request)
        after = Reservation(view, first, 240.0).starts
        assert before is not None
        assert after is not None
        assert after <= before
    if before is not None and isinstance(decision, Wait):
        ended = [job for job in view.running if job.end_assuming(0.0, 240.0) > before]
        then = make_view(view.vms)
        for job in ended:
            placement = [view.index[vm] for vm in job.vm_ids]
            then = then.with_placement(PlacementRequest(job.job, len(placement)), placement)
        assert has_room(then, first)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "ff",
            {"overtake": "esay"},
            "policy ff: overtake: should be 'none', 'easy', 'first_fit', 'best' or 'shortest'",
        ),
        (
            "ff",
            {"window": 10},
            "policy ff: window: requires overtake easy or first_fit or best or shortest, found none",
        ),
        ("ff", {"overtake": "easy", "beta": 1}, "policy ff: beta: requires overtake best, found easy"),
        ("ff", {"overtake": "easy", "window": 0}, "policy ff: window: should be 1 or more, found 0"),
        ("rr", {"overtake": "best", "beta": 2}, "policy rr: beta: should be between 0 and 1, found 2"),
        (
            "ff",
            {"overtake": "best", "overtaken_at_most": -1},
            "overtaken_at_most: should be 0 or more, found -1",
        ),
        ("ff", {"overtak": "best"}, "policy ff: overtak: unknown option; did you mean overtake?"),
        ("aep", {"windw": 2}, "policy aep: windw: unknown option; did you mean window?"),
        ("drf", {"overtake": "easy"}, "policy drf: overtake: unknown option; it orders the queue itself"),
        ("lookahead", {"overtake": "easy"}, "policy lookahead: overtake: unknown option"),
    ],
)
def test_wrong_options_are_explained(name: str, options: dict[str, object], message: str) -> None:
    """The fault, its place, and the valid values."""
    with pytest.raises(PolicyError) as caught:
        create(name, options)
    assert message in str(caught.value)


def test_options_of_the_same_name_are_of_both() -> None:
    """The integer program and the choice of the best use the same weight."""
    assert create("ilp", {"beta": 1.0, "unknown_duration": 10.0}) is not None
    policy = create("ilp", {"overtake": "best", "beta": 0.75})
    assert isinstance(policy, Overtaking)
    assert policy._options.beta == policy._policy._options.beta == 0.75  # type: ignore[attr-defined]


@st.composite
def random_jobs(draw: st.DrawFn) -> Workload:
    """Jobs of any size and length, from a trickle to all at once."""
    count, gap = draw(st.integers(5, 40)), draw(st.sampled_from([0.0, 5.0, 60.0, 400.0]))
    jobs = []
    for number in range(count):
        seconds = draw(st.sampled_from([5.0, 60.0, 300.0, 3000.0]))
        cpus, executors = draw(st.sampled_from([1.0, 2.0, 4.0])), draw(st.integers(1, 10))
        kind = draw(st.sampled_from(["sort", "wordcount"]))
        jobs.append(WorkloadJob(f"job-{number:03}", number * gap, kind, cpus, 2048, executors, seconds))
    return Workload(tuple(jobs))


def longest_wait(result: Result) -> float:
    """Seconds."""
    return max(job.started_at - job.submitted_at for job in result.jobs)


@pytest.mark.parametrize("way", ["easy", "first_fit", "best", "shortest", "greedy"])
@given(workload=random_jobs())
@settings(max_examples=25, deadline=None)
def test_nobody_starves(way: str, workload: Workload) -> None:
    """The longest wait is at most twice first fit's plus the mean and the longest duration."""
    options, vms = SimulationOptions(belief=EXACT), load_cluster("paper")
    alone = simulate(create("ff"), workload, vms, options=options)
    policy = create("greedy") if way == "greedy" else create("ff", {"overtake": way})
    result = simulate(policy, workload, vms, options=options)
    longest = max(job.duration for job in alone.jobs)
    assert longest_wait(result) <= 2 * longest_wait(alone) + alone.average_duration + longest
