"""Ports for servers that tests start."""

import contextlib
import os
import random
import socket
from itertools import cycle

#: Below those that Linux takes for outgoing connections, which could come between a question and its use.
_PORTS = range(2_000, 10_000)
#: Of how many workers of pytest-xdist each has ports of its own.
_WORKERS = 8


def _own_ports() -> "cycle[int]":
    """Those of this worker, from anywhere among them."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    ports = _PORTS[worker::_WORKERS]
    first = random.randrange(len(ports))  # noqa: S311  (spread, not secret)
    return cycle((*ports[first:], *ports[:first]))


_OWN = _own_ports()


def free_port() -> int:
    """A TCP port of 127.0.0.1 on which nobody listens, and which no other test is given for long."""
    return next(port for port in _OWN if _is_free(port))


def _is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.socket() as probe:
        probe.bind(("127.0.0.1", port))
        return True
    return False
