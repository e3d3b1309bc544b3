"""A long search for a good schedule with all jobs known: an upper bound on the cost of the best one.

Simulated annealing over lists (see `kernel.listing`): the order of jobs, the way each is placed, and the cost
limit for starting it rather than waiting. The effort is counted in schedules, so that the result is the same
on every machine.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agents.bound.instance import Instance, OfflineSchedule, ScheduleCost
from agents.bound.kernel.listing import BAD, CHEAPEST, GOOD, ON, ListedInstance, play
from environment.types import FloatArray

Told = Callable[[int, int, str], None]

#: Cost limits within which a job begins at once, as multiples of its cost where VMs are shared perfectly.
_LIMITS = (0.4, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, np.inf)
#: The first and last temperature, as shares of the value.
_HOT, _COLD = 2e-3, 1e-5
#: Schedules between two reports of progress.
_TOLD = 200


@dataclass(frozen=True, slots=True)
class OfflineAim:
    """The objective to minimise: beta x cost + (1 - beta) x mean completion, each by its own scale."""

    beta: float
    dollars: float
    seconds: float

    def of(self, played: ScheduleCost) -> float:
        """The value of a schedule."""
        return self.beta * played.cost / self.dollars + (1 - self.beta) * played.completion / self.seconds


def aim_for(instance: Instance, beta: float) -> OfflineAim:
    """Scales are the perfect-packing cost, if VMs cost anything, and the mean of the shortest durations."""
    dollars = float(least_costs(instance).sum())
    return OfflineAim(beta, dollars if dollars > 0.0 else 1.0, float(instance.duration.mean()))


def least_costs(instance: Instance) -> FloatArray:
    """Dollars of each job when VMs are shared perfectly, by the resource it uses most of there, [M]."""
    asked, had = instance.size[:, None, :], np.maximum(instance.capacity[None], 1)
    fits = instance.room > 0
    share = np.where(fits, (asked / had).max(axis=2), np.inf) * instance.price[None]
    costs: FloatArray = share.min(axis=1) * instance.executors * instance.duration
    return costs


def search(
    instance: Instance, aim: OfflineAim, tries: int, seed: int = 0, told: Told | None = None
) -> tuple[OfflineSchedule, ScheduleCost]:
    """Search `tries` schedules; return the best one and its cost."""
    given, draw = listed(instance), np.random.default_rng(seed)
    jobs = len(instance.jobs)
    best: tuple[float, OfflineSchedule, ScheduleCost] | None = None
    value, begin = np.inf, 0
    for number in range(tries):
        share = number / max(tries - 1, 1)
        kept = given.order.copy(), given.way.copy(), given.limit.copy()
        if number in _BEGINNINGS:
            given.limit[:] = _BEGINNINGS[number]
        else:
            _vary(given, draw, jobs)
        cost, seconds = play(given)
        found = ScheduleCost(cost, seconds / jobs)
        new = aim.of(found)
        temperature = aim.of(best[2]) * _HOT * (_COLD / _HOT) ** share if best else np.inf
        if best is None or new < best[0]:
            best = new, _schedule(instance, given), found
        if number in _BEGINNINGS:
            if new < value:
                value, begin = new, number
            given.limit[:] = _BEGINNINGS[begin]
        elif new <= value or draw.random() < np.exp((value - new) / temperature):
            value = new
        else:
            given.order[:], given.way[:], given.limit[:] = kept
        if told is not None and number % _TOLD == 0:
            told(number, tries, f"{best[2].cost:.3f} $, {best[2].completion:.0f} s")
    if best is None:
        raise ValueError(f"tries: at least 1 expected, found {tries}")
    return best[1], best[2]


#: Limits of the first tries, which begin in order of arrival; the best of them is where the search begins.
_BEGINNINGS = dict(enumerate(reversed(_LIMITS[2:])))


def listed(instance: Instance) -> ListedInstance:
    """The list of jobs in order of arrival, placed where it costs least."""
    jobs, vms = len(instance.jobs), len(instance.vms)
    counts = np.cumsum(instance.executors)
    return ListedInstance(
        size=instance.size,
        capacity=instance.capacity,
        executors=instance.executors,
        first=counts - instance.executors,
        arrival=instance.arrival,
        duration=instance.duration,
        prefers=instance.prefers,
        price=instance.price,
        penalty=float(instance.penalty),
        least=least_costs(instance),
        order=np.arange(jobs),
        way=np.full(jobs, CHEAPEST),
        limit=np.full(jobs, np.inf),
        queue=np.zeros(jobs, np.int64),
        free=instance.capacity.copy(),
        held=np.zeros(vms, np.int64),
        since=np.zeros(vms),
        busy=np.zeros(vms),
        taken=np.zeros(vms, np.int64),
        room=np.zeros(vms, np.int64),
        start=np.full(jobs, -1.0),
        end=np.zeros(jobs),
        placement=np.zeros(int(counts[-1]), np.int64),
    )


def _vary(given: ListedInstance, draw: np.random.Generator, jobs: int) -> None:
    """Change one thing or two about the list."""
    for _ in range(1 + (draw.random() < 0.3)):
        which, job = draw.random(), int(draw.integers(jobs))
        if which < 0.4 and jobs > 1:
            # Near its place more often than far from it.
            far = round(draw.exponential(max(jobs / 8, 1.5))) * (1 if draw.random() < 0.5 else -1)
            to = min(max(job + (far or 1), 0), jobs - 1)
            moved = given.order[job]
            if to > job:
                given.order[job:to] = given.order[job + 1 : to + 1]
            else:
                given.order[to + 1 : job + 1] = given.order[to:job]
            given.order[to] = moved
        elif which < 0.75:
            given.limit[job] = _LIMITS[int(draw.integers(len(_LIMITS)))]
        elif draw.random() < 0.6:
            given.way[job] = (CHEAPEST, GOOD, BAD)[int(draw.integers(3))]
        else:
            given.way[job] = ON + int(draw.integers(len(given.price)))


def _schedule(instance: Instance, given: ListedInstance) -> OfflineSchedule:
    firsts = given.first.tolist()
    placements = tuple(
        tuple(given.placement[at : at + count].tolist())
        for at, count in zip(firsts, instance.executors.tolist(), strict=True)
    )
    return OfflineSchedule(tuple(given.start.tolist()), placements)
