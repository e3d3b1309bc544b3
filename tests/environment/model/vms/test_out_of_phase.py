"""A job that needs several VMs at once is placed, whenever the master happens to offer each of them.

The master here is Mesos' allocator in virtual time: an agent is offered whole, not while it is refused, and
all of them at once after a REVIVE. So the result depends on no machine and on no chance but the seed's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from environment.model.event_log import decode, encode
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.snapshot import VmSize
from environment.resources import NOTHING, Resources
from environment.types import Vm
from tests.builders import make_job, make_offer, make_vm
from tests.environment.two_worlds.world import World

#: Four, eight and two cpus.
VMS = tuple(make_vm(f"agent-{cpus}", cpus=cpus) for cpus in (4, 8, 2))
#: Seconds between two looks at what is due, and between two runs of the allocator.
STEP, ALLOCATION = 0.05, 1.0
#: Seconds within which a job is placed once its room is free and each of its VMs has been offered.
WITHIN = 3.0


@dataclass
class Allocator:
    """A master with our framework, and another one that holds parts of agents."""

    seed: int
    world: World = field(default_factory=lambda: World(VMS))
    #: What others hold, by VM.
    others: dict[str, Resources] = field(default_factory=dict)
    #: VMs that are offered to us from then on only, as if another framework held an offer of them.
    late: dict[str, float] = field(default_factory=dict)
    #: Calls of each kind.
    calls: list[cmd.Command] = field(default_factory=list)
    #: What the job that waits was told, in order.
    reasons: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311 - no secret hangs on it
        self.refused: dict[str, tuple[float, Resources]] = {}
        self.held: dict[str, tuple[Vm, Resources]] = {}
        self.suppressed = False
        self.number = 0
        self.due = 0.0

    def begin(self) -> None:
        """The master takes the framework, and tells which agents there are."""
        self.obey(self.world.subscribe())
        self.measure()

    def measure(self, *smaller: VmSize) -> None:
        """Tell how large agents are; some are smaller for us, as another role has the rest."""
        sizes = {vm.id: vm.resources for vm in VMS} | dict(smaller)
        told = tuple(VmSize(vm_id, size) for vm_id, size in sizes.items())
        taken = {vm.id: self.others.get(vm.id, NOTHING) for vm in VMS if vm.id not in dict(smaller)}
        used = tuple(
            VmSize(vm_id, held + self.world.model.ledger.held(vm_id)) for vm_id, held in taken.items()
        )
        self.obey(self.world.send(ev.VmsMeasured(self.world.now, told, VMS, used=used)))

    def play(self, seconds: float, job_id: str = "wide") -> float | None:
        """Let time go by until the job is placed; after how long it was, None if it was not."""
        began = self.world.now
        while self.world.now - began < seconds:
            self.world.now += STEP
            if self.world.now >= self.due:
                self.due = self.world.now + ALLOCATION
                self.allocate()
            if round((self.world.now - began) / STEP) % 4 == 0:
                self.obey(self.world.wait(0))
            if self.world.model.ready_to_decide():
                self.obey(self.world.decide())
            if (reason := self.world.job(job_id).reason) not in self.reasons[-1:]:
                self.reasons.append(reason)
            if self.world.job(job_id).state != "queued":
                return self.world.now - began
        return None

    def allocate(self) -> None:
        """Offer the unheld resources of each agent, if they are neither refused nor late."""
        offers = []
        now = self.world.now
        for vm in () if self.suppressed else VMS:
            taken = self.others.get(vm.id, NOTHING) + self.world.model.ledger.held(vm.id)
            for held_vm, held in self.held.values():
                taken += held if held_vm == vm else NOTHING
            free = (vm.resources - taken).positive
            until, refused = self.refused.get(vm.id, (0.0, NOTHING))
            if not free.cpus or self.late.get(vm.id, 0.0) > now or (until > now and refused.contains(free)):
                continue
            self.number += 1
            offer = replace(make_offer(f"offer-{self.number}", vm), resources=free)
            self.held[offer.id] = (vm, free)
            offers.append(offer)
        if offers:
            self.obey(self.world.send(ev.OffersReceived(now, tuple(offers))))

    def obey(self, commands: list[cmd.Command]) -> None:
        """Do as a master does."""
        self.calls += commands
        for command in commands:
            if isinstance(command, cmd.Decline):
                for offer_id in command.offer_ids:
                    vm, free = self.held.pop(offer_id)
                    self.refused[vm.id] = (self.world.now + command.refuse_seconds, free)
            elif isinstance(command, cmd.Launch):
                for offer_id in command.offer_ids:
                    del self.held[offer_id]
            elif isinstance(command, cmd.Suppress):
                self.suppressed = True
            elif isinstance(command, cmd.Revive):
                self.suppressed = False
                self.refused.clear()
                self.due = self.world.now + STEP


@pytest.mark.parametrize("seed", range(40))
def test_agents_out_of_phase_are_decided_on_together(seed: int) -> None:
    """Each agent is first offered at a time of its own, and earlier offers were declined."""
    master = Allocator(seed)
    master.begin()
    phases = [master.random.uniform(0, 10) for _ in VMS]
    master.late = {vm.id: master.world.now + phase for vm, phase in zip(VMS, phases, strict=True)}
    master.obey(master.world.submit(make_job("wide", 10)))
    placed = master.play(60)
    assert placed is not None
    assert placed < max(phases[1], min(phases[0], phases[2])) + WITHIN


@pytest.mark.parametrize("seed", range(40))
def test_room_that_another_framework_leaves_is_found_with_the_rest(seed: int) -> None:
    """Its task on the largest agent ends at any moment, while the others are refused or held."""
    master = Allocator(seed)
    master.others[VMS[1].id] = VMS[1].resources
    master.begin()
    master.obey(master.world.submit(make_job("wide", 10)))
    assert master.play(master.random.uniform(10, 20)) is None
    assert len(master.reasons) <= 2, master.reasons
    master.others.clear()
    placed = master.play(60)
    assert placed is not None
    assert placed < WITHIN


@pytest.mark.parametrize("seed", range(10))
def test_what_an_operator_unreserves_is_used_before_the_master_is_asked(seed: int) -> None:
    """Offers show it: the job that could not run even alone is back in the queue, and placed."""
    master = Allocator(seed)
    master.begin()
    master.measure(VmSize(VMS[1].id, Resources.of(2.0, VMS[1].memory_mib)))
    master.others[VMS[1].id] = Resources.of(6.0, 0)
    master.obey(master.world.submit(make_job("wide", 10)))
    assert master.play(master.random.uniform(10, 20)) is None
    assert "even alone" in master.reasons[-1]
    master.others.clear()
    placed = master.play(60)
    assert placed is not None
    assert placed < WITHIN


def test_a_queue_that_fits_nowhere_does_not_ask_again_and_again() -> None:
    """Once all agents are in phase, they are offered, declined and refused together."""
    master = Allocator(1)
    master.others[VMS[1].id] = VMS[1].resources
    master.late = {VMS[0].id: master.world.now + 4.0}
    master.begin()
    master.obey(master.world.submit(make_job("wide", 10)))
    master.play(120)
    assert sum(isinstance(call, cmd.Revive) for call in master.calls) <= 8
    assert len(set(master.reasons)) <= 3, master.reasons


def churned(wide: int, others: Sequence[float], *behind: int) -> list[cmd.Command]:
    """What is called in a minute in which others hold now so many, now so many cpus of the largest VM."""
    master = Allocator(1)
    master.others[VMS[1].id] = Resources.of(others[0], 0)
    master.begin()
    master.obey(master.world.submit(make_job("wide", wide)))
    for number, executors in enumerate(behind):
        master.obey(master.world.submit(make_job(f"behind-{number}", executors)))
    master.play(20)
    before = len(master.calls)
    for number in range(60):
        master.others[VMS[1].id] = Resources.of(others[number % len(others)], 0)
        assert master.play(1.0) is None
    return [call for call in master.calls[before:] if isinstance(call, cmd.Revive)]


@pytest.mark.parametrize("behind", [(), (1,), (14, 1)])
def test_nothing_is_asked_for_who_does_not_fit(behind: tuple[int, ...]) -> None:
    """Whatever the size of the VMs: others' tasks on the largest begin and end, and leave too little.

    Who fits behind it is decided on without what was given back.
    """
    assert churned(14, (7.0, 6.0, 5.0), *behind) == []


def test_what_is_asked_for_in_vain_is_asked_for_less_and_less() -> None:
    """One behind the first fits with what was given back, and first fit waits for the first."""
    revives = churned(14, (7.0, 6.0, 5.0), 8)
    assert 1 <= len(revives) <= 6


def test_what_was_declined_is_in_a_snapshot() -> None:
    """A model that goes on from one asks for it too when something else comes."""
    master = Allocator(1)
    master.others[VMS[1].id] = VMS[1].resources
    master.begin()
    master.obey(master.world.submit(make_job("wide", 10)))
    master.play(4)
    kept = decode(encode(master.world.model.snapshot()))
    model = type(master.world.model)(master.world.model.options)
    model.handle(kept)  # type: ignore[arg-type]  # an event
    offers = ev.OffersReceived(master.world.now, (make_offer("late", VMS[1]),))
    assert [type(command) for command in model.handle(offers)] == [cmd.Revive]
