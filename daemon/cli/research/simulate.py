"""The command `simulate`. Whole reports are in `reproduce`.

`simulation_tables` prints the runs, `sharing_options` the queues and users.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from conf.defaults import SPOT_ERROR
from daemon.cli.research.sharing_options import SharingOptions
from daemon.cli.shared.daemon_config import find_own_policies
from daemon.cli.shared.errors import naming
from daemon.cli.shared.options import BeliefOption, print_json, with_groups
from daemon.cli.shared.progress import progress_bar

if TYPE_CHECKING:
    from agents.experiments.comparison import SimulatedRun
    from environment.simulation.durations.beliefs import Belief
    from environment.simulation.options import SimulationOptions

COMPARED = "rr,rrc,ff,best_fit,least_allocated,most_allocated,random,ilp,aep,lookahead"


@with_groups
def simulate(
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", metavar="NAMES", help=("Policies to simulate; several by commas: rr,ff,ilp:beta=0.5")
        ),
    ] = None,
    workload: Annotated[
        str, typer.Option("--workload", help="A name (normal, burst, ...) or a .yaml, .csv or .parquet file.")
    ] = "burst",
    cluster: Annotated[
        str, typer.Option("--cluster", help="A name (paper, hundred, ...) or a .yaml file.")
    ] = "paper",
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=10_000, help="Number of seeds.")] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The first seed.")] = 0,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Another number of jobs.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw cost against completion (.png).")
    ] = None,
    plot_timeline: Annotated[
        Path | None,
        typer.Option(
            "--plot-timeline", metavar="FILE", help="Draw which jobs each VM held, and when (.png, .svg)."
        ),
    ] = None,
    durations: Annotated[
        Path | None,
        typer.Option("--durations", metavar="DIR", help="Durations from the model of `profile fit DIR`."),
    ] = None,
    profiles: Annotated[
        str | None,
        typer.Option(
            "--profiles",
            metavar="FILE",
            help="Curves and preferred placements of job types, as written by `profile export`.",
        ),
    ] = None,
    draw: Annotated[
        Literal["mean", "sample"],
        typer.Option("--draw", help="With --durations: the mean, or drawn by seed."),
    ] = "mean",
    belief: BeliefOption = "spread",
    spot_belief: Annotated[
        str,
        typer.Option(
            "--spot-belief",
            metavar="BELIEF",
            help=(
                "Beliefs of policies about spot VMs, their interruptions and repeated work: exact (the "
                "truth), or a number (with a log-normal error of that standard deviation)."
            ),
        ),
    ] = str(SPOT_ERROR),
    as_daemon: Annotated[
        bool,
        typer.Option(
            "--as-daemon",
            help="With --durations: expect the same of running jobs as a daemon, which has no such model.",
        ),
    ] = False,
    keep: Annotated[
        str,
        typer.Option(
            "--keep",
            metavar="HOW",
            help="Idle policy of pools: none, break_even, forecast, planned, timeout:SECONDS.",
        ),
    ] = "break_even",
    consolidate: Annotated[
        str,
        typer.Option(
            "--consolidate",
            metavar="HOW",
            help=(
                "Move running executors so that VMs of pools close: none; fitting, as a daemon does; "
                "underutilized or balanced, as Karpenter does; believed."
            ),
        ),
    ] = "none",
    sizes: Annotated[
        str | None,
        typer.Option(
            "--sizes",
            metavar="HOW",
            help="Allow jobs to be smaller than they request, down to a share of it: floor=0.5.",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        list[str] | None,
        typer.Option(
            "--runs",
            metavar="PLACE",
            help="Runs that are known from the start, for jobs that leave their sizes to Stoker: a .csv, a "
            "folder of `stoker profile`, a daemon's data folder, or event logs; can be repeated.",
        ),
    ] = None,
    dynamic: Annotated[
        int | None,
        typer.Option(
            "--dynamic",
            metavar="LEAST",
            min=1,
            help="Give all jobs dynamic allocation: from so many executors to their own number.",
            show_default=False,
        ),
    ] = None,
    executor_idle: Annotated[
        float | None,
        typer.Option(
            "--executor-idle",
            metavar="SECONDS",
            min=1.0,
            help="Seconds after which dynamic allocation releases an idle executor; Spark's 60 by default.",
            show_default=False,
        ),
    ] = None,
    bound: Annotated[
        bool,
        typer.Option(
            "--bound",
            help=("Show the distance of policies from the best schedule; for few jobs it is always shown."),
        ),
    ] = False,
    vary: Annotated[
        str | None,
        typer.Option(
            "--vary",
            metavar="WHAT",
            help="For a workload file, draw by seed: durations (by the spread of their type), "
            "arrivals (the gaps between jobs, with replacement), or both, separated by a comma.",
            show_default=False,
        ),
    ] = None,
    most_events: Annotated[
        int | None,
        typer.Option(
            "--most-events",
            min=1,
            help="Maximum events of a run; by default 200,000 plus 1,000 for each job.",
            show_default=False,
        ),
    ] = None,
    fallback: Annotated[
        str,
        typer.Option(
            "--fallback",
            metavar="NAME",
            help=(
                "The policy that decides where another fails, or delays a job for too long; none: no "
                "fallback."
            ),
        ),
    ] = "ff",
    *,
    shared: SharingOptions,
    rows: Annotated[
        Literal["runs", "jobs", "decisions", "executors"],
        typer.Option("--rows", help="With -o csv: a row for each of these."),
    ] = "runs",
    output: Annotated[
        Literal["table", "json", "csv"],
        typer.Option("--output", "-o", help="Format: a table, the API's JSON, or rows as CSV."),
    ] = "table",
) -> None:
    """Compare policies on a workload, in the simulator; no daemon is needed.

    Example: stoker simulate --workload burst --policy ff,greedy,lookahead --seeds 3
    """
    from daemon.cli.shapes.shape_runs import read_places
    from environment.decisions.sizing import Sizes
    from environment.pools import Consolidation
    from environment.simulation.durations.spot_beliefs import SpotBelief
    from profiles.job_profile import load_profiles
    from profiles.workloads.varied import read_varied

    names = ",".join(policy) if policy else COMPARED
    numbers = range(seed, seed + seeds)
    options = options_of(belief, durations, draw, keep=keep, as_daemon=as_daemon)
    options = replace(options, most_events=most_events, dynamic=dynamic)
    if executor_idle is not None:
        options = replace(options, executor_idle=executor_idle)
    with naming("--"):
        options = replace(options, consolidation=Consolidation.read(consolidate))
    with naming("--spot-belief: "):
        options = replace(options, spot_belief=SpotBelief.read(spot_belief))
    if sizes is not None:
        with naming("--sizes: "):
            options = replace(options, sizes=Sizes.read(sizes))
    if runs:
        options = replace(options, runs=tuple(read_places(runs)))
    if vary is not None:
        with naming("--vary: "):
            options = replace(options, vary=read_varied(vary))
    if profiles is not None:
        options = replace(options, profiles=load_profiles(profiles))
    compare_policies(
        names.split(","),
        [workload],
        cluster,
        numbers,
        plot,
        output,
        options,
        jobs=jobs,
        bound=bound,
        shared=shared,
        fallback=fallback,
        plot_timeline=plot_timeline,
        rows=rows,
    )


def options_of(
    belief: str,
    durations: Path | None = None,
    draw: Literal["mean", "sample"] = "mean",
    *,
    keep: str = "break_even",
    as_daemon: bool = False,
) -> "SimulationOptions":
    """Build the simulation's truth and beliefs from a command's options."""
    from environment.pools import IdleTimeout
    from environment.simulation.durations.fitted_model import FittedDurations, read_model
    from environment.simulation.options import SimulationOptions

    fitted = None if durations is None else FittedDurations(read_model(durations), draw)
    with naming("--"):
        keeping = IdleTimeout.read(keep)
    return SimulationOptions(fitted=fitted, belief=belief_of(belief), as_daemon=as_daemon, keeping=keeping)


def belief_of(text: str) -> "Belief":
    """Parse --belief."""
    from environment.simulation.durations.beliefs import Belief

    with naming("--"):
        return Belief.read(text)


def compare_policies(
    policies: Sequence[str],
    workloads: Sequence[str],
    cluster: str,
    seeds: Sequence[int],
    plot: Path | None,
    output: str,
    options: "SimulationOptions",
    jobs: int | None = None,
    *,
    bound: bool = False,
    shared: SharingOptions | None = None,
    fallback: str = "ff",
    plot_timeline: Path | None = None,
    rows: str = "runs",
) -> "list[SimulatedRun]":
    """Run all policies over all workloads and seeds, and print a table for each workload.

    With `bound`, or for few jobs, it also prints each policy's distance from the limit; where `shared` asks
    for it, the shares of queues or users. The `fallback` decides where a policy fails; `none` does not.
    """
    shared = shared or SharingOptions()
    sharing = shared.read()
    options = replace(
        options,
        sharing=sharing,
        per_hour=shared.per_hour(),
        per_day=shared.per_period("day"),
        per_month=shared.per_period("month"),
        commitments=shared.commitments(),
    )
    from agents.experiments.comparison import compare, contender
    from daemon.cli.research import sharing_options as sharing_tables
    from daemon.cli.research.optimality_gap import distances, limits_of, told
    from daemon.cli.research.simulation_tables import (
        cautions,
        draw,
        judge,
        plain,
        print_rows,
        show,
        timeline,
    )

    find_own_policies()
    contenders = [contender(name) for name in policies if name]
    second = None if fallback == "none" else contender(fallback)
    with progress_bar() as progress:
        every = compare(
            contenders,
            workloads,
            cluster,
            seeds,
            jobs=jobs,
            options=options,
            fallback=second,
            progress=progress,
        )
        runs = list(every)
        limits = {
            name: limits_of(name, cluster, seeds, jobs, options, progress, wanted=bound)
            for name in (workloads if bound or len(contenders) > 1 else ())
        }
    of_workload = {name: [run for run in runs if run.workload == name] for name in workloads}
    if plot is not None:
        drawn = "1 seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
        for name, found in of_workload.items():
            # Several workloads are drawn into as many files: cost-normal.png, cost-burst.png.
            suffix = "" if len(workloads) == 1 else f"-{Path(name).stem}"
            path = plot.with_name(f"{plot.stem}{suffix}{plot.suffix}")
            draw(found, f"{name} on {cluster}, {drawn}", path)
    if plot_timeline is not None:
        timeline(runs, plot_timeline)
    by = shared.shown_by(runs)
    if by is not None and shared.plot_shares is not None:
        sharing_tables.draw(runs, by, sharing, shared.plot_shares)
    profiled = {*options.profiles, *(options.fitted.model.types if options.fitted else ())}
    notes = {name: list(cautions(found, profiled)) for name, found in of_workload.items()}
    if output != "table":
        for line in dict.fromkeys(line for lines in notes.values() for line in lines):
            print(f"stoker: {line}", file=sys.stderr)
    if output == "csv":
        print_rows(runs, rows)
    elif output == "json":
        print_json(
            [
                plain(run)
                | (sharing_tables.plain(run, by, sharing) if by else {})
                | told(limits.get(run.workload, ({}, ""))[0], run)
                for run in runs
            ]
        )
    for name, found in of_workload.items() if output == "table" else ():
        if len(workloads) > 1:
            print(f"\n{name}")
        show(found, fallback, notes[name])
        for line in distances(found, *limits.get(name, ({}, ""))):
            print(line)
        if by is not None:
            sharing_tables.show(found, by, sharing)
    if code := judge(runs, fallback):  # the tables are no comparison
        raise typer.Exit(code)
    return runs
