"""Messages to the simulation processes, and their low priority."""

import io
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from daemon.what_if import gil_pacing
from daemon.what_if.gil_pacing import unhurried
from daemon.what_if.worker import answers, main
from daemon.what_if.worker_messages import OVER, READY, AskedScene, DrawAnswer, Question, read, write
from environment.decisions.sizing import Sizes
from environment.pools import BREAK_EVEN, NO_MOVES
from environment.simulation.forecast.outlook import JobOutlook, PlayedDraw
from environment.types import PlacementRequest
from tests.builders import make_job, make_view, make_vms


def scene(jobs: int) -> AskedScene:
    """One in which so many wait."""
    queue = tuple(PlacementRequest(make_job(f"job-{number}"), 1) for number in range(jobs))
    return AskedScene(make_view(make_vms(2)), queue, Sizes(), None, BREAK_EVEN, NO_MOVES, (), None)


def noted(items: Iterable[Any], given: list[Any]) -> Iterator[Any]:
    """The items, each of which is noted when it is handed out."""
    for item in items:
        given.append(item)
        yield item


@pytest.mark.parametrize("jobs", [0, 1, 50, 120])
def test_a_question_is_read_as_it_was_written(jobs: int) -> None:
    """However many wait in each of its scenes; and one after the other from the same pipe."""
    question = Question((scene(jobs), scene(3)), (("ff", {}),), (0, 1), 4.0, 60.0)
    pipe, given = io.BytesIO(), list[Any]()
    for each in (question, replace(question, seconds=1.0)):
        write(each, pipe, lambda items: noted(items, given))
    pipe.seek(0)
    # Views hold arrays, which are not equal but element by element.
    assert [repr(read(pipe)), repr(read(pipe))] == [repr(question), repr(replace(question, seconds=1.0))]
    assert len(given) == 2 * (-(-jobs // 50) + 1), "they are handed out some at a time"
    with pytest.raises(EOFError):
        read(pipe)


def test_an_answer_is_read_at_its_own_pace() -> None:
    """The jobs of a draw are handed out one by one."""
    jobs, given = {f"job-{n}": JobOutlook(n, n + 1.0, 0.5) for n in range(3)}, list[Any]()
    answer = DrawAnswer(0, 1, PlayedDraw(jobs, 3.0, 4.0, fallback_share=0.5))
    found = DrawAnswer.from_json(answer.to_json(), lambda items: noted(items, given))
    assert (found, len(given)) == (answer, 3)


def test_long_work_is_rested_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some milliseconds, for some times as long; short work never."""
    now, slept = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(time, "sleep", sleep)
    for took, rests in ((2.0**-14, 0), (2.0**-10, 3), (2.0**-8, 10)):
        slept.clear()
        done = []
        for item in unhurried(range(10)):
            done.append(item)
            now[0] += took
        assert done == list(range(10))
        assert len(slept) == rests
    assert slept == [gil_pacing._REST * took] * 10


class Unmade:
    """A policy that is never made."""

    def __init__(self) -> None:
        """Do not return."""
        threading.Event().wait()


def test_a_policy_that_is_never_made_is_told_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not use up their time."""
    monkeypatch.setattr("daemon.what_if.worker._READY", 0.5)
    asked, told = io.BytesIO(), io.BytesIO()
    write(Question((scene(1),), ((f"{__name__}:Unmade", {}), ("ff", {})), (0,), 4.0, 60.0), asked, list)
    asked.seek(0)
    main(asked, told)
    assert told.getvalue().startswith(READY)
    assert told.getvalue().endswith(OVER)
    lines = told.getvalue().removeprefix(READY).removesuffix(OVER).splitlines()
    never, fine = (DrawAnswer.from_json(line, list) for line in lines)
    assert (never.policy, never.played, never.failure) == (0, None, "the policy was not made within 0.5 s")
    assert (fine.policy, fine.failure) == (1, "")


def test_where_a_policy_fails_the_fallback_decides_if_there_is_one() -> None:
    """As in the daemon: no job is said to be placed never that the fallback will place."""
    broken = ("tests.daemon.what_if.test_what_if:Broken", dict[str, Any]())
    question = Question((scene(3),), (broken,), (0,), 60.0, 60.0)
    (alone,) = answers(question)
    assert "will never be placed" in alone.failure
    (mended,) = answers(replace(question, fallback=("ff", {})))
    assert mended.played is not None
    assert mended.played.fallback_share == 1.0
    assert not mended.played.never
