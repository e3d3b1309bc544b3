"""The allocation that earns most for given arrivals, and an upper bound on the reward of any.

With arrivals of a slot this is the per-slot optimum; with each port's mean arrivals, the best stationary
allocation y* (Zhao 2023, eq. 10). `kernel.maximum` fills planes at given prices; here are the
weights of the overheads, which are learned over rounds and slots alike.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from agents.oga.bipartite import Model, dominant_shares
from agents.oga.kernel import ascent, conserving, maximum
from agents.oga.kernel.utilities import LINEAR
from environment.types import FloatArray

#: How strongly shares of a linear utility are pulled to their centre, as a share of its slope. Chosen: below
#: the worth of an overhead, above the values at which shares jump from round to round.
SOFTNESS = 0.05
#: `conserve` fills at least and at most so often, ends when a round adds less than this share to the reward,
#: and shifts weights at this rate. Chosen: within 2 % of the optimum at three rounds or four.
ROUNDS, GROWTH, RATE = (2, 12), 5e-3, 0.5


@dataclass(frozen=True, slots=True)
class Optimum:
    """An allocation [K, E], its reward, and an upper bound on any allocation's reward."""

    y: FloatArray
    reward: float
    upper: float

    @property
    def gap(self) -> float:
        """Largest possible surplus of another allocation, as a share of this one's reward."""
        return (self.upper - self.reward) / max(abs(self.reward), 1e-12)


class Maximiser:
    """Fills planes at the prices of overheads, and learns the prices.

    `weights` [K, J] are the overhead weights w_j (columns sum to one): which resource's overhead dominates a
    job, or between which it is balanced. `level` and `nu` are the prices of capacities and requests, kept as
    the next search's start.
    """

    def __init__(self, model: Model) -> None:
        graph = model.graph
        self.model = model
        resources = graph.beta.size
        self.weights: FloatArray = np.full((resources, model.jobs), 1.0 / resources)
        self._level = np.zeros(graph.capacity.shape)
        self._nu = np.zeros(graph.bounds.shape)
        self._prices = np.zeros((2, *graph.bounds.shape))
        self._scratch = np.zeros((resources, maximum.ROWS, model.width))
        self._held = np.zeros((2, resources, model.jobs))
        self._there = np.zeros(model.jobs)
        # Where every utility is linear the optimum lies in a corner, such as serving ports in turn leads to.
        linear = bool((graph.kinds == LINEAR).all())
        orders = (np.arange(len(model.ports)), np.argsort(dominant_shares(model), kind="stable"))
        self._turns = np.array(orders if linear else ()).astype(np.int64).reshape(-1, len(model.ports))
        self._free = np.zeros(graph.capacity.shape)
        self._queue, self._used = np.zeros(model.width, dtype=np.uint32), np.zeros(model.width)

    def fill(
        self,
        arrivals: FloatArray,
        gains: FloatArray,
        centre: FloatArray,
        out: FloatArray,
        softness: float = SOFTNESS,
        sweeps: int = 8,
    ) -> None:
        """Fill `out` [K, E] for arrivals and gains [L] (the factors of f), at the present weights."""
        graph = self.model.graph
        maximum.maximise(
            graph,
            gains,
            self.prices(arrivals),
            centre,
            softness,
            self.model.request == "total",
            out,
            self._level,
            self._nu,
            self._prices[1],
            self._scratch,
            1e-6,
            sweeps,
            0,
            graph.beta.size,
        )

    def upper_bound(self, arrivals: FloatArray, gains: FloatArray) -> float:
        """Upper bound on any allocation's reward, from the prices of the last fill."""
        return float(
            maximum.upper_bound(
                self.model.graph,
                gains,
                self.prices(arrivals),
                self._level,
                self._nu,
                self.model.request == "total",
                self._scratch,
            )
        )

    def prices(self, arrivals: FloatArray) -> FloatArray:
        """Each port's overhead price of a unit of each resource, [K, L]; scratch of the maximiser."""
        prices: FloatArray = self._prices[0]
        conserving.overhead_prices(self.model.graph, self.weights, arrivals, prices)
        return prices

    def reweigh(self, arrivals: FloatArray, y: FloatArray, rate: float) -> None:
        """Shift the weights of present jobs to the resources with the dominant overheads in y."""
        graph = self.model.graph
        held = self._held[0]
        ascent.job_totals(graph, y, held, 0, graph.beta.size)
        conserving.present_jobs(graph, arrivals, self._there)
        conserving.reweigh(graph, held, self._there, rate, self.weights)

    def conserve(
        self, arrivals: FloatArray, gains: FloatArray, centre: FloatArray, tries: FloatArray
    ) -> FloatArray:
        """The best of some rounds of filling and weighing again, one of `tries` [2, K, E]."""
        best = conserving.conserve(
            self.model.graph,
            arrivals,
            gains,
            centre,
            SOFTNESS,
            self.model.request == "total",
            self.weights,
            self._level,
            self._nu,
            self._prices,
            self._scratch,
            self._held,
            self._there,
            self._turns,
            self._free,
            self._queue,
            self._used,
            tries,
            8,
            *ROUNDS,
            GROWTH,
            RATE,
        )
        chosen: FloatArray = tries[best]
        return chosen


def maximise(
    model: Model,
    arrivals: ArrayLike,
    gains: ArrayLike | None = None,
    rounds: int = 400,
    enough: float = 1e-4,
) -> Optimum:
    """The best allocation for these arrivals [L], until its gap is `enough` or the rounds are over.

    `gains` [L] multiply f; the arrivals when not given. Arrivals need not be whole: with the mean arrivals
    of a trajectory this is y*, and rewards are per slot.
    """
    x = np.asarray(arrivals, dtype=np.float64)
    multiplied = x if gains is None else np.asarray(gains, dtype=np.float64)
    extra = np.divide(multiplied, x, out=np.zeros_like(x), where=x > 0)
    maximiser = Maximiser(model)
    y, mean = np.zeros(model.shape), np.zeros(model.shape)
    best, earned, upper = y, -np.inf, np.inf
    for number in range(rounds):
        maximiser.fill(x, multiplied, mean, y, sweeps=30)
        # Later rounds count more, since their prices are better.
        mean += (y - mean) * (2.0 / (number + 2.0))
        for candidate in (y, mean):
            reward = model.reward(x, candidate, extra)
            if reward > earned:
                best, earned = candidate.copy(), reward
        upper = min(upper, maximiser.upper_bound(x, multiplied))
        if upper - earned <= enough * abs(earned):
            break
        maximiser.reweigh(x, mean if number % 2 else y, 2.0 / (1.0 + number) ** 0.5)
    return Optimum(best, earned, upper)
