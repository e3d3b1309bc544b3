"""The command that forecasts the current queue under other policies or with more VMs."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.fetching import Fetched, fetches
from daemon.cli.shared.mostly_failed import exit_code
from daemon.cli.shared.options import Many, notice, option

if TYPE_CHECKING:
    from rich.console import RenderableType
    from stoker import Stoker

_TICK = 2.0
#: Option of commands that play jobs, with the default of each.
PlaySeconds = Annotated[
    float,
    typer.Option(
        "--seconds",
        min=0.1,
        max=120,
        help="Time limit of the simulation, seconds; unfinished draws do not count.",
    ),
]


@fetches()
def what_if(
    client: "Stoker",
    policy: Annotated[
        str | None,
        option(
            "--policy", "Policies, as in simulate: ff,greedy:beta=0.5; without, the acting one.", "A,B,..."
        ),
    ] = None,
    add: Annotated[Many, option("--add", "Add N VMs of a type of the cluster; repeatable.", "TYPE:N")] = None,
    remove: Annotated[Many, option("--remove", "Remove N idle VMs of a type; repeatable.", "TYPE:N")] = None,
    cluster: Annotated[
        str | None,
        option("--cluster", "Another cluster, on which the waiting jobs are simulated alone.", "NAME|FILE"),
    ] = None,
    order: Annotated[
        str | None, option("--order", "Another order, as in sharing.order: priority,shortest.", "KEYS")
    ] = None,
    keep: Annotated[
        str | None,
        option("--keep", "Another idle policy of pools, as in simulate: none, timeout:90.", "HOW"),
    ] = None,
    since: Annotated[
        str | None,
        option("--since", "Replay the jobs since then instead: 2h, today (UTC), 2026-11-22T18:00.", "TIME"),
    ] = None,
    jobs: Annotated[bool, typer.Option("--jobs", help="Also show the predicted start of each job.")] = False,
    draws: Annotated[
        int,
        typer.Option("--draws", min=1, max=1000, help="Number of simulations, each with other durations."),
    ] = 20,
    seconds: PlaySeconds = 5.0,
) -> Fetched:
    """Forecast the current queue under other policies, VMs or orders.

    It changes nothing. Running jobs go on for their expected time, no other job arrives, and each policy
    places the waiting jobs. Durations are drawn around the expected ones: the table shows the mean of all
    draws, and below it the interval that holds 9 of 10. Each of --add, --remove, --cluster, --order and
    --keep is a case of its own, shown beside the forecast for the present setting.

    With --since, the jobs submitted since then are replayed on the current cluster, with the durations that
    they had: the table shows their cost and their ends under each policy.

    Example: stoker what-if --since yesterday --policy ff,greedy
    """
    asked: dict[str, Any] = {"draws": draws, "seconds": seconds}
    if since is not None:
        from daemon.cli.jobs.job_list import moment

        asked["since"] = moment(since, datetime.now().astimezone())
    if policy is not None:
        asked["policies"] = [each.strip() for each in policy.split(",")]
    cases: list[dict[str, Any]] = []
    if add:
        cases.append({"add": _counts("--add", add)})
    if remove:
        cases.append({"remove": _counts("--remove", remove)})
    if cluster is not None:
        cases.append({"cluster": _cluster(cluster)})
    if order is not None:
        cases.append({"order": [key.strip() for key in order.split(",")]})
    if keep is not None:
        cases.append({"keep": keep})
    if cases:
        asked["cases"] = [{}, *cases]
    with patience(seconds):
        answer = client.what_if(**asked)

    def tables(_: bool) -> "Iterable[RenderableType]":
        from daemon.cli.cluster import what_if_tables

        return what_if_tables.ahead(answer, jobs=jobs)

    from conf.policy_text import policy_text

    shares = ((policy_text(of["name"], of["options"]), of["fallback_share"]) for of in answer["policies"])
    return Fetched(answer, tables, exit_code=exit_code(shares))


def _cluster(name: str) -> dict[str, Any]:
    from conf.loader import load
    from conf.schema import Cluster
    from environment.clusters.cluster_files import cluster_file

    found: dict[str, Any] = load(cluster_file(name), Cluster).model_dump(mode="json")
    return found


def _counts(flag: str, texts: Sequence[str]) -> dict[str, int]:
    """How many VMs of each type; of one that is named twice, both together."""
    counts = Counter[str]()
    for text in texts:
        kind, colon, number = text.rpartition(":")
        if not (
            colon and kind and number.isascii() and number.isdigit() and len(number) < 10 and int(number) > 0
        ):
            raise CommandError(f"{flag}: should be as in m1.large:2, found {text!r}")
        counts[kind] += int(number)
    return dict(counts)


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Say that it goes on, where the answer takes longer than two seconds."""
    over = threading.Event()

    def say() -> None:
        if not over.wait(_TICK):
            notice(f"playing the queue forward, for about {seconds:g} s")

    saying = threading.Thread(target=say, daemon=True)
    saying.start()
    try:
        yield
    finally:
        over.set()
        saying.join()
