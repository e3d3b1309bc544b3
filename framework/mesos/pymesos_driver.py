"""pymesos as Stoker needs it: a driver that sends nothing once its owner may not speak for the framework.

A process can be stopped between any two of its steps. When it goes on, another may lead; so a driver asks for
permission before it hands each part of a call to the kernel, and before it subscribes. `session.py` calls the
driver and handles its events.
"""

import json
import logging
import signal
import threading
from collections.abc import Callable
from http.client import HTTPConnection
from types import SimpleNamespace
from typing import Any

from typing_extensions import override

from conf.util.foreign_json import foreign_json
from framework import http_parser
from framework.mesos.call_queue import FencedError
from framework.mesos.translate import Json

http_parser.install()
# Importing pymesos puts a SIGINT handler of its own in place and writes to stderr; both are ours to decide.
_sigint = signal.getsignal(signal.SIGINT)
import pymesos  # noqa: E402 - needs the parser that was just installed
import pymesos.process  # noqa: E402 - likewise

if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, _sigint)
# Events are put into the store and into answers, which cannot hold all that Python's own parser accepts.
pymesos.process.json = SimpleNamespace(loads=foreign_json, dumps=json.dumps)
# Its I/O thread would interrupt the main thread when it ends; a session notices the end by itself.
pymesos.process.thread = SimpleNamespace(interrupt_main=lambda: None)
for _handler in list(pymesos.logger.handlers):
    pymesos.logger.removeHandler(_handler)
pymesos.logger.setLevel(logging.CRITICAL)

#: The class of pymesos' callbacks; imported from here, so that no module imports pymesos unpatched.
Scheduler = pymesos.Scheduler


class CallConnection(HTTPConnection):
    """Connection for calls."""

    def __init__(self, address: str, timeout: float, may_call: Callable[[], bool]) -> None:
        """Connect to `host:port`."""
        super().__init__(address, timeout=timeout)
        self._may_call = may_call

    @override
    def send(self, data: Any) -> None:
        """Send the next part of a call; FencedError when it must not be sent."""
        if self.sock is None:
            self.connect()  # which takes its time
        if not self._may_call():
            raise FencedError("this daemon may no longer be the leader")
        super().send(data)


class EventConnection(pymesos.process.Connection):  # type: ignore[misc]  # pymesos has no types
    """pymesos' connection for events, which subscribes a driver of ours only if it may."""

    @override
    def write(self) -> bool:
        """Send some of the subscription; False ends the connection."""
        driver = self._callback
        if isinstance(driver, SchedulerDriver) and not driver.sched.may_call():
            return False
        return bool(super().write())


pymesos.process.Connection = EventConnection


class SchedulerDriver(pymesos.MesosSchedulerDriver):  # type: ignore[misc]  # pymesos has no types
    """pymesos' driver, with the features that it lacks."""

    _conn: CallConnection | None
    _used: CallConnection | None = None  # for the last call

    @override
    def change_master(self, new_master: str | None) -> None:
        """Note where a master that does not lead sends us."""
        if self._master is not None and new_master and new_master != self._master:
            self.sched.redirected_to = new_master
        elif self._master is not None and new_master:
            self.sched.at_odds("it redirects to itself (HTTP 307)")
        super().change_master(new_master)

    @property
    @override
    def framework(self) -> Json:
        """The subscribing framework; pymesos would omit GPU_RESOURCES, as it does not know the version."""
        return dict(self._framework)

    @override
    def _get_version(self, master: str | None) -> None:
        # pymesos asks for it to tell inverse offers and GPUs of old masters apart, and fails on 1.12.0-dev.
        return None

    @override
    def on_event(self, event: Json) -> None:
        """Hand an event over. An error in that ends the session, which then knows the cause.

        pymesos would mistake an OSError of ours (a full disk) for one of its socket, and subscribe again.
        """
        try:
            super().on_event(event)
        except Exception as error:
            self.sched.at_odds(f"an event could not be handled: {type(error).__name__}: {error}")

    @override
    def _get_conn(self) -> CallConnection | None:
        if self.connected and self._conn is None:
            self._conn = CallConnection(self.master, self._timeout, self.sched.may_call)
        self._used = self._conn if self.connected else None
        return self._used

    @override
    def _close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()

    @override
    def _send(self, *call: Any, **more: Any) -> Any:
        """Make a call. Closed by the thread of events meanwhile, a connection opens again, unknown to all."""
        try:
            return super()._send(*call, **more)
        finally:
            if self._used is not None and self._used is not self._conn:
                self._used.close()

    def works(self) -> bool:
        """Whether the I/O thread lives. One that dies before it has a connection reports nothing."""
        return self._io_thread is not None and self._io_thread.is_alive()

    def reconcile(self, tasks: tuple[tuple[str, str], ...]) -> None:
        """Ask for the tasks' states, naming their agents: without them a lost agent's tasks stay unknown."""
        asked = [{"task_id": {"value": t}, **({"agent_id": {"value": a}} if a else {})} for t, a in tasks]
        if self.connected:
            call = {"type": "RECONCILE", "framework_id": {"value": self.framework_id}}
            self._send({**call, "reconcile": {"tasks": asked}})


#: Errors of pymesos that do not tell what the master did wrong.
_ENDINGS = {
    "'LOCATION'": "it redirects without a Location (HTTP 307)",
    "Invalid IPv6 URL": "it redirects to a Location that is no URL (HTTP 307)",
    "Response is not chunked": "its answer is not chunked, so it is no Mesos master",
}


def last_words() -> str:
    """The error that ended pymesos' I/O thread, returned once; empty when there was none."""
    error, pymesos.process._exc_info = pymesos.process._exc_info, None
    said = "" if error is None else f"{error[1] or type(error[1]).__name__}"
    return _ENDINGS.get(said, said)
