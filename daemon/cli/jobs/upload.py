"""Sending a job's files to a daemon on another machine, by the client: each is checked before it is sent."""

import socket
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stoker import Stoker, flows
from stoker.flows import Flow

from conf.uploaded_file import uploaded
from daemon.cli.shared.errors import CommandError, naming


def is_here(url: str) -> bool:
    """Whether a daemon is on this machine: nobody else can listen on an address of it."""
    parts = urlsplit(url)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return True  # the next request reports the error
    return all(_is_own(family, address) for family, _, _, _, address in found)


def upload_files(client: Stoker, spec: Mapping[str, Any], notice: Callable[[str], None]) -> dict[str, Any]:
    """Send the job's local files to the daemon and return the job with references to the uploads.

    URIs stay as they are, except `file:`. StokerError or CommandError if a file is unreadable or rejected.
    """

    def send(path: Path) -> Flow[str]:
        _check_name(path)
        return (yield from flows.upload_file(path, notice))

    return client.run(flows.placed_files(spec, send))


def name_files(client: Stoker, spec: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the job as `upload_files` does, without sending files; and the sizes to send, bytes by hash."""
    sizes: dict[str, int] = {}

    def measure(path: Path) -> Flow[str]:
        _check_name(path)
        reference = yield from flows.measure(sizes, path)
        if path.name.endswith(".jar") and not zipfile.is_zipfile(path):
            raise CommandError(f"{path}: not a jar: it is not in the format of zip files")
        return reference

    return client.run(flows.placed_files(spec, measure)), sizes


def _check_name(path: Path) -> None:
    with naming(""):
        uploaded(f"{flows.SCHEME}:{'0' * 64}/{path.name}")


def _is_own(family: int, address: Any) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address[0], 0, *address[2:]))
        except OSError:
            return False
    return True
