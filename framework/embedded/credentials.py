"""Principals that may speak to a master, with their secrets, from files that no other user can read.

Stoker's own secret is created once and stored, so that every process that starts, restarts or takes over
finds the same one.
"""

import contextlib
import json
import os
import secrets
import stat
from pathlib import Path
from typing import Any

from stoker.bounded_read import read_secret

from conf.util.whole_file import write_whole

#: The principal of the secret that is made here.
PRINCIPAL = "stoker"
_LONGEST = 1 << 20  # bytes; a file of credentials beyond that is none


class CredentialsError(OSError):
    """Credentials that cannot be read; the text names the file and the fault."""


def own_secret(path: Path) -> str:
    """The secret in a file of ours, made now unless a good one is there.

    One that others could have read or written is replaced. Raises CredentialsError when the file cannot be
    written.
    """
    with contextlib.suppress(OSError, ValueError):
        return _kept(path)
    secret = secrets.token_urlsafe(32)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, secret + "\n")
    except OSError as error:
        raise CredentialsError(f"{path}: no secret can be stored there: {error.strerror}") from None
    return secret


def _kept(path: Path) -> str:
    """The secret that is there already; OSError or ValueError when there is none that only we know."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, encoding="ascii") as file:
        found = os.fstat(descriptor)
        private = found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        if not stat.S_ISREG(found.st_mode) or not private:
            raise ValueError(path)
        secret = file.read(_LONGEST).strip()
    if len(secret) < 16 or not secret.isprintable() or ":" in secret:
        raise ValueError(path)
    return secret


def read_credentials(path: Path) -> dict[str, str]:
    """Principals and secrets of a file as `mesos-master --credentials` takes it.

    That is JSON, `{"credentials": [{"principal": ..., "secret": ...}]}`, or a line `PRINCIPAL SECRET` for
    each. Raises CredentialsError.
    """
    try:
        text = read_secret(path)
    except ValueError as error:
        raise CredentialsError(str(error)) from None
    pairs = _of_json(path, text) if text.startswith("{") else _of_lines(path, text)
    if not pairs:
        raise CredentialsError(f"{path}: names no principal; write a line: PRINCIPAL SECRET")
    for principal, secret in pairs.items():
        if not principal or not secret or ":" in principal + secret:
            raise CredentialsError(f"{path}: {principal!r}: should have a secret; both without `:`")
    return pairs


def _of_json(path: Path, text: str) -> dict[str, str]:
    try:
        entries: list[Any] = json.loads(text)["credentials"]
        return {str(entry["principal"]): str(entry["secret"]) for entry in entries}
    except (ValueError, KeyError, TypeError, RecursionError):
        wanted = '{"credentials": [{"principal": "...", "secret": "..."}]}'
        raise CredentialsError(f"{path}: should be like {wanted}") from None


def _of_lines(path: Path, text: str) -> dict[str, str]:
    pairs = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words and len(words) != 2:
            raise CredentialsError(
                f"{path}: line {number}: should be PRINCIPAL SECRET, not {len(words)} words"
            )
        pairs.update({words[0]: words[1]} if words else {})
    return pairs
