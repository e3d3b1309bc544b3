"""Several jobs of a type in one slot (Zhao 2023, 3.4), and gangs, whose tasks start together or not (3.5).

Both become ports of an ordinary model: a port for each of the jobs that may come at once, or for each task of
a job, whose tasks then share the job's overhead. The paper omits how a gang's minimum of tasks is kept; here:

* A task counts as scheduled when it gets at least a share `floor` of its request of every resource. Without a
  floor the condition would be empty: any crumb is more than nothing, so the set of allocations with at
  least m scheduled tasks is dense in the convex set without the condition, and the best y* is the same.
* Learning goes on in that convex set, by supergradients of the concave reward. So Theorem 1 holds for what is
  learned, against the best allocation without the minimum, which is at least as good as the best with it.
* In each slot, `settle` makes of an allocation one that keeps the minimum: it admits jobs and tasks as far as
  their floors fit, and projects onto what is allowed given who is admitted, which is convex again. A job that
  cannot have its minimum gets nothing, and leaves it to the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agents.oga.kernel import ascent
from agents.oga.learner import Learner
from agents.oga.model import Model, ModelError, build_model
from environment.types import FloatArray, IntArray

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Copies:
    """A model with as many ports for each type as jobs of it may come in a slot."""

    model: Model
    #: [L'] which type a port is of, and which of its jobs it serves, from 0.
    type: IntArray
    position: IntArray

    def arrivals(self, counts: ArrayLike) -> FloatArray:
        """Arrivals [L'] of ports for numbers of jobs [L] of each type; more than there are ports are cut."""
        return (self.position < np.asarray(counts)[self.type]).astype(np.float64)


def copies(model: Model, most: Sequence[int]) -> Copies:
    """Ports for up to most[l] jobs of each type l (J_l of Zhao 2023, 3.4)."""
    if len(most) != len(model.ports) or min(most, default=1) < 1:
        raise ModelError(f"most: {len(model.ports)} numbers from 1 expected")
    types = np.repeat(np.arange(len(most)), most)
    positions = np.concatenate([np.arange(count) for count in most])
    names = [f"{model.ports[t]}#{j}" for t, j in zip(types, positions, strict=True)]
    return Copies(_with_ports(model, types, model.graph.bounds.T[types], names, None), types, positions)


@dataclass(frozen=True, slots=True)
class Gangs:
    """A model whose ports are tasks, and what its jobs need to start."""

    model: Model
    #: [J] m_l: how many tasks must be scheduled, or else none.
    minimum: IntArray
    #: The least share of its request with which a task is scheduled.
    floor: float

    def arrivals(self, jobs: ArrayLike) -> FloatArray:
        """Arrivals [L] of tasks for arrivals [J] of jobs."""
        return np.asarray(jobs, dtype=np.float64)[self.model.graph.job]

    def scheduled(self, y: FloatArray) -> IntArray:
        """How many tasks of each job are scheduled by y [K, E], [J]."""
        graph = self.model.graph
        enough = (self.model.port_totals(y) >= self.floor * graph.bounds - 1e-9).all(axis=0)
        asked = (graph.bounds > 0).any(axis=0)
        return np.bincount(graph.job, enough & asked, self.model.jobs).astype(np.int64)

    def settle(self, y: FloatArray, jobs: ArrayLike) -> FloatArray:
        """An allocation near y [K, E] in which each job [J] has its minimum or nothing; `y` is kept."""
        there = np.asarray(jobs) > 0
        lower, admitted = self._admit(y, there)
        graph = self.model.graph
        upper = np.where(admitted[graph.port], graph.bounds[:, graph.port], 0.0) - lower
        room = graph.capacity - self.model.instance_totals(lower)
        extra = np.empty(self.model.shape)
        scratch = np.zeros((self.model.shape[0], 2, self.model.width))
        ascent.project_between(graph, y - lower, upper, np.maximum(room, 0.0), extra, scratch)
        if self.model.request == "total":
            left, got = graph.bounds - self.model.port_totals(lower), self.model.port_totals(extra)
            share = np.divide(left, got, out=np.ones_like(got), where=got > left)
            extra *= np.clip(share, 0.0, 1.0)[:, graph.port]
        return lower + extra

    def _admit(self, y: FloatArray, there: BoolArray) -> tuple[FloatArray, BoolArray]:
        """Floors [K, E] of the tasks that start, and which they are [L]; jobs that earn most are first."""
        model, graph = self.model, self.model.graph
        lower, free = np.zeros(model.shape), graph.capacity.copy()
        admitted = np.zeros(len(model.ports), dtype=np.bool_)
        worth = _worth(model, y)
        order = sorted(np.flatnonzero(there), key=lambda job: -worth[job])
        waiting: list[int] = []
        for job in order:
            tasks = sorted(np.flatnonzero(graph.job == job), key=lambda p: -self._met(y, p))
            before = lower.copy(), free.copy()
            chosen: list[int] = []
            for number, task in enumerate(tasks):
                if len(chosen) == self.minimum[job]:
                    waiting += tasks[number:]
                    break
                if self._reserve(y, task, lower, free):
                    chosen.append(task)
            if len(chosen) < self.minimum[job]:
                lower, free = before
                continue
            admitted[chosen] = True
        for task in waiting:
            admitted[task] = self._reserve(y, task, lower, free)
        return lower, admitted

    def _met(self, y: FloatArray, port: int) -> float:
        """How far y meets a task's floor in the resource where it does so least."""
        bounds = self.model.graph.bounds[:, port]
        got = y[:, self.model.edges_of(port)].sum(axis=1)
        return float(np.min(got[bounds > 0] / bounds[bounds > 0], initial=np.inf))

    def _reserve(self, y: FloatArray, port: int, lower: FloatArray, free: FloatArray) -> bool:
        """Take a task's floor where y gives it most; nothing is taken when it does not fit."""
        graph, edges = self.model.graph, self.model.edges_of(port)
        taken = np.zeros((self.model.shape[0], edges.size))
        for k in range(self.model.shape[0]):
            needed = self.floor * graph.bounds[k, port]
            for i in np.argsort(-y[k, edges], kind="stable"):
                taken[k, i] = min(needed, free[k, graph.instance[edges[i]]], graph.bounds[k, port])
                needed -= taken[k, i]
            if needed > 1e-9:
                return False
        lower[:, edges] += taken
        free[:, graph.instance[edges]] -= taken
        return True


class GangLearner:
    """A learner over tasks whose allocations keep the minimum of every job."""

    def __init__(self, gangs: Gangs, learner: Learner) -> None:
        self.gangs = gangs
        self.learner = learner

    def step(self, jobs: ArrayLike) -> FloatArray:
        """Allocate to the jobs [J] that are there, each its minimum of tasks or nothing, and learn."""
        y = self.learner.step(self.gangs.arrivals(jobs))
        return self.gangs.settle(y, jobs)


def gangs(model: Model, tasks: Sequence[ArrayLike], minimum: Sequence[int], floor: float = 0.5) -> Gangs:
    """Tasks [Q_l, K] for each port l of a model, joined with the port's instances, and its minimum m_l."""
    if len(tasks) != len(model.ports) or len(minimum) != len(model.ports) or not 0 < floor <= 1:
        raise ModelError(
            "gangs: tasks and a minimum for every port, and a floor above 0, at most 1, expected"
        )
    requests = [np.asarray(task, dtype=np.float64).reshape(-1, len(model.resources)) for task in tasks]
    for port, asked, least in zip(model.ports, requests, minimum, strict=True):
        if not 0 <= least <= len(asked):
            raise ModelError(
                f"minimum of {port}: between 0 and its {len(asked)} tasks expected, found {least}"
            )
    owners = np.repeat(np.arange(len(tasks)), [len(asked) for asked in requests])
    names = [f"{model.ports[port]}/{q}" for port, asked in enumerate(requests) for q in range(len(asked))]
    made = _with_ports(model, owners, np.concatenate(requests), names, owners)
    return Gangs(made, np.asarray(minimum, dtype=np.int64), floor)


def _worth(model: Model, y: FloatArray) -> FloatArray:
    """What y would earn each job, were it there, [J]."""
    gains = np.bincount(model.graph.job, model.gains(np.ones(len(model.ports)), y), model.jobs)
    overheads = (model.graph.beta[:, None] * model.job_totals(y)).max(axis=0)
    worth: FloatArray = gains - overheads
    return worth


def _with_ports(
    model: Model, owners: IntArray, requests: FloatArray, names: Sequence[str], jobs: IntArray | None
) -> Model:
    """The model with other ports, each joined with the instances of its owner in the first."""
    graph = model.graph
    edges = [
        np.stack([np.full(there.size, port), there], axis=1)
        for port, owner in enumerate(owners)
        for there in (graph.instance[model.edges_of(int(owner))].astype(np.int64),)
    ]
    return build_model(
        np.concatenate(edges),
        requests,
        graph.capacity.T,
        utilities=graph.kinds.T,
        alphas=graph.alphas.T,
        beta=graph.beta,
        request=model.request,
        ports=names,
        instances=model.instances,
        resources=model.resources,
        jobs=jobs,
    )
