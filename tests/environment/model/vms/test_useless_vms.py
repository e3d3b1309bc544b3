"""VMs of pools that come up without the resources that a launch needs: they cost little, and jobs say so."""

from dataclasses import replace

from environment.model.cluster_model import ClusterModel
from environment.model.event_log import decode, encode
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages import options
from tests.builders import make_job, make_offer
from tests.environment.model.walks.elastic_world import ElasticWorld, closes, opens, places
from tests.environment.two_worlds.world import launched

HOUR = 3600
#: It takes the whole of a VM.
LARGE = replace(make_job("job-1"), size=places()[0].resources)


class UselessCloud(ElasticWorld):
    """Agents boot in a minute, and offer too little, or too few ports, again and again."""

    def __init__(self, cpus: float = 4.0, ports: tuple[tuple[int, int], ...] = ()) -> None:
        super().__init__(pools=places(5))
        self.cpus, self.ports = cpus, ports
        #: The places of which offers are held.
        self._offered: set[str] = set()
        self.boots_at: dict[str, float] = {}
        self.openings: list[float] = []
        self.reasons: set[str] = set()

    def play(self, seconds: int) -> None:
        """Execute commands every five seconds; first fit decides when due."""
        for _ in range(seconds // 5):
            self.obey(self.wait(5.0))
            for name in [name for name, at in self.boots_at.items() if at <= self.now]:
                del self.boots_at[name]
                lease = self.lease(name)
                self.agents[name] = replace(lease.vm, id=f"agent-{lease.id}", lease=lease.id, terms=None)
            self.offer_all()
            if self.model.ready_to_decide() and self.model.requests():
                self.obey(self.decide())
            if job := self.model.job("job-1"):
                self.reasons.add(job.reason)

    def offer_all(self) -> None:
        """Offer the resources that are there, as the master."""
        for name, vm in [it for it in self.agents.items() if it[0] not in self._offered]:
            offer = make_offer(f"{name}@{self.now:g}", vm, cpus=self.cpus, ports=self.ports)
            self._offered.add(name)
            self.obey(self.send(ev.OffersReceived(self.now, (offer,))))

    def obey(self, commands: list[cmd.Command]) -> None:
        """Open and close VMs, and take offers back."""
        given = [c.offer_ids for c in commands if isinstance(c, cmd.Decline | cmd.Launch)]
        self._offered -= {offer_id.partition("@")[0] for ids in given for offer_id in ids}
        for lease_id in opens(commands):
            self.openings.append(self.now)
            self.boots_at[lease_id.rpartition(".")[0]] = self.now + 60.0
            self.obey(self.send(ev.LeaseOpened(self.now, lease_id, f"i-{lease_id}", self.now)))
        for lease_id in closes(commands):
            self.agents.pop(lease_id.rpartition(".")[0], None)
            self._offered.discard(lease_id.rpartition(".")[0])
            self.obey(self.send(ev.LeaseClosed(self.now, lease_id)))


def replays(world: ElasticWorld) -> None:
    """A log replays to the same commands, with all ticks, and without those that led to nothing."""
    for left_out in (False, True):
        model = ClusterModel()
        for event, commands in world.log:
            if not (left_out and isinstance(event, ev.Tick) and not commands):
                again = decode(encode(event))
                assert isinstance(again, ev.Event)
                assert model.handle(again) == commands


def test_vms_without_ports_are_opened_a_few_times_an_hour() -> None:
    """Pauses double up to ten minutes, each after a boot and half a minute; the job says why it waits."""
    for world, lack in (
        (UselessCloud(), "it has too few ports"),
        (UselessCloud(cpus=1.0, ports=((31000, 32000),)), "not enough of it is offered"),
    ):
        world.send(ev.Restored(world.now, (), (), world.model.options))
        world.begin()
        world.submit(LARGE)
        world.play(HOUR)
        assert 4 <= len(world.openings) <= 10
        pauses = [b - a for a, b in zip(world.openings, world.openings[1:], strict=False)]
        assert pauses == sorted(pauses)
        assert any(f"is up, but {lack} for job-1" in reason for reason in world.reasons)
        replays(world)


def test_a_launch_there_ends_the_pauses() -> None:
    """On a VM that was asked for since the last pause; and not that an agent came, which may be of no use."""
    world = UselessCloud()
    world.begin()
    world.submit(LARGE)
    world.play(240)
    (pool,) = world.model.snapshot().moment.fleet.pools  # type: ignore[union-attr]
    assert pool.times == 2
    world.ports = ((31000, 32000),)
    world.play(120)
    assert launched([command for _, commands in world.log for command in commands])
    assert world.model.snapshot().moment.fleet.pools == ()  # type: ignore[union-attr]


def test_who_was_not_connected_blames_no_vm() -> None:
    """No VM is blamed for missing offers while there is no connection."""
    world = ElasticWorld()
    world.begin()
    world.submit(LARGE)
    world.decide()
    world.opened("general-1")
    world.wait(60.0)
    lease = world.lease("general-1")
    world.measure(replace(lease.vm, id="agent-1", lease=lease.id, terms=None))
    world.send(ev.Disconnected(world.now, "gone"))
    world.wait(options.RESERVED_PATIENCE + 1.0)
    assert [request.job.id for request in world.model.requests()] == ["job-1"]
    assert world.model.snapshot().moment.fleet.pools == ()  # type: ignore[union-attr]
