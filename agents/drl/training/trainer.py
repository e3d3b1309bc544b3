"""A training run: learn, evaluate, save the best policy, report results. The learners implement learning."""

import contextlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import tensorflow as tf
import yaml

from agents.drl.network import Flat, SharedWeights
from agents.drl.training import checkpoints
from agents.drl.training.board import Board
from agents.drl.training.checkpoints import Checkpoint
from agents.drl.training.evaluation import Evaluation
from agents.drl.training.imitation import examples_of, imitate
from agents.drl.training.learners.learner import Learner, learner_of
from agents.drl.training.output import write_policy
from agents.drl.training.record import Listener, TrainingRecord
from agents.drl.training.worlds import Worlds, worlds_of
from conf.loader import ConfigError
from conf.schema.training import TrainingSpec


class DivergedError(ArithmeticError):
    """Training produced a value that is not a number; the text names the iteration and a remedy."""


#: What to do about a damaged run.
_BEGIN_ANEW = "delete the run's folder, or train into another one"

#: Called with the steps done, the steps in all, and a text.
Progress = Callable[[int, int, str], None]


@dataclass
class _Run:
    """State of a run."""

    iteration: int = 0
    seconds: float = 0.0
    steps: float = 0.0
    best_loss: float = float("inf")
    best_iteration: int = 0
    #: An entry for each evaluation.
    history: list[dict[str, Any]] = field(default_factory=list)
    #: Digest of its training data.
    fingerprint: str = ""


def train(
    spec: TrainingSpec,
    out: Path,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    begun: Callable[[int], None] = lambda _: None,
    listener: Listener | None = None,
    tensorboard: Path | None = None,
) -> Path:
    """Train as the file says, and write the policy of the best evaluation to the folder; returns its path.

    `listener` is told after each iteration and evaluation, `progress` of what comes before too, and `begun`
    how many iterations were done when this run's own begin, which are those of an earlier one. What
    TensorBoard draws goes to a folder of the policy's name in `tensorboard`, or to `out/run/tensorboard`.

    Where the run stands is kept in `out/run`; with `resume` it goes on from there, and ends with the weights
    of one that was not interrupted, to the bit on the same kind of processor. ConfigError, WorkloadError and
    PolicyError say what is wrong with the input, or the folder.
    """
    _compute_alike()
    _claim(out, spec, resume=resume)
    worlds = worlds_of(spec)
    learner = learner_of(worlds)
    try:
        board = Board(out / "run" / "tensorboard" if tensorboard is None else tensorboard / out.name)
        with board:
            told = (board,) if listener is None else (board, listener)
            run, weights = _learn(worlds, learner, out, progress or _say_nothing, begun, told)
        write_policy(out, worlds, learner, weights, run.history, run.best_iteration, run.seconds)
    except tf.errors.OpError as error:  # of a file, as other errors are handled where they can occur
        raise OSError(error.message) from error
    finally:
        learner.close()
    return out


def _say_nothing(done: int, total: int, what: str) -> None:
    """Ignore progress."""


def _compute_alike() -> None:
    """Let sums of TensorFlow be made in one order: how it shares them between threads depends on the cores.

    The networks are so small that it takes a tenth more time at most.
    """
    if tf.config.threading.get_intra_op_parallelism_threads() != 1:
        # It is too late where the process has computed with it; only another machine would find other bits.
        with contextlib.suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(1)


def _claim(out: Path, spec: TrainingSpec, *, resume: bool) -> None:
    """Write the config down; a run is resumed only with the config that it was begun with.

    One that ended before its first checkpoint may be resumed, or begun again.
    """
    path, run = out / "config.yaml", out / "run"
    if checkpoints.exists(run / "checkpoints") and not resume:
        raise ConfigError(f"{out}: already contains a run; resume it, or choose another folder")
    if resume and not (path.is_file() and run.is_dir()):
        raise ConfigError(f"{out}: there is no run to resume")
    text = yaml.safe_dump(spec.model_dump(mode="json"), sort_keys=False)
    if not resume:
        shutil.rmtree(run, ignore_errors=True)
        _write(path, text)
        run.mkdir()
        return
    with checkpoints.reading(path, _BEGIN_ANEW):
        begun = path.read_text(encoding="utf-8")
        if begun != text:
            before, now = yaml.safe_load(begun), yaml.safe_load(text)
            changed = ", ".join(key for key in now if now[key] != before.get(key))
            raise ConfigError(f"{path}: the run was begun with another {changed}; resume it with the same")


def _learn(
    worlds: Worlds,
    learner: Learner,
    out: Path,
    report: Progress,
    begun: Callable[[int], None],
    listeners: Sequence[Listener],
) -> tuple[_Run, SharedWeights | Flat]:
    """Iterate until all is done; where the run stands at its end, and the best weights."""
    spec, folder, run = worlds.spec, out / "run", _Run(fingerprint=worlds.fingerprint())
    evaluation = Evaluation(worlds)
    average = best = learner.network.weights_as_arrays()
    with checkpoints.reading(folder / "checkpoints", _BEGIN_ANEW):
        before = checkpoints.restore(folder / "checkpoints", learner.checkpoint)
        if before is not None:
            run = _Run(**{each.name: before.state[each.name] for each in fields(_Run)})
            if run.fingerprint != worlds.fingerprint():
                text = "its workloads or its cluster are others than when the run was begun"
                raise ConfigError(f"{out}: {text}; it cannot be resumed")
            learner.restore(before.arrays)
            best, average = (
                type(best)(**{name: before.arrays[f"{which}.{name}"] for name in best._fields})
                for which in ("best", "average")
            )
    if before is None and spec.imitation is not None:
        imitation = spec.imitation
        examples = examples_of(worlds, imitation, folder / "teacher.npz", report)
        loss = imitate(worlds, learner.network, examples, imitation, report)
        if not isfinite(loss):
            raise DivergedError(
                f"training diverged before iteration 0, imitating {imitation.teacher}: its loss is {loss:g}. "
                "Choose a smaller imitation.learning_rate (it was "
                f"{imitation.learning_rate.last:.3g} at the end), and start again"
            )
        average = learner.network.weights_as_arrays()
    begun(run.iteration)
    told: dict[str, float] = {}
    began = perf_counter() - run.seconds
    while True:
        if _is_due(run, spec):
            weights = average if spec.averaging > 0 else learner.network.weights_as_arrays()
            best = _evaluate(run, weights, evaluation, best, told, perf_counter() - began)
            _tell(listeners, run, spec, told, perf_counter() - began, 0.0, evaluated=True)
            _keep(run, learner, {"best": best, "average": average}, out)
        if run.iteration >= spec.iterations:
            return run, best
        last = perf_counter()
        at = run.iteration
        try:
            run.iteration, told = learner.learn(at)
        except tf.errors.InvalidArgumentError as error:
            raise _diverged(at, "TensorFlow found a value that is not a number", spec) from error
        if wrong := next((name for name, value in told.items() if not isfinite(value)), None):
            raise _diverged(at, f"its {wrong} is {told[wrong]:g}", spec)
        if spec.averaging > 0:
            average = _averaged(average, learner.network.weights_as_arrays(), spec.averaging)
        run.iteration = min(run.iteration, spec.iterations)
        run.steps += told["steps"]
        report(run.iteration, spec.iterations, "training")
        now = perf_counter()
        _tell(listeners, run, spec, told, now - began, told["steps"] / (now - last), evaluated=False)


def _diverged(iteration: int, what: str, spec: TrainingSpec) -> DivergedError:
    """Error for an iteration that produced a value that is not a number."""
    rate = spec.learning_rate.at(iteration / spec.iterations)
    return DivergedError(
        f"training diverged at iteration {iteration}: {what}. Choose a smaller learning_rate (it was "
        f"{rate:.3g}) or gradient_norm, and start again with another --out"
    )


def _is_due(run: _Run, spec: TrainingSpec) -> bool:
    """Whether an evaluation is due: at the beginning, at the end, and at regular intervals."""
    if not run.history:
        return True
    last, every = int(run.history[-1]["iteration"]), spec.evaluation.every
    return run.iteration // every > last // every or run.iteration >= spec.iterations > last


def _evaluate(
    run: _Run,
    weights: SharedWeights | Flat,
    evaluation: Evaluation,
    best: SharedWeights | Flat,
    told: Mapping[str, float],
    seconds: float,
) -> SharedWeights | Flat:
    """Add an entry to the history; the best weights so far."""
    loss, found = evaluation.of(weights)
    run.seconds = seconds
    entry = {"iteration": run.iteration, "seconds": round(seconds, 1), "steps": int(run.steps), "loss": loss}
    run.history.append({**entry, "training": dict(told), "evaluation": found})
    if loss < run.best_loss:
        run.best_loss, run.best_iteration = loss, run.iteration
        return weights
    return best


def _averaged(
    average: SharedWeights | Flat, weights: SharedWeights | Flat, share: float
) -> SharedWeights | Flat:
    """The average, moved towards the weights by 1 - `share`; float32 as they are."""
    pairs = zip(average, weights, strict=True)
    return type(average)(*((share * old + (1 - share) * new).astype(np.float32) for old, new in pairs))


def _keep(run: _Run, learner: Learner, kept: Mapping[str, SharedWeights | Flat], out: Path) -> None:
    arrays = dict(learner.arrays())
    for which, weights in kept.items():
        arrays |= {f"{which}.{name}": array for name, array in weights._asdict().items()}
    state = Checkpoint(dict(vars(run)), arrays)
    checkpoints.save(out / "run" / "checkpoints", run.iteration, learner.checkpoint, state)
    _write(out / "metrics.jsonl", "".join(f"{json.dumps(entry)}\n" for entry in run.history))


def _tell(
    listeners: Sequence[Listener],
    run: _Run,
    spec: TrainingSpec,
    told: Mapping[str, float],
    seconds: float,
    steps_per_second: float,
    *,
    evaluated: bool,
) -> None:
    record = TrainingRecord(
        run.iteration,
        spec.iterations,
        seconds,
        int(run.steps),
        steps_per_second,
        dict(told),
        run.history[-1]["evaluation"],
        run.history[-1]["loss"],
        evaluated,
        run.best_loss,
        run.best_iteration,
    )
    for listener in listeners:
        listener(record)


def _write(path: Path, text: str) -> None:
    """Write a text file so that it is there wholly or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
