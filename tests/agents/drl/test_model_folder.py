"""Policy folders: written models are read, and faults of a folder are reported."""

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agents.drl.model_folder import (
    SHIPPED,
    TrainedModelError,
    find_model,
    nearest_beta,
    read_model,
    shipped,
    shipped_for,
    write_model,
)
from tests.agents.drl.models import make_model


@pytest.mark.parametrize("kind", ["shared", "flat"])
def test_a_model_is_read_as_it_was_written(kind: str, tmp_path: Path) -> None:
    """Description and weights, bit by bit."""
    model = make_model(kind)  # type: ignore[arg-type]
    write_model(tmp_path / "deep" / "folder", model)
    found = read_model(find_model(str(tmp_path / "deep" / "folder")))
    assert found.spec == model.spec
    assert type(found.weights) is type(model.weights)
    assert all((a == b).all() for a, b in zip(found.weights, model.weights, strict=True))


def described(change: Callable[[dict[str, object]], object]) -> Callable[[Path], object]:
    """Change the contents of the folder's model.json."""

    def spoil(folder: Path) -> None:
        path = folder / "model.json"
        values = json.loads(path.read_text())
        change(values)
        path.write_text(json.dumps(values))

    return spoil


def weighed(**arrays: object) -> Callable[[Path], object]:
    """Change arrays of the folder's weights.npz; None leaves one out."""

    def spoil(folder: Path) -> None:
        found = {**make_model().weights._asdict(), **arrays}
        np.savez(folder / "weights.npz", **{name: a for name, a in found.items() if a is not None})

    return spoil


def fifo(name: str) -> Callable[[Path], object]:
    """A FIFO in the place of the file, which nobody will ever write."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return spoil


def endless(name: str) -> Callable[[Path], object]:
    """A file that is longer than any of its kind, and takes no room."""
    return lambda folder: os.truncate(folder / name, 1 << 40)


def bomb(folder: Path) -> None:
    """Few bytes that unpack to more than anybody wants."""
    packed = zipfile.ZipFile(folder / "weights.npz", "w", zipfile.ZIP_DEFLATED)
    with packed, packed.open("pool.npy", "w") as file:
        for _ in range(257):
            file.write(bytes(1 << 20))


def text(folder: Path) -> None:
    """A member that is no array, which numpy returns as it is."""
    with zipfile.ZipFile(folder / "weights.npz", "w") as packed:
        packed.writestr("pool.npy", b"text")


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (text, "weights.npz: cannot be read as arrays: pool is no array"),
        (lambda folder: (folder / "weights.npz").unlink(), "weights.npz: cannot be read as arrays: No such"),
        (lambda folder: (folder / "weights.npz").write_bytes(b"no"), "weights.npz: cannot be read as arrays"),
        (lambda folder: (folder / "model.json").write_text("{"), "model.json: Invalid JSON"),
        (described(lambda values: values.update(format=2)), "model.json: format: Input should be 1"),
        (described(lambda values: values.update(algorithm="ppo")), "model.json: algorithm: .*'dqn' or 'rei"),
        (described(lambda values: values.update(colour=1)), "model.json: colour: Extra inputs"),
        (described(lambda values: values.pop("observation")), "model.json: observation: Field required"),
        (described(lambda values: values.update(vms=12)), "model.json: vms: should be given for a flat"),
        (
            described(lambda values: values.update(network={"hidden": 9})),
            r"weights.npz: hidden_bias: .*\(9,\)",
        ),
        (weighed(place=None), "weights.npz: place: missing"),
        (weighed(place=np.zeros(3, np.float32)), r"weights.npz: place: should be of shape \(8, 8\), found"),
        (weighed(pool=np.array([None])), "weights.npz: cannot be read as arrays: Object arrays"),
        (fifo("model.json"), "model.json: cannot be read: not a regular file|no folder with a model.json"),
        (fifo("weights.npz"), "weights.npz: cannot be read as arrays: not a regular file"),
        (endless("model.json"), "model.json: cannot be read: too long: more than 1048576 bytes"),
        (endless("weights.npz"), "weights.npz: cannot be read as arrays: too long"),
        (bomb, "weights.npz: cannot be read as arrays: unpacked they are more than"),
    ],
)
def test_what_is_wrong_with_a_folder_is_told(
    spoil: Callable[[Path], object], complaint: str, tmp_path: Path
) -> None:
    """The file, the field or array, and the correct form."""
    write_model(tmp_path, make_model())
    spoil(tmp_path)
    with pytest.raises(TrainedModelError, match=complaint):
        read_model(tmp_path)


def test_weights_that_do_not_fit_the_description_are_not_written(tmp_path: Path) -> None:
    """Nor is anything else."""
    model = make_model()
    with pytest.raises(ValueError, match="hidden: unknown"):
        write_model(tmp_path / "new", type(model)(model.spec, make_model("flat").weights))
    assert not (tmp_path / "new" / "model.json").exists()


def test_a_model_that_is_not_there_is_told(tmp_path: Path) -> None:
    """With the names of those that ship."""
    with pytest.raises(
        TrainedModelError, match=r"nowhere: no shipped model and no folder with a model.json; shipped"
    ):
        find_model("nowhere")


def test_shipped_models_are_found_by_name_and_beta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every folder beneath `models` is one; without a beta the one nearest to one half is taken."""
    monkeypatch.setattr("agents.drl.model_folder.SHIPPED", tmp_path)
    with pytest.raises(TrainedModelError, match="no reinforce model ships with Stoker"):
        shipped_for("reinforce", None)
    model = make_model()
    for name, beta in (("reinforce-cost", 1.0), ("reinforce-balanced", 0.5)):
        objective = model.spec.objective.model_copy(update={"beta": beta})
        write_model(
            tmp_path / name,
            type(model)(model.spec.model_copy(update={"objective": objective}), model.weights),
        )
    assert list(shipped()) == ["reinforce-balanced", "reinforce-cost"]
    assert find_model("reinforce-cost") == shipped_for("reinforce", 1.0) == tmp_path / "reinforce-cost"
    assert shipped_for("reinforce", None).name == "reinforce-balanced"
    with pytest.raises(
        TrainedModelError, match=r"no reinforce model for beta 0.25 ships with Stoker; there are 0.5, 1"
    ):
        shipped_for("reinforce", 0.25)
    with pytest.raises(TrainedModelError, match="no dqn model ships"):
        shipped_for("dqn", 1.0)


def test_all_shipped_models_can_be_read() -> None:
    """With their weights: of DQN one for time, for cost and for both, of REINFORCE one for any beta."""
    for name, spec in shipped().items():
        assert read_model(SHIPPED / name).spec == spec
    meant = sorted((spec.algorithm, spec.meant_for, spec.betas) for spec in shipped().values())
    assert meant == [*(("dqn", beta, None) for beta in (0.0, 0.5, 1.0)), ("reinforce", 0.5, (0.0, 1.0))]
    assert [nearest_beta("dqn", beta) for beta in (0.1, 0.6, 0.8)] == [0.0, 0.5, 1.0]
    assert nearest_beta("reinforce", 0.1) == 0.1
