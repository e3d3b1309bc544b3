"""The order of a reason of failure: first the error, then how the driver ended."""

import re

#: The text of a driver's end, and the text that may stand between it and the error.
_ENDED = re.compile(
    r"its driver (?:on \S+ )?(?:exited with code \d+(?: \([^)]*\))?|ended: Command [^:;(]*(?:\([^)]*\))?)"
    r"(?:; it printed last)?: "
)


def error_first(reason: str) -> str:
    """Move the error to the front of the reason, as lists, pages and messages cut its end."""
    found = _ENDED.match(reason)
    if found is None:
        return reason
    how, last, _ = found[0].removesuffix(": ").partition("; it printed last")
    return f"{reason[found.end() :]} ({'printed last; ' if last else ''}{how})"
