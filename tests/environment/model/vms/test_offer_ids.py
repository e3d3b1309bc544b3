"""Offers by id and by VM tell of the same, however a master reuses ids, and loses and finds VMs."""

from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from environment.model.vms.offers import Offers
from environment.model.vms.reservations import Reservations
from environment.model.vms.usage_ledger import Ledger
from environment.types import Vm
from tests.builders import make_offer, make_vms

VMS = make_vms(3, cpus=4)
ids, vms = st.sampled_from(["o1", "o2", "o3"]), st.sampled_from(VMS)


class OfferIds(RuleBasedStateMachine):
    """A master that gives an id to any VM at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.offers, self.at = Offers(Ledger(), Reservations()), 0.0

    @rule(taken=st.lists(st.tuples(ids, vms), min_size=1, max_size=4))
    def take(self, taken: Iterable[tuple[str, Vm]]) -> None:
        """Offers come, in one event."""
        self.at += 1.0
        self.offers.take([make_offer(offer, vm) for offer, vm in taken], self.at)

    @rule(offer=ids)
    def drop(self, offer: str) -> None:
        """One is taken back, known or not."""
        self.offers.drop(offer)

    @rule(vm=vms)
    def use(self, vm: Vm) -> None:
        """All of a VM are accepted."""
        if vm.id in {each.id for each in self.offers.vms()}:
            self.offers.use(vm.id)

    @rule(vm=vms)
    def lose(self, vm: Vm) -> None:
        """A VM is gone."""
        self.offers.lose(vm.id)

    @rule()
    def clear(self) -> None:
        """The connection is lost."""
        self.offers.clear()

    @rule()
    def resume(self) -> None:
        """Another process goes on with the state."""
        state, self.offers = self.offers.state(), Offers(Ledger(), Reservations())
        self.offers.resume(state)

    @invariant()
    def agree(self) -> None:
        """What is offered of a VM is in the offers that are held, each of one VM."""
        held = self.offers.state().offers
        for vm in VMS:
            own = [offer.resources for offer in held if offer.vm.id == vm.id]
            assert self.offers.offered(vm.id).cpus == sum(each.cpus for each in own)
        assert len(self.offers) == len({offer.id for offer in held}) == len(held)


TestOfferIds = OfferIds.TestCase
TestOfferIds.settings = settings(max_examples=150, stateful_step_count=20, deadline=None)
