"""Jobs as ports of a model: one of each type (Zhao 2023, 2.1), several (3.4), gangs of tasks (3.5).

Each of several jobs that may come in a slot has a port of its own; a job of several tasks has one for each.
These share the job's overhead, while each earns the gain of its own amounts. So the model stays an ordinary
one, and allocators know nothing of jobs. The paper omits the way to enforce a gang's minimum of tasks; here:

* A task counts as scheduled when it gets at least a share `floor` of its request of every resource. Without a
  floor the condition would be empty: any crumb is more than nothing, so the set of allocations with at
  least m scheduled tasks is dense in the convex set without the condition, and the best y* is the same.
* Learning goes on in that convex set, by supergradients of the concave reward. So Theorem 1 holds for the
  learned state, against the best allocation without the minimum, which is at least as good as the best with
  it.
* In each slot, `settle` changes an allocation to one that meets the minimum: it admits jobs and tasks as far
  as their floors fit, and projects onto the constraints given the admitted ones, which are convex again. A
  job that cannot get its minimum gets nothing, and leaves it to the others. This is the same for all
  allocators.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from agents.oga.bipartite import Model, ModelError, build_model
from agents.oga.kernel import admission, ascent
from conf.util.counted import counted
from environment.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class PortJobs:
    """A model with jobs or their tasks as ports, and these jobs' conditions to start; see `jobs_of`."""

    #: Its ports are sorted by job.
    model: Model
    #: [J] which type a job is of, and which of those that come in a slot, from 0.
    type: IntArray
    position: IntArray
    #: [J] m_l: how many tasks must be scheduled, or else none.
    minimum: IntArray
    #: The least share of its request of every resource with which a task is scheduled.
    floor: float

    def __post_init__(self) -> None:
        owners, tasks = self.model.graph.job.astype(np.int64), np.bincount(self.model.graph.job)
        shapes = {column.shape for column in (self.type, self.position, self.minimum)}
        if shapes != {tasks.shape} or not tasks.all() or (np.diff(owners) < 0).any():
            raise ModelError(
                "jobs: types, positions and minima of jobs whose ports are in their order expected"
            )
        if min(self.type.min(), self.position.min()) < 0:
            raise ModelError("jobs: types and positions are counted from 0")
        if not 0 < self.floor <= 1:
            raise ModelError(f"floor: more than 0 and at most 1 expected, found {self.floor:g}")
        if wrong := np.flatnonzero((self.minimum < 0) | (self.minimum > tasks)).tolist():
            least, count = int(self.minimum[wrong[0]]), int(tasks[wrong[0]])
            raise ModelError(
                f"minimum: between 0 and a job's {counted(count, 'task')} expected, found {least}"
            )

    @property
    def types(self) -> int:
        """Number of job types."""
        return int(self.type.max()) + 1

    def arrivals(self, counts: ArrayLike) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
        """Arrivals [..., L] of ports, 0 or 1, for numbers of jobs [..., types]; surplus jobs are cut."""
        there = self.position < np.asarray(counts)[..., self.type]
        # In C's order, as fancy indexing leaves it otherwise, and a slot's arrivals should lie together.
        return there[..., self.model.graph.job].astype(np.uint8, order="C")

    def scheduled(self, y: FloatArray, arrivals: FloatArray) -> IntArray:
        """Number of scheduled tasks of each present job under y [K, E], [J], for arrivals [L]."""
        counts = np.empty(self.minimum.size, np.int64)
        admission.count_scheduled(self.model.graph, y, arrivals, self.floor, counts)
        return counts

    def settle(self, y: FloatArray, arrivals: FloatArray) -> FloatArray:
        """An allocation near y [K, E] in which each job that is there has its minimum, and others nothing.

        `y` is kept, and is the answer where no job has a minimum.
        """
        if not self.minimum.any():
            return y
        model, graph = self.model, self.model.graph
        lower, admitted = self._admit(y, arrivals)
        upper = np.where(admitted[graph.port], graph.bounds[:, graph.port], 0.0) - lower
        room = graph.capacity - model.instance_totals(lower)
        extra = np.empty(model.shape)
        scratch = np.zeros((model.shape[0], 2, model.width))
        ascent.project_between(graph, y - lower, upper, np.maximum(room, 0.0), extra, scratch)
        if model.request == "total":
            # A floor may be the whole request, and by rounding more.
            left = np.maximum(graph.bounds - model.port_totals(lower), 0.0)
            got = model.port_totals(extra)
            share = np.divide(left, got, out=np.ones_like(got), where=got > left)
            extra *= np.clip(share, 0.0, 1.0)[:, graph.port]
        return lower + extra

    def turns(self, y: FloatArray, arrivals: FloatArray) -> IntArray:
        """The present jobs in the order of admission: by their reward under y."""
        model = self.model
        gains = np.bincount(model.graph.job, model.gains(np.ones(len(model.ports)), y), model.jobs)
        worth = gains - (model.graph.beta[:, None] * model.job_totals(y)).max(axis=0)
        order = np.argsort(-worth, kind="stable")
        there: IntArray = order[model.jobs_of(arrivals)[order] > 0]
        return there

    def _admit(
        self, y: FloatArray, arrivals: FloatArray
    ) -> "tuple[FloatArray, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]":
        """Floors [K, E] of the tasks that start, and which they are [L]."""
        model, graph = self.model, self.model.graph
        ports, jobs = len(model.ports), self.minimum.size
        lower, admitted = np.empty(model.shape), np.empty(ports, np.bool_)
        admission.admit(
            graph,
            y,
            self.turns(y, arrivals),
            np.searchsorted(graph.job, np.arange(jobs + 1)),
            self.minimum,
            self.floor,
            graph.capacity.copy(),
            lower,
            admitted,
            np.empty(ports),
            np.empty(ports, np.int64),
            np.empty(jobs, np.int64),
            np.empty(model.width, np.bool_),
        )
        return lower, admitted


def jobs_of(
    model: Model,
    most: Sequence[int] | None = None,
    tasks: Sequence[ArrayLike] | None = None,
    minimum: Sequence[int] | None = None,
    floor: float = 0.5,
) -> PortJobs:
    """Jobs of a model that has types as ports.

    Up to most[l] jobs of type l come in a slot (J_l of Zhao 2023, 3.4; one when not given), each with
    tasks[l] [Q_l, K] (one, the type's request, when not given). At least minimum[l] of them start or none (0,
    no minimum, when not given). Every task may use the type's instances. ModelError for inconsistent
    arguments.
    """
    types = len(model.ports)
    for name, values in (("most", most), ("tasks", tasks), ("minimum", minimum)):
        if values is not None and len(values) != types:
            raise ModelError(f"{name}: {types} expected, one for each type, found {len(values)}")
    if most is not None and min(most) < 1:
        raise ModelError(f"most: numbers from 1 expected, found {min(most)}")
    counts = np.ones(types, np.int64) if most is None else np.asarray(most, np.int64)
    kinds = np.repeat(np.arange(types), counts)
    positions = np.concatenate([np.arange(count) for count in counts])
    made = model
    if most is not None or tasks is not None:
        requests = (
            model.graph.bounds.T[:, None] if tasks is None else [np.array(asked, ndmin=2) for asked in tasks]
        )
        made = _with_tasks(model, kinds, positions, [requests[kind] for kind in kinds])
    least = np.zeros(types, np.int64) if minimum is None else np.asarray(minimum, np.int64)
    return PortJobs(made, kinds, positions, least[kinds], floor)


def _with_tasks(model: Model, kinds: IntArray, positions: IntArray, requests: Sequence[FloatArray]) -> Model:
    """The model with a port for each task of each job, joined with the instances of the job's type."""
    graph = model.graph
    sizes = [len(asked) for asked in requests]
    owners = np.repeat(np.arange(len(kinds)), sizes)
    edges = [
        np.stack([np.full(there.size, port), there], axis=1)
        for port, owner in enumerate(owners)
        for there in (graph.instance[model.edges_of(int(kinds[owner]))].astype(np.int64),)
    ]
    names = [
        f"{model.ports[kind]}#{position}/{task}"
        for kind, position, size in zip(kinds, positions, sizes, strict=True)
        for task in range(size)
    ]
    return build_model(
        np.concatenate(edges),
        np.concatenate(requests),
        graph.capacity.T,
        utilities=graph.kinds.T,
        alphas=graph.alphas.T,
        beta=graph.beta,
        request=model.request,
        ports=names,
        instances=model.instances,
        resources=model.resources,
        jobs=owners,
    )
