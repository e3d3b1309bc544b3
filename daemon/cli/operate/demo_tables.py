"""Output of the demo: the opening, live lines about the jobs, and the tables at the end."""

import contextlib
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from conf.units import SECONDS_PER_HOUR
from conf.util.counted import counted
from daemon.cli.cluster.bill import KINDS
from daemon.cli.shared import job_tables, render

Json = Mapping[str, Any]
Update = Callable[[Sequence[Json]], None]

_RESULT_CHARACTERS = 160


@dataclass(frozen=True)
class Paid:
    """The bill by VM, the pools, seconds from the first job to now, and whether all VMs are closed."""

    bill: Json
    pools: Sequence[Json]
    seconds: float
    closed: bool


def opening(pools: Sequence[Json], policy: str, url: str) -> str:
    """Describe the cluster and its policy."""
    kinds = ", ".join(f"{pool['max']} {pool['type']}" for pool in pools)
    most = render.count(sum(pool["max"] for pool in pools), "VM")
    where = f"{url}, its page in a browser too"
    return f"The daemon is ready at {where}: no VM is open, {most} could be ({kinds}), policy {policy}."


@contextlib.contextmanager
def screen() -> Iterator[Update]:
    """Where the jobs are shown while they run: a live table on a terminal, lines of news elsewhere."""
    console = render.console()
    if not console.is_terminal:
        yield _News().tell
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda jobs: live.update(_running(jobs), refresh=True)


class _News:
    """Prints a line for each change of a job's state, reason or executors."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def tell(self, jobs: Sequence[Json]) -> None:
        """Print a line for each changed job."""
        for job in jobs:
            where = _where(job)
            line = job_tables.change_line(job).partition(" ")[2] + (f" ({where})" if where else "")
            if self._told.get(job["id"]) != line:
                self._told[job["id"]] = line
                print(f"{time.strftime('%H:%M:%S')} {render.plain(line)}", flush=True)


def _running(jobs: Sequence[Json]) -> RenderableType:
    rows = [
        (job["name"], render.state(job["state"]), _where(job), render.duration(_elapsed(job)), job["reason"])
        for job in jobs
    ]
    return render.table(("job", "state", "executors", "elapsed", "why"), rows, right=("elapsed",))


def closing(
    jobs: Sequence[Json],
    decisions: Mapping[str, Sequence[Json]],
    results: Mapping[str, str],
    paid: Paid,
) -> Iterator[RenderableType]:
    """The tables at the end: VM and reason of every executor, jobs with their results, sums, the bill."""
    yield ""
    yield _executors(jobs, decisions)
    yield ""
    yield _jobs(jobs)
    yield ""
    for job in jobs:
        result = results[job["id"]]
        short = result if len(result) <= _RESULT_CHARACTERS else f"{result[:_RESULT_CHARACTERS]}..."
        yield Text(f"{job['name']} printed: {render.plain(short) or 'nothing'}")
    yield ""
    yield _sums(jobs)
    yield ""
    yield from _bill(paid)


def _bill(paid: Paid) -> Iterator[RenderableType]:
    """Cost of every VM by kind, and the cost of the maximum number of VMs open all the time."""
    shown = {**paid.bill["total"], "key": "total"}
    kinds = [kind for kind in KINDS if shown[kind]]
    rows = [
        (line["key"], render.money(line["total"]), *(render.money(line[kind]) for kind in kinds))
        for line in (*sorted(paid.bill["lines"], key=lambda line: str(line["key"])), shown)
    ]
    title = "Cost of the VMs from opened to closed"
    yield render.table(("VM", "billed", *kinds), rows, right=("billed", *kinds), title=title)
    most, per_hour = (
        sum(pool["max"] for pool in paid.pools),
        sum(pool["max"] * pool["price_per_hour"] for pool in paid.pools),
    )
    fixed = per_hour / SECONDS_PER_HOUR * paid.seconds
    yield ""
    if not paid.closed:
        yield Text("Not all VMs are closed yet.", style="bold red")
    yield Text(
        f"The VMs cost {render.money(shown['total'])}; {most} that are always there would have cost "
        f"{render.money(fixed)} in the same {render.duration(paid.seconds)}."
    )


def staying(url: str, job_id: str) -> str:
    """Say where the daemon of a demo that stays is, and how it ends."""
    stoker = _command()
    return (
        f"\nThe jobs are on the page at {url}, which stays until Ctrl-C. In another terminal:\n"
        f"  {stoker} job {job_id}\n"
        f"  {stoker} submit FILE"
    )


def outlook(config_file: Path | None, url: str, job_id: str) -> str:
    """Suggest the next commands; with the demo's config while it exists, for a daemon at `url`."""
    stoker = _command()
    if config_file is None:
        return (
            f"No process is left running. Next: `{stoker} demo --policy rr` uses another policy,"
            " and --stay keeps its page open;\n"
            f"or `{stoker} up`, and in another terminal `{stoker} submit FILE`, `{stoker} jobs`."
        )
    return (
        f"No process is left running; store and logs are in {config_file.parent}. To look further:\n"
        f"  {stoker} up --config {config_file}\n"
        f"and in another terminal\n"
        f"  {stoker} jobs --url {url}\n"
        f"  {stoker} job {job_id} --url {url}"
    )


def _command() -> str:
    """How the user may call this program: by its name where the PATH finds it, else by its path."""
    program = Path(sys.argv[0])
    found = shutil.which(program.name)
    if found is not None and Path(found).resolve() == program.resolve():
        return program.name
    return os.path.relpath(program) if program.name == "stoker" else "stoker"


def _executors(jobs: Sequence[Json], decisions: Mapping[str, Sequence[Json]]) -> RenderableType:
    rows = []
    for job in jobs:
        reasons = _reasons(decisions[job["id"]])
        for executor in job["tasks"]:
            why = "" if executor["number"] is None else reasons.get(executor["number"], "")
            price = f"{render.money(executor['price_per_hour'])}/h"
            name = job_tables.executor_name(executor)
            rows.append((job["name"], name, executor["vm"], executor["vm_type"], price, why))
    columns = ("job", "executor", "VM", "type", "price", "why there")
    return render.table(columns, rows, right=("executor", "price"), title="Where the executors ran")


def _reasons(decisions: Sequence[Json]) -> dict[int | None, str]:
    """Why each executor is where it is, by its number."""
    return {choice["executor"]: choice["why"] for decision in decisions for choice in decision["choices"]}


def _jobs(jobs: Sequence[Json]) -> RenderableType:
    rows: list[Sequence[str | Text]] = [
        (
            job["id"],
            job["name"],
            render.state(job["state"]),
            render.duration(job["duration"]),
            render.duration(job["completion"]),
            render.money(job["cost"]),
        )
        for job in jobs
    ]
    rows.append(("total", "", "", "", "", Text(render.money(_cost(jobs)), style="bold")))
    columns = ("id", "job", "state", "duration", "completion", "cost")
    return render.table(
        columns, rows, right=("duration", "completion", "cost"), title="Duration and cost of the jobs"
    )


def _sums(jobs: Sequence[Json]) -> Text:
    finished = sum(1 for job in jobs if job["state"] == "finished")
    vms = {executor["vm"] for job in jobs for executor in job["tasks"]}
    executors = sum(len(job["tasks"]) for job in jobs)
    return Text(
        f"{finished} of {counted(len(jobs), 'job')} finished: {render.count(executors, 'executor')} "
        f"on {render.count(len(vms), 'VM')}, {render.money(_cost(jobs))} in total.",
        style="bold green" if finished == len(jobs) else "bold red",
    )


def _cost(jobs: Sequence[Json]) -> float:
    return math.fsum(job["cost"] for job in jobs)


def _where(job: Json) -> str:
    return ", ".join(f"{job_tables.executor_name(executor)} on {executor['vm']}" for executor in job["tasks"])


def _elapsed(job: Json) -> float:
    return float((job["finished_at"] or time.time()) - job["submitted_at"])
