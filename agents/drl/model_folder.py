"""The folder of a trained policy and its files. `learned_policy.py` defines the policy that decides by it.

    model.json     the policy's specification and its training target; see `ModelSpec`
    weights.npz    its network's weights, by the names in `network.py`

Beside them training writes a card to read, its config, its metrics and a TF-Agents SavedModel, which the
policy does not need for decisions.
"""

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationError, model_validator

from agents.drl.network import KINDS, Flat, SharedWeights, flat_shapes, shared_shapes, weights_from
from conf.errors import ReportedError
from conf.schema import Strict
from conf.schema.training import NetworkSpec, ObjectiveSpec, ObservationSpec, Part
from conf.util.regular_file import read_regular
from environment.kernel.rule_options import ObservationOptions
from environment.kernel.state import Float32Array

MODEL_FILE, WEIGHTS_FILE = "model.json", "weights.npz"
#: The folder with the models that ship with Stoker.
SHIPPED = Path(__file__).parent / "models"
#: Chosen: bytes of a description, and of weights, in the file and unpacked; those that ship have 40 KB.
_LONGEST, _LARGEST = 1 << 20, 1 << 28

#: Exceptions of zipfile and numpy for bytes that are no arrays, besides OSError and ValueError.
_NO_ARRAYS = (zipfile.BadZipFile, zlib.error, AttributeError, EOFError, MemoryError, NotImplementedError)

Algorithm = Literal["dqn", "reinforce"]


class TrainedModelError(ReportedError, ValueError):
    """A policy folder that cannot be used; the text is fit for a user."""


class ModelSpec(Strict):
    """Contents of `model.json`."""

    format: Literal[1] = 1
    algorithm: Algorithm
    network: NetworkSpec
    #: For how many VMs a flat network is; null for a shared one, which is for any number.
    vms: Annotated[int, Field(ge=1)] | None = None
    observation: ObservationSpec
    objective: ObjectiveSpec
    #: How often in a row it could wait in training although the job fitted; null: without bound.
    wait_limit: Annotated[int, Field(ge=0)] | None = None
    #: How many jobs of the queue it looks at, the oldest of them; 1: first come, first served.
    considered: Annotated[int, Field(ge=1)] = 1
    #: How often the oldest job of the queue may be overtaken by others.
    overtaken_at_most: Annotated[int, Field(ge=0)] = 0
    #: Between which betas it was trained, where it is shown how much cost counts: it serves all of them.
    betas: tuple[Part, Part] | None = Field(None, strict=False)
    #: The beta that it is meant for, where it was trained for another: a little cost in the objective may
    #: help a model that is to be fast, and the other way round.
    beta: Annotated[float, Field(ge=0, le=1)] | None = None
    #: Data and duration of its training, for people.
    training: Mapping[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_together(self) -> "ModelSpec":
        if (self.network.kind == "flat") != (self.vms is not None):
            raise ValueError("vms: should be given for a flat network, and null for a shared one")
        if self.betas is not None and self.observation.name != "natural":
            raise ValueError("betas: should be null: only the natural observation shows beta")
        return self

    def serves(self, beta: float) -> bool:
        """Whether it may be used for this beta."""
        if self.betas is None:
            return self.meant_for == beta
        return self.betas[0] <= beta <= self.betas[1]

    @property
    def meant_for(self) -> float:
        """The beta of the policy for which it is offered: 0 is time, 1 is cost."""
        return self.objective.beta if self.beta is None else self.beta

    @property
    def options(self) -> ObservationOptions:
        """The policy's observation options."""
        seen = self.observation
        return ObservationOptions(seen.name, seen.types, seen.upcoming, seen.unknown_seconds)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of its network's weights, by name."""
        from environment.kernel.observation import features_of  # here, since it brings numba

        features, rest = features_of(self.options.layout)
        if self.vms is None:
            return shared_shapes(features, rest, self.network.hidden)
        return flat_shapes(features * self.vms + rest, self.vms, self.network.hidden)


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A trained policy."""

    spec: ModelSpec
    weights: SharedWeights | Flat


def find_model(name: str) -> Path:
    """The folder of a shipped model, by name, or of any other, by path; ModelError when there is none."""
    for folder in (SHIPPED / name, Path(name).expanduser()):
        if (folder / MODEL_FILE).is_file():
            return folder
    known = ", ".join(shipped()) or "none"
    raise TrainedModelError(
        f"{name}: no shipped model and no folder with a {MODEL_FILE}; shipped are {known}"
    )


def shipped() -> dict[str, ModelSpec]:
    """Specifications of the models that ship with Stoker, by name."""
    folders = sorted(path.parent for path in SHIPPED.glob(f"*/{MODEL_FILE}"))
    return {folder.name: read_spec(folder) for folder in folders}


def shipped_for(algorithm: Algorithm, beta: float | None) -> Path:
    """The shipped model of the algorithm for that beta; without one, for the beta nearest to one half."""
    known = {name: spec for name, spec in shipped().items() if spec.algorithm == algorithm}
    if not known:
        raise TrainedModelError(f"no {algorithm} model ships with Stoker; give the folder of a trained one")
    wanted = 0.5 if beta is None else beta
    far = {name: (not spec.serves(wanted), abs(spec.meant_for - wanted)) for name, spec in known.items()}
    name = min(known, key=lambda name: (far[name], name))
    if beta is not None and not known[name].serves(beta):
        betas = ", ".join(sorted(told_betas(spec) for spec in known.values()))
        raise TrainedModelError(
            f"no {algorithm} model for beta {beta:g} ships with Stoker; there are {betas}"
        )
    return SHIPPED / name


def nearest_beta(algorithm: Algorithm, beta: float) -> float | None:
    """The beta nearest to this one of those that models of the algorithm ship for; None when none ships."""
    specs = [spec for spec in shipped().values() if spec.algorithm == algorithm]
    if any(spec.serves(beta) for spec in specs):
        return beta
    known = {spec.meant_for for spec in specs}
    return min(known, key=lambda value: (abs(value - beta), value), default=None)


def told_betas(spec: ModelSpec) -> str:
    """The model's beta, or its range of betas, in words."""
    return f"{spec.meant_for:g}" if spec.betas is None else f"{spec.betas[0]:g} to {spec.betas[1]:g}"


def model_for(algorithm: Algorithm, name: str | None, beta: float | None) -> TrainedModel:
    """The model of that name or folder, which must be of the algorithm; without a name the shipped one."""
    folder = shipped_for(algorithm, beta) if name is None else find_model(name)
    model = read_model(folder)
    if model.spec.algorithm != algorithm:
        raise TrainedModelError(f"{folder} is of {model.spec.algorithm}")
    return model


def read_model(folder: Path) -> TrainedModel:
    """Read a policy folder; ModelError names the invalid file and the fault."""
    spec = read_spec(folder)
    path = folder / WEIGHTS_FILE
    try:
        arrays: dict[str, Float32Array] = _arrays(read_regular(path, _LARGEST))
    except (OSError, ValueError, *_NO_ARRAYS) as error:
        raise TrainedModelError(f"{path}: cannot be read as arrays: {_why(error)}") from error
    try:
        return TrainedModel(spec, weights_from(spec.network.kind, arrays, spec.shapes))
    except ValueError as error:
        raise TrainedModelError(f"{path}: {error}") from error


def read_spec(folder: Path) -> ModelSpec:
    """Read the specification of the policy in a folder; ModelError names the invalid field."""
    path = folder / MODEL_FILE
    try:
        text = read_regular(path, _LONGEST)
    except (OSError, ValueError) as error:
        raise TrainedModelError(f"{path}: cannot be read: {_why(error)}") from error
    try:
        return ModelSpec.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise TrainedModelError(f"{path}: {field + ': ' if field else ''}{message}") from error


def _arrays(data: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        if sum(part.file_size for part in packed.infolist()) > _LARGEST:
            raise ValueError(f"unpacked they are more than {_LARGEST} bytes")
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # numpy returns what has no header of its own as bytes
            raise ValueError(f"{name} is no array")
    return arrays


def write_model(folder: Path, model: TrainedModel) -> None:
    """Write both files into a folder, which is made when it is not there.

    The description comes last: a folder that has one is whole.
    """
    folder.mkdir(parents=True, exist_ok=True)
    weights_from(KINDS[isinstance(model.weights, Flat)], model.weights._asdict(), model.spec.shapes)
    with (folder / WEIGHTS_FILE).open("wb") as file:
        np.savez(file, **model.weights._asdict())
    text = json.dumps(model.spec.model_dump(mode="json"), indent=2)
    (folder / MODEL_FILE).write_text(text + "\n", encoding="utf-8")


def _why(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
