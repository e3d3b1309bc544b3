"""Numbers that look random and depend on nothing but their seed: the same in every thread and order."""

import numpy as np

from environment.kernel.compiled import njit

_TWO_TO_53 = 9007199254740992.0


@njit(entry=True)
def mix(number: int) -> int:
    """Scramble 63 bits (the finaliser of SplitMix64)."""
    x = np.uint64(number)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return int(x >> np.uint64(1))


@njit(entry=True)
def uniform(seed: int, number: int) -> float:
    """A number within 0 and 1 that depends on nothing but the two."""
    return float((mix(mix(seed) + number) >> 10) / _TWO_TO_53)
