"""When to ask the master for offers, how long to wait for them, and when to decline them.

`offers.py` has the offered resources, `waiting_queue.py` the waiting jobs.
"""

import math
from collections.abc import Callable, Collection, Iterable

from environment.model.messages import options
from environment.model.messages.commands import Decline, Revive, Suppress
from environment.model.messages.event_context import EventContext
from environment.model.messages.snapshot import Offer, SupplySnapshot
from environment.model.vms.offers import Offers
from environment.model.vms.pool_slots import Places


class Supply:
    """Requests and declines the master's offers.

    Invariants: without a connection no offer is held; after `balance` none is held while no job waits, and
    the master then knows that none is wanted.
    """

    def __init__(self, turn: EventContext, book: Offers, places: Places) -> None:
        self.subscribed = False
        #: Why there is no connection.
        self.why = ""
        self._turn = turn
        self._book = book
        self._places = places
        #: When something was last done that the master should answer with offers.
        self._asked_at = 0.0
        self._revived_at = -math.inf
        self._suppressed = False
        #: Something happened since the last decision that makes it worth to ask for offers.
        self._stale = False
        #: Something was offered while something else was kept away: to be decided on together, if it helps.
        self._apart = False
        #: How often that was asked for since a job was placed, or began to wait.
        self._asked_for_all = 0
        #: The held offers were decided on in vain, and are to be given back unless keeping them helps.
        self._unused = False
        #: The held offers were decided on in vain, and are kept until more is offered (`options.KEEP`).
        self._kept = False
        #: When offers may be kept again: returned ones are left to others for as long as they were held.
        self._keep_from = 0.0
        #: VMs of which offers were given back, and until when the master therefore offers nothing of them.
        self._declined: dict[str, float] = {}
        #: Something happened since the last decision that could change it, beside that offers came.
        self.undecided = True
        #: When something last happened that could change a decision.
        self._changed_at = 0.0

    def state(self) -> SupplySnapshot:
        """All of this but the offers."""
        return SupplySnapshot(
            self.subscribed,
            self._suppressed,
            self._stale,
            self._asked_at,
            self._revived_at,
            self._changed_at,
            self.why,
            self.undecided,
            tuple(self._declined.items()),
            self._apart,
            self._asked_for_all,
            self._kept,
            self._keep_from,
        )

    def resume(self, state: SupplySnapshot) -> None:
        """Restore the state."""
        self.subscribed, self._suppressed, self._stale = state.subscribed, state.suppressed, state.stale
        self._asked_at, self._revived_at = state.asked_at, state.revived_at
        self._changed_at, self.why, self.undecided = state.changed_at, state.why, state.undecided
        self._declined = dict(state.declined)
        self._apart, self._asked_for_all = state.apart, state.asked_for_all
        self._kept, self._keep_from = state.kept, state.keep_from

    def connect(self) -> None:
        """Reset the state after the master has (again) accepted the framework: earlier messages are void."""
        self.subscribed, self._suppressed, self._stale = True, False, False
        self._apart, self._asked_for_all = False, 0
        self._declined.clear()
        self._unused = self._kept = False
        self._book.clear()
        self._book.expect()
        self._book.wanted_since = self._turn.now
        self._asked_at = self._turn.now

    def disconnect(self, why: str) -> None:
        """There is no connection, and so there are no offers."""
        self.subscribed, self.why = False, why
        self._book.clear()

    def take(self, offers: Iterable[Offer]) -> None:
        """Hold these offers, and ask again for declined ones where that helps (`balance`).

        Agents come out of phase when one is offered while others are refused. If each of them was decided on
        as it came, a job that needs several would never be shown all of its room.
        """
        offers = tuple(offers)
        self._kept = False
        self._book.take(offers, self._turn.now)
        self._changed_at = self._turn.now
        for offer in offers:
            self._declined.pop(offer.vm.id, None)
        if self._kept_away():
            self._apart = True

    def want(self) -> None:
        """Mark offers as worth requesting, as a job has begun to wait."""
        self._stale = self.undecided = True
        self._asked_for_all = 0

    def placed(self) -> None:
        """A job was placed: others are first now, and withheld offers may be asked for again at once."""
        self._asked_for_all = 0

    def expect(self) -> None:
        """Mark offers as worth requesting of VMs on which tasks are about to be launched."""
        self._stale = True

    def reconsider(self, since: float | None = None) -> None:
        """Mark decisions as outdated, now or since then: it is worth to ask for offers."""
        changed_at = self._turn.now if since is None else since
        self._changed_at = max(self._changed_at, changed_at)
        self._stale = self.undecided = True

    def decided(self, view_at: float | None) -> bool:
        """A decision was made on the view of that time; returns whether something has changed since then."""
        outdated = view_at is not None and self._changed_at > view_at
        if self._settled(self._turn.now if view_at is None else view_at):
            self._book.settled()
        self._stale = self._stale and outdated
        self.undecided = outdated
        self._asked_at = self._turn.now
        return outdated

    def ready(self) -> bool:
        """Whether offers are there, or VMs could be opened, and no more offers are expected."""
        if not self.subscribed:
            return False
        if not len(self._book):
            return bool(self._places) and self._may_open()
        if self._kept and not self.undecided:
            return False
        return self._book.came() or self._settled(self._turn.now)

    def _kept_away(self) -> bool:
        """Whether something is free that the master does not offer because it was declined."""
        now = self._turn.now
        return any(until > now and self._book.lacks(vm_id) for vm_id, until in self._declined.items())

    def _may_open(self) -> bool:
        """Whether to decide without any offer, since VMs could be opened: not again and again on the same."""
        if not self._places.may_open:
            return False
        silent = self._turn.now - self._asked_at
        if not self.undecided and silent < options.REFUSE:
            return False
        return (self._book.came() and self._places.all_heard) or silent >= options.SETTLE

    def _settled(self, at: float) -> bool:
        """Whether offers that were held at that time were waited for as long as ever."""
        return len(self._book) > 0 and at - self._book.since >= options.SETTLE

    def dry(self) -> bool:
        """Whether the master has had the time to offer something and did not."""
        return not len(self._book) and self._turn.now - self._asked_at > options.SETTLE

    def unused(self) -> None:
        """Held offers were decided on, and no job could use them: they are kept or declined (`balance`)."""
        self._unused = True

    def decline(self) -> None:
        """Decline all held offers."""
        now = self._turn.now
        self._apart = self._unused = self._kept = False
        if held := self._book.clear():
            until = now + options.REFUSE
            self._keep_from = max(self._keep_from, now + now - self._book.since)
            self._declined.update((offer.vm.id, until) for offer in held)
            self._turn.command(Decline, tuple(offer.id for offer in held), options.REFUSE)

    def balance(
        self,
        *,
        anyone: bool,
        due: bool,
        later: bool = False,
        fits: Callable[[Collection[str]], bool] = lambda _: True,
        completes: Callable[[Collection[str]], bool] = lambda _: False,
    ) -> None:
        """Hold offers only while `anyone` waits; ask for them when someone's time is `due`.

        While someone waits for VMs that may come `later`, offers are given back, and tell of those that do.
        What was given back, by VM, is asked for beside what is there only if somebody `fits` with it: else
        offers would go to and fro for a job that has no room whenever a task of others begins or ends.

        What was decided on in vain is given back, unless all that is free and not offered `completes` the
        room of the first job: given back, it would go to the framework that holds the rest.
        """
        if not self.subscribed:
            return
        if self._unused or self._kept:
            self._kept = self._may_keep() and (self._kept or completes(self._book.lacking))
            if not self._kept:
                self._asked_at = self._turn.now  # it was answered
                self.decline()
            self._unused = False
        if not anyone:
            self.decline()
            if later and self._suppressed:
                self._revive()
            elif not (later or self._suppressed):
                self._suppressed = True
                self._turn.command(Suppress)
        elif due and (self._suppressed or (self._stale and not self._book.complete()) or self._unheard()):
            self._revive()
        elif due and self._apart and self._turn.now - self._revived_at >= self._pause:
            self._apart = False
            if self._kept_away() and fits({vm_id for vm_id in self._declined if self._book.lacks(vm_id)}):
                self._asked_for_all += 1
                self._revive()

    def _may_keep(self) -> bool:
        """Whether held offers may be kept: not for longer than `options.KEEP`, nor again at once."""
        now = self._turn.now
        return len(self._book) > 0 and now >= self._keep_from and now - self._book.since < options.KEEP

    @property
    def _pause(self) -> float:
        """Seconds between two calls for declined offers; longer after each call in vain."""
        return options.REVIVE.after(self._asked_for_all + 1)

    def _unheard(self) -> bool:
        """Whether the master has offered nothing for so long that it may not have heard that we wait."""
        return not len(self._book) and self._turn.now - self._asked_at > options.ASK_AGAIN

    def _revive(self) -> None:
        now = self._turn.now
        if not self._suppressed and now - self._revived_at < options.REVIVE.first:
            return  # it stays stale, so a later event asks
        if self._suppressed:
            self._book.wanted_since = now
        self._suppressed = self._stale = self._apart = False
        self._asked_at = self._revived_at = now
        self._declined.clear()
        self._turn.command(Revive)
