"""Requests that every server rejects, by their host and origin.

The daemon's API and the embedded Mesos listen where every local user, and every page in a browser on this
machine, can connect; both ask a guard first. The guard does not identify users.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

#: A name or an address with or without a port; empty in HTTP/1.0.
_HOST = re.compile(r"([A-Za-z0-9._~%!$&'()*+;=-]+|\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?\])?(:[0-9]{0,5})?")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Denial:
    """Reason for rejecting a request: an HTTP status, a text for the client, headers of the answer."""

    status: int
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict)


class RequestGuard:
    """Rejects requests that no client may make.

    Without a token, it rejects those by another name than this machine's loopback: a page in the user's
    browser can reach loopback under a name of its own (DNS rebinding). It always rejects those of a page of
    another site that change something.
    """

    def __init__(self, hosts: Collection[str] = (), *, any_name: bool = False) -> None:
        """With `any_name`, a request may use any host name, as it must carry a token."""
        self._hosts = frozenset(host.lower() for host in (*hosts, "localhost"))
        self._any_name = any_name

    def denial(self, method: str, headers: Mapping[str, str]) -> Denial | None:
        """Reason to refuse the request; None when it is not refused.

        Names of headers are in lower case; the values of one that came several times are joined by a comma.
        """
        host = headers.get("host", "")
        if not _HOST.fullmatch(host):
            return Denial(400, f"the header Host should appear once, as HOST:PORT, found {host!r}")
        if "," in headers.get("origin", ""):
            return Denial(400, "the header Origin may appear only once")
        if not self._any_name and not self._is_known(host):
            return Denial(421, f"this server is not {host or 'without a name'}; address it as localhost")
        origin = headers.get("origin")
        if origin is not None and method not in _SAFE and origin.partition("://")[2].lower() != host.lower():
            return Denial(403, f"pages of {origin} may not send requests to this server")
        return None

    def _is_known(self, host: str) -> bool:
        name = _name(host)
        return name in self._hosts or is_loopback(name)


@lru_cache(maxsize=64)  # clients ask by few names, again and again
def _name(host: str) -> str:
    """A Host's name in lower case, without the port; empty for an invalid one."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether an IP address, alone or with a zone, is this machine's loopback; also for IPv4 inside IPv6.

    False for a name, `localhost` among them: names are not resolved.
    """
    try:
        found = ip_address(host)
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback
