"""Forecasts the use of a pool's VMs from past uses: recent ones, and those at this time of earlier days.

It serves the idle policy `forecast` of `environment.pools`, in both worlds. A VM is used when something is
placed there that was idle or closed. Only past events are counted.
"""

from collections import Counter, deque
from dataclasses import dataclass

from conf.units import SECONDS_PER_DAY

#: Of late: so many seconds; and as many before and after this time of an earlier day. Chosen.
_LATE = 600.0
#: Number of earlier days that are remembered.
_DAYS = 7
_SLOTS_PER_DAY = int(SECONDS_PER_DAY / _LATE)


@dataclass(frozen=True, slots=True)
class PriceObservations:
    """All that a forecast is made of: times of late, and counts of ten minutes by their number."""

    late: tuple[tuple[str, tuple[float, ...]], ...] = ()
    slots: tuple[tuple[str, int, int], ...] = ()
    first: int | None = None


class Forecast:
    """Counts VMs that were taken, by pool."""

    def __init__(self, seen: PriceObservations | None = None) -> None:
        seen = seen or PriceObservations()
        self._late = {pool: deque(times) for pool, times in seen.late}
        #: By pool and number of the ten minutes.
        self._slots = Counter({(pool, slot): count for pool, slot, count in seen.slots})
        self._first = seen.first

    def seen(self) -> PriceObservations:
        """Observations from which another forecast predicts the same."""
        late = tuple((pool, tuple(times)) for pool, times in sorted(self._late.items()))
        slots = tuple(sorted((pool, slot, count) for (pool, slot), count in self._slots.items()))
        return PriceObservations(late, slots, self._first)

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
        """Number of the pool's VMs expected to be used within so many seconds from then on.

        As many as of late, or, where it was seen before, half that and half as many as at this time of
        earlier days.
        """
        late = self._late.get(pool, deque())
        while late and late[0] <= at - _LATE:
            late.popleft()
        found, now = float(len(late)), int(at // _LATE)
        first = now if self._first is None else self._first
        days = [now - day * _SLOTS_PER_DAY for day in range(1, _DAYS + 1)]
        earlier = [self._slots[pool, slot] for slot in days if slot >= first]
        if earlier:
            found = (found + sum(earlier) / len(earlier)) / 2.0
        return found * seconds / _LATE
