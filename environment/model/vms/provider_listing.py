"""Comparison of a provider's list with known leases: VMs opened late, missing, renamed, and unknown ones.

Lists are asked for now and then, answered late, and not complete right after a VM was opened. `fleet.py`
acts on the differences.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from conf.units import SECONDS_PER_DAY
from environment.model.messages import options
from environment.model.messages.events import Listed, MachinesListed
from environment.model.messages.lease import Lease

#: Seconds for which it is known until when the VM of an ended lease was paid for. An unknown VM is paid for
#: no longer than that before it was found: so nothing is paid for twice.
REMEMBERED = SECONDS_PER_DAY

_Times = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class FoundLeases:
    """Leases with their entries in the provider's list, leases missing from it for long, and orphans.

    `renamed` are leases with VMs that have had another id for long.
    """

    listed: tuple[tuple[Lease, Listed], ...]
    missing: tuple[Lease, ...]
    renamed: tuple[tuple[Lease, Listed], ...]
    orphans: tuple[Listed, ...]


class Listings:
    """Since when which VM is missing, or there and unknown."""

    def __init__(self) -> None:
        #: When the provider last told of a VM, by lease.
        self._seen: dict[str, float] = {}
        #: Since when it lists an unknown VM, by its own name of it.
        self._orphans: dict[str, float] = {}
        #: Until when those of ended leases were paid for, by that and by lease, in order of time; of a day.
        self._paid: dict[str, float] = {}

    def state(self) -> tuple[_Times, _Times, _Times]:
        """All that is known."""
        return tuple(self._seen.items()), tuple(self._orphans.items()), tuple(self._paid.items())

    def resume(self, seen: _Times, orphans: _Times, paid: _Times) -> None:
        """Restore the state."""
        self._seen, self._orphans, self._paid = dict(seen), dict(orphans), dict(paid)

    def seen(self, lease: Lease, at: float) -> None:
        """The provider told of the VM of a lease."""
        self._seen[lease.id] = at

    def forget(self, lease: Lease) -> None:
        """The lease has ended, at its `closed_at`; its VM may be listed again all the same."""
        self._seen.pop(lease.id, None)
        if lease.machine_id and lease.closed_at is not None:
            for name in (lease.machine_id, lease.id):
                self._paid.pop(name, None)
                self._paid[name] = lease.closed_at
            while self._paid[oldest := next(iter(self._paid))] < lease.closed_at - REMEMBERED:
                del self._paid[oldest]

    def unpaid_since(self, machine: Listed, now: float) -> float:
        """Since when a VM without a lease is to be paid for, by its provider's clock or ours.

        One under an ended lease is taken for that lease's own, whatever its id: a second one would have been
        listed beside it.
        """
        told = now if machine.opened_at is None else min(machine.opened_at, now)
        paid = (self._paid.get(name, 0.0) for name in (machine.machine_id, machine.lease_id))
        return max(told, *paid, now - REMEMBERED)

    def compare(self, event: MachinesListed, leases: Iterable[Lease], now: float) -> FoundLeases:
        """Compare a list with the leases that have not ended; an orphan is found once."""
        leases = tuple(leases)
        under: dict[str, list[Listed]] = {}
        for machine in event.machines:
            under.setdefault(machine.lease_id, []).append(machine)
        own = {lease.machine_id for lease in leases}
        listed, missing, renamed, doubtful = [], [], [], set()
        for lease in leases:
            machines = under.get(lease.id, ())
            its = [m for m in machines if lease.machine_id in ("", m.machine_id)]
            others = [m for m in machines if m.machine_id not in own and m.state != "closing"]
            if its:
                self._seen[lease.id] = now
                listed.append((lease, its[0]))
            elif lease.state != "opening":
                doubtful.add(lease.id)
                since = self._seen.setdefault(lease.id, now)
                if event.asked_at - since > options.VANISHED_AFTER and others:
                    self._seen[lease.id] = now
                    renamed.append((lease, min(others, key=lambda m: (m.opened_at or now, m.machine_id))))
                elif event.asked_at - since > options.VANISHED_AFTER:
                    missing.append(lease)
        known = own | {machine.machine_id for _, machine in (*listed, *renamed)}
        had = {lease.id for lease in leases if lease.machine_id} - doubtful
        unknown = self._unknown([m for m in event.machines if m.lease_id not in doubtful], event, known, had)
        return FoundLeases(tuple(listed), tuple(missing), tuple(renamed), unknown)

    def _unknown(
        self, machines: Iterable[Listed], event: MachinesListed, known: set[str], had: set[str]
    ) -> tuple[Listed, ...]:
        """VMs that have been listed for long without a lease, or are a second VM of a lease."""
        there = {m.machine_id: m for m in machines if m.machine_id not in known}
        there = {machine_id: m for machine_id, m in there.items() if m.state != "closing"}
        self._orphans = {i: self._orphans.get(i, event.asked_at) for i in there}
        since = event.asked_at - options.ORPHAN_GRACE
        orphans = self._orphans.items()
        return tuple(there[i] for i, first in orphans if first <= since or there[i].lease_id in had)
