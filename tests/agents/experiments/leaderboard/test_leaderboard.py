"""The leaderboard: its ranks, and policies from outside that enter."""

from pathlib import Path

import pytest

from agents.experiments.leaderboard import report as leaderboard
from agents.experiments.leaderboard.report import beside, table
from agents.experiments.leaderboard.runs import (
    LeaderboardRun,
    RankedPolicy,
    entered,
    play,
    ranking,
    registered,
)
from agents.experiments.paired import Statistic
from agents.experiments.runner import Runner
from agents.experiments.seed_register import seeds_of
from agents.registry import POLICIES, PolicyError, look_in
from daemon.cli import main

#: One that fills the last VMs first, and one that fails.
MINE = """
from environment.types import Place, Wait

def decide(view, queue):
    room = view.room_for(queue[0])
    spots = [vm for vm in reversed(range(len(view.vms))) for _ in range(int(room[vm]))]
    if len(spots) < queue[0].count:
        return Wait("no room")
    return Place(queue[0].job.id, tuple(spots[: queue[0].count]))

def fails(view, queue):
    raise RuntimeError("never decides")
"""


def _run(policy: str, world: str, seed: int, cost: float, completion: float = 10.0) -> LeaderboardRun:
    return LeaderboardRun(policy, world, seed, cost, completion, 0.25, 2e-6)


def test_policies_are_ranked_by_their_cost_beside_ff_over_all_worlds() -> None:
    """A world counts as much as another one, however dear its jobs are."""
    runs = [
        *(_run("ff", world, seed, cost) for world, cost in (("a", 1.0), ("b", 100.0)) for seed in range(12)),
        *(_run("cheap", "a", seed, 0.5, 20.0) for seed in range(12)),
        *(_run("cheap", "b", seed, 128.0 + seed % 2, 10.0) for seed in range(12)),
    ]
    first, second = ranking(runs)
    assert (first.policy, second.policy) == ("cheap", "ff")
    assert first.cost.mean == pytest.approx(0.5 * (0.64**0.5 + 0.645**0.5))
    assert first.dearest[0] == "b"
    assert first.dearest[1] == pytest.approx(1.285)
    assert first.completion.mean == pytest.approx(2.0**0.5)
    assert (first.fallback_share, first.decision) == (0.25, 2e-6)
    assert beside(first.cost).lower
    assert beside(second.cost).mean == 0.0
    row = "| 1 | **`cheap`** | not told | -19.8 ± 0.0 %* | +41.4 ± 0.0 %* | +28.5 %: b | 25 % | 2 |"
    assert row in table([first, second], {"cheap"})


def test_every_policy_takes_part() -> None:
    """Those that may overtake a second time."""
    labels = [each.label for each in registered()]
    assert set(POLICIES) <= set(labels)
    assert {"ff:overtake=best", "ilp:overtake=best"} <= set(labels)
    assert "greedy:overtake=best" not in labels


@pytest.mark.parametrize(
    ("text", "why"), [("ff", "takes part already"), ("nowhere:decide", "nowhere"), ("greedi", "greedi")]
)
def test_a_policy_that_cannot_enter_is_named(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit code 2."""
    with pytest.raises(PolicyError, match=why):
        entered([text])
    assert main(["reproduce", "leaderboard", "--enter", text, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert why in error
    assert error.count("\n") == 1


def test_an_entry_that_failed_in_most_decisions_has_no_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is written, a line on stderr says so, and the exit code is 1."""
    of_seed = Statistic({1: 1.0})
    ranks = [RankedPolicy(name, of_seed, of_seed, ("w", 1.0), share, 1e-6) for name, share in SHARES]
    monkeypatch.setattr(leaderboard, "ranked", lambda *_: ranks)
    monkeypatch.setattr(leaderboard, "report", lambda folder, *_: write_report(folder))
    assert main(["reproduce", "leaderboard", "--enter", "mine:decide", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    said = "mine:decide failed in 75% of its decisions or placements: its numbers are those of ff"
    assert printed.err.splitlines() == [f"stoker: {said}"]
    assert printed.out.splitlines() == [str(tmp_path / "leaderboard.md")]


#: By policy, of the decisions that the fallback took.
SHARES = (("ff", 0.0), ("mine:decide", 0.75), ("rr", 0.5))


def write_report(folder: Path) -> Path:
    """A report of a line."""
    path = folder / "leaderboard.md"
    path.write_text("# The leaderboard\n", encoding="utf-8")
    return path


def test_a_policy_enters_from_its_folder(tmp_path: Path) -> None:
    """It runs in processes that look there too; only runs of Stoker's own code are stored."""
    (tmp_path / "leaderboard_entry.py").write_text(MINE)
    look_in(tmp_path)
    entries = entered(["leaderboard_entry:decide", "leaderboard_entry:fails"])
    contenders = (*(each for each in registered() if each.label in ("rr", "ff")), *entries)
    with Runner(tmp_path, workers=1) as runner:
        runs = play(contenders, seeds_of("rehearsal", 1), runner, jobs=2)
    found = {each.policy: each for each in ranking(runs)}
    assert found["leaderboard_entry:decide"].fallback_share == 0.0
    fails = found["leaderboard_entry:fails"]
    assert fails.fallback_share == 1.0
    assert fails.cost.mean == 1.0, "ff decides in its place"
    assert len([*tmp_path.glob(".runs/*/*")]) == len([run for run in runs if ":" not in run.policy])
