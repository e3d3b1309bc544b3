"""`stoker submit --dry-run`: requests the forecast of a job and shows it; no file is sent."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from conf.util.counted import counted
from daemon.cli.cluster.what_if import patience
from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.fetching import Fetched
from daemon.cli.shared.options import notice

if TYPE_CHECKING:
    from rich.console import RenderableType
    from stoker import Stoker

Json = Mapping[str, Any]

#: Seconds for which the queue is played, as in the daemon; and number of files that fit the URL.
_SECONDS, _MOST_FILES = 4.0, 200


def try_out(client: "Stoker", spec: Json, *, uploads: bool) -> Fetched:
    """The forecast of a job, with or without files to upload; CommandError if it is rejected."""
    from stoker import flows

    sends: dict[str, int] = {}
    if uploads:
        from daemon.cli.jobs.upload import name_files

        spec, sends = name_files(client, spec)
        if len(sends) > _MOST_FILES:
            raise CommandError(f"--dry-run: looks at {_MOST_FILES} files at most, here are {len(sends)}")
    with patience(_SECONDS):
        found = client.run(flows.dry_run(spec, sends))
    for warning in found["job"]["warnings"]:
        notice(warning)
    return Fetched(found, lambda _: _shown(found, len(sends)))


def _shown(found: Json, files: int) -> "Iterator[RenderableType]":
    from daemon.cli.shared import job_tables, render

    job, estimate = found["job"], found["job"]["estimate"]
    taken = (
        f"{counted(job['count'], 'job')} ({job['name']}), each" if job["count"] else f"A job ({job['name']})"
    )
    yield f"{taken} of {job_tables.job_line(job)}, would be accepted. Nothing was submitted."
    rows: list[tuple[str, Any]] = []
    if found["placement"]:
        rows.append(("placed now", "; ".join(map(_place, found["placement"]))))
        rows.append(("price", f"{render.money(found['dollars_per_hour'])} an hour"))
    elif estimate is not None:
        before = f"{render.count(job['place'], 'job')} placed before it; " if job["place"] else ""
        rows.append(("waits", f"{before}{job['reason'] or 'it is not its turn yet'}"))
    if estimate is not None:
        at = estimate["at"]
        for name in ("start", "end"):
            since = {key: max(value - at, 0.0) for key, value in estimate[name].items()}
            rows.append((f"{name}s in", job_tables.between(since, render.duration)))
        rows.append(("costs", job_tables.between(estimate["cost"], render.money)))
    if job["deadline"] is not None and estimate is not None:
        late = ", too late in most draws" if found["late"] else ""
        rows.append(("deadline", render.clock(job["deadline"]) + late))
    if files:
        rows.append(("files", f"{render.count(files, 'file')} of this machine would be sent"))
    if rows:
        yield render.pairs(rows)
    if found["no_estimate"]:
        yield render.wrapped(f"No estimate: {found['no_estimate']}.")
    if found["assumes"]:
        draws = render.count(found["draws"], "draw")
        yield render.wrapped(f"Of {draws} under {found['policy']}. Assumed: {'; '.join(found['assumes'])}.")


def _place(placed: Json) -> str:
    from daemon.cli.shared import render

    opens = ", which is opened for it" if placed["opens"] else ""
    price = render.money(placed["price_per_hour"])
    return f"{placed['executors']} on {placed['vm']} ({placed['type']}, {price} an hour{opens})"
