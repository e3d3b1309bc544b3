"""Browser sessions: after one login by token, a cookie identifies the user for some hours.

Only the SHA-256 of the cookie's value is stored, and in memory: a restart of the daemon ends all sessions.
The person's rights are looked up with each request, so that a revoked token ends its sessions too.
"""

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from framework.host.request_guard import Denial

COOKIE = "stoker-session"
#: Seconds for which a session lasts.
LASTS = 12 * 3600.0
#: Sessions at one time; the oldest goes for another.
_MOST = 1000
#: Sessions of one token.
_MOST_OF_ONE = 20
#: The possible values of a session's cookie.
_VALUE = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class UserSession:
    """A session's user, by the id of the user's token (empty: the config's own), and its end."""

    token: str
    until: float


class Sessions:
    """The sessions there are. For one thread, the event loop's."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._known: dict[str, UserSession] = {}

    def begin(self, token: str) -> str:
        """Begin a session for the owner of the token with that id; return the cookie's value."""
        now = self._now()
        self._known = {key: one for key, one in self._known.items() if one.until > now}
        own = [key for key, one in self._known.items() if one.token == token]
        if len(own) >= _MOST_OF_ONE or len(self._known) >= _MOST:
            del self._known[own[0] if own else next(iter(self._known))]
        secret = secrets.token_urlsafe(32)
        self._known[_digest(secret)] = UserSession(token, now + LASTS)
        return secret

    def of(self, headers: Mapping[str, str]) -> UserSession | None:
        """Session of a request's cookie; None without one, or when it is over."""
        found = self._known.get(_digest(_said(headers)))
        return None if found is None or found.until <= self._now() else found

    def end(self, headers: Mapping[str, str]) -> None:
        """End the session of a request's cookie."""
        self._known.pop(_digest(_said(headers)), None)


def forged(method: str, headers: Mapping[str, str]) -> Denial | None:
    """Reason why a request with a cookie is not trusted to come from our own page; None when it is.

    A browser sends cookies with requests that other sites make it send: to the same host under another port,
    however strict the cookie is.
    """
    site = headers.get("sec-fetch-site", "")
    if site not in ("", "none", "same-origin"):
        return Denial(403, f"a page of another site sent this request in your name (Sec-Fetch-Site: {site})")
    if method not in _SAFE and site != "same-origin" and "origin" not in headers:  # the guard looked at that
        return Denial(403, "with a cookie, a request that changes something needs the header Origin")
    return None


def without_other_cookies(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Headers of a request, without cookies except a session's.

    Python's own parser takes seconds for a value with many backslashes, and blocks everybody (CVE-2024-7592):
    nothing behind the gate gets one.
    """
    kept = []
    for name, value in headers:
        if name.lower() == b"cookie":
            said = _said({"cookie": value.decode("latin-1")})
            if said:
                kept.append((name, f"{COOKIE}={said}".encode()))
        else:
            kept.append((name, value))
    return kept


def _said(headers: Mapping[str, str]) -> str:
    """Value of the session's cookie; empty where none can be ours."""
    for cookie in headers.get("cookie", "").split(";"):
        name, _, value = cookie.strip().partition("=")
        if name == COOKIE and _VALUE.fullmatch(value):
            return value
    return ""


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
