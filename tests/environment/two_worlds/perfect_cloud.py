"""A perfect master with VMs that come and go: a provider opens and closes them at once, boots take time."""

from dataclasses import dataclass, replace

from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.pools import IdleTimeout
from tests.environment.two_worlds.perfect_master import PerfectMaster

#: After all that happens in a simulation, too, at one instant.
_BOOTS, _CLOSES = 10, 11


@dataclass
class PerfectCloud(PerfectMaster):
    """`vms` are those that are always there, the model's options have the places and the keeping."""

    keeping: IdleTimeout = IdleTimeout()  # noqa: RUF009  # it is frozen

    def _begin(self) -> None:
        """Those that are always open are open."""
        self._send(ev.Tick(self._now))

    def _let_decide(self, kinds: set[int]) -> None:
        """Not when nothing happened but that a VM came or was closed: simulations do not see that either."""
        if kinds - {_BOOTS, _CLOSES}:
            self._decide()
        self._send(ev.Tick(self._now))
        for at in self.model._parts.vms.fleet.idling.closes.values():  # where a plan puts it off
            if self._now < at:
                self._push(at, _CLOSES, None)
        for lease in self.model.leases():
            if lease.idle_since is not None and lease.state == "up":
                since = lease.asked_at, lease.idle_since
                for needed in (False, True):  # by the forecast, where there is one
                    at = self.keeping.closes_at(lease.vm.terms, *since, needed=needed)
                    if self._now < at < float("inf"):
                        self._push(at, _CLOSES, None)

    def _happen(self, kind: int, what: object) -> None:
        if kind == _BOOTS:
            self._boot(str(what))
        else:
            super()._happen(kind, what)

    def _boot(self, lease_id: str) -> None:
        lease = self.model.lease(lease_id)
        assert lease is not None
        agent = replace(lease.vm, id=f"agent of {lease_id}", terms=None, price_per_hour=0.0, lease=lease_id)
        self._there.append(agent)
        self._offer()

    def _obey(self, command: cmd.Command) -> None:
        super()._obey(command)
        if isinstance(command, cmd.OpenVm):
            lease = self.model.lease(command.lease_id)
            assert lease is not None
            assert lease.vm.terms is not None
            self._send(ev.LeaseOpened(self._now, lease.id, f"machine of {lease.id}", self._now))
            if lease.vm.terms.boot and not lease.vm.terms.always:
                self._push(self._now + lease.vm.terms.boot, _BOOTS, lease.id)
            else:
                self._boot(lease.id)
        elif isinstance(command, cmd.CloseVm):
            self._there = [vm for vm in self._there if vm.lease != command.lease_id]
            gone = [i for i, (vm, _) in self._offered.items() if vm.lease == command.lease_id]
            for offer_id in gone:
                del self._offered[offer_id]
            self._send(ev.LeaseClosed(self._now, command.lease_id))
