"""The command `profile dynamic`: checks simulated dynamic allocation by real runs, and writes the report."""

from pathlib import Path
from typing import Annotated

import typer

from daemon.cli.profile.profile import NewRuns
from daemon.cli.shared.errors import end_in_order, writing
from daemon.cli.shared.options import RESULTS, Output, print_json


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
    from daemon.cli.profile.audit_on_spark import audited_or_told

    place, runs, failed = audited_or_told(plan, folder, rounds, idle)
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
