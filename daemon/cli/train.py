"""The commands about policies that are learned: `train`."""

import contextlib
import importlib
import io
import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from daemon.cli.errors import CommandError
from daemon.cli.simulate import progress_bar


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
        Path | None, typer.Option("--out", metavar="DIR", help="The policy's folder; else policies/NAME.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
) -> None:
    """Train a policy in the simulator; no daemon is needed."""
    from agents.registry import PolicyError
    from conf.loader import ConfigError, find, load
    from conf.training import TrainingSpec
    from daemon.cli.jobfile import assignments
    from profiles.files import WorkloadError

    try:
        path = find(str(config))
        spec = load(path, TrainingSpec, assignments(settings or [], "--set"))
        folder = out or Path("policies") / path.stem
        with progress_bar() as progress:
            _trainer()(spec, folder, resume=resume, progress=progress)
    except (ConfigError, PolicyError, WorkloadError) as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"--out {folder}: {error.strerror or error}") from None
    print((folder / "card.md").read_text(encoding="utf-8"))
    print(f"The policy is in {folder}.")


def _trainer() -> Callable[..., object]:
    """By name, as policies are found: the daemon's own code is kept from TensorFlow."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.filterwarnings("ignore", module="tensorflow|tf_agents|keras|gym")
    warnings.filterwarnings("ignore", category=SyntaxWarning)  # of what TensorFlow compiles
    logging.getLogger("absl").setLevel(logging.ERROR)
    with contextlib.redirect_stderr(io.StringIO()):  # where its libraries announce themselves
        found: Callable[..., object] = importlib.import_module("agents.drl.training.trainer").train
    return found
