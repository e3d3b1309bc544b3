"""Policies' beliefs about spot VMs in a simulation, and their distance from the truth.

The cluster file and the profiles define the truth, and events follow it. An operator has read a rate
somewhere and has measured some of the job types once, so belief errs, by pool, type and seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from conf.defaults import SPOT_ERROR
from environment.simulation.durations.beliefs import error_of
from environment.simulation.durations.endless_jobs import kept_off
from environment.types import Job, Rework, Vm

#: Above it belief says nothing any more. Chosen, as with durations.
_MOST = 2.0


@dataclass(frozen=True, slots=True)
class SpotBelief:
    """The truth with log-normal errors of mean 1; `sigma` is the standard deviation of their logarithm.

    With 0 all is known exactly. A share of work that is done again is 1 at most.
    """

    sigma: float = SPOT_ERROR

    def __post_init__(self) -> None:
        if not 0 <= self.sigma <= _MOST:
            raise ValueError(f"should be exact, or a number from 0 to {_MOST:g}, found {self.sigma:g}")

    @classmethod
    def read(cls, text: str) -> "SpotBelief":
        """Read `exact` or a number; ValueError lists the valid values."""
        try:
            sigma = 0.0 if text == "exact" else float(text)
        except ValueError:
            raise ValueError(f"should be exact, or a number such as 0.5, found {text!r}") from None
        return cls(sigma)

    def __str__(self) -> str:
        return f"{self.sigma:g}" if self.sigma else "exact"

    def of(self, jobs: Sequence[Job], vms: Sequence[Vm], seed: int) -> tuple[tuple[Job, ...], tuple[Vm, ...]]:
        """Jobs and VMs as believed; each job is barred from spot VMs on which it then never ends."""
        believed = self.of_vms(vms, seed)
        return kept_off(self.of_jobs(jobs, seed), believed), believed

    def of_vms(self, vms: Sequence[Vm], seed: int) -> tuple[Vm, ...]:
        """The VMs with how often they are believed to be taken away, the same for all of a pool."""
        return tuple(self._vm(vm, seed) for vm in vms) if self.sigma else tuple(vms)

    def _vm(self, vm: Vm, seed: int) -> Vm:
        if vm.terms is None or (spot := vm.terms.spot) is None:
            return vm
        rate = spot.interruptions_per_hour * error_of(f"spot/{seed}/{vm.terms.pool}", self.sigma)
        return replace(vm, terms=replace(vm.terms, spot=replace(spot, interruptions_per_hour=rate)))

    def of_jobs(self, jobs: Sequence[Job], seed: int) -> tuple[Job, ...]:
        """The jobs with the believed shares of an interrupted executor's work that are repeated."""
        if not self.sigma:
            return tuple(jobs)
        errors = {of: error_of(f"rework/{seed}/{of}", self.sigma) for of in {job.type for job in jobs}}
        return tuple(replace(job, rework=_times(job.rework, errors[job.type])) for job in jobs)


def _times(rework: Rework, error: float) -> Rework:
    return Rework(min(rework.lost * error, 1.0), min(rework.drained * error, 1.0))
