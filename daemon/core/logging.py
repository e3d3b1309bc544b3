"""The daemon's log on standard error: one line per event, of libraries too, in bounded amount.

A client, a master or a job that makes the daemon log could otherwise fill the disk.
"""

import contextlib
import logging
import sys
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import structlog
from stoker.characters import visible

Event = MutableMapping[str, Any]

#: Seconds' worth of lines that may come at once.
_BURST = 10.0
#: Kinds of lines that are distinguished; texts of more kinds than this contain users' input.
_MOST_KINDS = 1000


@dataclass(slots=True)
class _Kind:
    """Number of lines of a kind that may still be written, until when, and number of dropped ones."""

    left: float
    at: float
    suppressed: int = 0


class Throttle:
    """A structlog processor that counts and drops events of one kind (how their text begins) beyond a rate.

    How many were dropped stands on the next event of that kind that is let through; `say_suppressed` tells of
    those that were not followed by another.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._kinds: dict[str, _Kind] = {}

    def __call__(self, _: Any, __: str, event: Event) -> Event:
        """Return the event, or raise structlog.DropEvent."""
        # Texts of libraries contain values: their common part is the beginning.
        name = str(event.get("event", ""))[:24]
        with self._lock:
            now = self._clock()
            if name not in self._kinds and len(self._kinds) >= _MOST_KINDS:
                name = ""
            kind = self._kinds.setdefault(name, _Kind(self._most, now))
            kind.left, kind.at = min(self._most, kind.left + (now - kind.at) * self._rate), now
            if kind.left < 1:
                kind.suppressed += 1
                raise structlog.DropEvent
            kind.left -= 1
            if kind.suppressed:
                event["suppressed_before"], kind.suppressed = kind.suppressed, 0
        return event

    def suppressed(self) -> list[tuple[str, int]]:
        """Counts of dropped lines not reported yet, by kind that may be written again; resets them."""
        with self._lock:
            now = self._clock()
            found = []
            for text, kind in self._kinds.items():
                if kind.suppressed and kind.left + (now - kind.at) * self._rate >= self._most:
                    found.append((text, kind.suppressed))
                    kind.suppressed = 0
            return found

    @property
    def _most(self) -> float:
        return max(1.0, self._rate * _BURST)


def configure_logging(level: str, rate: float) -> Throttle:
    """Log events of at least a level, at most `rate` lines of one kind a second; of libraries, warnings."""
    throttle = Throttle(rate)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            throttle,
            structlog.processors.TimeStamper(fmt="iso", utc=False),
            structlog.processors.format_exc_info,
            _seen,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(_Stderr()),  # type: ignore[arg-type]  # as much of a file as print needs
    )
    logging.basicConfig(handlers=[_Bridge()], level=logging.WARNING, force=True)
    return throttle


def _seen(_: Any, __: str, event: Event) -> Event:
    """Escape characters that could control the reader's terminal; repr escapes those of other values."""
    return {name: visible(value) if isinstance(value, str) else value for name, value in event.items()}


def say_suppressed(throttle: Throttle) -> None:
    """Log the dropped lines not reported yet; to be called at intervals."""
    for text, count in throttle.suppressed():
        structlog.get_logger("log").warning("lines of one kind were left out", like=text, count=count)


class _Bridge(logging.Handler):
    """Forwards log records of libraries to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record, but for requests that are cut off as the daemon stops: uvicorn logs their number."""
        if record.exc_info is not None and isinstance(record.exc_info[1], CancelledError):
            return
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = str(record.msg)
        structlog.get_logger().log(record.levelno, text, library=record.name, exc_info=record.exc_info)


class _Stderr:
    """Standard error; a failed write (a full disk, a closed reader) is ignored."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
