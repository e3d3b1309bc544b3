"""The command `profile memory`: compares ways of asking for memory on real Spark, and writes the report."""

from pathlib import Path
from typing import Annotated

import typer

from daemon.cli.profile.profile import NewRuns, place_of_runs
from daemon.cli.shared.errors import end_in_order, writing
from daemon.cli.shared.options import RESULTS, Output, print_json
from daemon.cli.shared.progress import progress_bar


def memory(
    folder: NewRuns = None,
    plan: Annotated[
        str, typer.Option("--plan", metavar="FILE", help="Apps, each with its inputs and a memory.")
    ] = "profiles/memory.yaml",
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The report.")] = RESULTS / "memory.md",
    output: Output = "table",
) -> int:
    """Run jobs with memory as asked, as the median job needs and auto, and compare failures and memory paid.

    Started again, it continues after the last way of asking that was completed.

    Example: stoker profile memory
    """
    end_in_order()
    from agents.experiments.memory.report import comparison_of, report
    from agents.experiments.revision import sign
    from conf.loader import find
    from daemon.cli.profile.memory_on_spark import memory_runs

    path = find(plan)
    place = place_of_runs(folder, path)
    with progress_bar() as progress:
        runs = memory_runs(path, place.absolute(), progress)
    compared = comparison_of(runs)
    with writing(out):
        report(compared, runs, out, f"stoker profile memory {place} --plan {plan}")
        sign(out)
    if output == "json":
        print_json(compared.to_json())
    else:
        from daemon.cli.profile.profile_tables import show_memory

        show_memory(compared)
        print(f"The report is in {out}.")
    return 0
