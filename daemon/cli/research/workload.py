"""The command `workload`: the jobs of a workload, shown or written to a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.cli.shared.errors import writing
from daemon.cli.shared.options import Output, notice_left_out, print_json

if TYPE_CHECKING:
    from profiles.workloads.workload import Workload


def load_told(name: str, seed: int | None = None, jobs: int | None = None) -> "Workload":
    """A workload as of `load_workload`; parts that were left out are printed on stderr."""
    from profiles.workloads.generators import load_workload

    found = load_workload(name, seed, jobs)
    notice_left_out(found.left_out)
    return found


def workload(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name (burst, ...) or a workload file.")],
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Another seed than the file's.")] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Another number of jobs.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the jobs here: .csv or .parquet.")
    ] = None,
    output: Output = "table",
) -> None:
    """Show the jobs of a workload, or write them to a file that `simulate --workload` reads back.

    Example: stoker workload burst --seed 5 --out burst.csv
    """
    from dataclasses import asdict

    from profiles.workloads.workload_files import write_workload

    found = load_told(name, seed, jobs)
    if out is not None:
        with writing(out):
            write_workload(found, out)
        print(f"{'1 job' if len(found) == 1 else f'{len(found)} jobs'} written to {out}")
        return
    if output == "json":
        print_json([asdict(job) for job in found.jobs])
        return
    from daemon.cli.shared import render

    users, due = any(job.owner for job in found.jobs), any(job.deadline for job in found.jobs)
    left = any(job.auto for job in found.jobs)
    rows = [
        (
            job.name,
            job.type,
            render.duration(job.submitted_at),
            f"{job.executors} x {job.cpus:g} cpu, {render.memory(job.memory_mib)}",
            render.duration(job.duration),
            *((job.owner or "-", job.queue) if users else ()),
            *((render.duration(job.deadline),) if due else ()),
            *((", ".join(f"{name} {text}" for name, text in job.auto.items()) or "-",) if left else ()),
        )
        for job in found.jobs
    ]
    columns = ("job", "type", "submitted after", "executors", "duration")
    columns += (
        *(("user", "queue") if users else ()),
        *(("due within",) if due else ()),
        *(("left to Stoker",) if left else ()),
    )
    render.show(render.table(columns, rows, right=("submitted after", "duration", "due within")))
