"""Server-sent events: a snapshot of the scene, then the changes, to all listeners, at most twice a second.

There is one producer, and it rests while nobody listens. It keeps the last differences; a listener has no
buffer of its own but its place among them. A listener that falls behind them, or returns too late, gets a
snapshot.
"""

import asyncio
import contextlib
import json
import secrets
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import structlog
from starlette.concurrency import run_in_threadpool

from daemon.auth.permits import Permit
from daemon.core.errors import RejectedError
from daemon.http.server.scheduler_interface import Leadership
from daemon.page.page_state import Difference, PageScene
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError

log = structlog.get_logger("page")

#: Seconds from one look to the next.
PAUSE = 0.5
#: Who may listen at one time, and how often one user.
MOST_LISTENERS, MOST_OF_ONE = 64, 8
#: Differences that are kept: two minutes' worth; and rows of jobs in one. Of more, as when thousands of jobs
#: are killed at once, each listener is sent the whole scene in parts: one large message for each of them
#: would take the event loop seconds.
_KEPT, MOST_ROWS = 240, 2000
#: Seconds without anything to say after which it is said that there is nothing; proxies cut what is silent.
_SILENCE = 10.0
#: Seconds after which a listener has to ask again, so that who may not any more hears no more.
_LONGEST = 300.0
#: Seconds for which the scene is kept when nobody looks: whoever reloads the page need not wait.
_LINGER = 30.0
#: Seconds for which the whole scene is sent to further pages of its user, and of how many users it is kept.
_FRESH, _MOST_WHOLES = 2.0, 4


@dataclass(slots=True)
class _StreamState:
    kept: deque[Difference] = field(default_factory=lambda: deque(maxlen=_KEPT))
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    #: Why nothing comes any more; empty while something does.
    over: str = ""


@dataclass(frozen=True, slots=True)
class _Whole:
    """The scene as somebody is shown it, as of a difference's number; listeners get it until that time."""

    state: _StreamState
    until: float
    number: int
    parts: Sequence[str]


class SnapshotStream:
    """The answer to `/v1/stream`. For one thread, the event loop's."""

    def __init__(self, leadership: Leadership, store: Store, page: str = "") -> None:
        """`page` says which page this daemon has: one that is open may be that of another."""
        self._page = page
        self._scene = PageScene(leadership, store)
        self._told = lru_cache(maxsize=4)(self._scene.told)
        #: How many listen, by the name of their user.
        self._listening: Counter[str] = Counter()
        self._closing = False
        self._producer: asyncio.Task[None] | None = None
        self._begun: asyncio.Future[None] | None = None
        self._state = _StreamState()
        #: The last scenes as a whole, by whose they are, and a turn to make one.
        self._wholes: dict[Permit, _Whole] = {}
        self._turn = asyncio.Lock()
        #: With which ids begin: those of another daemon, or of before a pause, mean nothing here.
        self._epoch = ""

    @property
    def listeners(self) -> int:
        """How many listen."""
        return self._listening.total()

    def close(self) -> None:
        """Let nobody listen any more: the daemon ends."""
        self._closing = True
        self._state.over = "the daemon ends"
        self._state.changed.set()

    async def listen(self, permit: Permit, last: str) -> AsyncIterator[bytes]:
        """Messages for a listener that has received all up to `last`.

        RejectedError when there are too many listeners, or this daemon cannot answer; StoreError.
        """
        self._check(permit)
        await self._produce()
        messages = self._messages(permit, last)
        await anext(messages)  # counted from here on, until it is closed
        return messages

    def _check(self, permit: Permit) -> None:
        """Raise RejectedError where there is no place for one more."""
        name, retry = permit.person.name, {"Retry-After": "5"}
        if self._closing or self.listeners >= MOST_LISTENERS:
            detail = f"{self.listeners} pages listen already, or the daemon ends"
            raise RejectedError(503, "Too many listeners", detail, retry)
        if name and self._listening[name] >= MOST_OF_ONE:
            detail = f"{MOST_OF_ONE} pages of {name} listen already, the maximum"
            raise RejectedError(429, "Too many listeners", detail, retry)

    async def _messages(self, permit: Permit, last: str) -> AsyncIterator[bytes]:
        state, began = self._state, asyncio.get_running_loop().time()
        name = permit.person.name
        self._check(permit)
        self._listening[name] += 1
        try:
            yield b""  # taken by `listen`
            yield b"retry: 2000\n\n"
            yield self._message("page", json.dumps(self._page))
            at = self._resumed(last)
            while not state.over and asyncio.get_running_loop().time() < began + _LONGEST:
                if at is None or not self._has(at):
                    whole = await self._whole(permit)
                    at, (first, *parts) = whole.number, whole.parts
                    yield self._message("snapshot", first)
                    for part in parts:
                        await asyncio.sleep(0)
                        yield self._message("rows", part)
                    yield self._message("whole", "{}", at)
                for difference in [each for each in state.kept if each.number > at and self._has(at)]:
                    yield self._message("change", self._told(difference, permit), difference.number)
                    at = difference.number
                if not any(each.number > at for each in state.kept) and not state.over:
                    silent = await _silent(state.changed)
                    if silent:
                        yield b": nothing has changed\n\n"
        finally:
            self._listening[name] -= 1
            if not self._listening[name]:
                del self._listening[name]

    async def _whole(self, permit: Permit) -> "_Whole":
        """All that somebody is shown, as of a moment ago: one at a time, and not again for each page.

        With 20,000 jobs that takes a quarter of a second, for which the event loop answers others.
        """
        async with self._turn:
            now, known = asyncio.get_running_loop().time(), self._wholes.pop(permit, None)
            if (
                known is None
                or known.state is not self._state
                or now > known.until
                or not self._has(known.number)
            ):
                state = self._state
                number, parts = await run_in_threadpool(self._scene.whole, permit)
                known = _Whole(state, asyncio.get_running_loop().time() + _FRESH, number, parts)
            self._wholes[permit] = known
            while len(self._wholes) > _MOST_WHOLES:
                del self._wholes[next(iter(self._wholes))]
            return known

    def _resumed(self, last: str) -> int | None:
        epoch, _, number = last.rpartition("-")
        return int(number) if epoch == self._epoch and number.isascii() and number.isdecimal() else None

    def _has(self, at: int) -> bool:
        """Whether all differences after that one are kept, and none of them is large."""
        kept = self._state.kept
        large = any(each.number > at and len(each.jobs) > MOST_ROWS for each in kept)
        return not kept or (kept[0].number <= at + 1 and not large)

    def _message(self, event: str, data: str, number: int | None = None) -> bytes:
        name = "" if number is None else f"id: {self._epoch}-{number}\n"
        return f"{name}event: {event}\ndata: {data}\n\n".encode()

    # ---- the producer ----------------------------------------------------------------------------

    async def _produce(self) -> None:
        """Have the scene there, and looked at from now on."""
        begun = self._begun
        if begun is None or self._producer is None or self._producer.done():
            self._state, self._epoch = _StreamState(), secrets.token_hex(4)
            begun = self._begun = asyncio.get_running_loop().create_future()
            self._producer = asyncio.create_task(self._look(self._state, begun))
        await asyncio.shield(begun)

    async def _look(self, state: _StreamState, begun: asyncio.Future[None]) -> None:
        try:
            try:
                await run_in_threadpool(self._scene.begin)
            except (RejectedError, StoreError) as error:
                begun.set_exception(error)
                return
            begun.set_result(None)
            lonely = 0.0
            while not state.over and lonely < _LINGER:
                await asyncio.sleep(PAUSE)
                lonely = 0.0 if self._listening else lonely + PAUSE
                if (difference := await run_in_threadpool(self._scene.look)) is not None:
                    state.kept.append(difference)
                    self._wake(state)
        except (RejectedError, StoreError) as error:  # another daemon leads, or the store is away
            log.info("the page gets no updates for now", why=str(error))
        finally:
            state.over = state.over or "there are no updates for now"
            self._wake(state)
            self._wholes.clear()
            with contextlib.suppress(StoreError):
                self._scene.end()

    def _wake(self, state: _StreamState) -> None:
        state.changed.set()
        state.changed = asyncio.Event()


async def _silent(changed: asyncio.Event) -> bool:
    """Wait for a difference; whether none came for long."""
    try:
        async with asyncio.timeout(_SILENCE):
            await changed.wait()
    except TimeoutError:
        return True
    return False
