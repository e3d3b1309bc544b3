"""Offers: made of the allocator's grants, used, declined, rescinded; and the refusals frameworks leave."""

from collections.abc import Iterable

from framework.embedded.master.allocator import Grant, allocate
from framework.embedded.master.state import AgentRecord, Filter, Framework, MasterState, OutstandingOffer
from framework.embedded.messages import Json, offers_event, rescind_event
from framework.embedded.resource_messages import Amount, to_json


class MasterOffers:
    """A state's offers; the only code that makes or removes one."""

    def __init__(self, state: MasterState) -> None:
        self._state = state
        self._scheduled = False
        self._all = False

    def allocate_soon(self) -> None:
        """Run the allocator after the current event."""
        if not self._scheduled:
            self._scheduled = True
            self._state.loop.call_soon(self.allocate)

    def allocate(self) -> None:
        """Run the allocator and send its grants, one OFFERS event per framework."""
        self._scheduled = False
        state = self._state
        now = state.loop.time()
        for framework in state.frameworks.values():
            framework.filters = [refusal for refusal in framework.filters if refusal.until > now]
        fresh: dict[str, list[Json]] = {}
        revived, self._all = self._all, False
        agents = [a for a in state.agents.values() if self._may_offer(a, now, revived=revived)]
        for grant in allocate(state.frameworks.values(), agents, now):
            offer = self._make(grant)
            fresh.setdefault(grant.framework_id, []).append(self.to_json(offer))
        for framework_id, offers in fresh.items():
            state.count("master/messages_offers")
            state.frameworks[framework_id].send(offers_event(offers))

    def offer_at(self, agent: AgentRecord, phase: float, period: float) -> None:
        """Offer an agent only once in a period (s) from now on, first after `phase` seconds."""
        agent.offer_period, agent.next_offer = period, self._state.loop.time() + phase
        self._state.loop.call_later(phase, self.allocate)

    def revive(self) -> None:
        """Offer all agents now, whenever the time of each is."""
        self._all = True
        self.allocate_soon()

    def _may_offer(self, agent: AgentRecord, now: float, *, revived: bool) -> bool:
        if revived or not agent.offer_period:
            return True
        if agent.next_offer > now:
            return False
        agent.next_offer += agent.offer_period * (1 + (now - agent.next_offer) // agent.offer_period)
        self._state.loop.call_at(agent.next_offer, self.allocate)
        return True

    def to_json(self, offer: OutstandingOffer) -> Json:
        """The `OutstandingOffer` message."""
        framework = self._state.frameworks[offer.framework_id]
        agent = self._state.agents[offer.agent_id]
        role = offer.role if framework.multi_role else None
        executors = [eid for fid, eid in agent.executors if fid == framework.id]
        return (
            {
                "id": {"value": offer.id},
                "framework_id": {"value": framework.id},
                "agent_id": {"value": agent.id},
                "hostname": agent.spec.name,
                "url": agent_url(agent),
                "resources": to_json(offer.resources, role),
                "attributes": attributes(agent),
            }
            | ({"executor_ids": [{"value": eid} for eid in executors]} if executors else {})
            | ({"allocation_info": {"role": role}} if role is not None else {})
        )

    def take_all(self, offers: Iterable[OutstandingOffer]) -> None:
        """Remove offers and return their resources to their agents, without notice to frameworks."""
        for offer in list(offers):
            self._remove(offer)
            self.give_back(offer.agent_id, offer.resources)

    def use(self, offers: Iterable[OutstandingOffer]) -> None:
        """Remove offers, but leave their resources allocated: the caller releases the unneeded ones."""
        for offer in offers:
            self._remove(offer)

    def rescind(self, offers: Iterable[OutstandingOffer]) -> None:
        """Rescind offers, and notify their frameworks."""
        for offer in list(offers):
            self.take_all([offer])
            self._state.frameworks[offer.framework_id].send(rescind_event(offer.id))

    def give_back(self, agent_id: str, resources: Amount) -> None:
        """Make resources of an agent available again."""
        agent = self._state.agents.get(agent_id)
        if agent is not None:
            agent.allocated = agent.allocated - resources

    def refuse(self, framework: Framework, offer: OutstandingOffer, resources: Amount, filters: Json) -> None:
        """Release unused resources and record the time for which the framework does not want them."""
        self.give_back(offer.agent_id, resources)
        seconds = filters.get("refuse_seconds", self._state.options.default_refuse)
        if seconds < 0 or seconds != seconds:
            seconds = self._state.options.default_refuse
        if seconds > 0 and resources:
            until = self._state.loop.time() + seconds
            framework.filters.append(Filter(offer.role, offer.agent_id, resources, until))

    def decline(self, framework: Framework, offer_ids: Iterable[str], filters: Json) -> None:
        """Take offers back; ids that are not outstanding are passed over."""
        for offer_id in offer_ids:
            offer = framework.offers.get(offer_id)
            if offer is not None:
                self._remove(offer)
                self.refuse(framework, offer, offer.resources, filters)

    def _make(self, grant: Grant) -> OutstandingOffer:
        state = self._state
        offer = OutstandingOffer(
            state.next_id("O"), grant.framework_id, grant.agent_id, grant.role, grant.resources
        )
        agent = state.agents[grant.agent_id]
        agent.allocated = agent.allocated + grant.resources
        state.offers[offer.id] = offer
        state.frameworks[grant.framework_id].offers[offer.id] = offer
        if state.options.offer_timeout is not None:
            offer.timer = state.loop.call_later(state.options.offer_timeout, self.rescind, [offer])
        return offer

    def _remove(self, offer: OutstandingOffer) -> None:
        del self._state.offers[offer.id]
        del self._state.frameworks[offer.framework_id].offers[offer.id]
        if offer.timer is not None:
            offer.timer.cancel()


def agent_url(agent: AgentRecord) -> Json:
    """An agent's own address."""
    address = {"hostname": agent.spec.name, "ip": agent.spec.address, "port": AGENT_PORT}
    return {"scheme": "http", "address": address, "path": "/slave(1)"}


def attributes(agent: AgentRecord) -> list[Json]:
    """An agent's attributes: VM type and price, and the lease of a VM that was opened."""
    lease = {"name": "lease", "type": "TEXT", "text": {"value": agent.spec.lease}}
    return [
        {"name": "vm", "type": "TEXT", "text": {"value": agent.spec.type}},
        {"name": "price", "type": "SCALAR", "scalar": {"value": agent.spec.price_per_hour}},
        *([lease] if agent.spec.lease else []),
    ]


AGENT_PORT = 5051
"""The address that every agent advertises; nothing listens there, since all agents live in the master's
process."""
