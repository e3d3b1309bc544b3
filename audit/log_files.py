"""Where event logs are: files, folders, folders of one log, tar archives, S3; found and opened for reading.

Spark, YARN and Kubernetes write a file or a folder (`spark.eventLog.rolling.enabled`) for each attempt of an
application, Databricks a folder with `eventlog` and packed earlier parts. How a file is packed is seen from
its first bytes, since copies lose their names' ends.
"""

import bz2
import contextlib
import io
import itertools
import lzma
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol, Self, cast

from audit import s3_objects
from conf.errors import ReportedError
from conf.util.regular_file import open_regular
from profiles.event_lines import STATUS, EventLogError, application_of, codec, is_rolled, parts_of
from profiles.packed import CODECS, UNPACKING, PieceStream, unpacked

#: The parts of Databricks' logs: `eventlog-2024-05-01--10-20.gz`, and `eventlog`, the last one.
_DATABRICKS = re.compile(r"eventlog(-(?P<at>\d{4}-\d\d-\d\d--\d\d-\d\d)(\.gz)?)?")
#: Ends of the names of archives.
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
#: By the first bytes of a stream: its codec.
_MAGIC = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x1f\x8b": "gz",
    b"LZ4Block": "lz4",
    b"\x82SNAPPY": "snappy",
    b"ZV\x00": "lzf",
    b"ZV\x01": "lzf",
    b"\xfd7zXZ\x00": "xz",
    b"\x5d\x00\x00\x80": "xz",
    b"BZh": "bz2",
}
_LONGEST_MAGIC = max(map(len, _MAGIC))
#: Archives together are not unpacked beyond so many bytes, half of the free disk, or so many members. Chosen:
#: some times a large month of logs.
_GIB = 1 << 30
_MOST_UNPACKED, _MOST_MEMBERS = 64 * _GIB, 1_000_000
#: How deep archives may lie in one another: one can be made that contains itself.
_DEEPEST = 4
#: Members that have the name or the attributes of the next one: they are read whole. Bytes of one; chosen:
#: Linux has no paths as long.
_ABOUT_THE_NEXT = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_LONGEST_HEADER = 1 << 16
#: So many of them in a row, and so many that are about all members behind them. Chosen: writers make two, and
#: one.
_MOST_HEADERS = 16
#: Bytes read at once of a file or of an object, and unpacked at once.
_BUFFER = 1 << 20
#: Bytes of memory that unpacking an xz may take; its header may ask for 4 GiB. Chosen: `xz -9` takes 65 MiB.
_XZ_MEMORY = 256 << 20


class LogsError(ReportedError, ValueError):
    """Places in which no event log can be found; the text names the place and says what to do."""


@dataclass(frozen=True, slots=True)
class LogFiles:
    """One event log: its name for people, its files in order, and their bytes together, packed.

    Files are paths, or `s3://BUCKET/KEY`; `names` are theirs for people, where those differ.
    """

    name: str
    parts: tuple[str, ...]
    size: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unread:
    """A file or log that was not read, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class FoundLogs:
    """The event logs of some places, and the files that are none."""

    logs: tuple[LogFiles, ...]
    unread: tuple[Unread, ...]

    @property
    def size(self) -> int:
        """Bytes of all logs together, packed."""
        return sum(log.size for log in self.logs)


@dataclass(frozen=True, slots=True)
class _File:
    """A file below a place: its path or URL, its name for people, and its bytes."""

    path: str
    name: str
    size: int


def find_logs(places: Sequence[str], scratch: Path) -> FoundLogs:
    """Find all event logs in these files, folders, tar archives and `s3://` prefixes.

    Archives are unpacked below the empty folder `scratch`. LogsError for a place that is not there, and when
    there is no log at all.
    """
    unpacking = _Unpacking(scratch)
    files = [file for place in places for file in _files(place, unpacking)]
    logs, unread = _grouped(files)
    if not logs:
        where = ", ".join(places)
        raise LogsError(
            f"{where}: holds no event log; name the folder of spark.eventLog.dir, an event log, a tar of "
            "such, or s3://BUCKET/PREFIX" + (f" ({unread[0].name}: {unread[0].why})" if unread else "")
        )
    return FoundLogs(tuple(logs), tuple(unread))


def _files(place: str, unpacking: "_Unpacking") -> Iterator[_File | Unread]:
    if place.startswith(s3_objects.SCHEME):
        yield from _objects(place)
        return
    path = Path(place)
    if path.is_dir():
        yield from _walked(path, place.rstrip("/"), unpacking)
    elif path.is_file():
        yield from unpacking.files(path, place)
    else:
        raise LogsError(f"{place}: does not exist; name a folder, an event log, a tar of such, or s3://...")


def _walked(folder: Path, name: str, unpacking: "_Unpacking") -> Iterator[_File | Unread]:
    """The files of a folder; an archive that cannot be unpacked is not read, as any other file."""
    closed = list[OSError]()
    for place, folders, files in os.walk(folder, onerror=closed.append):
        folders.sort()
        links = [each for each in folders if Path(place, each).is_symlink()]
        for file in sorted([*files, *links]):
            path = Path(place, file)
            below = str(Path(name, path.relative_to(folder)))
            if not path.is_file():
                linked = "a link to a folder; name that as well" if path.is_dir() else ""
                yield Unread(below, linked or "no regular file, or a link to none")
                continue
            try:
                yield from unpacking.files(path, below)
            except LogsError as error:
                yield Unread(below, str(error).removeprefix(f"{below}: "))
    for each in closed:
        below = str(Path(name, Path(str(each.filename)).relative_to(folder)))
        yield Unread(below, f"cannot be listed: {each.strerror}")


class _Header(tarfile.TarInfo):
    """A member's header; ReadError for what fills the memory: long or endless attributes, lists of holes.

    For one archive, of which it counts the headers: make a class for each.
    """

    _in_a_row = _for_all = 0

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """See `tarfile`, which reads the header behind one about the next by calling itself."""
        found = super().frombuf(buf, encoding, errors)
        about = found.type in _ABOUT_THE_NEXT
        if about and found.size > _LONGEST_HEADER:
            raise tarfile.ReadError(f"a name or attributes of {found.size} bytes")
        cls._in_a_row = cls._in_a_row + 1 if about else 0
        cls._for_all += found.type == tarfile.XGLTYPE
        if max(cls._in_a_row, cls._for_all) > _MOST_HEADERS:
            raise tarfile.ReadError(f"more than {_MOST_HEADERS} headers with names and attributes of others")
        if found.type == tarfile.GNUTYPE_SPARSE:
            cls._sparse()
        return found

    @staticmethod
    def _sparse(*_: object) -> None:
        raise tarfile.ReadError("a sparse file; make the archive without --sparse")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _sparse


class _Unpacking:
    """Unpacks archives, of which nothing is trusted: members are written below numbers, not their names.

    So no name and no link of an archive leads anywhere. One limit holds for all archives together.
    """

    def __init__(self, scratch: Path) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self._scratch, self._numbers = scratch, itertools.count()
        self._most = self._left = min(_MOST_UNPACKED, shutil.disk_usage(scratch).free // 2)

    def files(self, path: Path, name: str, depth: int = 0) -> Iterator[_File]:
        """The file itself, or those of an archive. LogsError when it cannot be unpacked."""
        if not name.lower().endswith(ARCHIVES):
            yield _File(str(path), name, path.stat().st_size)
            return
        try:
            if depth == _DEEPEST:
                raise ValueError(f"it lies in {_DEEPEST} others")
            members = self._members(path)
        except (tarfile.TarError, *UNPACKING) as error:
            why = str(error) or type(error).__name__
            raise LogsError(f"{name}: cannot be unpacked: {why}; unpack it and name the folder") from None
        for member, below in members:
            yield from self.files(member, f"{name}/{below}", depth + 1)

    def _members(self, path: Path) -> list[tuple[Path, str]]:
        """Write the regular members; return their files and names.

        ValueError, before it is written, at the one with which they are too large: a small archive can hold
        more than any disk has.
        """
        found = []
        with (
            os.fdopen(open_regular(path), "rb") as file,
            tarfile.open(
                fileobj=_stream(file), mode="r|", tarinfo=type("_Counted", (_Header,), {})
            ) as archive,
        ):
            for member in archive:
                # Each has attributes of up to _LONGEST_HEADER bytes.
                archive.members.clear()  # type: ignore[attr-defined]
                if member.size < 0:  # which would raise the limit of all other archives
                    raise ValueError(f"a member of {member.size} bytes")
                number = next(self._numbers)
                self._left -= member.size
                if self._left < 0 or number >= _MOST_MEMBERS:
                    what = f"{self._most / _GIB:.3g} GiB" if self._left < 0 else f"{_MOST_MEMBERS:,} files"
                    raise ValueError(f"it holds more than {what}")
                content = archive.extractfile(member) if member.isreg() else None
                if content is not None:
                    kind = codec(member.name)
                    target = self._scratch / (f"{number}.{kind}" if kind in CODECS else str(number))
                    with target.open("xb") as made:
                        shutil.copyfileobj(content, made, _BUFFER)
                    found.append((target, str(PurePosixPath(member.name))))
        return found


def _objects(place: str) -> Iterator[_File]:
    try:
        for url, size in s3_objects.listed(place):
            yield _File(url, url, size)
    except s3_objects.S3Error as error:
        raise LogsError(f"{place}: {error}") from None


def _grouped(files: Iterable[_File | Unread]) -> tuple[list[LogFiles], list[Unread]]:
    """Logs by their files: those of a rolled or a Databricks log belong together, others stand alone."""
    logs, unread = list[LogFiles](), list[Unread]()
    by_folder: dict[str, dict[str, list[_File]]] = {}
    for file in files:
        if isinstance(file, Unread):
            unread.append(file)
            continue
        folder, _, name = file.name.rpartition("/")
        if is_rolled(name) or name.startswith(STATUS) or _DATABRICKS.fullmatch(name):
            of = application_of(name) if is_rolled(name) else ""
            by_folder.setdefault(folder, {}).setdefault(of, []).append(file)
        elif name.startswith((".", "_")) or name.endswith(".crc"):
            unread.append(Unread(file.name, "a file of the file system, not of Spark"))
        elif not file.size:
            unread.append(Unread(file.name, "empty"))
        else:
            logs.append(LogFiles(file.name, (file.path,), file.size))
    for folder, groups in by_folder.items():
        rolled = {of: group for of, group in groups.items() if of}
        for of, group in (rolled or groups).items():
            log = f"{folder}/{of}" if len(rolled) > 1 else folder
            try:
                logs.append(_group(log, group))
            except EventLogError as error:
                unread.append(Unread(log, str(error)))
    return logs, unread


def _group(folder: str, group: Sequence[_File]) -> LogFiles:
    by_name = {file.name: file for file in group}
    if any(is_rolled(name) for name in by_name):
        parts = [by_name[name] for name in parts_of(list(by_name))]
    else:
        matched = {name: _DATABRICKS.fullmatch(name.rpartition("/")[2]) for name in by_name}
        order = sorted((match["at"] or "~", name) for name, match in matched.items() if match)
        parts = [by_name[name] for _, name in order]
    if not any(part.size for part in parts):
        raise EventLogError("empty")
    name = folder if is_rolled(parts[0].name) or len(parts) > 1 else parts[0].name
    paths, names = tuple(part.path for part in parts), tuple(part.name for part in parts)
    return LogFiles(name, paths, sum(part.size for part in parts), names)


@contextlib.contextmanager
def opened(log: LogFiles, read: Callable[[int], None]) -> Iterator[list[tuple[str, BinaryIO]]]:
    """Open a log's files, unpacked, each with its name; `read` is told the packed bytes of each read.

    OSError, or LogsError from S3.
    """
    with contextlib.ExitStack() as stack:
        files = list[tuple[str, BinaryIO]]()
        for part, name in zip(log.parts, log.names or log.parts, strict=True):
            raw = _open(part)
            stack.callback(raw.close)
            counted = io.BufferedReader(_CountedReads(raw, read), _BUFFER)
            files.append((name, _stream(cast(BinaryIO, counted), codec(part))))
        yield files


def _open(part: str) -> Any:
    if not part.startswith(s3_objects.SCHEME):
        return os.fdopen(open_regular(Path(part)), "rb", buffering=0)
    try:
        return s3_objects.opened(part)
    except s3_objects.S3Error as error:
        raise LogsError(f"{part}: {error}") from None


def _stream(file: Any, named: str = "") -> BinaryIO:
    """The stream unpacked, by its first bytes, or by its name where they tell nothing."""
    file = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)
    head = file.peek(_LONGEST_MAGIC)[:_LONGEST_MAGIC]
    kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")
    if kind in _UNPACKERS:
        return cast(BinaryIO, io.BufferedReader(PieceStream(_pieces(file, _UNPACKERS[kind]))))
    if not kind and named in CODECS and not head.lstrip().startswith(b"{"):
        kind = named
    return unpacked(cast(BinaryIO, file), kind)


class _Decompressor(Protocol):
    """As `bz2` and `lzma` have it."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _GzDecompressor:
    """One member of a gz. `gzip` itself keeps back the last 8 KiB and more where a file was cut short."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._member.eof

    @property
    def needs_input(self) -> bool:
        return not self._member.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._member.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._member.decompress(self._member.unconsumed_tail + data, max_length)


#: By codec: makes the decompressor of a stream.
_UNPACKERS: Mapping[str, Callable[[], _Decompressor]] = {
    "gz": _GzDecompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY),
    "bz2": bz2.BZ2Decompressor,
}


def _pieces(file: BinaryIO, unpacker: Callable[[], _Decompressor]) -> Iterator[bytes]:
    """The stream unpacked, and those that follow it in the file, `_BUFFER` bytes at most at once.

    OSError for what cannot be unpacked, and EOFError where it was cut short. `tarfile` would unpack 10 KiB at
    once, which may be half a GiB, and as much memory for an xz as its header asks for.
    """
    packed = file.read(_BUFFER)
    while packed:
        stream = unpacker()
        try:
            while not stream.eof:
                if stream.needs_input and not packed and not (packed := file.read(_BUFFER)):
                    raise EOFError("it was cut short")
                piece = stream.decompress(packed, _BUFFER)
                packed = b""
                if piece:
                    yield piece
        except (lzma.LZMAError, zlib.error) as error:
            raise OSError(str(error)) from None
        packed = (stream.unused_data or file.read(_BUFFER)).lstrip(b"\0")  # an xz may be padded


class _CountedReads(io.RawIOBase):
    """Counts the bytes of each read of a stream."""

    def __init__(self, raw: Any, told: Callable[[int], None]) -> None:
        self._raw, self._told = raw, told

    def readable(self) -> bool:
        """True: the stream is for reading."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill the buffer from the stream."""
        into = memoryview(cast(bytearray, buffer)).cast("B")
        data = self._raw.read(len(into))
        into[: len(data)] = data
        self._told(len(data))
        return len(data)
