"""The policy folder that a training run leaves: the SavedModel, the weights, the metrics, and a card."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from tf_agents.policies import policy_saver

from agents.drl.model_folder import ModelSpec, TrainedModel, write_model
from agents.drl.network import Flat, SharedWeights
from agents.drl.networks_tf import Masked, ScoreNetwork
from agents.drl.training.card import card_of
from agents.drl.training.worlds import Worlds


def write_saved_model(folder: Path, agent: Any, network: ScoreNetwork, length: int) -> None:
    """Write TF-Agents' SavedModel of the agent's greedy policy.

    Beside TF-Agents' own functions it has `scores`: of observations float32 [B, L] the scores [B, N + 1].
    """
    step = agent.train_step_counter
    metadata = Masked(train_step=step)
    saver = policy_saver.PolicySaver(agent.policy, batch_size=None, train_step=step, metadata=metadata)
    observation = tf.TensorSpec((length,), tf.float32, "observation")
    saver.register_function("scores", network.scores, observation)
    saver.save(str(folder))


def write_policy(
    out: Path,
    worlds: Worlds,
    learner: Any,
    weights: SharedWeights | Flat,
    history: Sequence[Mapping[str, Any]],
    best: int,
    seconds: float,
) -> None:
    """Write all of the folder that a policy needs; the network takes these weights."""
    learner.network.take(weights)
    write_saved_model(out / "saved_model", learner.agent, learner.network, worlds.length)
    entry = next(entry for entry in history if entry["iteration"] == best)
    write_model(out, TrainedModel(_spec_of(worlds, entry, history[-1], seconds), weights))
    card = card_of(worlds.spec, entry, history[-1], seconds)
    (out / "card.md").write_text(card, encoding="utf-8")


def _spec_of(worlds: Worlds, best: Mapping[str, Any], last: Mapping[str, Any], seconds: float) -> ModelSpec:
    spec = worlds.spec.as_deployed()
    return ModelSpec(
        algorithm=spec.algorithm,
        network=spec.network,
        vms=worlds.vms if spec.network.kind == "flat" else None,
        observation=spec.observation,
        objective=spec.objective,
        wait_limit=spec.wait_limit,
        betas=None if spec.drawn is None else spec.drawn.betas,
        considered=spec.considered,
        overtaken_at_most=spec.overtaken_at_most if spec.considered > 1 else 0,
        training={
            "seed": spec.seed,
            **(
                {"cluster": spec.cluster, "workloads": dict(spec.workloads)}
                if spec.drawn is None
                else {"drawn": spec.drawn.model_dump(mode="json")}
            ),
            "iterations": last["iteration"],
            "steps": last["steps"],
            "seconds": round(seconds, 1),
            "best_iteration": best["iteration"],
            "evaluation": best["evaluation"],
        },
    )
