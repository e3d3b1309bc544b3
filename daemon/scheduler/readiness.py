"""Whether jobs can be scheduled now, as /readyz tells it: one look at everything that scheduling needs."""

from collections.abc import Callable, Mapping

from daemon.core.status import Health
from daemon.scheduler.foundation import Foundation
from daemon.scheduler.saving import Saver
from daemon.store.rows.database import StoreError
from daemon.vms.vms import Vms
from framework.substrate import Substrate

#: Seconds at one thing after which the scheduling loop hangs.
_HUNG = 10.0


class Readiness:
    """Checks when it is asked, from any thread."""

    def __init__(
        self,
        base: Foundation,
        substrate: Substrate,
        saver: Saver,
        vms: Vms,
        troubles: Mapping[str, Callable[[], str]],
    ) -> None:
        """`troubles` are checks by name that return a trouble in words, or nothing."""
        self._store, self._tenure, self._clock = base.store, base.session, base.clock
        self._substrate, self._vms, self._troubles = substrate, vms, troubles
        self._journal, self._disk, self._budget = saver.event_log, saver.disk, saver.budget
        self._pools = saver.pools

    def health(self) -> Health:
        """How each of them is, in words, and whether those are well without which nothing is launched."""
        silent, leads, substrate = self._tenure.silent, self._tenure.may_act(), self._substrate
        worded = substrate.checks()
        checks = {
            **worded,
            "store": self._tenure.trouble or "ok",
            "loop": "ok" if silent < _HUNG else f"busy for {silent:.0f} s",
        }
        try:
            self._store.check()
        except StoreError as error:
            checks["store"] = str(error)
        if damaged := self._store.damages.all():
            checks["rows"] = f"{len(damaged)} cannot be read ({damaged[0]}); see `stoker doctor`"
        if self._vms.provisioner is not None:
            checks["provider"] = self._vms.provider_status.trouble or "ok"
        if pools := self._pools.trouble:
            checks["pools"] = pools
        if disk := self._disk.trouble:
            checks["disk"] = disk
        if spent := self._budget.trouble:
            checks["budget"] = spent
        if trouble := self._clock.trouble:
            checks["clock"] = trouble
        if self._journal.trouble:
            checks["events"] = self._journal.trouble
        checks |= {name: trouble for name, look in self._troubles.items() if (trouble := look())}
        if not leads:
            checks["leader"] = "it is not certain that this daemon leads: its lease was not renewed in time"
        ready = substrate.subscribed and checks["store"] == "ok" and silent < _HUNG and leads and not disk
        bad = {name for name, state in checks.items() if name not in worded and state != "ok"}
        bad |= set() if substrate.subscribed else {substrate.name}
        return Health(ready, checks, frozenset(bad))
