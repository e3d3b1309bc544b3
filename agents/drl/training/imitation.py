"""The warm start: a network learns to choose as a teacher does, before it learns from rewards."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from agents.drl.networks_tf import Actor
from agents.drl.training.teaching import Examples, Lesson, watch_all
from agents.drl.training.worlds import TEACHING, Worlds, random_of
from agents.experiments.comparison import contender
from agents.registry import describe
from conf.training import ImitationSpec
from environment.training.episodes import FIRST_TRAINING_SEED

#: Called with how much of how much is done, and what it is.
Progress = Callable[[int, int, str], None]


def examples_of(worlds: Worlds, imitation: ImitationSpec, kept: Path, progress: Progress) -> Examples:
    """The teacher's examples on training workloads; from the file `kept` when they are there already.

    PolicyError says what is wrong with the teacher.
    """
    if kept.exists():
        with np.load(kept) as arrays:
            return Examples(**arrays)
    lessons, parts = _lessons(worlds, imitation), []
    for part in watch_all(lessons, worlds.spec.threads):
        parts.append(part)
        progress(len(parts), len(lessons), f"watching {imitation.teacher}")
    examples = Examples(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(".partial.npz")
    np.savez(partial, **examples._asdict())
    partial.replace(kept)
    return examples


def imitate(
    worlds: Worlds, network: Actor, examples: Examples, imitation: ImitationSpec, progress: Progress
) -> float:
    """Fit the network's probabilities to the examples; the mean loss (cross-entropy) of the last epoch."""
    rate = tf.Variable(0.0)
    optimizer = tf.keras.optimizers.legacy.Adam(rate)

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def fit(observation: tf.Tensor, mask: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = network.logits({"observation": observation, "mask": mask})
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(target, logits))
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
        return loss

    count, loss = len(examples.target), 0.0
    for epoch in range(imitation.epochs):
        order = random_of(worlds.spec, TEACHING, 1 + epoch).permutation(count)
        losses = []
        for begin in range(0, count, imitation.batch):
            share = (epoch + begin / count) / imitation.epochs
            rate.assign(imitation.learning_rate.at(share))
            chosen = order[begin : begin + imitation.batch]
            losses.append(fit(*(part[chosen] for part in examples)))
        loss = float(tf.reduce_mean(losses))
        progress(epoch + 1, imitation.epochs, f"imitating {imitation.teacher}, loss {loss:.3f}")
    return loss


def _lessons(worlds: Worlds, imitation: ImitationSpec) -> list[Lesson]:
    teacher, spec = contender(imitation.teacher), worlds.spec
    options = dict(teacher.options)
    if any(option.name == "beta" for option in describe(teacher.name).options):
        options.setdefault("beta", spec.objective.beta)
    random = random_of(spec, TEACHING, 0)
    return [
        Lesson(
            teacher.name, options, workload, int(seed), of.vms, worlds.observation, spec.considered, of.belief
        )
        for workload, of in worlds.by_workload.items()
        for seed in random.integers(FIRST_TRAINING_SEED, 2**62, imitation.episodes)
    ]
