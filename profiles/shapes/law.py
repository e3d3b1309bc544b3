"""The law of a job type: its seconds on a shape, by six numbers.

For W core-seconds of work that scales with the input,

    seconds / W = (computing^4 + moving^4)^(1/4)
    computing = serial + 1 / (executors cores speed)
    moving = (disk + spilling missing) (1 + crowding cores / memory) / executors
    missing = steepness (1 - executors (memory - reserved) / (working_set input)), within 0 and 1
    reserved = RESERVED_GIB, and no more than half of the memory

Cores compute while each executor's VM reads and writes, so that the slower of the two decides (the fourth
power is a smooth maximum of them). What does not fit into the memory of all executors is read again from
disk, or computed anew: the cliff. Many cores with little memory each crowd the disk.
"""

from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from profiles.shapes.runs import JobShape

Floats: TypeAlias = npt.NDArray[np.float64]

#: Memory that the VM's system and Spark's own needs take of each executor.
RESERVED_GIB = 2.0


class Law(NamedTuple):
    """The numbers of one law, or arrays of as many laws.

    `serial`, `disk` and `spilling` are shares of the work of one core: by one core alone, by each
    executor's VM at any rate, and by it once the working set (GiB per GiB of input) does not fit at all.
    """

    serial: Floats | float
    disk: Floats | float
    spilling: Floats | float
    working_set: Floats | float
    crowding: Floats | float
    steepness: Floats | float

    def seconds(self, shape: JobShape, input_gib: float) -> Floats:
        """Seconds on the shape for each core-second of work a GiB of the input."""
        cores = shape.executors * shape.cores * shape.speed
        held = shape.executors * max(shape.memory_gib - RESERVED_GIB, shape.memory_gib / 2)
        missing = np.clip(self.steepness * (1 - held / (self.working_set * np.float64(input_gib))), 0.0, 1.0)
        computing = self.serial + 1 / np.float64(cores)
        crowd = 1 + self.crowding * np.float64(shape.cores / shape.memory_gib)
        moving = (self.disk + self.spilling * missing) * crowd / np.float64(shape.executors)
        # Products and roots round alike on every processor, powers do not.
        squares = computing * computing, moving * moving
        return np.asarray(input_gib * np.sqrt(np.sqrt(squares[0] * squares[0] + squares[1] * squares[1])))


#: Least and most of each number of a law, in its order; candidates are spread on a logarithmic scale.
_BOUNDS = ((1e-4, 1.0), (1e-3, 0.2), (1e-2, 10.0), (0.05, 20.0), (1e-2, 3.0), (1.0, 8.0))
_PRIMES = (2, 3, 5, 7, 11, 13)


@lru_cache(maxsize=4)
def candidate_laws(count: int) -> Law:
    """So many laws, spread evenly over all that are thought of (Halton's sequence)."""
    return Law(
        *(
            np.exp(np.log(low) + _halton(count, base) * (np.log(high) - np.log(low)))
            for (low, high), base in zip(_BOUNDS, _PRIMES, strict=True)
        )
    )


def _halton(count: int, base: int) -> Floats:
    left, share, values = np.arange(1, count + 1), 1.0, np.zeros(count)
    while left.any():
        share /= base
        values += share * (left % base)
        left //= base
    return values
