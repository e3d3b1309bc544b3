"""Comparison of a provider's list with known leases: VMs opened late, missing VMs, and unknown ones.

Lists are asked for now and then, answered late, and not complete right after a VM was opened. `fleet.py`
acts on the differences.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from conf.units import SECONDS_PER_DAY
from environment.model.messages import options
from environment.model.messages.events import Listed, MachinesListed
from environment.model.messages.lease import Lease

#: Seconds for which it is known until when a VM was paid for that was taken for lost.
_REMEMBERED = SECONDS_PER_DAY

_Times = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class FoundLeases:
    """Leases with their entries in the provider's list, leases missing from it for long, and orphans."""

    listed: tuple[tuple[Lease, Listed], ...]
    missing: tuple[Lease, ...]
    orphans: tuple[Listed, ...]


class Listings:
    """Since when which VM is missing, or there and unknown."""

    def __init__(self) -> None:
        #: When the provider last told of a VM, by lease.
        self._seen: dict[str, float] = {}
        #: Since when it lists an unknown VM, by its own name of it.
        self._orphans: dict[str, float] = {}
        #: Until when those were paid for that were taken for lost, by the same; of a day.
        self._lost: dict[str, float] = {}

    def state(self) -> tuple[_Times, _Times, _Times]:
        """All that is known."""
        return tuple(self._seen.items()), tuple(self._orphans.items()), tuple(self._lost.items())

    def resume(self, seen: _Times, orphans: _Times, lost: _Times) -> None:
        """Restore the state."""
        self._seen, self._orphans, self._lost = dict(seen), dict(orphans), dict(lost)

    def seen(self, lease: Lease, at: float) -> None:
        """The provider told of the VM of a lease."""
        self._seen[lease.id] = at

    def forget(self, lease: Lease) -> None:
        """The lease has ended, at its `closed_at`; one that was lost may be listed again."""
        self._seen.pop(lease.id, None)
        if lease.state == "lost" and lease.machine_id and lease.closed_at is not None:
            since = lease.closed_at - _REMEMBERED
            self._lost = {machine_id: at for machine_id, at in self._lost.items() if at > since}
            self._lost[lease.machine_id] = lease.closed_at

    def paid_until(self, machine: Listed) -> float:
        """Until when a VM was paid for under a lease that was lost; 0 if it was under none."""
        return self._lost.get(machine.machine_id, 0.0)

    def compare(self, event: MachinesListed, leases: Iterable[Lease], now: float) -> FoundLeases:
        """Compare a list with the leases that have not ended; an orphan is found once."""
        leases = tuple(leases)
        under: dict[str, list[Listed]] = {}
        for machine in event.machines:
            under.setdefault(machine.lease_id, []).append(machine)
        listed, missing = [], []
        for lease in leases:
            machines = under.get(lease.id, ())
            its = [m for m in machines if lease.machine_id in ("", m.machine_id)]
            if its:
                self._seen[lease.id] = now
                listed.append((lease, its[0]))
            elif lease.state != "opening":
                since = self._seen.setdefault(lease.id, now)
                if event.asked_at - since > options.VANISHED_AFTER:
                    missing.append(lease)
        known = {lease.machine_id for lease in leases} | {machine.machine_id for _, machine in listed}
        had = {lease.id for lease in leases if lease.machine_id}
        return FoundLeases(tuple(listed), tuple(missing), self._unknown(event, known, had))

    def _unknown(self, event: MachinesListed, known: set[str], had: set[str]) -> tuple[Listed, ...]:
        """VMs that have been listed for long without a lease, or are a second VM of a lease."""
        there = {m.machine_id: m for m in event.machines if m.machine_id not in known}
        there = {machine_id: m for machine_id, m in there.items() if m.state != "closing"}
        self._orphans = {i: self._orphans.get(i, event.asked_at) for i in there}
        since = event.asked_at - options.ORPHAN_GRACE
        orphans = self._orphans.items()
        return tuple(there[i] for i, first in orphans if first <= since or there[i].lease_id in had)
