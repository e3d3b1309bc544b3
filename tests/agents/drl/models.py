"""Policy folders with weights from a seed, and networks in plain numpy, for the tests of learned policies."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agents.drl.model_folder import ModelSpec, TrainedModel, write_model
from agents.drl.network import Flat, SharedWeights, first_flat, first_shared
from conf.schema.training import NetworkSpec, ObjectiveSpec, ObservationSpec

#: What the networks of these tests see.
SEEN = ObservationSpec(types=("wordcount", "sort"), upcoming=2)
NATURAL = ObservationSpec(name="natural", types=())


def make_model(
    kind: Literal["shared", "flat"] = "shared",
    algorithm: Literal["dqn", "reinforce"] = "reinforce",
    vms: int = 12,
    seed: int = 1,
    hidden: int = 8,
    considered: int = 1,
    seen: ObservationSpec = SEEN,
) -> TrainedModel:
    """A model with seeded weights and last layers that tell actions apart; it prefers waiting a little."""
    spec = ModelSpec(
        algorithm=algorithm,
        network=NetworkSpec(kind=kind, hidden=hidden),
        vms=vms if kind == "flat" else None,
        observation=seen,
        objective=ObjectiveSpec(),
        wait_limit=3,
        considered=considered,
        betas=(0.0, 1.0) if seen.name == "natural" else None,
        overtaken_at_most=0 if considered == 1 else 32,
    )
    if kind == "shared":
        shared = first_shared(spec.shapes["vm"][0], spec.shapes["rest"][0], hidden, seed)
        return TrainedModel(spec, shared._replace(place_score=30 * shared.place_score))
    flat = first_flat(spec.shapes["hidden"][0], vms, hidden, seed)
    return TrainedModel(spec, flat._replace(score=30 * flat.score))


def that_waits(model: TrainedModel, offset: float) -> TrainedModel:
    """With another offset of the score of waiting: the higher, the rather its shared network waits."""
    assert isinstance(model.weights, SharedWeights)
    return TrainedModel(model.spec, model.weights._replace(wait_offset=np.full(1, offset, np.float32)))


def make_folder(folder: Path, model: TrainedModel) -> str:
    """The path of the folder, with the model in it."""
    write_model(folder, model)
    return str(folder)


def scores(weights: SharedWeights | Flat, observation: NDArray[Any], vms: int) -> NDArray[Any]:
    """The scores of all actions as in `agents.drl.network`, in the precision of the arguments."""
    if isinstance(weights, Flat):
        return relu(observation @ weights.hidden + weights.hidden_bias) @ weights.score + weights.score_bias
    features = weights.vm.shape[0]
    table, rest = observation[: vms * features].reshape(vms, features), observation[vms * features :]
    hidden = relu(table @ weights.vm + rest @ weights.rest + weights.hidden_bias)
    pool = np.concatenate([hidden.mean(axis=0), hidden.max(axis=0)])
    context = relu(pool @ weights.pool + rest @ weights.pool_rest + weights.pool_bias)
    placed = relu(hidden @ weights.place + context @ weights.place_context + weights.place_bias)
    waited = relu(context @ weights.wait + weights.wait_bias)
    wait = waited @ weights.wait_score + weights.wait_offset
    return np.concatenate([wait, placed @ weights.place_score + weights.place_offset])


def relu(x: NDArray[Any]) -> NDArray[Any]:
    """The positive part of x."""
    return np.maximum(x, x.dtype.type(0.0))
