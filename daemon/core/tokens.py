"""Tokens: 256 random bits with a prefix that secret scanners can look for, and an id for their lookup.

Only the SHA-256 of a token is stored. A slow, salted hash is for passwords that people choose: it makes each
guess expensive. Nobody guesses one of 2^256, so a quick hash is safe, and costs a request a microsecond.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

#: `stoker_ID_SECRET`; the id is no secret.
_TOKEN = re.compile(r"stoker_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
_NOBODYS = "0" * 64


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """Stored record of a token: id, SHA-256 (hex), validity; times in seconds since the epoch."""

    id: str
    sha256: str
    made_at: float | None = None
    expires_at: float | None = None

    def good_at(self, now: float) -> bool:
        """Whether it has not expired."""
        return self.expires_at is None or now < self.expires_at


def make_token(now: float, expires_at: float | None = None) -> tuple[str, TokenRecord]:
    """Make a token, which is shown only once, and its record."""
    number = secrets.token_hex(8)
    token = f"stoker_{number}_{secrets.token_urlsafe(32)}"
    return token, TokenRecord(number, _digest(token), now, expires_at)


def token_id(token: str) -> str | None:
    """The id in a text of a token's form; None in any other."""
    found = _TOKEN.fullmatch(token)
    return None if found is None else found[1]


def is_it(token: str, record: TokenRecord | None) -> bool:
    """Whether it is the token of that record; as long for none as for another."""
    kept = _NOBODYS if record is None else record.sha256
    return hmac.compare_digest(_digest(token), kept) and record is not None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
