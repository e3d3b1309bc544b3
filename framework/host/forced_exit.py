"""Ends the process in time after a stop request, even if a thread hangs."""

import os
import sys
import threading
import time

import structlog

log = structlog.get_logger("daemon")

#: Seconds from SIGTERM to the end. The stored state is safe at any moment, and jobs go on without the daemon.
LONGEST_END = 8.0
#: Seconds for the log to take a last line: its reader may stand still.
_LAST_LINE = 1.0
_LAST_RESORT = "last resort"


def end_within(seconds: float = LONGEST_END, code: int = 0) -> None:
    """End this process within so many seconds with that exit code, as if it were killed then.

    A second call does not delay it. A log that nobody reads delays it by a second at most.
    """
    threading.Thread(target=_log, args=(seconds,), name="last words", daemon=True).start()
    threading.Thread(target=_end, args=(seconds + _LAST_LINE, code), name=_LAST_RESORT, daemon=True).start()


def _end(seconds: float, code: int) -> None:
    """Exit after `seconds`; it must not wait for anything else."""
    time.sleep(seconds)
    os._exit(code)


def _log(seconds: float) -> None:
    time.sleep(seconds)
    hanging = [
        thread.name
        for thread in threading.enumerate()
        if not thread.daemon and thread is not threading.current_thread()
    ]
    log.error("ends by force: a thread hangs", seconds=seconds, threads=hanging)
    sys.stderr.flush()


def exit_beside_threads(code: int) -> None:
    """End this process now if it was asked to end: a thread in native code would abort the interpreter."""
    if any(thread.name == _LAST_RESORT for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
