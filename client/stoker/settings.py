"""The daemon's address and credentials: as given, else from the environment."""

from __future__ import annotations

import os
import ssl
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stoker.bounded_read import read_token
from stoker.errors import StokerError

DEFAULT_URL = "http://127.0.0.1:8642"
URL, TOKEN_FILE, CA = "STOKER_URL", "STOKER_TOKEN_FILE", "STOKER_CA"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LONGEST_TOKEN = 4096


@dataclass(frozen=True)
class Settings:
    """A daemon's URL, the token for it, and a file with the authority of its certificate (PEM)."""

    url: str
    token: str | None = field(default=None, repr=False)
    ca: str | None = None
    timeout: float = 30.0

    def options(self) -> dict[str, Any]:
        """Options of an httpx client; StokerError when the certificates cannot be read."""
        parts = urlsplit(self.url)
        outside, encrypted = parts.hostname not in _LOOPBACK, parts.scheme == "https"
        if self.token and outside and not encrypted:
            warnings.warn(
                f"{self.url} is not https: the token can be read on the network", UserWarning, stacklevel=4
            )
        # To read whose certificates are trusted takes longer than many requests: only where there are some.
        verify: Any = True if encrypted or outside else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.ca is not None:
            verify = _trusted(self.ca)
        return {
            "base_url": self.url,
            "headers": {"Authorization": f"Bearer {self.token}"} if self.token else {},
            "timeout": self.timeout,
            "trust_env": outside,  # a proxy from the environment cannot reach this machine's loopback
            "verify": verify,
            "follow_redirects": False,
        }


def settings(
    url: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    ca: str | os.PathLike[str] | None = None,
    *,
    token: str | None = None,
    timeout: float = 30.0,
) -> Settings:
    """Arguments, else the values of STOKER_URL, STOKER_TOKEN_FILE and STOKER_CA.

    StokerError when the URL is invalid, or the file with the token cannot be read, or others may read it.
    """
    place = _checked((url or "").strip() or os.environ.get(URL, "").strip() or DEFAULT_URL)
    file = token_file or os.environ.get(TOKEN_FILE, "").strip()
    if token is None and file:
        token = _token(Path(file))
    ca = ca or os.environ.get(CA, "").strip() or None
    return Settings(place, token, None if ca is None else os.fspath(ca), timeout)


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise StokerError(f"the daemon's URL should be like {DEFAULT_URL}, found {url!r}")
    return url.rstrip("/")


def _token(path: Path) -> str:
    try:
        token = read_token(path)
    except ValueError as error:
        raise StokerError(f"token file {error}") from None
    if len(token) > _LONGEST_TOKEN or not token.isascii() or not token.isprintable():
        raise StokerError(f"token file {path}: should hold one line with the token")
    return token


def _trusted(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(Path(ca).expanduser()))
    except (OSError, RuntimeError) as error:
        why = (
            "no certificates in PEM" if isinstance(error, ssl.SSLError) else getattr(error, "strerror", error)
        )
        raise StokerError(f"{ca}: the certificates cannot be read: {why}") from None
