"""Tells systemd, where it started the daemon, that it is ready, and that it stops: sd_notify(3)."""

import os
import socket
from collections.abc import MutableMapping

import structlog

log = structlog.get_logger("daemon")

_SOCKET = "NOTIFY_SOCKET"


class Notifier:
    """Says each thing once; says nothing where nobody listens."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """Take the socket's name out of the environment: jobs have no business with it."""
        name = environment.pop(_SOCKET, "")
        # An abstract socket's name begins with a NUL, which is written @.
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        self._said: set[str] = set()

    def ready(self) -> None:
        """The API answers."""
        self._say("READY=1")

    def stopping(self) -> None:
        """It does not any more."""
        self._say("STOPPING=1")

    def _say(self, state: str) -> None:
        if not self._address or state in self._said:
            return
        self._said.add(state)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as speaker:
                speaker.connect(self._address)
                speaker.send(state.encode())
        except OSError as error:
            log.warning("systemd could not be notified", what=state, why=error.strerror)
