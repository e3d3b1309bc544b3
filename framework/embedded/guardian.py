"""Watches over the process groups of an embedded Mesos and kills them when it dies without a word.

Run as a script by `processes`; it must stay importable by nothing but the standard library. It reads lines
from its standard input: `+PGID` for a group that was started, `-PGID` for one that has ended. When the
input ends, because the other side was killed, every group that is left is killed too.
"""

import os
import signal
import sys


def main() -> None:
    """Follow the groups until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


if __name__ == "__main__":
    main()
