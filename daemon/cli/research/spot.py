"""`stoker reproduce spot`: spot VMs that come and go as recorded, beside VMs on demand."""

from pathlib import Path
from typing import Annotated

import typer

from daemon.cli.research.reproduce import FirstSeed, Jobs, Seeds, reproducing
from daemon.cli.shared.options import RESULTS, ReportFolder


def spot(
    data: Annotated[
        Path,
        typer.Option(
            "--data", metavar="DIR", help="Folder with records of spot VMs, as docs/elastic.md names."
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
