"""Intervals by errors: wider where the types known differ more than the model thinks, narrower where less."""

import random

import pytest

from profiles.shapes.errors import KnownTypes, drawn, error_of
from profiles.shapes.law import Law
from profiles.shapes.runs import JobShape, ShapeRun

_LAW = Law(0.002, 0.002, 0.02, 0.1, 0.02, 3.0)
_SHAPES = [JobShape("vm", executors, 4, 16, float(executors)) for executors in (2, 4, 8, 12, 16)]


def _type(name: str, jobs: int, differing: float, seed: int = 1) -> list[ShapeRun]:
    """Runs of so many jobs, whose work a GiB differs by so much (of log seconds)."""
    draw = random.Random(f"{name} {seed}")  # noqa: S311 - the same each time
    runs = []
    for job in range(jobs):
        work = 50 * 2.718 ** draw.gauss(0, differing)
        for shape in _SHAPES:
            seconds = work * float(_LAW.seconds(shape, 10.0 + job)) * 2.718 ** draw.gauss(0, 0.02)
            runs.append(ShapeRun(name, f"{name} {job}", 10.0 + job, shape, seconds))
    return runs


def test_intervals_follow_the_errors_made_of_other_types() -> None:
    """Jobs that differ more than doubted make them wider, jobs that are alike narrower than the usual."""
    own = _type("own", 1, 0.0)[:2]
    usual = KnownTypes([]).deviations(own)
    alike = KnownTypes([_type(name, 6, 0.02) for name in "abcd"]).deviations(own)
    apart = KnownTypes([_type(name, 6, 1.0) for name in "abcd"]).deviations(own)
    assert alike < 0.6 * usual
    assert apart > 1.3 * usual


@pytest.mark.parametrize("differing", [0.05, 0.3, 0.8])
def test_four_of_five_runs_are_within_whatever_jobs_are_like(differing: float) -> None:
    """Each type is predicted by the others, after two runs of one job: 80 % within, as is said."""
    types = [_type(name, 8, differing) for name in "abcdefgh"]
    within = []
    for number, runs in enumerate(types):
        known = KnownTypes(types[:number] + types[number + 1 :])
        for own, others in drawn(runs, 2):
            reach, belief = known.deviations(own), known.believe(own)
            within += [error_of(belief, run) <= reach for run in others]
    assert 0.7 < sum(within) / len(within) < 0.9


def test_with_one_run_intervals_are_wider_than_with_more() -> None:
    """Without any type measured, the usual error of one run is the larger one."""
    runs = _type("own", 1, 0.0)
    assert KnownTypes([]).deviations(runs[:1]) > KnownTypes([]).deviations(runs[:2])


def test_own_runs_that_were_left_out_count_where_no_other_type_tells() -> None:
    """Five runs by one law tell that it holds."""
    runs = _type("own", 1, 0.0)
    assert KnownTypes([]).deviations(runs) < KnownTypes([]).deviations(runs[:2])


def test_runs_of_one_job_tell_nothing_of_other_jobs() -> None:
    """They narrow no interval where the jobs of other types are known to differ."""
    known = KnownTypes([_type(name, 6, 1.0) for name in "abcd"])
    runs = _type("own", 1, 0.0)
    assert known.deviations(runs) > 0.8 * known.deviations(runs[:2])


def test_drawn_runs_are_not_among_those_predicted() -> None:
    """Of another job, or of the same one but left out; the same in each call."""
    runs = _type("own", 3, 0.1)
    for own, others in drawn(runs, 2):
        assert len(own) == 2
        assert {run.job for run in own}.isdisjoint(run.job for run in others)
    for own, others in drawn(runs, 2, same=True):
        assert {run.job for run in own} == {run.job for run in others}
        assert not {run.shape for run in own} & {run.shape for run in others}
    assert drawn(runs, 2) == drawn(runs, 2)
    assert drawn(runs, 6) == []
