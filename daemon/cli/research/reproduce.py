"""`stoker reproduce`: whole comparisons run again, each of which writes its report. They need no daemon."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.cli.research.simulate import belief_of
from daemon.cli.shared.errors import CommandError, writing
from daemon.cli.shared.options import RESULTS, BeliefOption, ReportFolder
from daemon.cli.shared.progress import progress_bar

if TYPE_CHECKING:
    from agents.experiments.runner import Runner
    from agents.experiments.seed_register import SeedRange

reproduce = typer.Typer(
    help="Run a whole comparison again, and write its report.", rich_markup_mode=None, no_args_is_help=True
)

Seeds = Annotated[int, typer.Option("--seeds", min=2, help="Number of seeds.")]
FirstSeed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        max=2**32 - 1,
        help=(
            "The first seed; by default that of the report's block in agents/experiments/seeds.yaml. Seeds "
            "that were used to choose something are refused."
        ),
        show_default=False,
    ),
]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Another number of jobs.")]


@dataclass
class Reproduction:
    """A report that is made: its runs and seeds, and its file once it is written."""

    runner: "Runner"
    seeds: "SeedRange"
    written: Path = Path()


@contextlib.contextmanager
def reproducing(out: Path, name: str, seeds: int, first: int | None) -> Iterator[Reproduction]:
    """Yield the report to be written into `out`; then sign it, and print its path."""
    with writing(out), progress_bar() as progress:
        from agents.experiments.revision import sign
        from agents.experiments.runner import Runner
        from agents.experiments.seed_register import seeds_of

        out.mkdir(parents=True, exist_ok=True)
        with Runner(out, progress) as runner:
            report = Reproduction(runner, seeds_of(name, seeds, first))
            yield report
            sign(report.written)
    print(report.written)


@reproduce.command("results")
def results(
    out: ReportFolder = RESULTS,
    only: Annotated[
        str, typer.Option("--only", metavar="NAMES", help="Only these reports, separated by commas.")
    ] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="Few jobs and seeds, to check in minutes that everything runs.")
    ] = False,
) -> None:
    """Make all reports that do not need a running Spark, one after the other; takes hours.

    After an interruption, the same command continues.

    Example: stoker reproduce results --quick
    """
    with writing(out), progress_bar() as progress:
        from agents.experiments.results.all_reports import REPORTS, make_results

        names = tuple(name for name in only.split(",") if name)
        known = [report.name for report in REPORTS]
        for name in names:
            if name not in known:
                raise CommandError(f"--only {name}: unknown; known are {', '.join(known)}")
        paths = make_results(out, quick=quick, only=names, progress=progress)
    print("\n".join(map(str, paths)))


@reproduce.command("baselines")
def baselines(
    out: ReportFolder = RESULTS, seeds: Seeds = 20, seed: FirstSeed = None, belief: BeliefOption = "spread"
) -> None:
    """Compare all baselines and Stoker's policies at the paper's two densities.

    Writes tables, plots and notable findings.

    Example: stoker reproduce baselines --seeds 2
    """
    with reproducing(out, "baselines", seeds, seed) as this:
        from agents.experiments.reports import report_baselines

        this.written = report_baselines(out, this.seeds, this.runner, belief_of(belief))


@reproduce.command("belief")
def belief(out: ReportFolder = RESULTS, seeds: Seeds = 20, seed: FirstSeed = None, jobs: Jobs = None) -> None:
    """Compare the policies that expect durations under every belief.

    The comparison shows the value of known durations.

    Example: stoker reproduce belief --seeds 2
    """
    with reproducing(out, "belief", seeds, seed) as this:
        from agents.experiments.belief_report import report

        this.written = report(out, this.seeds, this.runner, jobs)


@reproduce.command("islam2022")
def islam2022(
    out: ReportFolder = RESULTS,
    seeds: Seeds = 20,
    scaled_seeds: Annotated[
        int, typer.Option("--scaled-seeds", min=2, help="Number of seeds on the larger clusters.")
    ] = 12,
    seed: FirstSeed = None,
    curves: Annotated[
        list[Path] | None,
        typer.Option("--curves", metavar="DIR", help="A training run of the paper's set-up; repeatable."),
    ] = None,
    jobs: Jobs = None,
    belief: BeliefOption = "spread",
) -> None:
    """Compare the trained policies with the baselines and with Islam 2022.

    It uses the shipped policies and shows the paper's claims beside the results. Its set-up is also run
    with exact knowledge of durations, as in the paper.

    Example: stoker reproduce islam2022 --seeds 2
    """
    with reproducing(out, "islam2022", seeds, seed) as this:
        from agents.experiments.islam2022.report import report
        from agents.experiments.seed_register import seeds_of

        scaled = seeds_of("islam2022", scaled_seeds, seed)
        this.written = report(out, this.seeds, scaled, this.runner, curves or (), jobs, belief_of(belief))


@reproduce.command("elastic")
def elastic(
    out: ReportFolder = RESULTS, seeds: Seeds = 12, seed: FirstSeed = None, jobs: Jobs = None
) -> None:
    """Compare the cost of policies and idle policies on VMs that open and close.

    Autoscalers that do not know the jobs are compared as well.

    Example: stoker reproduce elastic --seeds 2
    """
    with reproducing(out, "elastic", seeds, seed) as this:
        from agents.experiments.elastic.report import report

        this.written = report(out, this.seeds, this.runner, jobs)


@reproduce.command("moves")
def moves(out: ReportFolder = RESULTS, seeds: Seeds = 12, seed: FirstSeed = None, jobs: Jobs = None) -> None:
    """Compare bills with executors that stay and with executors that are moved so that VMs close.

    Example: stoker reproduce moves --seeds 2
    """
    with reproducing(out, "moves", seeds, seed) as this:
        from agents.experiments.elastic.report import report_moves

        this.written = report_moves(out, this.seeds, this.runner, jobs)


@reproduce.command("decisions")
def decisions(
    out: ReportFolder = RESULTS,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds.")] = 12,
    seed: FirstSeed = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few jobs and no large clusters, to check that it runs.")
    ] = False,
) -> None:
    """Judge policies on workloads and clusters not used for tuning, beside the lower bound of each.

    Example: stoker reproduce decisions --seeds 2
    """
    with reproducing(out, "decisions", seeds, seed) as this:
        from agents.experiments.decisions.report import QUICK, Extent, report

        this.written = report(out, this.seeds, QUICK if quick else Extent(), this.runner)


@reproduce.command("sharing")
def sharing(
    out: ReportFolder = RESULTS, seeds: Seeds = 12, seed: FirstSeed = None, jobs: Jobs = None
) -> None:
    """Compare orders of jobs with policies: shares, slowdown, deadlines, cost.

    The difference in cost is the price of fairness.

    Example: stoker reproduce sharing --seeds 2
    """
    with reproducing(out, "sharing", seeds, seed) as this:
        from agents.experiments.sharing.report import report

        this.written = report(out, this.seeds, this.runner, jobs)


@reproduce.command("estimates")
def estimates(
    out: ReportFolder = RESULTS,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds.")] = 4,
    seed: FirstSeed = None,
    jobs: Jobs = None,
    every: Annotated[int, typer.Option("--every", min=1, help="Estimate one of N jobs.")] = 15,
) -> None:
    """Compare the true starts, ends and costs of jobs with the estimates at submission.

    Example: stoker reproduce estimates --seeds 3
    """
    with reproducing(out, "estimates", seeds, seed) as this:
        from agents.experiments.estimates.report import report

        this.written = report(out, this.seeds, this.runner, jobs, every)
