"""Ends the process in time after it was told to stop, whichever of its threads hangs."""

import os
import sys
import threading
import time

import structlog

log = structlog.get_logger("daemon")

#: Seconds from SIGTERM to the end. What is stored is safe at any moment, and jobs go on without the daemon.
LONGEST_END = 8.0


def end_within(seconds: float = LONGEST_END) -> None:
    """Have this process end in so many seconds, as if it were killed then; called again, it is no later."""
    threading.Thread(target=_end, args=(seconds,), name="last resort", daemon=True).start()


def _end(seconds: float) -> None:
    time.sleep(seconds)
    hanging = [
        thread.name
        for thread in threading.enumerate()
        if not thread.daemon and thread is not threading.current_thread()
    ]
    log.error("ends by force: a thread hangs", seconds=seconds, threads=hanging)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
