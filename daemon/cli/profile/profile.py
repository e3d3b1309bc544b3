"""The commands `profile run`, `show`, ...: measure jobs and show the results.

`measure.py` measures the jobs; `profiles.runs` stores the runs.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from stoker.characters import visible

from daemon.cli.shared.errors import CommandError, end_in_order, naming, writing, writing_whole
from daemon.cli.shared.options import RESULTS, Ca, Output, TokenFile, connect, print_json
from daemon.cli.shared.progress import progress_bar

if TYPE_CHECKING:
    from stoker import Stoker

    from conf.schema.measuring_plan import MeasuringPlan
    from daemon.cli.profile.measure import Bench

profile = typer.Typer(
    help="Measure Spark jobs and model their durations.", rich_markup_mode=None, no_args_is_help=True
)

#: Number of runs without an event log that are named, the others are counted. Chosen: a line or two.
_NAMED = 5

_HELP = "Folder for the runs; else stoker-profiles/PLAN."
NewRuns = Annotated[Path | None, typer.Argument(metavar="DIR", help=_HELP)]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `profile run` wrote.")]


@profile.command("run")
def run(
    plan: Annotated[str, typer.Option("--plan", metavar="FILE", help="Runs to measure.")] = (
        "profiles/plan.yaml"
    ),
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help=_HELP),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", help="Measure with the daemon there, with --data-dir.")
    ] = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="The data folder of the daemon at --url.")
    ] = None,
) -> int:
    """Measure the jobs of a plan, one run after the other; started again, it continues.

    It starts its own daemon and embedded Mesos, with isolated VMs where this machine supports them.

    Example: stoker profile run --plan profiles/sizes.yaml
    """
    end_in_order()
    if (url is None) != (data_dir is None):
        raise CommandError("--url and --data-dir go together")
    from conf.loader import find
    from daemon.cli.profile import measure

    path = find(plan)
    folder = place_of_runs(out, path).absolute()
    read, cluster, runs = measure.planned(path)
    todo = measure.left_to_do(folder, read, runs)
    if todo:
        with contextlib.ExitStack() as stack:
            stack.enter_context(measure.hold(folder))
            client = None if url is None else connect(url, token_file, ca)
            progress = stack.enter_context(progress_bar())  # which lasts as long as the bench
            bench = stack.enter_context(_bench(folder, str(cluster), read, client, data_dir))
            print(f"To do: {len(todo)} of {len(runs)}, isolation of VMs: {bench.isolation}")
            measure.measure(bench, read, todo, folder, progress)
    print(f"Runs: {len(runs)}, in {folder}; see `stoker profile show {folder}`")
    return 0


@contextlib.contextmanager
def _bench(
    folder: Path,
    cluster: str,
    plan: "MeasuringPlan",
    connecting: "contextlib.AbstractContextManager[Stoker] | None",
    data_dir: Path | None,
) -> "Iterator[Bench]":
    from daemon.cli.profile import measure

    if connecting is not None and data_dir is not None:
        with connecting as client, measure.running_bench(client, data_dir) as bench:
            yield bench
    else:
        with measure.own_bench(folder, cluster, measure.mesos_of(plan)) as bench:
            yield bench


@profile.command("show")
def show(folder: Folder, output: Output = "table") -> None:
    """Show the runs of a folder; those far from others of their kind are marked.

    Example: stoker profile show stoker-profiles/plan
    """
    from profiles.runs import outliers, read_about, read_runs

    runs, about = read_runs(folder), read_about(folder)
    marked = outliers(runs)
    if output == "json":
        from daemon.cli.profile.measure import json_of

        listed = [json_of(run) | {"outlier": (run.name, run.copy) in marked} for run in runs]
        print_json({"about": about, "runs": listed})
        return
    from daemon.cli.profile.profile_tables import show_runs

    show_runs(runs, marked, about)


@profile.command("fit")
def fit(folder: Folder, output: Output = "table") -> None:
    """Fit a model of durations to the runs of a folder, for `profile validate` and `simulate --durations`.

    Example: stoker profile fit stoker-profiles/plan
    """
    from environment.simulation.durations.fitted_model import write_model
    from environment.simulation.durations.fitting import fit as fitted
    from profiles.runs import read_runs

    model, left_out = fitted(read_runs(folder))
    path = write_model(folder, model)
    if output == "json":
        print_json({**model.model_dump(mode="json"), "left_out": dict(left_out)})
        return
    from daemon.cli.profile.profile_tables import show_model

    show_model(model, left_out, path)


@profile.command("plot")
def plot(
    folder: Folder,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The picture.")] = Path("runs.png"),
) -> None:
    """Draw the durations of all runs by their placement; outliers are crossed out, not left out.

    Example: stoker profile plot runs
    """
    from agents.experiments.fidelity import draw_runs
    from profiles.runs import read_runs

    runs = read_runs(folder)
    with naming(f"--out {out}: ", (OSError, ValueError)):
        draw_runs(runs, out)
    print(f"drawn: {out}")


@profile.command("curve")
def curve(folder: Folder, output: Output = "table") -> None:
    """Show the effect of size on a folder's jobs, and the error of their curves.

    The error is measured on sizes that were held out.

    Example: stoker profile curve stoker-profiles/sizes
    """
    from profiles.curve_check import measured_curves
    from profiles.runs import read_runs

    curves = measured_curves(read_runs(folder))
    if output == "json":
        from dataclasses import asdict

        print_json({name: asdict(found) | {"law": found.law} for name, found in curves.items()})
        return
    from daemon.cli.profile.curve_tables import show_curves

    show_curves(curves)


@profile.command("export")
def export(
    folder: Folder,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write here, not to the terminal.")
    ] = None,
    output: Output = "table",
) -> None:
    """Write job profiles from the runs of a folder, in YAML, for the daemon's config or a workload.

    Example: stoker profile export runs
    """
    from profiles.runs import read_about, read_runs
    from profiles.summary import profiles_of, profiles_text

    found = profiles_of(read_runs(folder))
    machine = read_about(folder).get("machine", {})
    source = f"{folder.resolve().name}, on {machine.get('cores')} x {machine.get('cpu')}"
    if output == "json":
        print_json({name: made.model_dump() for name, made in found.items()})
        return
    text = profiles_text(found, source)
    if out is None:
        print(text, end="")
        return
    with writing_whole(out) as draft:
        draft.write_text(text, encoding="utf-8")
    print(f"profiles of {', '.join(found)} written to {out}")


@profile.command("validate")
def validate(
    folder: Folder,
    workload: Annotated[str, typer.Option("--workload", help="A workload file, or a name.")],
    policy: Annotated[
        str, typer.Option("--policy", metavar="NAME", help="The policy: ff, rr, ilp:beta=0.5, ...")
    ] = "ff",
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The report; its picture is written beside it.")
    ] = RESULTS / "fidelity.md",
    output: Output = "table",
) -> int:
    """Run a workload with real Spark, simulate it with the model of DIR, and report the difference.

    The cluster is that of the plan of DIR; the jobs are apps of profiles/apps, by type.

    Example: stoker profile validate stoker-profiles/plan --workload burst --policy aep
    """
    end_in_order()
    from agents.experiments.fidelity import report
    from agents.experiments.revision import sign
    from daemon.cli.profile.validate_simulator import compared

    with progress_bar() as progress:
        fidelity = compared(folder, workload, policy, progress)
    command = f"stoker profile validate {folder} --workload {workload} --policy {policy}"
    with writing(out):
        report(fidelity, out, command)
        sign(out)
    if output == "json":
        print_json(fidelity.to_json())
        return 0
    from daemon.cli.profile.profile_tables import show_errors

    show_errors(fidelity)
    print(f"The report is in {out}.")
    return 0


@profile.command("compare")
def compare(
    folder: Folder,
    workload: Annotated[str, typer.Option("--workload", help="A workload file, or a name.")],
    policy: Annotated[
        str,
        typer.Option("--policy", metavar="NAMES", help="Policies to compare; the first is the reference."),
    ] = "aep,greedy,lookahead,reinforce",
    runs: Annotated[
        int, typer.Option("--runs", min=1, max=100, help="Number of runs under each policy.")
    ] = 3,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Other VMs than the plan's: a name or a .yaml file.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The report; its picture is written beside it.")
    ] = RESULTS / "real.md",
    output: Output = "table",
) -> int:
    """Run a workload with real Spark under several policies in turn, and simulate it with the model of DIR.

    The jobs are apps of profiles/apps, by type. Started again, it continues.

    Example: stoker profile compare stoker-profiles/sizes --workload profiles/real.csv --policy aep,greedy
    """
    end_in_order()
    policies = list(dict.fromkeys(policy.split(",")))
    from agents.experiments.real_runs import report
    from agents.experiments.revision import sign
    from daemon.cli.profile.compare_on_spark import compared

    with progress_bar() as progress:
        comparison = compared(folder, workload, policies, runs, cluster, progress)
    words = ["stoker profile compare", str(folder), "--workload", workload, "--policy", policy]
    words += ["--runs", str(runs), *([] if cluster is None else ["--cluster", cluster])]
    with writing(out):
        report(comparison, out, " ".join(words))
        sign(out)
    from daemon.cli.profile.profile_tables import judge, show_comparison

    if output == "json":
        print_json(comparison.to_json())
    else:
        show_comparison(comparison)
        print(f"The report is in {out}.")
    return judge(comparison)


@profile.command("ingest")
def ingest(
    data_dir: Annotated[Path, typer.Argument(metavar="DATA_DIR", help="The data folder of a daemon.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the runs.")],
    cluster: Annotated[
        str, typer.Option("--cluster", help="The cluster on which the jobs ran: a name or a .yaml file.")
    ] = "paper",
    database: Annotated[
        str | None, typer.Option("--database", metavar="URL", help="The job store, when not in DATA_DIR.")
    ] = None,
) -> None:
    """Convert a daemon's records into measured runs, a workload and trajectories.

    DIR then holds runs.parquet, workload.csv and trajectories.parquet (decisions with their outcome). The
    daemon may run meanwhile.

    Example: stoker profile ingest stoker-data --out runs
    """
    from daemon.cli.profile.recorded_data import ingested

    found = ingested(data_dir, out, cluster, database)
    runs, jobs = len(found.runs), len(found.workload)
    print(f"Runs: {runs}, jobs: {jobs}, decisions: {found.decisions}, in {out}")
    for jobs_of, what in (
        (found.unread, "without stages, as no event log was read"),
        (found.partly, "with the stages of one Spark application, without those of the others"),
    ):
        if jobs_of:
            named = "; ".join(f"{job}: {visible(why)}" for job, why in list(jobs_of.items())[:_NAMED])
            more = f"; and {len(jobs_of) - _NAMED} more" if len(jobs_of) > _NAMED else ""
            print(f"{len(jobs_of)} of {runs}: {what}: {named}{more}")


def place_of_runs(folder: Path | None, plan: Path) -> Path:
    """The folder for the runs of a plan: that one if given, or one by the plan's name."""
    return folder or Path("stoker-profiles") / plan.stem
