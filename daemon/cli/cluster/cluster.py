"""The commands about the cluster and its policy: `cluster` and those under `policy`."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daemon.cli.cluster.what_if import PlaySeconds, patience
from daemon.cli.shared.errors import CommandError, naming
from daemon.cli.shared.fetching import Fetched, fetches
from daemon.cli.shared.mostly_failed import exit_code
from daemon.cli.shared.options import ListOutput, option

if TYPE_CHECKING:
    from rich.console import RenderableType
    from stoker import Stoker

#: Hidden: the one spelling is POLICY:KEY=VALUE.
_Options = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", hidden=True)]

policy = typer.Typer(help="Show, switch or compare policies.", rich_markup_mode=None)


@policy.callback(invoke_without_command=True)
def _policy(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@fetches(ListOutput)
def cluster(client: "Stoker") -> Fetched:
    """Show the VMs, their prices and the executors on them.

    Example: stoker cluster -o wide
    """
    answer = client.cluster()

    def tables(wide: bool) -> "Iterable[RenderableType]":
        from daemon.cli.cluster import cluster_tables

        return cluster_tables.cluster(answer, wide)

    return Fetched(answer, tables, (vm["name"] for vm in answer["vms"]))


@policy.command("list")
@fetches(ListOutput)
def list_policies(client: "Stoker") -> Fetched:
    """List the policies; the acting one is marked, -o wide shows options.

    Example: stoker policy list -o wide
    """
    answer, current = client.policies(), client.policy()

    def tables(wide: bool) -> "Iterable[RenderableType]":
        from daemon.cli.cluster import policy_tables

        yield policy_tables.policies(answer["policies"], current["name"], wide)

    return Fetched(answer, tables, (info["name"] for info in answer["policies"]))


@policy.command("show")
@fetches()
def show_policy(client: "Stoker") -> Fetched:
    """Show the policy that decides now.

    Example: stoker policy show
    """
    return _status(client.policy())


@policy.command("set")
@fetches()
def set_policy(
    client: "Stoker",
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="The policy: ff, greedy:beta=0.5, module:factory, ...")
    ],
    options: _Options = None,
) -> Fetched:
    """Switch to another policy from the next decision on.

    Example: stoker policy set lookahead:beta=0.5
    """
    return _status(client.set_policy(policy, _options(options or [])))


@policy.command("promote")
@fetches()
def promote_policy(
    client: "Stoker",
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="The policy: greedy:beta=0.5, reinforce:beta=1, ...")
    ],
    since: Annotated[
        str,
        option("--since", "Replay the jobs since then: 7d, today (UTC), 2026-11-22T18:00.", "TIME"),
    ] = "7d",
    draws: Annotated[
        int,
        typer.Option("--draws", min=12, max=1000, help="Number of simulations, each with other durations."),
    ] = 20,
    seconds: PlaySeconds = 60.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report; switch nothing.")] = False,
) -> Fetched:
    """Switch to a policy if past jobs show that it is better.

    The jobs since then are replayed under both policies with the same draws of durations. The switch needs
    a lower cost by two standard errors, and a mean completion that is not later by two. Otherwise the reason
    is shown, and the exit code is 1. A promoted policy that is dearer over a day is taken back.

    Example: stoker policy promote greedy:beta=0.5 --since 7d
    """
    from daemon.cli.jobs.job_list import moment

    start = moment(since, datetime.now().astimezone())
    with patience(seconds):
        answer = client.promote_policy(policy, since=start, draws=draws, seconds=seconds, dry_run=dry_run)

    def tables(_: bool) -> "Iterable[RenderableType]":
        from daemon.cli.cluster import policy_tables

        return policy_tables.promotion(answer)

    return Fetched(answer, tables, exit_code=1 if answer["why"] else 0)


@policy.command("shadow")
@fetches()
def shadow_policy(
    client: "Stoker",
    policy: Annotated[
        str | None, typer.Argument(metavar="POLICY", help="The policy to compare with: greedy:beta=0.5, ...")
    ] = None,
    options: _Options = None,
    off: Annotated[bool, typer.Option("--off", help="Stop the shadow policy.")] = False,
) -> Fetched:
    """Run a policy beside the acting one, without effect; see `policy compare`.

    Example: stoker policy shadow greedy
    """
    if (policy is None) != off:
        raise CommandError("give a POLICY, or --off")
    given = _options(options or [])
    return _status(client.set_shadow(policy, given))


@policy.command("compare")
@fetches()
def compare_policies(
    client: "Stoker",
    limit: Annotated[
        int, typer.Option("--limit", min=0, max=1000, help="How many differences to list.")
    ] = 20,
) -> Fetched:
    """Show the decisions where the shadow policy differs, with estimated cost.

    Each cost is an estimate for one decision by itself: the price of the VMs that the decision takes into
    use, for as long as the job ran under the acting policy.

    Example: stoker policy compare
    """
    answer = client.comparison(limit)

    def tables(_: bool) -> "Iterable[RenderableType]":
        from daemon.cli.cluster import policy_tables

        return policy_tables.comparison(answer)

    shares = [(of["acting"], of["acting_fallback_share"] or 0.0) for of in answer["totals"]]
    shares += [(of["shadow"], of["shadow_fallback_share"] or 0.0) for of in answer["totals"]]
    return Fetched(answer, tables, exit_code=exit_code(shares))


def _options(texts: list[str]) -> dict[str, Any]:
    """The options as YAML values, so that `beta=0.75` is a number."""
    from conf.loader import plain_value
    from daemon.cli.shared.job_file import assignments

    with naming("options: "):
        return {key: plain_value(value, key) for key, value in assignments(texts, "options").items()}


def _status(answer: Any) -> Fetched:
    def tables(_: bool) -> "Iterable[RenderableType]":
        from daemon.cli.cluster import policy_tables

        return [policy_tables.policy(answer)]

    return Fetched(answer, tables)
