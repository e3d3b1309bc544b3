"""The commands about the cluster and its policy: `cluster` and those under `policy`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.options import (
    DEFAULT_URL,
    Ca,
    ListOutput,
    Output,
    TokenFile,
    Url,
    connect,
    print_json,
    show_answer,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

policy = typer.Typer(help="Show or switch who decides.", rich_markup_mode=None)


@policy.callback(invoke_without_command=True)
def _policy(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def cluster(
    url: Url = DEFAULT_URL, token_file: TokenFile = None, ca: Ca = None, output: ListOutput = "table"
) -> None:
    """Show the VMs, their prices and the executors on them.

    Example: stoker cluster -o wide
    """
    with connect(url, token_file, ca) as client:
        answer = client.cluster()

    def tables(wide: bool) -> "Iterable[RenderableType]":
        from daemon.cli.cluster import cluster_tables

        return cluster_tables.cluster(answer, wide)

    show_answer(answer, output, (vm["name"] for vm in answer["vms"]), tables)


@policy.command("list")
def list_policies(
    url: Url = DEFAULT_URL, token_file: TokenFile = None, ca: Ca = None, output: ListOutput = "table"
) -> None:
    """List the policies that there are; the one that decides is marked, options are in -o wide.

    Example: stoker policy list -o wide
    """
    with connect(url, token_file, ca) as client:
        answer, current = client.policies(), client.policy()

    def tables(wide: bool) -> "Iterable[RenderableType]":
        from daemon.cli.cluster import policy_tables

        yield policy_tables.policies(answer["policies"], current["name"], wide)

    show_answer(answer, output, (info["name"] for info in answer["policies"]), tables)


@policy.command("show")
def show_policy(
    url: Url = DEFAULT_URL, token_file: TokenFile = None, ca: Ca = None, output: Output = "table"
) -> None:
    """Show the policy that decides now.

    Example: stoker policy show
    """
    with connect(url, token_file, ca) as client:
        answer = client.policy()
    _print_policy(answer, output)


@policy.command("set")
def set_policy(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The policy: rr, rrc, ff, module:factory, ...")],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="The policy's own options.")
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> None:
    """Let another policy decide from the next decision on.

    Example: stoker policy set lookahead beta=0.5
    """
    given = _options(options or [])
    with connect(url, token_file, ca) as client:
        answer = client.set_policy(name, given)
    _print_policy(answer, output)


@policy.command("shadow")
def shadow_policy(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The policy that is to look on.")] = None,
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="The policy's own options.")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Let none look on any more.")] = False,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> None:
    """Run a policy beside the acting one, without effect; see `policy compare`.

    Example: stoker policy shadow greedy
    """
    if (name is None) != off:
        raise CommandError("give the NAME of a policy, or --off")
    given = _options(options or [])
    with connect(url, token_file, ca) as client:
        answer = client.drop_shadow() if name is None else client.set_shadow(name, given)
    _print_policy(answer, output)


@policy.command("compare")
def compare_policies(
    limit: Annotated[
        int, typer.Option("--limit", min=0, max=1000, help="How many differences to list.")
    ] = 20,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> None:
    """Show the decisions where the shadow policy differs, with estimated cost.

    Each cost is an estimate for one decision by itself: the price of the VMs that the decision takes into
    use, for as long as the job ran under the acting policy.

    Example: stoker policy compare
    """
    with connect(url, token_file, ca) as client:
        answer = client.comparison(limit)
    if output == "json":
        print_json(answer)
        return
    from daemon.cli.cluster import policy_tables
    from daemon.cli.shared import render

    render.show(*policy_tables.comparison(answer))


def _options(texts: list[str]) -> dict[str, Any]:
    """The options as YAML values, so that `beta=0.75` is a number."""
    from conf.loader import ConfigError, plain_value
    from daemon.cli.shared.job_file import assignments

    try:
        return {key: plain_value(value, key) for key, value in assignments(texts, "options").items()}
    except ConfigError as error:
        raise CommandError(f"options: {error}") from None


def _print_policy(status: Any, output: str) -> None:
    if output == "json":
        print_json(status)
        return
    from daemon.cli.cluster import policy_tables
    from daemon.cli.shared import render

    render.show(policy_tables.policy(status))
