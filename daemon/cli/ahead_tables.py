"""Tables of what would come of the queue, of the answer to `POST /v1/what-if`."""

from collections.abc import Callable, Iterator
from typing import Any

from rich.console import RenderableType

from daemon.cli import render
from daemon.cli.views import between


def ahead(answer: dict[str, Any], *, jobs: bool) -> Iterator[RenderableType]:
    """A line for each policy; with `jobs`, below that when each of them would run."""
    waiting, found = answer["waiting"], answer["policies"]
    figures = ("draws", "VMs cost", "jobs end after", "all over after", "late", "never")
    who = "1 job waits" if waiting == 1 else f"{waiting} jobs wait"
    if answer["others"]:
        who += (
            f", and {answer['others']} more that are not played: they pause, wait aside, or stand far "
            "behind in the order"
        )
    yield f"{who}. Means of the draws, and in brackets where 9 of 10 are:"
    if len({each["case"] for each in found}) == 1:
        rows = [(_label(each), *_cells(each)) for each in found]
        yield render.table(("policy", *figures), rows, right=figures)
    else:
        rows = [(each["case"], _label(each), *_cells(each)) for each in found]
        yield render.table(("case", "policy", *figures), rows, right=figures)
    for each in found:
        if each["failure"]:
            yield f"{each['case']}, {_label(each)}: {each['failure']}"
    for each in found if jobs and waiting else ():
        yield f"\n{each['case']}, {_label(each)}"
        yield from _jobs(each)
    yield f"Nothing was touched. Assumed: {'; '.join(answer['assumes'])}."


def _jobs(found: dict[str, Any]) -> Iterator[RenderableType]:
    columns = ("job", "name", "starts in", "ends in", "costs", "")
    rows = [
        (
            job["id"],
            job["name"],
            _between(job["start"], render.duration),
            _between(job["end"], render.duration),
            _between(job["cost"], render.money),
            "late" if job["late"] else "",
        )
        for job in found["jobs"]
    ]
    if rows:
        yield render.table(columns, rows, right=columns[2:5])
    for never in found["never"]:
        yield f"{never['id']} would not run: {never['why']}"


def _label(found: dict[str, Any]) -> str:
    options = ", ".join(f"{key}={value}" for key, value in found["options"].items())
    return f"{found['name']} ({options})" if options else str(found["name"])


def _cells(found: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(found["draws"]),
        _between(found["dollars"], render.money),
        _between(found["completion"], render.duration),
        _between(found["seconds"], render.duration),
        str(found["late"]),
        str(len(found["never"])),
    )


def _between(found: dict[str, float] | None, told: Callable[[float], str]) -> str:
    return render.NONE if found is None else between(found, told)
