"""Progress reports of a training run: to a listener, and to TensorBoard."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from conf.loader import build
from conf.schema.training import TrainingSpec
from daemon.cli import main

#: What TensorFlow and TF-Agents say when they are imported, compile and save.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::SyntaxWarning"),
    pytest.mark.filterwarnings("ignore:Encoding a StructuredValue"),
]

#: Iterations 0 to 4, evaluated after 0, 2 and 4.
VALUES: dict[str, dict[str, Any]] = {
    "reinforce": {"iterations": 4, "reinforce": {"workloads": 1, "rollouts": 2}},
    "dqn": {"iterations": 4, "dqn": {"batch": 8, "buffer": 200, "episodes": 1, "begin": 20}},
}
SHARED = {"network": {"hidden": 8}, "evaluation": {"every": 2, "seeds": 1}, "threads": 1}
#: What a learner earns, and how much it explores.
OWN = {"reinforce": {"return", "entropy"}, "dqn": {"reward", "epsilon"}}


def curves(folder: Path) -> dict[str, dict[int, float]]:
    """TensorBoard's curves: by name, values at iterations."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        name: {event.step: float(make_ndarray(event.tensor_proto)) for event in events.Tensors(name)}
        for name in events.Tags()["tensors"]
    }


@pytest.mark.parametrize("algorithm", ["reinforce", "dqn"])
def test_a_listener_and_tensorboard_are_told_the_same(algorithm: str, tmp_path: Path) -> None:
    """Every iteration and evaluation."""
    from agents.drl.training.record import TrainingRecord
    from agents.drl.training.trainer import train

    told: list[TrainingRecord] = []
    spec = build(TrainingSpec, {"algorithm": algorithm, **VALUES[algorithm], **SHARED}, "spec")
    train(spec, tmp_path / "mine", listener=told.append, tensorboard=tmp_path / "logs")

    assert [(record.iteration, record.evaluated) for record in told] == [
        (0, True), (1, False), (2, False), (2, True), (3, False), (4, False), (4, True),
    ]  # fmt: skip
    learned = [record for record in told if not record.evaluated]
    assert all(record.training.keys() == {"loss", "steps"} | OWN[algorithm] for record in learned)
    assert all(record.steps_per_second > 0 and record.exploration for record in learned)
    assert [r.steps for r in learned] == np.cumsum([r.training["steps"] for r in learned]).tolist()
    assert told[-1].best_loss == min(record.loss for record in told)

    drawn = curves(tmp_path / "logs" / "mine")
    for name in ("loss", "steps", *OWN[algorithm]):
        at = {record.iteration: record.training[name] for record in learned}
        assert drawn[f"training/{name}"] == pytest.approx(at, rel=1e-6)
    assert drawn["training/steps_per_second"].keys() == {1, 2, 3, 4}
    evaluated = {record.iteration: record for record in told if record.evaluated}
    assert drawn["evaluation/loss"] == pytest.approx({at: r.loss for at, r in evaluated.items()}, rel=1e-6)
    costs = {at: record.evaluation["burst"]["cost"] for at, record in evaluated.items()}
    assert drawn["evaluation/burst/cost"] == pytest.approx(costs, rel=1e-6)
    assert not (tmp_path / "mine" / "run" / "tensorboard").exists()


def test_the_command_writes_for_tensorboard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where it is told to; a folder that cannot be made is said before anything is trained."""
    config = tmp_path / "short.yaml"
    values = {"algorithm": "reinforce", **VALUES["reinforce"], **SHARED, "iterations": 1}
    config.write_text(yaml.safe_dump(values))
    arguments = ["train", "--config", str(config), "--out", str(tmp_path / "mine"), "--tensorboard"]
    (tmp_path / "file").write_text("")
    assert main([*arguments, str(tmp_path / "file" / "logs")]) == 2
    assert capsys.readouterr().err == f"stoker: --tensorboard {tmp_path}/file/logs/mine: Not a directory\n"
    assert not (tmp_path / "mine").exists()
    assert main([*arguments, str(tmp_path / "logs")]) == 0
    assert "training/return" in curves(tmp_path / "logs" / "mine")
