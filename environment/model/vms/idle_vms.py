"""Idle VMs of pools: since when, and until when they stay open.

`environment.pools.IdleTimeout` defines how long an idle VM stays open; `fleet.py` closes it.
"""

import math
from collections.abc import Iterable, Mapping

from environment.model.messages.event_context import EventContext
from environment.model.messages.lease import Lease
from environment.model.messages.snapshot import IdleSnapshot
from environment.model.vms.open_backoff import pool_of
from environment.model.vms.pool_slots import Places
from environment.model.vms.reservations import Reservations
from environment.model.vms.usage_ledger import Ledger
from environment.number_format import natural_key
from environment.pools import IdleTimeout
from environment.spot_forecast import Forecast


class IdleVmWatch:
    """Watches VMs on which something is put, or which something has left.

    Invariant: after `look`, a lease says that it is idle if nothing runs on its VM and nothing is kept there.
    """

    def __init__(
        self,
        turn: EventContext,
        places: Places,
        ledger: Ledger,
        reservations: Reservations,
        keeping: IdleTimeout,
    ) -> None:
        self._turn = turn
        self._places = places
        self._ledger = ledger
        self._reservations = reservations
        self._keeping = keeping
        self._forecast = Forecast()
        #: The leases of VMs that are in use, of idle ones that are expected to be needed soon, and until when
        #: the policy's plan needs idle ones.
        self._used: set[str] = set()
        self._needed: set[str] = set()
        self._planned: dict[str, float] = {}
        #: When idle VMs are closed, by lease.
        self._closes: dict[str, float] = {}

    def state(self) -> IdleSnapshot:
        """State that the leases do not contain."""
        planned = tuple(sorted(self._planned.items()))
        return IdleSnapshot(self._forecast.seen(), tuple(sorted(self._needed)), planned)

    def resume(self, state: IdleSnapshot) -> None:
        """Restore the state; call it before leases are restored."""
        self._forecast = Forecast(state.seen)
        self._needed, self._planned = set(state.needed), dict(state.planned)

    def restore(self, lease: Lease) -> None:
        """There is a lease from before."""
        if lease.idle_since is None:
            self._used.add(lease.id)
        self.keep(lease)
        self.touch(lease.vm_id)

    def touch(self, vm_id: str) -> None:
        """Something was put on the VM, or has left it."""
        self._reservations.touched[vm_id] = None

    def look(self) -> None:
        """Find the idle ones among the touched VMs."""
        touched, idle = self._reservations.touched, False
        for vm_id in touched:
            lease = self._places.at(vm_id)
            if lease is None:
                continue
            busy = bool(self._ledger.count(vm_id)) or bool(self._reservations.jobs_on(vm_id))
            if busy and lease.id not in self._used:
                self._used.add(lease.id)
                self._forecast.taken(pool_of(lease), self._turn.now)
            if busy and lease.idle_since is not None:
                lease.idle_since = None
                self.forget(lease)
                self._places.mark(lease)
            elif not busy and lease.idle_since is None:
                lease.idle_since = self._turn.now
                self._used.discard(lease.id)
                idle = True
                self._places.mark(lease)
        touched.clear()
        if idle:
            # Tasks that end together are reported one by one, and looked at together.
            for lease in [other for other in self._places if other.idle_since == self._turn.now]:
                self._foresee(lease)
                self.keep(lease)

    def _foresee(self, lease: Lease) -> None:
        """Know whether an idle VM is expected to be needed soon."""
        self._needed.discard(lease.id)
        if self._keeping.foresees(self._forecast, lease.vm.terms, self._turn.now, self._number(lease)):
            self._needed.add(lease.id)

    def _number(self, lease: Lease) -> int:
        """Position of the VM among the idle ones of its pool; most policies use the first ones first."""
        place = natural_key(lease.vm.name)
        return sum(
            other.idle_since is not None
            and other.state != "closing"
            and (
                other.idle_since == self._turn.now or self._closes.get(other.id, -math.inf) >= self._turn.now
            )
            and pool_of(other) == pool_of(lease)
            and natural_key(other.vm.name) <= place
            for other in self._places
        )

    def plan(self, keeps: Iterable[tuple[str, float]]) -> None:
        """The policy would use these VMs, by id, until then."""
        if self._keeping.name != "planned":
            return
        for vm_id, until in keeps:
            lease = self._places.at(vm_id)
            if lease is not None and lease.idle_since is not None and lease.state != "closing":
                self._planned[lease.id] = max(until, self._planned.get(lease.id, until))
                self.keep(lease)

    def keep(self, lease: Lease) -> None:
        """Know when the VM is closed if it stays idle, which it is or not."""
        self._closes.pop(lease.id, None)
        if lease.idle_since is None or lease.state == "closing":
            return
        opened_at = lease.asked_at if lease.opened_at is None else lease.opened_at
        needed = lease.id in self._needed
        closes = self._keeping.closes_at(lease.vm.terms, opened_at, lease.idle_since, needed=needed)
        closes = max(closes, self._planned.get(lease.id, closes))
        if lease.state == "draining" or self._places.place(lease.vm.id) is None:
            closes = lease.idle_since  # nothing will ever be placed there
        if not math.isinf(closes):
            self._closes[lease.id] = closes

    def forget(self, lease: Lease) -> None:
        """Cancel the closing of a VM for being idle."""
        self._closes.pop(lease.id, None)
        self._planned.pop(lease.id, None)
        self._needed.discard(lease.id)

    def ended(self, lease: Lease) -> None:
        """Forget a lease that is closing, or over."""
        self.forget(lease)
        self._used.discard(lease.id)

    @property
    def closes(self) -> Mapping[str, float]:
        """When VMs are closed that are idle, by lease."""
        return self._closes
