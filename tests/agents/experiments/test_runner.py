"""Runs are stored as they end, and a stopped report continues with those that are missing."""

import shutil
from pathlib import Path

import pytest

from agents.experiments import runner as runner_module
from agents.experiments.runner import RunCall, Runner, code_digest

MADE: list[int] = []


def double(number: int, fails: bool = False) -> int:
    """Twice the number; the arguments are recorded."""
    if fails:
        raise RuntimeError("stopped")
    MADE.append(number)
    return 2 * number


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    MADE.clear()


class _Told:
    """What was reported."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self.done: list[tuple[int, int, str]] = []

    def __call__(self, done: int, total: int, what: str) -> None:
        self.done.append((done, total, what))

    def begin(self, done: int, total: int, what: str) -> None:
        assert "stored" in what
        self.begun.append((done, total))


def _calls(count: int, *, failing: int | None = None) -> list[RunCall[int]]:
    return [
        RunCall(double, (number, True) if number == failing else (number,), f"run {number}", 1 + number)
        for number in range(count)
    ]


def test_results_are_in_the_order_of_calls() -> None:
    """The heaviest is begun first; progress counts weights."""
    told = _Told()
    with Runner(progress=told, workers=0) as runner:
        assert runner.run(_calls(3)) == [0, 2, 4]
    assert MADE == [2, 1, 0]
    assert told.done == [(3, 6, "run 2"), (5, 6, "run 1"), (6, 6, "run 0")]
    assert told.begun == []


def test_a_stopped_report_continues(tmp_path: Path) -> None:
    """Runs that ended are not made again; a cut-off file is."""
    with pytest.raises(RuntimeError, match="stopped"), Runner(tmp_path, workers=0) as runner:
        runner.run(_calls(3, failing=0))
    assert MADE == [2, 1]
    (cut,) = tmp_path.rglob(_calls(3)[2].key)
    cut.write_bytes(cut.read_bytes()[:3])
    MADE.clear()
    told = _Told()
    with Runner(tmp_path, told, workers=0) as runner:
        assert runner.run(_calls(3)) == [0, 2, 4]
    assert MADE == [2, 0]
    assert told.begun == [(2, 6)]


def test_other_code_makes_all_runs_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its stored runs replace those of earlier code."""
    for digest, made in (("a" * 64, [1, 0]), ("a" * 64, []), ("b" * 64, [1, 0]), ("a" * 64, [1, 0])):
        monkeypatch.setattr(runner_module, "code_digest", lambda digest=digest: digest)
        MADE.clear()
        with Runner(tmp_path, workers=0) as runner:
            runner.run(_calls(2))
        assert made == MADE
        assert [path.name for path in (tmp_path / ".runs").iterdir()] == [digest[:16]]


def test_the_digest_follows_code_and_data_but_not_words(tmp_path: Path) -> None:
    """Reports' words do not change what a run gives."""
    digest = code_digest.__wrapped__
    experiments = tmp_path / "agents/experiments/elastic"
    experiments.mkdir(parents=True)
    (tmp_path / "conf").mkdir()
    seen = set()
    for path, counts in (
        (experiments / "runs.py", True),
        (tmp_path / "conf/burst.yaml", True),
        (tmp_path / "agents/report.py", True),
        (experiments / "report.py", False),
        (tmp_path / "agents/experiments/seeds.yaml", False),
        (tmp_path / "conf/card.md", False),
    ):
        before = digest(tmp_path)
        path.write_text("x")
        assert (digest(tmp_path) != before) == counts, path
        seen.add(digest(tmp_path))
    shutil.rmtree(experiments)
    assert len(seen) == 3


def test_arguments_and_function_make_the_key() -> None:
    """Not the name that progress shows, nor the weight."""
    assert RunCall(double, (1,), "a").key == RunCall(double, (1,), "b", 7).key
    assert (
        len({RunCall(double, (1,), "a").key, RunCall(double, (2,), "a").key, RunCall(max, (1,), "a").key})
        == 3
    )


@pytest.mark.slow
def test_runs_are_spread_over_processes(tmp_path: Path) -> None:
    """With the same results."""
    with Runner(tmp_path, workers=1) as runner:
        assert runner.run(_calls(3)) == [0, 2, 4]
    assert MADE == []
