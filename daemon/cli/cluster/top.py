"""`stoker top`: live view of the cluster, its running jobs and its queue."""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conf.util.counted import counted
from daemon.cli.shared.fetching import Fetched, fetches
from daemon.cli.shared.options import Output

if TYPE_CHECKING:
    from rich.console import RenderableType
    from stoker import Stoker

Json = Mapping[str, Any]
#: Jobs of one state that are asked for; of more, the sums say so. The head of the queue may be anywhere among
#: those that wait: it is looked for on so many pages.
_PAGE, _PAGES = 500, 20
#: States of a VM that is paid for.
_PAID = ("up", "unreachable", "booting", "draining", "closing")
#: Number of jobs in a row with the same reason that become one line.
_ALIKE = 3
_RUNNING = ("placing", "starting", "running", "relaunching")


@fetches()
def top(
    client: "Stoker",
    interval: Annotated[
        float,
        typer.Option("--interval", min=0.5, max=3600, metavar="SECONDS", help="Time between two updates."),
    ] = 2.0,
    rows: Annotated[
        int, typer.Option("--rows", min=1, max=1000, help="Maximum number of jobs of each kind.")
    ] = 10,
    output: Output = "table",
) -> Fetched | None:
    """Watch the cluster: VMs, cores, dollars an hour, running and waiting jobs.

    Waiting jobs show their reason. `q` or Ctrl-C ends the command. In a pipe, or as JSON, it prints the
    current state once.

    Example: stoker top
    """
    if output == "json" or not sys.stdout.isatty():
        found = _look(client, rows)
        return Fetched(found, lambda _: picture(found))
    from daemon.cli.shared import live_screen

    live_screen.screen(lambda: list(picture(_look(client, rows))), interval)
    return None


def _look(client: "Stoker", rows: int) -> Json:
    """How things are: sums over VMs and jobs, and the first jobs that run and wait."""
    cluster = client.cluster()
    vms = cluster["vms"]
    pages = [client.jobs(state=state, limit=_PAGE) for state in _RUNNING]
    running = [job for page in pages for job in page["jobs"]]
    waiting, more = _queue(client, rows)
    paid = [vm for vm in vms if vm["state"] in _PAID]
    dearest = sorted(running, key=lambda job: -job["cost"])
    return {
        "note": cluster["note"],
        "policy": client.policy()["name"],
        "vms": len(vms),
        "vms_in_use": sum(1 for vm in vms if vm["executors"]),
        "cpus": sum(vm["cpus"] for vm in vms),
        "used_cpus": sum(vm["used_cpus"] for vm in vms),
        "price_per_hour": sum(vm["price_per_hour"] for vm in paid),
        "price_per_hour_in_use": sum(vm["price_per_hour"] for vm in paid if vm["executors"]),
        "running": len(running),
        "more_running": any(page["next"] for page in pages),
        "waiting": len(waiting),
        "more_waiting": more,
        "running_jobs": dearest[:rows],
        "waiting_jobs": waiting[:rows],
    }


def _queue(client: "Stoker", rows: int) -> tuple[list[Json], bool]:
    """Waiting jobs, the head of the queue first and held jobs last; and whether more jobs follow."""
    found, behind = dict[str, Json](), None
    for _ in range(_PAGES):
        page = client.jobs(state="queued", limit=_PAGE, before=behind, order="oldest")
        found |= {job["id"]: job for job in page["jobs"]}
        behind = page["next"]
        places = {job["place"] for job in found.values()}
        if behind is None or all(place in places for place in range(rows)):
            break
    in_order = sorted(
        found.values(), key=lambda job: math.inf if job["place"] is None else float(job["place"])
    )
    return in_order, behind is not None


def picture(found: Json) -> "Iterator[str | RenderableType]":
    """The same for people."""
    from daemon.cli.shared import render

    price, used = found["price_per_hour"], found["price_per_hour_in_use"]
    cores = f"{found['used_cpus']:g} of {counted(found['cpus'], 'cpu')}"
    yield (
        f"{found['vms_in_use']} of {render.count(found['vms'], 'VM')} in use, {cores}; "
        f"{render.money(price)}/h now, of which {render.money(used)}/h for VMs in use; "
        f"policy {found['policy']}"
    )
    running, waiting = (
        f"{found[of]}{' or more' if found[f'more_{of}'] else ''}" for of in ("running", "waiting")
    )
    yield f"{running} {'job' if running == '1' else 'jobs'} running, {waiting} waiting"
    if found["note"]:
        yield render.wrapped(found["note"])
    if found["running_jobs"]:
        yield ""
        yield _running(found["running_jobs"])
    if found["waiting_jobs"]:
        yield ""
        yield _waiting(found["waiting_jobs"])


def _running(jobs: Sequence[Json]) -> "RenderableType":
    from daemon.cli.shared import render

    rows = (
        (
            job["id"],
            job["name"],
            job["owner"] or render.NONE,
            render.state(job["state"]),
            f"{job['executors']} x {job['cpus']:g}",
            render.clock(job["started_at"]),
            render.money(job["cost"]),
        )
        for job in jobs
    )
    columns = ("runs", "name", "owner", "state", "cpus", "since", "cost so far")
    return render.table(columns, rows, right=("cost so far",))


def _waiting(jobs: Sequence[Json]) -> "RenderableType":
    from daemon.cli.shared import job_tables, render

    rows = []
    for kept, group in groupby(jobs, key=lambda job: job_tables.without_place(job["reason"])):
        alike = list(group)
        if len(alike) >= _ALIKE:
            told = [job["estimate"]["start"] for job in alike if job["estimate"]]
            first = min((each["low"] for each in told), default=None)
            last = max((each["high"] for each in told), default=None)
            rows.append(
                (
                    f"{counted(len(alike), 'job')}",
                    f"{alike[0]['id']} .. {alike[-1]['id']}",
                    "",
                    f"{render.clock(first)} to {render.clock(last)}" if told else render.NONE,
                    kept,
                )
            )
            continue
        rows += [
            (
                job["id"],
                job["name"],
                job["owner"] or render.NONE,
                job_tables.between(job["estimate"]["start"], render.clock)
                if job["estimate"]
                else render.NONE,
                job["reason"],
            )
            for job in alike
        ]
    return render.table(("waits", "name", "owner", "starts", "why"), rows)
