"""When each job that waits will start and what it will cost, as believed now: made anew every few seconds.

What is made of it for users is a part of their job's body. How often the truth was within the first interval
that was given is counted, so that nobody has to take estimates on trust.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from daemon.contract import RejectedError
from daemon.foresight.cases import Present
from daemon.foresight.foresight import Interval, PolicyAhead
from environment.model.records import JobRecord

log = structlog.get_logger("estimates")

#: Draws of each estimate, and for how many seconds one is made at most. Chosen: the ends of an interval of 20
#: are the lowest and the highest but one.
_DRAWS, _SECONDS = 20, 2.0
#: Seconds between two at least, and how much longer than an estimate took it is rested.
_PAUSE, _REST = 2.0, 10.0
#: Of so many jobs the first estimate is kept until they start.
_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """What was expected of a job at a time: when it starts and ends, seconds since the epoch, and dollars."""

    at: float
    start: Interval
    end: Interval
    cost: Interval


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many jobs started within the first interval of 90 % that was given, before it, and after it."""

    within: int = 0
    before: int = 0
    after: int = 0


class Asked(Protocol):
    """What estimates are made by; `Foresight` is such."""

    def ask(
        self, policies: list[tuple[str, dict[str, Any]]], *, draws: int, seconds: float
    ) -> tuple[Present, list[PolicyAhead]]:
        """See `Foresight.ask`."""
        ...


class Estimates:
    """Keeps estimates of those who wait; `start` and `stop` are for the loop, the rest for any thread."""

    def __init__(self, foresight: Asked, acting: Callable[[], tuple[str, dict[str, Any]]]) -> None:
        """`acting` says who decides: name and options."""
        self._foresight = foresight
        self._acting = acting
        self._latest: Mapping[str, Estimate] = {}
        self._first: dict[str, Interval] = {}
        self._coverage = Coverage()
        self._waits = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="estimates", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Make no more of them."""
        self._over.set()
        self._waits.set()

    def of_all(self) -> Mapping[str, Estimate]:
        """The latest of each job that waited when it was made, by id."""
        return self._latest

    def coverage(self) -> Coverage:
        """How well they did so far."""
        return self._coverage

    def observe(self, changed: Collection[JobRecord], *, waiting: bool) -> None:
        """These jobs have changed; whether any waits now. For the loop."""
        if waiting:
            self._waits.set()
        else:
            self._waits.clear()
        for record in changed:
            if record.state == "queued" or (told := self._first.pop(record.job.id, None)) is None:
                continue
            if record.placed_at is not None:
                self._count(told, record.placed_at)

    def _count(self, told: Interval, placed_at: float) -> None:
        was = self._coverage
        if placed_at < told.low - _PAUSE:
            self._coverage = Coverage(was.within, was.before + 1, was.after)
        elif placed_at > told.high + _PAUSE:
            self._coverage = Coverage(was.within, was.before, was.after + 1)
        else:
            self._coverage = Coverage(was.within + 1, was.before, was.after)

    def _run(self) -> None:
        failed = ""
        while not self._over.is_set():
            self._waits.wait()
            if self._over.wait(_PAUSE):
                return
            began = time.monotonic()
            try:
                self._make()
                failed = ""
            except RejectedError:
                pass  # somebody else asks now, or the loop is busy
            except Exception as error:  # an estimate is never worth more than the loop
                if (why := repr(error)) != failed:
                    log.warning("no estimates are made", why=why)
                failed = why
            self._over.wait(_REST * (time.monotonic() - began))

    def _make(self) -> None:
        present, (found,) = self._foresight.ask([self._acting()], draws=_DRAWS, seconds=_SECONDS)
        at = present.view.at
        latest = {
            job_id: Estimate(at, job.start.later(at), job.end.later(at), job.cost)
            for job_id, job in found.jobs.items()
        }
        for job_id, estimate in latest.items():
            if len(self._first) < _KEPT:
                self._first.setdefault(job_id, estimate.start)
        self._latest = latest
