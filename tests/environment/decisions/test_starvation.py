"""Limits on holding back and overtaking jobs, which all policies follow."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from environment.decisions.starvation import PatienceLimits, StarvationGuard
from environment.types import PlacementRequest
from tests.builders import make_job

WINDOW = 6


def queue_of(*names: str, again: tuple[str, ...] = ()) -> list[PlacementRequest]:
    """Requests of one executor each."""
    return [PlacementRequest(make_job(name), 1, again=name in again) for name in names]


@given(most=st.integers(0, 4), picks=st.lists(st.integers(0, WINDOW - 1), max_size=40))
def test_no_job_is_passed_too_often(most: int, picks: list[int]) -> None:
    """Whichever jobs of the window are placed, while a job is the oldest."""
    queue = queue_of(*(f"job-{n}" for n in range(len(picks) + WINDOW)))
    patience = StarvationGuard(PatienceLimits(most))
    passed = dict.fromkeys((request.job.id for request in queue), 0)
    for pick in picks:
        number = min(pick, patience.reach(queue[:WINDOW]) - 1)
        patience.let_pass(queue, number)
        passed[queue[0].job.id] += number > 0
        del queue[number]
    assert max(passed.values()) <= most
    if len(picks) >= most and all(picks[:most]):
        assert max(passed.values()) == most


def test_what_goes_before_a_job_counts_from_when_it_is_the_oldest() -> None:
    """A job in the middle of the queue has borne nothing when it becomes the oldest."""
    patience, queue = StarvationGuard(PatienceLimits(2)), queue_of("a", "b", "c", "d", "e")
    patience.let_pass(queue, 2)
    patience.let_pass(queue_of("a", "b", "d", "e"), 2)
    assert patience.reach(queue_of("a", "b", "e")) == 1
    patience.let_pass(queue_of("a", "b", "e"), 0)
    assert patience.reach(queue_of("b", "e", "f")) == 3


def test_lost_executors_are_not_overtaken_and_nothing_is_forgotten_for_them() -> None:
    """Lost executors end the reach at any position; the oldest job, even their own, retains its count."""
    patience = StarvationGuard(PatienceLimits(5, wait_limit=1))
    patience.hold_back(queue_of("a")[0])
    lost = queue_of("a", "b", again=("a",))
    assert patience.reach(lost) == 1
    assert patience.reach(queue_of("x", "a", "b", again=("a",))) == 2
    assert not patience.notice(lost[0], 0.0, fits=True)
    patience.let_pass(lost, 0)
    assert patience.notice(queue_of("a")[0], 0.0, fits=True)


def test_time_counts_while_it_fits_without_a_break() -> None:
    """And ends with the job; a time that was rounded does not make it wait for another moment."""
    patience, (job,) = StarvationGuard(PatienceLimits(0, patience=60.0)), queue_of("a")
    told = [
        patience.notice(job, at, fits=fits)
        for at, fits in ((0.0, True), (50.0, False), (100.1, True), (160.0, True), (160.1, True))
    ]
    assert told == [False, False, False, False, True]
    assert patience.held_for(job, 161.1) == pytest.approx(61.0)
    assert patience.is_late(job, 161.1)
    patience.let_pass([job], 0)
    assert not patience.is_late(job, 161.1)


def test_waits_count_though_it_fits_at_times_only() -> None:
    """Unlike time they are not counted anew; a job that does not fit is not to be placed."""
    patience, (job,) = StarvationGuard(PatienceLimits(0, wait_limit=2)), queue_of("a")
    patience.hold_back(job)
    assert not patience.notice(job, 1.0, fits=True)
    patience.hold_back(job)
    assert patience.has_waited(job)
    assert not patience.notice(job, 2.0, fits=False)
    assert patience.notice(job, 3.0, fits=True)


def test_jobs_that_never_come_again_are_forgotten() -> None:
    """As those that are killed while they wait."""
    patience = StarvationGuard(PatienceLimits(10_000))
    for number in range(3000):
        patience.hold_back(queue_of(f"gone-{number}")[0])
        patience.let_pass(queue_of("stays", "next"), 1)
    assert len(patience._borne) < 1500
    assert patience._borne["stays", False].overtaken == 3000


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ((-1, 0, 0.0), "overtaken_at_most: should be 0 or more, found -1"),
        ((0, -1, 0.0), "wait_limit: should be 0 or more, found -1"),
        ((0, 0, -1.0), "patience: should be 0 or more seconds, found -1"),
        ((0, 0, "2"), "patience: should be seconds, or a multiple of a job's expected duration, as in 2x, f"),
        ((0, 0, "-1x"), "patience: should be seconds, or a multiple"),
        ((0, 0, "nanx"), "patience: should be seconds, or a multiple"),
        ((0, 0, "longx"), "patience: should be seconds, or a multiple"),
    ],
)
def test_wrong_limits_are_explained(limits: tuple[int, int, float | str], message: str) -> None:
    """By the names that options have."""
    overtaken, waits, seconds = limits
    with pytest.raises(ValueError, match=message):
        PatienceLimits(overtaken, waits, seconds)


def test_patience_may_be_relative_to_what_a_job_takes() -> None:
    """Relative patience uses the expected duration, or the assumed one if unknown; rounding adds nothing."""
    limits = PatienceLimits(0, patience="0.5x", unknown=100.0)
    known = make_job(expected_duration=60.1)
    assert limits.patience_with(known) == pytest.approx(30.05)
    assert limits.patience_with(make_job()) == 50.0
    patience, request = StarvationGuard(limits), PlacementRequest(known, 1)
    assert not patience.notice(request, 1.7e9, fits=True)
    assert not patience.notice(request, 1.7e9 + 30.0, fits=True)
    assert patience.left(request, 1.7e9 + 30.0) == pytest.approx(0.05, abs=1e-3)
    assert patience.notice(request, 1.7e9 + 30.05, fits=True)


def test_all_are_noticed_as_one_by_one() -> None:
    """Noticing a whole queue at once leaves each job the same as one by one, for any set of fitting jobs."""
    draw = random.Random(0)  # noqa: S311  no secrets
    queue = queue_of(*(f"job-{n}" for n in range(WINDOW)), again=("job-2",))
    limits = PatienceLimits(1, patience="2x")
    whole, single = StarvationGuard(limits), StarvationGuard(limits)
    for at in range(20):
        fits = [draw.random() < 0.5 for _ in queue]
        whole.notice_all(queue, at, fits)
        for request, fits_now in zip(queue, fits, strict=True):
            single.notice(request, at, fits=fits_now)
        most = [limits.patience_with(request.job) for request in queue]
        assert whole.all_left(queue, most, at).tolist() == [single.left(request, at) for request in queue]
    endless = StarvationGuard(PatienceLimits(1))
    assert set(endless.all_left(queue, [math.inf] * WINDOW, 0.0)) == {math.inf}
