"""The bipartite model of Zhao 2023, 2.1: ports, instances, resources, edges; the reward of an allocation.

No learning here: that is in `learner`. Memory grows with the edges of the graph times the resources, never
with ports times instances.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from agents.oga.kernel import ascent
from agents.oga.kernel.planes import Graph, IndexArray
from conf.util.counted import counted
from environment.types import FloatArray, IntArray

#: How a port's request a_l^k is read: as a bound of each channel (Zhao 2023, eq. 5), or of the job in all, as
#: the comparison partners read it.
Request = Literal["per_channel", "total"]
#: Names of the utilities (eq. 51); a name's position is its code in the kernels.
UTILITIES = ("linear", "log", "reciprocal", "poly")


class ModelError(ValueError):
    """A model that cannot be; the text names the fault."""


@dataclass(frozen=True, slots=True)
class Model:
    """Ports, instances and resources by name, and the graph between them; make one with `build_model`."""

    ports: tuple[str, ...]
    instances: tuple[str, ...]
    resources: tuple[str, ...]
    graph: Graph
    request: Request

    @property
    def shape(self) -> tuple[int, int]:
        """(K, E): the shape of an allocation."""
        return len(self.resources), self.graph.port.size

    @property
    def jobs(self) -> int:
        """J: the number of jobs that the ports belong to; L, but for gangs."""
        return int(self.graph.job.max()) + 1 if self.graph.job.size else 0

    @property
    def density(self) -> float:
        """Edges per instance."""
        return self.graph.port.size / max(len(self.instances), 1)

    @property
    def width(self) -> int:
        """The most edges that an instance or a port has."""
        graph = self.graph
        return int(max(1, np.diff(graph.start).max(initial=0), np.diff(graph.port_start).max(initial=0)))

    def edges_of(self, port: int) -> IndexArray:
        """Edges of the port, by instance."""
        return self.graph.edges[self.graph.port_start[port] : self.graph.port_start[port + 1]]

    def edge(self, port: int, instance: int) -> int | None:
        """The edge between them, None when there is none."""
        begin, end = self.graph.start[instance], self.graph.start[instance + 1]
        found = begin + int(np.searchsorted(self.graph.port[begin:end], port))
        return found if found < end and self.graph.port[found] == port else None

    def job_totals(self, y: FloatArray) -> FloatArray:
        """Amount of each resource that each job gets, [K, J]."""
        out = np.empty((y.shape[0], self.jobs))
        ascent.job_totals(self.graph, y, out, 0, y.shape[0])
        return out

    def port_totals(self, y: FloatArray) -> FloatArray:
        """Amount of each resource that each port gets, over all instances, [K, L]."""
        return _sums(y, self.graph.port, len(self.ports))

    def instance_totals(self, y: FloatArray) -> FloatArray:
        """Amount of each resource that each instance allocates, [K, R]."""
        return _sums(y, self.graph.instance, len(self.instances))

    def gains(self, arrivals: ArrayLike, y: FloatArray) -> FloatArray:
        """The computation gain of each port that has a job (first part of eq. 7), [L]."""
        out = np.empty(len(self.ports))
        ascent.port_gains(self.graph, y, _arrivals(self, arrivals), out)
        return out

    def reward(self, arrivals: ArrayLike, y: FloatArray, weights: FloatArray | None = None) -> float:
        """q(x, y) of Zhao 2023, eq. 7-8, for x [L] and y [K, E]; `weights` [L] multiply ports' gains."""
        gain, overhead = self.gain_and_overhead(arrivals, y, weights)
        return gain - overhead

    def gain_and_overhead(
        self, arrivals: ArrayLike, y: FloatArray, weights: FloatArray | None = None
    ) -> tuple[float, float]:
        """The two parts of `reward`, each summed over the jobs that arrived."""
        x = _arrivals(self, arrivals)
        gains = self.gains(x, y)
        totals = self.job_totals(y)
        overheads = np.empty(totals.shape[1])
        ascent.job_overheads(self.graph, totals, overheads)
        counted = gains * x if weights is None else gains * x * weights
        return float(counted.sum()), float(overheads @ self.jobs_of(x))

    def jobs_of(self, arrivals: ArrayLike) -> FloatArray:
        """Arrivals of jobs [J] from those of ports [L]: a job is there when one of its tasks is."""
        x = _arrivals(self, arrivals)
        if self.jobs == x.size:
            return x
        jobs = np.zeros(self.jobs)
        np.maximum.at(jobs, self.graph.job, x)
        return jobs

    def violation(self, y: FloatArray) -> float:
        """Largest violation of a constraint, in units of the resource; 0 for a feasible y [K, E]."""
        graph = self.graph
        bounds = graph.bounds[:, graph.port]
        broken = [-y, y - bounds, self.instance_totals(y) - graph.capacity]
        if self.request == "total":
            broken.append(self.port_totals(y) - graph.bounds)
        return max(0.0, *(float(np.max(part, initial=0.0)) for part in broken))


def build_model(
    edges: ArrayLike,
    requests: ArrayLike,
    capacities: ArrayLike,
    *,
    utilities: ArrayLike,
    alphas: ArrayLike,
    beta: ArrayLike,
    request: Request = "per_channel",
    ports: Sequence[str] | None = None,
    instances: Sequence[str] | None = None,
    resources: Sequence[str] | None = None,
    jobs: ArrayLike | None = None,
) -> Model:
    """A model of `edges` [E, 2] (port, instance), `requests` [L, K], `capacities` [R, K].

    `utilities` [R, K] are codes, positions in UTILITIES, or one code for all; `alphas` [R, K] and `beta` [K]
    may be single numbers too. `jobs` [L] is the job of each port (its own when not given). Edges may
    come in any order; the model sorts them by instance, then port. ModelError for inconsistent arguments.
    """
    asked, had = _table("requests", requests), _table("capacities", capacities)
    if request not in get_args(Request):
        raise ModelError(f"request: should be per_channel or total, found {request!r}")
    if asked.shape[1] != had.shape[1]:
        raise ModelError(
            f"requests are of {counted(asked.shape[1], 'resource')}, capacities of {had.shape[1]}"
        )
    pairs = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    pairs = pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))]
    _check_edges(pairs, len(asked), len(had))
    owners = np.arange(len(asked)) if jobs is None else np.asarray(jobs, dtype=np.int64)
    if owners.shape != (len(asked),) or (owners.size and owners.min() < 0):
        raise ModelError(f"jobs: one number from 0 for each of the {counted(len(asked), 'port')}")
    by_port = np.argsort(pairs[:, 0], kind="stable")
    kinds = np.array(np.broadcast_to(np.asarray(utilities, dtype=np.int64), had.shape).T, order="C")
    if kinds.size and not (kinds.min() >= 0 and kinds.max() < len(UTILITIES)):
        raise ModelError(f"utilities: codes from 0 to {len(UTILITIES) - 1}")
    alpha = np.array(np.broadcast_to(np.asarray(alphas, dtype=np.float64), had.shape).T, order="C")
    if not (alpha > 0).all():
        raise ModelError("alphas: must be positive")
    weights = np.array(np.broadcast_to(np.asarray(beta, dtype=np.float64), had.shape[1]))
    if not ((weights >= 0) & (weights <= 1)).all():
        raise ModelError("beta: must be between 0 and 1")
    graph = Graph(
        start=np.searchsorted(pairs[:, 1], np.arange(len(had) + 1)),
        port=pairs[:, 0].astype(np.uint32),
        instance=pairs[:, 1].astype(np.uint32),
        port_start=np.searchsorted(pairs[by_port, 0], np.arange(len(asked) + 1)),
        edges=by_port.astype(np.uint32),
        job=owners.astype(np.uint32),
        bounds=np.ascontiguousarray(asked.T),
        capacity=np.ascontiguousarray(had.T),
        kinds=kinds,
        alphas=alpha,
        beta=weights,
    )
    return Model(
        ports=_names("ports", ports, len(asked)),
        instances=_names("instances", instances, len(had)),
        resources=_names("resources", resources, had.shape[1]),
        graph=graph,
        request=request,
    )


def dominant_shares(model: Model) -> FloatArray:
    """s_l of each port, [L]: the largest a_l^k over the amount of k on its instances (Zhao 2023, 4)."""
    graph = model.graph
    reach = model.port_totals(graph.capacity[:, graph.instance])
    shares = np.divide(graph.bounds, reach, out=np.full_like(reach, np.inf), where=reach > 0)
    largest: FloatArray = np.max(np.where(graph.bounds > 0, shares, 0.0), axis=0, initial=0.0)
    return largest


def _sums(y: FloatArray, owner: IndexArray, count: int) -> FloatArray:
    return np.array([np.bincount(owner, plane, count) for plane in y]).reshape(len(y), count)


def _table(what: str, values: ArrayLike) -> FloatArray:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2:
        raise ModelError(f"{what}: should be a table, found {table.ndim} dimensions")
    if not (np.isfinite(table) & (table >= 0)).all():
        raise ModelError(f"{what}: must be finite and not negative")
    return table


def _check_edges(pairs: IntArray, ports: int, instances: int) -> None:
    if not len(pairs):
        return
    if pairs.min() < 0 or pairs[:, 0].max() >= ports or pairs[:, 1].max() >= instances:
        raise ModelError(f"edges: should join ports 0 to {ports - 1} and instances 0 to {instances - 1}")
    if (np.diff(pairs, axis=0) == 0).all(axis=1).any():
        raise ModelError("edges: one is given twice")


def _names(what: str, names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    found = tuple(str(number) for number in range(count)) if names is None else tuple(names)
    if len(found) != count or len(set(found)) != count:
        raise ModelError(f"{what}: {count} different names expected, found {len(found)}")
    return found


def _arrivals(model: Model, arrivals: ArrayLike) -> FloatArray:
    x = np.asarray(arrivals, dtype=np.float64)
    if x.shape != (len(model.ports),):
        raise ModelError(f"arrivals: {len(model.ports)} numbers expected, one for each port, found {x.shape}")
    return x
