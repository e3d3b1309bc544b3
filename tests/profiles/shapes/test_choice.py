"""Beliefs from runs and the shapes that they choose: two runs suffice, similar types help, errors shrink."""

import tracemalloc
from collections.abc import Sequence

import pytest

from profiles.shapes.belief import believe, log_seconds, prior_of
from profiles.shapes.choice import rank
from profiles.shapes.law import Law
from profiles.shapes.runs import JobShape, ShapeError, ShapeRun

_LIGHT = Law(0.002, 0.002, 0.02, 0.1, 0.02, 3.0)
_HUNGRY = Law(0.002, 0.002, 3.0, 1.0, 0.02, 3.0)
_SMALL, _RICH = JobShape("small", 8, 8, 8, 2.3), JobShape("rich", 8, 8, 64, 4.2)
_SHAPES = (_SMALL, _RICH, JobShape("middle", 16, 4, 16, 3.1), JobShape("few", 2, 8, 64, 1.05))


def _runs(
    law: Law, input_gib: float, shapes: Sequence[JobShape] = _SHAPES, name: str = "job"
) -> list[ShapeRun]:
    work = 50.0
    return [
        ShapeRun(name, f"{name} {input_gib}", input_gib, shape, work * float(law.seconds(shape, input_gib)))
        for shape in shapes
    ]


@pytest.mark.parametrize("law", [_LIGHT, _HUNGRY])
def test_two_runs_of_another_size_tell_whether_memory_is_needed(law: Law) -> None:
    """On shapes with little and with much memory; without a prior."""
    ranked = rank(believe(_runs(law, 100.0, (_SMALL, _RICH))), _SHAPES, 200.0)
    excess = {each.shape: each.excess for each in ranked}
    if law is _HUNGRY:
        assert excess[_SMALL] > 4 * excess[_RICH]
    else:
        assert excess[_SMALL] < excess[_RICH]
    assert [each.excess for each in ranked] == sorted(excess.values())
    assert all(each.least < each.seconds < each.most for each in ranked)
    assert ranked[0].dollars == pytest.approx(ranked[0].shape.dollars(ranked[0].seconds))


def test_more_runs_make_the_error_smaller() -> None:
    """Two runs on like shapes tell less of another one than eight on all."""
    few = believe(_runs(_HUNGRY, 100.0, _SHAPES[1:3]))
    many = believe(_runs(_HUNGRY, 100.0) + _runs(_HUNGRY, 200.0))
    assert many.log_seconds(_SMALL, 150.0)[1] < few.log_seconds(_SMALL, 150.0)[1]


def test_one_run_is_enough_for_an_answer_and_none_is_not() -> None:
    """Its work is known, its law only by the prior."""
    assert len(rank(believe(_runs(_LIGHT, 1.0, (_SMALL,))), _SHAPES, 1.0)) == len(_SHAPES)
    with pytest.raises(ShapeError, match="no run: should be at least one"):
        believe([])
    with pytest.raises(ShapeError, match="no shape to choose from"):
        rank(believe(_runs(_LIGHT, 1.0)), [], 1.0)


def test_similar_types_help() -> None:
    """Where a job's own run tells nothing of memory, the types known do."""
    own = _runs(_LIGHT, 100.0, (_RICH,))
    others = {
        law: prior_of([_runs(law, 100.0, name="a") + _runs(law, 300.0, name="a") for _ in range(20)])
        for law in (_LIGHT, _HUNGRY)
    }
    excess = {
        law: next(each for each in rank(believe(own, prior), _SHAPES, 200.0) if each.shape == _SMALL).excess
        for law, prior in others.items()
    }
    assert excess[_LIGHT] < excess[_HUNGRY] / 2


def test_of_equals_the_cheaper_an_hour_is_first() -> None:
    """Whatever their order: no rounding decides."""
    twin = JobShape("twin", 8, 8, 8, 2.3)
    belief = believe(_runs(_LIGHT, 100.0))
    one, other = (rank(belief, shapes, 100.0) for shapes in ([_SMALL, twin], [twin, _SMALL]))
    assert [each.excess for each in one] == [each.excess for each in other] == [1.0, 1.0]


def test_ranking_takes_little_memory_for_any_number_of_shapes() -> None:
    """Submissions of users have shapes ranked: a table of all shapes by all laws is hundreds of MiB."""
    shapes = [
        JobShape("", count, cores, gib, count * cores / 8)
        for count in range(1, 33)
        for cores in (1.0, 2.0, 4.0, 8.0)
        for gib in (2.0, 4.0, 8.0, 16.0)
    ]
    belief = believe([ShapeRun("etl", "", 10.0, shapes[40], 100.0)])
    for shape in shapes:
        log_seconds(shape, 10.0)  # what is kept has a bound of its own
    tracemalloc.start()
    try:
        assert len(rank(belief, shapes, 10.0, beta=0.5)) == len(shapes)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    assert log_seconds.cache_info().maxsize == 1024
