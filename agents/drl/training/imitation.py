"""The warm start: a network learns to choose as a teacher does, before it learns from rewards."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from agents.drl.networks_tf import ScoreNetwork
from agents.drl.training import checkpoints
from agents.drl.training.teaching import Examples, Lesson, watch_all
from agents.drl.training.worlds import TEACHING, Worlds, random_of
from agents.experiments.comparison import contender
from agents.registry import PolicyError, weighs
from conf.schema.training import ImitationSpec
from environment.simulation.simulator import StuckError
from environment.training.episodes import FIRST_TRAINING_SEED
from environment.types import IntArray

#: Called with the steps done, the steps in all, and their name.
Progress = Callable[[int, int, str], None]


def examples_of(
    worlds: Worlds, imitation: ImitationSpec, kept: Path, progress: Progress
) -> dict[int, Examples]:
    """The teacher's examples by number of VMs; read from the file `kept` if it exists already.

    PolicyError for an invalid teacher, and for one that waits for ever.
    """
    if kept.exists():
        remedy = "delete it: it is made again"
        with checkpoints.reading(kept, remedy), kept.open("rb") as file, np.load(file) as arrays:
            sizes = sorted({int(name.partition(".")[0]) for name in arrays})
            return {n: Examples(*(arrays[f"{n}.{name}"] for name in Examples._fields)) for n in sizes}
    lessons, parts = _lessons(worlds, imitation), []
    try:
        with contextlib.closing(watch_all(lessons, worlds.spec.threads)) as watched:
            for part in watched:
                parts.append(part)
                progress(len(parts), len(lessons), f"watching {imitation.teacher}")
    except StuckError as error:
        raise PolicyError(f"imitation.teacher: {imitation.teacher}: {error}") from error
    by_size: dict[int, list[Examples]] = {}
    for lesson, part in zip(lessons, parts, strict=True):
        if len(part.target):
            by_size.setdefault(len(lesson.vms), []).append(part)
    examples = {
        vms: Examples(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))
        for vms, found in sorted(by_size.items())
    }
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(".partial.npz")
    of = examples.items()
    np.savez(partial, **{f"{vms}.{name}": array for vms, one in of for name, array in one._asdict().items()})
    partial.replace(kept)
    return examples


def imitate(
    worlds: Worlds,
    network: ScoreNetwork,
    examples: dict[int, Examples],
    imitation: ImitationSpec,
    progress: Progress,
) -> float:
    """Fit the network's probabilities to the examples; the mean loss (cross-entropy) of the last epoch."""
    rate = tf.Variable(0.0)
    optimizer = tf.keras.optimizers.legacy.Adam(rate)

    def fit_to(observation: tf.Tensor, mask: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = network.logits({"observation": observation, "mask": mask})
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(target, logits))
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
        return loss

    def compiled(examples: Examples) -> Any:
        """One graph for clusters of one size."""
        seen, actions = examples.observation.shape[1], examples.target.shape[1]
        columns = ((seen, tf.float32), (actions, tf.bool), (actions, tf.float32))
        signature = [tf.TensorSpec((None, n), kind) for n, kind in columns]
        return tf.function(fit_to, input_signature=signature, autograph=False)

    loss, fit = 0.0, {vms: compiled(of) for vms, of in examples.items()}
    for epoch in range(imitation.epochs):
        random, losses = random_of(worlds.spec, TEACHING, 1 + epoch), []
        batches = [
            (vms, chosen)
            for vms, of in examples.items()
            for chosen in _batches(random.permutation(len(of.target)), imitation.batch)
        ]
        if len(examples) > 1:
            batches = [batches[at] for at in random.permutation(len(batches))]
        for number, (vms, chosen) in enumerate(batches):
            rate.assign(imitation.learning_rate.at((epoch + number / len(batches)) / imitation.epochs))
            losses.append(fit[vms](*(part[chosen] for part in examples[vms])))
        loss = float(tf.reduce_mean(losses))
        progress(epoch + 1, imitation.epochs, f"imitating {imitation.teacher}, loss {loss:.3f}")
    return loss


def _batches(order: IntArray, size: int) -> list[IntArray]:
    return [order[begin : begin + size] for begin in range(0, len(order), size)]


def _lessons(worlds: Worlds, imitation: ImitationSpec) -> list[Lesson]:
    teacher, spec = contender(imitation.teacher), worlds.spec
    options = dict(teacher.options)
    if weighs(teacher.name, options):
        options.setdefault("beta", spec.objective.beta)
    if spec.drawn is not None:
        weighed = "beta" in options and "beta" not in teacher.options
        return [
            Lesson(
                teacher.name,
                {**options, "beta": beta} if weighed else options,
                world.workload,
                world.seed,
                world.vms,
                replace(worlds.observation, beta=beta),
                spec.considered,
                world.belief,
                imitation.waiting,
            )
            for world, beta in worlds.watched(imitation.episodes)
        ]
    random = random_of(spec, TEACHING, 0)
    return [
        Lesson(
            teacher.name,
            options,
            workload,
            int(seed),
            of.vms,
            worlds.observation,
            spec.considered,
            of.belief,
            imitation.waiting,
        )
        for workload, of in worlds.by_workload.items()
        for seed in random.integers(FIRST_TRAINING_SEED, 2**62, imitation.episodes)
    ]
