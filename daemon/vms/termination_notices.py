"""Notices of providers that VMs are taken away: detects new and cancelled ones.

`vm_provisioner.py` polls for them; `environment.model.vms.fleet` decides the consequences for a VM.
"""

import math
from collections.abc import Iterable

from environment.model.messages.events import LeaseNotice, Listed
from framework.providers.interface import Notice

#: A notice that is not told any more is off after so many seconds, if its VM is listed since then: one that
#: is taken away may vanish from both, a little before its time, and one answer may be older than another.
OFF_AFTER = 15.0


class Notices:
    """Reported notices by lease, and since when some are missing, in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._told: dict[str, Notice] = {}
        self._missing: dict[str, float] = {}
        #: Leases that are there and not being closed, and the time of that list.
        self._there: frozenset[str] = frozenset()
        self._there_at = -math.inf

    def listed(self, machines: Iterable[Listed], asked_at: float) -> None:
        """Record the open VMs, as listed at `asked_at`."""
        self._there = frozenset(machine.lease_id for machine in machines if machine.state != "closing")
        self._there_at = asked_at

    def unsure(self, clock: float) -> bool:
        """Whether a list would say if a notice is off."""
        return any(self._there_at < since + OFF_AFTER <= clock for since in self._missing.values())

    def compare(self, notices: Iterable[Notice], now: float, clock: float) -> list[LeaseNotice]:
        """Return the changes from the notices known before to these, the only ones at `now`.

        `now` is seconds since the epoch, as in notices.
        """
        found, news = {notice.lease: notice for notice in notices}, []
        for lease_id, notice in found.items():
            self._missing.pop(lease_id, None)
            if self._told.get(lease_id) != notice:
                news.append(LeaseNotice(now, lease_id, notice.at, notice.why))
        for lease_id in self._told.keys() - found.keys():
            since = self._missing.setdefault(lease_id, clock)
            over = self._told[lease_id].at <= now
            off = since + OFF_AFTER <= min(clock, self._there_at) and lease_id in self._there
            if over or off:
                del self._told[lease_id], self._missing[lease_id]
            if off and not over:
                news.append(LeaseNotice(now, lease_id, None))
        self._told |= found
        return news
