"""Sees that the embedded Mesos runs as long as the daemon leads: one that ended or hangs is started again.

It does so in a thread of its own; the scheduling loop only asks whether one ended, and with it its tasks.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from conf.loader import ConfigError
from conf.util.backoff import Backoff
from daemon.substrate.embedded_mesos import HUNG_GRACE, EmbeddedError, EmbeddedMesos
from environment.number_format import times

log = structlog.get_logger("daemon")

#: Seconds between two looks at it.
_LOOK = 0.2
#: Seconds before it is started once more when it ended soon, or did not start.
BACKOFF = Backoff(first=0.5, longest=30.0)
#: Chosen: one that ran for so many seconds did not end of its start.
_STEADY = 60.0
#: Seconds between two questions whether it is well, and how many without an answer, one after another, are
#: enough to end it: 30 s. Questions are counted and not seconds, since this daemon may have been stopped too.
PERIOD, MOST_UNANSWERED = 3.0, 10


class EmbeddedWatch:
    """Watches over an embedded Mesos; `start` gets the one that ended, and starts another in its place."""

    def __init__(self, embedded: EmbeddedMesos, start: Callable[[EmbeddedMesos], EmbeddedMesos]) -> None:
        self.embedded = embedded
        self._start = start
        #: How often it was started again.
        self._restarts = 0
        self._down: str | None = None
        #: How often its keeper stood still, and was let go on.
        self._stopped = 0
        #: How many questions in a row it has not answered.
        self._unanswered = 0
        self._next_question = 0.0
        self._ended = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="embedded-mesos")
        self._thread.start()

    def stop(self) -> EmbeddedMesos:
        """Watch no more, and return the one that runs now; waits for a start that is under way."""
        self._stopping.set()
        self._thread.join()
        return self.embedded

    def took_its_tasks(self) -> bool:
        """Whether one has ended, and so all tasks that it ran, since this was last asked."""
        ended = self._ended.is_set()
        self._ended.clear()
        return ended

    @property
    def agents(self) -> Path:
        """Folder with the work folders of its agents, by name."""
        return self.embedded.agents

    @property
    def state(self) -> str:
        """State in words for /readyz."""
        if (why := self._down) is not None:
            return f"it has ended, and is started again{f': {why}' if why else ''}"
        if self._unanswered:
            after = PERIOD * MOST_UNANSWERED
            return (
                f"it has not answered for {PERIOD * self._unanswered:g} s; "
                f"after {after:g} s it is ended, its tasks with it, and started again"
            )
        again = f", started again {times(self._restarts)}" if self._restarts else ""
        stopped = f", its supervisor was stopped {times(self._stopped)} (SIGSTOP)" if self._stopped else ""
        return f"ok{again}{stopped}"

    def _watch(self) -> None:
        pause, since = BACKOFF.first, time.monotonic()
        while not self._stopping.wait(_LOOK):
            try:
                if self.embedded.alive() and not self._hangs():
                    continue
            except (OSError, RuntimeError) as error:  # such as too many open files: another look will tell
                log.warning("the embedded mesos cannot be looked at", why=str(error))
                continue
            if time.monotonic() - since > _STEADY:
                pause = BACKOFF.first
            self._down, self._unanswered = "", 0
            self._ended.set()
            log.error("the embedded mesos has ended, its tasks with it", pid=self.embedded.pid, pause=pause)
            while not self._stopping.wait(pause):
                pause = BACKOFF.following(pause)
                if self._started_again(pause):
                    break
            since = time.monotonic()

    def _hangs(self) -> bool:
        """Ask it now and then whether it is well; one that never answers is ended."""
        now = time.monotonic()
        if now < self._next_question:
            return False
        self._next_question = now + PERIOD
        if self.embedded.stopped():
            self._stopped += 1
            log.warning("the embedded mesos' supervisor was stopped, and is continued", pid=self.embedded.pid)
            self.embedded.let_go_on()
        if self.embedded.answers():
            self._unanswered = 0
            return False
        self._unanswered += 1
        if self._unanswered < MOST_UNANSWERED:
            log.warning("the embedded mesos does not answer", pid=self.embedded.pid, times=self._unanswered)
            return False
        log.error("the embedded mesos hangs, and is ended", pid=self.embedded.pid)
        self.embedded.stop(HUNG_GRACE, again=True)
        return True

    def _started_again(self, pause: float) -> bool:
        try:
            # Where the daemon's connection expects it; the secret is kept, too.
            self.embedded = self._start(self.embedded)
        except (EmbeddedError, ConfigError, OSError) as error:
            self._down = str(error)
            log.error("the embedded mesos cannot be started again yet", why=self._down, pause=pause)
            return False
        self._restarts += 1
        self._down = None
        log.warning("the embedded mesos was started again", pid=self.embedded.pid, times=self._restarts)
        return True
