"""Pools of which VMs were refused, did not boot, or were of no use: for how long no other is asked for.

The pause doubles with each refusal until something is launched on one that was asked for since. Several that
were asked for at once count as one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from environment.model.messages import options
from environment.model.messages.lease import Lease
from environment.model.messages.snapshot import PoolSetback
from environment.number_format import clock

#: Longest message of a provider quoted in a reason.
_LONGEST_MESSAGE = 200


@dataclass(slots=True)
class _Pool:
    """A pool's refusals in a row, the time of the last, the end of its backoff, and the last message."""

    times: int = 0
    last: float = -1.0
    until: float = 0.0
    message: str = ""


class _Clock(Protocol):
    """Present time of a world, seconds."""

    @property
    def now(self) -> float: ...


class _Pools(Protocol):
    """Closed VMs of pools in a world: the daemon's, or a simulation's."""

    def pools(self) -> set[str]:
        """The names of all pools."""

    def leave_pool_out(self, pool: str, why: str) -> None:
        """No other VM of the pool is opened now; empty, one may be."""


class OpenBackoff:
    """Backoff by pool. Invariant: a pool is absent if a VM of it was requested since, and used.

    It passes the effect on the places of a pool to its world's pools.
    """

    def __init__(self, turn: _Clock, places: _Pools) -> None:
        self._turn = turn
        self._places = places
        self._pools: dict[str, _Pool] = {}
        self._changed: dict[str, None] = {}
        #: Why none of any pool is to be opened; empty when they may be.
        self.held = ""
        #: Until when it was looked for pauses that end.
        self._woken_at = 0.0

    def state(self) -> tuple[PoolSetback, ...]:
        """All that is known."""
        return tuple(_told(name, pool) for name, pool in self._pools.items())

    def take_changes(self) -> dict[str, PoolSetback | None]:
        """Return changes since the last call, by pool; None for pools that are not left alone any more."""
        changed = {name: self._pools.get(name) for name in self._changed}
        self._changed.clear()
        return {name: None if pool is None else _told(name, pool) for name, pool in changed.items()}

    def resume(self, state: Iterable[PoolSetback], held: str = "") -> None:
        """Restore the state."""
        self._pools = {p.pool: _Pool(p.times, p.last, p.until, p.message) for p in state}
        self._woken_at = self._turn.now
        self.hold(held)

    def hold(self, why: str) -> None:
        """Open no more VMs of any pool, for this reason; or, if it is empty, as before."""
        self.held = why
        for pool in self._places.pools():
            self._show(pool)

    def _show(self, pool: str) -> None:
        self._places.leave_pool_out(pool, self.why_not(pool))

    def refused(self, lease: Lease, message: str, *, for_good: bool = False, at: float | None = None) -> None:
        """The VM of a lease does not come, or was of no use, now or `at` a time before.

        With `for_good`, the pool is as it will never be opened.
        """
        now = self._turn.now if at is None else at
        pool = self._pools.setdefault(pool_of(lease), _Pool())
        self._changed[pool_of(lease)] = None
        if lease.asked_at > pool.last or not pool.times:
            pool.times += 1
            pool.last = now
            pool.until = now + (options.REFUSED.longest if for_good else options.REFUSED.after(pool.times))
        pool.message = message[:_LONGEST_MESSAGE]
        self._show(pool_of(lease))

    def used(self, lease: Lease) -> None:
        """Something is launched on the VM of a lease."""
        pool = self._pools.get(pool_of(lease))
        if pool is not None and lease.asked_at > pool.last:
            del self._pools[pool_of(lease)]
            self._changed[pool_of(lease)] = None

    def why_not(self, pool: str) -> str:
        """Why none of a pool is opened now; empty when one may be."""
        if self.held:
            return self.held
        known = self._pools.get(pool)
        if known is None or known.until <= self._turn.now:
            return ""
        return f"cannot be opened until {clock(known.until)}: {known.message}"

    def wake(self) -> float | None:
        """When the last pause of a pool ended that was not told yet: its places may be opened again."""
        since, self._woken_at = self._woken_at, self._turn.now
        ended = [(n, p.until) for n, p in self._pools.items() if since < p.until <= self._turn.now]
        for pool, _ in ended:
            self._show(pool)
        return max((at for _, at in ended), default=None)


def _told(name: str, pool: _Pool) -> PoolSetback:
    return PoolSetback(name, pool.times, pool.last, pool.until, pool.message)


def pool_of(lease: Lease) -> str:
    """The pool of which the VM of a lease is; empty when that is not known."""
    return "" if lease.vm.terms is None else lease.vm.terms.pool
