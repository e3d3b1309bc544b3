"""Duration of a job on more or fewer cores and with more or less memory: the curve of its type.

Its numbers stand in a profile (`job_profile`); they are fitted to measured runs in `summary`.
"""

from typing import NamedTuple

#: Multiple of the core-seconds of the thriftiest number of executors up to which more are worth having.
_DEAREST = 2.0
_ROUNDING = 1e-9
#: Number of executors beyond which more are never worth having: few runs have shown nothing of so many.
_MOST = 256


class Curve(NamedTuple):
    """seconds = startup + warming / cpus + work x (serial + (1 - serial) / cores ** power) x slowdown.

    `cores` are those of all executors, `cpus` those of one: what each executor does for itself, above all
    until its JVM is warm, no other shares with it, so that one executor of two cpus is quicker than two of
    one. With `power` 1 and without that it is Amdahl's law, with `serial` 0 a power law (AutoExecutor, arXiv
    2112.08572, fits either to a query). The slowdown grows from 1 to `spilling` with the share of
    `working_set` (MiB) that the executors' memory together does not hold.
    """

    startup: float
    work: float
    serial: float = 0.0
    power: float = 1.0
    working_set: float = 1.0
    spilling: float = 1.0
    warming: float = 0.0

    def seconds_on(self, cores: float, memory_mib: float, cpus: float) -> float:
        """Seconds on so many cores, with so much memory, of all executors together; the least has `cpus`."""
        # On less than one core all of the work is serial, on a core's share.
        pace = self.serial + (1 - self.serial) / cores**self.power if cores > 1 else 1 / cores
        missing = max(0.0, 1 - memory_mib / self.working_set)
        own = self.startup + self.warming / cpus
        return own + self.work * pace * (1 + (self.spilling - 1) * missing)

    def worth_having(self, cpus: float, memory_mib: int) -> int:
        """Largest worthwhile number of executors of that size: the most that run at half the best efficiency.

        That is, the core-seconds of all of them are at most twice those of the number that takes fewest; with
        Amdahl's law and no start-up, 1 + 1 / serial of one core. 256 at most.
        """
        spent = [n * self.seconds_on(n * cpus, n * memory_mib, cpus) for n in range(1, _MOST + 1)]
        most = _DEAREST * min(spent) * (1 + _ROUNDING)
        return max(n for n, seconds in enumerate(spent, 1) if seconds <= most)
