"""Fetches files into the sandbox in which it runs, as the task's user. A program of its own.

    python fetch.py [UID:GID:GROUP...] < uris

The URIs are JSON, as in Mesos' CommandInfo. First of all it becomes the user. A path of this machine is
opened once, with the user's rights and no others, and the open file is judged: it has to be a regular one,
and no more of it is copied than it had then. An error goes to standard error with exit code 1.

It imports next to nothing but the standard library, so that it starts at once.
"""

# Imported as root: the user may have no way to the modules that others import when they are needed.
import bz2  # noqa: F401
import encodings.cp437
import encodings.idna  # noqa: F401
import gzip  # noqa: F401
import json
import lzma  # noqa: F401
import os
import pwd
import resource
import ssl  # noqa: F401
import stat
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import unquote, urlsplit
from urllib.request import ProxyHandler, build_opener

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))  # isolated as it is, it knows no folder of ours

from framework.host.process_tree import become

_REMOTE = ("http", "https")
#: Seconds in which some bytes of a fetched file have to arrive.
_PATIENCE = 60.0
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
#: Bytes that are copied at once.
_PART = 1 << 20
#: Bytes of address space: headers of an archive are read whole, and may be of any length.
_MEMORY = 1 << 30
#: Bytes of the disk that are left to others.
_SPARED = 256 << 20
# A FIFO without a writer would hold up the open.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FetchError(Exception):
    """A file that cannot be had; the text names its URI."""


def fetch(uris: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Bring files of this machine and of HTTP servers into a folder, and unpack archives; FetchError."""
    for uri in uris:
        try:
            _fetch_one(uri, folder)
        except (
            OSError,
            ValueError,
            LookupError,
            HTTPException,
            tarfile.TarError,
            zipfile.BadZipFile,
        ) as error:
            raise FetchError(f"{uri['value']}: {error}") from None


def _fetch_one(uri: Mapping[str, Any], folder: Path) -> None:
    value = uri["value"]
    remote = urlsplit(value).scheme in _REMOTE
    name = unquote(PurePosixPath(urlsplit(value).path).name) if remote else _source(value).name
    given = PurePosixPath(uri.get("output_file", name))
    if given.is_absolute() or ".." in given.parts:
        raise ValueError(f"output_file must stay in the sandbox, got {given}")
    target = folder / given
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        if remote:
            _download(value, file)
        else:
            _copy(_source(value), file)
    if uri.get("executable"):
        target.chmod(0o755)
    elif uri.get("extract", True):
        _extract(target, folder)


def _source(value: str) -> Path:
    parts = urlsplit(value)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"}:
        return Path(unquote(parts.path))
    if not parts.scheme and value.startswith("/"):
        return Path(value)
    raise ValueError("the embedded Mesos fetches http(s):// and file:// URIs and absolute paths only")


def _copy(source: Path, target: IO[bytes]) -> None:
    try:
        descriptor = os.open(source, _FLAGS)
    except PermissionError:
        raise OSError(f"{pwd.getpwuid(os.geteuid()).pw_name} may not read it") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError("is not a regular file")
    with open(descriptor, "rb") as file:  # noqa: PTH123
        _check_room(status.st_size, target.fileno())
        left = status.st_size
        while left and (part := file.read(min(_PART, left))):
            _check_room(len(part), target.fileno())  # others fetch meanwhile
            target.write(part)
            left -= len(part)


def _download(url: str, target: IO[bytes]) -> None:
    """Download as Mesos' fetcher does; a late or incomplete file is an error."""
    # Proxies of the environment are for others: files are fetched in the cluster's own network.
    with build_opener(ProxyHandler({})).open(url, timeout=_PATIENCE) as answer:
        while part := answer.read(_PART):
            _check_room(len(part), target.fileno())
            target.write(part)
        length = answer.headers.get("Content-Length")
        if length is not None and target.tell() != int(length):
            raise OSError(f"received {target.tell()} of {length} bytes")


def _extract(archive: Path, folder: Path) -> None:
    """Unpack a fetched file with the name of an archive; the archive stays."""
    if archive.name.endswith(".zip"):
        with zipfile.ZipFile(archive) as zipped:
            for entry in zipped.infolist():
                _check_room(entry.file_size, folder)
                zipped.extract(entry, folder)  # which keeps members inside the folder
    elif archive.name.endswith(_TAR):
        with tarfile.open(archive) as tarred:
            for member in tarred:
                _check_room(member.size, folder)
                tarred.extract(member, folder, filter="data")


def _check_room(size: int, place: int | Path) -> None:
    disk = os.statvfs(place)
    if size and disk.f_bavail * disk.f_frsize - size < _SPARED:
        raise OSError(f"the disk has no room for {size} more bytes")


if __name__ == "__main__":
    if sys.argv[1:]:
        uid, gid, *groups = map(int, sys.argv[1].split(":"))
        become(uid, gid, groups)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    try:
        fetch(json.load(sys.stdin), Path())
    except FetchError as error:
        sys.exit(f"Failed to fetch {error}")
    except MemoryError:
        sys.exit(f"Failed to fetch: an archive takes more than {_MEMORY >> 20} MiB of memory to unpack")
