"""Believed cost and duration of a job on a placement, for comparing placements of different jobs."""

from agents.estimates import LEAST_WEIGHT, dollars_per_cpu_second, duration_of, effective_prices, held_for
from conf.units import SECONDS_PER_HOUR
from environment.types import Job, Place, PlacementRequest
from environment.view import ClusterView


class Worth:
    """Value of a placement on a view, for jobs with equal requests but different durations.

    A job, or a holder of a VM, of unknown duration takes `unknown` seconds.
    """

    def __init__(self, view: ClusterView, request: PlacementRequest, place: Place, unknown: float) -> None:
        vms = sorted(set(place.placement))
        self._unknown, self._sizes = unknown, request.granted(place)
        self._vms = len({*request.present_on, *(view.vms[vm].id for vm in vms)})
        self._begins = 0.0
        if view.openings is not None:
            self._begins = view.openings.starts(view.at, place.placement) - view.at
        prices = effective_prices(view, request.job, unknown)[vms] / SECONDS_PER_HOUR
        self._held = list(zip(prices.tolist(), held_for(view, unknown)[vms].tolist(), strict=True))
        self._usual = sum(size.cpus for size in self._sizes) * dollars_per_cpu_second(view)

    def of(self, job: Job, beta: float) -> float:
        """Cost and time weighed, for this job; less is better.

        Cost is the cost of the VMs for the time beyond which they are held anyway, as a multiple of the cost
        of the job's cores at the cluster's average price; time is a multiple of the job's duration when
        placed well. So both are 1 for a job of any size that is placed perfectly on new VMs.
        """
        duration = duration_of(job, self._unknown)
        expected = job.expected_on(self._sizes, self._vms)
        seconds = self._begins + (self._unknown if expected is None else expected)
        dollars: float = sum(price * max(seconds - held, 0.0) for price, held in self._held)
        cost = dollars / (self._usual * duration)
        weighed = max(beta, LEAST_WEIGHT) * cost + max(1.0 - beta, LEAST_WEIGHT) * seconds / duration
        return float(weighed)
