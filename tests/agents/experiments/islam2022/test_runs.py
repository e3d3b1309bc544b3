"""The report on Islam 2022: its claims follow from the numbers, and it is written whole."""

import json
from pathlib import Path

import pytest

from agents.experiments.islam2022.claims import aims, claims, learning_claims
from agents.experiments.islam2022.report import RULES, learned_rules, report
from agents.experiments.islam2022.runs import LearningCurve, read_curves, scaled_scenes
from agents.experiments.paired import Statistic
from agents.experiments.runner import Runner
from agents.experiments.seed_register import seeds_of
from conf.loader import ConfigError

#: Cost and duration of each policy; completion is as long.
PAPER = {
    "rr": (1.30, 100.0),
    "rrc": (1.20, 120.0),
    "ff": (1.20, 120.0),
    "ilp:beta=0.5": (1.12, 110.0),
    "aep": (1.07, 101.0),
    "best_fit": (1.20, 120.0),
    "dqn:beta=0.0": (1.10, 101.0),
    "dqn:beta=1.0": (1.00, 130.0),
    "reinforce:beta=0.0": (0.90, 98.0),
    "reinforce:beta=0.5": (0.78, 110.0),
    "reinforce:beta=1.0": (0.81, 120.0),
    "lookahead:beta=1.0": (0.75, 110.0),
    "lookahead:base=reinforce:beta=1.0": (0.70, 110.0),
}


def _alike(value: float) -> Statistic:
    """The same on twelve seeds: means alone differ."""
    return Statistic.of([value] * 12)


def _found(**changed: tuple[float, float]) -> dict[str, dict[str, Statistic]]:
    values = {**PAPER, **changed}
    return {
        policy: {
            "cost": _alike(cost),
            "average_duration": _alike(seconds),
            "average_completion": _alike(seconds),
            "good_placements": _alike(200 - seconds),
        }
        for policy, (cost, seconds) in values.items()
    }


def test_claims_follow_from_the_numbers() -> None:
    """With the paper's own order in burst its claims hold, but not that cost falls with every beta."""
    judged = {each.statement: each for each in claims({"normal": _found(), "burst": _found()})}
    holds = {statement: each.holds for statement, each in judged.items()}
    assert [holds[name] for name in holds if name.startswith("Burst")] == [True, True, True, True]
    assert not next(each for each in judged.values() if each.statement.startswith("REINFORCE: as beta")).holds
    (lead,) = (each.found for each in judged.values() if "25 to 30 %" in each.statement)
    assert lead == "`reinforce:beta=0.5` 0.78 $, `aep` 1.07 $: -27.1 ± 0.0 %*"


def test_a_dearer_agent_bears_nothing_out() -> None:
    """The claim fails when the agent is a little too dear, and a dominating baseline is named."""
    dear = _found(**{f"reinforce:beta={beta}": (1.1, 125.0) for beta in (0.0, 0.5, 1.0)}, ff=(0.95, 100.5))
    judged = claims({"normal": dear, "burst": dear})
    assert not judged[0].holds
    aimed = aims({"normal": dear, "burst": dear}, {})
    beaten = [each for each in aimed if each.statement.startswith("Burst: no baseline")]
    assert all("by `ff`" in each.found and not each.holds for each in beaten)


def test_a_network_has_to_make_lookahead_cheaper() -> None:
    """It does in one pattern here, and not in the other."""
    dearer = _found(**{"lookahead:beta=1.0": (0.69, 110.0)})
    judged = [each for each in aims({"normal": _found(), "burst": dearer}, {}) if "network" in each.statement]
    assert [each.holds for each in judged] == [True, False]
    assert judged[0].found.endswith("-6.7 ± 0.0 %*")


def test_on_larger_clusters_one_policy_has_to_be_cheaper_everywhere() -> None:
    """That for cost; it does not help that another one is."""
    scenes = {
        "normal x 4, 48 VMs": _found(),
        "burst x 4, 48 VMs": _found(**{"reinforce:beta=1.0": (1.10, 120.0)}),
    }
    judged = [
        each for each in aims({"normal": _found(), "burst": _found()}, scenes) if "VMs" in each.statement
    ]
    assert [each.holds for each in judged] == [True, False]
    assert [each.found.partition(":")[0] for each in judged] == ["`reinforce", "`reinforce"]
    assert "beside `aep`: +2.8 ± 0.0 %*" in judged[1].found


def test_curves_show_when_returns_turn_positive(tmp_path: Path) -> None:
    """They are read from a training run's folder; another folder is refused in one line."""
    (tmp_path / "config.yaml").write_text(
        "algorithm: dqn\niterations: 300\nworkloads: {normal: 1}\n"
        "network: {kind: flat}\nobservation: {name: paper}\nreinforce: null\n"
    )
    entries = [
        {"iteration": i * 100, "seconds": i, "evaluation": {"normal": {"return": value}}}
        for i, value in enumerate((-5000.0, -200.0, 30.0))
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    setup, returns = "flat network, paper observation", (-5000.0, -200.0, 30.0)
    curve = LearningCurve("dqn", "normal", setup, 300, (0, 100, 200), returns, 2.0)
    assert read_curves(tmp_path) == [curve]
    assert curve.turned == 200
    judged = {each.statement[-8:]: each.holds for each in learning_claims([curve])}
    assert judged == {"Fig. 4a)": True, "Fig. 4b)": None, "Fig. 5a)": None, "Fig. 5b)": None}
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(ConfigError, match="not written by `stoker train`"):
        read_curves(tmp_path)
    with pytest.raises(ConfigError, match="No such file"):
        read_curves(tmp_path / "missing")


def test_larger_clusters_keep_the_load() -> None:
    """Four and eight times the jobs and the rate, on 48 and 100 VMs."""
    assert [(scene.times, len(scene.vms)) for scene in scaled_scenes()] == [(4, 48), (8, 100)] * 2


def test_the_report_is_written_whole(tmp_path: Path) -> None:
    """Two jobs fill all tables and the pictures that it names; earlier findings of training runs stay."""
    shown = f"{RULES}\n\nThey are.\n"
    (tmp_path / "islam2022.md").write_text(f"# As it was\n\n{shown}")
    seeds = seeds_of("islam2022", 2)
    path = report(tmp_path, seeds, seeds, Runner(workers=0), jobs=2)
    text = path.read_text(encoding="utf-8")
    pictures = sorted(picture.name for picture in tmp_path.glob("*.png"))
    assert learned_rules(text) == shown
    assert "As it was" not in text
    assert len(pictures) == 5
    assert all(f"({picture})" in text for picture in pictures)
    assert text.count("Durations: truth profile; belief exact, spread.") == 2
    assert text.count("Durations: truth profile; belief spread.") == 5
    assert "| cost ($), `exact` | completion (s), `exact` |" in text
    assert "| in the paper | here, `exact` | holds | here, `spread` | holds |" in text
    for heading in ("## Normal", "## Burst", "### Normal x 4, 48 VMs", "### Burst x 8, 100 VMs"):
        assert f"{heading}\n" in text
