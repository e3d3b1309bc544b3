"""OgaSched's learner: online gradient ascent over allocations, and the allocation of each slot.

The learned state is y [K, E], an allocation over edges x resources, with the overhead weights of jobs and the
gains of ports. The model is in `bipartite`, the maximisation that `oga-conserving` uses in `maximiser`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from agents.oga.bipartite import Model, ModelError
from agents.oga.kernel import ascent
from agents.oga.maximiser import Maximiser
from environment.kernel.threads import ThreadedRows
from environment.types import FloatArray

#: When y is decided, and the use of the reservations of absent ports.
Variant = Literal["oga", "oga-reactive", "oga-conserving"]
#: The length of a step: eta_0 * decay^t (Algorithm 1), eq. 50 at every slot, or the constant of Theorem 1's
#: proof.
StepSize = Literal["decay", "eq50", "theorem1"]

_GAIN_RANGE = (0.1, 10.0)
#: When the projection onto totals of a step is near enough: the remaining error is smaller than the step's
#: own, and the result is feasible all the same.
_TOLERANCE, _SWEEPS = 1e-3, 30
#: From so many values (edges x resources) threads share a step. Chosen: at 60,000 two threads are 1.7 times
#: as fast as one; at 20,000 the gain comes and goes, and where other work fills the cores it is a loss.
_SHARED_FROM = 50_000


@dataclass(frozen=True, slots=True)
class LearnerOptions:
    """Options of the learner; ValueError for invalid ones."""

    #: `oga`: y(t) is fixed before x(t) is seen (Zhao 2023, Definition 2). `oga-reactive`: a step on x(t) is
    #: taken before acting. `oga-conserving`: the present ports get the allocation that earns most, from all
    #: capacity; the learned y is worth next to nothing there, except where utilities are linear and requests
    #: bound totals.
    variant: Variant = "oga-conserving"
    step_size: StepSize = "decay"
    #: eta_0 and lambda of Algorithm 1; the defaults are Table 2's.
    eta0: float = 25.0
    decay: float = 0.9999
    #: T of eq. 50 and Theorem 1, in slots.
    horizon: int = 2000
    #: How much of a job's surprise goes into the gain of its port, between 0 and 1.
    gain_rate: float = 0.2
    #: Threads that share a step, at most one for each resource, where the model is large enough that it pays;
    #: the result is the same to the bit.
    threads: int = 1

    def __post_init__(self) -> None:
        for name, kind in (("variant", Variant), ("step_size", StepSize)):
            if getattr(self, name) not in get_args(kind):
                known = ", ".join(get_args(kind))
                raise ValueError(f"{name}: should be one of {known}, found {getattr(self, name)!r}")
        if not 0 < self.eta0 < np.inf or not 0 < self.decay <= 1.1:
            raise ValueError("eta0 must be positive, decay between 0 and 1.1")
        if self.horizon < 1 or not 0 <= self.gain_rate <= 1:
            raise ValueError("horizon must be at least 1, gain_rate between 0 and 1")
        if self.threads < 1:
            raise ValueError(f"threads: should be at least 1, found {self.threads}")


@dataclass(frozen=True, slots=True)
class EdgeState:
    """The last step on one edge; all arrays are [K]."""

    port: str
    instance: str
    #: y before the step, and its gradient there (eq. 30) for the arrivals of the step.
    before: FloatArray
    gradient: FloatArray
    #: Where the step led, and the projection of that: the y of the next slot.
    ascended: FloatArray
    after: FloatArray
    #: Allocation of the port in that slot.
    allocated: FloatArray


@dataclass(slots=True)
class _Step:
    """Data of the last step for its explanation."""

    gains: FloatArray
    overheads: FloatArray
    eta: float = 0.0


@dataclass(slots=True)
class _Buffers:
    """Memory that steps use again and again."""

    theta: FloatArray
    nu: FloatArray
    sums: FloatArray
    scratch: FloatArray
    totals: FloatArray
    raised: FloatArray
    tries: FloatArray


class AllocationLearner(ThreadedRows):
    """Allocates slot by slot and learns from the arrivals.

    `y` [K, E] is the learned allocation, always feasible; `gains` [L] are the ratios of the ports' jobs'
    achievements to the promises of their utilities (1 until observed). The constructor starts from shares in
    proportion to requests. With several threads, close it when done, or use it in a `with`.
    """

    def __init__(self, model: Model, options: LearnerOptions | None = None) -> None:
        self.model = model
        self.options = options or LearnerOptions()
        resources, edges = model.shape
        super().__init__(resources, self.options.threads if resources * edges >= _SHARED_FROM else 1)
        self.slots = 0
        self.gains: FloatArray = np.ones(len(model.ports))
        self.y: FloatArray = _proportional(model)
        self.before: FloatArray = self.y.copy()
        self.allocated: FloatArray = np.zeros(model.shape)
        self._maximiser = Maximiser(model)
        graph = model.graph
        self._buffers = _Buffers(
            theta=np.zeros(graph.capacity.shape),
            nu=np.zeros(graph.bounds.shape),
            sums=np.zeros(graph.bounds.shape),
            scratch=np.zeros((model.shape[0], 2, model.width)),
            totals=model.job_totals(self.y),
            raised=np.zeros(model.shape if model.request == "total" else (0, 0)),
            tries=np.zeros((2, *model.shape) if self.options.variant == "oga-conserving" else (0, 0, 0)),
        )
        self._last = _Step(np.zeros(len(model.ports)), np.zeros(graph.bounds.shape))

    def step(self, arrivals: ArrayLike) -> FloatArray:
        """Allocate to the ports that have a job (x [L], counts), and learn; return the allocation [K, E].

        Edges of absent ports may hold reserved amounts for them (`oga`, `oga-reactive`); they earn nothing.
        The array is the learner's own until the next step: copy it to retain it.
        """
        x = np.asarray(arrivals, dtype=np.float64)
        if x.shape != self.gains.shape:
            raise ModelError(f"arrivals: {self.gains.size} numbers expected, found shape {x.shape}")
        self._learn(x)
        self.slots += 1
        if self.options.variant == "oga":
            self.allocated = self.before
        elif self.options.variant == "oga-reactive":
            self.allocated = self.y
        else:
            self.allocated = self._maximiser.conserve(x, x * self.gains, self.y, self._buffers.tries)
        return self.allocated

    def observe(self, port: int, promised: float, achieved: float) -> None:
        """Learn from the achievement of a job of the port and the promise of f (`Model.gains`, same unit)."""
        if not (promised > 0 and achieved >= 0):
            return
        low, high = _GAIN_RANGE
        surprise = min(max(achieved / promised, low), high) - self.gains[port]
        self.gains[port] += self.options.gain_rate * surprise

    def explain(self, port: int) -> tuple[EdgeState, ...]:
        """The last step on the edges of a port, by instance."""
        model, last = self.model, self._last
        edges = model.edges_of(port)
        gradient = np.zeros(model.shape)
        ascent.gradient(model.graph, self.before, last.gains, last.overheads, gradient, 0, model.shape[0])
        ascended = self.before + last.eta * gradient
        return tuple(
            EdgeState(
                port=model.ports[port],
                instance=model.instances[model.graph.instance[edge]],
                before=self.before[:, edge].copy(),
                gradient=gradient[:, edge].copy(),
                ascended=ascended[:, edge].copy(),
                after=self.y[:, edge].copy(),
                allocated=self.allocated[:, edge].copy(),
            )
            for edge in edges
        )

    def moved_to(self, model: Model) -> "AllocationLearner":
        """A learner for another model, with the known state of its ports, instances and resources.

        They are matched by name. A new edge starts from its proportional share; y is projected
        onto the new model's constraints.
        """
        other = AllocationLearner(model, self.options)
        other._restore(self.state())
        return other

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """All that is learned, as arrays that `numpy.savez` takes."""
        graph = self.model.graph
        return {
            "ports": np.array(self.model.ports, dtype=np.str_),
            "instances": np.array(self.model.instances, dtype=np.str_),
            "resources": np.array(self.model.resources, dtype=np.str_),
            "edges": np.stack([graph.port, graph.instance], axis=1),
            "y": self.y.copy(),
            "gains": self.gains.copy(),
            "weights": self._maximiser.weights[:, graph.job].copy(),
            "slots": np.array(self.slots),
        }

    @classmethod
    def restored(
        cls,
        model: Model,
        state: Mapping[str, np.ndarray[Any, Any]],
        options: LearnerOptions | None = None,
    ) -> "AllocationLearner":
        """A learner for the model with the state in `state`; ModelError when the arrays do not fit."""
        learner = cls(model, options)
        try:
            learner._restore(state)
        except (KeyError, IndexError, ValueError) as error:
            raise ModelError(f"state: cannot be read: {type(error).__name__}: {error}") from error
        return learner

    def _learn(self, x: FloatArray) -> None:
        """Take one step of Algorithm 1 from y, and store the old y as `before`."""
        step = self._last
        step.gains = x * self.gains
        ascent.dominate(self.model.graph, self._buffers.totals, x, step.overheads)
        step.eta = self._eta()
        self.before, self.y = self.y, self.before
        self._share(self._move)

    def _move(self, first: int, last: int) -> None:
        """Ascend and project from `before` to y, for resources first to last, and update the jobs' totals."""
        graph, buffers, step = self.model.graph, self._buffers, self._last
        theta, scratch = buffers.theta, buffers.scratch
        if self.model.request == "total":
            raised = buffers.raised[first:last]
            ascent.gradient(graph, self.before, step.gains, step.overheads, buffers.raised, first, last)
            raised *= step.eta
            raised += self.before[first:last]
            ascent.project_totals(
                graph,
                buffers.raised,
                self.y,
                theta,
                buffers.nu,
                buffers.sums,
                scratch,
                _TOLERANCE,
                _SWEEPS,
                first,
                last,
            )
        else:
            ascent.ascend(
                graph,
                self.before,
                step.gains,
                step.overheads,
                step.eta,
                self.y,
                theta,
                scratch,
                first,
                last,
            )
        ascent.job_totals(graph, self.y, buffers.totals, first, last)

    def _eta(self) -> float:
        options = self.options
        if options.step_size == "decay":
            return float(options.eta0 * options.decay**self.slots)
        if options.step_size == "theorem1":
            return diameter(self.model) / float(gradient_bound(self.model) * options.horizon**0.5)
        last = self._last
        gradient = np.empty(self.model.shape)
        ascent.gradient(
            self.model.graph, self.y, last.gains, last.overheads, gradient, 0, self.model.shape[0]
        )
        norm = ascent.squared_norm(gradient) ** 0.5
        return diameter(self.model) / float(norm * options.horizon**0.5) if norm > 0 else 0.0

    def _restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        model = self.model
        ports, instances, resources = (
            {str(name): number for number, name in enumerate(names)}
            for names in (model.ports, model.instances, model.resources)
        )
        rows = np.array([resources.get(str(name), -1) for name in state["resources"]], dtype=np.int64)
        kept, old = np.flatnonzero(rows >= 0), rows[rows >= 0]
        was = [ports.get(str(name)) for name in state["ports"]]
        where = [instances.get(str(name)) for name in state["instances"]]
        for number, (port, instance) in enumerate(state["edges"]):
            p, r = was[port], where[instance]
            edge = None if p is None or r is None else model.edge(p, r)
            if edge is not None:
                self.y[old, edge] = state["y"][kept, number]
        for number, p in enumerate(was):
            if p is not None:
                self.gains[p] = state["gains"][number]
                self._maximiser.weights[old, model.graph.job[p]] = state["weights"][kept, number]
        self._maximiser.weights /= np.maximum(self._maximiser.weights.sum(axis=0), 1e-12)
        self.slots = int(state["slots"])
        self.y = projected(model, self.y)
        self.before = self.y.copy()
        self._buffers.totals = model.job_totals(self.y)


def projected(model: Model, z: ArrayLike, tolerance: float = 1e-12, sweeps: int = 10_000) -> FloatArray:
    """The Euclidean projection of z [K, E] onto the model's feasible set (eq. 32).

    Exact where requests are per channel; where they are totals, until no multiplier's condition is off by
    more than `tolerance` of a request.
    """
    graph = model.graph
    out = np.empty(model.shape)
    theta, nu, sums = (np.zeros(shape.shape) for shape in (graph.capacity, graph.bounds, graph.bounds))
    scratch = np.zeros((model.shape[0], 2, model.width))
    values = np.ascontiguousarray(z, dtype=np.float64)
    if values.shape != model.shape or not np.isfinite(values).all():
        raise ModelError(f"z: finite numbers of shape {model.shape} expected, found shape {values.shape}")
    if model.request == "total":
        ascent.project_totals(
            graph, values, out, theta, nu, sums, scratch, tolerance, sweeps, 0, graph.beta.size
        )
    else:
        ascent.project(graph, values, out, theta, scratch, 0, graph.beta.size)
    return out


def diameter(model: Model) -> float:
    """The bound on diam(Y) of Zhao 2023, eq. 48."""
    graph = model.graph
    return float(np.sqrt(2.0 * (graph.bounds.max(axis=1, initial=0.0) @ graph.capacity.sum(axis=1))))


def gradient_bound(model: Model) -> float:
    """The bound on the gradient's norm of Zhao 2023, eq. 45, for at most one arrival per port."""
    graph = model.graph
    start = np.stack([graph.alphas, graph.alphas, 1.0 / graph.alphas**2, 0.5 * graph.alphas], axis=0)
    slopes = np.take_along_axis(start, graph.kinds[None], axis=0)[0]
    steepest = slopes.max(axis=0, initial=0.0)[graph.instance]
    worst = graph.beta.max(initial=0.0)
    return float(np.sqrt((worst**2 + graph.beta.size * steepest**2).sum()))


def regret_bound(model: Model, slots: int) -> float:
    """Theorem 1 (eq. 36): upper bound on the regret over `slots` slots at its step size, for all arrivals."""
    return float(diameter(model) * gradient_bound(model) * slots**0.5)


def _proportional(model: Model) -> FloatArray:
    """Shares of each instance in proportion to requests, within them."""
    graph = model.graph
    asked = graph.bounds[:, graph.port]
    sums = model.instance_totals(asked)
    ratio = np.divide(graph.capacity, sums, out=np.zeros_like(sums), where=sums > 0)
    y = asked * np.minimum(ratio, 1.0)[:, graph.instance]
    if model.request == "total":
        got = model.port_totals(y)
        share = np.divide(graph.bounds, got, out=np.ones_like(got), where=got > graph.bounds)
        y = y * share[:, graph.port]
    return np.ascontiguousarray(y)
