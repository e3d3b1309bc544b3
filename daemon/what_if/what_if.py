"""Forecasts of the queue: under the acting policy, another one, or with more VMs; nothing is changed.

The scheduling loop supplies its present state (`Present`); worker processes play it forward (`worker.py`),
and their answers become means and intervals here. One question of users is answered at a time, in turn
(`fair_queue.py`), and beside it one of the daemon's own, which no user delays.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from queue import SimpleQueue
from statistics import fmean
from typing import Any

from agents.registry import PolicyError, create, looked_in
from daemon.core.errors import RejectedError
from daemon.what_if.cases import Case, Present, check_size
from daemon.what_if.fair_queue import FairQueue
from daemon.what_if.gil_pacing import unhurried
from daemon.what_if.recorded_jobs import RecordedJobs
from daemon.what_if.worker_messages import OVER, READY, AskedScene, DrawAnswer, EachOf, Question, write
from environment.clusters.commitments import active_at
from environment.decisions.sizing import Sizes
from environment.model.cluster_model import ClusterModel
from environment.simulation.durations.belief_errors import Errors
from environment.simulation.durations.prediction_intervals import Interval
from environment.simulation.forecast.outlook import FollowedJobs, JobOutlook
from environment.view import ClusterView
from framework.host.stop_signals import unblocked

#: For how long a question waits for its turn: longer than other questions of callers that are no operators
#: take.
_TURN = 30.0
#: Maximum number of cases times policies that are played.
_PLAYED = 64
#: The daemon's own first draw may take so long; users' are over with their time.
_OWN = 60.0
#: For how long the loop may take to return its present state.
_SHOWN = 3.0
#: A process that is not ready to play after so many seconds is ended, and one that is so much over its time.
_PATIENCE, _OVER = 120.0, 5.0


@dataclass(frozen=True, slots=True)
class JobForecast:
    """Forecast of a job: start and end in seconds from now, and its share of dollars.

    `draws` is the number of draws in which it ran: it may not run in all that were played.
    """

    start: Interval
    end: Interval
    cost: Interval
    draws: int


@dataclass(frozen=True, slots=True)
class PolicyAhead:
    """Forecast of the queue under one policy, from so many draws.

    `dollars` are for all VMs until all waiting and running jobs are over, after `seconds`; `completion` is
    the average number of seconds, from now or from its submission, that a waiting job takes. `late` are jobs
    that would end after their deadline in most draws, `never` those that would not run, and why.
    """

    name: str
    options: Mapping[str, Any]
    draws: int
    dollars: Interval | None = None
    seconds: Interval | None = None
    completion: Interval | None = None
    jobs: Mapping[str, JobForecast] = field(default_factory=dict)
    late: tuple[str, ...] = ()
    never: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""
    #: The share of its decisions that the policy failed to take.
    fallback_share: float = 0.0
    #: Whether no VM comes and goes, so that the bill is the same under every policy.
    fixed: bool = False
    case: Case = field(default_factory=Case)
    #: Outcomes of the joining jobs, draw by draw.
    followed: tuple[FollowedJobs, ...] = ()
    #: `dollars` and `completion` by draw, as policies have the same draws; empty where nothing was drawn.
    drawn: Mapping[int, tuple[float, float]] = field(default_factory=dict)


class WhatIfService:
    """Forecasts of the queue on request; from any thread."""

    def __init__(
        self,
        sizes: Sizes,
        check: Callable[[str], None],
        errors: Callable[[], Errors | None] = lambda: None,
        fallback: tuple[str, dict[str, Any]] | None = None,
    ) -> None:
        """`sizes` says how open sizes are chosen; `check` raises RejectedError for a policy not to be had.

        `errors` says how wrong beliefs about durations are as is known now. The `fallback`, a name and
        options, decides where a policy fails of which the daemon itself asks; that of a user's question
        should be told to fail.
        """
        self._fallback = fallback
        self._check, self._sizes, self._errors = check, sizes, errors
        #: Questions that wait for the present state.
        self._curious: SimpleQueue[Future[Present]] = SimpleQueue()
        self._users, self._own = _Crew(min(2, os.cpu_count() or 1)), _Crew(1)

    def show(self, model: ClusterModel) -> None:
        """Answer requests for the present state; the scheduling loop calls it at intervals."""
        while not self._curious.empty():
            queue = tuple(model.requests(gated=False))
            others = max(model.waiting - len(queue), 0)
            options = model.options
            self._curious.get().set_result(
                Present(
                    model.view(),
                    queue,
                    model.sharing,
                    others,
                    options.keeping,
                    options.moves,
                    options.commitments,
                    options.jvms,
                )
            )

    def _present(self) -> Present:
        wanted: Future[Present] = Future()
        self._curious.put(wanted)
        try:
            return wanted.result(_SHOWN)
        except TimeoutError:
            why = "the daemon does not schedule now"
            raise RejectedError(503, "Not now", why, {"Retry-After": "5"}) from None

    def ask(
        self,
        policies: Sequence[tuple[str, Mapping[str, Any]]],
        *,
        draws: int,
        seconds: float,
        cases: Sequence[Case] = (Case(),),
        own: bool = False,
        who: str = "",
        past: RecordedJobs | Callable[[], RecordedJobs] | None = None,
        varied: bool = False,
    ) -> tuple[Present, list[PolicyAhead]]:
        """Play the present state in each case under each policy on so many draws, as far as time permits.

        RejectedError when a case is impossible, a policy may not be chosen, or too much is asked, at once or
        by this user. The answers are case by case, in each policy by policy. `own`: the daemon asks itself. A
        `past` is played instead of the present state, once: its durations are known. `varied`: on so many
        draws around them. One that is yet to be read is read in this user's turn: that takes seconds.
        """
        crew = self._own if own else self._users
        check_size(cases)
        if (number := len(cases) * len(policies)) > _PLAYED:
            why = f"cases times policies: at most {_PLAYED} are simulated, found {number}"
            raise RejectedError(422, "Too much at once", why)
        for name, _ in policies:
            self._check(name)
        with crew.turns.turn(who, _TURN):
            for name, options in policies:
                try:
                    create(name, options)
                except PolicyError as error:
                    raise RejectedError(422, "Not a policy", str(error)) from error
            past = past() if callable(past) else past
            present = self._present() if past is None else past.on(self._present())
            shown = [case.of(present) for case in cases]
            count = len(crew.workers)
            shares: list[tuple[int | None, ...]] = [(None,)]
            if past is None or varied:
                shares = [tuple(range(first, draws, count)) for first in range(count)]
            asked = tuple((name, dict(options)) for name, options in policies)
            scenes = tuple(
                AskedScene(
                    each.view,
                    each.queue,
                    self._sizes,
                    each.sharing,
                    each.keeping,
                    each.moves,
                    active_at(each.view.at, each.commitments),
                    each.jvms,
                    each.follow,
                    self._errors(),
                    {} if past is None else past.took,
                )
                for each in shown
            )
            at_most = _OWN if own else seconds
            fallback = self._fallback if own else None
            questions = [
                Question(scenes, asked, share, seconds, at_most, fallback) for share in shares if share
            ]
            each: EachOf = unhurried if own else iter
            with ThreadPoolExecutor(len(questions)) as threads:
                found = threads.map(
                    lambda pair: list(pair[0].ask(pair[1], each)), zip(crew.workers, questions, strict=False)
                )
                told = [answer for answers in found for answer in answers]
            played = enumerate(product(zip(cases, shown, strict=True), asked))
            return present, [
                replace(
                    _summed(number, name, options, told, there, seconds, each),
                    case=case,
                    fixed=_is_fixed(there.view),
                )
                for number, ((case, there), (name, options)) in played
            ]

    def close(self) -> None:
        """End the processes."""
        for worker in (*self._users.workers, *self._own.workers):
            worker.close()


def _is_fixed(view: ClusterView) -> bool:
    """Whether no VM comes and goes."""
    return view.openings is None and all(vm.terms is None for vm in view.vms)


def _summed(
    number: int,
    name: str,
    options: Mapping[str, Any],
    told: Sequence[DrawAnswer],
    present: Present,
    seconds: float,
    each: EachOf,
) -> PolicyAhead:
    """Sum up one policy's draws; `each` iterates over jobs, of which there may be very many."""
    mine = [answer for answer in told if answer.policy == number]
    failure = next((answer.failure for answer in mine if answer.failure), "")
    draws = [answer.draw for answer in mine if answer.played is not None]
    played = [answer.played for answer in mine if answer.played is not None]
    if failure or not played:
        return PolicyAhead(name, options, 0, failure=failure or f"no draw was finished within {seconds:g} s")
    at, due, came = present.view.at, dict[str, float](), dict[str, float]()
    for request in each(present.queue):
        job = request.job
        came[job.id] = max(job.submitted_at - at, 0.0)
        if job.deadline is not None:
            due[job.id] = job.deadline - at
    jobs: dict[str, list[JobOutlook]] = {}
    completions = []
    for draw in played:
        of_jobs = 0.0
        for job_id, ahead in each(draw.jobs.items()):
            jobs.setdefault(job_id, []).append(ahead)
            of_jobs += ahead.end - came[job_id]
        completions.append(of_jobs / max(len(draw.jobs), 1))
    late = [
        job_id
        for job_id, end in due.items()
        if sum(ahead.end > end for ahead in jobs.get(job_id, ())) * 2 > len(jobs.get(job_id, ()))
    ]
    return PolicyAhead(
        name,
        options,
        len(played),
        Interval.of([draw.dollars for draw in played]),
        Interval.of([draw.seconds for draw in played]),
        Interval.of(completions) if jobs else None,
        {job_id: _of_draws(seen) for job_id, seen in each(jobs.items())},
        tuple(late),
        played[0].never,
        fallback_share=fmean(draw.fallback_share for draw in played),
        followed=tuple(draw.followed for draw in played if draw.followed is not None),
        drawn={
            draw: (each.dollars, completion)
            for draw, each, completion in zip(draws, played, completions, strict=True)
            if draw is not None
        },
    )


def _of_draws(seen: Sequence[JobOutlook]) -> JobForecast:
    return JobForecast(
        Interval.of([ahead.start for ahead in seen]),
        Interval.of([ahead.end for ahead in seen]),
        Interval.of([ahead.cost for ahead in seen]),
        len(seen),
    )


class _Crew:
    """A group of worker processes that answers one question at a time."""

    def __init__(self, count: int) -> None:
        self.turns = FairQueue()
        self.workers = [_Worker() for _ in range(count)]


class _Worker:
    """One process, started when it is first asked, and again when it was ended."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []
        # A pool that is not closed leaves no process behind either.
        weakref.finalize(self, _end, self._running)

    def ask(self, question: Question, each: EachOf) -> Iterator[DrawAnswer]:
        """Its answers; fewer where it fails or is too slow. For one thread at a time."""
        process = self._running[0] if self._running else None
        if process is None or process.poll() is not None:
            self.close()
            with unblocked():
                process = subprocess.Popen(
                    [sys.executable, "-m", "daemon.what_if.worker", *looked_in()],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                )
            self._running.append(process)
        try:
            if process.stdin is None or process.stdout is None:
                return
            with _ending(process, _PATIENCE):
                write(question, process.stdin, each)
                if process.stdout.readline() != READY:
                    raise ValueError("it is not ready")
            with _ending(process, question.at_most + _OVER):
                while (line := process.stdout.readline()) != OVER:
                    yield DrawAnswer.from_json(line, each)
        except (OSError, ValueError, TypeError, KeyError):  # it has ended, or its answer is invalid
            self.close()

    def close(self) -> None:
        """End it."""
        _end(self._running)


@contextlib.contextmanager
def _ending(process: "subprocess.Popen[bytes]", seconds: float) -> Iterator[None]:
    """End the process if this takes longer."""
    overdue = threading.Timer(seconds, process.kill)
    overdue.start()
    try:
        yield
    finally:
        overdue.cancel()


def _end(running: list[subprocess.Popen[bytes]]) -> None:
    while running:
        process = running.pop()
        with contextlib.suppress(OSError):
            process.send_signal(signal.SIGKILL)
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        process.wait()
