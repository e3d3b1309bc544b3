"""One connection to a Mesos master: a driver of pymesos from its start to its loss, and the calls to it.

pymesos runs callbacks in its I/O thread, where an exception ends the thread: callbacks only hand things over.
Calls to the master wait in `call_queue.py`, and a thread of the session's own makes them one after another,
as pymesos holds a lock while it waits for an answer: no other thread may call its driver. When a session is
in trouble, its owner closes it and makes another (see `master_link`). `pymesos_driver.py` adds the features
that pymesos lacks.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog
from typing_extensions import override

from environment.model.messages import events as ev
from framework.mesos.call_queue import Calls, QueuedCall
from framework.mesos.pymesos_driver import Scheduler, SchedulerDriver, last_words
from framework.mesos.translate import Json, task_changed_from_json

if TYPE_CHECKING:
    from framework.mesos.master_link import MasterLink

log = structlog.get_logger("mesos")

#: A master that was not heard for so many of its heartbeats is taken for gone.
HEARTBEATS_MISSED = 3
#: Number of heartbeats without a message after which the master's presence is in doubt.
_DOUBTFUL = 1.5
#: Seconds beyond its time-outs after which a call hangs, however slowly an answer drips in.
_GRACE = 1.0
#: A master's answer to a framework id that it has removed: torn down, or away for too long.
_REMOVED = "framework has been removed"
_CAPABILITIES = ("MULTI_ROLE", "PARTITION_AWARE")


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The master's address, and the identity of the framework."""

    master: str
    framework_name: str = "stoker"
    roles: tuple[str, ...] = ("stoker",)
    user: str = ""
    task_user: str | None = None
    principal: str | None = None
    secret: str | None = field(default=None, repr=False)
    failover_timeout: float = 7 * 24 * 3600.0
    secret_variables: bool = False
    webui_url: str | None = None
    #: Whether agents that have gpus may be offered: a master offers them only to frameworks that know of
    #: gpus.
    gpus: bool = True
    #: Seconds that a master has for each step of a call: to accept the connection, to answer.
    call_timeout: float = 10.0
    #: Mesos' own default; the master tells it on subscription, but pymesos does not pass it on.
    heartbeat_seconds: float = 15.0


class Session(Scheduler):  # type: ignore[misc]  # pymesos has no types
    """A driver with its callbacks. Not subscribed at first; unusable once `trouble` has a reason."""

    def __init__(
        self,
        listener: "MasterLink",
        options: SessionOptions,
        master: str,
        framework_id: str | None,
        may_call: Callable[[], bool] = lambda: True,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Connect to the master at `host:port`. `may_call` is asked before each call to it.

        Events reach the `listener` in pymesos' I/O thread: its methods return at once, and do not raise.
        """
        self.master = master
        self.may_call = may_call
        self._now = now
        self._listener = listener
        self.subscribed = False
        #: Sequence number of this subscription, assigned by MasterLink.
        self.number = 0
        self.redirected_to: str | None = None
        #: The subscription ended for another reason than the loss of its connection.
        self.refused = False
        #: The master has removed the framework id, and takes it never again.
        self.removed = False
        self._trouble = ""
        self._started = False
        self._heard_at = time.monotonic()
        self._heartbeat, self._call_timeout = options.heartbeat_seconds, options.call_timeout
        #: Held while something is handed over, so that nothing is after `close`.
        self._handing = threading.Lock()
        self._closed = False
        self._calls = Calls(may_call, self._fail)
        gpus = ("GPU_RESOURCES",) if options.gpus else ()
        framework: Json = {
            "user": options.user,
            "name": options.framework_name,
            "roles": list(options.roles),
            "capabilities": [{"type": name} for name in (*_CAPABILITIES, *gpus)],
            "failover_timeout": options.failover_timeout,
            "checkpoint": True,
        }
        if options.webui_url:
            framework["webui_url"] = options.webui_url
        if options.principal:
            framework["principal"] = options.principal
        if framework_id:
            framework["id"] = {"value": framework_id}
        self._driver = SchedulerDriver(
            self,
            framework,
            master,
            implicit_acknowledgements=False,
            principal=options.principal,
            secret=options.secret,
            failover=True,
            timeout=self._call_timeout,  # a day, otherwise
        )
        self._thread = threading.Thread(target=self._run, name="mesos-calls", daemon=True)

    def _run(self) -> None:
        """All that is asked of the driver."""
        try:
            self._driver.start()
            self._started = True
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}")
        self._calls.run()
        self._stop()

    # ---- requests of the link, which never wait for the master ----------------------------------------

    def start(self) -> None:
        """Subscribe; the listener receives the outcome."""
        self._heard_at = time.monotonic()
        self._thread.start()

    def call(
        self,
        name: str,
        make: Callable[["SchedulerDriver"], object],
        unsent: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Queue a call. `unsent` receives the reason when it is certain that the call was never sent."""
        self._calls.put(QueuedCall(name, lambda: make(self._driver), unsent))

    def trouble(self, now: float) -> str:
        """Reason why this session is unusable; empty while it is usable."""
        if self._trouble:
            return self._trouble
        silent, allowed = now - self._heard_at, HEARTBEATS_MISSED * self._heartbeat
        if silent > (allowed if self.subscribed else min(self._call_timeout, allowed)):
            return f"no message for {silent:.0f} s"
        if (pending := self._calls.pending(now)) > self._call_timeout + _GRACE:
            return f"a call was not answered for {pending:.0f} s"
        if self._started and not self._driver.works():
            self._trouble = last_words() or "its connection ended"
        return self._trouble

    def doubt(self, now: float) -> str:
        """Reason to doubt that the master is there, although the connection stands; empty without one."""
        silent, pending = now - self._heard_at, self._calls.pending(now)
        if silent > _DOUBTFUL * self._heartbeat:
            return f"no message for {silent:.0f} s"
        return f"a call has not been answered for {pending:.0f} s" if pending > self._call_timeout / 2 else ""

    def drain(self, seconds: float) -> None:
        """Wait at most so many seconds until all calls are made."""
        self._calls.drain(seconds)

    def fall_silent(self) -> None:
        """Stop passing on events, even if the master sends more."""
        with self._handing:
            self._closed = True

    def close(self, why: str) -> None:
        """Stop handing over events and making calls; stop the driver without tearing the framework down.

        The session's own thread stops the driver, and `close` does not wait for it. Calls that were never
        made receive `why`.
        """
        self.fall_silent()
        self._calls.close(why)
        if self._calls.pending(time.monotonic()):
            # A connection that does not answer is not waited for.
            with contextlib.suppress(AttributeError, OSError):
                self._driver._conn.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]  # suppressed

    @property
    def over(self) -> bool:
        """Whether nothing of this session is left after `close`."""
        return not (self._thread.is_alive() or self._driver.works())

    # ---- its end -----------------------------------------------------------------------------------

    def at_odds(self, why: str) -> None:
        """The master and we do not agree; to try again at once would be to disagree again."""
        self.refused = True
        self._fail(why)

    def _fail(self, why: str) -> None:
        """Be of no use from now on. Stopped at once, as pymesos would try again without a pause."""
        if self._trouble:
            return
        self._trouble = why
        self._listener.on_trouble()
        self._stop()

    def _stop(self) -> None:
        with contextlib.suppress(Exception):
            self._driver.stop(failover=True)

    def _hand_over(self, handle: Callable[..., None], *what: Any) -> None:
        self._heard_at = time.monotonic()
        with self._handing:
            if not self._closed:
                handle(*what)

    @override
    def registered(self, driver: Any, framework_id: Mapping[str, str], master: Mapping[str, Any]) -> None:
        """Note the subscription."""
        self._hand_over(self._accepted, framework_id["value"])

    def _accepted(self, framework_id: str) -> None:
        if self.subscribed:
            self.at_odds("it sent SUBSCRIBED twice on one connection")
            return
        self.subscribed = True
        self._listener.on_subscribed(self, framework_id)

    @override
    def reregistered(self, driver: Any, master: Mapping[str, Any]) -> None:
        """Note the subscription under an id that we had."""
        self.registered(driver, {"value": driver.framework_id}, master)

    @override
    def resourceOffers(self, driver: Any, offers: list[Json]) -> None:
        """Hand offers over."""
        self._hand_over(self._listener.on_offers, self, offers)

    @override
    def inverseOffers(self, driver: Any, offers: list[Json]) -> None:
        """Hand them over."""
        self._hand_over(self._listener.on_inverse_offers, offers)

    @override
    def offerRescinded(self, driver: Any, offer_id: Mapping[str, str]) -> None:
        """Hand it over."""
        self._hand_over(self._listener.on_rescinded, offer_id["value"])

    @override
    def statusUpdate(self, driver: Any, status: Json) -> None:
        """Hand it over; it is acknowledged when it is stored."""
        self._hand_over(self._listener.on_event, task_changed_from_json(status, self._now()), status)

    @override
    def slaveLost(self, driver: Any, agent_id: Mapping[str, str]) -> None:
        """Hand it over."""
        self._hand_over(self._listener.on_event, ev.VmLost(self._now(), agent_id["value"]))

    @override
    def processHeartBeat(self, driver: Any) -> None:
        """Note that the master is there."""
        self._heard_at = time.monotonic()

    @override
    def error(self, driver: Any, message: str) -> None:
        """End this session: pymesos alone would subscribe again at once, and again."""
        self.removed = _REMOVED in message.lower()
        self.at_odds(f"the master says: {message}")

    @override
    def disconnected(self, driver: Any) -> None:
        """End this session. When the I/O thread died of an exception, that is why: a 401, for example."""
        if why := last_words():
            self._fail(why)
        elif self.subscribed:
            self._fail("the connection was lost")
        else:
            self._fail("it does not accept the connection")
