"""Pools of which VMs were refused, did not boot, or were of no use: for how long no other is asked for.

The pause doubles with each refusal until something is launched on one that was asked for since. Several that
were asked for at once count as one. A pool whose VMs were paid for and did not join is on trial: after the
pause one VM is opened, and others only once one has joined.
"""

from collections.abc import Iterable, Iterator
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
    """A pool's refusals in a row, the time of the last, the end of its backoff, and the last message.

    On `trial` its last VMs did not join.
    """

    times: int = 0
    last: float = -1.0
    until: float = 0.0
    message: str = ""
    trial: bool = False


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
        self._pools = {p.pool: _Pool(p.times, p.last, p.until, p.message, p.trial) for p in state}
        self._woken_at = self._turn.now
        self.hold(held)

    def hold(self, why: str) -> None:
        """Open no more VMs of any pool, for this reason; or, if it is empty, as before."""
        self.held = why
        for pool in self._places.pools():
            self._show(pool)

    def _show(self, pool: str) -> None:
        self._places.leave_pool_out(pool, self.why_not(pool))

    def refused(
        self,
        lease: Lease,
        message: str,
        *,
        for_good: bool = False,
        trial: bool = False,
        at: float | None = None,
    ) -> None:
        """The VM of a lease does not come, or was of no use, now or `at` a time before.

        With `for_good`, the pool is as it will never be opened; on `trial` it is opened by one VM alone.
        """
        now = self._turn.now if at is None else at
        pool = self._pools.setdefault(pool_of(lease), _Pool())
        self._changed[pool_of(lease)] = None
        if lease.asked_at > pool.last or not pool.times:
            pool.times += 1
            pool.last = now
            pauses = options.NOT_JOINED if trial else options.REFUSED
            pool.until = now + (pauses.longest if for_good else pauses.after(pool.times))
        pool.trial = pool.trial or trial
        pool.message = message[:_LONGEST_MESSAGE]
        self._show(pool_of(lease))

    def joined(self, lease: Lease) -> bool:
        """The VM of a lease is up for the first time: its pool is not on trial any more; whether it was."""
        pool = self._pools.get(pool_of(lease))
        if pool is None or not pool.trial:
            return False
        pool.trial, pool.until = False, min(pool.until, self._turn.now)
        self._changed[pool_of(lease)] = None
        self._show(pool_of(lease))
        return True

    def tries(self, lease: Lease) -> bool:
        """Whether the VM of a lease is open to see whether it joins."""
        pool = self._pools.get(pool_of(lease))
        return pool is not None and pool.trial and lease.ready_at is None

    def on_trial(self) -> Iterator[str]:
        """Pools of which a VM may be opened now to see whether it joins."""
        now = self._turn.now
        return (name for name, pool in self._pools.items() if pool.trial and pool.until <= now)

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
        if known is None or (known.until <= self._turn.now and not known.trial):
            return ""
        if known.until > self._turn.now:
            return f"cannot be opened until {clock(known.until)}: {known.message}"
        return f"is not opened before one VM of its pool has joined, to try it: {known.message}"

    def wake(self) -> float | None:
        """When the last pause of a pool ended that was not told yet: its places may be opened again."""
        since, self._woken_at = self._woken_at, self._turn.now
        ended = [(n, p.until) for n, p in self._pools.items() if since < p.until <= self._turn.now]
        for pool, _ in ended:
            self._show(pool)
        return max((at for _, at in ended), default=None)


def _told(name: str, pool: _Pool) -> PoolSetback:
    return PoolSetback(name, pool.times, pool.last, pool.until, pool.message, pool.trial)


def pool_of(lease: Lease) -> str:
    """The pool of which the VM of a lease is; empty when that is not known."""
    return "" if lease.vm.terms is None else lease.vm.terms.pool
