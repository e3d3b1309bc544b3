"""Connections to a master that send nothing once their owner may not speak for the framework any more.

A process can be stopped between any two of its steps. When it goes on, another may lead; so before each part
of a call is handed to the kernel it is asked whether it may be. Subscriptions do the same (`session.py`).
"""

from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any

from typing_extensions import override


class FencedError(OSError):
    """Nothing was sent."""


class CallConnection(HTTPConnection):
    """On which calls are made."""

    def __init__(self, address: str, timeout: float, may_call: Callable[[], bool]) -> None:
        """To `host:port`."""
        super().__init__(address, timeout=timeout)
        self._may_call = may_call

    @override
    def send(self, data: Any) -> None:
        """Send the next part of a call; FencedError when it must not be sent."""
        if self.sock is None:
            self.connect()  # which takes its time
        if not self._may_call():
            raise FencedError("this daemon may not lead any more")
        super().send(data)
