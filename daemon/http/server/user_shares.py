"""Shares of the API's work for each user, so that many requests of one leave room for those of others."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

#: Requests of one user that are answered at once; more wait. Chosen: a third of the threads that answer.
_AT_ONCE = 12


def share(most: int, all_of_them: int, own: int) -> int:
    """Of `most` at once, as many as one may have: half of the number left by others, and one at least."""
    return max(1, (most - all_of_them + own) // 2)


class TooManyError(Exception):
    """A user has as many requests under way as one may have; the text gives the number."""


class HeldShares:
    """Amounts, such as bytes, that are held for users or addresses at one time; for one event loop.

    One user leaves half of the rest to others; without a name, all of it may be taken.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: Counter[str] = Counter()

    def hold(self, user: str, size: int) -> bool:
        """Hold so much more for a user, or less where negative; whether there was room for it."""
        self._held[user] += size
        own, all_of_them = self._held[user], self._held.total()
        if not own:
            del self._held[user]
        return all_of_them <= self._most and (not user or own <= share(self._most, all_of_them, own))


class UserShares:
    """Requests of users that are under way; for one event loop."""

    def __init__(self, most: int) -> None:
        """Of `most` requests under way at once, one user has at most half of the rest that others leave."""
        self._most = most
        self._under_way: Counter[str] = Counter()
        self._waiting: dict[str, asyncio.Semaphore] = {}
        #: Turns for large requests, and how many have or await one, by user.
        self._large: dict[str, asyncio.Lock] = {}
        self._awaiting: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, user: str, *, waits: bool) -> AsyncIterator[None]:
        """A user's request, which may have to wait for others of theirs; TooManyError beyond their share."""
        if not user:  # where there are no users, all requests are of one
            yield
            return
        own = self._under_way[user]
        # Of what others leave, so that there is room for another one beside several such users.
        if own >= share(self._most, self._under_way.total(), own):
            others = f", half of what others leave of {self._most}"
            raise TooManyError(f"{own} of your requests are under way already{others}")
        self._under_way[user] += 1
        try:
            if waits:
                async with self._waiting.setdefault(user, asyncio.Semaphore(_AT_ONCE)):
                    yield
            else:
                yield
        finally:
            self._under_way[user] -= 1
            if not self._under_way[user]:
                del self._under_way[user]
                self._waiting.pop(user, None)

    @asynccontextmanager
    async def one_by_one(self, user: str) -> AsyncIterator[None]:
        """A large request of a user, after the others; without a user, at once.

        Each holds the event loop for a moment: between two of them it answers others.
        """
        if not user:
            yield
            return
        self._awaiting[user] += 1
        try:
            async with self._large.setdefault(user, asyncio.Lock()):
                yield
        finally:
            self._awaiting[user] -= 1
            if not self._awaiting[user]:
                del self._awaiting[user], self._large[user]
