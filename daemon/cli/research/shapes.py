"""`stoker reproduce shapes`: shapes chosen from two runs, on tables of real Spark runs."""

from pathlib import Path
from typing import Annotated

import typer

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
