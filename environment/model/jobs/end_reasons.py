"""Reasons of failure as texts: the error first, then how the driver or an executor ended."""

import re

from environment.model.messages.records import ShortOf

#: The text of a driver's or an executor's end, and what stands between it and the error.
_COMMAND = r"Command [^:;(]*(?:\([^)]*\))?"
#: A VM; of agents that share a hostname it is followed by the end of the agent's id.
_ON = r"(?: on \S+(?: \(\S+\))?)?"
_HOW = (
    rf"(?:its driver{_ON} (?:exited with code \d+(?: \([^)]*\))?|ended: {_COMMAND})"
    rf"|(?:lost \d+ executors; the last, )?executor \d+{_ON}(?: ended)?: {_COMMAND})"
)
_END = re.compile(_HOW)
_ENDED = re.compile(rf"{_HOW}(?:; it printed last)?: ")
#: How Spark's driver names the executor that it failed with.
_BY_EXECUTOR = re.compile(r"ExecutorLostFailure \(executor (\d{1,9}) ")


def error_first(reason: str) -> str:
    """Move the error to the front of the reason, as lists, pages and messages cut its end."""
    found = _ENDED.match(reason)
    if found is None:
        return reason
    how, last, _ = found[0].removesuffix(": ").partition("; it printed last")
    return f"{reason[found.end() :]} ({'printed last; ' if last else ''}{how})"


def said_and_own(reason: str) -> tuple[str, str]:
    """The part of a reason that a program printed, and the rest, which is the daemon's; or empty texts."""
    reason = error_first(reason)
    ends = list(_END.finditer(reason))
    if not ends:
        return "", reason
    own = " ".join(end[0] for end in ends)
    return reason[: ends[-1].start()], f"{own}{reason[ends[-1].end() :]}"


def lost_executor(reason: str) -> int | None:
    """Number of the executor with the end that the driver gives as its reason; None for another reason."""
    found = _BY_EXECUTOR.search(reason)
    return int(found[1]) if found else None


#: Reasons of processes that had too little memory; a plain SIGKILL may have come from anyone.
_MEMORY = re.compile(
    r"exited with (?:status|code) 52\b|OutOfMemoryError|\bMemoryError\b|OOMKilled|[Mm]emory limit exceeded"
)
#: Those that no larger heap helps.
_NO_HEAP = re.compile(
    r"OutOfMemoryError: (?:Metaspace|Compressed class space|unable to create|Requested array size)"
)
#: Reasons that are an executor's: it is named, or its Python worker had too little. Drivers in Python have no
#: limit, and Spark quotes workers without their names.
_EXECUTOR = re.compile(r"\bexecutor \d|\bLost task \d|\bMemoryError\b")


def short_of_memory(reason: str) -> ShortOf | None:
    """Which process had too little memory, by a reason of failure; None where the reason is another one."""
    if not _MEMORY.search(reason) or _NO_HEAP.search(reason):
        return None
    return "executor" if _EXECUTOR.search(reason) else "driver"
