"""The HTTP server around the API: uvicorn, with our own accepting and limits on connections."""

import asyncio
import logging
import signal
import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn

from conf.schema import Http
from daemon.http.server.connections import Acceptor, Connections, Visit, allow_many_files
from daemon.http.server.http_protocol import Connection

#: Seconds that open requests get when the server stops.
_STOP_SECONDS = 3
#: Ticks of uvicorn's clock, ten a second, between two checks for slow connections.
_LOOK = 5


def serve(
    app: Any,
    listener: socket.socket,
    limits: Http,
    tls: Callable[[], ssl.SSLContext | None] = lambda: None,
    look: Callable[[], None] = lambda: None,
    ending: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT.

    `tls` gives the context for the next connection, None for plain HTTP; `look` is called twice a second,
    `ending` before open requests are waited for.
    """
    server = make_server(app, listener, limits, tls, look, ending)
    # For signals before uvicorn has its own handlers, and after: it raises those that ended it once more.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    server.run(sockets=[listener])


def make_server(
    app: Any,
    listener: socket.socket,
    limits: Http,
    tls: Callable[[], ssl.SSLContext | None] = lambda: None,
    look: Callable[[], None] = lambda: None,
    ending: Callable[[], None] = lambda: None,
) -> uvicorn.Server:
    """The server, to be run; one in another thread ends by its `should_exit`."""
    allow_many_files()
    settings = uvicorn.Config(
        app,
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,  # the caller is the connected host
        server_header=False,
        timeout_keep_alive=limits.idle_timeout,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    return _Server(settings, listener, limits, tls, look, ending)


class _Server(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        limits: Http,
        tls: Callable[[], ssl.SSLContext | None],
        look: Callable[[], None],
        ending: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._ending = ending
        self._listener = listener
        self._limits = limits
        self._tls = tls
        self._look = look
        self._connections = Connections(limits)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 (uvicorn's)
        """Accept connections, by our own rules."""
        await self.lifespan.startup()
        protocol = partial(self._connection, self.lifespan.state)
        patience = self._limits.header_timeout
        accepting = Acceptor(self._listener, self._connections, protocol, self._tls, patience)
        self.servers = [accepting]  # type: ignore[list-item]  # closes like an asyncio.Server
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Have answers end that would go on, then wait for the others."""
        self._ending()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Look after the connections now and then."""
        if counter % _LOOK == 0:
            self._connections.check(asyncio.get_running_loop().time())
            self._look()
        return await super().on_tick(counter)

    def _connection(self, state: dict[str, Any], visit: Visit) -> Connection:
        return Connection(self.config, self.server_state, state, self._limits, self._connections, visit)
