"""Paths of URLs: forwarded ones, judged as any server may read them, and those of Spark's REST protocol.

Servers differ in path parameters, backslashes, dots, case, and in what is encoded twice. A path is checked as
the most generous of them would read it, and passed on only where all of them read it alike.
"""

import re
import unicodedata
from urllib.parse import unquote

#: Version of Spark's REST protocol, and the status by which Spark's own servers refuse another one.
VERSION = "v1"
UNKNOWN_VERSION = 468
#: Path on which submissions are created.
CREATE = f"/{VERSION}/submissions/create"

_SEPARATORS = re.compile(r"[/\\]")
#: Times that a path is decoded. Chosen: more than any chain of servers does. Each time may undo one level of
#: thousands (%252525...), which together held up the event loop for a second.
_DECODED = 8


def names_segment(path: str, segment: str) -> bool:
    """Whether a server might take a part of the path for this one, in small letters and digits.

    One that is encoded more often than a chain of servers decodes is `ambiguous`.
    """
    for _ in range(_DECODED):
        path = unquote(path)
    return segment in map(_bare, _SEPARATORS.split(path))


def ambiguous(path: str) -> str:
    """Feature of a decoded path that servers read in several ways; empty when all read it alike."""
    if not path.isprintable():
        return "a control character"
    if found := next((character for character in "%;\\" if character in path), ""):
        return f"the character {found}"
    return "a segment of dots" if any(re.fullmatch(r"\s*\.+\s*", each) for each in path.split("/")) else ""


def _bare(segment: str) -> str:
    """Reduce a path segment to its letters and digits in small letters, without parameters."""
    text = unicodedata.normalize("NFKC", segment.partition(";")[0]).casefold()
    return "".join(filter(str.isalnum, text))
