"""`stoker bound`: cost of the best schedule of a workload. It needs no daemon."""

from typing import TYPE_CHECKING, Annotated

import typer

from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.options import Output, notice, notice_left_out, print_json
from daemon.cli.shared.progress import progress_bar

if TYPE_CHECKING:
    from agents.bound.limits import Limit
    from profiles.workloads.workload import Workload


def bound(
    workload: Annotated[
        str, typer.Argument(metavar="WORKLOAD", help="A name (burst, ...) or a .yaml, .csv or .parquet file.")
    ],
    cluster: Annotated[
        str, typer.Option("--cluster", help="A name (paper, hundred, ...) or a .yaml file.")
    ] = "paper",
    seed: Annotated[int, typer.Option("--seed", min=0, help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=10_000, help="Number of seeds.")] = 1,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Another number of jobs.")] = None,
    beta: Annotated[
        float,
        typer.Option(
            "--beta", min=0.0, max=1.0, help="Weight of cost; the rest is the weight of completion."
        ),
    ] = 1.0,
    tries: Annotated[
        int | None, typer.Option("--tries", min=1, help="Number of schedules to search through.")
    ] = None,
    output: Output = "table",
) -> None:
    """Compute the cost of a workload's best schedule, or an interval for it.

    The best schedule knows all jobs. For few jobs the optimum is often proven. Otherwise the interval goes
    from a lower bound, for policies that grant jobs the requested resources, to the cost of the best
    schedule that a long search found.

    Example: stoker bound burst --jobs 20
    """
    found: dict[int, Limit] = {}
    workloads: list[Workload] = []
    with progress_bar() as progress:
        from agents.bound.instance import BoundError
        from agents.bound.limits import limit_of
        from environment.clusters.cluster_files import load_cluster
        from profiles.workloads.generators import load_workload

        vms = load_cluster(cluster)
        for each in range(seed, seed + seeds):
            there = load_workload(workload, each, jobs)
            workloads.append(there)
            try:
                found[each] = limit_of(there, vms, beta=beta, tries=tries, seed=each, told=progress)
            except BoundError as error:
                raise CommandError(f"{workload} on {cluster}: {error}") from None
    notice_left_out(lost for there in workloads for lost in there.left_out)
    if seeds > 1 and all(there == workloads[0] for there in workloads):
        notice("all seeds are the same workload: nothing of it is drawn")
    if output == "json":
        print_json([{"seed": each, **limit.to_json()} for each, limit in found.items()])
        return
    from daemon.cli.shared import render

    rows = [
        (
            str(each),
            f"{limit.packing:.3f}",
            f"{limit.lower:.3f}",
            f"{limit.best.cost:.3f}",
            f"{limit.best.completion:.0f}",
            "optimal" if limit.proven else "best known",
        )
        for each, limit in found.items()
    ]
    columns = ("seed", "perfect packing $", "lower bound $", "schedule $", "completion s", "schedule is")
    render.show(render.table(columns, rows, right=columns[:-1]))
