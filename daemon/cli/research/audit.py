"""The command `audit`: the cost of Spark applications, computed from event logs without a daemon."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from conf.util.counted import counted
from conf.util.utc_days import midnight
from daemon.cli.cluster.bill import day
from daemon.cli.research.audit_savings import Files, saved
from daemon.cli.shared.errors import CommandError, end_in_order, writing
from daemon.cli.shared.options import print_json
from daemon.cli.shared.progress import progress_bar

if TYPE_CHECKING:
    from audit.write import AuditResult

By = Literal["application", "type", "user", "queue", "day", "log", "change"]
_MIB = 1 << 20


def audit(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOGS...",
            help="Event logs: files, folders (spark.eventLog.dir), tar archives, s3://BUCKET/PREFIX.",
            show_default=False,
        ),
    ],
    prices: Annotated[
        str,
        typer.Option("--prices", metavar="NAME", help="A price list by name, or a .yaml or .csv file."),
    ] = "ec2-us-east-1",
    vm: Annotated[
        str,
        typer.Option(
            "--vm", metavar="TYPE", help="The VM type of executors whose host is not in the price list."
        ),
    ] = "",
    by: Annotated[
        By,
        typer.Option(
            "--by",
            help=(
                "Dimension to sum costs by; type: by name without date and time; change: by possible saving."
            ),
        ),
    ] = "type",
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="DAY",
            help="Leave out applications that ended before: 2026-11-22, yesterday, 30d.",
        ),
    ] = None,
    savings: Annotated[
        bool,
        typer.Option("--savings/--no-savings", help="Whether to compute possible savings."),
    ] = True,
    policy: Annotated[
        str,
        typer.Option("--policy", metavar="NAMES", help="Policies to simulate the applications under."),
    ] = "ff,greedy",
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="NAME",
            help="The VMs to simulate on: a name or a .yaml file; else pools of the logs' types.",
            show_default=False,
        ),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            "--scenario",
            metavar="NAME",
            help="The scenario for --write-cluster; else the one that saves most.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a report with pictures.", show_default=False),
    ] = None,
    write_profiles: Annotated[
        Path | None,
        typer.Option(
            "--write-profiles", metavar="FILE", help="Write the fitted profiles (.yaml).", show_default=False
        ),
    ] = None,
    write_workload: Annotated[
        Path | None,
        typer.Option(
            "--write-workload",
            metavar="FILE",
            help="Write the applications as a workload (.csv or .parquet).",
            show_default=False,
        ),
    ] = None,
    write_cluster: Annotated[
        Path | None,
        typer.Option(
            "--write-cluster", metavar="FILE", help="Write the VMs of a scenario (.yaml).", show_default=False
        ),
    ] = None,
    output: Annotated[
        Literal["table", "json", "csv"],
        typer.Option("-o", "--output", help="Format: a table, everything as JSON, or CSV."),
    ] = "table",
) -> None:
    """Show the actual and the possible cost of Spark applications from their event logs; needs no daemon.

    Example: stoker audit /var/log/spark --prices ec2-us-east-1 --vm m5.2xlarge --html report.html
    """
    after = day("--since", since)
    files = Files(write_profiles, write_workload, write_cluster, scenario)
    wanted = savings and (output != "csv" or by == "change" or html is not None)
    found = audited(logs, prices, vm, None if after is None else midnight(after))
    if wanted or files.any:
        found = replace(found, savings=saved(found, policy, cluster))
        files.write(found.savings)
    if html is not None:
        from audit.report.html import report

        with writing(html):
            html.write_text(report(found), encoding="utf-8")
    if output == "csv" and by == "change":
        from audit.write import write_changes_csv

        if found.savings is None:
            raise CommandError("--by change: shows savings; leave --no-savings out")
        write_changes_csv(found.savings, sys.stdout)
    elif output == "json":
        from audit.write import to_json

        print_json(to_json(found))
    elif output == "csv":
        from audit.write import write_csv

        write_csv(found.costs, by, sys.stdout)
    else:
        from daemon.cli.research.audit_tables import show

        show(found, "type" if by == "change" else by)


def audited(logs: list[str], prices: str, vm: str, since: float | None) -> "AuditResult":
    """Read and price the logs, with progress."""
    from audit.costs import costs_of
    from audit.prices import load_prices
    from audit.read_logs import read_logs
    from audit.write import AuditResult

    listed = load_prices(prices, vm)
    end_in_order()
    with progress_bar() as progress:
        read = read_logs(
            logs,
            since,
            lambda done, total, what: progress(done // _MIB, -(-total // _MIB), f"MiB, {what}"),
        )
    found = AuditResult(read, listed, costs_of(read.applications, listed))
    if found.costs.without_executors == len(found.costs.each):
        raise CommandError(
            f"{', '.join(logs)}: an executor is in none of {counted(len(found.costs.each), 'log')}, so "
            "nothing has a cost; name logs of applications that ran tasks"
        )
    return found
