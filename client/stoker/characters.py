"""Escapes characters that a reader does not see, or that change the display.

The same as `conf/util/printable.py` of the daemon; a test compares both.
"""

from __future__ import annotations

import re

#: Control characters (C0, DEL, C1), separators of lines, what is invisible or turns the direction of writing,
#: halves of surrogate pairs; tabs and ends of lines stay.
_UNSEEN = re.compile(
    r"(?![\t\n])[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    """The text with such characters as escapes, so that they can steer no terminal; lines and tabs stay."""
    return _UNSEEN.sub(lambda found: found.group().encode("unicode_escape", "surrogatepass").decode(), text)
