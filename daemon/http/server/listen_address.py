"""The address of the daemon's API, its URL, and the token that clients need there.

`connections.py` accepts connections; `gate.py` admits requests.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from conf.loader import ConfigError, token_in
from conf.schema import Config
from framework.host.request_guard import is_loopback

log = structlog.get_logger("daemon")


@contextmanager
def listen(config: Config) -> Iterator[socket.socket]:
    """The socket that the config says, while it is open; ConfigError when it cannot be had."""
    host, port = config.address
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        family, kind, protocol, _, address = found[0]
        # asyncio turns Nagle's algorithm off, which costs 40 ms an answer, only where the protocol is named.
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"listen: {config.listen}: {error.strerror or error}") from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(512)
        except OSError as error:
            raise ConfigError(
                f"listen: {config.listen}: {error.strerror}; "
                "another stoker may be running there, or choose another port with --set listen=HOST:PORT"
            ) from error
        yield listener


def url_of(config: Config, listener: socket.socket) -> str:
    """Where clients reach this daemon."""
    if config.leader.url:
        return config.leader.url
    host, port = config.address[0], listener.getsockname()[1]
    if host in ("0.0.0.0", "::"):  # noqa: S104  # asked for, not listened on
        host = socket.gethostname()
    scheme = "http" if config.tls is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def token_of(config: Config) -> str | None:
    """Token that clients must send; ConfigError when it is unusable, or required but missing."""
    if config.token_file:
        return token_in(config.token_file, "token_file")
    host, _ = config.address
    if config.users is None and host != "localhost" and not is_loopback(host):
        raise ConfigError(
            f"listen: {config.listen}: every caller that may submit may run code here, so an address other "
            "than loopback needs users, or token_file, a file with the token that clients must send"
        )
    return None


def say_who_may_ask(config: Config, token: str | None) -> None:
    """Log how the API is protected, and where it is not."""
    if config.users is not None:
        log.info("clients need a token of a user; every user that may submit may run code here")
    elif token is None:
        log.warning("no token_file: every user of this machine may submit jobs, and so run code as you")
    else:
        log.info("clients need the token of token_file; every client that has it may run code here")
    host, _ = config.address
    if config.tls is None and host != "localhost" and not is_loopback(host):
        log.warning("without tls the token and all requests can be read on the network", listen=host)
