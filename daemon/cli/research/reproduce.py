"""`stoker reproduce`: whole comparisons run again, each of which writes its report. They need no daemon."""

from pathlib import Path
from typing import Annotated

import typer

from daemon.cli.research.simulate import belief_of, errors
from daemon.cli.shared.errors import writing
from daemon.cli.shared.options import RESULTS, BeliefOption, ReportFolder
from daemon.cli.shared.progress import progress_bar

reproduce = typer.Typer(
    help="Run a whole comparison again, and write its report.", rich_markup_mode=None, no_args_is_help=True
)


@reproduce.command("baselines")
def baselines(
    out: ReportFolder = RESULTS,
    seeds: Annotated[int, typer.Option("--seeds", min=2, help="How many seeds.")] = 20,
    belief: BeliefOption = "spread",
) -> None:
    """Compare all baselines at the paper's two densities.

    Writes tables, plots and notable findings.

    Example: stoker reproduce baselines --seeds 2
    """
    with errors(), writing(out), progress_bar() as progress:
        from agents.experiments.reports import report_baselines
        from agents.experiments.revision import sign

        report = report_baselines(out, seeds, belief_of(belief), progress)
        sign(report)
    print(report)


@reproduce.command("belief")
def belief(
    out: ReportFolder = RESULTS,
    seeds: Annotated[int, typer.Option("--seeds", min=2, help="How many seeds.")] = 20,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Another number of jobs.")] = None,
) -> None:
    """Compare the policies that expect durations under every belief.

    The comparison shows the value of known durations.

    Example: stoker reproduce belief --seeds 2
    """
    with errors(), writing(out), progress_bar() as progress:
        from agents.experiments.belief_report import report
        from agents.experiments.revision import sign

        written = report(out, seeds, jobs, progress)
        sign(written)
    print(written)


@reproduce.command("islam2022")
def islam2022(
    out: ReportFolder = RESULTS,
    seeds: Annotated[int, typer.Option("--seeds", min=2, help="How many seeds.")] = 20,
    scaled_seeds: Annotated[
        int, typer.Option("--scaled-seeds", min=2, help="How many on the larger clusters.")
    ] = 5,
    curves: Annotated[
        list[Path] | None,
        typer.Option("--curves", metavar="DIR", help="A training run of the paper's set-up; repeatable."),
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Another number of jobs.")] = None,
    belief: BeliefOption = "spread",
) -> None:
    """Compare the trained policies with the baselines and with Islam 2022.

    These are the shipped policies; the paper's own claims stand beside the results. Its set-up is also run
    with exact knowledge of durations, as in the paper.

    Example: stoker reproduce islam2022 --seeds 2
    """
    with errors(), writing(out), progress_bar() as progress:
        from agents.experiments.islam2022.report import report
        from agents.experiments.revision import sign

        written = report(out, seeds, scaled_seeds, curves or (), jobs, belief_of(belief), progress)
        sign(written)
    print(written)


@reproduce.command("elastic")
def elastic(
    out: ReportFolder = RESULTS,
    seeds: Annotated[int, typer.Option("--seeds", min=2, help="How many seeds.")] = 3,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Another number of jobs.")] = None,
) -> None:
    """Compare the cost of policies and idle policies where VMs come and go.

    Autoscalers that know no jobs stand beside them.

    Example: stoker reproduce elastic --seeds 2
    """
    with errors(), writing(out), progress_bar() as progress:
        from agents.experiments.elastic.report import report
        from agents.experiments.revision import sign

        written = report(out, seeds, jobs, progress)
        sign(written)
    print(written)


@reproduce.command("decisions")
def decisions(
    out: ReportFolder = RESULTS,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds.")] = 3,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few jobs, one seed and no large clusters, to see that it runs.")
    ] = False,
) -> None:
    """Judge policies on workloads and clusters that nobody tuned them on, beside the limit of each.

    Example: stoker reproduce decisions --seeds 2
    """
    with errors(), writing(out), progress_bar() as progress:
        from agents.experiments.decisions.report import QUICK, Extent, report
        from agents.experiments.revision import sign

        written = report(out, QUICK if quick else Extent(seeds=seeds), progress)
        sign(written)
    print(written)


@reproduce.command("sharing")
def sharing(
    out: ReportFolder = RESULTS,
    seeds: Annotated[int, typer.Option("--seeds", min=2, help="How many seeds.")] = 3,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Another number of jobs.")] = None,
) -> None:
    """Compare orders of jobs with policies: shares, slowdown, deadlines, cost.

    The cost is that of fairness. An interrupted run continues when it is started again.

    Example: stoker reproduce sharing --seeds 2
    """
    with errors(), writing(out), progress_bar() as progress:
        from agents.experiments.revision import sign
        from agents.experiments.sharing.report import report

        written = report(out, seeds, jobs, progress)
        sign(written)
    print(written)


@reproduce.command("estimates")
def estimates(
    out: ReportFolder = RESULTS,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds.")] = 3,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Another number of jobs.")] = None,
    every: Annotated[int, typer.Option("--every", min=1, help="One of so many jobs is estimated.")] = 15,
) -> None:
    """See how many jobs start, end and cost as was estimated when they were submitted.

    Example: stoker reproduce estimates --seeds 3
    """
    with errors(), writing(out), progress_bar() as progress:
        from agents.experiments.estimates.report import report
        from agents.experiments.revision import sign

        written = report(out, seeds, jobs, every, progress)
        sign(written)
    print(written)
