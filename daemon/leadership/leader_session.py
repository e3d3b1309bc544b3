"""Guards the scheduling loop's outside actions: the daemon leads, and all changes are on disk.

Until both are certain the loop waits here, and here it is told to stop. `terms.py` defines terms,
`election.py` elects the leader.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from secrets import token_hex

import structlog

from daemon.store.job_store import Store
from daemon.store.rows.bill import BATCH
from daemon.store.rows.database import DeposedError, StoreError
from daemon.store.rows.event_recorder import HistoryEvent
from daemon.store.rows.terms import Term
from environment.decisions.explain import Explanation
from environment.model.cluster_model import Changes

log = structlog.get_logger("service")

#: Seconds between two tries to find out whether this daemon still leads.
RENEWAL = 0.2
#: Seconds between two tries to store the changes.
_SAVE_AGAIN = 1.0


class LeaderSession:
    """One term of the loop: from its first beat until it is deposed or stopped.

    `beat`, `renew`, `sure`, `await_certainty` and `save` are for the loop's thread, the rest for any.
    """

    def __init__(self, term: Term, store: Store) -> None:
        self._term = term
        self._store = store
        self._over = threading.Event()
        self._alive_at = time.monotonic()
        #: The last error of the store, empty when the last write went well.
        self.trouble = ""

    @property
    def over(self) -> bool:
        """Whether nothing more is to be done."""
        return self._over.is_set()

    @property
    def silent(self) -> float:
        """Seconds since the loop's last beat."""
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
        """Renew the term, unless another daemon leads; a loop that is blocked elsewhere loses its term."""
        try:
            if self._term.renew():
                self.trouble = ""  # an idle daemon writes nothing else
        except DeposedError as error:
            self._step_down(error)
        except StoreError as error:
            self._note(error)

    def sure(self) -> bool:
        """Renew the term if due, and wait until this daemon certainly leads; False when it does not.

        Called before each action: many of them together may outlast a lease.
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
                self._store.changes.save(changes, explanations, facts, happened)
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
        """End states of jobs, however long the read takes; empty when stopping."""
        while not self._over.is_set():
            try:
                return self._store.jobs.ends_of(job_ids)
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
