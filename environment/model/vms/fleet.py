"""Opens and closes the VMs of pools, and processes their provider's reports.

`pool_slots.py` has their places, `agent_registration.py` the master's reports on their agents,
`reservations.py` the reservations of jobs on them, `open_backoff.py` the backoff from pools that refuse,
`provider_listing.py` the provider's lists. Code outside the model calls the providers.
"""

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import replace

from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages import options as timings
from environment.model.messages.event_context import EventContext
from environment.model.messages.lease import Lease, OpenedFor, due
from environment.model.messages.options import ModelOptions
from environment.model.messages.snapshot import FleetSnapshot, PoolSetback
from environment.model.vms.agent_registration import JoiningVms
from environment.model.vms.idle_vms import IdleVmWatch
from environment.model.vms.open_backoff import OpenBackoff, pool_of
from environment.model.vms.pool_slots import Places
from environment.model.vms.provider_listing import Listings
from environment.model.vms.reservations import Reservations
from environment.model.vms.usage_ledger import Ledger
from environment.number_format import clock
from environment.resources import NOTHING
from environment.types import Vm


class Fleet:
    """Moves leases from their opening to their end.

    Invariants: a VM that is closing, or is taken away, accepts nothing new; a VM is closed when it is idle,
    or when it is given up.
    """

    def __init__(
        self,
        turn: EventContext,
        places: Places,
        ledger: Ledger,
        reservations: Reservations,
        options: ModelOptions,
    ) -> None:
        self._turn = turn
        self._places = places
        self._reservations = reservations
        self._refusals = OpenBackoff(turn, places)
        #: The idle VMs; informed of every task that is put on a VM or leaves it.
        self.idling = IdleVmWatch(turn, places, ledger, reservations, options.keeping)
        self._listings = Listings()
        #: VMs whose agents come and go; informed of the master's reports on these.
        self.joining = JoiningVms(turn, places, reservations, self.idling, self._refusals, options)
        #: The number of the last lease.
        self._number = 0
        #: VMs that will not come, or are gone, and why; VMs that are to be empty, and why.
        self._gone: dict[str, str] = {}
        self._drained: dict[str, str] = {}

    # ---- queries -------------------------------------------------------------------------------------

    def state(self) -> FleetSnapshot:
        """All but the leases."""
        seen, orphans, paid = self._listings.state()
        away, connected_at, counted = self.joining.state()
        return FleetSnapshot(
            self._number,
            self._refusals.state(),
            self._reservations.state(),
            seen,
            orphans,
            away,
            self._places.sizes(),
            self._refusals.held,
            self.idling.state(),
            paid,
            connected_at,
            self._places.prices(),
            tuple(self._places.held.items()),
            counted,
        )

    def restore(
        self,
        leases: Iterable[Lease],
        pools: Iterable[PoolSetback],
        paid: tuple[tuple[str, float], ...],
        moment: FleetSnapshot | None,
    ) -> None:
        """Restore the state of an earlier daemon or of an earlier part of a log.

        `pools` are the setbacks of pools that refused the earlier daemon; `paid` states until when VMs of
        ended leases were paid for, by the provider's names of them, in order of time.
        """
        if moment is not None:
            self.idling.resume(moment.idled)
        restored = [copy(lease) for lease in leases if not lease.ended]
        self._places.restore(restored)
        for lease in restored:
            self._restore(lease)
        if moment is None:
            self._refusals.resume(pools)
            self._listings.resume((), (), paid)
            self._take_up()
            return
        self._number = moment.number
        self.joining.resume(moment.away, moment.connected_at, moment.counted)
        self._listings.resume(moment.seen, moment.orphans, moment.paid)
        self._reservations.resume(moment.reserved)
        for pool, size in moment.sizes:
            self._places.learn(pool, size)
        self._places.cost(moment.prices)
        self._places.held = dict(moment.held_pools)
        self._refusals.resume(moment.pools, moment.held)

    def _restore(self, lease: Lease) -> None:
        self._number = max(self._number, _number_of(lease.id))
        if lease.state in ("opening", "booting"):
            self.joining.wait_for(lease)
        elif lease.state == "closing":
            self._places.leave_out(lease, _closing(lease))
        elif lease.state == "draining":
            self._places.leave_out(lease, lease.reason)
        self.idling.restore(lease)

    def _take_up(self) -> None:
        """Repeat the commands of an earlier daemon that its provider may not have received."""
        for lease in self._places:
            if lease.state == "opening":
                self._turn.command(cmd.OpenVm, lease.id)
            elif lease.state == "closing":
                self._turn.command(cmd.CloseVm, lease.id, lease.machine_id)
            elif lease.agent_id:
                self.joining.miss(lease)
            self._listings.seen(lease, self._turn.now)

    def take_setbacks(self) -> dict[str, PoolSetback | None]:
        """The pools that are left alone, as far as that changed since the last call; None of no more."""
        return self._refusals.take_changes()

    # ---- opening -------------------------------------------------------------------------------------

    def open(self, place_id: str, why: str, opened_for: OpenedFor | None = None) -> None:
        """Open the VM of a place, unless it is open; for a job, except those that are always open."""
        vm = self._places.place(place_id)
        if vm is None or self._places.at(place_id) is not None:
            return
        now = self._turn.now
        self._number = max(self._number + 1, int(now))
        lease = Lease(f"{place_id}.{self._number}", vm, now, reason=why, opened_for=opened_for)
        self._places.add(lease)
        self.joining.wait_for(lease)
        self.idling.touch(place_id)
        self._places.mark(lease)
        self._turn.command(cmd.OpenVm, lease.id)

    def opened(self, event: ev.LeaseOpened) -> None:
        """The provider has opened the VM of a lease."""
        lease = self._places.lease(event.lease_id)
        if lease is None:
            self._turn.command(cmd.CloseVm, event.lease_id, event.machine_id)  # no job waits for it
            return
        if lease.machine_id not in ("", event.machine_id):
            return  # opened twice: a list will tell
        if not lease.machine_id and (other := self._places.with_machine(event.machine_id)) is not None:
            why = f"its provider answers with {event.machine_id}, the VM of {other.id}"
            self.refused(ev.LeaseRefused(event.at, lease.id, "unavailable", why))
            return
        self._listings.seen(lease, self._turn.now)
        lease.machine_id = event.machine_id
        if lease.opened_at is None:  # its clock may be wrong by days
            lease.opened_at = max(lease.asked_at, min(event.opened_at, self._turn.now))
        if event.price_per_hour is not None:
            lease.vm = replace(lease.vm, price_per_hour=event.price_per_hour)
        if lease.state == "opening":
            lease.state = "booting"
        elif lease.state == "closing":
            self._turn.command(cmd.CloseVm, lease.id, lease.machine_id)
        self.idling.keep(lease)
        self._places.mark(lease)

    def refused(self, event: ev.LeaseRefused) -> None:
        """The provider does not open the VM of a lease.

        Where it may be open all the same, the lease goes on, with its place and its price, until it is known
        that it is not.
        """
        lease = self._places.lease(event.lease_id)
        if lease is None or lease.state not in ("opening", "closing"):
            return
        if lease.state == "opening":
            self._refuse(lease, event.message, for_good=event.kind == "invalid")
            if not event.certain:
                self._close(lease, f"refused: {event.message}")
        if event.certain:
            self._end(lease, "closed", f"refused: {event.message}")

    def _refuse(self, lease: Lease, why: str, *, for_good: bool = False, trial: bool = False) -> None:
        """The VM of a lease will not come: leave its pool alone for a while."""
        self._refusals.refused(lease, why, for_good=for_good, trial=trial)
        self._gone[lease.vm_id] = f"{lease.vm.name} does not come: {why}"

    def useless(self, vm_id: str, why: str, since: float, at: float) -> None:
        """Record that a VM, up since `since`, did not offer a launch's needs until `at`.

        If it belongs to a pool, another VM of it would hardly be better: the pool is left alone for a while.
        """
        lease = self._places.at(vm_id)
        if lease is None or not self.joining.could_tell(since):
            return  # no agent could have offered it
        self._refusals.refused(lease, f"{lease.vm.name} is up, but {why}", at=at)

    def used(self, vm_id: str) -> None:
        """Something is launched on a VM."""
        self.idling.touch(vm_id)
        if (lease := self._places.at(vm_id)) is not None:
            self._refusals.used(lease)

    def wake(self) -> float | None:
        """When the last pause of a pool ended that was not told yet: its places may be opened again."""
        return self._refusals.wake()

    def hold(self, why: str, pools: Iterable[tuple[str, str]] = ()) -> None:
        """Open no more VMs, for this reason; or, if it is empty, as before.

        VMs of these pools get nothing new either; an empty name means all pools.
        """
        self._places.held = dict(pools)
        self._refusals.hold(why)

    # ---- its provider --------------------------------------------------------------------------------

    def noticed(self, event: ev.LeaseNotice) -> None:
        """The provider takes a VM away, or has said that it will not."""
        lease = self._places.lease(event.lease_id)
        if lease is None or lease.state == "closing" or lease.notice == event.away_at:
            return
        lease.notice = event.away_at
        if event.away_at is None:
            self.use_again(lease, "its provider does not take it away after all")
            return
        away = f"{clock(event.away_at)}{event.why and f': {event.why}'}"
        if lease.state != "draining":
            self._drained[lease.vm_id] = f"{lease.vm.name} is taken away by its provider at {away}"
        self.empty(lease, f"is taken away by its provider at {away}")

    def empty(self, lease: Lease, why: str) -> None:
        """Start nothing new on the lease's VM, which is closed when nothing runs there any more."""
        lease.reason = why
        if lease.state != "draining":
            lease.state, lease.draining_at = "draining", self._turn.now
            self.joining.expect_no_more(lease)
        self._places.leave_out(lease, why)
        self.idling.keep(lease)
        self._places.mark(lease)

    def use_again(self, lease: Lease, why: str) -> None:
        """Return a VM to use that was to be empty."""
        if lease.state == "draining":
            lease.state, lease.draining_at = "up" if lease.agent_id else "booting", None
            lease.reason = why
            if not lease.agent_id:
                self.joining.wait_for(lease)
            self._places.leave_out(lease, "")
        self.idling.keep(lease)
        self._places.mark(lease)

    def listed(self, event: ev.MachinesListed) -> None:
        """Process the provider's list of open VMs: find missing known VMs, and unknown ones."""
        found = self._listings.compare(event, self._places, self._turn.now)
        for lease, machine in found.listed:
            if machine.charged is not None:
                self._places.told(lease, machine.charged)
            if not lease.machine_id:
                opened_at = lease.asked_at if machine.opened_at is None else machine.opened_at
                price = machine.price_per_hour
                self.opened(ev.LeaseOpened(event.at, lease.id, machine.machine_id, opened_at, price))
        for lease in found.missing:
            closing = lease.state == "closing"
            if lease.agent_id and not self.joining.misses(lease) and not closing:
                continue  # the master has its agent, and a list may be wrong
            why = "its provider does not list it any more"
            if lease.ready_at is None and not closing:
                self._refuse(lease, why, trial=not self._joined_since(lease))
            else:
                self._tell_gone(lease, f"{lease.vm.name} is gone: {why}")
            self._end(lease, "closed" if closing else "lost", lease.reason if closing else why)
            if lease.machine_id and not closing:  # it may be there all the same, and its agent be at work
                self._turn.command(cmd.CloseVm, lease.id, lease.machine_id)
        for lease, machine in found.renamed:
            lease.machine_id = machine.machine_id
            self._places.mark(lease)
            if lease.state == "closing":
                self._turn.command(cmd.CloseVm, lease.id, lease.machine_id)
        for machine in found.orphans:
            self._close_orphan(machine)

    def _close_orphan(self, machine: ev.Listed) -> None:
        """Close a VM without a known lease; under a lease of its own, as it is paid for."""
        twice = self._places.lease(machine.lease_id) is not None
        place = machine.lease_id.rpartition(".")[0] or machine.lease_id or machine.machine_id
        vm = self._places.place(place) or Vm(place, place, "unknown", NOTHING, 0.0)
        if machine.price_per_hour is not None:
            vm = replace(vm, price_per_hour=machine.price_per_hour)
        opened_at = self._listings.unpaid_since(machine, self._turn.now)
        lease_id = machine.lease_id or machine.machine_id
        lease = Lease(
            f"{lease_id}/{machine.machine_id}" if twice else lease_id,
            vm, opened_at, machine_id=machine.machine_id, opened_at=opened_at,
        )  # fmt: skip
        self._places.add_orphan(lease)
        self.idling.touch(vm.id)
        self._listings.seen(lease, self._turn.now)
        self._close(lease, "opened twice" if twice else "no job waits for it")

    def closed(self, event: ev.LeaseClosed) -> None:
        """The VM of a lease costs nothing more."""
        lease = self._places.lease(event.lease_id)
        if lease is None:
            return
        lease.charged = event.charged
        self._tell_gone(lease, f"{lease.vm.name} was closed")
        self._end(lease, "closed", lease.reason)

    # ---- closing -------------------------------------------------------------------------------------

    def tend(self, *, pending: bool, wanted: bool) -> None:
        """Open VMs that are always open, close VMs idle for long, and give up VMs that do not come.

        `pending` means that a decision is due that may place executors on idle VMs, `wanted` that jobs wait.
        """
        now = self._turn.now
        patience = timings.DECISION_PATIENCE if pending else 0.0
        for lease in due(self.idling.closes, now - patience, self._places.lease):
            if not self._refusals.tries(lease):
                self._close(lease, "idle")
        for lease, why in self.joining.overdue():
            self._give_up(lease, why)
        for place_id in self._places.always:
            if self._places.at(place_id) is None and not self._places.why_not_open(place_id):
                self.open(place_id, "always there")
        self._try_pools(wanted=wanted)

    def _give_up(self, lease: Lease, why: str) -> None:
        self._refuse(lease, why, trial=lease.ready_at is None and not self._joined_since(lease))
        self._close(lease, why)

    def _joined_since(self, lease: Lease) -> bool:
        """Whether another VM of the lease's pool has joined that was asked for with it, or later."""
        return any(
            other.ready_at is not None
            and other.asked_at >= lease.asked_at
            and pool_of(other) == pool_of(lease)
            for other in self._places
        )

    def _try_pools(self, *, wanted: bool) -> None:
        """Open one VM of each pool on trial, while no other of it is paid for that has not joined."""
        for pool in [*self._refusals.on_trial()]:
            vm = self._places.closed_of(pool)
            if vm is None or not (wanted or vm.id in self._places.always):
                continue
            if any(lease.ready_at is None and pool_of(lease) == pool for lease in self._places):
                continue
            if (
                self._refusals.held
                or {"", pool} & self._places.held.keys()
                or self._places.over_hour((vm.id,))
            ):
                continue
            self.open(vm.id, "to see whether a VM of its pool joins")
            if (lease := self._places.at(vm.id)) is not None:
                self._places.leave_out(lease, "")  # a job that it would do for may wait for it

    def _close(self, lease: Lease, why: str) -> None:
        """Close the VM; it accepts nothing new from now on."""
        lease.state, lease.reason, lease.closing_at = "closing", why, self._turn.now
        self._forget(lease)
        self._places.leave_out(lease, _closing(lease))
        self._places.mark(lease)
        self._turn.command(cmd.CloseVm, lease.id, lease.machine_id)

    def _end(self, lease: Lease, state: str, reason: str) -> None:
        """End the lease; it costs nothing more."""
        lease.state = "lost" if state == "lost" else "closed"
        lease.reason, lease.closed_at, lease.idle_since = reason, self._turn.now, None
        self._forget(lease)
        self._listings.forget(lease)
        self._places.mark(lease)
        self._places.end(lease, self._refusals.why_not(pool_of(lease)))
        self.idling.touch(lease.vm.id)  # where an orphan may have been all the time

    def _forget(self, lease: Lease) -> None:
        """Nothing is due of it any more."""
        self.idling.ended(lease)
        self.joining.forget(lease)

    # ---- reports for other parts ---------------------------------------------------------------------

    def _tell_gone(self, lease: Lease, why: str) -> None:
        if self._places.has(lease):
            self._gone[lease.vm_id] = why

    def gone(self) -> Iterator[tuple[str, str]]:
        """The VMs that will not come, or are gone, and why; each is told once."""
        return _taken_out(self._gone)

    def drained(self) -> Iterator[tuple[str, str]]:
        """The VMs that are to be empty, and why; each is told once."""
        return _taken_out(self._drained)


def _taken_out(told: dict[str, str]) -> Iterator[tuple[str, str]]:
    while told:
        vm_id = next(iter(told))
        yield vm_id, told.pop(vm_id)


def _closing(lease: Lease) -> str:
    return f"is being closed: {lease.reason}"


def _number_of(lease_id: str) -> int:
    number = lease_id.rpartition(".")[2]
    return int(number) if number.isdecimal() else 0
