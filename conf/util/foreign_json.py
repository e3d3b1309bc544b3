"""JSON of another program, read so that its texts and numbers can be stored, compared and sent on.

Python accepts more than that: halves of surrogate pairs, which no file, database or answer can hold, NUL,
which PostgreSQL cannot store, and NaN and infinity, which are no JSON.
"""

import json
import re
from typing import Any

#: A text with one of these is mended; the escapes with which JSON spells them all begin in this way.
_ESCAPE = "\\u"
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def foreign_json(text: str | bytes) -> Any:
    """The value; in its texts, characters that cannot be stored are replaced by U+FFFD.

    ValueError for anything that is no JSON, RecursionError for too deep a nesting.
    """
    if isinstance(text, bytes):
        text = text.decode()
    value = json.loads(text, parse_constant=_no_number)
    return _mended(value) if _ESCAPE in text else value


def storable(text: str) -> str:
    """The text, with U+FFFD in place of characters that cannot be stored."""
    if text.isascii() and "\0" not in text:
        return text
    return _UNSTORABLE.sub(_REPLACEMENT, text)


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_mended(each) for each in value]
    if isinstance(value, dict):
        return {storable(name): _mended(each) for name, each in value.items()}
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number")
