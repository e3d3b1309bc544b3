"""The command `profile audit`: checks savings of `stoker audit` by real runs, and writes the report."""

from pathlib import Path
from typing import Annotated

import typer

from daemon.cli.profile.profile import NewRuns
from daemon.cli.shared.errors import end_in_order, writing
from daemon.cli.shared.options import RESULTS, Output, print_json


def audit(
    folder: NewRuns = None,
    plan: Annotated[
        str, typer.Option("--plan", metavar="FILE", help="Apps, each with its numbers of executors.")
    ] = "profiles/audit.yaml",
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Run the first rounds of the plan, not all.")
    ] = None,
    prices: Annotated[
        str, typer.Option("--prices", metavar="NAME", help="A price list, as `stoker audit` takes it.")
    ] = "ec2-us-east-1",
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The report.")] = RESULTS / "audit.md",
    output: Output = "table",
) -> int:
    """Run jobs with all and with fewer executors on real Spark, and compare the savings with an audit's.

    The audit reads only the logs of the runs with all executors. Started again, it continues.

    Example: stoker profile audit --rounds 1
    """
    end_in_order()
    from agents.experiments.revision import sign
    from audit.prices import load_prices
    from audit.report.real_savings import report
    from audit.savings.real_savings import real_savings
    from daemon.cli.profile.audit_on_spark import audited_or_told

    listed = load_prices(prices)
    place, runs, failed = audited_or_told(plan, folder, rounds)
    found = real_savings(runs.runs, listed)
    words = ["stoker profile audit", str(place), "--plan", plan, "--prices", prices]
    words += [] if rounds is None else ["--rounds", str(rounds)]
    with writing(out):
        report(found, runs, listed, out, " ".join(words))
        sign(out)
    if output == "json":
        print_json(found.to_json())
    else:
        from daemon.cli.profile.profile_tables import show_real_savings

        show_real_savings(found)
        print(f"The report is in {out}.")
    return 1 if failed else 0
