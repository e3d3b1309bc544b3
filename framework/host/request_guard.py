"""Which requests no server of ours takes: host and origin of a request, whatever server it came to.

The daemon's API and the embedded Mesos listen where every local user, and every page in a browser on this
machine, can knock; both ask a guard first. Who somebody is, is not its business.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

#: A name or an address with or without a port; empty is what HTTP/1.0 sends.
_HOST = re.compile(r"([A-Za-z0-9._~%!$&'()*+;=-]+|\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?\])?(:[0-9]{0,5})?")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a request is not served: an HTTP status, a text for whoever asked, headers of the answer."""

    status: int
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict)


class RequestGuard:
    """Says which requests nobody may make, whoever it is.

    Where no token is wanted, those by another name than this machine's loopback: a page in the user's browser
    can reach loopback under a name of its own (DNS rebinding). And always a page of another site that wants
    something done.
    """

    def __init__(self, hosts: Collection[str] = (), *, any_name: bool = False) -> None:
        """With `any_name`, it does not matter by which name a request comes, as a token has to come along."""
        self._hosts = frozenset(host.lower() for host in (*hosts, "localhost"))
        self._any_name = any_name

    def denial(self, method: str, headers: Mapping[str, str]) -> Denial | None:
        """Why the request is refused; None when it is not.

        Names of headers are in lower case; the values of one that came several times are joined by a comma.
        """
        host = headers.get("host", "")
        if not _HOST.fullmatch(host):
            return Denial(400, f"the header Host should be there once, as HOST:PORT, found {host!r}")
        if "," in headers.get("origin", ""):
            return Denial(400, "the header Origin may be there once")
        if not self._any_name and not self._is_known(host):
            return Denial(421, f"this server is not {host or 'without a name'}; ask for it as localhost")
        origin = headers.get("origin")
        if origin is not None and method not in _SAFE and origin.partition("://")[2].lower() != host.lower():
            return Denial(403, f"pages of {origin} may not ask this server for anything")
        return None

    def _is_known(self, host: str) -> bool:
        name = _name(host)
        return name in self._hosts or is_loopback(name)


@lru_cache(maxsize=64)  # clients ask by few names, again and again
def _name(host: str) -> str:
    """A Host's name in lower case, without the port; empty for what is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether an IP address, alone or with a zone, is this machine's loopback; also when IPv4 stands in IPv6.

    False for a name, `localhost` among them: what a name stands for is not looked up.
    """
    try:
        found = ip_address(host)
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback
