"""Sends events to one webhook in order, again and again until it accepts them or they are too old.

An event that it refuses for its content, while it would accept others, is given up sooner.

`event_sender.py` reads the events, `signed_post.py` makes the requests, `notification_service.py` runs the
senders and stores their progress.
"""

import time
from collections.abc import Collection
from secrets import token_hex

from conf.event_kinds import Kind
from conf.schema import Webhook
from conf.schema.webhooks import ENDS
from daemon.notifications.event_sender import SETTLES, EventSender, Source
from daemon.notifications.signed_post import Post, PostOutcome
from daemon.schemas.job_bodies import job_body
from daemon.schemas.jobs import JobBody
from daemon.schemas.webhooks import TellingBody, TriedBody, WebhookBody
from daemon.store.rows.events import NumberedEvent
from environment.model.messages.records import JobRecord

#: Jobs that a job depends on of which an event tells. Chosen: with the longest names still a body that
#: receivers take.
MOST_AFTER = 20
#: Answers to a body that cannot be accepted, and other 4xx that say nothing of it.
_OF_CONTENT = frozenset({400, 406, 411, 413, 414, 415, 422, 431})
_OF_THE_MOMENT = frozenset({408, 425, 429})


class WebhookSender(EventSender):
    """For one event loop, `status` for any thread."""

    def __init__(self, name: str, webhook: Webhook, post: Post, source: Source, done: int) -> None:
        super().__init__(name, source, post, done)
        self._webhook, self._post = webhook, post
        self._telling_of: float | None = None

    @property
    def kinds(self) -> Collection[Kind]:
        """Those that the config names."""
        return self._webhook.kinds

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

    async def tell(self, event: NumberedEvent) -> None:
        """Tell it, if it is of a user and queue that are told of."""
        happened = event.happening
        job = await self._job(event)
        if happened.job_id is not None and job is None and (self._webhook.queues or self._webhook.users):
            return  # it was pruned, and its owner is unknown
        owner, queue = (None, "") if job is None else (job.job.owner, job.job.queue)
        if not self._webhook.wants(happened.kind, owner, queue):
            return
        settled = False
        if job is not None and happened.kind in ENDS:
            job, settled = await self._settled(job, happened.at + SETTLES)
        body = TellingBody(
            id=f"{event.number}-{round(happened.at * 1000)}",
            number=event.number,
            at=happened.at,
            kind=happened.kind,
            message=happened.text,
            job=None if job is None else _told(job),
            settled=settled,
        )
        self._telling_of, data = happened.at, body.model_dump_json().encode()
        await self._bring(
            lambda now: self._post.send(body.id, data, int(now)),
            body.at + self._webhook.give_up,
            id=body.id,
            kind=body.kind,
        )
        self._telling_of = None

    async def _is_refused_alone(self, outcome: PostOutcome) -> bool:
        """Whether the answer is one to this body: a firewall's 403 is, where it lets a test pass."""
        if outcome.status in _OF_CONTENT:
            return True
        doubtful = 400 <= outcome.status < 500 and outcome.status not in _OF_THE_MOMENT
        return doubtful and (await self.try_it()).came == "delivered"

    def status(self) -> WebhookBody:
        """How it does."""
        fails = self.fails_since
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
            behind=0.0 if since is None else max(0.0, self._now() - since),
            came=dict(self.came),
        )


def _told(job: JobRecord) -> JobBody:
    """The job as receivers are told of it."""
    body = job_body(job)
    return body.model_copy(update={"after": body.after[:MOST_AFTER]})
