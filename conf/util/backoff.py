"""Truncated exponential backoff: the pauses between tries of everything that may fail again."""

from typing import NamedTuple


class Backoff(NamedTuple):
    """Pauses between tries: `first` seconds, then `factor` times as long each time, up to `longest`."""

    first: float = 1.0
    factor: float = 2.0
    longest: float = 60.0

    def after(self, failures: int) -> float:
        """Seconds of pause after so many failures in a row, the first being 1."""
        return float(min(self.first * self.factor ** min(max(failures - 1, 0), 60), self.longest))

    def following(self, pause: float) -> float:
        """Seconds of the pause after one of that length, of this backoff or a shorter one."""
        return min(self.factor * pause, self.longest)
