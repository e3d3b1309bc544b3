"""Runs the senders of all webhooks, and the tracer, in a thread; stores the progress of each in the store.

Events are read from the store, so that nothing is lost with a daemon that is killed: the next leader
continues where this one was, and sends at most the events of the last moment once more.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, get_args

import structlog

from conf.schema import Config, Telemetry, Webhook
from conf.schema.webhooks import MOST
from conf.util.backoff import Backoff
from daemon.core.errors import RejectedError
from daemon.core.status import DeliveryOutcome
from daemon.notifications.event_sender import BACKOFF, EventSender, Source
from daemon.notifications.otel_collector import target_of
from daemon.notifications.signed_post import Post, secret_of, trusted
from daemon.notifications.trace_sender import NAME as TRACER
from daemon.notifications.trace_sender import AcceptanceTimes, TraceSender
from daemon.notifications.webhook_sender import WebhookSender
from daemon.schemas.webhooks import TriedBody, WebhookBody
from daemon.store.job_store import Store
from daemon.store.rows.database import DeposedError, StoreError

log = structlog.get_logger("webhooks")

#: The fact of the store that says with which event each webhook was done.
FACT = "webhooks"
#: Seconds between two checks for new events, and between two times of storing the senders' positions.
_LOOK, _KEEP = 0.5, 1.0
#: Seconds before all senders start again after an unexpected error.
_AGAIN = 2.0
#: Seconds for which `close` waits for the thread.
_PATIENCE = 5.0
#: Seconds that a test may take beyond its request.
_SLACK = 5.0


class TracingStatus(NamedTuple):
    """How well traces of jobs are taken, since this daemon leads.

    `came` counts requests, of which each is a trace; `rejected` spans of traces that were taken. Since
    `fails_since` none is taken.
    """

    came: Mapping[DeliveryOutcome, int]
    rejected: int
    fails_since: float | None


class NotificationService:
    """Every method may be called from any thread; nothing is told before `start` and after `stop`."""

    def __init__(
        self,
        webhooks: Mapping[str, Webhook],
        store: Store,
        may_tell: Callable[[], bool] = lambda: True,
        *,
        telemetry: Telemetry | None = None,
        backoff: Backoff = BACKOFF,
        now: Callable[[], float] = time.time,
    ) -> None:
        """ConfigError when a secret, a collector or certificates are not there. The pause is in seconds.

        `may_tell` says whether it is certain that no other daemon leads; `now` is the time of events.
        """
        self._webhooks = webhooks
        self._keys = {
            name: (secret_of(name, one), trusted(one.ca, f"webhooks.{name}.ca"))
            for name, one in webhooks.items()
        }
        self._store = store
        self._may_tell, self._backoff, self._now = may_tell, backoff, now
        self._telemetry = telemetry
        self._target = None if telemetry is None else target_of(telemetry)
        #: When jobs were accepted, as their traces tell.
        self.accepted = AcceptanceTimes(wanted=telemetry is not None)
        self._couriers: dict[str, WebhookSender] = {}
        self._tracer: TraceSender | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def start(self) -> None:
        """Begin to tell, in a thread."""
        if self._names:
            self._thread.start()

    def stop(self) -> None:
        """End, and keep how far each is."""
        if not self._names:
            return
        self._begun.wait()
        if (loop := self._loop) is not None:
            with suppress(RuntimeError):  # it is over
                loop.call_soon_threadsafe(self._cancel)
        self._thread.join(_PATIENCE)

    @property
    def _names(self) -> Sequence[str]:
        """Names of all receivers."""
        return [*self._webhooks, *((TRACER,) if self._telemetry else ())]

    def traces(self) -> TracingStatus | None:
        """How well traces of jobs are taken; None where none are sent."""
        tracer = self._tracer
        if self._telemetry is None:
            return None
        if tracer is None:
            return TracingStatus(dict.fromkeys(get_args(DeliveryOutcome), 0), 0, None)
        return TracingStatus(dict(tracer.came), tracer.rejected, tracer.fails_since)

    def status(self) -> list[WebhookBody]:
        """How each webhook does."""
        return [courier.status() for courier in list(self._couriers.values())]

    def test(self, name: str) -> TriedBody:
        """Send a test to a webhook; RejectedError when there is none, or nothing is told now."""
        if name not in self._webhooks:
            known = ", ".join(self._webhooks) or "none"
            raise RejectedError(404, "No such webhook", f"there is no webhook {name}; there are {known}")
        courier, loop = self._couriers.get(name), self._loop
        if courier is None or loop is None:
            raise RejectedError(
                503, "No notification is sent now", "the daemon has just begun to lead; try again"
            )
        trial = courier.try_it()
        try:
            tried: Future[TriedBody] = asyncio.run_coroutine_threadsafe(trial, loop)
        except RuntimeError:  # its loop has just ended
            trial.close()
            raise _too_busy() from None
        try:
            return tried.result(self._webhooks[name].timeout + _SLACK)
        except (Late, CancelledError):
            tried.cancel()
            raise _too_busy() from None

    def _cancel(self) -> None:
        if self._main is not None:
            self._main.cancel()

    def _run(self) -> None:
        # Names are looked up by threads that cannot be called back: they are many, and their own.
        readers, lookups = ThreadPoolExecutor(4, "webhooks"), ThreadPoolExecutor(4 * MOST, "webhook-names")
        loop = asyncio.new_event_loop()
        loop.set_default_executor(lookups)
        try:
            self._main = loop.create_task(self._always(loop, readers))
            self._loop = loop
            self._begun.set()
            loop.run_until_complete(self._main)
        except asyncio.CancelledError:
            pass
        finally:
            self._begun.set()
            self._loop = None
            readers.shutdown(wait=False)
            lookups.shutdown(wait=False)
            loop.close()

    async def _always(self, loop: asyncio.AbstractEventLoop, readers: ThreadPoolExecutor) -> None:
        """Send until another daemon leads; after an error, restart from the stored progress."""
        while True:
            try:
                await self._all(loop, readers)
            except DeposedError:
                break
            except ExceptionGroup as errors:
                if errors.subgroup(DeposedError) is not None:
                    break
                log.exception("webhooks begin anew")
            except Exception:
                log.exception("webhooks begin anew")
            await asyncio.sleep(_AGAIN)
        log.info("another daemon sends the webhooks now")

    async def _all(self, loop: asyncio.AbstractEventLoop, readers: ThreadPoolExecutor) -> None:
        """Make the couriers, and have them run until one of all this ends."""
        kept, last = await self._begin(loop, readers)
        source = Source(self._store, readers, self._may_tell, self._backoff, self._now)
        self._couriers = {
            name: WebhookSender(name, webhook, Post(webhook, *self._keys[name]), source, kept[name])
            for name, webhook in self._webhooks.items()
        }
        if self._telemetry is not None and self._target is not None:
            self._tracer = TraceSender(
                self._target, self._telemetry.give_up, self.accepted, source, kept[TRACER]
            )
        try:
            async with asyncio.TaskGroup() as group:
                for follower in self._followers():
                    group.create_task(follower.run())
                group.create_task(self._look(loop, readers, last))
                group.create_task(self._keep_now_and_then(loop, readers))
        finally:
            with suppress(StoreError):
                self._keep()  # at once: a caller that waits for its end waits for one write at most
            for follower in self._followers():
                await follower.close()

    def _followers(self) -> Sequence[EventSender]:
        return [*self._couriers.values(), *((self._tracer,) if self._tracer else ())]

    async def _begin(
        self, loop: asyncio.AbstractEventLoop, readers: ThreadPoolExecutor
    ) -> tuple[dict[str, int], int]:
        """`_take_up`, however long the store takes; no thread tries that when all of this has ended."""
        while True:
            try:
                return await loop.run_in_executor(readers, self._take_up)
            except DeposedError:
                raise
            except StoreError as error:
                log.warning("webhooks wait for the store", why=str(error))
                await asyncio.sleep(_KEEP)

    def _take_up(self) -> tuple[dict[str, int], int]:
        """Progress of each receiver, and the last event's number: a new receiver starts after it."""
        last = self._store.events.last()
        found: dict[str, Any] = self._store.facts.values(FACT)
        told = {name: at for name, at in found.items() if isinstance(at, int)}
        kept = {name: told.get(name, last) for name in self._names}
        if kept != found:
            self._store.facts.put(FACT, json.dumps(kept))
        return kept, last

    async def _look(self, loop: asyncio.AbstractEventLoop, readers: ThreadPoolExecutor, last: int) -> None:
        """Tell couriers that there may be something new."""
        while True:
            with suppress(StoreError):
                found = await loop.run_in_executor(readers, self._store.events.last)
                if found != last:
                    last = found
                    for follower in self._followers():
                        follower.news.set()
            await asyncio.sleep(_LOOK)

    async def _keep_now_and_then(self, loop: asyncio.AbstractEventLoop, readers: ThreadPoolExecutor) -> None:
        while True:
            await asyncio.sleep(_KEEP)
            try:
                await loop.run_in_executor(readers, self._keep)
            except DeposedError:
                raise
            except StoreError as error:
                log.warning("the positions of webhooks could not be stored", why=str(error))

    def _keep(self) -> None:
        kept = json.dumps({follower.name: follower.done for follower in self._followers()})
        if kept != self._store.facts.get(FACT):
            self._store.facts.put(FACT, kept)


def _too_busy() -> RejectedError:
    return RejectedError(503, "No notification is sent now", "the daemon ends, or is too busy")


@contextmanager
def telling(
    config: Config, store: Store, may_tell: Callable[[], bool], now: Callable[[], float]
) -> Iterator[NotificationService]:
    """Webhooks are told within, and traces sent; see `NotificationService`."""
    office = NotificationService(config.webhooks, store, may_tell, telemetry=config.telemetry, now=now)
    office.start()
    try:
        yield office
    finally:
        office.stop()
