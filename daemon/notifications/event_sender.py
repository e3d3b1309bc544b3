"""Reads events in order, and sends those of some kinds again and again until they are accepted.

Subclasses define the messages and the receivers: `webhook_sender.py` for webhooks, `trace_sender.py` for
traces. `notification_service.py` runs them and stores their progress.
"""

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar, get_args

import structlog

from conf.event_kinds import Kind
from conf.util.backoff import Backoff
from daemon.core.status import DeliveryOutcome
from daemon.notifications.signed_post import PostOutcome
from daemon.store.job_store import Store
from daemon.store.rows.database import DeposedError, StoreError
from daemon.store.rows.events import NumberedEvent
from environment.model.messages.records import JobRecord

log = structlog.get_logger("webhooks")
Result = TypeVar("Result")

#: Events that are read at once.
_PAGE = 500
#: Pauses after which it is tried again.
BACKOFF = Backoff(first=1.0, longest=300.0)
#: Refusals after which it is looked whether the receiver refuses this message alone: about two minutes.
MOST_REFUSALS = 8
#: Spread of the pauses, so that not all clients of a receiver come back at once.
_SPREAD = 0.2
#: Seconds for which the end of a job waits for that of its executors, so that its cost is known.
SETTLES = 10.0
_LOOK = 0.5
#: Seconds before a store that cannot be read is tried again.
_AGAIN = 2.0


class EventTransport(Protocol):
    """Connections to a receiver."""

    async def close(self) -> None:
        """Let go of them."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """Source of events for senders: the store, the threads that read it, and the right to send.

    `may_tell` returns whether it is certain that no other daemon leads; `now` is the time of events, which a
    jump of the wall clock does not change.
    """

    store: Store
    readers: Executor
    may_tell: Callable[[], bool]
    backoff: Backoff = BACKOFF
    now: Callable[[], float] = time.time


class EventSender(ABC):
    """For one event loop. `done` is the number of the last event it is done with."""

    #: The receiver's kind, for logs.
    whom = "a webhook"

    def __init__(self, name: str, source: Source, sender: EventTransport, done: int) -> None:
        self.name, self.done = name, done
        self._store, self._readers = source.store, source.readers
        self._may_tell, self._backoff, self._now = source.may_tell, source.backoff, source.now
        self._sender = sender
        #: Set when there may be more to tell.
        self.news = asyncio.Event()
        self.came: dict[DeliveryOutcome, int] = dict.fromkeys(get_args(DeliveryOutcome), 0)
        #: Since when none is taken, and why not.
        self.fails_since: float | None = None
        self._failure = ""
        self._delivered_at: float | None = None
        self._next_at: float | None = None

    @property
    @abstractmethod
    def kinds(self) -> Collection[Kind]:
        """Kinds of events that are sent."""

    @abstractmethod
    async def tell(self, event: NumberedEvent) -> None:
        """Tell an event of these kinds, until it is taken or too old."""

    async def run(self) -> None:
        """Send events until cancelled, or until another daemon leads."""
        while True:
            self.news.clear()
            page = await self._patiently(lambda: self._store.events.read(_PAGE, after=self.done))
            for each in page.found:
                if each.happening.kind in self.kinds:
                    await self._tell_if_possible(each)
                self.done = each.number
            self.done = page.next
            if not page.more:
                await self.news.wait()

    async def _tell_if_possible(self, event: NumberedEvent) -> None:
        """Send an event; a failure that is not the receiver's does not stop the events after it."""
        try:
            await self.tell(event)
        except DeposedError:
            raise
        except Exception:
            log.exception("an event could not be sent", webhook=self.name, number=event.number)
            self.came["given up"] += 1

    async def _bring(
        self, send: Callable[[float], Awaitable[PostOutcome]], until: float, **told: object
    ) -> PostOutcome | None:
        """Send until the event is accepted, rejected for good, or too old; return the last outcome.

        `told` describes the event in the log.
        """
        pause, outcome, refusals = self._backoff.first, None, 0
        while self._now() <= until:
            if not self._may_tell():
                await asyncio.sleep(_LOOK)
                continue
            outcome = await send(time.time())  # which its receiver compares to its own clock
            self._note(outcome)
            if outcome.came == "delivered":
                return outcome
            if outcome.final:
                break
            refusals += outcome.came == "refused"
            if refusals >= MOST_REFUSALS and await self._is_refused_alone(outcome):
                break
            wait = max(pause * random.uniform(1 - _SPREAD, 1 + _SPREAD), outcome.pause)  # noqa: S311  # no secret
            self._next_at = time.time() + wait
            await asyncio.sleep(wait)
            self._next_at, pause = None, self._backoff.following(pause)
        self.came["given up"] += 1
        log.error("an event is given up", webhook=self.name, **told, why=outcome.why if outcome else "")
        return outcome

    async def _is_refused_alone(self, outcome: PostOutcome) -> bool:
        """Whether the receiver has refused a message for its content, and would accept others."""
        return outcome.final

    def _note(self, outcome: PostOutcome) -> None:
        self.came[outcome.came] += 1
        if outcome.came == "delivered":
            if self.fails_since is not None:
                log.info(f"{self.whom} accepts requests again", webhook=self.name)
            self._delivered_at, self.fails_since, self._failure = time.time(), None, ""
            return
        if self.fails_since is None:
            self.fails_since = time.time()
            log.warning(f"{self.whom} accepts no request", webhook=self.name, why=outcome.why)
        self._failure = outcome.why

    async def _job(self, event: NumberedEvent) -> JobRecord | None:
        job_id = event.happening.job_id
        return None if job_id is None else await self._patiently(lambda: self._store.jobs.get(job_id))

    async def _settled(self, job: JobRecord, until: float) -> tuple[JobRecord, bool]:
        """The job once all its tasks have ended, or at that time; and whether they have."""
        while await self._patiently(lambda: self._store.jobs.open_executors(job.job.id)):
            if self._now() >= until:
                return job, False
            await asyncio.sleep(_LOOK)
        return await self._patiently(lambda: self._store.jobs.get(job.job.id)) or job, True

    async def _patiently(self, read: Callable[[], Result]) -> Result:
        """Read from the store, however long it takes."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await loop.run_in_executor(self._readers, read)
            except DeposedError:
                raise
            except StoreError as error:
                log.warning("events cannot be read", webhook=self.name, why=str(error))
                await asyncio.sleep(_AGAIN)

    async def close(self) -> None:
        """Let go of connections."""
        with suppress(Exception):  # they are unused by now
            await self._sender.close()
