"""Sending a job's files to a daemon on another machine: hashed here, sent in parts, named by their hash."""

import hashlib
import socket
import time
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from conf.uploaded_file import SCHEME, uploaded
from daemon.cli.jobs import follow
from daemon.cli.shared.client import Client, RefusedError
from daemon.cli.shared.errors import CommandError

#: Bytes of one part, at first, at least and at most; parts grow while they take less than so many seconds.
_FIRST, _SMALLEST, _LARGEST = 1 << 18, 1 << 14, 1 << 20
#: What a daemon answers when a part does not come in time.
_TOO_SLOW = 408
_QUICK = 0.5
#: Seconds between two words on how far it is.
_TELL = 5.0
_LISTS = ("py_files", "files", "jars", "archives")


def is_here(url: str) -> bool:
    """Whether a daemon is on this machine: nobody else can listen on an address of it."""
    parts = urlsplit(url)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return True  # whoever asks it next says what is wrong
    return all(_is_own(family, address) for family, _, _, _, address in found)


def upload_files(client: Client, spec: Mapping[str, Any], notice: Callable[[str], None]) -> dict[str, Any]:
    """Send the job's local files to the daemon and return the job with references to the uploads.

    URIs stay as they are, except `file:`. CommandError when a file cannot be read or is rejected.
    """
    return _named(spec, lambda path, sha256: _send(client, path, sha256, notice))


def name_files(spec: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the job as `upload_files` does, without sending files; and the sizes to send, bytes by hash."""
    sizes: dict[str, int] = {}

    def note(path: Path, sha256: str) -> None:
        sizes[sha256] = path.stat().st_size
        if path.name.endswith(".jar") and not zipfile.is_zipfile(path):
            raise ValueError(f"{path}: no jar, as it is not in the format of zip files")

    return _named(spec, note), sizes


def _named(spec: Mapping[str, Any], send: Callable[[Path, str], None]) -> dict[str, Any]:
    """The job with local files replaced by references to uploads, each after `send` has sent it."""
    sent = dict(spec)
    if "app" in sent:
        sent["app"] = _reference(sent["app"], "", send)
    for name in _LISTS:
        if name in sent:
            split = [text.partition("#") for text in sent[name]]
            sent[name] = [_reference(text, mark + folder, send) for text, mark, folder in split]
    return sent


def _reference(text: str, behind: str, send: Callable[[Path, str], None]) -> str:
    parts = urlsplit(text)
    if not text.startswith("/") and parts.scheme != "file":
        return text + behind
    path = Path(unquote(parts.path)) if parts.scheme == "file" else Path(text)
    try:
        sha256 = _hash(path)
        reference = f"{SCHEME}:{sha256}/{path.name}{behind}"
        uploaded(reference)  # before anything is sent
        send(path, sha256)
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise CommandError(str(error)) from None
    return reference


def _send(client: Client, path: Path, sha256: str, notice: Callable[[str], None]) -> None:
    size, step, told = path.stat().st_size, _FIRST, time.monotonic()
    there = client.upload(sha256)
    with path.open("rb") as file:
        while not there["complete"]:
            file.seek(there["received"])
            data, began = file.read(step), time.monotonic()
            if not data and there["received"] < size:
                raise CommandError(f"{path}: changed while it was sent")
            put = partial(client.put_part, sha256, size, there["received"], data)
            try:
                there = follow.patient(put, notice)
            except RefusedError as error:
                if error.status != _TOO_SLOW or step <= _SMALLEST:
                    raise
                step //= 2
                continue
            if time.monotonic() - began < _QUICK:
                step = min(2 * step, _LARGEST)
            if time.monotonic() > told + _TELL:
                told = time.monotonic()
                notice(f"{path.name}: {there['received'] >> 20} of {size >> 20} MiB sent")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_own(family: int, address: Any) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address[0], 0, *address[2:]))
        except OSError:
            return False
    return True
