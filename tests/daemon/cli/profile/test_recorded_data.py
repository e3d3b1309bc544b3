"""Policies continue learning from a daemon's records: from recorded jobs, and from a recorded policy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from agents.drl.model_folder import read_model
from conf.loader import ConfigError, build, load
from conf.schema.training import TrainingSpec
from daemon.cli import main
from daemon.cli.profile.recorded_data import with_history
from daemon.store.job_store import Store
from profiles.workloads.generators import load_workload
from profiles.workloads.workload_files import read_workload
from tests.daemon.maintenance.test_recorded_runs import AT, add_job

#: What TensorFlow and TF-Agents say when they are imported, compile and save.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::SyntaxWarning"),
    pytest.mark.filterwarnings("ignore:Encoding a StructuredValue"),
]

TRAINING: dict[str, Any] = {
    "algorithm": "reinforce",
    "iterations": 1,
    "reinforce": {"workloads": 1, "rollouts": 2},
    "evaluation": {"every": 1, "seeds": 1},
    "network": {"hidden": 8},
    "threads": 1,
}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Records of a daemon: sorts on two VMs took 20 s, on one 30 s, and there was one other job."""
    cluster = {"vms": [{"type": "vm", "cpus": 4, "memory": "8g", "price_per_hour": 0.24, "count": 4}]}
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(cluster))
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    for number in range(3):
        add_job(store, AT + 100 * number, "sort", ("vm-1", "vm-2"), 20.0 + number / 10)
        add_job(store, AT + 100 * number + 50, "sort", ("vm-1", "vm-1"), 30.0 + number / 10)
    add_job(store, AT + 400, "wordcount", ("vm-1",), 15.0)
    store.close()
    return tmp_path


def spec_of(folder: Path, **values: Any) -> TrainingSpec:
    """A training file for the cluster of the folder."""
    return build(TrainingSpec, {**TRAINING, "cluster": str(folder / "cluster.yaml"), **values}, "spec")


def test_workloads_are_drawn_from_recorded_jobs(data_dir: Path) -> None:
    """Each job has the duration that its type's runs give for the best placement.

    A type with a single run has that run's duration.
    """
    (name,) = with_history(spec_of(data_dir), data_dir, data_dir / "history").workloads
    recorded = {job.type: job.duration for job in read_workload(data_dir / "history" / "workload.csv").jobs}
    assert recorded == {"sort": pytest.approx(20.1, abs=0.5), "wordcount": 15.0}
    drawn = load_workload(name, 7)
    assert len(drawn) == 100
    assert {job.duration for job in drawn.jobs} == set(recorded.values())
    assert drawn != load_workload(name, 8)


def test_a_run_that_has_begun_goes_on_with_what_was_recorded_then(data_dir: Path) -> None:
    """Though the daemon has recorded more since."""
    with_history(spec_of(data_dir), data_dir, data_dir / "history")
    before = (data_dir / "history" / "workload.csv").read_bytes()
    store = Store(f"sqlite:///{data_dir / 'stoker.db'}")
    add_job(store, AT + 900, "sort", ("vm-1",), 99.0)
    store.close()
    with_history(spec_of(data_dir), data_dir, data_dir / "history", again=False)
    assert (data_dir / "history" / "workload.csv").read_bytes() == before
    with_history(spec_of(data_dir), data_dir, data_dir / "history")
    assert (data_dir / "history" / "workload.csv").read_bytes() != before


@pytest.mark.slow
def test_a_policy_learns_on(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It starts from the weights of the given policy, and is trained on the recorded jobs."""
    config, first, second = data_dir / "train.yaml", data_dir / "first", data_dir / "second"
    config.write_text(yaml.safe_dump(spec_of(data_dir).model_dump(mode="json", exclude_none=True)))
    arguments = ["train", "--config", str(config), "--from-history", str(data_dir)]
    assert main([*arguments, "--out", str(first)]) == 0
    still = ["--set", f"start={first}", "--set", "learning_rate={first: 0.0, last: 0.0}", "--set", "seed=9"]
    assert main([*arguments, "--out", str(second), *still]) == 0
    weights = [read_model(folder).weights for folder in (first, second)]
    # Nothing is learned at a rate of 0, so the weights are still those that it started from.
    assert all(np.array_equal(a, b) for a, b in zip(*weights, strict=True))
    assert load(second / "config.yaml", TrainingSpec).workloads.keys() == {
        str(second / "history" / "workload.yaml")
    }
    capsys.readouterr()
    assert main([*arguments, "--out", str(data_dir / "third"), *still[:2], "--set", "network.hidden=4"]) == 2
    assert "its network is another one than this file's" in capsys.readouterr().err


def test_unknown_policies_cannot_be_started_from(data_dir: Path) -> None:
    """The key and the name are told."""
    from agents.drl.training.learners.learner import learner_of
    from agents.drl.training.worlds import worlds_of

    with pytest.raises(ConfigError, match="start: nobody: no shipped model"):
        learner_of(worlds_of(spec_of(data_dir, start="nobody", workloads={"burst": 1.0})))
