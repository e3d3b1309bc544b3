"""Streams as Spark packs them (`spark.eventLog.compression.codec`), unpacked as they are read.

Zstandard is the usual format. The others are those of the Java libraries that Spark uses: blocks with headers
of their own, which no program for their format knows. An application writes its log itself: nothing is
unpacked beyond `MOST_BLOCK` at once, and nonsense is an OSError, an IndexError or a ValueError.
"""

import io
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

#: Errors of streams that cannot be unpacked, or not any further.
UNPACKING = (OSError, ValueError, IndexError, EOFError, zlib.error)
#: Bytes of one unpacked block: the largest that any of the libraries writes.
MOST_BLOCK = 1 << 25
#: Of a stream that was cut short about a piece is lost.
_PIECE = 1 << 10
_CUT = "it was cut short"
_LZ4_MAGIC, _LZ4_RAW = b"LZ4Block", 0x10
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_LZF_LITERALS, _LZF_LONG = 32, 7


def unpacked(file: BinaryIO, suffix: str) -> BinaryIO:
    """The stream unpacked, by the name of its codec; itself where that is none of `CODECS`.

    EOFError at the end of one that was cut short.
    """
    codec = CODECS.get(suffix)
    return file if codec is None else cast(BinaryIO, io.BufferedReader(PieceStream(codec(file))))


class PieceStream(io.RawIOBase):
    """Pieces as a stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._left = pieces, memoryview(b"")

    def readable(self) -> bool:
        """True: the stream is for reading."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill the buffer from the rest of the last piece, or from the next one."""
        into = memoryview(cast(bytearray, buffer)).cast("B")
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        count = min(len(into), len(self._left))
        into[:count], self._left = self._left[:count], self._left[count:]
        return count


def _zstd(file: BinaryIO) -> Iterator[bytes]:
    import pyarrow

    with pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd") as stream:
        while True:
            try:
                piece = stream.read(_PIECE)
            except OSError as error:
                if "runcated" in str(error):  # the driver ended while it wrote
                    raise EOFError(_CUT) from None
                raise
            if not piece:
                return
            yield piece


def _lz4(file: BinaryIO) -> Iterator[bytes]:
    """lz4-java: blocks of magic, method, packed and unpacked size and checksum, little-endian."""
    unpack = _arrow("lz4_raw")
    over = True
    while head := _read(file, 21):
        if not head.startswith(_LZ4_MAGIC):
            raise ValueError("no block of lz4-java")
        packed, size = (int.from_bytes(head[at : at + 4], "little") for at in (9, 13))
        if over := size == 0:  # the end of a stream; another may follow
            continue
        data = _block(file, packed, size)
        yield data if head[8] & 0xF0 == _LZ4_RAW else unpack(data, size)
    if not over:
        raise EOFError(_CUT)


def _snappy(file: BinaryIO) -> Iterator[bytes]:
    """snappy-java: a magic and two versions, then chunks of their length, big-endian, and Snappy's bytes."""
    unpack = _arrow("snappy")
    while head := _read(file, 4):
        if head == _SNAPPY_MAGIC[:4]:
            if not file.read(12).startswith(_SNAPPY_MAGIC[4:]):
                raise ValueError("no stream of snappy-java")
            continue
        data = _block(file, int.from_bytes(head, "big"))
        yield unpack(data, _size_of_snappy(data))


def _size_of_snappy(data: bytes) -> int:
    """The unpacked size, which stands in front, seven bits a byte."""
    size = 0
    for place, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return size
    raise ValueError("no chunk of Snappy")


def _lzf(file: BinaryIO) -> Iterator[bytes]:
    """compress-lzf: chunks `ZV`, raw (0) with their length, or packed (1) with both lengths, big-endian."""
    while head := _read(file, 5):
        if head[:2] != b"ZV" or head[2] > 1:
            raise ValueError("no chunk of LZF")
        more = file.read(2) if head[2] else b""
        data = _block(file, int.from_bytes(head[3:], "big"))
        yield _unpack_lzf(data, int.from_bytes(more, "big")) if head[2] else data


def _unpack_lzf(data: bytes, size: int) -> bytes:
    made, at = bytearray(), 0
    while at < len(data):
        control, at = data[at], at + 1
        if control < _LZF_LITERALS:
            made += data[at : at + control + 1]
            at += control + 1
            continue
        length = control >> 5
        if length == _LZF_LONG:
            length, at = length + data[at], at + 1
        start = len(made) - ((control & 0x1F) << 8) - data[at] - 1
        at += 1
        if start < 0:
            raise ValueError("no chunk of LZF")
        for place in range(start, start + length + 2):  # copied bytes may be made on the way
            made.append(made[place])
    if len(made) != size:
        raise ValueError("no chunk of LZF")
    return bytes(made)


def _read(file: BinaryIO, size: int) -> bytes:
    """Read so many bytes, or none at the end; EOFError if the writer ended between."""
    data = file.read(size)
    if data and len(data) < size:
        raise EOFError(_CUT)
    return data


def _block(file: BinaryIO, packed: int, size: int = 0) -> bytes:
    """Read so many bytes; EOFError if the writer ended before; ValueError if they are too many."""
    if max(packed, size) > MOST_BLOCK:
        raise ValueError("a block is larger than any that is written")
    data = _read(file, packed)
    if packed and not data:
        raise EOFError(_CUT)
    return data


def _arrow(codec: str) -> Callable[[bytes, int], bytes]:
    import pyarrow

    known = pyarrow.Codec(codec)

    def unpack(data: bytes, size: int) -> bytes:
        if size > MOST_BLOCK:
            raise ValueError("a block is larger than any that is written")
        made: bytes = known.decompress(data, size, asbytes=True)
        return made

    return unpack


#: By the endings that Spark gives to compressed files.
CODECS: dict[str, Callable[[BinaryIO], Iterator[bytes]]] = {
    "zstd": _zstd,
    "lz4": _lz4,
    "snappy": _snappy,
    "lzf": _lzf,
}
