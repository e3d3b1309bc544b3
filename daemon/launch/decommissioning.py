"""Tells drivers to decommission their leaving executors, where the drivers do not ask for that themselves.

Drivers with our part of Spark learn it from the answers to their heartbeats, see `applications.py`. All
others that Stoker starts have a page for it beside their UI (`KeyFilter.java`), which is called from here, on
worker threads, until the executors are gone; a driver ignores a repeated call.

Spark gives up at once moving blocks if there is no other executor. So drivers wait until there is one.
"""

import re
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlencode

import structlog

from conf.util.backoff import Backoff
from daemon.core.job_workers import JobWorkers
from daemon.store.rows.database import StoreError
from environment.model.messages.records import ExecutorRecord, JobRecord
from framework.spark import DriverUi

log = structlog.get_logger("draining")

#: Threads, seconds that one may be busy with a driver, and seconds for each step of that.
_THREADS, _PATIENCE, _STEP = 4, 15.0, 5.0
#: Bytes of the first line of its answer.
_LONGEST_LINE = 1 << 10
#: Seconds until a driver that has received it is notified again.
_AGAIN = 10.0
#: Pauses until one that has not received it is notified again.
_BACKOFF = Backoff(first=1.0, longest=60.0)
#: Seconds for which executors are kept until another one is there to take their blocks.
_COMPANY = 120.0
_LAST_PATIENCE = 1.0


def are_late(since: Iterable[float], now: float) -> bool:
    """Whether some of the executors that are to go since then have waited long enough for others to come."""
    return any(now - at > _COMPANY for at in since)


@dataclass(slots=True)
class _DepartingExecutors:
    """Leaving executors of a job, and when its driver is notified next, in monotonic seconds."""

    record: JobRecord
    numbers: dict[int, float] = field(default_factory=dict)
    due: float = 0.0
    failures: int = 0
    told: tuple[int, ...] = ()


class Decommissioning:
    """Notifies drivers of their leaving executors. For the loop's thread; never waits."""

    def __init__(self, ui: Callable[[JobRecord], DriverUi | None], now: Callable[[], float]) -> None:
        """`ui` says where the UI of a job's driver is, from any thread; None where it has none now."""
        self._ui = ui
        self._now = now
        self._crew = JobWorkers(_THREADS, _PATIENCE)
        self._leaving: dict[str, _DepartingExecutors] = {}

    def observe(self, executors: Iterable[ExecutorRecord], job: Callable[[str], JobRecord | None]) -> None:
        """Note which executors are to go, and which are gone."""
        for task in executors:
            leaving = self._leaving.get(task.job_id)
            if task.number is None or (leaving is None and task.decommissioned_at is None):
                continue
            if task.decommissioned_at is None or task.ended:
                self._gone(task.job_id, task.number)
            elif (record := job(task.job_id)) is not None and _is_told_here(record):
                leaving = self._leaving.setdefault(task.job_id, _DepartingExecutors(record))
                if task.number not in leaving.numbers:
                    leaving.numbers[task.number] = task.decommissioned_at
                    leaving.due = 0.0

    def tend(self) -> None:
        """Notify the drivers that are due."""
        now = time.monotonic()
        for job_id in self._crew.overdue():
            log.warning("notifying a driver of its departing executors takes too long", job=job_id)
        for job_id, leaving in list(self._leaving.items()):
            if leaving.record.ended:
                del self._leaving[job_id]
            elif leaving.due <= now:
                leaving.due = now + _PATIENCE
                numbers, alone = (
                    tuple(sorted(leaving.numbers)),
                    are_late(leaving.numbers.values(), self._now()),
                )
                self._crew.hand(job_id, partial(self._tell, leaving, numbers, alone=alone))

    @property
    def hanging(self) -> int:
        """Number of threads that hang."""
        return self._crew.hanging

    def close(self) -> None:
        """Notify nobody more; the next daemon does."""
        self._crew.close(_LAST_PATIENCE)

    def _gone(self, job_id: str, number: int) -> None:
        leaving = self._leaving.get(job_id)
        if leaving is not None:
            leaving.numbers.pop(number, None)
            if not leaving.numbers:
                del self._leaving[job_id]

    def _tell(self, leaving: _DepartingExecutors, numbers: tuple[int, ...], *, alone: bool) -> None:
        job_id = leaving.record.job.id
        try:
            ui = self._ui(leaving.record)
            if ui is None:
                raise ValueError("it has no UI now")
            heard = tell(ui, numbers, alone=alone)
        except (OSError, ValueError, StoreError) as error:
            leaving.failures += 1
            pause = _BACKOFF.after(leaving.failures)
            why = str(error) or type(error).__name__
            log.warning(
                "a driver could not be notified of its departing executors",
                job=job_id,
                executors=numbers,
                why=why,
                failures=leaving.failures,
                again_in=pause,
            )
        else:
            if heard and numbers != leaving.told:
                log.info("a driver releases executors", job=job_id, executors=numbers)
                leaving.told = numbers
            leaving.failures, pause = 0, _AGAIN if heard else _BACKOFF.first
        leaving.due = time.monotonic() + pause


def tell(ui: DriverUi, numbers: Iterable[int], *, alone: bool) -> bool:
    """Ask a driver to decommission executors; False when it waits, as no other executor can take blocks.

    With `alone` it does not wait for one. OSError or ValueError for another answer. Of that no more is read
    than the first line, by HTTP 1.0, which has one answer to a request: a driver may send what it likes.
    """
    asked = {"executors": ",".join(map(str, numbers)), **({"alone": "true"} if alone else {})}
    lines = (
        f"POST /stoker/decommission?{urlencode(asked)} HTTP/1.0",
        f"Host: {ui.site.partition('//')[2]}",
        f"Authorization: Bearer {ui.key}",
        "Content-Length: 0",
        "",
    )
    with socket.create_connection((ui.host, ui.port), _STEP) as connection:
        connection.sendall("".join(f"{line}\r\n" for line in lines).encode())
        said, until = b"", time.monotonic() + _STEP
        while b"\n" not in said and len(said) < _LONGEST_LINE and time.monotonic() < until:
            part = connection.recv(_LONGEST_LINE)
            if not part:
                break
            said += part
    match = re.match(rb"HTTP/1\.[01] (\d{3})[ \r]", said)
    if match is None:
        raise ValueError("its UI does not answer by HTTP")
    if (status := int(match[1])) not in (204, 409):
        raise ValueError(f"its UI answers {status}")
    return status == 204


def _is_told_here(record: JobRecord) -> bool:
    return record.job.dynamic is None and not record.job.client_driver
