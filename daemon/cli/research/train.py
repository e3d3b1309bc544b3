"""The commands about policies that are learned: `train`, and `evaluate`, which compares them with others."""

import contextlib
import importlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.cli.research.simulate import COMPARED, belief_of, compare_policies, options_of
from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.options import RESULTS, BeliefOption, Output, notice, notice_left_out
from daemon.cli.shared.progress import progress_bar

if TYPE_CHECKING:
    from agents.drl.training.record import TrainingRecord
    from agents.experiments.comparison import SimulatedRun


def train(
    config: Annotated[
        Path,
        typer.Option("--config", metavar="FILE", help="A training file, as conf/train/reinforce-best.yaml."),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="One value of the file, as in seed=1; repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder of the policy; else policies/NAME.")
    ] = None,
    tensorboard: Annotated[
        Path | None,
        typer.Option(
            "--tensorboard",
            metavar="DIR",
            help="Write TensorBoard's data to DIR/NAME; by default to the policy's folder, run/tensorboard.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a stopped run.")] = False,
    from_history: Annotated[
        Path | None,
        typer.Option(
            "--from-history", metavar="DATA_DIR", help="Train on jobs like those in this daemon's records."
        ),
    ] = None,
    belief: Annotated[
        str | None,
        typer.Option(
            "--belief", metavar="BELIEF", help="Belief instead of the file's: exact, spread, SIGMA, constant."
        ),
    ] = None,
) -> None:
    """Train a policy in the simulator; no daemon is needed.

    Example: stoker train --config conf/train/reinforce-best.yaml --out policies/mine
    """
    from concurrent.futures.process import BrokenProcessPool

    from conf.loader import find, load
    from conf.schema.training import TrainingSpec
    from daemon.cli.research.training_summary import left_out, what_came, what_next
    from daemon.cli.shared.job_file import assignments

    try:
        path = find(str(config))
        given = [*(settings or []), *([] if belief is None else [f"belief={belief_of(belief)}"])]
        spec = load(path, TrainingSpec, assignments(given, "--set"))
        folder = out or Path("policies") / path.stem
        with progress_bar() as progress:
            progress(0, 0, "loading TensorFlow")
            trainer = _trainer()  # before anything is written: it may not be installed
            if from_history is not None:
                from daemon.cli.profile.recorded_data import with_history

                begun = resume or (folder / "run" / "checkpoints").is_dir()
                spec = with_history(spec, from_history, folder / "history", again=not begun)
            if tensorboard is not None:
                _make(tensorboard / folder.name)
            notice_left_out(left_out(spec))
            trainer(
                spec,
                folder,
                resume=resume,
                progress=progress,
                begun=lambda done: progress.begin(done, spec.iterations, "the first iteration"),
                tensorboard=tensorboard,
                listener=lambda record: progress(record.iteration, record.iterations, _in_a_line(record)),
            )
    except BrokenProcessPool:
        text = "a process that watches the teacher was killed; with less memory than it needs, set threads: 1"
        raise CommandError(text) from None
    except ArithmeticError as error:  # it diverged
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"--out {folder}: {error.strerror or error}{_how_to_go_on(folder)}") from None
    except KeyboardInterrupt:
        if going_on := _how_to_go_on(folder):
            notice(f"stopped{going_on}")
        raise
    print((folder / "card.md").read_text(encoding="utf-8"))

    with progress_bar() as progress:
        progress(0, 0, "playing the evaluation's workloads by greedy")
        came = list(what_came(spec, folder))
    print("\n".join([*came, f"The policy is in {folder}.", *what_next(spec, folder)]))


def _in_a_line(record: "TrainingRecord") -> str:
    """How a run stands: return -31.2, loss 0.0412, entropy 1.31 | 812 steps/s | best 29.9 at iteration 40."""
    told = [f"{name} {value:.4g}" for name, value in record.training.items() if name != "steps"]
    parts = [", ".join(told), f"{record.steps_per_second:.0f} steps/s" if record.steps_per_second else ""]
    best = f"best evaluation (return lost a job, less is better) {record.best_loss:.4g} of iteration "
    best += str(record.best_iteration)
    return " | ".join([*filter(None, parts), best])


def _how_to_go_on(folder: Path) -> str:
    """Text about --resume where it would not begin anew; empty if the run has no checkpoint."""
    has_checkpoint = any((folder / "run" / "checkpoints").glob("[0-9]*"))
    return "; --resume goes on from the last checkpoint" if has_checkpoint else ""


def _make(folder: Path) -> None:
    """The folder for TensorBoard, before minutes are spent."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"--tensorboard {folder}: {error.strerror or error}") from None


def _trainer() -> Callable[..., object]:
    """By name, as policies are found: the daemon's own code is kept from TensorFlow."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.filterwarnings("ignore", module="tensorflow|tf_agents|keras|gym")
    warnings.filterwarnings("ignore", category=SyntaxWarning)  # of code that TensorFlow compiles
    logging.getLogger("absl").setLevel(logging.ERROR)
    with contextlib.redirect_stderr(io.StringIO()):  # where its libraries announce themselves
        found: Callable[..., object] = importlib.import_module("agents.drl.training.trainer").train
    return found


def evaluate(
    model: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL", help="Folders of trained policies, or names of shipped ones."),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy", metavar="NAMES", help="Policies to compare with, separated by commas; none: no other."
        ),
    ] = COMPARED,
    workload: Annotated[
        str,
        typer.Option("--workload", metavar="NAMES", help="Workloads by name or file, separated by commas."),
    ] = "normal,burst",
    cluster: Annotated[
        str, typer.Option("--cluster", help="A name (paper, hundred, ...) or a .yaml file.")
    ] = "paper",
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=10_000, help="Number of seeds.")] = 20,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="The first seed; training uses none of them.")
    ] = 100,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw cost against completion (.png).")
    ] = None,
    card: Annotated[
        bool,
        typer.Option("--card", help="Write the comparison into the card of every model given as a folder."),
    ] = False,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="Folder for the cards of models given by name."),
    ] = RESULTS,
    belief: BeliefOption = "spread",
    output: Output = "table",
) -> None:
    """Compare trained policies with others, on workloads and seeds not used for training.

    With --card the comparison is written into the models' cards; shipped cards change only if their folders
    are given.

    Example: stoker evaluate policies/mine --policy rr,aep,greedy --workload burst
    """
    learned = {name: _learned(name) for name in model or []}
    others = [] if policy == "none" else policy.split(",")
    policies, workloads, numbers = (
        [*learned.values(), *others],
        workload.split(","),
        range(seed, seed + seeds),
    )
    options = options_of(belief)
    runs = compare_policies(policies, workloads, cluster, numbers, plot, output, options)
    for name, own in learned.items() if card else ():
        rivals = [run for run in runs if run.policy == own or run.policy not in learned.values()]
        _write_card(name, rivals, cluster, out)


def _write_card(model: str, runs: "Sequence[SimulatedRun]", cluster: str, out: Path) -> None:
    """Write the comparison into the model's card, or into a copy of it when the model came by its name."""
    from agents.drl.model_folder import find_model, shipped
    from agents.experiments.model_card import write_comparison

    card = find_model(model) / "card.md"
    target = out / f"{model}.md" if model in shipped() else card
    try:
        write_comparison(card, target, runs, cluster)
    except OSError as error:
        raise CommandError(f"--card: {error.filename}: {error.strerror or error}") from None
    print(f"The comparison is in {target}.", file=sys.stderr)


def _learned(model: str) -> str:
    """The policy that decides as the model says, as `simulate --policy` takes it."""
    from agents.drl.model_folder import find_model, read_spec

    return f"{read_spec(find_model(model)).algorithm}:model={model}"
