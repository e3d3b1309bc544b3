"""The command `profile dynamic`: checks simulated dynamic allocation by real runs, and writes the report."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from stoker.characters import visible

from daemon.cli.profile.profile import NewRuns, place_of_runs
from daemon.cli.shared.errors import CommandError, end_in_order, writing
from daemon.cli.shared.options import RESULTS, Output, print_json
from daemon.cli.shared.progress import progress_bar


def dynamic(
    folder: NewRuns = None,
    plan: Annotated[
        str, typer.Option("--plan", metavar="FILE", help="Apps, each with its number of executors.")
    ] = "profiles/dynamic.yaml",
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Run the first rounds of the plan, not all.")
    ] = None,
    idle: Annotated[
        int, typer.Option("--idle", min=1, help="Seconds after which drivers release an idle executor.")
    ] = 10,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The report.")] = RESULTS / "dynamic.md",
    output: Output = "table",
) -> int:
    """Run jobs with fixed executors and with dynamic allocation on real Spark, and simulate the latter.

    The simulator knows the logs of the fixed runs alone. Started again, it continues.

    Example: stoker profile dynamic --rounds 1
    """
    end_in_order()
    from agents.experiments.revision import sign
    from audit.prices import load_prices
    from audit.report.real_dynamic import report
    from audit.savings.real_dynamic import dynamic_cases
    from conf.loader import find
    from daemon.cli.profile.audit_on_spark import audited

    path = find(plan)
    place = place_of_runs(folder, path)
    with progress_bar() as progress:
        runs, failed = audited(path, place.absolute(), rounds, progress, idle)
    for line in failed:
        print(f"stoker: {visible(line)}; start again to repeat it", file=sys.stderr)
    if not runs.runs:
        raise CommandError("no run has finished", 1)
    found = dynamic_cases(runs.runs, load_prices("ec2-us-east-1"))
    words = ["stoker profile dynamic", str(place), "--plan", plan, "--idle", str(idle)]
    words += [] if rounds is None else ["--rounds", str(rounds)]
    with writing(out):
        report(found, runs, out, " ".join(words))
        sign(out)
    if output == "json":
        print_json([case.to_json() for case in found])
    else:
        from daemon.cli.profile.profile_tables import show_dynamic

        show_dynamic(found)
        print(f"The report is in {out}.")
    return 1 if failed else 0
