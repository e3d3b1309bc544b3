"""Authenticates callers: by a token (the config's or a user's), a session, or a trusted proxy's header.

`route_roles.py` decides their rights. An address that sent many wrong tokens is blocked for a while. Valid
tokens of users are still accepted from there, since nobody guesses those, and addresses are shared; the
config's token, which a person may have invented, is not.
"""

import hmac
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from conf.schema.users import PERSON, TrustedHeader
from conf.util.backoff import Backoff
from daemon.auth.audit_log import NOBODY
from daemon.auth.sessions import Sessions
from daemon.auth.user_directory import Directory
from daemon.core.identity import EVERYBODY, ROLES, Person
from daemon.core.tokens import token_id
from framework.host.request_guard import Denial

_CHALLENGE = 'Bearer realm="stoker"'
_WRONG = {"WWW-Authenticate": f'{_CHALLENGE}, error="invalid_token"'}
_PERSON = re.compile(PERSON)
#: Owner of the config's token in the audit log.
_OF_CONFIG = "token"
#: Wrong tokens of an address before it waits, and seconds that it waits; without another one for the longest
#: wait, all is forgotten.
_FREE_TRIES, _BACKOFF = 10, Backoff(first=1.0, longest=60.0)
#: Addresses that are remembered.
_MOST_ADDRESSES = 10_000


@dataclass(frozen=True, slots=True)
class Visitor:
    """An authenticated caller: the name for the audit log, and the id of the token used.

    `by_cookie`: a browser sent the cookie by itself, perhaps for another site's page.
    """

    person: Person
    label: str = NOBODY
    token: str = ""
    by_cookie: bool = False


#: The visitor where no token is required.
ANYBODY = Visitor(EVERYBODY)


class Authenticator:
    """Authenticates requests, or reports why it cannot. For one thread, the event loop's."""

    def __init__(
        self,
        token: str | None,
        directory: Directory | None = None,
        header: TrustedHeader | None = None,
        sessions: Sessions | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`token` is the config's, with all rights; without `directory` there are no users."""
        self._token = None if token is None else token.encode()
        self._directory, self._header = directory, header
        self._sessions = Sessions() if sessions is None else sessions
        self._failures = _Failures(now)

    @property
    def failed(self) -> int:
        """Number of wrong tokens since the start."""
        return self._failures.number

    @property
    def wants_somebody(self) -> bool:
        """Whether anonymous callers are rejected."""
        return self._token is not None or self._directory is not None

    def proxied(self, headers: Mapping[str, str], peer: str) -> bool:
        """Whether a trusted proxy names the caller."""
        header = self._header
        return header is not None and bool(headers.get(header.name.lower())) and _trusted(header, peer)

    def who(self, headers: Mapping[str, str], peer: str) -> Visitor | Denial:
        """Authenticate a request with these headers (names in lower case) from that address."""
        if not self.wants_somebody:
            return ANYBODY
        if self._header is not None and self.proxied(headers, peer):
            return self._by_proxy(self._header, headers)
        authorization = headers.get("authorization")
        if authorization is None:
            if (visitor := self._by_session(headers)) is not None:
                return visitor
            detail = "this server requires a token: send the header Authorization: Bearer TOKEN"
            if self._header is not None and self._header.name.lower() in headers:
                detail += f"; {self._header.name} is accepted only from the proxies in users.header"
            return Denial(401, detail, {"WWW-Authenticate": _CHALLENGE})
        scheme, _, given = authorization.partition(" ")
        # Headers are Latin-1; compared as bytes, so that any text can be.
        shown = given.strip().encode("latin-1", "replace") if scheme.lower() == "bearer" else b""
        return self._by_token(shown, peer, "the token is not the one of this server's config")

    def stands(self, visitor: Visitor, headers: Mapping[str, str]) -> bool:
        """Whether a visitor with these headers is still the same: known, and with the same rights.

        A token that has been revoked since does not count as a wrong one.
        """
        if visitor is ANYBODY:
            return not self.wants_somebody
        if visitor.by_cookie:
            return self._by_session(headers) == visitor
        if visitor.token:
            return (
                self._directory is not None and self._directory.by_token_id(visitor.token) == visitor.person
            )
        if visitor.label == _OF_CONFIG and visitor.person is EVERYBODY:
            return self._token is not None
        return self._header is not None and self._by_proxy(self._header, headers) == visitor

    def by_token(self, token: str, peer: str, otherwise: str) -> Visitor | Denial:
        """Authenticate a token sent in another way; `otherwise` is the message for a wrong one."""
        if not self.wants_somebody:
            return ANYBODY
        return self._by_token(token.encode("utf-8", "replace"), peer, otherwise)

    def _by_token(self, shown: bytes, peer: str, otherwise: str) -> Visitor | Denial:
        users = self._directory
        text = shown.decode("latin-1")
        if users is None or token_id(text) is None:
            wait = 0.0 if users is None else self._failures.wait(peer)
            if wait:
                return _later(wait)
            if self._token is not None and hmac.compare_digest(shown, self._token):
                return Visitor(EVERYBODY, _OF_CONFIG)
            found: tuple[Person, str] | str = (
                otherwise if users is None else "this server does not know the token"
            )
        else:
            found = users.by_token(text)
        if not isinstance(found, str):
            return Visitor(found[0], found[0].name, found[1])
        wait = self._failures.note(peer)
        return Denial(401, found, _WRONG) if users is None or not wait else _later(wait)

    def _by_session(self, headers: Mapping[str, str]) -> Visitor | None:
        session = self._sessions.of(headers)
        if session is None:
            return None
        if not session.token:
            return None if self._token is None else Visitor(EVERYBODY, _OF_CONFIG, by_cookie=True)
        person = None if self._directory is None else self._directory.by_token_id(session.token)
        return None if person is None else Visitor(person, person.name, session.token, by_cookie=True)

    def _by_proxy(self, header: TrustedHeader, headers: Mapping[str, str]) -> Visitor | Denial:
        name = headers[header.name.lower()].strip()
        if not _PERSON.fullmatch(name):
            detail = f"{header.name}: should be a user's name, once: letters, digits and . _ @ + -"
            return Denial(403, detail)
        known = None if self._directory is None else self._directory.person(name)
        if known is not None:
            return Visitor(known, name)
        role = header.role
        if header.role_header is not None and (said := headers.get(header.role_header.lower(), "").strip()):
            found = next((one for one in ROLES if one == said), None)
            if found is None:
                return Denial(403, f"{header.role_header}: should be one of {', '.join(ROLES)}")
            role = found
        return Visitor(Person(name, role), name)


class _Failures:
    """Wrong tokens by address, limited in number and time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.number = 0
        #: How many came from an address, and until when it waits.
        self._seen: dict[str, tuple[int, float]] = {}

    def wait(self, peer: str) -> float:
        """Seconds that an address has to wait; 0 when it may call."""
        return max(0.0, self._seen.get(peer, (0, 0.0))[1] - self._now())

    def note(self, peer: str) -> float:
        """Note another wrong token; for how many seconds the address has to wait."""
        self.number += 1
        count, until = self._seen.pop(peer, (0, 0.0))
        if self._now() - until > _BACKOFF.longest and until:
            count = 0
        count += 1
        wait = _BACKOFF.after(count - _FREE_TRIES) if count > _FREE_TRIES else 0.0
        if len(self._seen) >= _MOST_ADDRESSES:
            self._seen.pop(next(iter(self._seen)))
        self._seen[peer] = count, self._now() + wait
        return wait


def _trusted(header: TrustedHeader, peer: str) -> bool:
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address.version == one.version and address in one for one in header.proxies)


def _later(wait: float) -> Denial:
    seconds = max(1, round(wait))
    detail = f"too many invalid tokens from this address: try again in {seconds} s"
    return Denial(429, detail, {"Retry-After": str(seconds)})
