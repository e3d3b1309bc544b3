"""Which VMs of pools are idle, since when, and when they are to be closed for that.

For how long one is kept is said by `environment.pools.Keeping`; who closes it is `fleet.py`.
"""

import math
from collections.abc import Mapping

from environment.model.leases import Lease
from environment.model.ledger import Ledger
from environment.model.places import Places
from environment.model.reservations import Reservations
from environment.model.turn import Turn
from environment.pools import Keeping


class Idling:
    """Watches VMs on which something is put, or which something has left.

    Invariant: after `look`, a lease says that it is idle if nothing runs on its VM and nothing is kept there.
    """

    def __init__(
        self, turn: Turn, places: Places, ledger: Ledger, reservations: Reservations, keeping: Keeping
    ) -> None:
        self._turn = turn
        self._places = places
        self._ledger = ledger
        self._reservations = reservations
        self._keeping = keeping
        #: When idle VMs are closed, by lease.
        self._closes: dict[str, float] = {}

    def touch(self, vm_id: str) -> None:
        """Something was put on the VM, or has left it."""
        self._reservations.touched[vm_id] = None

    def look(self) -> None:
        """See which of the VMs that were touched are idle now."""
        touched = self._reservations.touched
        for vm_id in touched:
            lease = self._places.at(vm_id)
            if lease is None:
                continue
            busy = bool(self._ledger.count(vm_id)) or bool(self._reservations.jobs_on(vm_id))
            if busy and lease.idle_since is not None:
                lease.idle_since = None
                self.forget(lease)
                self._places.mark(lease)
            elif not busy and lease.idle_since is None:
                lease.idle_since = self._turn.now
                self.keep(lease)
                self._places.mark(lease)
        touched.clear()

    def keep(self, lease: Lease) -> None:
        """Know when the VM is closed if it stays idle, which it is or not."""
        self.forget(lease)
        if lease.idle_since is None or lease.state == "closing":
            return
        opened_at = lease.asked_at if lease.opened_at is None else lease.opened_at
        closes = self._keeping.closes_at(lease.vm.terms, opened_at, lease.idle_since)
        if lease.state == "draining" or self._places.place(lease.vm.id) is None:
            closes = lease.idle_since  # nothing will ever be placed there
        if not math.isinf(closes):
            self._closes[lease.id] = closes

    def forget(self, lease: Lease) -> None:
        """It is not closed for being idle."""
        self._closes.pop(lease.id, None)

    @property
    def closes(self) -> Mapping[str, float]:
        """When VMs are closed that are idle, by lease."""
        return self._closes
