"""What `stoker up` puts together, where it is not plain from the outside."""

import socket

from conf.schema import Config
from daemon.server import _listen


def test_answers_are_not_held_back() -> None:
    """Asyncio turns Nagle's algorithm off where the protocol is named; else answers wait 40 ms."""
    with _listen(Config(listen="127.0.0.1:0")) as listener:
        assert listener.proto == socket.IPPROTO_TCP
