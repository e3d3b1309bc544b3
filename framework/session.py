"""One connection to a Mesos master: a pymesos driver from its start to its loss.

pymesos runs callbacks in its I/O thread, where an exception ends the thread: callbacks only hand things over.
When a session is in trouble, whoever holds it closes it and makes another (see `link`).
"""

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Protocol

from typing_extensions import override

from environment import events as ev
from framework import http_parser
from framework.translate import Json, task_changed_from_json

http_parser.install()
# Importing pymesos puts a SIGINT handler of its own in place and writes to stderr; both are ours to decide.
_sigint = signal.getsignal(signal.SIGINT)
import pymesos  # noqa: E402 - needs the parser that was just installed
import pymesos.process  # noqa: E402 - likewise

if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, _sigint)
# Its I/O thread would interrupt the main thread when it ends; a session notices the end by itself.
pymesos.process.thread = SimpleNamespace(interrupt_main=lambda: None)
for _handler in list(pymesos.logger.handlers):
    pymesos.logger.removeHandler(_handler)
pymesos.logger.setLevel(logging.CRITICAL)

#: A master that was not heard for so many of its heartbeats is taken for gone.
HEARTBEATS_MISSED = 3
#: What a master says to a framework id that it has removed: torn down, or away for too long.
_REMOVED = "framework has been removed"
_CAPABILITIES = ("MULTI_ROLE", "PARTITION_AWARE")


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Which master, and as whom."""

    master: str
    framework_name: str = "stoker"
    roles: tuple[str, ...] = ("stoker",)
    user: str = ""
    task_user: str | None = None
    principal: str | None = None
    secret: str | None = field(default=None, repr=False)
    failover_timeout: float = 7 * 24 * 3600.0
    task_image: str | None = None
    secret_variables: bool = False
    webui_url: str | None = None
    #: Whether agents that have gpus may be offered: a master keeps them from who does not know of gpus.
    gpus: bool = True
    #: Mesos' own default; the master tells it on subscription, but pymesos does not pass it on.
    heartbeat_seconds: float = 15.0


class Listener(Protocol):
    """Who hears what a session hears. Called in pymesos' I/O thread: must return at once and not raise."""

    def on_subscribed(self, framework_id: str, master: str) -> None:
        """The master has accepted us."""

    def on_offers(self, driver: Any, offers: list[Json]) -> None:
        """The master offers resources."""

    def on_rescinded(self, offer_id: str) -> None:
        """The master takes an offer back."""

    def on_event(self, event: ev.Event, status: Json | None = None) -> None:
        """Anything else; `status` is a status update to be acknowledged."""


class Driver(pymesos.MesosSchedulerDriver):  # type: ignore[misc]  # pymesos has no types
    """pymesos' driver, with what it lacks."""

    @override
    def change_master(self, new_master: str | None) -> None:
        """Note where a master that does not lead sends us."""
        if self._master is not None and new_master and new_master != self._master:
            self.sched.redirected_to = new_master
        super().change_master(new_master)

    @property
    @override
    def framework(self) -> Json:
        """Who subscribes; pymesos would leave GPU_RESOURCES out, as it does not know the version."""
        return dict(self._framework)

    @override
    def _get_version(self, master: str | None) -> None:
        # pymesos asks for it to tell inverse offers and GPUs of old masters apart, and fails on 1.12.0-dev.
        return None

    @override
    def on_event(self, event: Json) -> None:
        """Hand an event over. What goes wrong with it ends the session, which then knows why.

        pymesos would take an OSError of ours (a full disk) for one of its socket's, and subscribe again.
        """
        try:
            super().on_event(event)
        except Exception as error:
            self.sched.at_odds(f"an event could not be handled: {type(error).__name__}: {error}")

    def works(self) -> bool:
        """Whether the I/O thread lives. One that dies before it has a connection tells nobody."""
        return self._io_thread is not None and self._io_thread.is_alive()

    def reconcile(self, tasks: tuple[tuple[str, str], ...]) -> None:
        """Ask for the tasks' states, naming their agents: without them a lost agent's tasks stay unknown."""
        asked = [{"task_id": {"value": t}, **({"agent_id": {"value": a}} if a else {})} for t, a in tasks]
        if self.connected:
            call = {"type": "RECONCILE", "framework_id": {"value": self.framework_id}}
            self._send({**call, "reconcile": {"tasks": asked}})


class Session(pymesos.Scheduler):  # type: ignore[misc]  # pymesos has no types
    """A driver with its callbacks. Not subscribed at first; of no use once `trouble` says why."""

    def __init__(
        self, listener: Listener, options: SessionOptions, master: str, framework_id: str | None
    ) -> None:
        self._listener = listener
        self.subscribed = False
        self.redirected_to: str | None = None
        #: The subscription ended for another reason than the loss of its connection.
        self.refused = False
        #: The master has removed the framework id, and takes it never again.
        self.removed = False
        self._trouble = ""
        self._closed = False
        self._started = False
        self._heard_at = time.monotonic()
        self._silence_allowed = HEARTBEATS_MISSED * options.heartbeat_seconds
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
        self.driver = Driver(
            self,
            framework,
            master,
            implicit_acknowledgements=False,
            principal=options.principal,
            secret=options.secret,
            failover=True,
        )
        threading.Thread(target=self._start, name="mesos-connect", daemon=True).start()

    def _start(self) -> None:
        # With a master that does not answer, this takes as long as its time-outs.
        try:
            self.driver.start()
            self._started = True
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}")

    def trouble(self, now: float) -> str:
        """Why this session is of no use any more; empty while it is."""
        if self._trouble:
            return self._trouble
        if now - self._heard_at > self._silence_allowed:
            return f"nothing heard for {now - self._heard_at:.0f} s"
        if self._started and not self.driver.works():
            self._fail(_last_words() or "its connection ended")
        return self._trouble

    def close(self) -> None:
        """Stop the driver without tearing the framework down."""
        self._closed = True
        self._stop()

    def at_odds(self, why: str) -> None:
        """The master and we do not agree; to try again at once would be to disagree again."""
        self.refused = True
        self._fail(why)

    def _fail(self, why: str) -> None:
        """Be of no use from now on. Stopped at once, as pymesos would try again without a pause."""
        if self._trouble:
            return
        self._trouble = why
        self._stop()

    def _stop(self) -> None:
        with contextlib.suppress(Exception):
            self.driver.stop(failover=True)

    def _heard(self) -> None:
        self._heard_at = time.monotonic()

    @override
    def registered(self, driver: Any, framework_id: Mapping[str, str], master: Mapping[str, Any]) -> None:
        """Note the subscription."""
        if self._closed:
            return
        self._heard()
        self.subscribed = True
        self._listener.on_subscribed(framework_id["value"], f"{master['hostname']}:{master['port']}")

    @override
    def reregistered(self, driver: Any, master: Mapping[str, Any]) -> None:
        """Note the subscription under an id that we had."""
        self.registered(driver, {"value": driver.framework_id}, master)

    @override
    def resourceOffers(self, driver: Any, offers: list[Json]) -> None:
        """Hand offers over."""
        self._heard()
        if not self._closed:
            self._listener.on_offers(driver, offers)

    @override
    def offerRescinded(self, driver: Any, offer_id: Mapping[str, str]) -> None:
        """Hand it over."""
        self._heard()
        if not self._closed:
            self._listener.on_rescinded(offer_id["value"])

    @override
    def statusUpdate(self, driver: Any, status: Json) -> None:
        """Hand it over; it is acknowledged when it is stored."""
        self._heard()
        if not self._closed:
            self._listener.on_event(task_changed_from_json(status, time.time()), status)

    @override
    def slaveLost(self, driver: Any, agent_id: Mapping[str, str]) -> None:
        """Hand it over."""
        self._heard()
        if not self._closed:
            self._listener.on_event(ev.VmLost(time.time(), agent_id["value"]))

    @override
    def processHeartBeat(self, driver: Any) -> None:
        """Note that the master is there."""
        self._heard()

    @override
    def error(self, driver: Any, message: str) -> None:
        """End this session: pymesos alone would subscribe again at once, and again."""
        self.removed = _REMOVED in message.lower()
        self.at_odds(f"the master says: {message}")

    @override
    def disconnected(self, driver: Any) -> None:
        """End this session. When the I/O thread died of an exception, that is why: a 401, for example."""
        if why := _last_words():
            self._fail(why)
        elif self.subscribed:
            self._fail("the connection was lost")
        else:
            self._fail("it does not accept the connection")


def _last_words() -> str:
    """What ended pymesos' I/O thread, told once; empty when nothing did."""
    error, pymesos.process._exc_info = pymesos.process._exc_info, None
    return "" if error is None else f"{error[1] or type(error[1]).__name__}"
