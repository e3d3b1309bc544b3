"""Names of applications: without what differs from run to run, and as one line."""

import re

from stoker.characters import LONGEST_NAME, UNSEEN

#: Parts of a name that differ between runs of the same application: dates, times, counters and ids at the end
#: of words.
_RUN_OF = re.compile(
    r"[-_. :/#(]*(?:\d[\d:T.+-]{3,}|(?<![0-9a-z])[0-9a-f]{8,}(?![0-9a-z])(?:-[0-9a-f]{4,})*)\)?Z?",
    re.IGNORECASE,
)
_INVISIBLE = re.compile(f"[{UNSEEN}]+")


def type_of(name: str) -> str:
    """The type of an application by its name, without what differs from run to run."""
    plain = one_line(name)
    return " ".join(_RUN_OF.sub(" ", plain).split()) or plain or "unnamed"


def one_line(text: str) -> str:
    """The text as names in workloads and profiles may be: one line, of characters that a reader sees."""
    return " ".join(_INVISIBLE.sub(" ", text).split())[:LONGEST_NAME]
