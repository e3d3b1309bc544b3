"""Asks a master again and again which agents it has: they come and go while nothing is offered to us."""

import threading
import time
from collections.abc import Callable, Iterable

import structlog

from environment.model.messages.events import VmsMeasured
from environment.model.messages.snapshot import Offer

log = structlog.get_logger("mesos")

#: Seconds between two questions.
PERIOD = 15.0


class AgentPoller:
    """Calls `read` on request and every `PERIOD` seconds, in a thread of its own.

    `tell` receives changed results. `read` returns None while no master can be asked.
    """

    def __init__(self, read: Callable[[], VmsMeasured | None], tell: Callable[[VmsMeasured], None]) -> None:
        self._read = read
        self._tell = tell
        self._told: VmsMeasured | None = None
        #: When offers of agents last contradicted the last report, by agent.
        self._hinted: dict[str, float] = {}
        self._asked = threading.Event()
        self._answered = threading.Condition()
        self._begun = 0
        self._done = 0
        self._stopping = False
        self._complained = ""

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._run, name="mesos-census", daemon=True).start()

    def stop(self) -> None:
        """End. Does not wait for a master that hangs."""
        self._stopping = True
        self._asked.set()

    def anew(self) -> None:
        """Ask at once, and report the answer even if it is unchanged: the model has lost the previous one."""
        self._told = None
        self._asked.set()

    def hint(self, offers: Iterable[Offer]) -> None:
        """Ask at once when offers show unknown or closed agents, or more of one than was reported.

        At most once a period for each agent, in case the master goes on reporting otherwise.
        """
        if (told := self._told) is None:
            return
        sizes, closed, now = dict(told.sizes), dict(told.closed), time.monotonic()
        for offer in offers:
            size = sizes.get(offer.vm.id)
            if size is not None and size.contains(offer.resources) and offer.vm.id not in closed:
                continue
            if now - self._hinted.get(offer.vm.id, -PERIOD) >= PERIOD:
                self._hinted[offer.vm.id] = now
                self.anew()

    def ask(self, seconds: float) -> bool:
        """Ask at once and wait so long for the end of it; whether it came."""
        with self._answered:
            wanted = self._begun + 1
            self._asked.set()
            return self._answered.wait_for(lambda: self._done >= wanted, seconds)

    def _run(self) -> None:
        while not self._stopping:
            self._asked.clear()
            with self._answered:
                self._begun += 1
            self._look()
            with self._answered:
                self._done = self._begun
                self._answered.notify_all()
            self._asked.wait(PERIOD)

    def _look(self) -> None:
        try:
            found = self._read()
        except (OSError, ValueError, RuntimeError) as error:  # the last: no thread that bounds the time
            # Then sizes are learned from offers, and may be overrated until they were empty once.
            if self._complained != (why := str(error)):
                log.warning("the agents of the master are not known", why=why)
                self._complained = why
            return
        self._complained = ""
        if found is None or found == self._told:
            return
        for vm in found.vms:
            if vm.note and (self._told is None or vm not in self._told.vms):
                log.warning("agent", name=vm.name, note=vm.note)
        self._told = found
        self._tell(found)
