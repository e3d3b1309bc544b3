"""`stoker reproduce shapes`, `spot` and `leaderboard`: reports on data, or policies, that the user has."""

from pathlib import Path
from typing import Annotated

import typer

from daemon.cli.research.reproduce import FirstSeed, Jobs, Seeds, reproducing
from daemon.cli.shared.daemon_config import find_own_policies
from daemon.cli.shared.errors import writing
from daemon.cli.shared.mostly_failed import exit_code
from daemon.cli.shared.options import RESULTS, ReportFolder


def shapes(
    data: Annotated[
        Path,
        typer.Option("--data", metavar="DIR", help="Folder with the tables listed in docs/shapes.md."),
    ],
    out: ReportFolder = RESULTS,
) -> None:
    """Choose shapes from two runs, on tables of real Spark runs, beside rules without a model.

    Example: stoker reproduce shapes --data tables
    """
    from agents.experiments.revision import sign
    from agents.experiments.shapes.report import report

    with writing(out):
        written = report(out, data)
        sign(written)
    print(written)


def spot(
    data: Annotated[
        Path,
        typer.Option(
            "--data", metavar="DIR", help="Folder with records of spot VMs, as docs/elastic.md says."
        ),
    ],
    out: ReportFolder = RESULTS,
    seeds: Seeds = 20,
    seed: FirstSeed = None,
    jobs: Jobs = None,
) -> None:
    """Compare spot VMs that come and go as recorded with VMs on demand.

    Example: stoker reproduce spot --data records --seeds 2
    """
    with reproducing(out, "spot", seeds, seed) as this:
        from agents.experiments.spot.report import report

        this.written = report(out, data, this.seeds, this.runner, jobs)


def leaderboard(
    out: ReportFolder = RESULTS,
    enter: Annotated[
        list[str] | None,
        typer.Option(
            "--enter", metavar="POLICY", help="A policy that takes part, such as mine:decide; repeatable."
        ),
    ] = None,
    seeds: Seeds = 12,
    seed: FirstSeed = None,
    jobs: Jobs = None,
) -> int:
    """Rank every policy, and your own, on worlds on which nothing was tuned.

    Example: stoker reproduce leaderboard --enter mine:decide --out leaderboard
    """
    with reproducing(out, "leaderboard", seeds, seed) as this:
        from agents.experiments.leaderboard.report import ranked, report

        find_own_policies()
        ranks = ranked(this.seeds, this.runner, enter or (), jobs)
        this.written = report(out, this.seeds, ranks, enter or (), jobs)
    return exit_code(((each.policy, each.fallback_share) for each in ranks), "those of ff")
