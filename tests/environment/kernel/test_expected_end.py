"""Expected ends of running jobs, as time goes by, and in views."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from environment.kernel.expected_end import expected_end, placed_well
from environment.resources import Resources
from environment.types import PlacementRequest
from environment.view import RunningJob
from tests.builders import make_job, make_view, make_vms
from tests.environment.two_worlds.world import World


def by_sampling(passed: float, seconds: float, spread: float) -> float:
    """Mean of those of a million log-normal durations that exceed the time passed."""
    normal = np.random.default_rng(1).standard_normal(1_000_000)
    drawn = seconds * np.exp(spread * normal - spread**2 / 2)
    return float(drawn[drawn > passed].mean())


@pytest.mark.parametrize("spread", [0.08, 0.5, 1.2])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0, 1.1])
def test_a_running_job_ends_when_those_that_lasted_as_long_do(share: float, spread: float) -> None:
    """E[X | X > x] of a log-normal X with the expected duration as its mean."""
    found = expected_end(1000.0 + 100 * share, 1000.0, 100.0, spread) - 1000.0
    assert found == pytest.approx(by_sampling(100 * share, 100.0, spread), rel=0.01)


@given(passed=st.floats(0, 1e6), seconds=st.floats(0, 1e5), spread=st.floats(0, 2), later=st.floats(0, 1e4))
def test_no_end_is_in_the_past_and_none_comes_nearer_by_waiting(
    passed: float, seconds: float, spread: float, later: float
) -> None:
    """No case breaks this, however long a job has outlasted its expected duration."""
    end = expected_end(1e9 + passed, 1e9, seconds, spread)
    assert math.isfinite(end)
    assert end >= 1e9 + passed
    assert expected_end(1e9 + passed + later, 1e9, seconds, spread) >= end - 1e-4 * (1 + seconds)


def test_what_is_certain_stays_so_until_it_was_wrong() -> None:
    """Without a spread the end stands; a job that outlasts it had the spread that was measured of others."""
    assert expected_end(99.0, 0.0, 100.0, 0.0) == 100.0
    assert 101.0 < expected_end(101.0, 0.0, 100.0, 0.0) < 110.0
    assert expected_end(5.0, 0.0, 0.0, 0.0) == 5.0


@pytest.mark.parametrize(
    ("prefers", "executors", "vms", "good"),
    [
        (None, 3, 2, True),
        ("spread", 3, 3, True),
        ("spread", 3, 2, False),
        ("spread", 1, 1, True),
        ("consolidate", 3, 1, True),
        ("consolidate", 3, 2, False),
        ("consolidate", 1, 1, True),
    ],
)
def test_good_placements(prefers: str | None, executors: int, vms: int, good: bool) -> None:
    """Islam 2022, 7.1."""
    assert placed_well(prefers, executors, vms) is good


def test_views_tell_until_when_vms_are_held() -> None:
    """The end is that of the VM's last job; it is missing if one end, or the job itself, is unknown."""
    known = replace(make_job("known", 2, expected_duration=60.0), spread=0.0)
    view = make_view(make_vms(4), executors=[2, 1, 1, 0], at=10.0)
    ids = [vm.id for vm in view.vms]
    jobs = (
        RunningJob(known, (ids[0], "gone", ids[1]), 5.0, 60.0),
        RunningJob(make_job("new"), (ids[0],), 5.0, None),
    )
    assert str(view.changed(running=jobs).busy_until.tolist()) == "[nan, 65.0, nan, 10.0]"
    shown = view.changed(running=jobs)
    assumed = shown.busy_until_assuming(1.0)
    assert assumed.tolist() == [65.0, 65.0, 11.0, 10.0]
    assumed[:] = 0.0  # it is the asker's own
    assert shown.busy_until_assuming(1.0).tolist() == [65.0, 65.0, 11.0, 10.0]
    later = shown.busy_until_assuming(70.0).tolist()
    assert later == [jobs[1].end_assuming(10.0, 70.0), 65.0, 80.0, 10.0]
    new = jobs[1].end_assuming(10.0, 1.0)
    assert shown.next_end_assuming(1.0) == new
    assert view.next_end_assuming(1.0) == 10.0
    assert new == expected_end(10.0, 5.0, 1.0, jobs[1].job.spread) > 10.0
    placed = view.with_placement(PlacementRequest(replace(known, prefers="consolidate"), 2), (2, 3))
    assert placed.running[-1].end_at(10.0) == 10.0 + 60.0 * 1.3
    assert placed.busy_until[3] == 88.0


def test_ends_are_computed_once_in_a_round() -> None:
    """After a placement they are those that the view would compute anew, to the last bit."""
    known = make_job("known", 2, expected_duration=60.0)
    view = make_view(make_vms(4, cpus=8), executors=[2, 1, 1, 0], at=10.0)
    running = (
        RunningJob(known, (view.vms[0].id, "gone"), 5.0, 60.0),
        RunningJob(make_job("old"), (view.vms[0].id,), -300.0, None),
    )
    view = view.changed(running=running)
    asked = [
        PlacementRequest(make_job("first", 3, expected_duration=7.0), 3),
        PlacementRequest(make_job("unknown", 2), 2),
        PlacementRequest(known, 1, present_on=(view.vms[0].id,), again=True, first_number=2),
        PlacementRequest(make_job("last", 1, expected_duration=500.0), 1),
    ]
    for request, placement in zip(asked, ((2, 3, 2), (0, 1), (1,), (2,)), strict=True):
        for unknown in (240.0, 1.0):
            view.busy_until_assuming(unknown)
        view = view.with_placement(request, placement)
        anew = replace(view)
        assert view.ends_assuming(1.0).tolist() == anew.ends_assuming(1.0).tolist()
        assert view.busy_until_assuming(1.0).tolist() == anew.busy_until_assuming(1.0).tolist()
        assert view.busy_until_assuming(240.0).tolist() == anew.busy_until_assuming(240.0).tolist()


def test_views_of_a_moment_share_the_ends_they_have_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order, also where a search goes on from one view in two ways: each end is computed once."""
    asked: list[str] = []
    of_job = RunningJob.end_assuming

    def counted(job: RunningJob, now: float, unknown: float) -> float:
        asked.append(job.job.id)
        return of_job(job, now, unknown)

    old = tuple(RunningJob(make_job(f"old-{n}"), ("id-vm-1",), -300.0, 400.0) for n in range(20))
    first = replace(make_view(make_vms(4, cpus=8), executors=[1, 0, 0, 0], at=10.0), running=old)
    ways = [[first], [first]]
    for way, vm in zip(ways, (1, 2), strict=True):
        for number in range(3):
            request = PlacementRequest(make_job(f"new-{vm}-{number}", 1, expected_duration=7.0), 1)
            way.append(way[-1].with_placement(request, (vm,)))
    monkeypatch.setattr(RunningJob, "end_assuming", counted)
    ends = [view.busy_until_assuming(240.0).tolist() for way in ways for view in way]
    assert Counter(asked) == {job.job.id: 1 for way in ways for job in way[-1].running}
    assert ends == [replace(view).busy_until_assuming(240.0).tolist() for way in ways for view in way]


def test_what_follows_from_the_vms_is_computed_once_for_all_views_of_them() -> None:
    """Also where a later view is asked first; views of other VMs have values of their own."""
    first = make_view(make_vms(3))
    later = first.with_placement(PlacementRequest(make_job("job"), 1), (0,))
    for name in ("prices_per_hour", "spot", "distinct_terms", "capacity", "index", "paid", "extras", "kinds"):
        assert getattr(later, name) is getattr(first, name), name
    dear = tuple(replace(vm, price_per_hour=7.0) for vm in first.vms)
    assert first.changed(vms=dear).prices_per_hour.tolist() == [7.0] * 3


def test_the_daemon_knows_what_a_bad_placement_costs() -> None:
    """A job's expected end is that of its actual placement and of all its executors, lost ones too."""
    vms = make_vms(3)
    world = World(vms)
    job = replace(make_job("a", 2, expected_duration=100.0), prefers="consolidate")
    world.subscribe()
    world.submit(job)
    world.offer()
    world.place("a", vms[0], vms[1])
    (running,) = world.model.view().running
    assert (running.expected, running.end_at(world.now)) == (130.0, world.now + 130.0)
    world.tell("running", *world.open_tasks("a"))
    world.driver_ends("nobody")
    world.tell("failed", world.open_tasks("a")[0])
    (running,) = world.model.view().running
    assert (len(running.vm_ids), running.expected, running.sizes) == (1, 130.0, (Resources.of(1.0, 1024),))
