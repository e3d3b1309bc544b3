"""How many VMs of a pool will be taken soon, from when some were: of late, and at this time of earlier days.

For the keeper `forecast` of `environment.pools`, in both worlds. A VM is taken when something is placed there
that was idle or closed. Only what has happened is counted.
"""

from collections import Counter, deque

#: Of late: so many seconds; and as many before and after this time of an earlier day. Chosen.
_LATE = 600.0
_DAY = 86_400.0
#: So many earlier days are remembered.
_DAYS = 7
_SLOTS_PER_DAY = int(_DAY / _LATE)


class Forecast:
    """Counts VMs that were taken, by pool."""

    def __init__(self) -> None:
        self._late: dict[str, deque[float]] = {}
        #: By pool and number of the ten minutes.
        self._slots: Counter[tuple[str, int]] = Counter()
        self._first: int | None = None

    def taken(self, pool: str, at: float) -> None:
        """An idle or a closed VM of the pool is used from now on, in seconds; times do not fall."""
        slot = int(at // _LATE)
        if self._first is None:
            self._first = slot
        if (pool, slot) not in self._slots:
            oldest = slot - _DAYS * _SLOTS_PER_DAY
            self._slots = Counter({key: count for key, count in self._slots.items() if key[1] >= oldest})
        self._slots[pool, slot] += 1
        self._late.setdefault(pool, deque()).append(at)

    def within(self, pool: str, at: float, seconds: float) -> float:
        """How many VMs of the pool are expected to be taken within so many seconds from then on.

        As many as of late, or, where it was seen before, half that and half as many as at this time of
        earlier days.
        """
        late = self._late.get(pool, deque())
        while late and late[0] <= at - _LATE:
            late.popleft()
        found, now = float(len(late)), int(at // _LATE)
        first = now if self._first is None else self._first
        days = [now - day * _SLOTS_PER_DAY for day in range(1, _DAYS + 1)]
        seen = [self._slots[pool, slot] for slot in days if slot >= first]
        if seen:
            found = (found + sum(seen) / len(seen)) / 2.0
        return found * seconds / _LATE
