"""Expected durations on spot VMs, by progress: rework may outrun it, and then jobs never end.

`environment.simulation.faults.progress` computes the cost of an interruption to a running job; this module
the expectation of all of them, in closed form, before the job is placed. All times are in seconds.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from conf.defaults import NEVER, UNKNOWN_DURATION
from conf.units import SECONDS_PER_HOUR
from environment.pools import Terms
from environment.types import Job, Rework, Vm

#: No power of e beyond this is a useful number of seconds.
_MOST_EXPONENT = 700.0
#: Halvings by which a time is found within a millionth part.
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Exposure:
    """Exposure of a job to interruptions of its spot VMs, each `rate` times a second, and their effect.

    A new VM takes `boot` to be up. The job repeats `share` of the work of an executor that is taken away;
    `part` of its executors is on `vms` spot VMs.
    """

    rate: float
    boot: float
    share: float
    vms: int = 1
    part: float = 1.0

    def times(self, seconds: float) -> float:
        """Factor between a job's duration and its undisturbed one; infinity where it never ends.

        The lesser of two: until as much is done as it takes, where interruptions leave something of it; and
        until none of its VMs is taken away for as long as it takes.
        """
        if self.rate <= 0.0 or self.part <= 0.0 or seconds <= 0.0:
            return 1.0
        return min(self._piece_by_piece(seconds), self._at_once(seconds))

    def never_ends(self, seconds: float) -> bool:
        """Whether such a job never ends."""
        return self.times(seconds) > NEVER

    def _piece_by_piece(self, seconds: float) -> float:
        """Multiple of its length after which its expected lasting work reaches the whole."""
        least, most = 0.0, seconds * NEVER * 2.0
        if self._done(most) < seconds:
            return math.inf
        for _ in range(_HALVINGS):
            middle = (least + most) / 2.0
            least, most = (middle, most) if self._done(middle) < seconds else (least, middle)
        return most / seconds

    def _done(self, after: float) -> float:
        """Expected work that is done after so long.

        An executor works while its VM is up, for e^(-rate x boot) of the time. A share of its work since it
        came there is lost at each interruption: (1 - share) t + share (1 - e^(-rate t)) / rate is left.
        """
        up = math.exp(-min(self.rate * self.boot, _MOST_EXPONENT))
        left = (1.0 - self.share) * after - self.share * math.expm1(-self.rate * after) / self.rate
        return (1.0 - self.part) * after + self.part * up * left

    def _at_once(self, seconds: float) -> float:
        """Times its length until no VM is taken away for as long as it takes, where nothing stays done."""
        rate = self.rate * self.vms
        exponent = rate * (seconds + self.boot)
        return math.inf if exponent > _MOST_EXPONENT else math.expm1(exponent) / rate / seconds


def spot_terms(vms: Iterable[Vm]) -> frozenset[Terms]:
    """The terms on which spot VMs among these are had."""
    return frozenset(vm.terms for vm in vms if vm.terms is not None and vm.terms.spot is not None)


def unending_on(
    terms: Collection[Terms], seconds: float | None, rework: Rework, executors: int
) -> tuple[str, ...]:
    """The pools on these terms, by name, on which a job of that length never ends, a VM for each executor."""
    length = UNKNOWN_DURATION if seconds is None else seconds
    return tuple(sorted({of.pool for of in terms if _exposed(of, rework, executors).never_ends(length)}))


def kept_off(jobs: Sequence[Job], vms: Sequence[Vm]) -> tuple[Job, ...]:
    """The jobs, each barred from the spot VMs among these on which it never ends."""
    terms = spot_terms(vms)
    found = ((job, unending_on(terms, job.expected_duration, job.rework, job.executors)) for job in jobs)
    return tuple(job if job.unending_on == pools else replace(job, unending_on=pools) for job, pools in found)


def _exposed(terms: Terms, rework: Rework, executors: int) -> Exposure:
    if terms.spot is None:
        return Exposure(0.0, terms.boot, 0.0)
    rate = terms.spot.interruptions_per_hour / SECONDS_PER_HOUR
    return Exposure(rate, terms.boot, rework.after(terms.spot.notice), executors)
