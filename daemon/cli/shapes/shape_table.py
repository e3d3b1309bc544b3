"""The command `shapes`: duration and cost of each shape for a type of jobs, and the chosen one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conf.defaults import RESOURCE_WEIGHT
from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.options import Output, option, print_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from profiles.shapes.advice import ShapeAdvice
    from profiles.shapes.choice import RankedShape
    from profiles.shapes.runs import JobShape

#: Shapes that are shown: the best ones, beside the chosen one and its neighbours.
_SHOWN = 12


def shapes(
    type_name: Annotated[str, typer.Argument(metavar="TYPE", help="The type of jobs.", show_default=False)],
    runs: Annotated[
        list[str],
        typer.Option(
            "--runs",
            metavar="PLACE",
            help="Where its runs are: a .csv, a folder of `stoker profile`, a daemon's data folder, or event "
            "logs; can be repeated.",
        ),
    ],
    cluster: Annotated[
        str | None,
        option(
            "--cluster", "VMs to choose from: a name or a .yaml file; without it, shapes of a .csv.", "NAME"
        ),
    ] = None,
    executors: Annotated[
        str, typer.Option("--executors", metavar="N|auto:MIN-MAX", help="Number of executors.")
    ] = "auto",
    cpus: Annotated[
        str, typer.Option("--cpus", metavar="CPUS|auto:MIN-MAX", help="Cpus of one executor.")
    ] = "auto",
    memory: Annotated[
        str, typer.Option("--memory", metavar="SIZE|auto:MIN-MAX", help="Memory of one executor: auto:1g-8g.")
    ] = "auto",
    input_gib: Annotated[
        float | None, option("--input", "GiB of input of the job; by default that of the middle run.", "GIB")
    ] = None,
    beta: Annotated[
        float, typer.Option("--beta", min=0, max=1, help="Weight of money; the rest is that of time.")
    ] = RESOURCE_WEIGHT,
    every: Annotated[
        bool,
        typer.Option("--all", help=f"Show every shape, not the best {_SHOWN} and those beside the choice."),
    ] = False,
    output: Output = "table",
) -> None:
    """Show the duration and cost of a type's jobs on each shape of executors, learned from their runs.

    The choice is marked with *. Seconds and dollars are medians, with an interval of 80 %.

    Example: stoker shapes etl --runs stoker-data --cluster paper --executors auto:2-16
    """
    if input_gib is not None and not input_gib > 0:
        raise CommandError(f"--input: should be more than 0 GiB, found {input_gib:g}")
    from daemon.cli.shapes.shape_advice import advised

    bounds = {"executors": executors, "cpus": cpus, "memory": memory}
    advice = advised(type_name, runs, cluster, bounds, beta, input_gib)
    if output == "json":
        print_json(to_json(type_name, advice))
    else:
        from daemon.cli.shared import render

        render.show(*_table(type_name, advice, every=every))


def to_json(type_name: str, advice: "ShapeAdvice") -> dict[str, Any]:
    """The advice as JSON: shapes in their order, and which one is chosen."""
    return {
        "type": type_name,
        "runs": advice.runs,
        "shapes_run": advice.shapes,
        "learned": advice.learned,
        "shapes": [
            {
                "executors": each.shape.executors,
                "cpus": each.shape.cores,
                "memory_mib": round(each.shape.memory_gib * 1024),
                "vm": each.shape.vm,
                "seconds": each.seconds,
                "seconds_between": [each.least, each.most],
                "dollars": each.dollars,
                "dollars_between": [each.shape.dollars(each.least), each.shape.dollars(each.most)],
                "excess": each.excess,
                "chosen": each.shape == advice.shape,
            }
            for each in advice.ranked
        ],
    }


def _table(type_name: str, advice: "ShapeAdvice", *, every: bool) -> "Iterator[RenderableType]":
    from daemon.cli.shared import render

    known = (
        f"{render.count(advice.runs, 'run')} of type {type_name} on {render.count(advice.shapes, 'shape')}"
    )
    if advice.learned:
        yield f"Learned from {known}."
    else:
        yield f"Only {known}: the marked shape is the one to try next, since one shape tells no ratio."
    beside = {each.shape for each in (advice.of(advice.shape), *advice.beside) if each is not None}
    shown = [e for n, e in enumerate(advice.ranked) if every or n < _SHOWN or e.shape in beside]
    columns = ("", "executors", "cpus", "memory", "VM", "seconds", "dollars", "excess")
    yield render.table(
        columns, [_row(each, advice.shape) for each in shown], right=columns[1:4] + columns[5:]
    )
    if left := len(advice.ranked) - len(shown):
        yield f"{render.count(left, 'more shape')} not shown; --all shows every one."


def _row(each: "RankedShape", chosen: "JobShape") -> tuple[str, ...]:
    from daemon.cli.shared import render
    from profiles.shapes.told import seconds_text

    shape, amounts = each.shape, (each.seconds, each.least, each.most)
    seconds = [seconds_text(amount) for amount in amounts]
    dollars = [render.money(shape.dollars(amount)) for amount in amounts]
    return (
        "*" if shape == chosen else "",
        str(shape.executors),
        f"{shape.cores:g}",
        render.memory(shape.memory_gib * 1024),
        shape.vm or render.NONE,
        f"{seconds[0]} ({seconds[1]} to {seconds[2]})",
        f"{dollars[0]} ({dollars[1]} to {dollars[2]})",
        f"{each.excess:.2f}",
    )
