"""Progress is reported while a command waits, also without a terminal."""

import io
import sys
import threading

import pytest

from agents.drl.training.record import TrainingRecord
from daemon.cli.research.train import _in_a_line
from daemon.cli.shared import progress
from tests.waiting import until


def test_a_pipe_gets_lines_even_while_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe gets a line at the beginning, then with work done and time left, and none after the end."""
    monkeypatch.setattr(progress, "FIRST", 0.05)
    monkeypatch.setattr(progress, "BETWEEN", 0.05)
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    with progress.progress_bar() as report:
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(sys, "stderr", io.StringIO())  # as libraries are loaded
            until(said.getvalue, "a first line")
        report(0, 4, "ff on \x1bnormal")
        report(1, 4, "ff on \x1bnormal")
        until(lambda: "1 of 4" in said.getvalue(), "how far it is")
    first, *_, last = said.getvalue().splitlines()
    assert first.startswith("stoker: working; after ")
    assert last.startswith("stoker: 1 of 4: ff on \\x1bnormal; after ")
    assert last.endswith(" s left")
    assert not [thread for thread in threading.enumerate() if thread.name == "progress"]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that progress sees, seconds, in a list that tests change."""
    time = [100.0]
    monkeypatch.setattr("daemon.cli.shared.progress.time.monotonic", lambda: time[0])
    return time


def test_what_is_left_is_reckoned_without_loading(now: list[float]) -> None:
    """By the time since the first of it began."""
    state = progress._ProgressState()
    now[0] += 60.0  # loading
    state.since = now[0]
    now[0] += 10.0
    state.done, state.total = 2, 6
    assert progress._line(state, 70.0) == "2 of 6; after 1 min 10 s, about 20.0 s left"


def test_a_further_step_has_a_pace_of_its_own(now: list[float]) -> None:
    """Loading and earlier steps do not count: 2 of 15 in 2 s since its first report, so 11 s are left."""
    state = progress._ProgressState()
    report = progress._Lines(state)
    report(0, 0, "loading")
    now[0] += 60.0
    report(8, 192, "watching")
    assert progress._line(state, 60.0) == "8 of 192: watching; after 1 min 0 s"
    now[0] += 90.0
    report(192, 192, "watching")
    now[0] += 1.0
    report(2, 15, "imitating")
    now[0] += 2.0
    report(4, 15, "imitating")
    assert progress._line(state, 153.0) == "4 of 15: imitating; after 2 min 33 s, about 11.0 s left"


def test_what_an_earlier_run_did_is_not_reckoned_with(now: list[float]) -> None:
    """A training that goes on at 40 of 100 and has done 2 of its own in 10 s needs 290 s more."""
    state = progress._ProgressState()
    report = progress._Lines(state)
    report(0, 0, "loading")
    now[0] += 60.0
    report.begin(40, 100, "the first iteration")
    assert progress._line(state, 60.0) == "40 of 100: the first iteration; after 1 min 0 s"
    now[0] += 10.0
    report(42, 100, "training")
    assert progress._line(state, 70.0) == "42 of 100: training; after 1 min 10 s, about 4 min 50 s left"


def test_what_is_over_at_once_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """As most that is tried out."""
    with progress.progress_bar() as report:
        report(1, 1, "all")
    assert not capsys.readouterr().err


def test_a_line_of_training() -> None:
    """A training line has the return, the loss, the speed and the best so far."""
    training = {"return": -31.25, "loss": 0.0412, "steps": 800.0, "entropy": 1.3}
    record = TrainingRecord(3, 60, 4.0, 2400, 812.3, training, {}, 29.9, False, 28.5, 2)
    assert _in_a_line(record) == (
        "return -31.25, loss 0.0412, entropy 1.3 | 812 steps/s | "
        "best evaluation (return lost a job, less is better) 28.5 of iteration 2"
    )
