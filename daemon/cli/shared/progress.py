"""How a command that takes long says how far it is, on stderr: a bar on a terminal, else a line now and then.

Whatever is done in the meantime, the first line comes within two seconds; what is over by then says nothing.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from conf.util.printable import visible

if TYPE_CHECKING:
    from rich.console import Console

#: Takes how much is done, of how much, and what is being done.
Report = Callable[[int, int, str], None]

#: Seconds until the first line, and between two of them; Chosen: a log of an hour has some hundreds of lines.
FIRST, BETWEEN = 1.5, 5.0


@dataclass(slots=True)
class _ProgressState:
    done: int = 0
    total: int = 0
    what: str = ""
    #: When nothing was done yet for the last time: loading and preparing before that say nothing of the rest.
    since: float = field(default_factory=time.monotonic)


@contextlib.contextmanager
def progress_bar() -> Iterator[Report]:
    """Say how far it is for as long as the context lasts, from what the function is told that it gives."""
    from daemon.cli.shared import render

    console = render.console(stderr=True)
    with _bar(console) if console.is_terminal else _lines() as report:
        yield report


@contextlib.contextmanager
def _bar(console: "Console") -> Iterator[Report]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def report(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield report


@contextlib.contextmanager
def _lines() -> Iterator[Report]:
    state, over, began = _ProgressState(), threading.Event(), time.monotonic()
    stream = sys.stderr  # which is another while libraries are loaded that announce themselves

    def report(done: int, total: int, what: str) -> None:
        state.done, state.total, state.what = done, total, what
        if done == 0:
            state.since = time.monotonic()

    def tell() -> None:
        pause = FIRST
        while not over.wait(pause):
            print(f"stoker: {visible(_line(state, time.monotonic() - began))}", file=stream, flush=True)
            pause = BETWEEN

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield report
    finally:
        over.set()
        teller.join()


def _line(state: _ProgressState, seconds: float) -> str:
    """12 of 100: ff on normal; after 34.0 s, about 4 min 9 s left."""
    from daemon.cli.shared import render

    done = f"{state.done} of {state.total}" if state.total else "working"
    what = f": {state.what}" if state.what else ""
    left = ""
    if 0 < state.done < state.total:
        each = (time.monotonic() - state.since) / state.done
        left = f", about {render.duration(each * (state.total - state.done))} left"
    return f"{done}{what}; after {render.duration(seconds)}{left}"
