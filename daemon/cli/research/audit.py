"""The command `audit`: the cost of Spark applications, computed from event logs without a daemon."""

import contextlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from daemon.cli.cluster.bill import day
from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.options import print_json
from daemon.cli.shared.progress import progress_bar

if TYPE_CHECKING:
    from audit.write import AuditResult

By = Literal["application", "user", "queue", "day", "log"]
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
            "--vm", metavar="TYPE", help="The VM type of executors, where no host of the price list tells it."
        ),
    ] = "",
    by: Annotated[By, typer.Option("--by", help="By what costs are summed.")] = "application",
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="DAY", help="Leave out what ended before: 2026-11-22, yesterday, 30d."
        ),
    ] = None,
    output: Annotated[
        Literal["table", "json", "csv"],
        typer.Option("-o", "--output", help="For people, everything as JSON, or the costs for spreadsheets."),
    ] = "table",
) -> None:
    """Show the cost of Spark applications by their event logs; no cluster and no daemon is needed.

    Example: stoker audit /var/log/spark --prices ec2-us-east-1 --vm m5.2xlarge
    """
    after = day("--since", since)
    with errors():
        found = audited(logs, prices, vm, None if after is None else _midnight(after))
    if output == "json":
        from audit.write import to_json

        print_json(to_json(found))
    elif output == "csv":
        from audit.write import write_csv

        write_csv(found.costs, by, sys.stdout)
    else:
        from daemon.cli.research.audit_tables import show

        show(found, by)


def audited(logs: list[str], prices: str, vm: str, since: float | None) -> "AuditResult":
    """Read and price the logs, with progress."""
    from audit.costs import costs_of
    from audit.prices import load_prices
    from audit.read_logs import read_logs
    from audit.write import AuditResult

    listed = load_prices(prices, vm)
    with progress_bar() as progress:
        read = read_logs(
            logs,
            since,
            lambda done, total, what: progress(done // _MIB, -(-total // _MIB), f"MiB, {what}"),
        )
    found = AuditResult(read, listed, costs_of(read.applications, listed))
    if found.costs.without_executors == len(found.costs.each):
        raise CommandError(
            f"{', '.join(logs)}: no executor is in any of {len(found.costs.each)} logs, so nothing has a "
            "cost; name logs of applications that ran tasks"
        )
    return found


def _midnight(of: str) -> float:
    return datetime.fromisoformat(of).replace(tzinfo=UTC).timestamp()


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """Convert errors in the input into a CommandError of one line."""
    from audit.log_files import LogsError
    from audit.prices import PriceError
    from conf.loader import ConfigError

    try:
        yield
    except (LogsError, PriceError, ConfigError) as error:
        raise CommandError(" ".join(str(error).split())) from None
