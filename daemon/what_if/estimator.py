"""Estimates of each waiting job's start and cost from present beliefs, remade every few seconds.

A job's body shows them to users. The first estimate of a job and the last before its start are stored with it
and compared with the truth, so that nobody must take estimates on trust; later ones are corrected by the
errors of the first ones. From all ended jobs the estimator learns the errors of believed durations, which
guide the draws.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from itertools import islice
from queue import SimpleQueue
from typing import Any, Protocol

import structlog

from daemon.core.errors import RejectedError
from daemon.core.estimate import Coverage, Estimate, KeptEstimates, Made
from daemon.store.rows.database import StoreError
from daemon.what_if.cases import Present
from daemon.what_if.gil_pacing import unhurried
from daemon.what_if.what_if import JobForecast, PolicyAhead
from environment.model.messages.records import JobRecord
from environment.simulation.durations.belief_errors import LearnedErrors
from environment.simulation.durations.prediction_intervals import Calibration, Interval
from environment.view import RunningJob

log = structlog.get_logger("estimates")

#: Draws of each estimate, and for how many seconds one is made at most: of 19 draws, the least and the
#: greatest are the ends of an interval of 90 %.
_DRAWS, _SECONDS = 20, 4.0
#: Seconds between two at least, and how much longer than an estimate took it is rested. A daemon's first, for
#: which policies are compiled, may take minutes, and counts for no more than its draws may take.
_PAUSE, _REST = 2.0, 10.0
#: Number of jobs that are followed until their true values are known.
_KEPT = 20_000
#: Number of estimates that are stored at once, and multiple of that time for which the store is left to
#: others.
_AT_ONCE, _ASIDE = 200, 4.0
#: Number of ended jobs whose estimation errors are restored.
TAKEN_UP = 600
#: The part of an error that does not count: seconds, and dollars.
_SECONDS_BESIDE, _DOLLARS_BESIDE = 10.0, 0.001


class Estimator(Protocol):
    """Source of estimates; `WhatIfService` is one."""

    def ask(
        self, policies: list[tuple[str, dict[str, Any]]], *, draws: int, seconds: float, own: bool
    ) -> tuple[Present, list[PolicyAhead]]:
        """See `WhatIfService.ask`."""
        ...


class EstimateKeeper(Protocol):
    """Storage of estimates; `EstimateRows` is one. StoreError when it is unavailable."""

    def keep(self, found: Mapping[str, KeptEstimates]) -> None:
        """Store estimates by job id."""
        ...

    def latest(self, most: int) -> list[tuple[JobRecord, KeptEstimates]]:
        """Records and estimates of the newest `most` ended jobs and of all open ones, each in order."""
        ...

    def finished(self, most: int) -> list[JobRecord]:
        """The newest `most` finished jobs, in order."""
        ...


class Estimates:
    """Estimates of waiting jobs; `start`, `stop` and `observe` are for the loop."""

    def __init__(
        self,
        foresight: Estimator,
        acting: Callable[[], tuple[str, dict[str, Any]]],
        keeper: EstimateKeeper,
        errors: LearnedErrors,
    ) -> None:
        """`acting` returns name and options of the acting policy. `errors` learns the errors of beliefs."""
        self._foresight, self._acting, self._keeper, self._errors = foresight, acting, keeper, errors
        #: Jobs that ran when it was last looked, and have not ended since.
        self._running: dict[str, RunningJob] = {}
        self._latest: Mapping[str, Estimate] = {}
        self._made = Made()
        #: Estimates of jobs whose true values are still to come; and those that are not stored like that yet.
        self._followed: dict[str, KeptEstimates] = {}
        self._unkept: set[str] = set()
        self._started: set[str] = set()
        self._coverage = Coverage()
        self._start, self._end = Calibration(_SECONDS_BESIDE), Calibration(_SECONDS_BESIDE)
        self._cost = Calibration(_DOLLARS_BESIDE)
        #: Guards the state that these three have learned, which others read beside the thread here.
        self._learning = threading.Lock()
        self._came: SimpleQueue[JobRecord] = SimpleQueue()
        self._waits = False
        self._wake, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="estimates", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop making estimates."""
        self._over.set()
        self._wake.set()

    def of_all(self) -> Mapping[str, Estimate]:
        """The latest of each job that waited when it was made, by id."""
        return self._latest

    def why_not(self, record: JobRecord) -> str:
        """Reason why a waiting job has no estimate; empty where it has one, or needs none."""
        if record.state != "queued" or record.job.id in self._latest:
            return ""
        return self._made.why_not(record)

    def coverage(self) -> Coverage:
        """Accuracy of the estimates so far."""
        return self._coverage

    def mended(self, drawn: JobForecast) -> JobForecast:
        """Correct a job's drawn forecast for display; from any thread."""
        with self._learning:
            start, end = self._start.mended(drawn.start), self._end.mended(drawn.end)
            cost = self._cost.mended(drawn.cost)
        # Of starts more is known, and sooner: a job that may start late ends late, too.
        return JobForecast(start, replace(end, high=max(end.high, start.high)), cost, drawn.draws)

    def observe(self, changed: Collection[JobRecord], *, waiting: bool) -> None:
        """Pass changed jobs, and whether any job waits now. For the loop, which it never blocks."""
        self._waits = waiting
        # Also of jobs that are not followed: estimates of them may be on their way.
        news = [
            record
            for record in changed
            if record.ended or (record.placed_at is not None and record.job.id not in self._started)
        ]
        for record in news:
            self._came.put(record)
        if waiting or news:
            self._wake.set()

    # ---- its thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        failed, taken_up = "", False
        while True:
            self._wake.wait()
            if self._over.wait(_PAUSE):
                return
            self._wake.clear()
            began = time.monotonic()
            try:
                if not taken_up:
                    self._take_up()
                    taken_up = True
                self._settle()
                if self._waits:
                    self._wake.set()
                    self._make()
                self._keep()
                failed = ""
            except RejectedError:
                pass  # the loop is busy
            except Exception as error:  # an estimate is never worth more than the loop
                self._wake.set()
                if (why := repr(error)) != failed:
                    log.warning("no estimates are made", why=why)
                failed = why
            self._over.wait(_REST * min(time.monotonic() - began, _SECONDS))

    def _take_up(self) -> None:
        """Follow an earlier daemon's estimates, and learn from their outcomes and from ended jobs."""
        for record in self._keeper.finished(TAKEN_UP):
            self._learn(record)
        for record, kept in self._keeper.latest(TAKEN_UP):
            self._followed.setdefault(record.job.id, kept)
            self._settle_one(record, self._coverage)

    def _settle(self) -> set[str]:
        """Compare estimates with the truth; return ids of jobs that started or ended since the last call."""
        moved = set[str]()
        while not self._came.empty():
            record = self._came.get()
            moved.add(record.job.id)
            if record.ended:
                self._learn(record)
            self._coverage = self._settle_one(record, self._coverage)
        return moved

    def _learn(self, record: JobRecord) -> None:
        """Learn the error of a finished job's believed duration on the places that it had."""
        running, job = self._running.pop(record.job.id, None), record.job
        if record.state != "finished" or record.placed_at is None or record.finished_at is None:
            return
        if running is None and (job.dynamic or job.min_executors or job.min_cpus):
            return  # the belief depends on the resources that it got
        believed = job.expected_duration if running is None else running.expected
        self._errors.learn(job, believed, record.finished_at - record.placed_at)

    def _settle_one(self, record: JobRecord, was: Coverage) -> Coverage:
        job_id = record.job.id
        if (kept := self._followed.get(job_id)) is None:
            return was
        came = kept.first.came(record)
        if record.placed_at is not None and job_id not in self._started:
            self._started.add(job_id)
            if (last := self._latest.get(job_id)) is not None:
                self._followed[job_id] = kept = replace(kept, last=last)
                self._unkept.add(job_id)
            was = replace(was, start=was.start.counting(came.start))
            with self._learning:
                self._start.learn(_since(kept.drawn.start, kept.drawn.at), record.placed_at - kept.drawn.at)
        if not record.ended:
            return was
        if record.state == "finished" and record.finished_at is not None:
            was = replace(was, end=was.end.counting(came.end), cost=was.cost.counting(came.cost))
            with self._learning:
                self._end.learn(_since(kept.drawn.end, kept.drawn.at), record.finished_at - kept.drawn.at)
                self._cost.learn(kept.drawn.cost, record.cost)
        if job_id in self._unkept:
            self._keep()
        self._unkept.discard(job_id)
        self._started.discard(job_id)
        del self._followed[job_id]
        return was

    def _make(self) -> None:
        present, (found,) = self._foresight.ask([self._acting()], draws=_DRAWS, seconds=_SECONDS, own=True)
        at, latest, moved = present.view.at, dict[str, Estimate](), self._settle()
        seen = {each.job.id: each for each in present.view.running if each.expected != 0.0}  # 0: it is over
        self._running |= {job_id: each for job_id, each in seen.items() if job_id not in moved}
        for job_id, job in unhurried(found.jobs.items()):
            if job_id in moved:  # while it was played: nothing is to be told of it any more
                continue
            mended = self.mended(job)
            latest[job_id] = told = _told(mended, at)
            if job_id not in self._followed and len(self._followed) < _KEPT:
                self._followed[job_id] = KeptEstimates(told, _told(job, at))
                self._unkept.add(job_id)
        self._latest, self._made = latest, Made(at, found.failure, found.never)

    def _keep(self) -> None:
        """Store estimates in small batches: a job submission meanwhile must not wait for thousands."""
        while self._unkept and not self._over.is_set():
            began, some = time.monotonic(), list(islice(self._unkept, _AT_ONCE))
            try:
                self._keeper.keep({job_id: self._followed[job_id] for job_id in some})
            except StoreError as error:
                jobs = len(self._unkept)
                log.warning("estimates could not be stored with their jobs yet", jobs=jobs, why=str(error))
                self._wake.set()
                return
            self._unkept.difference_update(some)
            if self._unkept:
                self._over.wait(_ASIDE * (time.monotonic() - began))


def _told(ahead: JobForecast, at: float) -> Estimate:
    return Estimate(at, ahead.start.later(at), ahead.end.later(at), ahead.cost, ahead.draws)


def _since(interval: Interval, at: float) -> Interval:
    return interval.later(-at)
