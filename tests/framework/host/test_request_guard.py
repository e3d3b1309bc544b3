"""A guard's knowledge of addresses."""

import pytest

from framework.host.request_guard import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "::1%lo", "::ffff:127.0.0.1"])
def test_loopback_is_known_in_every_form(host: str) -> None:
    """With a zone, and as IPv6 sockets show a peer that came by IPv4."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["localhost", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "", "127.0.0.1.example"]
)
def test_nothing_else_is_loopback(host: str) -> None:
    """A name least of all: any host may answer for it, with any content."""
    assert not is_loopback(host)
