"""A log for a reader: Spark's own lines left out by level, and nothing that steers the reader's terminal."""

from __future__ import annotations

import re
from typing import Literal

from stoker.characters import visible

#: Spark's own lines that are shown: none, or those of this level and above.
Level = Literal["off", "error", "warn", "info"]

#: A line of Spark's log4j: 26/11/25 21:00:00 INFO SparkContext: ...
_SPARK = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ")
#: What Spark prints besides, without a level: banners, progress, dependencies.
_BANNER = re.compile(
    r"Setting default log level to |To adjust logging level use |Using Spark's default log4j profile: |"
    r"Picked up (JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS): |WARNING: Using incubator modules: |"
    r"\r?\[Stage \d+:|:: (loading|resolving|retrieving|resolution) "
)
_RANKS = {"TRACE": 0, "DEBUG": 0, "INFO": 1, "WARN": 2, "ERROR": 3, "FATAL": 3}
_LEAST = {"info": 1, "warn": 2, "error": 3, "off": 4}


class LogText:
    """Filters and escapes a log part by part; buffers an unfinished line until `end`."""

    def __init__(self, level: Level | None = None, *, escape: bool = False) -> None:
        self._least = 0 if level is None else _LEAST[level]
        self._escape = escape
        self._held = ""

    def add(self, part: str) -> str:
        """Return the text to show after this part."""
        text = self._held + part
        whole = len(text) - (self._escape and text.endswith("\r"))
        cut = text.rfind("\n") + 1 if self._least else whole
        self._held = text[cut:]
        return self._shown(text[:cut])

    def end(self) -> str:
        """Return the buffered rest at the end of the log."""
        text, self._held = self._held, ""
        return self._shown(text)

    def _shown(self, text: str) -> str:
        if self._least:
            text = "".join(line for line in re.split(r"(?<=\n)", text) if self._is_shown(line))
        return visible(text.replace("\r\n", "\n")) if self._escape else text

    def _is_shown(self, line: str) -> bool:
        if found := _SPARK.match(line):
            return _RANKS[found[1]] >= self._least
        return _BANNER.match(line) is None
