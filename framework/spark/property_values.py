"""Parses values of Spark's properties: sizes, times, numbers, lists. Knows no property by name."""

import math
import re
from collections.abc import Callable

_SIZE = re.compile(r"([0-9]{1,18})([a-z]*)")
_BYTES = {"b": 1} | {unit + b: 1 << 10 * power for power, unit in enumerate("kmgtp", 1) for b in ("", "b")}
_TIME = re.compile(r"([0-9]{1,18})([a-z]*)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")
_CORES = re.compile(r"[0-9]{1,10}(\.[0-9]{1,10})?")
_MOST_BYTES = 1 << 51  # 2 PiB: more than a number of MiB can count here


class PropertyError(ValueError):
    """Unusable property: the message names it, and the right value."""


def size_bytes(name: str, text: str, unit: str = "b") -> int:
    """Bytes of a text such as 512m or 2g; a number alone is one of `unit`s. PropertyError for others."""
    found = _SIZE.fullmatch(text.lower())
    factor = _BYTES.get(found[2] or unit) if found else None
    if found is None or factor is None:
        raise PropertyError(f"{name}={text}: should be a whole amount of memory such as 512m or 2g")
    if (amount := int(found[1]) * factor) >= _MOST_BYTES:
        raise PropertyError(f"{name}={text}: is more memory than there can be")
    return amount


def size_mib(name: str, text: str) -> int:
    """Whole MiB of a text such as 512m or 2g; a number alone is one of MiB. PropertyError for others."""
    return size_bytes(name, text, "m") >> 20


def beside_heap_mib(given: Callable[[str, Callable[[str, str], int]], int | None]) -> int:
    """Memory (MiB) that an executor's settings give Python, and to Spark off the heap.

    `given` reads a setting by a function of its name and text; None where it is not there.
    """
    python = given("spark.executor.pyspark.memory", size_mib) or 0
    if not given("spark.memory.offHeap.enabled", boolean):
        return python
    return python + math.ceil((given("spark.memory.offHeap.size", size_bytes) or 0) / (1 << 20))


def seconds(name: str, text: str, unit: str = "s") -> float:
    """Seconds of a text such as 90s or 30m; a number alone is one of `unit`s. PropertyError for others."""
    found = _TIME.fullmatch(text.lower())
    factor = _SECONDS.get(found[2] or unit) if found else None
    if found is None or factor is None or not int(found[1]):
        raise PropertyError(f"{name}={text}: should be seconds, or a time such as 90s, 30m, 2h or 1d")
    return int(found[1]) * factor


def boolean(name: str, text: str) -> bool:
    """Read true or false, in letters of any case; PropertyError for any other text."""
    if text.lower() not in ("true", "false"):
        raise PropertyError(f"{name}={text}: should be true or false")
    return text.lower() == "true"


def whole(least: int) -> Callable[[str, str], int]:
    """A reader of whole numbers of at least `least`, such as Java's integers; PropertyError for others."""

    def read(name: str, text: str) -> int:
        if not _INTEGER.fullmatch(text) or not least <= int(text) < 1 << 31:
            raise PropertyError(f"{name}={text}: should be a whole number of at least {least}")
        return int(text)

    return read


def cores(name: str, text: str) -> float:
    """A number of cores, which Mesos counts in thousandths; PropertyError for anything else."""
    if not _CORES.fullmatch(text) or not 0.001 <= float(text) < 1e6:
        raise PropertyError(f"{name}={text}: should be a number of cores above 0, such as 2 or 0.5")
    return float(text)


def number(name: str, text: str) -> float:
    """A number; PropertyError for anything else."""
    try:
        return float(text)
    except ValueError:
        raise PropertyError(f"{name}={text}: should be a number") from None


def factor(name: str, text: str) -> float:
    """A number above 0; PropertyError for anything else."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise PropertyError(f"{name}={text}: should be a number above 0, such as 0.1")
    return value


def items(_: str, text: str) -> list[str]:
    """The items of a list with commas between them, without blanks around them and without empty ones."""
    return [item for part in text.split(",") if (item := part.strip())]
