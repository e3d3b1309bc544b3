"""`stoker` on a machine with a wrong wall clock: `python -m tests.chaos.skewed up --config FILE`.

CHAOS_CLOCK names a file with the seconds by which it is off, a double; they may change at any time.
"""

import mmap
import os
import struct
import sys
import time
from pathlib import Path

SECONDS = struct.Struct("d")


def main() -> int:
    """Replace the clock before any module binds it, then run `stoker`."""
    with Path(os.environ["CHAOS_CLOCK"]).open("rb") as file:
        shared = mmap.mmap(file.fileno(), SECONDS.size, access=mmap.ACCESS_READ)
    right = time.time
    time.time = lambda: right() + float(SECONDS.unpack_from(shared)[0])

    from daemon.cli import main as stoker

    return stoker()


if __name__ == "__main__":
    sys.exit(main())
