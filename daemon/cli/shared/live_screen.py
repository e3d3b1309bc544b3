"""A screen that is redrawn until `q` or Ctrl-C; the caller provides the content."""

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text
from stoker import UnreachableError

from daemon.cli.shared import render

Picture = Callable[[], Sequence[RenderableType]]


def screen(picture: Picture, interval: float) -> None:
    """Show pictures, one every so many seconds, in a terminal of which both ends are here.

    While no daemon answers the last picture stays, and says so; all else that goes wrong is raised.
    """
    console = render.console()
    shown: list[RenderableType] = []
    on = Live(console=console, screen=True, auto_refresh=False)
    with contextlib.suppress(KeyboardInterrupt), _keys() as pressed, on as live:
        while True:
            try:
                shown = [render.plain(each) if isinstance(each, str) else each for each in picture()]
                note = f"{time.strftime('%H:%M:%S')}, every {interval:g} s; q ends"
            except UnreachableError as error:
                note = f"{time.strftime('%H:%M:%S')} {error}; trying again"
            live.update(Group(Text(render.plain(note), style="dim"), *shown), refresh=True)
            if pressed(interval):
                return


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits some seconds for `q` and returns whether it came; never if no terminal."""
    if not sys.stdin.isatty():
        yield lambda seconds: threading.Event().wait(seconds)
        return
    import termios
    import tty

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)

    def pressed(seconds: float) -> bool:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and select.select([file], [], [], left)[0]:
            if os.read(file, 1) in (b"q", b"Q", b""):  # empty: the terminal is gone
                return True
        return False

    try:
        tty.setcbreak(file)
        yield pressed
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)
