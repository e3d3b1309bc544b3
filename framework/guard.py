"""Who may ask a server of ours: token, host and origin of a request, whatever server it came to.

The daemon's API and the embedded Mesos listen where every local user, and every page in a browser on this
machine, can knock; both ask a guard first.
"""

import hmac
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


class Guard:
    """Says who may not ask.

    With a token, whoever does not send it. Without one, whoever comes by another name than this machine's
    loopback: a page in the user's browser can reach loopback under a name of its own (DNS rebinding).
    And always a page of another site that wants something done.
    """

    def __init__(
        self,
        token: str | None,
        hosts: Collection[str] = (),
        open_paths: Collection[str] = (),
        open_below: str | None = None,
    ) -> None:
        """Open to whoever comes are `open_paths`, and what has a path that begins with `open_below`."""
        self._token = None if token is None else token.encode()
        self._hosts = frozenset(host.lower() for host in (*hosts, "localhost"))
        self._open = frozenset(open_paths)
        self._open_below = open_below

    @property
    def has_token(self) -> bool:
        """Whether only those are let in who have a token."""
        return self._token is not None

    def denial(
        self, method: str, path: str, headers: Mapping[str, str], *, keyless: bool = False
    ) -> Denial | None:
        """Why the request is refused; None when it is not.

        Names of headers are in lower case; the values of one that came several times are joined by a comma.
        Of a `keyless` request no token is wanted: it brings one elsewhere, or asks by what nobody can guess.
        """
        if path in self._open or (self._open_below is not None and path.startswith(self._open_below)):
            return None
        host = headers.get("host", "")
        if not _HOST.fullmatch(host):
            return Denial(400, f"the header Host should be there once, as HOST:PORT, found {host!r}")
        if "," in headers.get("origin", ""):
            return Denial(400, "the header Origin may be there once")
        if self._token is None and not self._is_known(host):
            return Denial(421, f"this server is not {host or 'without a name'}; ask for it as localhost")
        origin = headers.get("origin")
        if origin is not None and method not in _SAFE and origin.partition("://")[2].lower() != host.lower():
            return Denial(403, f"pages of {origin} may not ask this server for anything")
        return None if self._token is None or keyless else self._token_denial(headers.get("authorization"))

    def knows(self, token: str | None) -> bool:
        """Whether that is the token, or none is wanted."""
        return self._token is None or hmac.compare_digest(
            (token or "").encode("utf-8", "replace"), self._token
        )

    def _is_known(self, host: str) -> bool:
        name = _name(host)
        return name in self._hosts or is_loopback(name)

    def _token_denial(self, authorization: str | None) -> Denial | None:
        if authorization is None:
            detail = "this server wants a token: send the header Authorization: Bearer TOKEN"
            return Denial(401, detail, {"WWW-Authenticate": 'Bearer realm="stoker"'})
        scheme, _, given = authorization.partition(" ")
        # Headers are Latin-1; compared as bytes, so that any text can be.
        right = hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._token or b"")
        if scheme.lower() == "bearer" and right:
            return None
        challenge = {"WWW-Authenticate": 'Bearer realm="stoker", error="invalid_token"'}
        return Denial(401, "the token is not the one that this server was given", challenge)


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
