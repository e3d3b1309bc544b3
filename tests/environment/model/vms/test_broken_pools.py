"""Pools with VMs that are paid for and never join: one VM at a time tries them, and that costs little."""

import math
from dataclasses import replace

import pytest

from environment.model.cluster_model import ClusterModel
from environment.model.event_log import decode, encode
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.options import ModelOptions
from environment.model.messages.snapshot import PoolSetback
from environment.pools import Terms
from tests.builders import make_job
from tests.environment.model.walks.elastic_world import ElasticWorld, closes, opens, places

HOUR = 3600.0
#: It takes the whole of twenty VMs.
WIDE = replace(make_job("job-1", 20), size=places()[0].resources)


class BrokenCloud(ElasticWorld):
    """VMs that do not join, or of which its lists lack each after some seconds; until it is `mended`."""

    def __init__(self, vanish_after: float | None = None, terms: Terms | None = None) -> None:
        pools = places(20) if terms is None else places(20, terms)
        super().__init__(pools=pools, options=ModelOptions(boot_timeout=300.0))
        self.vanish_after, self.mended = vanish_after, False
        #: For how many seconds each connection to the master lasts, and for how many there is none then.
        self.lasts, self.breaks = math.inf, 0.0
        self._connects_at = self._breaks_at = math.inf
        self.opened_at: dict[str, float] = {}
        #: Seconds that were paid for, the number of VMs that were opened, and the most at once.
        self.paid, self.number, self.most = 0.0, 0, 0
        self._listed_at = 0.0

    def play(self, seconds: float) -> None:
        """Execute commands every twenty seconds; first fit decides when due."""
        until = self.now + seconds
        while self.now < until:
            self.obey(self.wait(20.0))
            self._connect()
            if self.vanish_after is not None:
                self._vanish(self.vanish_after)
            for lease_id, at in [*self.opened_at.items()]:
                lease = self.model.lease(lease_id) if self.mended and self.now - at >= 60.0 else None
                if lease is not None and not lease.agent_id and lease.state == "booting":
                    self.obey(self.boot(lease.vm.id))
            if self.model.subscribed and self.model.ready_to_decide() and self.model.requests():
                self.obey(self.decide())

    def _connect(self) -> None:
        """Break the connection to the master, or connect again, where it is time."""
        if self._breaks_at == math.inf and self.model.subscribed:
            self._breaks_at = self.now + self.lasts
        if self.now >= self._breaks_at:
            self._breaks_at, self._connects_at = math.inf, self.now + self.breaks
            self.send(ev.Disconnected(self.now, "closed by a proxy"))
        elif self.now >= self._connects_at:
            self._connects_at = math.inf
            self.obey(self.subscribe())
            self.measure()

    def _vanish(self, after: float) -> None:
        for lease_id, at in [*self.opened_at.items()]:
            if self.now - at >= after and not self.mended:
                self._end(lease_id)
        if self.now - self._listed_at >= 30.0:
            self._listed_at = self.now
            there = [ev.Listed(i, f"i-{i}", "running", at) for i, at in self.opened_at.items()]
            self.obey(self.send(ev.MachinesListed(self.now, self.now, tuple(there))))

    def _end(self, lease_id: str) -> None:
        self.paid += self.now - self.opened_at.pop(lease_id, self.now)

    def obey(self, commands: list[cmd.Command]) -> None:
        """Open and close VMs."""
        for lease_id in opens(commands):
            self.opened_at[lease_id] = self.now
            self.number += 1
            self.most = max(self.most, len(self.opened_at))
            self.obey(self.send(ev.LeaseOpened(self.now, lease_id, f"i-{lease_id}", self.now)))
        for lease_id in closes(commands):
            self._end(lease_id)
            self.obey(self.send(ev.LeaseClosed(self.now, lease_id)))

    def setbacks(self) -> tuple[PoolSetback, ...]:
        """The pools that are left alone."""
        return self.model.snapshot().moment.fleet.pools  # type: ignore[union-attr]


def begun(world: BrokenCloud) -> BrokenCloud:
    """A job of twenty VMs has waited for them in vain once."""
    world.send(ev.Restored(world.now, (), (), world.model.options))
    world.begin()
    world.submit(WIDE)
    while not world.setbacks():
        world.play(20.0)
    assert world.number == 20
    return world


@pytest.mark.parametrize("vanish_after", [None, 20.0])
def test_a_day_costs_little(vanish_after: float | None) -> None:
    """After the first twenty VMs one is opened at a time, and not without pause; the job says so."""
    world = begun(BrokenCloud(vanish_after))
    first, world.most = world.paid, 0
    world.play(24 * HOUR)
    assert world.most == 1
    assert 5 < world.number - 20 < 40
    assert world.paid - first < 4 * HOUR
    told = ("one VM of its pool has joined", "cannot be opened until")
    assert any(text in world.job().reason for text in told)
    model = ClusterModel()
    for event, commands in world.log:
        again = decode(encode(event))
        assert isinstance(again, ev.Event)
        assert model.handle(again) == commands


@pytest.mark.parametrize(("lasts", "breaks"), [(200.0, 20.0), (60.0, 60.0)])
def test_hours_cost_little_where_the_connection_breaks_again_and_again(lasts: float, breaks: float) -> None:
    """Sooner than a VM is given up: then the connections before count, too."""
    world = BrokenCloud()
    world.lasts, world.breaks = lasts, breaks
    begun(world)
    world.play(6 * HOUR)
    assert world.paid < 8 * HOUR


def test_a_long_break_counts_for_nothing() -> None:
    """VMs that booted meanwhile are waited for as long as after a start; also by a model that goes on."""
    world = BrokenCloud()
    world.send(ev.Restored(world.now, (), (), world.model.options))
    world.begin()
    world.submit(WIDE)
    world.play(20.0)
    world.send(ev.Disconnected(world.now, "no route"))
    world.wait(HOUR)
    world.subscribe()
    assert not closes(world.wait(299.0))
    moment = decode(encode(world.model.snapshot()))
    assert isinstance(moment, ev.Event)
    world.send(moment)
    assert not closes(world.wait(0.5))
    assert len(closes(world.wait(0.5))) == 20


def test_when_one_has_joined_all_are_opened() -> None:
    """It says that the pool is as it should be; the job waits for one VM's boot longer."""
    world = begun(BrokenCloud())
    (setback,) = world.setbacks()
    assert (setback.times, setback.trial) == (1, True)
    world.mended = True
    world.play(200.0)
    assert (world.number, len(world.opened_at)) == (40, 20)
    assert [setback.trial for setback in world.setbacks()] == [False]


def test_nobody_tries_a_pool_for_nothing() -> None:
    """Without a job that waits no VM is opened."""
    world = begun(BrokenCloud())
    world.kill("job-1")
    world.play(4 * HOUR)
    assert world.number == 20
    assert world.opened_at == {}


def test_vms_that_are_always_open_are_tried_one_by_one() -> None:
    """Though no job waits for them."""
    world = BrokenCloud(terms=Terms("general", boot=60.0, minimum=60.0, granularity=1.0, always=True))
    world.begin()
    world.play(400.0)
    assert world.number == 20
    world.most = 0
    world.play(4 * HOUR)
    assert (world.most, world.number > 22) == (1, True)
    world.mended = True
    world.play(2 * HOUR)
    assert len(world.opened_at) == 20


def test_a_straggler_puts_no_pool_on_trial() -> None:
    """Where others that were asked for with it have joined, the pool is as it should be."""
    world = BrokenCloud()
    world.begin()
    world.submit(replace(WIDE, executors=2))
    world.obey(world.decide())
    world.wait(60.0)
    world.obey(world.boot("general-2"))
    world.play(400.0)
    assert not any(setback.trial for setback in world.setbacks())


def test_a_restart_forgets_no_trial() -> None:
    """The next daemon opens one VM as well, after the pause."""
    world = begun(BrokenCloud())
    kept = world.kept()
    pools = tuple(each for each in world.setbacks())
    leases = world.model.leases()
    world.send(
        ev.Restored(world.now, kept.jobs, kept.executors, world.model.options, leases=leases, pools=pools)
    )
    world.begin()
    world.number, world.most = 0, 0
    world.play(HOUR)
    assert (world.most, 1 < world.number < 10) == (1, True)
