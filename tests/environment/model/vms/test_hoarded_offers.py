"""A job that needs several VMs is placed although another framework takes offers and holds them for long.

What the other holds cannot be had before it declines it; what is offered to us is kept until then.
"""

from dataclasses import dataclass, field, replace

import pytest

from environment.model.event_log import decode, encode
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages import options
from environment.resources import NOTHING, Resources, total
from tests.builders import make_job, make_offer
from tests.environment.model.vms.test_out_of_phase import ALLOCATION, VMS, WITHIN, Allocator


@dataclass
class Shared(Allocator):
    """A master with a second framework, which launches nothing: it holds offers long, and declines them."""

    #: Seconds for which the other holds an offer, least and most.
    holds: tuple[float, float] = (15.0, 28.0)
    #: Seconds for which it then refuses the agent: Mesos' default.
    refuses: float = 5.0
    #: What it holds, and until when, by VM; until when it refuses it.
    hoard: dict[str, tuple[float, Resources]] = field(default_factory=dict)
    hoarder_refuses: dict[str, float] = field(default_factory=dict)

    def alone(self, seconds: float) -> None:
        """Let time go by while no job waits."""
        end = self.world.now + seconds
        while self.world.now < end:
            self.world.now += ALLOCATION
            self.allocate()

    def allocate(self) -> None:
        """Offer the unheld resources of each agent, to whom has less of the cluster now."""
        now, offers = self.world.now, []
        for vm_id, (until, _) in list(self.hoard.items()):
            if until <= now:
                del self.hoard[vm_id]
                self.hoarder_refuses[vm_id] = now + self.refuses
        for vm in VMS:
            ours = total(held for held_vm, held in self.held.values() if held_vm == vm)
            taken = self.others.get(vm.id, NOTHING) + self.world.model.ledger.held(vm.id) + ours
            free = (vm.resources - taken).positive
            if vm.id in self.hoard or not free.cpus:
                continue
            until, refused = self.refused.get(vm.id, (0.0, NOTHING))
            may_have = not (self.suppressed or (until > now and refused.contains(free)))
            may_hoard = self.hoarder_refuses.get(vm.id, 0.0) <= now
            if may_have and (not may_hoard or self._have_less()):
                self.number += 1
                offer = replace(make_offer(f"offer-{self.number}", vm), resources=free)
                self.held[offer.id] = (vm, free)
                offers.append(offer)
            elif may_hoard:
                self.hoard[vm.id] = (now + self.random.uniform(*self.holds), free)
        if offers:
            self.obey(self.world.send(ev.OffersReceived(now, tuple(offers))))

    def _have_less(self) -> bool:
        ours, theirs = (total(held for _, held in all_.values()) for all_ in (self.held, self.hoard))
        return ours.cpus <= theirs.cpus


def waiting(seed: int) -> Shared:
    """A wide job waits for a cluster of which the other holds all."""
    master = Shared(seed)
    master.begin()
    master.alone(master.random.uniform(5, 30))
    master.obey(master.world.submit(make_job("wide", 10)))
    return master


@pytest.mark.parametrize("seed", range(20))
def test_what_is_offered_is_kept_until_another_framework_declines_the_rest(seed: int) -> None:
    """The other has held each agent for as long as it does once at most: then all is ours."""
    master = waiting(seed)
    placed = master.play(120)
    assert placed is not None
    assert placed < master.holds[1] + WITHIN


def away(seconds: float) -> Shared:
    """A wide job waits while the other holds the largest agent for so long; nothing else happens."""
    master = Shared(1, holds=(seconds, seconds))
    master.begin()
    master.hoard[VMS[1].id] = (master.world.now + seconds, VMS[1].resources)
    master.hoarder_refuses = dict.fromkeys((VMS[0].id, VMS[2].id), float("inf"))
    master.obey(master.world.submit(make_job("wide", 10)))
    return master


def test_nothing_is_kept_for_more_than_half_of_the_time() -> None:
    """One that holds an offer for ever makes no other of us."""
    master, held = away(10_000.0), 0
    for _ in range(600):
        assert master.play(1.0) is None
        held += bool(master.held)
    # In the other half each agent is held while it is decided on, and then refused.
    assert 0.4 * 600 < held < 0.6 * 600


def test_what_is_kept_is_decided_on_once() -> None:
    """A policy is asked again when something is offered, not again and again."""
    master = away(10_000.0)
    master.play(5)
    assert master.held
    assert not master.world.model.ready_to_decide()
    master.obey(master.world.submit(make_job("other", 10)))
    assert master.world.model.ready_to_decide()


def test_nothing_is_kept_for_who_would_not_fit() -> None:
    """Tasks of others hold the largest agent, as the census of agents says: what is offered goes back."""
    master = Allocator(1)
    master.others[VMS[1].id] = VMS[1].resources
    master.begin()
    master.obey(master.world.submit(make_job("wide", 10)))
    master.play(4)
    assert not master.held
    assert any(isinstance(call, cmd.Decline) for call in master.calls)


def test_nothing_is_kept_for_a_policy_that_waits_by_choice() -> None:
    """More offers would not change its decision."""
    master = away(10_000.0)
    master.obey(master.world.kill("wide"))
    master.obey(master.world.submit(make_job("small", 1)))
    master.allocate()
    master.obey(master.world.wait(options.SETTLE))
    assert master.held
    assert master.world.model.ready_to_decide()
    master.obey(
        master.world.send(ev.Decided(master.world.now, (), ev.Waiting("small", "it is better later")))
    )
    assert not master.held


def test_what_is_kept_is_in_a_snapshot() -> None:
    """A model that goes on from one gives it back when its time is over."""
    master = away(10_000.0)
    master.play(5)
    model = type(master.world.model)(master.world.model.options)
    model.handle(decode(encode(master.world.model.snapshot())))  # type: ignore[arg-type]  # an event
    assert not model.ready_to_decide()
    late = ev.Tick(master.world.now + options.KEEP)
    assert [type(command) for command in model.handle(late)] == [cmd.Decline]


def test_the_job_is_told_what_was_not_offered_for_long() -> None:
    """Only an operator can make the other framework give it back."""
    master = away(10_000.0)
    master.play(options.WITHHELD)
    assert not any("--offer_timeout" in reason for reason in master.reasons)
    master.play(2 * options.KEEP)
    assert "agent-8 was not offered for more than 60 s" in master.reasons[-1]
    assert "--offer_timeout" in master.reasons[-1]
    assert "agent-4" not in master.reasons[-1]


def test_time_in_which_nothing_was_wanted_is_not_counted() -> None:
    """No offer comes while no job waits."""
    master = Shared(1)
    master.begin()
    master.alone(1000)
    master.hoard = {VMS[1].id: (master.world.now + 1000, VMS[1].resources)}
    master.obey(master.world.submit(make_job("wide", 10)))
    master.play(50)
    assert master.reasons
    assert not any("--offer_timeout" in reason for reason in master.reasons)
