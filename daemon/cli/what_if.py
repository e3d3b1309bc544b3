"""`stoker what-if`: what would come of the queue as it is now, under other policies or with more VMs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from daemon.cli.errors import CommandError
from daemon.cli.shared_options import (
    DEFAULT_URL,
    Ca,
    Many,
    Output,
    TokenFile,
    Url,
    connect,
    notice,
    option,
    print_json,
)
from daemon.cli.simulate import errors

_TICK = 2.0


def what_if(
    policy: Annotated[
        str | None,
        option(
            "--policy", "Policies, as in simulate: ff,greedy:beta=0.5; without, the acting one.", "A,B,..."
        ),
    ] = None,
    add: Annotated[
        Many, option("--add", "So many VMs more of a type of the cluster; repeatable.", "TYPE:N")
    ] = None,
    jobs: Annotated[bool, typer.Option("--jobs", help="Show when each job would run, too.")] = False,
    draws: Annotated[
        int, typer.Option("--draws", min=1, max=1000, help="How often, each time with other durations.")
    ] = 20,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=120, help="No draw is begun after so many seconds.")
    ] = 5.0,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> None:
    """Tell what would come of the queue as it is now; nothing is changed by asking.

    Jobs that run go on for as long as they are believed to, nobody else comes, and each policy places those
    that wait. Durations are drawn around what is believed: of all draws the mean is shown, and between which
    ends 90 of 100 are.
    """
    asked: dict[str, Any] = {"draws": draws, "seconds": seconds}
    if policy is not None:
        asked["policies"] = list(_policies(policy))
    if add:
        asked["add"] = dict(map(_count, add))
    with connect(url, token_file, ca) as client, _patience(seconds):
        answer = client.what_if(asked)
    if output == "json":
        print_json(answer)
        return
    from daemon.cli import ahead_tables, render

    render.show(*ahead_tables.ahead(answer, jobs=jobs))


def _policies(text: str) -> Iterator[dict[str, Any]]:
    from agents.experiments.comparison import read_contender

    with errors():
        for each in text.split(","):
            found = read_contender(each.strip())
            yield {"name": found.name, **found.options}


def _count(text: str) -> tuple[str, int]:
    kind, colon, number = text.rpartition(":")
    if not colon or not number.isdigit() or int(number) < 1:
        raise CommandError(f"--add: should be as in m1.large:2, found {text!r}")
    return kind, int(number)


@contextmanager
def _patience(seconds: float) -> Iterator[None]:
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
