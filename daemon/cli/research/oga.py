"""The commands about OgaSched's bench: `oga run`, `oga sweep`, `oga reproduce`. They need no daemon."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from daemon.cli.research.reproduce import FirstSeed, Seeds, reproducing
from daemon.cli.shared.errors import CommandError, naming
from daemon.cli.shared.options import RESULTS, Output, ReportFolder, print_json, with_groups
from daemon.cli.shared.progress import progress_bar

if TYPE_CHECKING:
    from agents.oga.bench import Summary
    from agents.oga.environments import Environment, EnvironmentOptions
    from agents.oga.learner import LearnerOptions

oga = typer.Typer(
    help="Fractional allocation learned online (OgaSched): run it against its comparison partners.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

COMPARED = "oga,oga-reactive,oga-conserving,drf,fairness,binpacking,spreading"

Alibaba = Annotated[
    Path | None,
    typer.Option("--alibaba", metavar="DIR", help="Read machines, requests and arrivals from these files."),
]


@dataclass(frozen=True)
class OgaSetting:
    """Options of `run` and `sweep`: policies and environment; the defaults are the paper's."""

    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="NAMES",
            help="Policies, separated by commas; also stationary and optimum, computed in hindsight.",
        ),
    ] = COMPARED
    types: Annotated[int, typer.Option("--types", min=1, help="Job types, |L|.")] = 10
    instances: Annotated[int, typer.Option("--instances", min=1, help="Computing instances, |R|.")] = 128
    resources: Annotated[int, typer.Option("--resources", min=1, help="Resource types, K.")] = 6
    slots: Annotated[int, typer.Option("--slots", min=1, help="Time slots, T.")] = 8000
    seed: Annotated[int, typer.Option("--seed", min=0, help="The first seed.")] = 0
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=1000, help="Number of seeds.")] = 1
    arrival: Annotated[float, typer.Option("--arrival", help="Probability that a job arrives, rho.")] = 0.7
    contention: Annotated[float, typer.Option("--contention", help="Multiplies requests.")] = 10.0
    density: Annotated[
        float, typer.Option("--density", help="Edges per instance; 0 connects all with all.")
    ] = 3.0
    utility: Annotated[str, typer.Option("--utility", help="mixed, linear, log, reciprocal or poly.")] = (
        "mixed"
    )
    request: Annotated[
        Literal["per_channel", "total"],
        typer.Option("--request", help="Whether a request bounds each channel, or the whole job."),
    ] = "per_channel"
    jobs_per_type: Annotated[
        int,
        typer.Option("--jobs-per-type", metavar="N", help="Maximum jobs of each type that arrive in a slot."),
    ] = 1
    tasks: Annotated[
        int,
        typer.Option(
            "--tasks", metavar="N", help="Tasks of a job; each requests an N-th of the job's request."
        ),
    ] = 1
    gang: Annotated[
        int | None,
        typer.Option(
            "--gang",
            metavar="M",
            help="At least M tasks of a job start, or none; by default all of them, 0 for no gangs.",
            show_default=False,
        ),
    ] = None
    floor: Annotated[
        float,
        typer.Option(
            "--floor",
            metavar="SHARE",
            help="Minimum share of its request, of every resource, for a task to be scheduled.",
        ),
    ] = 0.5
    alibaba: Alibaba = None
    eta0: Annotated[float, typer.Option("--eta0", help="The first step's size.")] = 25.0
    decay: Annotated[float, typer.Option("--decay", help="Ratio of each step's size to the last one's.")] = (
        0.9999
    )
    step_size: Annotated[
        Literal["decay", "eq50", "theorem1"], typer.Option("--step-size", help="Rule for the size of steps.")
    ] = "decay"
    threads: Annotated[
        int | None,
        typer.Option("--threads", min=1, help="Threads for large steps; by default one per core."),
    ] = None
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw the rewards (.png).")] = (
        None
    )
    output: Output = "table"

    def environment(self) -> "EnvironmentOptions":
        """Options of the environments; ValueError for an invalid one."""
        from agents.oga.environments import EnvironmentOptions

        names = [field.name for field in fields(EnvironmentOptions) if hasattr(self, field.name)]
        return EnvironmentOptions(**{name: getattr(self, name) for name in names})

    def learner(self) -> "LearnerOptions":
        """Options of the learner; ValueError for an invalid one."""
        from agents.oga.learner import LearnerOptions

        threads = self.threads or os.cpu_count() or 1
        return LearnerOptions(eta0=self.eta0, decay=self.decay, step_size=self.step_size, threads=threads)

    def names(self) -> list[str]:
        """The policies; CommandError for one that there is not."""
        from agents.oga.partners import NAMES

        names = [name for name in self.policy.split(",") if name]
        for name in names:
            if name not in NAMES:
                raise CommandError(f"--policy {name}: unknown; known are {', '.join(NAMES)}")
        return names

    def environments(self, options: "EnvironmentOptions") -> "Iterator[tuple[int, Environment]]":
        """Environments of these options, one for each seed."""
        from agents.oga.bench import generated
        from agents.oga.environments import from_alibaba

        numbers = range(self.seed, self.seed + self.seeds)
        if self.alibaba is None:
            return generated(options, numbers)
        folder = self.alibaba
        return ((seed, from_alibaba(folder, replace(options, seed=seed))) for seed in numbers)


@dataclass(frozen=True)
class SweepSetting(OgaSetting):
    """As `run`'s, with fewer slots, since there are several values."""

    slots: Annotated[int, typer.Option("--slots", min=1, help="Time slots, T.")] = 2000


#: Options that may be swept, with the type of their values.
_SWEPT = {
    "types": int,
    "instances": int,
    "slots": int,
    "contention": float,
    "arrival": float,
    "density": float,
    "utility": str,
    "request": str,
    "jobs-per-type": int,
    "tasks": int,
    "gang": int,
    "floor": float,
    "eta0": float,
    "decay": float,
}


@oga.command("run")
@with_groups
def run(
    context: typer.Context,
    setting: OgaSetting,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write the environment here (.npz).")
    ] = None,
    load: Annotated[
        Path | None, typer.Option("--load", metavar="FILE", help="Load a saved environment (.npz).")
    ] = None,
) -> None:
    """Compare policies in one setting, by default the paper's.

    Example: stoker oga run --types 10 --instances 128
    """
    if load is not None:
        _refuse_beside_load(context)
    if save is not None and setting.seeds > 1:
        raise CommandError("--save: one environment, so one seed")
    with naming("", (OSError, ValueError)), progress_bar() as progress:
        from agents.oga.bench import compare
        from agents.oga.environments import load_environment, save_environment

        found = setting.environments(setting.environment())
        if load is not None:
            found = iter([(setting.seed, load_environment(load))])
        if save is not None:
            (kept,) = found
            save_environment(kept[1], save)
            found = iter([kept])
        summaries = compare(setting.names(), found, setting.learner(), setting.seeds, progress)
    if setting.plot is not None:
        _draw(summaries, setting.plot)
    if setting.output == "json":
        print_json([summary.to_json() for summary in summaries])
    else:
        _show(summaries)


@oga.command("sweep")
@with_groups
def sweep(
    over: Annotated[str, typer.Option("--over", help=f"The varied setting: {', '.join(_SWEPT)}.")],
    values: Annotated[str, typer.Option("--values", help="Its values, separated by commas.")],
    setting: SweepSetting,
) -> None:
    """Compare policies over the values of one setting.

    Example: stoker oga sweep --over contention --values 1,5,10
    """
    told: list[tuple[str, list[Summary]]] = []
    with naming("", (OSError, ValueError)), progress_bar() as progress:
        from agents.oga.bench import compare

        for value in values.split(","):
            there = replace(setting, **{over.replace("-", "_"): _value(over, value)})
            found = there.environments(there.environment())
            told.append((value, compare(there.names(), found, there.learner(), there.seeds, progress)))
    if setting.plot is not None:
        _draw_sweep(over, told, setting.plot)
    if setting.output == "json":
        print_json([{over: value, **summary.to_json()} for value, found in told for summary in found])
    else:
        _show_sweep(over, told)


@oga.command("reproduce")
def reproduce(
    out: ReportFolder = RESULTS,
    seeds: Seeds = 12,
    seed: FirstSeed = None,
    alibaba: Alibaba = None,
) -> None:
    """Make the counterparts of the paper's figures and tables; takes about forty minutes.

    Example: stoker oga reproduce
    """
    with naming("", (OSError, ValueError)), reproducing(out, "zhao2023", seeds, seed) as this:
        from agents.experiments.zhao2023.report import report

        this.written = report(out, this.seeds, this.runner, alibaba)


def _refuse_beside_load(context: typer.Context) -> None:
    """Raise CommandError for an option that the loaded file already defines."""
    from agents.oga.environments import EnvironmentOptions

    for name in (*(field.name for field in fields(EnvironmentOptions)), "seeds", "alibaba"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise CommandError(
                f"--load: goes without --{name.replace('_', '-')}; the file has its environment"
            )


def _value(over: str, text: str) -> Any:
    if over not in _SWEPT:
        raise CommandError(f"--over {over}: unknown; known are {', '.join(_SWEPT)}")
    try:
        return _SWEPT[over](text)
    except ValueError:
        raise CommandError(f"--values {text}: {over} is a number") from None


def _show(summaries: "Sequence[Summary]") -> None:
    from daemon.cli.shared import render

    best = max(summary.mean for summary in summaries)
    rows = [
        (
            summary.policy,
            _cell(summary),
            f"{summary.mean / best:.1%}" if best > 0 else "",
            f"{told['cumulative_reward']:.0f}",
            f"{told['jobs_started']:.0f}",
            f"{told['tasks_scheduled']:.1%}",
            f"{summary.seconds_per_slot * 1e6:.0f}",
        )
        for summary, told in ((summary, summary.to_json()) for summary in summaries)
    ]
    rewards = ("average reward", "of the best", "cumulative reward")
    columns = ("policy", *rewards, "jobs started", "tasks scheduled", "µs a slot")
    render.show(render.table(columns, rows, right=columns[1:]))
    first = summaries[0].runs[0]
    came = summaries[0].to_json()["jobs_came"]
    slots = f"{first.rewards.size} slots, {came:.0f} jobs"
    render.show(f"{first.environment}, {slots}; requests: {first.request}")


def _show_sweep(over: str, told: "Sequence[tuple[str, Sequence[Summary]]]") -> None:
    from daemon.cli.shared import render

    columns = (over, *(summary.policy for summary in told[0][1]))
    rows = [(value, *(_cell(summary) for summary in found)) for value, found in told]
    render.show(render.table(columns, rows, right=columns[1:]))


def _cell(summary: "Summary") -> str:
    return f"{summary.mean:.1f}" + (f" ± {summary.spread:.1f}" if len(summary.runs) > 1 else "")


def _draw(summaries: "Sequence[Summary]", path: Path) -> None:
    from agents.experiments.zhao2023.plots import draw_rewards

    with naming(f"--plot {path}: ", (OSError, ValueError)):
        draw_rewards(summaries, path)


def _draw_sweep(over: str, told: "Sequence[tuple[str, Sequence[Summary]]]", path: Path) -> None:
    from agents.experiments.zhao2023.plots import draw_sweep

    with naming(f"--plot {path}: ", (OSError, ValueError)):
        draw_sweep(over, told, path)
