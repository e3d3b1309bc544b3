"""Expected duration of a job on a placement, and expected end of a running job.

Numbers in, numbers out, the same in a simulation, in the daemon and, compiled, in the kernel.
`environment.view` shows these expectations to policies; `environment.simulation` defines the truth in a
simulation, and the error of beliefs about it.
"""

import math

from conf.defaults import MEASURED_SPREAD

#: Standard deviations before the median up to which, and behind it from which, nothing need be integrated.
EARLY, LATE = -5.0, 30.0


def placed_well(prefers: str | None, executors: int, vms: int) -> bool:
    """Whether so many executors on so many different VMs are placed as the type prefers (Islam 2022, 7.1).

    Spread: every executor on its own VM. Consolidated: all on one. A single executor is both.
    """
    if prefers is None:
        return True
    return vms == executors if prefers == "spread" else vms <= 1


def expected_end(now: float, started: float, seconds: float, spread: float) -> float:
    """Expected end of a job that still runs, seconds on the clock of `now` and `started`; never in the past.

    It was expected to take `seconds`. Real durations are assumed log-normal with that mean, with `spread` as
    the standard deviation of the logarithm: E[X | X > x] for a job that has run for x.
    """
    passed = now - started
    if passed <= 0.0 or (spread <= 0.0 and seconds > passed):
        return started + seconds
    if seconds <= 0.0:
        return now
    sigma = spread if spread > 0.0 else MEASURED_SPREAD  # it has outlasted its certain duration
    z = math.log(passed / seconds) / sigma + sigma / 2.0
    if z < EARLY:
        return started + seconds
    if z > LATE:
        return now + passed * sigma / (z - sigma) if z > sigma else now
    beyond = math.erfc((z - sigma) / math.sqrt(2.0)) / math.erfc(z / math.sqrt(2.0))
    return max(started + seconds * beyond, now)
