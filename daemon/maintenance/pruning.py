"""Retention of finished jobs: removes them in small steps, oldest first.

A step takes milliseconds of the store, and pauses between steps leave it to others. Folders go before rows,
so that an interrupted removal is found again. Jobs that are not over, or with running parts, stay.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from conf.schema import Retention
from conf.units import SECONDS_PER_DAY
from conf.util.utc_days import day_of
from daemon.core.clock import Clock
from daemon.disk.job_folders import Folders, measure, remove
from daemon.disk.uploads import Uploads
from daemon.store.job_store import Store
from daemon.store.queries.ended_jobs import EndedJobs
from daemon.store.rows.bill import DETAILED
from daemon.store.rows.database import DeposedError, StoreError, StoreFullError
from framework.host.user_files import UserFiles

log = structlog.get_logger("retention")

#: Jobs of one step: about 10 ms of the store.
_STEP = 50
#: Tasks that are deleted at once: some 10 ms of the store, too.
_TASKS = 500
#: Seconds after its end during which a job is left alone: its processes may still be ending.
_SETTLES = 60.0
#: Seconds that a folder may take: several times what `remove` takes at most.
_PATIENCE = 30.0
#: Seconds between two looks when there is nothing to do.
_PAUSE = 30.0
#: Seconds between two searches for uploaded files that no job needs.
_SWEEP = 600.0
#: Seconds before a folder that could not be removed, or not at once, is tried again.
_AGAIN = 600.0
#: Of the time, so much may be spent on removing.
_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class PruningResult:
    """Result of a removal: removed jobs, their measured bytes, and failures."""

    jobs: int = 0
    size: int = 0
    troubles: tuple[str, ...] = ()

    def __add__(self, other: "PruningResult") -> "PruningResult":
        return PruningResult(self.jobs + other.jobs, self.size + other.size, self.troubles + other.troubles)


class Pruner:
    """Removes jobs by the retention rules; for one thread."""

    def __init__(
        self,
        store: Store,
        data_dir: Path,
        rules: Retention,
        *,
        settles: float = _SETTLES,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Jobs that ended less than `settles` seconds ago stay; `stopped` ends a step early."""
        self._store = store
        self._folders = Folders(data_dir)
        # A job's user can mount a file system in its folder that never answers.
        self._files = UserFiles(_PATIENCE)
        self.rules = rules
        self._settles = settles
        self._stopped = stopped
        #: Jobs whose folders could not be removed, each with the time (monotonic) before which it is not
        #: tried again.
        self._stuck: dict[str, float] = {}

    def step(self, now: float, lived: float | None = None) -> PruningResult:
        """Remove some of the jobs due at that time (seconds); neither job nor trouble when none are due.

        Ages are counted to `lived`, where it is given.
        """
        gone: list[EndedJobs] = []
        troubles: list[str] = []
        for job in next(self.due(now, lived), ()):
            if self._stopped():
                break
            try:
                for folder in self._folders_of(job.job_id):
                    self._files.look(None, f"the removal of {folder}", partial(remove, folder), job.job_id)
            except OSError as error:
                self._stuck[job.job_id] = time.monotonic() + _AGAIN
                troubles.append(f"{job.job_id}: {error.strerror or error}: {error.filename or ''}")
            else:
                self._stuck.pop(job.job_id, None)
                gone.append(job)
        number = self._store.jobs.ended.prune([job.job_id for job in gone])
        return PruningResult(number, sum(job.size or 0 for job in gone), tuple(troubles))

    def forget_tasks(self, lived: float) -> int:
        """Delete old tasks of jobs that go on and had very many, with their folders; how many.

        Only those that ended on days that are over by that time, in seconds.
        """
        number = 0
        for job_id, (heir, *old) in self._store.old_tasks.due(lived - lived % SECONDS_PER_DAY).items():
            for first in range(0, len(old), _TASKS):
                if self._stopped():
                    return number
                part = old[first : first + _TASKS]
                for folder in self._folders.of_tasks(part):
                    self._files.look(None, f"the removal of {folder}", partial(remove, folder), job_id)
                self._store.old_tasks.delete(job_id, part, heir)
                number += len(part)
        return number

    def measure(self) -> int:
        """Measure some jobs that were not yet, when the rules are about bytes; how many."""
        if self.rules.size is None:
            return 0
        rows = self._store.jobs.ended.unmeasured(_STEP)
        sizes = {job_id: size + sum(self._measured(job_id)) for job_id, size in rows.items()}
        self._store.jobs.ended.measured(sizes)
        return len(sizes)

    def _measured(self, job_id: str) -> Iterator[int]:
        for folder in self._folders_of(job_id):
            with suppress(TimeoutError):
                yield self._files.look(None, f"the size of {folder}", partial(measure, folder), job_id)

    def due(
        self, now: float, lived: float | None = None, page_size: int = _STEP
    ) -> Iterator[list[EndedJobs]]:
        """All that is to go at that time, in parts, the oldest first; `lived` as of `step`."""
        oldest = (now if lived is None else lived) - (self.rules.age or math.inf) * SECONDS_PER_DAY
        rules, kept, last = self.rules, self._store.jobs.ended.kept(), None
        number, size = kept.jobs, kept.size
        while page := self._store.jobs.ended.oldest(page_size, last):
            part: list[EndedJobs] = []
            for job in page:
                old = job.finished_at < oldest
                many = rules.jobs is not None and number > rules.jobs
                large = rules.size is not None and size > rules.size << 20
                if job.finished_at > now - self._settles or not (old or many or large):
                    page = []  # nor are those behind it
                    break
                stuck = self._stuck.get(job.job_id, 0.0) > time.monotonic()
                if not stuck and not self._folders.in_use(job.job_id):
                    part.append(job)
                    number, size = number - 1, size - (job.size or 0)
            if part:
                yield part
            if not page:
                return
            last = page[-1]

    def _folders_of(self, job_id: str) -> list[Path]:
        return self._folders.of(job_id, self._store.jobs.task_ids(job_id))


def prune_all(pruner: Pruner, now: float, progress: Callable[[PruningResult], None]) -> PruningResult:
    """Remove all that is to go at that time, or that nothing could be done about."""
    with suppress(StoreFullError):  # rules about bytes wait; folders go before anything is written
        while pruner.measure():
            pass
    total = PruningResult()
    while (pruned := pruner.step(now)) != PruningResult():
        total += pruned
        progress(total)
    return total


@contextmanager
def retention(
    store: Store, data_dir: Path, rules: Retention, uploads: Uploads, clock: Clock
) -> Iterator[None]:
    """Keep to the rules, in a thread of its own, for as long as the context lasts."""
    store.vms.stores_uses = rules.bill > 0
    stopping = threading.Event()
    pruner = Pruner(store, data_dir, rules, stopped=stopping.is_set)
    thread = threading.Thread(
        target=_keep_to_it, args=(pruner, uploads, store, clock, stopping), name="retention", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _keep_to_it(
    pruner: Pruner, uploads: Uploads, store: Store, clock: Clock, stopping: threading.Event
) -> None:
    pause, swept = 1.0, -_SWEEP
    total = PruningResult()
    while not stopping.wait(pause):
        began = time.monotonic()
        try:
            busy = pruner.measure() + store.events.trim()
            pruned = pruner.step(clock.now(), clock.lived())
            if began > swept + _SWEEP:
                swept = began
                _sweep(uploads, store)
                if tasks := pruner.forget_tasks(clock.lived()):
                    log.info("old tasks of running jobs were removed", tasks=tasks)
                long_ago = clock.lived() - DETAILED * SECONDS_PER_DAY
                store.vms.forget_details(day_of(long_ago))
                store.vms.forget_leases(long_ago)
                store.vms.forget_uses(day_of(clock.lived() - pruner.rules.bill * SECONDS_PER_DAY))
        except DeposedError:
            return
        except (OSError, StoreError) as error:
            log.warning("cannot prune now", why=str(error))
            pause = _PAUSE
            continue
        total += pruned
        busy += pruned.jobs
        if total.troubles or (total.jobs and not pruned.jobs):
            log.info("pruned", jobs=total.jobs, bytes=total.size, troubles=list(total.troubles[:3]))
            total = PruningResult()
        pause = max(0.05, (time.monotonic() - began) / _SHARE) if busy else _PAUSE


def _sweep(uploads: Uploads, store: Store) -> None:
    try:
        number, size = uploads.sweep(store.jobs.open.uploads_needed)
    except OSError as error:
        log.warning("uploaded files cannot be removed now", why=str(error))
        return
    if number:
        log.info("uploaded files were removed", files=number, bytes=size)
