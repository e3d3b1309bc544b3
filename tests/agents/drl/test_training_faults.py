"""Training that cannot go on ends with one line, the exit code of bad input, and a remedy."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.drl.training.drawn import draw_world, episode_of_world
from agents.registry import create
from conf.loader import ConfigError, load
from conf.schema.training import DrawnSpec, TrainingSpec
from daemon.cli import main
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import simulate
from profiles.workloads.workload import Workload, WorkloadJob
from profiles.workloads.workload_files import write_workload
from tests.agents.drl.test_training import JOBS, SHORT, file_of, spec_of, tiny, tiny_in

__all__ = ["tiny"]

#: What TensorFlow and TF-Agents say when they are imported, compile and save.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::SyntaxWarning"),
    pytest.mark.filterwarnings("ignore:Encoding a StructuredValue"),
]


def test_an_imitation_that_diverges_names_its_own_rate(
    tiny: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is noticed before the first iteration, which has another rate."""
    rate = {"first": 1e30, "last": 1e30}
    teaching = {"teacher": "ff", "episodes": 2, "epochs": 2, "batch": 8, "learning_rate": rate}
    config = file_of({**tiny, **SHORT["reinforce"], "imitation": teaching}, tmp_path)
    assert main(["train", "--config", config, "--out", str(tmp_path / "out")]) == 2
    assert "smaller imitation.learning_rate (it was 1e+30" in capsys.readouterr().err


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A training file, and the folder of its run."""
    from agents.drl.training.trainer import train

    folder = tmp_path_factory.mktemp("trained")
    config = file_of({**tiny_in(folder), **SHORT["reinforce"]}, folder)
    return config, train(load(Path(config), TrainingSpec), folder / "out")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("arrays.npz", _cut),
        ("arrays.npz", Path.unlink),
        ("arrays.npz", lambda path: path.write_bytes(b"")),
        ("state.json", _cut),
        ("state.json", lambda path: path.write_text('{"iteration": 6}')),
        ("variables.index", _cut),
        ("variables.data-00000-of-00001", Path.unlink),
    ],
)
def test_a_damaged_checkpoint_is_one_line(
    name: str,
    damage: Callable[[Path], object],
    trained: tuple[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It has the checkpoint and a remedy."""
    config, out = trained[0], tmp_path / "out"
    shutil.copytree(trained[1], out)
    (checkpoint,) = (out / "run" / "checkpoints").iterdir()
    damage(checkpoint / name)
    assert main(["train", "--config", config, "--out", str(out), "--resume"]) == 2
    (said,) = (line for line in capsys.readouterr().err.splitlines() if "cannot be used" in line)
    assert said.startswith(f"stoker: {out / 'run' / 'checkpoints'}: cannot be used: ")
    assert said.endswith("; delete the run's folder, or train into another one")


def test_a_damaged_record_of_the_teacher_or_the_config_is_one_line(
    tiny: dict[str, Any], tmp_path: Path
) -> None:
    """It has the file and a remedy."""
    from agents.drl.training.trainer import train

    teaching = {"teacher": "ff", "episodes": 2, "epochs": 2, "batch": 8}
    spec = spec_of({**tiny, **SHORT["reinforce"], "imitation": teaching})
    out = train(spec, tmp_path / "out")
    shutil.rmtree(out / "run" / "checkpoints")
    _cut(out / "run" / "teacher.npz")
    with pytest.raises(ConfigError, match=r"teacher\.npz: cannot be used: .*; delete it"):
        train(spec, out, resume=True)
    (out / "config.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"config\.yaml: cannot be used: UnicodeDecodeError"):
        train(spec, out, resume=True)


def test_a_full_disk_is_one_line(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """TensorFlow's own error too, and how the run goes on."""
    import tensorflow as tf

    def full(*_: object) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "saved_model.pb; No space left on device")

    monkeypatch.setattr("agents.drl.training.trainer.write_policy", full)
    config, out = file_of({**tiny, **SHORT["reinforce"]}, tmp_path), tmp_path / "out"
    assert main(["train", "--config", config, "--out", str(out)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"stoker: --out {out}: saved_model.pb; No space left on device; "
        "--resume goes on from the last checkpoint"
    )


def test_jobs_that_do_not_fit_are_told(
    tiny: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before training; where no job fits, it is one line and the exit code of bad input."""
    giant = WorkloadJob("giant", 0.0, "sort", 100.0, 1024, 1, 10.0)
    for jobs, code, line in (
        (
            (giant, *JOBS.jobs),
            0,
            "jobs.csv: 1 job of 4 that would fit no VM or cluster, such as giant: an executor",
        ),
        ((giant,), 2, "no job of the workload fits the cluster, such as giant: an executor of 100 cpus"),
    ):
        write_workload(Workload(jobs), tmp_path / "jobs.csv")
        config = file_of({**tiny, **SHORT["reinforce"]}, tmp_path)
        assert main(["train", "--config", config, "--out", str(tmp_path / str(code))]) == code
        assert len([said for said in capsys.readouterr().err.splitlines() if line in said]) == 1


def test_a_teacher_that_waits_for_ever_is_one_line(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own reason is in it."""
    (tmp_path / "idle_teacher.py").write_text(
        "from environment.types import Wait\n\n\ndef decide(view, queue):\n    return Wait('never')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    teaching = {"teacher": "idle_teacher:decide", "episodes": 2, "epochs": 2, "batch": 8}
    config = file_of({**tiny, **SHORT["reinforce"], "imitation": teaching}, tmp_path)
    assert main(["train", "--config", config, "--out", str(tmp_path / "out")]) == 2
    assert re.search(r"stoker: imitation.teacher: .* never be placed .*: never", capsys.readouterr().err)


@pytest.mark.parametrize("pools", [0.0, 1.0])
def test_the_evaluation_of_drawn_worlds_is_beside_greedy(
    pools: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As multiples of the results of first fit, the unit of these worlds: of pools, of its bill."""
    drawn = DrawnSpec(vms={3: 1.0}, jobs=(5, 8), pools=pools)
    world = draw_world(drawn, 3, 200)
    units = episode_of_world(world, 240.0).jobs
    options = SimulationOptions(belief=world.belief).drawn(200)
    played = simulate(create("greedy", {"beta": 0.75}), world.workload, world.vms, options=options)
    dollars = played.bill.total if pools else played.cost
    cost = dollars / (float(units.unit_dollars) * len(units.arrival))
    worlds = {
        "algorithm": "reinforce",
        "drawn": {"vms": {3: 1}, "jobs": [5, 8], "pools": pools},
        "observation": {"name": "natural", "types": []},
        "iterations": 1,
        "evaluation": {"every": 1, "seeds": 1},
        "reinforce": {"workloads": 2, "rollouts": 2},
    }
    config = file_of(worlds, tmp_path)
    assert main(["train", "--config", config, "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    number = r"\d\.\d{3}"
    line = (
        rf"On 3 VMs, beta 0.75, seeds 200 to 200: {number} of the cost under first fit, and {number} of the "
        rf"completion; under greedy {cost:.3f} and {number}\."
    )
    assert len(re.findall(line, said)) == 1
