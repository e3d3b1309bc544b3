"""`stoker reproduce shapes` and `stoker reproduce spot`: reports on data of others, which the user has."""

from pathlib import Path
from typing import Annotated

import typer

from daemon.cli.research.reproduce import FirstSeed, Jobs, Seeds, reproducing
from daemon.cli.shared.errors import writing
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
