"""A cluster model with pools, a provider and its agents, with a hand on all of them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.lease import Lease
from environment.model.messages.options import ModelOptions
from environment.model.messages.snapshot import VmSize
from environment.pools import IdleTimeout, Terms
from environment.resources import Resources
from environment.types import Vm
from tests.environment.two_worlds.world import World

KEEPING = IdleTimeout("timeout", 100.0)
TERMS = Terms("general", boot=60.0, minimum=60.0, granularity=1.0)


def places(number: int = 3, terms: Terms = TERMS, cpus: float = 4.0, price: float = 0.24) -> tuple[Vm, ...]:
    """Of one pool, as a cluster file has them."""
    names = [f"{terms.pool}-{i + 1}" for i in range(number)]
    size = Resources.of(cpus, 16384)
    return tuple(Vm(name, name, "m1.large", size, price, terms=terms) for name in names)


class ElasticWorld(World):
    """Fixed VMs, places of pools, and reports of a provider and agents."""

    def __init__(
        self,
        fixed: Sequence[Vm] = (),
        pools: Sequence[Vm] = places(),
        keeping: IdleTimeout = KEEPING,
        options: ModelOptions | None = None,
    ) -> None:
        options = replace(options or ModelOptions(), places=tuple(pools), keeping=keeping)
        super().__init__(fixed, options)
        self.agents: dict[str, Vm] = {}
        self._numbers = count(1)
        #: The last lease of places, by id.
        self._known: dict[str, str] = {}

    def lease(self, place: str) -> Lease:
        """The lease that a place has."""
        lease = self.model.lease(self._known[place])
        assert lease is not None
        return lease

    def send(self, event: ev.Event) -> list[cmd.Command]:
        """Send any event; note the opened leases by place."""
        commands = super().send(event)
        self._known |= {lease_id.rpartition(".")[0]: lease_id for lease_id in opens(commands)}
        return commands

    def leases(self) -> tuple[Lease, ...]:
        """Those that have not ended."""
        return self.model.leases()

    def opened(self, *names: str) -> list[cmd.Command]:
        """The provider has opened these VMs."""
        return [
            command
            for name in names
            for command in self.send(
                ev.LeaseOpened(self.now, self.lease(name).id, f"i-{self.lease(name).id}", self.now)
            )
        ]

    def boot(self, *names: str) -> list[cmd.Command]:
        """The agents of these places come, and all of them is offered."""
        for name in names:
            lease = self.lease(name)
            self.agents[name] = replace(
                lease.vm,
                id=f"agent-{next(self._numbers)}",
                address=f"{name}.example",
                lease=lease.id,
                terms=None,
            )
        return self.offer(*(self.agents[name] for name in names))

    def measure(self, *agents: Vm) -> list[cmd.Command]:
        """The master tells of these agents."""
        sizes = tuple(VmSize(vm.id, vm.resources) for vm in agents)
        return self.send(ev.VmsMeasured(self.now, sizes, tuple(agents)))

    def closed(self, *names: str) -> list[cmd.Command]:
        """The provider has closed these VMs."""
        return [
            command for name in names for command in self.send(ev.LeaseClosed(self.now, self.lease(name).id))
        ]

    def begin(self) -> None:
        """Subscribe; the master knows of no agent."""
        self.subscribe()
        self.measure()


def opens(commands: Sequence[cmd.Command]) -> list[str]:
    """Ids of leases with a VM to open."""
    return [command.lease_id for command in commands if isinstance(command, cmd.OpenVm)]


def closes(commands: Sequence[cmd.Command]) -> list[str]:
    """Ids of leases with a VM to close."""
    return [command.lease_id for command in commands if isinstance(command, cmd.CloseVm)]
