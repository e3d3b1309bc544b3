"""Reason for a driver's failure, as the best line of its output. Text in, text out.

The job's author controls this text: it is read once, line by line, and steers nothing.
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from framework.spark.driver.boilerplate import meaningful

#: Bytes at the end of a log that are looked at, and characters of a line.
TAIL = 1 << 16
_LONGEST = 2000

_TRACEBACK = "Traceback (most recent call last):"
# Log4j's line as Spark sets it up; the first group is the level.
_LOGGED = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) [^ ]{1,200}: ?")
#: The entry below ERROR of another logger: its level, behind a time at most, or in JSON.
_MINOR = re.compile(
    r"(?:[\[(]?\d\d[\dTZ:.,+/ -]{4,40})?[\[(| -]{0,5}(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING)\b"
    r"|\{.{0,500}\"(?:level|levelname|severity)\": ?\"(?i:trace|debug|info|notice|warn|warning)\""
)
#: The frame that Python draws around the exceptions of a group, and the rules between them.
_FRAME = re.compile(r"^ {2,}(?:[|+] ?|\+-\+?)(?:-+ (?:\d+|\.\.\.) -+$|-+$)?")
_GROUP = "Exception Group Traceback (most recent call last):"
_COLOURS = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_NAME = r"[A-Za-z_$][\w$]{0,100}(?:\.[\w$]{1,100}){0,20}"
# Java also names the thread, or says "Caused by".
_JAVA = re.compile(
    rf'(?:Caused by: |: |Exception in thread "[^"]{{0,200}}" )?({_NAME}(?:Error|Exception)\b.*)'
)
_CAUSE = "Caused by: "
#: The frames of an exception of Java.
_AT = re.compile(r"\s+at [\w.$/]|\s+\.\.\. \d+ more")
_STACK = re.compile(
    rf"{_AT.pattern}|JVM stacktrace:|Traceback |(?:During handling|The above)|Exception |"
    r"\S+:\d+: \w{1,50}Warning: "
)
#: Lines of an exception's message that are looked at.
_MESSAGE = 50
#: Lines before a traceback of an error that ended nothing.
_IGNORED = re.compile(r"Exception ignored in|Error in atexit|--- Logging error ---")
_IN_THREAD = "Exception in thread "
_CRASH = re.compile(
    r"(?:# +)?(A fatal error has been detected by the Java Runtime Environment:|"
    r"There is insufficient memory for the Java Runtime|Terminating due to java\.lang\.OutOfMemoryError.*|"
    r"java\.lang\.OutOfMemoryError.*|Error opening zip file or JAR manifest missing.*|"
    r"Error occurred during initialization of VM|Fatal Python error: .*)"
)
#: Crash messages that need no further line.
_WHOLE = ("Terminating", "java.", "Error opening", "Fatal Python")
_ERROR = re.compile(r"(?:[\w./ \[\]-]{1,60}: )?(?:fatal|panic|(?:fatal )?error): \S", re.IGNORECASE)
_OF_JAVA = ("py4j.protocol.Py4JJavaError", "py4j.protocol.Py4JError")
#: What Python says when its JVM is at its end, out of memory or crashed: the JVM says why.
_OF_ENDED_JAVA = (
    *_OF_JAVA,
    "py4j.protocol.Py4JNetworkError",
    "ConnectionRefusedError",
    "ConnectionResetError",
)


class LastWords(NamedTuple):
    """A line that a driver printed, empty when there is none; an `error`, or only the last output."""

    text: str
    error: bool


def last_words(stderr: bytes, stdout: bytes) -> LastWords:
    """The line that best explains a driver's failure, in the last `TAIL` bytes of its output.

    That is the end of the last Python traceback (Spark prints a Python driver's errors to stdout); where
    that only tells of Java, or there is none, the last exception of Java, or its cause, or what ended a
    thread of it or all of it; else the message of
    a JVM or an interpreter that crashed; else the last line that calls itself an error; else, as no error,
    the last line that is neither a log entry below ERROR nor boilerplate.
    """
    complaints, output = meaningful(_grave(_lines(stderr))), meaningful(_grave(_lines(stdout)))
    python, crash = _python(output) or _python(complaints), _crash(complaints) or _crash(output)
    for found in (
        python if not (python or "").startswith(_OF_ENDED_JAVA) else _ended(complaints) or crash or python,
        _java(complaints),
        crash,
        _error(complaints) or _error(output),
    ):
        if found:
            return LastWords(found, error=True)
    return LastWords(_plain(complaints) or _plain(output), error=False)


def _lines(tail: bytes) -> list[str]:
    text = _COLOURS.sub("", tail[-TAIL:].decode(errors="replace"))
    # A file that was cut while it was written has gaps of NULs.
    lines = [line[:_LONGEST].rstrip() for line in text.replace("\0", " ").split("\n")]
    return [_FRAME.sub("", line) for line in lines] if _GROUP in text else lines


def _grave(lines: Sequence[str]) -> list[str]:
    """The lines without exceptions in log entries below ERROR, such as those of tasks tried again."""
    kept, number = list[str](), 0
    while number < len(lines):
        kept.append(lines[number])
        number = _end_of_entry(lines, number) if _is_minor(lines[number]) else number + 1
    return kept


def _is_minor(line: str) -> bool:
    logged = _LOGGED.match(line)
    return bool(_MINOR.match(line)) if logged is None else logged[1] not in ("ERROR", "FATAL")


def _end_of_entry(lines: Sequence[str], start: int) -> int:
    """The line behind a log entry and its exception of Java, if it has one."""
    end = start + 1
    for number in range(start + 1, len(lines)):
        line = lines[number]
        if _LOGGED.match(line) or _MINOR.match(line) or line.startswith(_IN_THREAD):
            break
        if _AT.match(line):
            end = number + 1
        elif line == _TRACEBACK and end == number > start + 1:
            break  # of the program itself
    return end


def _python(lines: Sequence[str]) -> str | None:
    starts = [
        number
        for number, line in enumerate(lines)
        if line.endswith(_TRACEBACK) and not (number and _IGNORED.match(lines[number - 1]))
    ]
    if not starts:
        # A mistake in the syntax of the program itself has no traceback.
        return next((line for line in reversed(lines) if re.match(r"\w{1,50}Error: ", line)), None)
    # What ends one thread of many seldom ends the program.
    own = [start for start in starts if not (start and lines[start - 1].startswith(_IN_THREAD))]
    rest = lines[(own or starts)[-1] + 1 :]
    number = next((number for number, line in enumerate(rest) if line and not line[0].isspace()), None)
    if number is None:
        return None  # it is cut off
    block = list(takewhile(lambda line: not _LOGGED.match(line), rest[number + 1 :]))
    if rest[number].startswith(_OF_JAVA):
        return _java(block) or rest[number]
    if rest[number].endswith(":") and (cause := _java(block)):
        return f"{rest[number]} {cause}"  # Spark's, which names the failed part, and not the reason
    return _with_end(rest[number], block)


def _with_end(first: str, after: Sequence[str]) -> str:
    """An exception's first line, with the last one of its message where that has several."""
    message = list(takewhile(_goes_on, after[:_MESSAGE]))
    return f"{first} ... {message[-1].strip()}" if message else first


def _goes_on(line: str) -> bool:
    """Whether a line behind the first one of an exception is still part of its message."""
    return bool(line.strip()) and not any(other.match(line) for other in (_STACK, _LOGGED, _MINOR))


def _crash(lines: Sequence[str]) -> str | None:
    """Message of a JVM or a Python that crashed."""
    for number, line in enumerate(lines):
        if not (found := _CRASH.match(line)):
            continue
        said = (each.lstrip("# ").strip() for each in lines[number + 1 : number + 5])
        more = next(filter(None, said), "")
        return found[1] if not more or found[1].startswith(_WHOLE) else f"{found[1].rstrip(':.')}: {more}"
    return None


def _error(lines: Sequence[str]) -> str | None:
    return next((line.strip() for line in reversed(lines) if _ERROR.match(line)), None)


def _ended(lines: Sequence[str]) -> str | None:
    """The error that ended a thread of Java; None where none did."""
    return _java(lines) if any(line.startswith(_IN_THREAD) for line in lines) else None


def _java(lines: Sequence[str]) -> str | None:
    threads = [n for n, line in enumerate(lines) if line.startswith(_IN_THREAD)]
    if threads:
        lines = lines[threads[-1] :]
        lines = [lines[0], *takewhile(lambda line: not _LOGGED.match(line), lines[1:])]
    found = [(n, line.removeprefix(_CAUSE)) for n, line in enumerate(lines) if line.startswith(_CAUSE)]
    named = [(n, match[1]) for n, line in enumerate(lines) if (match := _JAVA.match(line))]
    if not (found or named):
        return None
    number, text = (found or named)[-1]
    before = [line for n, line in named if n < number]
    message = text.partition(": ")[2]
    if found and before and message and message in before[-1] and text not in before[-1]:
        return before[-1]  # it says the same, and of which file or program
    return _with_end(text, lines[number + 1 :])


def _plain(lines: Sequence[str]) -> str:
    for line in reversed(lines):
        if line.strip() and not _is_minor(line):
            logged = _LOGGED.match(line)
            return line[logged.end() :] if logged else line.strip()
    return ""
