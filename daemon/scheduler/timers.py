"""Events that come due by themselves at each tick, placed between the events of others.

A clock that has moved, a substrate that has ended with all tasks, time that has passed, room to be sought,
VMs to be emptied or charged for, a spent budget. `loop.py` defines the ticks and acts on the events.
"""

import time

import structlog

from daemon.scheduler.budget import BudgetWatch
from daemon.scheduler.foundation import Foundation
from daemon.store.rows.database import StoreError
from daemon.vms.vms import Vms
from environment.model.messages import events as ev
from framework.substrate import Substrate

log = structlog.get_logger("service")

#: Seconds after which a VM is charged for, though nothing happens to it; and how many are at once, a second.
#: Chosen: so many take some milliseconds, in which nothing is decided, and a thousand are done in a minute.
CHARGE, CHARGED_AT_ONCE = 40.0, 64


class Timers:
    """For the loop's thread alone."""

    def __init__(self, base: Foundation, budget: BudgetWatch, vms: Vms, substrate: Substrate) -> None:
        self._model, self._store, self._clock = base.model, base.store, base.clock
        self._budget, self._vms, self._substrate = budget, vms, substrate
        self._next_charge = 0.0

    def first(self) -> list[ev.Event]:
        """Events before all that others have sent since: the clock has moved."""
        if moved := self._clock.look(idle=self._model.idle):
            self.keep_time()
            return [ev.ClockMoved(self._clock.now(), moved)]
        return []

    def events(self, *, decides_again: bool) -> list[ev.Event]:
        """Events after those of others; `decides_again`: decisions were paused, and can resume."""
        due = self._all_lost()
        if decides_again:
            due.append(ev.PolicyChanged(self._clock.now()))
        due.append(ev.Tick(self._clock.now()))
        if self._model.seeks_room(self._clock.now()):
            due.append(ev.RoomSought(self._clock.now()))
        if self._model.seeks_moves(self._clock.now()):
            due.append(ev.MovesSought(self._clock.now()))
        return [*due, *self._charges(), *self._budget.look()]

    def keep_time(self) -> None:
        """Store the time for a later daemon to continue from."""
        try:
            self._store.facts.put("clock", self._clock.kept)
        except StoreError as error:  # a daemon that starts without it asks the store's clock
            log.warning("the daemon's time could not be stored", why=str(error))

    def _all_lost(self) -> list[ev.Event]:
        """Events for all tasks and VMs, where they ended with the substrate: no other source has them."""
        if not (why := self._substrate.all_lost()):
            return []
        if self._vms.provisioner is not None:
            self._vms.provisioner.look()
        now = self._clock.now()
        tasks = [ev.TaskChanged(now, t.task_id, "gone", t.vm_id, "", why) for t in self._model.open_tasks()]
        return [*tasks, *(ev.VmLost(now, vm.id) for vm in self._model.vms())]

    def _charges(self) -> list[ev.ChargesDue]:
        """Charging event for some of the VMs that were not charged for long, once a second."""
        if time.monotonic() < self._next_charge:
            return []
        self._next_charge = time.monotonic() + 1.0
        now = self._clock.now()
        due = ev.ChargesDue(now, now - CHARGE, CHARGED_AT_ONCE)
        return [due] if self._model.ledger.accounts.due(now - CHARGE) else []
