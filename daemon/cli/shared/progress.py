"""Progress of a long command, on stderr: a bar on a terminal, else a line now and then.

The first line comes within two seconds, even while other work runs; a command that is over by then prints
none.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from stoker.characters import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


class Report(Protocol):
    """Callback for progress: amount done, total, and the present step."""

    def __call__(self, done: int, total: int, what: str) -> None:
        """Report progress; with nothing done, the time left is estimated from now on."""

    def begin(self, done: int, total: int, what: str) -> None:
        """Report the amount done by an earlier run, and estimate the time left from now on."""


#: Seconds until the first line, and between two of them; Chosen: a log of an hour has some hundreds of lines.
FIRST, BETWEEN = 1.5, 5.0


@dataclass(slots=True)
class _ProgressState:
    done: int = 0
    total: int = 0
    what: str = ""
    #: Steps done when this run began, and its time: loading and preparing before, and the work of an earlier
    #: run, show nothing of the rest.
    first: int = 0
    since: float = field(default_factory=time.monotonic)


@contextlib.contextmanager
def progress_bar() -> Iterator[Report]:
    """Show progress for as long as the context lasts; yields the function that reports it."""
    from daemon.cli.shared import render

    console = render.console(stderr=True)
    with _bar(console) if console.is_terminal else _lines() as report:
        yield report


@contextlib.contextmanager
def _bar(console: "Console") -> Iterator[Report]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Bar(bar, bar.add_task("", total=None))


class _Bar:
    def __init__(self, bar: "Progress", task: "TaskID") -> None:
        self._bar, self._task = bar, task

    def __call__(self, done: int, total: int, what: str) -> None:
        self._bar.update(self._task, completed=done, total=total, description=what)

    def begin(self, done: int, total: int, what: str) -> None:
        # Its samples of speed go: rich would count an earlier run's steps as done since.
        self._bar.reset(self._task, completed=done, total=total, description=what)


class _Lines:
    def __init__(self, state: _ProgressState) -> None:
        self._state = state

    def __call__(self, done: int, total: int, what: str) -> None:
        state = self._state
        if done == 0 or total != state.total:  # another step begins, with another pace
            self.begin(done, total, what)
        state.done, state.what = done, what

    def begin(self, done: int, total: int, what: str) -> None:
        state = self._state
        state.done, state.total, state.what = done, total, what
        state.first, state.since = done, time.monotonic()


@contextlib.contextmanager
def _lines() -> Iterator[Report]:
    state, over, began = _ProgressState(), threading.Event(), time.monotonic()
    stream = sys.stderr  # which is another while libraries are loaded that announce themselves

    def tell() -> None:
        pause = FIRST
        while not over.wait(pause):
            print(f"stoker: {visible(_line(state, time.monotonic() - began))}", file=stream, flush=True)
            pause = BETWEEN

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield _Lines(state)
    finally:
        over.set()
        teller.join()


def _line(state: _ProgressState, seconds: float) -> str:
    """12 of 100: ff on normal; after 34.0 s, about 4 min 9 s left."""
    from daemon.cli.shared import render

    done = f"{state.done} of {state.total}" if state.total else "working"
    what = f": {state.what}" if state.what else ""
    left = ""
    if state.first < state.done < state.total:
        each = (time.monotonic() - state.since) / (state.done - state.first)
        left = f", about {render.duration(each * (state.total - state.done))} left"
    return f"{done}{what}; after {render.duration(seconds)}{left}"
