"""Beats of an embedded Mesos: shows to the daemon that its loop runs, by a file that no task can touch.

A question over its port would not do: strangers can fill the port, so that no answer comes in time.
"""

import asyncio
import contextlib
import os
import time
from pathlib import Path

#: Time of its last change: CLOCK_MONOTONIC, which all processes of a machine share.
_FILE = "beats"
#: Seconds between two beats.
_PERIOD = 0.5


async def beat(work_dir: Path) -> None:
    """Beat until cancelled."""
    with (work_dir / _FILE).open("wb") as file:
        while True:
            now = time.monotonic_ns()
            with contextlib.suppress(OSError):
                os.utime(file.fileno(), ns=(now, now))
            await asyncio.sleep(_PERIOD)


def since_beat(work_dir: Path) -> float | None:
    """Seconds since the last beat; None where there is none, or it is of an earlier start of the machine."""
    try:
        seconds = time.monotonic() - (work_dir / _FILE).stat().st_mtime_ns / 1e9
    except OSError:
        return None
    return seconds if seconds >= 0 else None
