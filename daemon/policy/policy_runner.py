"""Runs the acting policy in rounds of decisions that end in time, even when the policy hangs.

A policy is foreign code: it may raise, return nonsense, or not return. So all of its code runs in a thread of
its own (`_Thinker`): not its decisions alone, but each property by which it is asked something. The
scheduling loop waits no longer than its time budget; after a timeout or a failure, the fallback decides. A
policy that still does not return when it is switched off is interrupted. Only one that holds Python's
interpreter lock for ever is beyond this.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from threading import Event, Lock, Thread

import structlog

from agents.registry import create
from conf.schema import PolicyChoice
from conf.util.counted import counted
from daemon.core.status import PolicyStatus
from daemon.policy.policy_state import Memory
from environment.decisions.decision_round import Verdict, WaitingRequests, decide_in_turn
from environment.decisions.explain import Explanation, explain
from environment.decisions.sizing import Sizes, Sizing, sizing_for
from environment.decisions.vain_waits import HeldBack, watched
from environment.model.messages.events import Decided
from environment.model.tasks.launches import decided
from environment.policy import Keeper, Observer, Policy, counts_of
from environment.policy_faults import InterruptedPolicyError, failure, interrupt
from environment.types import EndedJob, Place, PlacementRequest, Wait
from environment.view import ClusterView

log = structlog.get_logger("policy")

#: Decisions that are made before the scheduling loop takes them over: each holds a view, so not too many, and
#: each handing over costs tens of microseconds, so not too few.
_BATCH = 64

#: Seconds after which a thread that waits for a decision does something else for a moment.
_MEANWHILE = 0.5

#: Decisions with faults, without a placement of its own between, after which a policy is said to fail.
_FAILS = 3

#: Seconds that a policy has to save its learned state, when it is switched off.
_LAST_WORDS = 2.0

#: Observes a verdict, the rest of the queue, and the name of the deciding policy.
Watch = Callable[[Verdict, Sequence[PlacementRequest], str], None]


class PolicyRunner:
    """The acting policy and its fallback, and how they have been doing.

    `decide` is for one thread; everything else may be read from any.
    """

    def __init__(
        self,
        config: PolicyChoice,
        fallback: PolicyChoice | None,
        seconds: float,
        memory: Callable[[str], Memory] | None = None,
        meanwhile: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.time,
        sizes: Sizes | None = None,
    ) -> None:
        """Make the policies; PolicyError on failure. `seconds` is the budget of one decision.

        `memory` has the learned state of policies by name; `meanwhile` is called at intervals while waiting
        for a decision.
        """

        def thinker(config: PolicyChoice) -> _Thinker:
            policy = create(config.name, config.options)
            learned = memory(config.name) if memory else None
            return _Thinker(config.name, policy, seconds, learned, meanwhile, sizes or Sizes())

        self.config = config
        #: Is shown every verdict.
        self.watch: Watch | None = None
        self._now = now
        self._acting = thinker(config)
        self._second = None if fallback is None else thinker(fallback)
        self.placed = 0
        self.waited = 0
        self.faults = 0
        self.last_fault = ""
        #: Decisions with faults since the policy last placed a job itself.
        self.failing = 0
        #: The last wait that was explained, so that the same one is not written again and again.
        self._explained_wait = ("", "")

    def close(self) -> None:
        """End the threads, those of policies that do not return by an error in their code."""
        self._acting.close()
        if self._second is not None:
            self._second.close()

    def observe(self, ended: EndedJob) -> None:
        """A job is over: tell those that learn from it."""
        self._acting.observe(ended)
        if self._second is not None:
            self._second.observe(ended)

    def status(self) -> PolicyStatus:
        """Status of the acting policy and its results so far."""
        return PolicyStatus(
            self.config.name,
            self.config.options,
            self.placed,
            self.waited,
            self.faults,
            self.last_fault,
            fallback=self._second.name if self._second is not None else None,
            busy=self._acting.busy,
            cut_short=self._acting.cut_short,
            guarded=self._acting.guarded,
        )

    @property
    def trouble(self) -> str:
        """Repeated failure of the policy, in words; empty when it works."""
        if self.failing < _FAILS:
            return ""
        instead = "jobs wait" if self._second is None else f"{self._second.name} decides instead"
        how = f"failed {counted(self.failing, 'time')} and placed no job since"
        return f"{self.config.name} {how}, {instead}: {self.last_fault}"

    def decide(
        self, view: ClusterView, requests: Sequence[PlacementRequest]
    ) -> tuple[Decided, tuple[Explanation, ...]]:
        """Decide about the queue until it is empty or the policy waits; return event and explanations."""
        explanations: list[Explanation] = []

        def explained() -> Iterator[Verdict]:
            # One by one: a verdict keeps its view, and a round on a large cluster may have thousands.
            for verdict, queue, name in self._round(
                view, requests if isinstance(requests, WaitingRequests) else WaitingRequests(requests)
            ):
                if self._is_news(verdict):
                    explanations.append(explain(verdict, name))
                if self.watch is not None:
                    self.watch(verdict, queue, name)
                yield verdict

        event = decided(explained(), self._now())
        return event, tuple(explanations)

    def _round(
        self, view: ClusterView, queue: WaitingRequests
    ) -> Iterator[tuple[Verdict, WaitingRequests, str]]:
        """Verdicts in turn, each with the queue it is about and the name of the policy that reached it."""
        while queue:
            for verdict in self._acting.ask(view, queue, _BATCH):
                last, name = self._mended(verdict, queue)
                yield last, queue, name
                queue = queue.after(last)
            if not isinstance(last.decision, Place):
                return
            view = last.view_after

    def _mended(self, verdict: Verdict, queue: WaitingRequests) -> tuple[Verdict, str]:
        """The fallback's verdict instead of one with faults, which name the policy then."""
        if not verdict.faults or self._second is None:
            return verdict, self._acting.name
        second = next(iter(self._second.ask(verdict.view, queue, 1)))
        own = (_named(self._acting.name, fault) for fault in verdict.faults)
        faults = (*own, *(f"fallback {self._second.name}: {fault}" for fault in second.faults))
        return replace(second, faults=faults), self._second.name

    def _is_news(self, verdict: Verdict) -> bool:
        """Count a verdict, and tell whether to keep it: to wait on for the same reason is no news."""
        if verdict.faults:
            self.faults += 1
            self.failing += 1
            self.last_fault = "; ".join(verdict.faults)
            log.warning("fault", policy=self.config.name, job=verdict.request.job.id, faults=verdict.faults)
        if isinstance(verdict.decision, Place):
            if not verdict.faults:
                self.failing = 0
            self.placed += 1
            return True
        self.waited += 1
        wait = (verdict.request.job.id, verdict.decision.reason)
        news, self._explained_wait = wait != self._explained_wait, wait
        return news


@dataclass(slots=True)
class _Batch:
    """Decisions asked of a policy: its thread writes, the loop reads; `lock` guards the fields after it.

    An abandoned batch gets no more verdicts.
    """

    view: ClusterView
    queue: WaitingRequests
    limit: int
    done: Event = field(default_factory=Event)
    lock: Lock = field(default_factory=Lock)
    verdicts: list[Verdict] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    failure: str = ""
    abandoned: bool = False

    def add(self, verdict: Verdict) -> bool:
        """Add a verdict that came in time; return whether another is wanted."""
        with self.lock:
            if self.abandoned:
                return False
            self.verdicts.append(verdict)
            self.began = time.monotonic()
            return not verdict.faults and len(self.verdicts) < self.limit

    def late(self, seconds: float) -> float:
        """Seconds left of the budget; abandons the batch when none are left."""
        with self.lock:
            left = self.began + seconds - time.monotonic()
            self.abandoned = left <= 0 and not self.done.is_set()
            return left

    @property
    def left(self) -> tuple[ClusterView, WaitingRequests]:
        """View and queue that remain after the verdicts so far."""
        last = self.verdicts[-1] if self.verdicts else None
        if last is None or not isinstance(last.decision, Place):
            return self.view, self.queue
        queue = self.queue
        for verdict in self.verdicts:
            queue = verdict.left_of(queue).after(verdict)
        return last.view_after, queue


class _Thinker:
    """A policy in a thread of its own; it gets no new work while it is busy with an abandoned batch."""

    def __init__(
        self,
        name: str,
        policy: Policy,
        seconds: float,
        memory: Memory | None,
        meanwhile: Callable[[], None],
        sizes: Sizes,
    ) -> None:
        self.name = name
        self._sizes = sizes
        self._sizing: Sizing | None = None
        self._meanwhile = meanwhile
        self._policy = policy
        self._held: HeldBack | None = HeldBack()
        self._seconds = seconds
        self._memory = memory
        self._keeper: Keeper | None = None
        self._observer: Observer | None = None
        #: Decisions that were cut short, and those of the guard.
        self._counts = 0, 0
        self._inbox: SimpleQueue[_Batch | EndedJob | None] = SimpleQueue()
        self._overdue: _Batch | None = None
        self._begun = Event()
        # As a daemon, so that a policy that never returns does not keep the process from ending.
        self._thread = Thread(target=self._run, name=f"policy {name}", daemon=True)
        self._thread.start()
        if not self._begun.wait(seconds):
            log.error("the policy does not begin to decide", policy=name, seconds=seconds)

    @property
    def busy(self) -> float:
        """Seconds spent so far on an abandoned decision; 0 when there is none."""
        overdue = self._overdue
        if overdue is None or overdue.done.is_set():
            return 0.0
        return time.monotonic() - overdue.began

    @property
    def cut_short(self) -> int:
        """Number of decisions ended by the policy's own time limit."""
        return self._counts[0]

    @property
    def guarded(self) -> int:
        """Number of decisions made by the policy's guard."""
        return self._counts[1]

    def close(self) -> None:
        """End the thread once the policy is done; wait a while for its learned state.

        A policy that is busy with a decision for which nobody waits is interrupted.
        """
        self._inbox.put(None)
        if self.busy or not self._begun.is_set():
            interrupt(self._thread)
        if self._keeper is not None:
            self._thread.join(_LAST_WORDS)

    def observe(self, ended: EndedJob) -> None:
        """Pass an ended job to the policy before its next decision."""
        if self._observer is not None:
            self._inbox.put(ended)

    def ask(self, view: ClusterView, queue: WaitingRequests, limit: int) -> list[Verdict]:
        """Decide about the queue: one to `limit` verdicts; the last may have faults."""
        batch = _Batch(view, queue, limit)
        if busy := self.busy:
            return [_failed(batch, f"the policy is still busy with an earlier job, for {busy:.0f} s now")]
        self._overdue = None
        self._inbox.put(batch)
        left = self._seconds
        while not batch.done.wait(min(left, _MEANWHILE)):
            self._meanwhile()
            left = batch.late(self._seconds)
            if batch.abandoned:
                self._overdue = batch
                batch.failure = f"the policy did not decide within {self._seconds:g} s"
                break
        return [*batch.verdicts, _failed(batch, batch.failure)] if batch.failure else batch.verdicts

    def _run(self) -> None:
        with suppress(InterruptedPolicyError):  # which may come late, after the policy has returned
            self._begin()
            while (item := self._inbox.get()) is not None:
                if isinstance(item, EndedJob):
                    self._learn(item)
                else:
                    self._decide(item)
                self._keep()
            self._keep(at_once=True)

    def _begin(self) -> None:
        """Inspect the policy, and restore its learned state: its own code may run for that."""
        try:
            self._sizing, self._held = sizing_for(self._policy, self._sizes), watched(self._policy)
            self._observer = self._policy if isinstance(self._policy, Observer) else None
            if self._memory is not None and isinstance(self._policy, Keeper):
                self._memory.recall(self._policy)
                self._keeper = self._policy
            self._counts = counts_of(self._policy)
        except BaseException as error:  # SystemExit and its like, which must not end this thread
            log.error("the policy begins badly", policy=self.name, why=failure(error))
        self._begun.set()

    def _decide(self, batch: _Batch) -> None:
        try:
            turns = decide_in_turn(
                self._policy.decide, batch.view, batch.queue, sizing=self._sizing, held=self._held
            )
            for verdict in turns:
                if not batch.add(verdict):
                    break
        except BaseException as error:  # SystemExit and its like, which must not end this thread
            with batch.lock:
                if not batch.abandoned:
                    batch.failure = failure(error)
        with suppress(BaseException):  # as above; then the earlier ones count
            self._counts = counts_of(self._policy)
        batch.done.set()

    def _learn(self, ended: EndedJob) -> None:
        try:
            if self._observer is not None:
                self._observer.observe(ended)
        except BaseException as error:  # as above
            log.warning("does not learn", policy=self.name, job=ended.job.id, why=failure(error))

    def _keep(self, *, at_once: bool = False) -> None:
        if self._memory is not None and self._keeper is not None:
            self._memory.keep(self._keeper, at_once=at_once)


def _named(policy: str, fault: str) -> str:
    """A fault as one of the policy of that name, where it is shown beside another's decision."""
    rest = fault.removeprefix("the policy ")
    return f"policy {policy}: {fault}" if rest == fault else f"policy {policy} {rest}"


def _failed(batch: _Batch, fault: str) -> Verdict:
    """Verdict for a policy's failure on the view and queue that the batch's verdicts left."""
    view, queue = batch.left
    wait = Wait(f"the decision could not be executed: {fault}")
    return Verdict(queue[0], view, wait, (fault,))
