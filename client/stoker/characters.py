"""Characters invisible to a reader, or changing the visible text: rejected in names, escaped in print.

The daemon uses this module, too.
"""

from __future__ import annotations

import json
import re

#: The inside of a character class: control characters (C0, DEL, C1), separators of lines, and what is
#: invisible or turns the direction of writing (Unicode's Cf, fillers), but for joiners of emoji and scripts.
UNSEEN_IN_PLANE_0 = (
    r"\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\uffff"
)
#: Halves of surrogate pairs, which JSON and YAML can spell, fit in no file, command line or answer.
_SURROGATES = r"\ud800-\udfff"
_ABOVE = r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
#: Characters of a name.
LONGEST_NAME = 200
UNSEEN = UNSEEN_IN_PLANE_0 + _SURROGATES + _ABOVE

_UNSEEN = re.compile(f"[{UNSEEN}]")
_UNSEEN_BUT_LINES = re.compile(rf"(?![\t\n])[{UNSEEN}]")


def unseen(text: str) -> str | None:
    """The first character in a text that a reader does not see, as an escape; None when there is none."""
    if text.isascii() and text.isprintable():
        return None
    found = _UNSEEN.search(text)
    return None if found is None else _escape(found)


def visible(text: str) -> str:
    """The text with such characters as escapes, so that they can steer no terminal; lines and tabs stay."""
    return _UNSEEN_BUT_LINES.sub(_escape, text)


def visible_json(text: str) -> str:
    """JSON with invisible characters in its strings replaced by JSON's own escapes."""
    return _UNSEEN_BUT_LINES.sub(lambda found: json.dumps(found.group())[1:-1], text)


def _escape(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape", "surrogatepass").decode()


def escape_surrogates(text: str) -> str:
    """The text with halves of surrogate pairs, which JSON cannot hold, written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
