"""Numbers, times and tables for people: one value in, one short text or a rich table out.

The modules `..._tables` define the tables; this one does not know the API. To be imported inside commands
only: rich takes its time.
"""

import os
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text
from stoker.characters import visible

from conf.util.counted import counted
from conf.util.dollars import money as dollars_as_text

NONE = "-"

#: Where no terminal sets a width, lines are as long as they are: programs read them (columns).
_PIPE_WIDTH = 100_000
#: A cell that is cut keeps so many characters at least; between two columns there are so many.
_SHORTEST, _GAP = 6, 3
#: A cell of which the rest is in the next line keeps as many as words need; columns are left out before.
_LINE = 20
_STATE_STYLES = {
    "finished": "green",
    "running": "cyan",
    "failed": "bold red",
    "lost": "red",
    "killed": "yellow",
    "unreachable": "yellow",
    "relaunching": "yellow",
}


def console(*, stderr: bool = False, wide: bool = False) -> Console:
    """A console for stdout or stderr; NO_COLOR is respected.

    In a pipe, or where it is `wide`, lines are as long as they are.
    """
    stream = sys.stderr if stderr else sys.stdout
    narrow = not wide and (stream.isatty() or "COLUMNS" in os.environ)
    width = None if narrow else _PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def show(*parts: RenderableType, wide: bool = False) -> None:
    """Print to stdout; `wide`: lines as long as they are, on a terminal, too."""
    out = console(wide=wide)
    for part in parts:
        out.print(plain(part) if isinstance(part, str) else part)


def plain(text: str) -> str:
    """Escape characters that could control the reader's terminal or hide text."""
    return visible(text)


def wrapped(text: str, mark: str = "") -> str:
    """The text in lines as wide as the terminal, in a pipe in one; the first with the mark."""
    behind = " " * len(mark)
    return textwrap.fill(text, console().width, initial_indent=mark, subsequent_indent=behind)


def duration(seconds: float | None) -> str:
    """12.3 s, 2 min 5 s, 3 h 12 min, 2 d 4 h."""
    if seconds is None:
        return NONE
    if seconds < 59.95:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    for size, unit, rest_size, rest_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // rest_size} {rest_unit}"
    return f"{whole // 60} min {whole % 60} s"


def money(dollars: float | None) -> str:
    """Dollars as text; a dash where they are not known."""
    return NONE if dollars is None else dollars_as_text(dollars)


def memory(mib: float | None) -> str:
    """512 MiB, 1 GiB, 1.5 GiB."""
    if mib is None:
        return NONE
    return f"{mib:g} MiB" if mib < 1024 else f"{round(mib / 1024, 1):g} GiB"


def cpus(amount: float | None) -> str:
    """1 cpu, 0.5 cpus."""
    return NONE if amount is None else counted(amount, "cpu")


def count(number: int, noun: str) -> str:
    """1 executor, 3 executors."""
    return counted(number, noun)


def clock(at: float | None) -> str:
    """The local time of day, with the date unless that is today; seconds where a number is no time."""
    if at is None:
        return NONE
    try:
        moment = datetime.fromtimestamp(at).astimezone()
    except (ValueError, OverflowError, OSError):
        return f"{at:g} s"
    today = moment.date() == datetime.now().astimezone().date()
    return moment.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


def state(name: str) -> Text:
    """A job's or executor's state in its colour."""
    return Text(plain(name), style=_STATE_STYLES.get(name, ""))


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    right: Iterable[str] = (),
    title: str = "",
) -> Table:
    """A table without frame; the columns named in `right` hold numbers."""
    made = Table(
        box=box.SIMPLE_HEAD,
        title=Text(plain(title), style="bold") if title else None,
        title_justify="left",
        pad_edge=False,
        show_edge=False,
        header_style="bold",
    )
    for name in columns:
        made.add_column(name, justify="right" if name in set(right) else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(plain(cell)) for cell in row))
    return made


def fitted(
    columns: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    *,
    wide: bool = False,
    right: Collection[str] = (),
    cut: Collection[str] = (),
    wrap: Collection[str] = (),
    spare: Sequence[str] = (),
) -> Table:
    """A table as wide as the terminal; in a pipe, or with `wide`, as wide as it is.

    For that, cells of the columns in `cut` end in an ellipsis, and those of the columns in `wrap` go on in
    the next line: always of the widest of them first. Where even that is too wide, columns of `spare` are
    left out, the first first.
    """
    cells = [[cell if isinstance(cell, Text) else Text(plain(cell)) for cell in row] for row in rows]
    if wide:
        return table(columns, cells, right=right)
    widths = _widths(columns, cells, {*cut}, {*wrap})
    if widths is None:
        if not spare:
            return table(columns, cells, right=right)
        kept = [at for at, name in enumerate(columns) if name != spare[0]]
        columns, rows = [columns[at] for at in kept], [[row[at] for at in kept] for row in cells]
        return fitted(columns, rows, wide=False, right=right, cut=cut, wrap=wrap, spare=spare[1:])
    for row in cells:
        for at, name in enumerate(columns):
            if name in cut:
                row[at] = row[at].copy()
                row[at].truncate(widths[at], overflow="ellipsis")
    made = table(columns, cells, right=right)
    for column, width in zip(made.columns, widths, strict=True):
        column.width = width
    return made


def _widths(
    columns: Sequence[str], cells: Sequence[Sequence[Text]], cut: Collection[str], wrap: Collection[str]
) -> list[int] | None:
    """How wide each column is when all fit, those that are flexible cut; None where they cannot."""
    found = [max([cell_len(name), *(row[at].cell_len for row in cells)]) for at, name in enumerate(columns)]
    least = [max(cell_len(name), _LINE if name in wrap else _SHORTEST) for name in columns]
    room = console().width - _GAP * (len(columns) - 1)
    while sum(found) > room:
        longer = [at for at, name in enumerate(columns) if name in {*cut, *wrap} and found[at] > least[at]]
        if not longer:
            return None
        found[max(longer, key=lambda at: found[at])] -= 1
    return found


def pairs(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """Names and values below each other."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="bold")
    made.add_column(overflow="fold")
    for name, value in rows:
        made.add_row(name, value if isinstance(value, Text) else Text(plain(value)))
    return made
