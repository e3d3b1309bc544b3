"""Tables of `profile curve`: every measured size, and the effect of half the cores."""

import statistics
from collections.abc import Iterable, Mapping

from daemon.cli.shared import render
from profiles.curve_check import HalvingCheck, MeasuredCurve, MeasuredSize

_SIZES = ("type", "law", "size", "runs", "measured s", "curve s", "off", "held out s", "off")
_HALVES = ("type", "size", "longer", "by curve", "work alone", "core-s saved")


def show_curves(curves: Mapping[str, MeasuredCurve]) -> None:
    """Print two tables: sizes by type, and halvings of the number of cores."""
    rows = [
        (found.type if not number else "", found.law if not number else "", *_size(size))
        for found in curves.values()
        for number, size in enumerate(found.sizes)
    ]
    render.show(render.table(_SIZES, rows, right=_SIZES[3:], title="Sizes: executors x cpus"))
    sizes = [size for found in curves.values() for size in found.sizes]
    told = (
        f"A curve is {_mean(abs(size.fitted / size.seconds - 1) for size in sizes)} off the sizes that it "
        "was fitted to"
    )
    held_out = [abs(size.held_out / size.seconds - 1) for size in sizes if size.held_out is not None]
    render.show(told + (f", {_mean(held_out)} off held-out sizes." if held_out else "."))
    halves = [
        (found.type if not number else "", *_half(half))
        for found in curves.values()
        for number, half in enumerate(found.halvings)
    ]
    if halves:
        every = [half for found in curves.values() for half in found.halvings]
        means = [
            _mean(getattr(half, what) for half in every)
            for what in ("longer", "by_curve", "work_longer", "saved")
        ]
        render.show(
            render.table(_HALVES, [*halves, ("mean", "", *means)], right=_HALVES[1:], title="Half the cores")
        )


def _size(size: MeasuredSize) -> tuple[str, ...]:
    held_out = size.held_out
    return (
        f"{size.executors} x {size.cpus:g}",
        str(size.runs),
        f"{size.seconds:.1f} ± {size.spread:.1f}",
        f"{size.fitted:.1f}",
        f"{size.fitted / size.seconds - 1:+.0%}",
        render.NONE if held_out is None else f"{held_out:.1f}",
        render.NONE if held_out is None else f"{held_out / size.seconds - 1:+.0%}",
    )


def _half(half: HalvingCheck) -> tuple[str, ...]:
    shares = (half.longer, half.by_curve, half.work_longer, half.saved)
    size = f"{half.executors} x {half.cpus:g} to {half.half_executors} x {half.half_cpus:g}"
    return size, *(f"{share:.0%}" for share in shares)


def _mean(shares: Iterable[float]) -> str:
    return f"{statistics.fmean(shares):.0%}"
