"""Agents on the VMs of pools, as the master reports them: awaited, present, or gone.

`fleet.py` opens and closes the VMs, and gives up those that are `overdue` here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages import options as timings
from environment.model.messages.event_context import EventContext
from environment.model.messages.lease import Lease, due
from environment.model.messages.options import ModelOptions
from environment.model.messages.snapshot import Offer
from environment.model.vms.idle_vms import IdleVmWatch
from environment.model.vms.open_backoff import OpenBackoff
from environment.model.vms.pool_slots import Places, boot_of
from environment.model.vms.reservations import Reservations
from environment.types import Vm

_Times = tuple[tuple[str, float], ...]


class JoiningVms:
    """Agents by lease. Invariant: a VM is given up only after the master could report its agent for long.

    Several connections together count as long: else VMs that never join would be paid for as long as the
    connection breaks again and again.
    """

    def __init__(
        self,
        turn: EventContext,
        places: Places,
        reservations: Reservations,
        idling: IdleVmWatch,
        refusals: OpenBackoff,
        options: ModelOptions,
    ) -> None:
        self._turn = turn
        self._places = places
        self._reservations = reservations
        self._idling = idling
        self._refusals = refusals
        self._options = options
        #: When VMs are given up that do not come, by lease.
        self._awaited: dict[str, float] = {}
        #: Since when agents are gone whose VMs should be up, by lease.
        self._away: dict[str, float] = {}
        #: Since when the master would tell of agents that come; None while there is no connection.
        self._connected_at: float | None = None
        #: Seconds of earlier connections that still counted when the present connection, or its lack, began;
        #: and when that was.
        self._counted, self._counted_at = 0.0, 0.0

    def state(self) -> tuple[_Times, float | None, tuple[float, float]]:
        """State except the awaited VMs, which follow from the leases."""
        return tuple(self._away.items()), self._connected_at, (self._counted, self._counted_at)

    def resume(self, away: _Times, connected_at: float | None, counted: tuple[float, float]) -> None:
        """Restore the state; logs of earlier versions have zeros for `counted`."""
        self._away, self._connected_at = dict(away), connected_at
        self._counted, self._counted_at = counted if counted[1] else (0.0, connected_at or 0.0)

    def __bool__(self) -> bool:
        """Whether the agent of a VM is waited for."""
        return bool(self._awaited or self._away)

    def connected(self, since: float | None) -> None:
        """Set the time since when the master reports agents; None while it does not report new ones."""
        if self._places:
            self._counted, self._counted_at = self._told_for(), self._turn.now
            self._connected_at = since

    def _told_for(self) -> float:
        """Seconds for which the master could report agents, less some for breaks; at most `boot_timeout`."""
        passed = self._turn.now - self._counted_at
        gained = passed if self._connected_at is not None else -passed * timings.BREAK_COUNTS
        return min(max(self._counted + gained, 0.0), self._options.boot_timeout)

    def could_tell(self, since: float) -> bool:
        """Whether the master could tell of agents all the time since then."""
        return self._connected_at is not None and self._connected_at <= since

    # ---- awaited agents ------------------------------------------------------------------------------

    def wait_for(self, lease: Lease) -> None:
        """The VM of a lease is to come."""
        self._awaited[lease.id] = lease.asked_at + self._patience(lease)

    def expect_no_more(self, lease: Lease) -> None:
        """Stop waiting for the VM of the lease."""
        self._awaited.pop(lease.id, None)

    def miss(self, lease: Lease) -> None:
        """Record that the lease's agent is gone."""
        self._away.setdefault(lease.id, self._turn.now)

    def misses(self, lease: Lease) -> bool:
        """Whether the lease's agent is gone."""
        return lease.id in self._away

    def forget(self, lease: Lease) -> None:
        """Nothing is due of it any more."""
        self._awaited.pop(lease.id, None)
        self._away.pop(lease.id, None)

    def overdue(self) -> Iterator[tuple[Lease, str]]:
        """VMs that the master should have reported long ago, with the problem."""
        now, patience = self._turn.now, self._options.boot_timeout
        if self._connected_at is None or self._told_for() < patience:
            return
        for lease in due(self._awaited, now, self._places.lease):
            yield lease, f"it did not boot within {self._patience(lease):g} s"
        for lease in due(self._away, now - patience, self._places.lease):
            yield lease, f"its agent is gone since {patience:g} s"

    def _patience(self, lease: Lease) -> float:
        return boot_of(lease.vm) + self._options.boot_timeout

    # ---- reports of the master ------------------------------------------------------------------------

    def met(self, offers: Iterable[Offer]) -> tuple[Offer, ...]:
        """Offers with their VMs as in their leases; offers of unknown leases are declined."""
        kept, strange = [], []
        for offer in offers:
            if not offer.vm.lease:
                kept.append(offer)
            elif (vm := self._join(offer.vm)) is None:
                strange.append(offer.id)
            else:
                kept.append(replace(offer, vm=vm))
        if strange:
            self._turn.command(cmd.Decline, tuple(strange), timings.ORPHAN_GRACE)
        return tuple(kept)

    def measured(self, event: ev.VmsMeasured) -> ev.VmsMeasured:
        """The master's report on agents, without agents of unknown or ended leases."""
        found = [self._join(vm) if vm.lease else vm for vm in event.vms]
        for vm in found:
            if vm is not None and vm.lease and vm.terms is not None:
                self._places.learn(vm.terms.pool, vm.resources)
        strange = {vm.id for vm, known in zip(event.vms, found, strict=True) if known is None}
        return replace(
            event,
            vms=tuple(vm for vm in found if vm is not None),
            sizes=tuple(size for size in event.sizes if size.vm_id not in strange),
        )

    def _join(self, agent: Vm) -> Vm | None:
        """Mark the lease's VM as up and return it as this agent; None for an agent without a known lease."""
        lease = self._places.lease(agent.lease)
        if lease is None or not self._places.has(lease):
            return None
        if lease.agent_id != agent.id:
            self._come(lease, agent.id)
        self._places.heard(lease)
        self._away.pop(lease.id, None)
        vm = lease.vm
        return replace(agent, name=vm.name, type=vm.type, terms=vm.terms, price_per_hour=vm.price_per_hour)

    def _come(self, lease: Lease, agent_id: str) -> None:
        """The agent on the VM of a lease is there, or another than before."""
        before = self._places.come(lease, agent_id)
        self._awaited.pop(lease.id, None)
        if lease.ready_at is None:
            lease.ready_at = self._turn.now
        if lease.state in ("opening", "booting"):
            lease.state = "up"
            if self._refusals.joined(lease) and lease.idle_since is not None:
                lease.idle_since = self._turn.now  # jobs that it would do for have not known of it
                self._idling.keep(lease)
        self._reservations.moved(before, agent_id)
        self._idling.touch(agent_id)
        self._places.mark(lease)

    def lost_sight(self, vm_id: str) -> None:
        """The master says that an agent is gone."""
        lease = self._places.at(vm_id)
        if lease is not None and lease.state != "closing":
            self.miss(lease)

    def heard(self, vm_id: str) -> None:
        """Something runs there: its agent is not gone, though all of it is taken and nothing offered."""
        lease = self._places.at(vm_id)
        if lease is not None and lease.agent_id == vm_id:
            self._away.pop(lease.id, None)
