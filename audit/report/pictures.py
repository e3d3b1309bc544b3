"""Pictures of a report as numbers for SVG: bars, steps over time, and savings with their intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from audit.costs import Costs
from audit.executor_use import CAUSES, CoreUse
from audit.held_amounts import FloatArray
from audit.over_time import cores_over_time
from audit.savings.predict import Savings

#: Units of the pictures' own coordinates; they scale with the page.
WIDTH = 900.0
#: Place where labels end and the drawing begins, and width of the numbers beside it.
_LEFT, _RIGHT = 250.0, 90.0
_ROW = 26.0
#: Applications that are drawn, the rest as one; changes and steps over time.
_BARS, _CHANGES, _STEPS = 12, 10, 240
_SHORT = 34


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar, of one cause."""

    cause: str
    x: float
    width: float
    dollars: float


@dataclass(frozen=True, slots=True)
class Bar:
    """An application: dollars by cause."""

    label: str
    short: str
    y: float
    dollars: float
    segments: tuple[Segment, ...]
    end: float


@dataclass(frozen=True, slots=True)
class AxisMark:
    """A line of an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Saved:
    """A change: its saving, and the interval around it."""

    label: str
    short: str
    y: float
    at: float
    low: float
    high: float
    dollars: float


@dataclass(frozen=True, slots=True)
class CostBars:
    """Dollars by application and cause."""

    height: float
    bars: tuple[Bar, ...]
    ticks: tuple[AxisMark, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Cores of executors over time, and those that worked: outlines of two areas."""

    height: float
    paid: str
    worked: str
    times: tuple[AxisMark, ...]
    cores: tuple[AxisMark, ...]
    most: float


@dataclass(frozen=True, slots=True)
class Intervals:
    """The changes that save most, with error bars."""

    height: float
    zero: float
    saved: tuple[Saved, ...]
    ticks: tuple[AxisMark, ...]


def bars(costs: Costs) -> CostBars:
    """The dearest applications, and the rest as one bar."""
    lines = costs.by("type")
    rows = [(line.key, line.dollars) for line in lines[:_BARS]]
    if rest := lines[_BARS:]:
        sums = (sum(getattr(line.dollars, cause) for line in rest) for cause in CAUSES)
        rows.append((f"{len(rest)} more", CoreUse(*sums)))
    most = max((dollars.total for _, dollars in rows), default=0.0) or 1.0
    ticks, top = _axis(0.0, most)
    scale = (WIDTH - _LEFT - _RIGHT) / top
    found = []
    for number, (label, dollars) in enumerate(rows):
        x, segments = _LEFT, []
        for cause in CAUSES:
            width = float(getattr(dollars, cause)) * scale
            segments.append(Segment(cause, round(x, 2), round(width, 2), float(getattr(dollars, cause))))
            x += width
        found.append(
            Bar(label, _shortened(label), number * _ROW, dollars.total, tuple(segments), round(x, 2))
        )
    lines_of = tuple(AxisMark(round(_LEFT + at * scale, 2), _tick(at)) for at in ticks)
    return CostBars(len(rows) * _ROW + 24, tuple(found), lines_of)


def timeline(costs: Costs, height: float = 170.0) -> Timeline | None:
    """Paid and working cores from the first executor to the last; None without executors."""
    found = cores_over_time(costs, _STEPS)
    if found is None:
        return None
    edges, paid, worked = found.edges, found.paid, found.worked
    ticks, top = _axis(0.0, float(paid.max()) or 1.0)
    left, right = 60.0, 10.0
    x = left + (WIDTH - left - right) * np.arange(_STEPS + 1) / _STEPS

    def outline(values: FloatArray) -> str:
        y = height - height * values / top
        points = [f"M{x[0]:.1f},{height:.1f}"]
        points += [f"L{x[n]:.1f},{y[n]:.1f}L{x[n + 1]:.1f},{y[n]:.1f}" for n in range(len(values))]
        return "".join([*points, f"L{x[-1]:.1f},{height:.1f}Z"])

    long = edges[-1] - edges[0] > 2 * 86_400
    form = "%Y-%m-%d" if long else "%d %b %H:%M"
    times = [
        AxisMark(round(float(x[n]), 1), datetime.fromtimestamp(float(edges[n]), UTC).strftime(form))
        for n in range(_STEPS // 8, _STEPS, _STEPS // 4)
    ]
    marks = tuple(AxisMark(round(height - height * at / top, 1), f"{at:g}") for at in ticks)
    return Timeline(height, outline(paid), outline(worked), tuple(times), marks, float(paid.max()))


def intervals(savings: Savings) -> Intervals | None:
    """The changes that save most; None where none does."""
    found = savings.changes[:_CHANGES]
    if not found:
        return None
    lowest = min(0.0, *(each.saving.low for each in found))
    highest = max(each.saving.high for each in found)
    ticks, _ = _axis(lowest, highest)
    begin, end = min(lowest, ticks[0]), max(highest, ticks[-1])
    scale = (WIDTH - _LEFT - _RIGHT) / (end - begin or 1.0)

    def at(dollars: float) -> float:
        return round(_LEFT + (dollars - begin) * scale, 2)

    saved = tuple(
        Saved(
            each.title,
            _shortened(each.subject, each.title.removeprefix(each.subject)),
            number * _ROW,
            at(each.saving.middle),
            at(each.saving.low),
            at(each.saving.high),
            each.saving.middle,
        )
        for number, each in enumerate(found)
    )
    lines = tuple(AxisMark(at(each), _tick(each)) for each in ticks)
    return Intervals(len(found) * _ROW + 24, at(0.0), saved, lines)


def _axis(low: float, high: float) -> tuple[Sequence[float], float]:
    """Round numbers from below `low` to `high`, some four of them, and the end of the axis."""
    raw = (high - low) / 4 or 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= raw)
    numbers = range(math.floor(low / step + 1e-9), math.floor(high / step + 1e-9) + 1)
    ticks = [round(number * step, 12) for number in numbers]
    return ticks, max(high, ticks[-1])


def _shortened(label: str, end: str = "") -> str:
    room = _SHORT - len(end)
    return (label if len(label) <= room else f"{label[: room - 1]}…") + end


def _tick(dollars: float) -> str:
    return f"-{_tick(-dollars)}" if dollars < 0 else f"${dollars:,.4g}"
