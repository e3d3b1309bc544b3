"""One of several daemons on a store: either leads, or stands by until it is elected.

While it leads, the API asks the scheduler's service; otherwise `leadership/standby.py` answers what the store
knows, and all else is redirected to the leader. `leadership/election.py` finds the leader.
"""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

import structlog

from daemon.core.errors import ElsewhereError
from daemon.leadership.election import Election
from daemon.leadership.standby import Standby
from daemon.scheduler.service import Service
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from daemon.store.rows.terms import Term

log = structlog.get_logger("leader")

#: Seconds between two looks at whether the lead still holds.
_WATCH = 1.0
#: Seconds before a daemon that could not take the lead up tries again, so that another may.
_PAUSE = 5.0
#: Seconds between two searches for drivers that no job waits for.
_SWEEP = 15.0


class Candidate:
    """Stands for election until it is stopped; the `scheduler_interface.Leadership` of the API all the while.

    `lead` makes a service for a term and takes it apart again afterwards; `sweep` ends the processes that
    earlier leaders left on this host.
    """

    def __init__(
        self,
        store: Store,
        election: Election,
        url: str,
        lead: Callable[[Term], AbstractContextManager[Service]],
        sweep: Callable[[], None],
    ) -> None:
        self._store = store
        self._election = election
        self._url = url
        self._lead = lead
        self._sweep = sweep
        self._standby = Standby(store, election)
        self._stopping = threading.Event()
        self._service: Service | None = None
        self._led = ExitStack()

    def stand(self) -> bool:
        """Try to become the leader now, and return whether that succeeded; errors are raised."""
        term = self._election.won(self._url)
        if term is None:
            return False
        try:
            self._sweep()
            self._service = self._led.enter_context(self._lead(term))
        except BaseException:
            self.resign()
            raise
        return True

    def run(self) -> None:
        """Lead whenever elected, until `stop`; to be called once, in a thread of its own."""
        swept = 0.0
        while not self._stopping.is_set():
            if self._service is not None or self._stands():
                self._serve()
            elif time.monotonic() > swept + _SWEEP:
                swept = time.monotonic()
                self._sweep_if_possible()
        self.resign()

    def stop(self) -> None:
        """End soon. Jobs go on."""
        self._stopping.set()
        if (service := self._service) is not None:
            service.stop()

    def _sweep_if_possible(self) -> None:
        try:
            self._sweep()
        except StoreError as error:
            log.warning("cannot look for drivers that were given up", error=str(error))

    def _stands(self) -> bool:
        try:
            return self.stand()
        except Exception as error:  # after any error another daemon may do better
            log.error("cannot take the lead", error=str(error))
            self._stopping.wait(_PAUSE)
            return False

    def _serve(self) -> None:
        service = self._service
        if service is None:
            return
        log.info("leading", url=self._url)
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(service, over), name="leadership")
        watcher.start()
        try:
            if not self._stopping.is_set():
                service.run()
        except StoreError as error:  # perhaps another daemon reaches it
            log.error("no longer leading", why=str(error))
        finally:
            over.set()
            watcher.join()
            self.resign()

    def _watch(self, service: Service, over: threading.Event) -> None:
        """Stop the service at once when the lead is lost."""
        why = ""
        while not over.is_set() and not why:
            try:
                why = self._election.lost(_WATCH)
            except Exception as error:  # a lead that cannot be watched may be another daemon's
                why = f"{type(error).__name__}: {error}"
        if why:
            log.error("no longer leading", why=why)
            service.stop()

    def resign(self) -> None:
        """End the term, if there is one, and with it all that leads; not while `run` does."""
        self._service = None
        self._led.close()
        self._election.resign()

    # ---- requests of the API ---------------------------------------------------------------------

    def leader(self) -> Service:
        """See `Leadership.leader`."""
        service = self._service
        if service is None:
            leader = self._store.terms.leader()
            raise ElsewhereError("" if leader == self._url else leader)  # its own term may just be over
        return service

    def live(self) -> Service | Standby:
        """See `Leadership.live`."""
        service = self._service
        return self._standby if service is None else service
