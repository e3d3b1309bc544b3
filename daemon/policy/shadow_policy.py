"""A policy that decides beside the acting one and never acts.

It gets the same views and requests and decides in a thread of its own; its decisions are stored for
comparison. A slow shadow misses decisions; its failures are counted here. The acting policy notices neither.
`shadow_comparison` defines the comparison and its prices.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread

import structlog

from agents.registry import create
from conf.schema import PolicyChoice
from daemon.core.shadow_comparison import Comparison, Outcome, outcome_of
from daemon.core.status import ShadowStatus
from daemon.store.rows.database import StoreError
from environment.decisions.decision_round import Verdict, decide_once
from environment.decisions.sizing import Sizes, Sizing, sizing_for
from environment.policy_faults import InterruptedPolicyError, failure, interrupt
from environment.types import PlacementRequest

log = structlog.get_logger("shadow")

#: Decisions that may wait for it; each holds a view. Chosen: enough for a burst, and little memory.
_BACKLOG = 64
#: Seconds between two writes to the store, so that these delay no others.
_FLUSH = 1.0

#: One decision of the acting policy: the verdict, the rest of the queue, and the deciding policy.
_Seen = tuple[Verdict, Sequence[PlacementRequest], str]


class Shadow:
    """The shadow's thread and counters; `watch` is for the scheduling loop and returns at once."""

    def __init__(
        self,
        config: PolicyChoice,
        keep: Callable[[Sequence[Comparison]], None],
        seconds: float,
        sizes: Sizes | None = None,
    ) -> None:
        """Make the policy; PolicyError on failure. `keep` stores comparisons.

        A decision that takes more than `seconds` is a fault and not compared.
        """
        self.config = config
        self._policy = create(config.name, config.options)
        self._sizes = sizes or Sizes()
        self._sizing: Sizing | None = None
        self._keep = keep
        self._seconds = seconds
        self._inbox: SimpleQueue[_Seen | None] = SimpleQueue()
        self._pending: list[Comparison] = []
        self._last: Comparison | None = None
        self._compared = 0
        self._different = 0
        self._missed = 0
        self._faults = self._asked = 0
        self._last_fault = ""
        #: Since when the policy has been asked; None while it is not.
        self._since: float | None = time.monotonic()
        self._thread = Thread(target=self._run, name=f"shadow {config.name}", daemon=True)
        self._thread.start()

    def watch(self, verdict: Verdict, queue: Sequence[PlacementRequest], policy: str) -> None:
        """Queue a decision for the shadow, unless too many wait already."""
        if self._inbox.qsize() < _BACKLOG:
            self._inbox.put((verdict, queue, policy))
        else:
            self._missed += 1

    def close(self) -> None:
        """End the thread once the policy has decided on everything queued, or is interrupted as too slow."""
        self._inbox.put(None)
        if (since := self._since) is not None and time.monotonic() - since > self._seconds:
            interrupt(self._thread)

    def status(self) -> ShadowStatus:
        """Status of the shadow since it was set."""
        return ShadowStatus(
            self.config.name,
            self.config.options,
            self._compared,
            self._different,
            self._missed,
            self._faults,
            self._last_fault,
            self._asked,
        )

    def _run(self) -> None:
        with suppress(InterruptedPolicyError):  # which may come late, after the policy has returned
            self._compare_all()
        self._flush()

    def _compare_all(self) -> None:
        try:
            self._sizing = sizing_for(self._policy, self._sizes)
        except BaseException as error:  # as below; it may not return, either
            self._fault(failure(error))
        self._since = None
        flush_at, seen = 0.0, self._inbox.get()
        while seen is not None:
            try:
                self._compare(*seen)
            except BaseException as error:  # a policy may raise a BaseException, as sys.exit does
                self._fault(failure(error))
            self._since = None
            if time.monotonic() >= flush_at:
                self._flush()
                flush_at = time.monotonic() + _FLUSH
            seen = self._next(flush_at)

    def _next(self, flush_at: float) -> _Seen | None:
        """Wait for the next decision; pending comparisons are stored in time, even when none comes."""
        if self._pending:
            try:
                return self._inbox.get(timeout=max(flush_at - time.monotonic(), 0.0))
            except Empty:
                self._flush()
        return self._inbox.get()

    def _compare(self, verdict: Verdict, queue: Sequence[PlacementRequest], policy: str) -> None:
        self._asked += 1
        self._since = begin = time.monotonic()
        own = decide_once(self._policy.decide, verdict.view, queue, sizing=self._sizing)
        took = time.monotonic() - begin
        if own.faults or took > self._seconds:
            late = f"it took {took:.1f} s to decide, more than {self._seconds:g} s"
            self._fault("; ".join(own.faults) or late)
            return
        shadow = outcome_of(own, self.config.label)
        if own.request is not verdict.request:
            shadow = Outcome(self.config.label, None, f"{own.request.job.id} comes before it", 0.0)
        found = Comparison(verdict.view.at, verdict.request.job.id, outcome_of(verdict, policy), shadow)
        if self._is_news(found):
            self._compared += 1
            self._different += found.differs
            self._pending.append(found)
        self._last = found

    def _is_news(self, found: Comparison) -> bool:
        """Whether to keep it: a job that waits is decided about again and again."""
        last = self._last
        if last is None or found.acting.vms is not None or last.job_id != found.job_id:
            return True
        return (last.acting.vms, last.shadow.vms) != (found.acting.vms, found.shadow.vms)

    def _fault(self, fault: str) -> None:
        self._faults += 1
        self._last_fault = fault
        log.warning("fault", policy=self.config.name, fault=fault)

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        try:
            if pending:
                self._keep(pending)
        except StoreError as error:
            self._fault(f"{len(pending)} comparisons are lost: {error}")
