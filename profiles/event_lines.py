"""Lines of Spark's event log as events: unpacked, bounded, and parsed only where a reader wants them.

`spark_event_log` reads the stages of one application; `audit.applications` reads what executors cost.
"""

import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from conf.util.counted import counted
from profiles.packed import UNPACKING

Event = Mapping[str, Any]

#: Bytes that are read of one log, and of one line of it.
LONGEST_LOG = 1 << 30
LONGEST_LINE = 1 << 26
#: How Spark calls the files of a log that it divides, beside the one that says whether it is complete.
_ROLLED = re.compile(r"events_(?P<number>\d{1,9})_.+")
_PACKED = re.compile(r"\.(gz|lz4|lzf|snappy|zstd)$")
STATUS, COMPACTED, IN_PROGRESS = "appstatus_", ".compact", ".inprogress"
#: How every event begins, by Spark's own writer.
_BEGIN = b'{"Event":"'
#: A task's accumulated values are most of its event, and no reader here wants them.
_VALUES = b'"Accumulables":['
_AFTER_VALUES = (b']},"Task Executor Metrics":', b']},"Task Metrics":')


#: Errors of events that are not as Spark writes them.
MALFORMED = (
    TypeError,
    KeyError,
    ValueError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
)


#: Times lie between 1970 and so many seconds later, in the year 3000; bytes, cores or seconds of an event are
#: no more than that. An application writes its log itself, and its numbers are added up, drawn and fitted.
_LATEST, _MOST = 32_503_680_000.0, float(1 << 50)


class EventLogError(ValueError):
    """An event log that is not there or is none; the text names the file."""


class EventLines:
    """The events of a log, from its files in order, each with its name and unpacked; `name` labels the log.

    Only events whose name, without its package, is in `wanted` are parsed; None: all. Strictly read, a line
    that is no event raises EventLogError, and so do more than `longest` bytes, or a wanted event of more than
    `longest_event`. A `lenient` reader counts such lines in `bad`, and passes over the rest of a file that
    cannot be unpacked any further.

    The last file may be empty or cut short, since the driver ended while it wrote: half a line is left out.
    Of any other that is missing data: EventLogError, or, read leniently, its name in `lost`.
    """

    def __init__(
        self,
        files: Sequence[tuple[str, BinaryIO]],
        name: str,
        wanted: frozenset[str] | None = None,
        *,
        longest: float = LONGEST_LOG,
        longest_event: int = LONGEST_LINE,
        lenient: bool = False,
    ) -> None:
        self._files, self._name, self._wanted = files, name, wanted
        self._longest, self._longest_event, self._lenient = longest, longest_event, lenient
        self.bytes = self.lines = self.bad = 0
        #: Files before the last one of which events are missing.
        self.lost: list[str] = []

    def __iter__(self) -> Iterator[Event]:
        """Yield the events; an error of `UNPACKING` when a stream cannot be unpacked."""
        for number, (part, file) in enumerate(self._files, 1):
            before = self.lines
            complete = yield from self._events(file)
            if number < len(self._files) and not (complete and self.lines > before):
                if not self._lenient:
                    raise EventLogError(f"{self._name}: {Path(part).name} of it is empty or cut short")
                self.lost.append(Path(part).name)

    def _events(self, file: BinaryIO) -> Generator[Event, None, bool]:
        """The events of a file; whether it has a proper end."""
        while line := self._line(file):
            # The last line of a complete log may lack its end where another program copied it.
            if not line.endswith(b"\n") and not self._complete(line):
                return False
            self.bytes, self.lines = self.bytes + len(line), self.lines + 1
            if len(line) > LONGEST_LINE or self.bytes > self._longest:
                raise EventLogError(f"{self._name}:{self.lines}: larger than an event log can be")
            if self._skipped(line):
                continue
            if len(line) > self._longest_event:
                raise EventLogError(f"{self._name}:{self.lines}: larger than such an event can be")
            event = self._event(line)
            if event is not None:
                yield event
        return line is not None

    def _line(self, file: BinaryIO) -> bytes | None:
        """The next line; empty at the file's end, None where it was cut short."""
        try:
            return file.readline(LONGEST_LINE + 1)
        except UNPACKING as error:
            readable = self.lines > 0 or len(self._files) > 1
            if readable if self._lenient else isinstance(error, EOFError):
                return None
            raise

    def _complete(self, line: bytes) -> bool:
        """Whether a line without an end is an event, and not a part of one."""
        try:
            return len(line) <= self._longest_event and isinstance(json.loads(line), dict)
        except (ValueError, RecursionError):
            return False

    def _skipped(self, line: bytes) -> bool:
        if self._wanted is None or not line.startswith(_BEGIN):
            return False
        end = line.find(b'"', len(_BEGIN))
        return short_name(line[len(_BEGIN) : end].decode("utf-8", "replace")) not in self._wanted

    def _event(self, line: bytes) -> Event | None:
        try:
            event = json.loads(_without_values(line) if self._wanted else line)
            if isinstance(event, dict):
                return event
            raise EventLogError(f"{self._name}:{self.lines}: no event")
        except (ValueError, RecursionError):
            if not self._lenient:
                raise
            self.bad += 1
            return None


def time_of(milliseconds: float) -> float:
    """Seconds since the epoch; ValueError, or TypeError, for anything but a time of an event."""
    seconds = milliseconds / 1000
    if not 0.0 <= seconds <= _LATEST:
        raise ValueError("not a time of an event")
    return seconds


def amount_of(value: float) -> float:
    """An amount, 0 where Spark counted one below it; ValueError, or TypeError, for anything else."""
    if not -_MOST <= value <= _MOST:
        raise ValueError("not an amount of an event")
    return max(0.0, float(value))


def short_name(event: str) -> str:
    """The name of an event without its package, such as SparkListenerTaskEnd."""
    return event.rpartition(".")[2]


def _without_values(line: bytes) -> bytes:
    """The line of a task's end without its accumulated values.

    Inside of JSON's texts quotes are escaped, so the marks only match where such a list ends.
    """
    begin = line.find(_VALUES)
    if begin < 0:
        return line
    ends = (line.find(mark, begin) for mark in _AFTER_VALUES)
    end = min((at for at in ends if at >= 0), default=-1)
    return line if end < 0 else line[: begin + len(_VALUES)] + line[end:]


def codec(name: str) -> str:
    """The codec by which a file is packed, as Spark has it in its name; empty for none."""
    return Path(name).name.removesuffix(COMPACTED).removesuffix(IN_PROGRESS).rpartition(".")[2]


def is_rolled(name: str) -> bool:
    """Whether a file is one of those into which Spark divides a log."""
    return _ROLLED.fullmatch(Path(name).name) is not None


def application_of(rolled: str) -> str:
    """The application, with its attempt, that such a file is a part of, by its name."""
    name = Path(rolled).name.removesuffix(COMPACTED).removesuffix(IN_PROGRESS)
    return _PACKED.sub("", name.split("_", 2)[2])


def parts_of(names: Sequence[str]) -> list[str]:
    """The files, by their paths, that make up a log, in order; EventLogError when some are missing.

    That is a single file, or those of a folder in which Spark begins a new one now and then
    (`spark.eventLog.rolling.enabled`): its last compacted one, which has the rest of all before it, and
    those that follow.
    """
    rolled = {name: match for name in names if (match := _ROLLED.fullmatch(Path(name).name))}
    if not rolled:
        plain = [name for name in names if not Path(name).name.startswith(STATUS)]
        if len(plain) != 1:
            raise EventLogError(f"{', '.join(names) or 'no file'}: no event log")
        return plain
    numbers = {name: int(match["number"]) for name, match in rolled.items()}
    compacted = [numbers[name] for name in rolled if name.endswith(COMPACTED)]
    several = sorted({application_of(name) for name in rolled})
    if len(several) > 1:
        raise EventLogError(
            f"{Path(names[0]).parent}: holds the event logs of {counted(len(several), 'application')} "
            f"({', '.join(several[:3])}{', ...' if len(several) > 3 else ''}); give each a folder of its own"
        )
    first = max(compacted, default=1)
    kept = {
        numbers[name]: name
        for name in sorted(rolled, key=lambda name: (numbers[name], name.endswith(COMPACTED)))
        if numbers[name] >= first
    }
    for number in range(first, max(numbers.values()) + 1):
        if number not in kept:
            raise EventLogError(f"{Path(names[0]).parent}: file {number} of the event log is missing")
    return [kept[number] for number in sorted(kept)]
