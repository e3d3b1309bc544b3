"""The report on the worth of knowing durations, seed by seed; every table states the knowledge."""

from pathlib import Path

import pytest

from agents.experiments.belief_report import BELIEFS, POLICIES, PUBLISHED, against, report
from agents.experiments.comparison import Contender, SimulatedRun
from agents.experiments.islam2022.runs import play_one, scenes
from agents.experiments.runner import Runner
from agents.experiments.seed_register import seeds_of
from environment.simulation.durations.beliefs import EXACT, Belief

FIRST_FIT, LOOKAHEAD = Contender("ff"), Contender("lookahead", {"beta": 1.0})


def _runs(belief: Belief) -> list[SimulatedRun]:
    scene = scenes(jobs=30)[1]
    return [run for seed in (100, 101) for run in play_one(scene, seed, (FIRST_FIT, LOOKAHEAD), belief)]


@pytest.mark.slow
def test_knowledge_is_compared_seed_by_seed() -> None:
    """Worth of exact knowledge to a policy that uses it, and to one that does not."""
    oracle, constant = _runs(EXACT), _runs(Belief("constant"))
    shares = [one.result.cost / other.result.cost - 1 for one, other in zip(constant, oracle, strict=True)]
    found = against(constant, oracle[::-1], LOOKAHEAD.label, "cost")
    assert found.mean == pytest.approx((shares[1] + shares[3]) / 2)
    assert found.error == pytest.approx(abs(shares[1] - shares[3]) / 2)
    assert found.mean > 0.01
    assert against(constant, oracle, FIRST_FIT.label, "cost").mean == 0
    with pytest.raises(ValueError, match="rr: no runs"):
        against(constant, oracle, "rr", "cost")


def test_the_report_says_what_was_known(tmp_path: Path) -> None:
    """Every policy under every belief, beside the published figures."""
    seeds = seeds_of("belief", 2)
    text = report(tmp_path, seeds, Runner(workers=0), jobs=2).read_text(encoding="utf-8")
    assert (
        f"Made by `stoker reproduce belief --seeds 2` on the paper's cluster, with seeds {seeds.first} to"
        in text
    )
    assert text.count("Durations: truth profile; belief 0.2, 0.5, constant, exact, spread.") == 4
    assert "| true ends | `exact` | `spread` | `0.2` | `0.5` | `constant` |" in text
    assert all(text.count(f"| `{who.label}` | ") == 4 for who in POLICIES)
    assert text.count("has the least mean cost") == 2 * (len(BELIEFS) + 1)
    assert len(PUBLISHED) == 2
    assert (tmp_path / "belief.png").stat().st_size > 10_000
