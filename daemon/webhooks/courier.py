"""Tells one webhook what happens, in order, again and again until it is taken or too old.

How a request is made is in `posting.py`; who runs the couriers, and keeps how far they are, in `office.py`.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from secrets import token_hex
from typing import TypeVar, get_args

import structlog

from conf.schema import Webhook
from conf.schema.webhooks import ENDS
from daemon.database import DeposedError
from daemon.event_rows import Numbered
from daemon.job_bodies import job_body
from daemon.store import Store, StoreError
from daemon.webhooks.posting import Came, Outcome, Post
from daemon.webhooks.schemas import TellingBody, TriedBody, WebhookBody
from environment.model.records import ExecutorRecord, JobRecord

log = structlog.get_logger("webhooks")
Result = TypeVar("Result")

#: Events that are read at once.
_PAGE = 500
#: Seconds after which it is tried again, doubled each time, up to the second.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
#: Pauses differ by so much, so that not all who wait for a receiver come back at once.
_SPREAD = 0.2
#: Seconds for which the end of a job waits for that of its executors, so that what it has cost is known.
_SETTLES = 10.0
_LOOK = 0.5
#: Seconds before a store that cannot be read is tried again.
_AGAIN = 2.0


class Courier:
    """For one event loop, `status` for any thread. `done` is the number of the last event it is done with."""

    def __init__(
        self,
        name: str,
        webhook: Webhook,
        post: Post,
        store: Store,
        readers: Executor,
        done: int,
        may_tell: Callable[[], bool],
        first_pause: float,
    ) -> None:
        self.name, self.done = name, done
        self._webhook, self._post, self._store, self._readers = webhook, post, store, readers
        self._may_tell, self._first_pause = may_tell, first_pause
        #: Set when there may be more to tell.
        self.news = asyncio.Event()
        self._came: dict[Came, int] = dict.fromkeys(get_args(Came), 0)
        self._delivered_at: float | None = None
        self._fails_since: float | None = None
        self._next_at: float | None = None
        self._telling_of: float | None = None
        self._failure = ""

    async def run(self) -> None:
        """Tell what happens until cancelled, or until another daemon leads."""
        while True:
            self.news.clear()
            page = await self._patiently(lambda: self._store.events.read(_PAGE, after=self.done))
            for each in page.found:
                if each.happening.kind in self._webhook.kinds:
                    await self._tell_if_possible(each)
                self.done = each.number
            self.done = page.next
            if not page.more:
                await self.news.wait()

    async def try_it(self) -> TriedBody:
        """Send a test, before all that waits."""
        event_id, began = f"test-{token_hex(8)}", time.time()
        words = f"a test of webhook {self.name}"
        body = TellingBody(
            id=event_id, number=None, at=began, kind="test", message=words, job=None, settled=False
        )
        outcome = await self._post.send(event_id, body.model_dump_json().encode(), int(began))
        self._note(outcome)
        return TriedBody(id=event_id, came=outcome.came, why=outcome.why, seconds=time.time() - began)

    async def _tell_if_possible(self, event: Numbered) -> None:
        """Tell it; what cannot be told for no fault of the receiver's keeps nobody from the rest."""
        try:
            await self._tell(event)
        except DeposedError:
            raise
        except Exception:
            log.exception("an event cannot be told", webhook=self.name, number=event.number)
            self._came["given up"] += 1

    async def _tell(self, event: Numbered) -> None:
        happened = event.happening
        job = await self._job(event)
        if happened.job_id is not None and job is None and (self._webhook.queues or self._webhook.users):
            return  # it was pruned, and whose it was is not known
        owner, queue = (None, "") if job is None else (job.job.owner, job.job.queue)
        if not self._webhook.wants(happened.kind, owner, queue):
            return
        settled = False
        if job is not None and happened.kind in ENDS:
            job, settled = await self._settled(job, happened.at + _SETTLES)
        body = TellingBody(
            id=f"{event.number}-{round(happened.at * 1000)}",
            number=event.number,
            at=happened.at,
            kind=happened.kind,
            message=happened.text,
            job=None if job is None else job_body(job),
            settled=settled,
        )
        self._telling_of = happened.at
        await self._bring(body)
        self._telling_of = None

    async def _bring(self, body: TellingBody) -> None:
        """Send it until it is taken, or too old."""
        data, pause = body.model_dump_json().encode(), self._first_pause
        while (now := time.time()) <= body.at + self._webhook.give_up:
            if not self._may_tell():
                await asyncio.sleep(_LOOK)
                continue
            outcome = await self._post.send(body.id, data, int(now))
            self._note(outcome)
            if outcome.came == "delivered":
                return
            wait = pause * random.uniform(1 - _SPREAD, 1 + _SPREAD)  # noqa: S311  # no secret
            self._next_at = time.time() + wait
            await asyncio.sleep(wait)
            self._next_at, pause = None, min(2 * pause, LONGEST_PAUSE)
        self._came["given up"] += 1
        log.error("an event is given up", webhook=self.name, id=body.id, kind=body.kind, why=self._failure)

    def _note(self, outcome: Outcome) -> None:
        self._came[outcome.came] += 1
        if outcome.came == "delivered":
            if self._fails_since is not None:
                log.info("a webhook takes requests again", webhook=self.name)
            self._delivered_at, self._fails_since, self._failure = time.time(), None, ""
            return
        if self._fails_since is None:
            self._fails_since = time.time()
            log.warning("a webhook takes no request", webhook=self.name, why=outcome.why)
        self._failure = outcome.why

    async def _job(self, event: Numbered) -> JobRecord | None:
        job_id = event.happening.job_id
        return None if job_id is None else await self._patiently(lambda: self._store.job(job_id))

    async def _settled(self, job: JobRecord, until: float) -> tuple[JobRecord, bool]:
        """The job once all its tasks have ended, or at that time; and whether they have."""
        while any(not task.ended for task in await self._tasks(job)):
            if time.time() >= until:
                return job, False
            await asyncio.sleep(_LOOK)
        return await self._patiently(lambda: self._store.job(job.job.id)) or job, True

    def _tasks(self, job: JobRecord) -> Awaitable[list[ExecutorRecord]]:
        return self._patiently(lambda: self._store.executors(job.job.id))

    async def _patiently(self, read: Callable[[], Result]) -> Result:
        """What the store has, however long it takes."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await loop.run_in_executor(self._readers, read)
            except DeposedError:
                raise
            except StoreError as error:
                log.warning("what happens cannot be read", webhook=self.name, why=str(error))
                await asyncio.sleep(_AGAIN)

    async def close(self) -> None:
        """Let go of connections."""
        with suppress(Exception):  # they are nobody's any more
            await self._post.close()

    def status(self) -> WebhookBody:
        """How it does."""
        fails = self._fails_since
        since = self._telling_of
        return WebhookBody(
            name=self.name,
            url=self._webhook.place,
            on=sorted(self._webhook.kinds),
            queues=list(self._webhook.queues),
            users=list(self._webhook.users),
            state="fails" if fails is not None else "idle" if self._delivered_at is None else "delivers",
            delivered_at=self._delivered_at,
            fails_since=fails,
            failure=self._failure,
            next_at=self._next_at,
            behind=0.0 if since is None else max(0.0, time.time() - since),
            came=dict(self._came),
        )
