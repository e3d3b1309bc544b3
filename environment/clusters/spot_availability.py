"""Recorded number of spot VMs over time, for simulations to play; policies learn of it by refused VMs alone.

The files are those of "Can't Be Late" (NSDI 24): a count each `gap_seconds`.
"""

import json
import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from conf.loader import ConfigError
from conf.units import SECONDS_PER_DAY

#: Limits of a file, chosen: a count each second of two months fits.
_MOST_BYTES, _MOST_VMS = 16 << 20, 1_000_000
_FORM = 'should be {"metadata": {"gap_seconds": 30}, "data": [1, 0, ...]}'


@dataclass(frozen=True)
class SpotTrace:
    """Counts of VMs, each for `gap` seconds, from `offset` seconds of the record on; it repeats at its end.

    The offset is rounded down to a whole gap; without one `begun` draws it.
    """

    gap: float
    counts: tuple[int, ...]
    offset: float | None = None

    def __post_init__(self) -> None:
        if not 1.0 <= self.gap <= SECONDS_PER_DAY:
            raise ValueError(f"gap_seconds: should be from 1 to {SECONDS_PER_DAY:g}, found {self.gap:g}")
        if not self.counts:
            raise ValueError("data: has no counts")
        if self.offset is not None and not 0.0 <= self.offset < math.inf:
            raise ValueError(f"offset: should be 0 or more, found {self.offset:g}")

    def begun(self, seed: int) -> "SpotTrace":
        """The trace with an offset: its own, or one drawn by the seed, the same for traces of one length."""
        if self.offset is not None:
            return self
        part = Random(f"availability/{seed}").random()  # noqa: S311  # no secret
        return SpotTrace(self.gap, self.counts, part * self.gap * len(self.counts))

    def at(self, seconds: float) -> int:
        """Number of VMs then."""
        return self.counts[(self._gaps(seconds) + self._first) % len(self.counts)]

    def next_fall(self, seconds: float) -> float:
        """Time of the next smaller count; infinity where all counts are equal."""
        if not self._falls:
            return math.inf
        gaps = self._gaps(seconds)
        place = (gaps + self._first) % len(self.counts)
        later = bisect_right(self._falls, place)
        following = self._falls[later] if later < len(self._falls) else self._falls[0] + len(self.counts)
        return (gaps + following - place) * self.gap

    def _gaps(self, seconds: float) -> int:
        """Number of whole gaps until then; exact at the times of `next_fall`, which division is not."""
        gaps = int(seconds / self.gap)
        return gaps + ((gaps + 1) * self.gap <= seconds) - (gaps * self.gap > seconds)

    @cached_property
    def is_empty(self) -> bool:
        """Whether there is no VM at any time."""
        return not any(self.counts)

    @cached_property
    def _first(self) -> int:
        return int((self.offset or 0.0) / self.gap) % len(self.counts)

    @cached_property
    def _falls(self) -> tuple[int, ...]:
        """Places of counts that are smaller than the one before."""
        counts = np.array(self.counts)
        return tuple(np.flatnonzero(counts < np.roll(counts, 1)).tolist())


def read_availability(path: Path, times: int = 1, offset: float | None = None) -> SpotTrace:
    """The record of a JSON file, with so many VMs for each recorded one; ConfigError with the fault."""
    try:
        with path.open("rb") as file:
            read = file.read(_MOST_BYTES + 1)
        if len(read) > _MOST_BYTES:
            raise ConfigError(f"{path}: should have at most {_MOST_BYTES >> 20} MiB; leave out a part of it")
        found = json.loads(read)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    metadata = found.get("metadata") if isinstance(found, dict) else None
    if not isinstance(metadata, dict) or "gap_seconds" not in metadata or "data" not in found:
        raise ConfigError(f"{path}: {_FORM}")
    try:
        return SpotTrace(_gap(metadata["gap_seconds"]), tuple(_counts(found["data"], times)), offset)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def _gap(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"gap_seconds: should be a number of seconds, found {_shown(value)}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _counts(data: Any, times: int) -> list[int]:
    if not isinstance(data, list):
        raise ValueError(f"data: should be a list of counts, found {_shown(data)}")
    for place, count in enumerate(data):
        if type(count) is not int or not 0 <= count <= _MOST_VMS:
            right = f"a whole number from 0 to {_MOST_VMS:,}; samples that are missing need one, too"
            raise ValueError(f"data: count {place + 1} should be {right}, found {_shown(count)}")
    return [count * times for count in data]


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
