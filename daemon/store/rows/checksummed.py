"""Records as texts: plain ASCII JSON, so that any text round-trips, followed by a checksum.

A disk may change a digit unnoticed. `job_rows.py` and others define the content of records.
"""

import json
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


class UnreadableRowError(Exception):
    """A row that this program did not write so, or that has been damaged."""


def seal(text: str) -> str:
    """The JSON text with its checksum behind it."""
    return f"{text}#{zlib.crc32(text.encode()):08x}"


def unseal(build: Callable[[dict[str, Any]], Result], text: str | bytes) -> Result:
    """Build a value from the JSON in a text that `seal` made; UnreadableRowError."""
    if isinstance(text, str) and text[-9:-8] == "#":  # the first Stoker wrote none
        text, check = text[:-9], text[-8:]
        if check != f"{zlib.crc32(text.encode('utf-8', 'surrogateescape')):08x}":
            raise UnreadableRowError("its checksum is another one")
    try:
        return build(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise UnreadableRowError(str(error)) from error
