"""Lines that programs print regardless of their result: banners, usage, hints, progress.

`last_error.py` picks the line among the others that explains a driver's failure.
"""

import re
from collections.abc import Sequence

_BOILERPLATE = re.compile(
    r"""\s*(?:
    Welcome\ to\b | Using\ (?:Spark's|Python|Scala)\b | Setting\ default\ log\ level
    | To\ adjust\ logging\ level | Spark(?:\ context|\ session|Session)\ (?:available|Web)
    | Type\ (?:--help|in\ expressions|:help|"help") | (?:Branch|Revision|Url)\ \S+$ | Compiled\ by\ user
    | version\ \d | Picked\ up\ (?:_?JAVA|JDK)\w* | (?:OpenJDK|Java\ HotSpot).*warning:
    | (?:WARNING|Warning):\  | warnings\.warn\( | SLF4J: | log4j: | ERROR\ StatusLogger
    | :: | Ivy\ Default\ Cache | The\ jars\ for\ the\ packages | confs:
    | \[Stage\ \d | \d+%
    | (?:[Tt]ry|[Ss]ee|[Rr]un|[Rr]un\ with)\ \S+(?:\ \S+)?\ --help
    | Error:\ (?:Could\ not\ create\ the\ Java\ Virtual|A\ (?:JNI|fatal\ exception)\ )
    | (?:JVM|Driver)\ stacktrace: | \.\.\.\ \d+\ more | Done\.?$ | Shutdown\ hook\ called
    | Executor\ \d+\ (?:waits|joins)
    )""",
    re.VERBOSE,
)
_USAGE = re.compile(r"\s*usage\b[: ]", re.IGNORECASE)
#: An option as usage shows one: its name, and its meaning after blanks.
_OPTION = re.compile(r"\s+--?[A-Za-z][\w-]*(?:[ ,=].*)?$")
#: Two letters or digits that follow each other: a line without them is a drawing.
_WORD = re.compile(r"[^\W_]{2}")
_ERROR = re.compile(r".{0,100}\b(?:error|exception|traceback|fatal)\b", re.IGNORECASE)


def meaningful(lines: Sequence[str]) -> list[str]:
    """The lines without those that say nothing of a failure; blank ones stay, since they part others."""
    kept, usage = [], False
    for line in lines:
        if _USAGE.match(line) and not _ERROR.match(line.partition(":")[2]):
            usage = True
        elif usage and _goes_on(line):
            continue
        else:
            usage = False
            if not _says_nothing(line):
                kept.append(line)
    return kept


def _goes_on(line: str) -> bool:
    """Whether a line behind the beginning of usage is still part of it."""
    if _ERROR.match(line) and not line.startswith((" ", "\t", "-")):
        return False
    return not line.strip() or line[0].isspace() or line.startswith("-") or line.endswith(":")


def _says_nothing(line: str) -> bool:
    if not line.strip():
        return False
    if _BOILERPLATE.match(line) or _OPTION.match(line):
        return True
    drawn = not _WORD.search(line) or (" version " in line and "/_/" in line)
    text = line.strip()
    framed = not any(map(str.isalnum, text[:3] + text[-3:]))  # as in: *** My program 1.0 ***
    return drawn or (framed and not _ERROR.match(line))
