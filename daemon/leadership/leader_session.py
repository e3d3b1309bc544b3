"""What the scheduling loop is sure of before it tells the world anything: it leads, and all is on disk.

Until then it waits here, and here it is told to stop.
Terms themselves are in `terms.py`, how a leader is found in `election.py`.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from secrets import token_hex

import structlog

from daemon.store.job_store import DeposedError, Store, StoreError
from daemon.store.rows.bill import BATCH
from daemon.store.rows.event_recorder import HistoryEvent
from daemon.store.rows.terms import Term
from environment.decisions.explain import Explanation
from environment.model.cluster_model import Changes

log = structlog.get_logger("service")

#: Seconds between two tries to find out whether this daemon still leads.
RENEWAL = 0.2
#: Seconds between two tries to store what changed.
_SAVE_AGAIN = 1.0


class LeaderSession:
    """One term as the loop lives through it: from its first beat until it is deposed or told to stop.

    `beat`, `renew`, `sure`, `await_certainty` and `save` are for the loop's thread, the rest for any.
    """

    def __init__(self, term: Term, store: Store) -> None:
        self._term = term
        self._store = store
        self._over = threading.Event()
        self._alive_at = time.monotonic()
        #: What is wrong with the store, empty when the last write went well.
        self.trouble = ""

    @property
    def over(self) -> bool:
        """Whether nothing more is to be done."""
        return self._over.is_set()

    @property
    def silent(self) -> float:
        """For how many seconds the loop has been at one thing."""
        return time.monotonic() - self._alive_at

    def end(self) -> None:
        """Do nothing more."""
        self._over.set()

    def may_act(self) -> bool:
        """Whether it is certain that no other daemon leads."""
        return self._term.holds

    def holds_until(self) -> float:
        """The `boot_seconds` until which that is certain, as far as is known."""
        return self._term.holds_until

    def beat(self) -> None:
        """The loop goes on."""
        self._alive_at = time.monotonic()

    def renew(self) -> None:
        """Go on leading, unless another daemon does; what keeps the loop from coming here ends its term."""
        try:
            self._term.renew()
        except DeposedError as error:
            self._step_down(error)
        except StoreError as error:
            self._note(error)

    def sure(self) -> bool:
        """Renew what is due, and wait until it is certain that this daemon leads; False when it is not.

        Before each deed: many of them together may take longer than a lease holds.
        """
        self.renew()
        return self.await_certainty()

    def await_certainty(self) -> bool:
        """Wait until it is certain that no other daemon leads; False when one does, or when stopping."""
        while not self.may_act():
            self.beat()
            self.renew()
            if not self.may_act() and self._over.wait(RENEWAL):
                return False
        return True

    def save(
        self,
        changes: Changes,
        explanations: Sequence[Explanation],
        facts: Mapping[str, str],
        happened: Sequence[HistoryEvent] = (),
    ) -> bool:
        """Store these, however long that takes; False when another daemon leads, or when stopping.

        A full disk stops the loop, not the jobs.
        """
        if changes.charges:
            facts = {**facts, BATCH: token_hex(8)}
        while True:
            try:
                self._store.save(changes, explanations, facts, happened)
            except DeposedError as error:
                self._step_down(error)
                return False
            except StoreError as error:
                self._note(error)
                self.beat()
                if self._over.wait(_SAVE_AGAIN):
                    return False
                continue
            self.trouble = ""
            return True

    def ends_of(self, job_ids: Sequence[str]) -> Mapping[str, str]:
        """How jobs have ended, however long it takes to read that; nothing when stopping."""
        while not self._over.is_set():
            try:
                return self._store.ends_of(job_ids)
            except StoreError as error:
                self._note(error)
                self.beat()
                self._over.wait(_SAVE_AGAIN)
        return {}

    def _note(self, error: StoreError) -> None:
        log.error("store", error=str(error))
        self.trouble = str(error)

    def _step_down(self, why: DeposedError) -> None:
        log.error("no longer leading", why=str(why))
        self.end()
