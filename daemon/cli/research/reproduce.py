"""`stoker reproduce`: whole comparisons run again, each of which writes its report. They need no daemon."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.cli.research.simulate import belief_of, errors
from daemon.cli.shared.errors import CommandError, writing
from daemon.cli.shared.options import RESULTS, BeliefOption, ReportFolder
from daemon.cli.shared.progress import progress_bar

if TYPE_CHECKING:
    from agents.experiments.runner import Runner

reproduce = typer.Typer(
    help="Run a whole comparison again, and write its report.", rich_markup_mode=None, no_args_is_help=True
)

Seeds = Annotated[int, typer.Option("--seeds", min=2, help="How many seeds.")]
FirstSeed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        max=2**32 - 1,
        help="The first seed; by default that of the report's block in agents/experiments/seeds.yaml. Seeds "
        "that something was chosen on are refused.",
        show_default=False,
    ),
]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Another number of jobs.")]


@contextlib.contextmanager
def running(out: Path) -> Iterator["Runner"]:
    """Yield the runner of a report that goes to `out`; errors in input and output become a CommandError."""
    with errors(), writing(out), progress_bar() as progress:
        from agents.experiments.runner import Runner

        out.mkdir(parents=True, exist_ok=True)
        with Runner(out, progress) as runner:
            yield runner


@reproduce.command("results")
def results(
    out: ReportFolder = RESULTS,
    only: Annotated[
        str, typer.Option("--only", metavar="NAMES", help="Of these reports alone, by commas.")
    ] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="Few jobs and seeds, to see in minutes that everything runs.")
    ] = False,
) -> None:
    """Make all reports that need no real Spark, one after the other; takes hours.

    When it was stopped, the same command continues.

    Example: stoker reproduce results --quick
    """
    with errors(), writing(out), progress_bar() as progress:
        from agents.experiments.results import REPORTS, make_results

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
    with running(out) as runner:
        from agents.experiments.reports import report_baselines
        from agents.experiments.revision import sign
        from agents.experiments.seed_register import seeds_of

        written = report_baselines(out, seeds_of("baselines", seeds, seed), runner, belief_of(belief))
        sign(written)
    print(written)


@reproduce.command("belief")
def belief(out: ReportFolder = RESULTS, seeds: Seeds = 20, seed: FirstSeed = None, jobs: Jobs = None) -> None:
    """Compare the policies that expect durations under every belief.

    The comparison shows the value of known durations.

    Example: stoker reproduce belief --seeds 2
    """
    with running(out) as runner:
        from agents.experiments.belief_report import report
        from agents.experiments.revision import sign
        from agents.experiments.seed_register import seeds_of

        written = report(out, seeds_of("belief", seeds, seed), runner, jobs)
        sign(written)
    print(written)


@reproduce.command("islam2022")
def islam2022(
    out: ReportFolder = RESULTS,
    seeds: Seeds = 20,
    scaled_seeds: Annotated[
        int, typer.Option("--scaled-seeds", min=2, help="How many on the larger clusters.")
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

    These are the shipped policies; the paper's own claims stand beside the results. Its set-up is also run
    with exact knowledge of durations, as in the paper.

    Example: stoker reproduce islam2022 --seeds 2
    """
    with running(out) as runner:
        from agents.experiments.islam2022.report import report
        from agents.experiments.revision import sign
        from agents.experiments.seed_register import seeds_of

        scaled = seeds_of("islam2022", scaled_seeds, seed)
        own = seeds_of("islam2022", seeds, seed)
        written = report(out, own, scaled, runner, curves or (), jobs, belief_of(belief))
        sign(written)
    print(written)


@reproduce.command("elastic")
def elastic(
    out: ReportFolder = RESULTS, seeds: Seeds = 12, seed: FirstSeed = None, jobs: Jobs = None
) -> None:
    """Compare the cost of policies and idle policies where VMs come and go.

    Autoscalers that know no jobs stand beside them.

    Example: stoker reproduce elastic --seeds 2
    """
    with running(out) as runner:
        from agents.experiments.elastic.report import report
        from agents.experiments.revision import sign
        from agents.experiments.seed_register import seeds_of

        written = report(out, seeds_of("elastic", seeds, seed), runner, jobs)
        sign(written)
    print(written)


@reproduce.command("decisions")
def decisions(
    out: ReportFolder = RESULTS,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds.")] = 12,
    seed: FirstSeed = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few jobs and no large clusters, to see that it runs.")
    ] = False,
) -> None:
    """Judge policies on workloads and clusters that nobody tuned them on, beside the limit of each.

    Example: stoker reproduce decisions --seeds 2
    """
    with running(out) as runner:
        from agents.experiments.decisions.report import QUICK, Extent, report
        from agents.experiments.revision import sign
        from agents.experiments.seed_register import seeds_of

        written = report(out, seeds_of("decisions", seeds, seed), QUICK if quick else Extent(), runner)
        sign(written)
    print(written)


@reproduce.command("sharing")
def sharing(
    out: ReportFolder = RESULTS, seeds: Seeds = 12, seed: FirstSeed = None, jobs: Jobs = None
) -> None:
    """Compare orders of jobs with policies: shares, slowdown, deadlines, cost.

    The cost is that of fairness.

    Example: stoker reproduce sharing --seeds 2
    """
    with running(out) as runner:
        from agents.experiments.revision import sign
        from agents.experiments.seed_register import seeds_of
        from agents.experiments.sharing.report import report

        written = report(out, seeds_of("sharing", seeds, seed), runner, jobs)
        sign(written)
    print(written)


@reproduce.command("estimates")
def estimates(
    out: ReportFolder = RESULTS,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds.")] = 4,
    seed: FirstSeed = None,
    jobs: Jobs = None,
    every: Annotated[int, typer.Option("--every", min=1, help="One of so many jobs is estimated.")] = 15,
) -> None:
    """See how many jobs start, end and cost as was estimated when they were submitted.

    Example: stoker reproduce estimates --seeds 3
    """
    with running(out) as runner:
        from agents.experiments.estimates.report import report
        from agents.experiments.revision import sign
        from agents.experiments.seed_register import seeds_of

        written = report(out, seeds_of("estimates", seeds, seed), runner, jobs, every)
        sign(written)
    print(written)
