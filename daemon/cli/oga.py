"""The commands about OgaSched's bench: `oga run`, `oga sweep`, `oga reproduce`. They need no daemon."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from daemon.cli.errors import CommandError
from daemon.cli.shared_options import RESULTS, Output, ReportFolder, print_json
from daemon.cli.simulate import progress_bar

if TYPE_CHECKING:
    from agents.oga.bench import Summary
    from agents.oga.environments import Environment, EnvironmentOptions

oga = typer.Typer(
    help="Fractional allocation learned online (OgaSched): run it against its comparison partners.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

COMPARED = "oga,oga-reactive,oga-conserving,drf,fairness,binpacking,spreading"

Policies = Annotated[
    str,
    typer.Option("--policy", metavar="NAMES", help="By commas; also stationary and optimum, in hindsight."),
]
Types = Annotated[int, typer.Option("--types", min=1, help="Job types: ports, |L|.")]
Instances = Annotated[int, typer.Option("--instances", min=1, help="Computing instances, |R|.")]
Resources = Annotated[int, typer.Option("--resources", min=1, help="Resource types, K.")]
Slots = Annotated[int, typer.Option("--slots", min=1, help="Time slots, T.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The first seed.")]
Seeds = Annotated[int, typer.Option("--seeds", min=1, max=1000, help="How many seeds.")]
Arrival = Annotated[float, typer.Option("--arrival", help="Probability that a port has a job, rho.")]
Contention = Annotated[float, typer.Option("--contention", help="Multiplies requests.")]
Density = Annotated[float, typer.Option("--density", help="Edges per instance; 0 joins all with all.")]
Utility = Annotated[str, typer.Option("--utility", help="mixed, linear, log, reciprocal or poly.")]
Reading = Annotated[
    Literal["per_channel", "total"],
    typer.Option("--request", help="Whether a request bounds each channel, or the whole job."),
]
Eta0 = Annotated[float, typer.Option("--eta0", help="The first step's size.")]
Decay = Annotated[float, typer.Option("--decay", help="What each step's size is of the last one's.")]
StepSize = Annotated[
    Literal["decay", "eq50", "theorem1"], typer.Option("--step-size", help="How steps are sized.")
]
Alibaba = Annotated[
    Path | None,
    typer.Option("--alibaba", metavar="DIR", help="Take machines, requests and arrivals from these files."),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", min=1, help="Threads that share large steps; as many as there are cores."),
]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw the rewards (.png).")]

_SWEPT = {
    "types": int,
    "instances": int,
    "slots": int,
    "contention": float,
    "arrival": float,
    "density": float,
    "utility": str,
    "request": str,
    "eta0": float,
    "decay": float,
}


@oga.command("run")
def run(
    policy: Policies = COMPARED,
    types: Types = 10,
    instances: Instances = 128,
    resources: Resources = 6,
    slots: Slots = 8000,
    seed: Seed = 0,
    seeds: Seeds = 1,
    arrival: Arrival = 0.7,
    contention: Contention = 10.0,
    density: Density = 3.0,
    utility: Utility = "mixed",
    request: Reading = "per_channel",
    eta0: Eta0 = 25.0,
    decay: Decay = 0.9999,
    step_size: StepSize = "decay",
    threads: Threads = None,
    alibaba: Alibaba = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write the environment here (.npz).")
    ] = None,
    load: Annotated[
        Path | None, typer.Option("--load", metavar="FILE", help="Take a saved environment (.npz).")
    ] = None,
    plot: Plot = None,
    output: Output = "table",
) -> None:
    """Compare policies in one setting, the paper's when nothing else is said."""
    if load is not None and (alibaba is not None or seeds > 1):
        raise CommandError("--load: goes with neither --alibaba nor several --seeds")
    if save is not None and seeds > 1:
        raise CommandError("--save: one environment, so one seed")
    with _errors(), progress_bar() as progress:
        from agents.oga.bench import compare
        from agents.oga.environments import EnvironmentOptions, save_environment
        from agents.oga.learner import LearnerOptions

        options = EnvironmentOptions(
            types=types,
            instances=instances,
            resources=resources,
            slots=slots,
            seed=seed,
            arrival=arrival,
            contention=contention,
            density=density,
            utility=utility,
            request=request,
        )
        learning = LearnerOptions(
            eta0=eta0, decay=decay, step_size=step_size, threads=threads or os.cpu_count() or 1
        )
        found = _environments(options, seeds, alibaba, load)
        if save is not None:
            found = list(found)
            save_environment(found[0][1], save)
        summaries = compare(_names(policy), found, learning, seeds, progress)
    if plot is not None:
        _draw(summaries, plot)
    if output == "json":
        print_json([summary.to_json() for summary in summaries])
    else:
        _show(summaries)


@oga.command("sweep")
def sweep(
    over: Annotated[str, typer.Option("--over", help=f"What varies: {', '.join(_SWEPT)}.")],
    values: Annotated[str, typer.Option("--values", help="Its values, by commas.")],
    policy: Policies = COMPARED,
    types: Types = 10,
    instances: Instances = 128,
    resources: Resources = 6,
    slots: Slots = 2000,
    seed: Seed = 0,
    seeds: Seeds = 1,
    arrival: Arrival = 0.7,
    contention: Contention = 10.0,
    density: Density = 3.0,
    utility: Utility = "mixed",
    request: Reading = "per_channel",
    eta0: Eta0 = 25.0,
    decay: Decay = 0.9999,
    step_size: StepSize = "decay",
    threads: Threads = None,
    alibaba: Alibaba = None,
    plot: Plot = None,
    output: Output = "table",
) -> None:
    """Compare policies over the values of one setting."""
    told: list[tuple[str, list[Summary]]] = []
    with _errors(), progress_bar() as progress:
        from agents.oga.bench import compare
        from agents.oga.environments import EnvironmentOptions
        from agents.oga.learner import LearnerOptions

        options = EnvironmentOptions(
            types=types,
            instances=instances,
            resources=resources,
            slots=slots,
            seed=seed,
            arrival=arrival,
            contention=contention,
            density=density,
            utility=utility,
            request=request,
        )
        learning = LearnerOptions(
            eta0=eta0, decay=decay, step_size=step_size, threads=threads or os.cpu_count() or 1
        )
        for value in values.split(","):
            change = {over: _value(over, value)}
            there = replace(options, **change) if hasattr(options, over) else options
            learner = replace(learning, **change) if hasattr(learning, over) else learning
            found = _environments(there, seeds, alibaba, None)
            told.append((value, compare(_names(policy), found, learner, seeds, progress)))
    if plot is not None:
        _draw_sweep(over, told, plot)
    if output == "json":
        print_json([{over: value, **summary.to_json()} for value, found in told for summary in found])
    else:
        _show_sweep(over, told)


@oga.command("reproduce")
def reproduce(
    out: ReportFolder = RESULTS,
    seeds: Annotated[int, typer.Option("--seeds", min=2, help="How many seeds.")] = 3,
    alibaba: Alibaba = None,
) -> None:
    """Make the counterparts of the paper's figures and tables; takes about ten minutes."""
    with _errors(), progress_bar() as progress:
        from agents.experiments.zhao2023_report import report

        written = report(out, seeds, alibaba, progress)
    print(written)


def _environments(
    options: "EnvironmentOptions", seeds: int, alibaba: Path | None, load: Path | None
) -> "Iterator[tuple[int, Environment]] | list[tuple[int, Environment]]":
    from agents.oga.bench import generated
    from agents.oga.environments import from_alibaba, load_environment

    if load is not None:
        return [(options.seed, load_environment(load))]
    numbers = range(options.seed, options.seed + seeds)
    if alibaba is not None:
        return ((seed, from_alibaba(alibaba, replace(options, seed=seed))) for seed in numbers)
    return generated(options, numbers)


def _names(policies: str) -> list[str]:
    from agents.oga.partners import NAMES

    names = [name for name in policies.split(",") if name]
    for name in names:
        if name not in NAMES:
            raise CommandError(f"--policy {name}: unknown; known are {', '.join(NAMES)}")
    return names


def _value(over: str, text: str) -> Any:
    if over not in _SWEPT:
        raise CommandError(f"--over {over}: unknown; known are {', '.join(_SWEPT)}")
    try:
        return _SWEPT[over](text)
    except ValueError:
        raise CommandError(f"--values {text}: {over} is a number") from None


def _show(summaries: "Sequence[Summary]") -> None:
    from daemon.cli import render

    best = max(summary.mean for summary in summaries)
    rows = [
        (
            summary.policy,
            _cell(summary),
            f"{summary.mean / best:.1%}" if best > 0 else "",
            f"{summary.to_json()['cumulative_reward']:.0f}",
            f"{summary.seconds_per_slot * 1e6:.0f}",
        )
        for summary in summaries
    ]
    columns = ("policy", "average reward", "of the best", "cumulative reward", "µs a slot")
    render.show(render.table(columns, rows, right=columns[1:]))
    first = summaries[0].runs[0]
    render.show(f"{first.environment}, {first.rewards.size} slots; requests: {first.request}")


def _show_sweep(over: str, told: "Sequence[tuple[str, Sequence[Summary]]]") -> None:
    from daemon.cli import render

    columns = (over, *(summary.policy for summary in told[0][1]))
    rows = [(value, *(_cell(summary) for summary in found)) for value, found in told]
    render.show(render.table(columns, rows, right=columns[1:]))


def _cell(summary: "Summary") -> str:
    return f"{summary.mean:.1f}" + (f" ± {summary.spread:.1f}" if len(summary.runs) > 1 else "")


def _draw(summaries: "Sequence[Summary]", path: Path) -> None:
    from agents.experiments.zhao2023_plots import draw_rewards

    with _writing(path):
        draw_rewards(summaries, path)


def _draw_sweep(over: str, told: "Sequence[tuple[str, Sequence[Summary]]]", path: Path) -> None:
    from agents.experiments.zhao2023_plots import draw_sweep

    with _writing(path):
        draw_sweep(over, told, path)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise CommandError(f"--plot {path}: {error}") from None


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """What is wrong with the input, in one line."""
    from profiles.files import WorkloadError

    try:
        yield
    except (ValueError, WorkloadError, OSError) as error:
        raise CommandError(str(error)) from None
