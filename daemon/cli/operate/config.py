"""The command `config check`: shows the setting that a daemon would start with, without starting it."""

from pathlib import Path
from typing import Annotated

import typer

from daemon.cli.shared.daemon_config import Settings, find_own_policies, read_config
from daemon.cli.shared.options import Output, print_json

config = typer.Typer(
    help="Check a config file before a daemon is started with it.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


@config.callback()
def _config() -> None:
    """A group, though it has one command."""


@config.command("check")
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Config file; without it, the shipped defaults.")
    ] = None,
    settings: Settings = None,
    output: Output = "table",
) -> int:
    """Check whether a daemon could start with a config; nothing is started or changed.

    Exit code 0 when it could, 1 when something that the config refers to is wrong, 2 when the config is
    invalid.

    Example: stoker config check stoker.yaml
    """
    from dataclasses import asdict

    from daemon.maintenance.config_check import check as examined

    loaded, folder = read_config(file, settings)
    find_own_policies(file)
    findings = list(examined(loaded, folder))
    wrong = sum(finding.verdict == "error" for finding in findings)
    if output == "json":
        print_json({"well": not wrong, "findings": [asdict(finding) for finding in findings]})
        return 1 if wrong else 0
    from daemon.cli.shared import render

    rows = [(finding.key, finding.verdict, finding.what) for finding in findings]
    render.show(render.table(("key", "", "result"), rows))
    print("A daemon could start with it." if not wrong else f"{wrong} to be mended first.")
    return 1 if wrong else 0
