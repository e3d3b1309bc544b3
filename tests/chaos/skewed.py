"""`stoker` on a machine whose wall clock is wrong: `python -m tests.chaos.skewed up --config FILE`.

CHAOS_CLOCK names a file with the seconds by which it is, a double; they may change at any time.
"""

import mmap
import os
import struct
import sys
import time
from pathlib import Path

SECONDS = struct.Struct("d")


def main() -> int:
    """Replace the clock before anybody keeps it, then do what `stoker` does."""
    with Path(os.environ["CHAOS_CLOCK"]).open("rb") as file:
        shared = mmap.mmap(file.fileno(), SECONDS.size, access=mmap.ACCESS_READ)
    right = time.time
    time.time = lambda: right() + float(SECONDS.unpack_from(shared)[0])

    from daemon.cli import main as stoker

    return stoker()


if __name__ == "__main__":
    sys.exit(main())
