"""A round of decisions as it enters the model: who is launched, who is told to wait, who is decided again.

What a placement becomes on its VMs is in `launches.py`, what it means for its job in `life.py`.
"""

from environment.model import timings
from environment.model.events import Decided
from environment.model.launches import Launches
from environment.model.ledger import Ledger
from environment.model.life import JobLives
from environment.model.offer_book import OfferBook
from environment.model.roster import Roster
from environment.model.setbacks import Setbacks
from environment.model.supply import Supply
from environment.model.turn import Turn
from environment.model.waiting import WaitingLine


class Decisions:
    """Executes what was decided, as far as it still holds after what happened meanwhile."""

    def __init__(
        self,
        turn: Turn,
        roster: Roster,
        line: WaitingLine,
        book: OfferBook,
        ledger: Ledger,
        supply: Supply,
        setbacks: Setbacks,
        lives: JobLives,
    ) -> None:
        self._turn = turn
        self._roster = roster
        self._line = line
        self._book = book
        self._ledger = ledger
        self._supply = supply
        self._setbacks = setbacks
        self._lives = lives

    def take(self, event: Decided) -> None:
        """A round is over."""
        outdated = self._supply.decided(event.view_at)
        launches = Launches(self._turn, self._roster, self._book, self._ledger, self._setbacks)
        for placement in event.placements:
            job = self._roster.job(placement.job_id)
            if job is None or job not in self._line:
                continue  # killed, or placed already
            new = self._line.is_new(job)
            if refusal := launches.refusal(job, placement, new=new):
                # Those behind it were decided on as if it had been placed, and must not overtake it.
                self._roster.explain(job, f"decided again, since {refusal}")
                self._supply.reconsider()
                break
            launches.add(job, placement, new=new)
            self._lives.placed(job, len(placement.vm_ids))
        else:
            if self._line.tell(event.waiting, self._turn.now, timings.GROWTH_PATIENCE):
                self._supply.reconsider()  # those behind it may be placed now
        launches.command()
        if self._line.told and not outdated:
            self._supply.decline()
