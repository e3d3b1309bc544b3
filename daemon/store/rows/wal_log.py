"""The write-ahead log beside an SQLite job store: damage in it, for which SQLite would forget transactions.

SQLite reads a log up to the first frame with a wrong checksum, and forgets the rest without a word. That is
right for the last transaction, which its process may not have finished; but where a later one is behind it, a
byte has changed since. https://www.sqlite.org/fileformat2.html#walformat describes the format.
"""

import os
import struct
import time
from pathlib import Path

from conf.util.regular_file import open_regular

_HEADER, _OF_FRAME = struct.Struct(">8I"), struct.Struct(">2I8s2I")
#: The last bit of this number tells whether checksums are over big-endian words.
_MAGIC = 0x377F0682
#: Seconds for which a log is read, and between two looks at damage: a daemon may be writing.
_PATIENCE, _PAUSE = 2.0, 0.05
_LOOKS = 3


def damaged_at(log: Path) -> int | None:
    """The byte of the log from which on SQLite would forget whole transactions; None where it would not.

    OSError, ValueError when it cannot be read.
    """
    found = _look(log)
    for _ in range(_LOOKS - 1):
        if found is None:
            break
        time.sleep(_PAUSE)
        found = found if _look(log) == found else None
    return found


def _look(log: Path) -> int | None:
    with os.fdopen(open_regular(log), "rb") as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size or not any(header):
            return None
        magic, _, page, _, _, _, *sums = _HEADER.unpack(header)
        if magic & ~1 != _MAGIC or not 512 <= page <= 65536:
            return 0
        order, before, salts = (">" if magic & 1 else "<"), {(sums[0], sums[1])}, header[16:24]
        stops_at: int | None = None
        commits = 0
        if _summed(header[:24], order, (0, 0)) not in before:
            stops_at, salts, commits = 0, file.read(16)[8:], 1  # it was right before all that follows
            file.seek(_HEADER.size)
        again, until, at = False, time.monotonic() + _PATIENCE, _HEADER.size
        while len(frame := file.read(_OF_FRAME.size + page)) == _OF_FRAME.size + page:
            _, pages, own_salts, *told = _OF_FRAME.unpack(frame[: _OF_FRAME.size])
            ours, stored = own_salts == salts, (told[0], told[1])
            body = frame[_OF_FRAME.size :]
            right = {_summed(body, order, _summed(frame[:8], order, each)) for each in before if ours}
            whole = stored in right
            if again and not whole:
                break  # what is left of transactions that came to nothing, or of an earlier log
            if stops_at is None and not whole:
                stops_at = at
            elif stops_at is not None:
                again = whole
            commits += stops_at is not None and ours and pages > 0
            # The damage may be in the checksum.
            before, at = {stored} if whole else {stored, *right}, at + len(frame)
            if time.monotonic() > until:
                break
    # The first transaction that is found behind may be the last one, which its process did not finish.
    return stops_at if commits > 1 else None


def _summed(data: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    """SQLite's checksum of these bytes behind others with those sums."""
    first, second = sums
    for x, y in struct.iter_unpack(f"{order}2I", data):
        first = (first + x + second) & 0xFFFFFFFF
        second = (second + y + first) & 0xFFFFFFFF
    return first, second
